"""The decision and the weights that are given instead of tuned, and what to do where
there is nothing to tune.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rescore.columns import FIRST_PASS, TOKENS, Role
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.decision import DECISIONS, Decision
from rescore.errors import UserError
from rescore.features import all_features
from rescore.lms.cards import recommended_weight, weight_spread
from rescore.tuning import FIRST_PASS_ALONE, TunedBy, Tuning, Weights

log = logging.getLogger(__name__)


def given_weights(config: RunConfig, columns: Sequence[str]) -> Weights:
    """Return the weights where nothing is tuned: as given, else the weight that the
    model's card recommends.

    Args:
        config: What was asked.
        columns: The columns of the models.

    Raises:
        UserError: There are more or fewer weights than models, a weight is out of
            range, or the card has none.
    """
    bonuses: dict[str, float] = {}
    for feature in all_features().values():
        bonuses |= feature.untuned_weights(config)
    if not (columns or config.weights):
        by = TunedBy.GIVEN if any(bonuses.values()) else TunedBy.FIRST_PASS
        return Weights.interpolation({}, Tuning(by), bonuses)
    numbers = list(config.weights)
    tuning = Tuning()
    if not numbers:
        if len(columns) > 1:
            raise UserError(
                "several --lm need --dev lists to tune on, or one --weight per --lm"
            )
        if not config.lms:
            raise UserError(
                f"{columns[0]}: neither dev lists nor a weight; give one of them"
            )
        numbers = [recommended_weight(config.lms[0])]
        tuning = Tuning(TunedBy.CARD)
    if len(numbers) != len(columns):
        raise UserError(
            f"{len(numbers)} --weight for {', '.join(columns) or 'no model'}; give one"
            " for each --lm"
        )
    lm = dict(zip(columns, numbers, strict=True))
    return Weights.interpolation(lm, tuning, bonuses)


NARROW = 3.0
"""A card's weight is not applied where scores differ less than on the lists that it was
tuned on, by more than this factor: the language model would outweigh the first pass.
Where scores differ more, the weight has less effect than it might, and does no harm.
"""


def tell_card_weight(spec: str) -> None:
    """Report that the weight of a model's card decides; warn if the card does not say
    on which scores it was tuned.

    Args:
        spec: The value of --lm.
    """
    weight = recommended_weight(spec)
    if weight_spread(spec) is not None:
        log.info("weight %g, from the model card of %s", weight, spec)
        return
    log.warning(
        "weight %g, from the model card of %s, which does not say that it was tuned on"
        " lists (weight_spread); give --dev LISTS or --folds 5 to tune it",
        weight,
        spec,
    )


def check_card_suits(config: RunConfig, lists: Dataset) -> None:
    """Raise an error if first-pass scores are unlike those that a card's weight is for.

    Args:
        config: What was asked, with one model, without a weight.
        lists: The lists that the weight will decide.

    Raises:
        UserError: The first pass is the order of the lists, has a language model
            already, or its scores differ much less within a list than where the weight
            was tuned.
    """
    spec = config.lms[0]
    instead = "give --dev LISTS, --folds 5 or --weight NUMBER"
    weight = f"the weight {recommended_weight(spec):g} of {spec}'s card"
    if lists.is_order_only:
        raise UserError(
            f"{lists.header.prefix}the first pass is the rank, not a score, and"
            f" {weight} is for log-probabilities; {instead}"
        )
    if lists.are_samples:
        raise UserError(
            f"{lists.header.prefix}the hypotheses of each list have equal first-pass"
            f" scores, and {weight} is for log-probabilities; {instead}"
        )
    tuned_on = weight_spread(spec)
    component = lists.first_pass_lm
    if component and tuned_on is not None:
        raise UserError(
            f"{lists.header.prefix}the first pass has a language model already"
            f" (column {component}), and {weight} was tuned without one; {instead}"
        )
    spread = lists.spread
    if tuned_on is None or spread is None or lists.header.scores_are_means:
        return
    if spread * NARROW < tuned_on:
        raise UserError(
            f"{lists.header.prefix}first-pass scores of a list differ by"
            f" {spread:.2g} (standard deviation), and by {tuned_on:.2g} where {weight}"
            f" was tuned; {instead}"
        )


def no_columns(name: str, lists: Dataset) -> str:
    """Return the message about lists without a language model's column.

    Args:
        name: The name of the lists.
        lists: The lists, which may have scores of the toolkit.
    """
    message = f"{name}: no column of LM scores; add one with `rescore score`"
    no_scores = (FIRST_PASS, TOKENS, *lists.columns(Role.MEASUREMENT))
    others = [column for column in lists.score_names if column not in no_scores]
    if others:
        message += (
            f", or name a column of the lists: --column {others[0]}"
            f" ({', '.join(others)})"
        )
    return message


def decision_of(config: RunConfig, weights: Weights = FIRST_PASS_ALONE) -> Decision:
    """Return the decision that was asked for; what it leaves open is as the weights
    were tuned.

    Args:
        config: What was asked.
        weights: The weights of an earlier tuning.
    """
    name = config.decide or weights.decision.name
    settings = config.deciding.as_json(DECISIONS[name].Options)
    return Decision(name, config.scale, settings).completed_by(weights.decision)
