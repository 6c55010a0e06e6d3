"""Answers at once, for programs that keep running: models and weights are loaded once,
lists come one after another.

    rescorer = Rescorer("tta", "weights.json")
    rescorer.choose(nbest).text

The choice is the one that `rescore score` and `rescore rerank` make: the same plan,
executed by the same stages.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, cast

from rescore import border, parts, pipeline
from rescore.asked import ROADS, Call, check_call, checked
from rescore.columns import (
    FIRST_PASS,
    SUM,
    TOKENS,
    WORDS,
    Column,
    Role,
    advice,
    comes_from_expansion,
    reserved_columns,
)
from rescore.config import FEATURE, RunConfig
from rescore.dataset import NO_LISTS, Dataset
from rescore.decision import combine, sorted_by_score
from rescore.errors import UserError
from rescore.lms import LanguageModel, capabilities_of, load, record_of
from rescore.lms.backends import shipped
from rescore.nbest import Header, NbestList
from rescore.parts import CONFIDENCES, KINDS
from rescore.plan import Plan, resolve
from rescore.tuning import Weights, suited
from rescore.tuning.weights import misfit

Model = str | LanguageModel | border.Scorer
"""A language model: its name as `rescore.load` takes it, a model, or a function of
sentences.
"""


class Word(Protocol):
    """A word of a chosen text."""

    @property
    def text(self) -> str: ...

    @property
    def confidence(self) -> float:
        """The probability that it is right."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was chosen for one list."""

    text: str
    """The chosen text."""
    nbest: NbestList
    """The list with its new columns, best hypothesis first."""
    totals: tuple[float, ...]
    """The combined score of each of its hypotheses, natural log."""


class Rescorer:
    """Language models and weights, loaded once, that choose a text for each list.

    Several threads may call the same `Rescorer`; their calls run one after another.
    """

    def __init__(
        self,
        lm: Model | Sequence[Model],
        weights: Weights | Mapping[str, float] | float | str | Path,
        config: RunConfig | None = None,
        dev: Iterable[NbestList] = (),
    ) -> None:
        """Load models and weights.

        Args:
            lm: One model or several; each as `rescore.score` takes it.
            weights: As `rescore.rerank` takes them, or the path of a file that `rescore
                tune` wrote.
            config: Decision, metric and expansions, where they are not the defaults of
                `rescore rerank`.
            dev: Scored lists with references on which the confidences of words are
                calibrated, as by `rescore confidence --dev`; without such lists
                confidences are posteriors as they are.

        Raises:
            UserError: A model or the weights cannot be loaded, a column that has a
                weight comes from none of the models or from another model than the
                weights were tuned with, or hypotheses lack something that the weights
                need.
        """
        models: Sequence[Model] = (cast(Model, lm),)
        if isinstance(lm, (list, tuple)):
            models = lm
        self._loaded = border.as_models(models)
        self._specs = border.specs_of(models)
        self._config = config or RunConfig()
        if isinstance(weights, (str, Path)):
            weights = Weights.load(Path(weights))
        self._tuned: Weights | None = None
        if isinstance(weights, (int, float)):
            self._give(float(weights))
        else:
            self._tuned = border.as_weights(weights, NO_LISTS)
            self._rename_models(self._tuned)
        self._check_config()
        self._plans: dict[tuple[bool, bool], Plan] = {}
        self._lock = threading.Lock()
        dev_lists = border.checked_lists("Rescorer", dev)
        self._check(self._plan(dev_lists))
        self._calibration = self._calibrate(dev_lists) if dev_lists else None

    def _give(self, weight: float) -> None:
        """Take the weight of the only model.

        Raises:
            UserError: There are more models or none.
        """
        if len(self._loaded) != 1:
            raise UserError(
                "one number is the weight of one LM, but there are"
                f" {len(self._loaded)}; give a dictionary"
            )
        self._config = replace(self._config, weights=(weight,))

    def _rename_models(self, tuned: Weights) -> None:
        """Give models the names that they had where weights were tuned."""
        free: dict[str, list[str]] = {}
        for name, column in tuned.tuning.columns.items():
            if column.role is Role.LM:
                free.setdefault(column.fingerprint, []).append(name)
        unnamed = []
        for place, model in enumerate(self._loaded):
            own = free.get(model.fingerprint, [])
            if model.name in own:
                own.remove(model.name)
            elif own:
                unnamed.append(place)
        for place in unnamed:
            model = self._loaded[place]
            own = free[model.fingerprint]
            if own:
                renamed = copy(model)  # the caller's model keeps its name
                renamed.name = own.pop(0)
                self._loaded[place] = renamed

    def _check_config(self) -> None:
        """Refuse fields of the config that have no meaning here.

        Raises:
            UserError: There is such a field.
        """
        if self._config.checked_for:
            return
        call = Call.of_config(ROADS["serve"], self._config)
        if self._tuned is None:
            names = {"weights", "word_bonus", "token_bonus", "boost"}
            for name in self._config.weighing.values:
                if call.options[name].title == FEATURE:
                    names.add(name)
            given = {name: call.given[name] for name in call.given.keys() - names}
            call = replace(call, given=given)
        check_call(call)
        self._config = checked(call.road, self._config)

    @property
    def weights(self) -> Weights:
        """The weights that decide, with the decision that was asked for."""
        plan = self._plan(NO_LISTS)
        return plan.applied(plan.weights)

    @property
    def lms(self) -> Sequence[LanguageModel]:
        """The language models."""
        return self._plan(NO_LISTS).models

    def _plan(self, lists: Dataset) -> Plan:
        """Return the plan for lists; it depends on whether they are ranked by means,
        and whether they are translations.
        """
        means = lists.header.scores_are_means
        translates = lists.are_translations
        traits = means, translates
        if traits not in self._plans:
            loaded = self._loaded
            self._plans[traits] = resolve(
                self._config,
                load=lambda: loaded,
                specs=self._specs,
                weights=self._tuned,
                requests=Header(translates=translates, scores_are_means=means),
            )
        return self._plans[traits]

    def _check(self, plan: Plan) -> None:
        columns = {lm.name: record_of(lm, plan.norm) for lm in plan.models}
        for expansion in plan.expansions:
            columns |= expansion.records
        if (fault := misfit(plan.weights, columns)) and not self._config.force_weights:
            raise UserError(fault)
        for name in plan.weights.weights:
            if fault := _lacked(name, plan, columns, self._config.force_weights):
                raise UserError(fault)

    def _calibrate(self, dev: Dataset) -> Any:
        plan = self._plan(dev)
        suited(plan.weights, dev, self._config.force_weights)
        return parts.resolve(CONFIDENCES).calibrated(plan, dev)

    def choose(self, nbest: NbestList | Sequence[str]) -> Answer:
        """The answer about one list, or about texts, the most probable first.

        Raises:
            UserError: the list lacks a column or a source text that is needed.
        """
        return self.choose_all([nbest])[0]

    def choose_all(self, lists: Iterable[NbestList | Sequence[str]]) -> list[Answer]:
        """The answer about each list; their hypotheses are scored together."""
        every = border.checked_lists("Rescorer.choose_all", lists, texts=True)
        return self.decide(self.score([every])[0])

    def score(self, sets: Sequence[Dataset]) -> list[Dataset]:
        """Each set of lists with the models' columns. Sets are scored together and do
        not know of each other.
        """
        with self._lock:
            plans = [self._plan(lists) for lists in sets]
            if not plans:
                return []
            if self._read_neighbours(plans) or any(
                plan is not plans[0] for plan in plans
            ):
                pairs = zip(plans, sets, strict=True)
                return [_scored(plan, lists) for plan, lists in pairs]
            together = chain.from_iterable(sets)
            scored = iter(_scored(plans[0], together))
            return [Dataset(islice(scored, len(lists))) for lists in sets]

    def _read_neighbours(self, plans: Sequence[Plan]) -> bool:
        """Return whether a model or an expansion looks at the lists beside a list,
        which are the lists of its set.
        """
        if any(capabilities_of(lm).context != (0, 0) for lm in self.lms):
            return True
        expansions = chain.from_iterable(plan.expansions for plan in plans)
        return any(expansion.reads_neighbours for expansion in expansions)

    def decide(self, scored: Dataset) -> list[Answer]:
        """The answer about each list that has its columns."""
        plan = self._plan(scored)
        weights = plan.weights
        answers = []
        for nbest, text in pipeline.decide_stream(
            plan, plan.weights, scored, is_expanded=True
        ):
            by_total = sorted_by_score(nbest, weights)
            totals = tuple(combine(by_total, weights).tolist())
            answers.append(Answer(text, by_total, totals))
        return answers

    def confidences(self, answer: Answer) -> list[Word]:
        """The words of the chosen text, each with the probability that it is right; see
        `calibrated`.
        """
        plan = self._plan(Dataset([answer.nbest]))
        words: list[Word] = parts.resolve(CONFIDENCES).words_of(
            plan, answer.nbest, answer.text, self._calibration
        )
        return words

    @property
    def calibrated(self) -> bool:
        """Whether confidences were calibrated on dev lists."""
        return self._calibration is not None


def _scored(plan: Plan, lists: Iterable[NbestList]) -> Dataset:
    return Dataset(pipeline.score(plan, pipeline.expand(plan, lists)))


def _lacked(
    name: str, plan: Plan, brought: Collection[str], is_forced: bool
) -> str | None:
    """Return the error about a column that the weights of a plan need and nothing can
    bring; None for other columns.

    Requests bring scores of the toolkit, and columns of weights that were not tuned.

    Args:
        name: The column.
        plan: The plan.
        brought: The columns that models and expansions bring.
        is_forced: Whether the user says that requests bring columns without a model.
    """
    column = plan.weights.tuning.columns.get(name)
    if not plan.weights.weighs(name) or name in (FIRST_PASS, SUM, WORDS, *brought):
        return None
    if name == TOKENS and plan.counted:
        return None
    need = f"the weights need the column {name}"
    if name != TOKENS and (
        name in reserved_columns() or comes_from_expansion(name, column)
    ):
        return f"{need}; {advice(name)}"
    if column is None and plan.weights.tuning.metric is None:
        return None
    is_own = column is None and name != TOKENS
    if is_own and is_forced:
        return None
    if column is not None and column.is_component:
        return None
    models = f"models give {', '.join(brought) or 'none'}"
    if name == TOKENS:
        models = "no model counts tokens"
    message = (
        f"{need}; {models}; give --lm {_named_in(column)} as well (in Python, this"
        " model among `lm`)"
    )
    if is_own:
        message += (
            ", or tune without this column (rescore tune --column NAME); if each"
            " request brings it under scores, give --force-weights (in Python"
            " RunConfig(force_weights=True))"
        )
    return message


def _named_in(column: Column | None) -> str:
    """Return how --lm names the model that gave a column, as far as it is known."""
    if column is None:
        return "NAME"
    if column.model in KINDS:  # a shipped model, perhaps under the name of its kind
        for lm in shipped():
            if load(lm).fingerprint == column.fingerprint:
                return lm
    return f"{column.model}:PATH"
