"""Cascades: the weights by which the hypotheses are chosen that a model with the option `top=N` scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rescore.errors import UserError
from rescore.lms import LanguageModel, column_name, origin, recommended_weight
from rescore.nbest import FIRST_PASS, NbestList, score_columns
from rescore.tuning.weights import Weights, misfit


def weights_of_cascade(
    cascade: Weights, before: Sequence[LanguageModel], norm: str, heads: Sequence[NbestList], force: bool
) -> Mapping[str, float]:
    """The tuned weights of `--cascade`, if they suit the columns of the models before.

    Args:
        heads: the first list of each set. force: whether weights of other models are taken.

    Raises:
        UserError: the weights depend on a condition, or were tuned on scores of other models.
    """
    if cascade.condition is not None:
        raise UserError("--cascade: weights by condition cannot choose hypotheses; tune without --condition")
    columns = {column_name(lm, norm): origin(lm, norm) for lm in before}
    for recorded in [nbest.provenance for nbest in heads] or [{}]:
        if (fault := misfit(cascade, {**recorded, **columns})) and not force:
            raise UserError(f"--cascade: {fault}")
    return cascade.weights


def weights_of_cards(
    lm: LanguageModel, before: Sequence[tuple[LanguageModel, str | None]], norm: str, heads: Sequence[NbestList]
) -> Mapping[str, float]:
    """The mean of the interpolations that the cards of the models before recommend; before the first model, the first
    pass alone.

    Args:
        lm: the model with `top=N`. before: the models before, each with its name for `--lm`. heads: the first list of
            each set.

    Raises:
        UserError: a model before has no card, or a list has scores of a model that is not among them.
    """
    cards: dict[str, float] = {}
    for other, name in before:
        if name is None:
            raise UserError(f"{lm.name}: {other.name} has no weight to choose hypotheses with; give `cascade`")
        try:
            cards[column_name(other, norm)] = recommended_weight(name)
        except UserError as error:
            raise UserError(f"--lm {lm.name}: {error}, or --cascade FILE with tuned weights") from None
    own = {column_name(other, norm) for other in (*(other for other, _ in before), lm)}
    for nbest in heads:
        if foreign := [name for name in score_columns(nbest) if name in nbest.provenance and name not in own]:
            raise UserError(
                f"--lm {lm.name}: the lists already have scores of {foreign[0]}; give the model of these scores "
                f"as --lm before {lm.name}, or give --cascade FILE with weights that choose the hypotheses"
            )
    shares = {name: weight / len(cards) for name, weight in cards.items()}
    return {FIRST_PASS: 1 - math.fsum(shares.values()), **shares}
