"""A choice at once, for programs that keep running: models and weights are loaded once, lists come one after another.

    rescorer = Rescorer("tta", "weights.json")
    rescorer.choose(nbest).text

The stages are those of the pipeline, so a choice is the one that `rescore score` and `rescore rerank` make.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import cast

from rescore import api, pipeline
from rescore.config import RunConfig
from rescore.decision.confidence import Word, networks
from rescore.decision.rules import combine
from rescore.errors import UserError
from rescore.lms import LanguageModel, column_name, each, origin, with_own_columns
from rescore.lms.base import capabilities_of
from rescore.metrics.normalise import EXACT
from rescore.nbest import EDITS, FIRST_PASS, TOKENS, WORDS, NbestList
from rescore.tuning import Weights, suited
from rescore.tuning.calibration import UNCALIBRATED, Calibration, calibrate
from rescore.tuning.weights import misfit

Given = str | LanguageModel | api.Scorer
"""A language model: its name as `rescore.load` takes it, a model, or a function of sentences."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The decision about one list."""

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
        lm: Given | Sequence[Given],
        weights: Weights | Mapping[str, float] | float | str | Path,
        config: RunConfig | None = None,
        dev: Iterable[NbestList] = (),
    ) -> None:
        """
        Args:
            lm: one or several; each as `rescore.score` takes it.
            weights: as `rescore.rerank` takes them, or the path of a file that `rescore tune` wrote.
            config: decision, metric and recombination, where they are not the defaults of `rescore rerank`.
            dev: scored lists with references on which the confidences of words are calibrated, as by `rescore
                confidence --dev`; without such lists confidences are posteriors as they are.

        Raises:
            UserError: a model or the weights cannot be loaded, a column that has a weight comes from none of the models
                or from another one than that whose scores the weights were tuned on, or the weights need respelled
                lists.
        """
        given: Sequence[Given] = lm if isinstance(lm, (list, tuple)) else [cast(Given, lm)]
        named = api.as_models(given)
        if isinstance(weights, (str, Path)):
            weights = Weights.load(Path(weights))
        elif isinstance(weights, (int, float)):
            if len(named) != 1:
                raise UserError(f"one number is the weight of one LM, but there are {len(named)}; give a dictionary")
            weights = Weights.interpolation({named[0].name: float(weights)}, "given")
        self.weights = api.as_weights(weights, [])
        config = config or RunConfig()
        norm = config.norm or _norm(named, self.weights)
        self._config = replace(config, norm=norm)
        models = _with_columns_of(self.weights, named, norm, given)
        self.lms = self._config.with_selections(models, specs=api.specs_of(given), tuned=self.weights.columns)
        # Lists are expanded before they are scored, not again before the decision.
        self._deciding = replace(self._config, recombine=0, respell=0, propose=None)
        self._lock = threading.Lock()
        self._check()
        self.calibration = self._calibration(api.checked_lists("Rescorer", dev))

    def _check(self) -> None:
        if self._config.respell or self._config.propose or self._weighs(EDITS):
            raise UserError(
                "these weights were tuned with respelled or proposed hypotheses, which only `rescore run` and `rescore "
                "score` add; tune weights without --respell and --propose"
            )
        norm = str(self._config.norm)
        columns = {column_name(lm, norm): origin(lm, norm) for lm in self.lms}
        if (fault := misfit(self.weights, columns)) and not self._config.force_weights:
            raise UserError(fault)
        missing = [name for name in self.weights.columns if self._needs(name) and name not in columns]
        if missing:
            loaded = ", ".join(columns) or "none"
            raise UserError(f"the weights need the column {missing[0]}; models give {loaded}; give its --lm as well")

    def _needs(self, name: str) -> bool:
        """Whether a column that has a weight comes from a language model."""
        column = self.weights.columns[name]
        return name not in (FIRST_PASS, WORDS, TOKENS) and not column.is_component and self._weighs(name)

    def _weighs(self, name: str) -> bool:
        """Whether a column has a weight, under any condition."""
        every = self.weights.conditions.values() or [self.weights.weights]
        return any(weights.get(name) for weights in every)

    def _calibration(self, dev: list[NbestList]) -> Calibration:
        if not dev:
            return UNCALIBRATED
        suited(self.weights, dev, self._config.force_weights)
        metric = self._config.metric(dev, self.weights)
        if metric.words is None:
            raise UserError(f"{metric.name} has no word errors; confidences cannot be calibrated under it")
        texts = self._config.decision(self.weights).texts(metric, dev, self.weights.of)
        return calibrate(dev, texts, self.weights, metric.words)

    def choose(self, nbest: NbestList | Sequence[str]) -> Choice:
        """The decision about one list, or about texts, the most probable first.

        Raises:
            UserError: the list lacks a column or a source text that is needed.
        """
        return self.choose_all([nbest])[0]

    def choose_all(self, lists: Iterable[NbestList | Sequence[str]]) -> list[Choice]:
        """The decision about each list; their hypotheses are scored together."""
        every = api.checked_lists("Rescorer.choose_all", lists, texts=True)
        return self.decide(self.score([every])[0])

    def score(self, sets: Sequence[Sequence[NbestList]]) -> list[list[NbestList]]:
        """Each set of lists with the models' columns. Sets are scored together and do not know of each other."""
        with self._lock:
            if any(capabilities_of(lm).context != (0, 0) for lm in self.lms):  # the lists of a set are neighbours
                return [self._scored(some) for some in sets]
            scored = iter(self._scored([nbest for some in sets for nbest in some]))
            return [list(islice(scored, len(some))) for some in sets]

    def _scored(self, lists: Sequence[NbestList]) -> list[NbestList]:
        return list(pipeline.score(pipeline.expand(lists, self._config), self.lms, self._config))

    def decide(self, scored: Sequence[NbestList]) -> list[Choice]:
        """The decision about each list that has its columns."""
        return [
            Choice(text, nbest, tuple(combine(nbest, self.weights.of).tolist()))
            for nbest, text in pipeline.rerank(scored, self.weights, self._deciding)
        ]

    def confidences(self, choice: Choice, alternatives: int = 0) -> list[Word]:
        """The words of the chosen text, each with the probability that it is right; see `calibrated`.

        Args:
            alternatives: number of other words in each place, at most.
        """
        normaliser = self._config.metric([choice.nbest], self.weights).words or EXACT
        network = networks([choice.nbest], [choice.text], self.weights.of, normaliser)[0]
        return self.calibration.words(network, alternatives)

    @property
    def calibrated(self) -> bool:
        """Whether confidences were calibrated on dev lists."""
        return self.calibration is not UNCALIBRATED


def _with_columns_of(
    weights: Weights, lms: Sequence[LanguageModel], norm: str, given: Sequence[Given]
) -> list[LanguageModel]:
    """The models, each with a column of its own: called after their folders, as the command line calls them, or
    numbered, as Python does; as more of the columns have weights."""
    specs = [spec for spec in given if isinstance(spec, str)]
    ways = [with_own_columns(lms, norm, specs=each(specs)), with_own_columns(lms, norm)]
    return max(ways, key=lambda way: sum(column_name(lm, norm) in weights.weights for lm in way))


def _norm(lms: Sequence[LanguageModel], weights: Weights) -> str:
    """The normalisation that the columns of the weights have."""
    for lm in lms:
        for name in weights.weights:
            norm = name.removeprefix(f"{lm.name}.")
            if norm != name and (norm == "mean" or norm.startswith("length^")):  # else it names one of several models
                return norm
    return "sum"
