"""Weights, where they were tuned and what for; their JSON form."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any

from rescore.columns import FIRST_PASS, Column, Role, reserved, units, unrecognised
from rescore.decision import Decision, ListWeights
from rescore.decision.mixture import Mixture
from rescore.errors import UserError
from rescore.files import parsed, read_json, write_text
from rescore.metrics import METRICS, Metric, MetricOptions
from rescore.nbest import Header, NbestList
from rescore.options import as_json, from_json
from rescore.parts import FEATURES
from rescore.tuning.tuned import Tuned, TunedBy


@dataclass(frozen=True, slots=True)
class TunedFor:
    """The metric that weights were tuned for, and how it counts: what applies them then
    measures the same way.
    """

    metric: str
    """A name of `rescore.metrics.METRICS`."""
    value: float | None = None
    """The metric on the tuning lists with these weights, in percent."""
    first_pass: float | None = None
    """The metric of their first pass, in percent."""
    utterances: int | None = None
    low: float | None = None
    """A single weight is as good from here ..."""
    high: float | None = None
    """... to here."""
    with_all: float | None = None
    """The metric with weights of all columns, in percent, where columns without a
    significant gain were left out.
    """
    settings: dict[str, Any] = field(default_factory=dict)
    """The options of the metric that are set, such as `{"split_hyphens": true}`; a file
    by its path and digest.
    """

    @classmethod
    def by(
        cls, metric: Metric, value: float, first_pass: float, utterances: int
    ) -> TunedFor:
        """A metric with all its options, and its values."""
        return cls(
            metric.name.lower(),
            value,
            first_pass,
            utterances,
            settings=as_json(metric.options),
        )

    @property
    def options(self) -> MetricOptions:
        """The options from which the same metric is made again.

        Raises:
            UserError: the metric has no such option, or a file is absent or changed.
        """
        try:
            options = from_json(METRICS[self.metric].Options, self.settings)
        except UserError as error:
            raise UserError(f"weights tuned for {self.metric}: {error}") from None
        return MetricOptions.of_part(options)


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """How weights are tuned. They travel with the weights, so that every report shows
    what was done.
    """

    bonuses: tuple[str, ...] = ()
    """The columns whose weights are bonuses (`rescore.columns.units`)."""
    bagging: bool = True
    """Weights that are averaged and significantly better (`search.bagged`), not the
    plain optimum of the lists.
    """
    negative: tuple[str, ...] = ()
    """LM columns whose weights have no bounds, as that of an internal LM which is
    subtracted (density ratio).
    """
    decide: Decision = field(default_factory=Decision)
    """The decision that is tuned for: its scale, where it needs one and has none, is
    tuned as well.
    """
    folds: int | None = None
    """Into how many parts the lists were cut, each decided with weights of the others;
    None where they were not.
    """
    speaker: str | None = None
    """Where an id has its speaker, whom a fold keeps whole."""
    given: dict[str, float] = field(default_factory=dict)
    """Bonuses that a user gives; the other weights are tuned beside them."""


@dataclass(frozen=True, slots=True)
class Unproven:
    """The weights whose gain was tested and is not significant, so that the first pass
    decides alone.
    """

    weights: dict[str, float]
    value: float
    """The metric with these weights, in percent."""
    low: float
    """Their gain less two standard errors (the lower end of the 95 % confidence
    interval), in points; 0 at most ...
    """
    high: float
    """... and the upper end."""
    alone: float | None = None
    """The metric of the decision with first-pass scores alone, in percent; the gain is
    over this value.
    """


@dataclass(frozen=True, slots=True)
class FoldWeights:
    """What one fold was decided with; as the fields of `Weights`."""

    weights: dict[str, float]
    excluded: tuple[str, ...] = ()
    """Origins of hypotheses that could not win, such as `respelled`."""
    mixture: Mixture | None = None


SCHEMA = "rescore/weights/2"
HELD_OUT = "the other folds"
"""Where the weights of one fold were tuned."""


@dataclass(frozen=True, slots=True, repr=False)
class Weights:
    """One weight a column of scores, where they come from, and how they are used to
    decide.
    """

    weights: dict[str, float]
    tuned: Tuned = field(default_factory=Tuned)
    """Where they come from."""
    columns: dict[str, Column] = field(default_factory=dict)
    """Which model gave each column, where they were tuned."""
    tuned_for: TunedFor | None = None
    decision: Decision = field(default_factory=Decision)
    excluded: frozenset[str] = frozenset()
    """Hypotheses of these origins may not win, nor vote."""
    options: TuningOptions | None = None
    """How they were tuned; None where they were given."""
    unproven: Unproven | None = None
    """The best weights, where these are 0 because no gain was significant."""
    fold_weights: tuple[FoldWeights, ...] = ()
    """What each fold was decided with, where the lists were cut into folds."""
    mixture: Mixture | None = None
    """The votes of the systems of the lists; None for lists of one system."""
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        """
        Raises:
            UserError: a weight is no number.
        """
        for name, weight in self.weights.items():
            if not isinstance(weight, Real) or not math.isfinite(weight):
                raise UserError(
                    f"weight of {name} is {weight!r}, not a number; give a number or"
                    " tune again"
                )
        plain = {
            name: weight if isinstance(weight, int) else float(weight)
            for name, weight in self.weights.items()
        }
        # JSON cannot hold other real numbers, such as NumPy's
        object.__setattr__(self, "weights", plain)

    @property
    def language_models(self) -> list[str]:
        """The columns that language models gave."""
        others = {FIRST_PASS, *units()}
        return [name for name in self.weights if name not in others]

    @property
    def value(self) -> float:
        """The metric on the lists that they were tuned on, in percent; NaN where they
        were not tuned.
        """
        known = self.tuned_for.value if self.tuned_for else None
        return math.nan if known is None else known

    def without(self, name: str) -> Weights:
        """The same weights, without a column."""
        return replace(self, weights={**self.weights, name: 0.0})

    def weighs(self, name: str) -> bool:
        """Whether a column has a weight."""
        return bool(self.weights.get(name))

    def regards(self, name: str) -> bool:
        """Return whether a column has a weight, or has none because its bonus has no
        significant gain.
        """
        tuned = self.options is not None and name in self.options.bonuses
        return tuned or self.weighs(name)

    def __repr__(self) -> str:
        """One line: the rest is in the fields."""
        named = ", ".join(
            f"{name} {weight:.4g}" for name, weight in self.weights.items()
        )
        return f"<Weights: {named} ({self.tuned})>"

    @property
    def exclusions(self) -> tuple[str, ...]:
        """`excluded` for signatures."""
        return tuple(sorted(self.excluded))

    @property
    def votes(self) -> dict[str, float]:
        """The votes of systems, for signatures."""
        votes = self.mixture.votes if self.mixture else {}
        return {f"vote.{name}": vote for name, vote in votes.items()}

    @property
    def of_fold(self) -> FoldWeights:
        """The record of these weights where they decided one fold."""
        return FoldWeights(self.weights, self.exclusions, self.mixture)

    def of(self, nbest: NbestList) -> ListWeights:
        """What decides about a list."""
        return ListWeights(self.weights, self.excluded, self.mixture)

    @classmethod
    def interpolation(
        cls,
        lm: Mapping[str, float],
        tuned: Tuned | None = None,
        bonuses: Mapping[str, float] | None = None,
    ) -> Weights:
        """(1 - sum of the LM weights) * s2s + LM weights * their columns + bonuses *
        numbers of words or tokens.

        A column among the bonuses is one whose weight has no bounds.

        With one LM that is the combination of the paper (section 5.3).

        Raises:
            UserError: a weight is negative, or the LM weights add up to more than 1.
        """
        total = math.fsum(lm.values())
        for weight in lm.values():
            if not (math.isfinite(weight) and 0 <= weight <= 1):
                raise UserError(f"weight {weight} is not between 0 and 1")
        if total > 1 + 1e-9:
            raise UserError(
                f"the weights of the language models add up to {total:g}; they may add"
                " up to 1 at most"
            )
        weights = {FIRST_PASS: max(0.0, 1 - total), **lm}
        known = reserved()
        for name, bonus in (bonuses or {}).items():
            column = known.get(name)
            if not math.isfinite(bonus):
                what = f"{column.unit} bonus" if column else f"weight of {name}"
                raise UserError(f"{what} {bonus} is not a number")
            if bonus or column is None or column.comes_with_hypotheses:
                weights[name] = bonus
        return cls(weights, tuned or Tuned())

    def to_json(self) -> str:
        # sets
        return json.dumps(
            asdict(self), indent=2, ensure_ascii=False, allow_nan=False, default=sorted
        )

    def save(self, path: Path) -> None:
        write_text(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: Path) -> Weights:
        """Read a weights file.

        Raises:
            UserError: it is absent, no weights file, or has a weight that is no number.
        """
        values = read_json(path)
        if (
            not isinstance(values, dict)
            or not isinstance(values.get("weights"), dict)
            or not values["weights"]
        ):
            raise UserError(
                f'{path}: no "weights"; expected a file that `rescore tune` wrote'
            )
        if values.get("schema", SCHEMA) != SCHEMA:
            raise UserError(
                f"{path}: schema is {values['schema']!r}, not {SCHEMA!r}; tune again"
                " with this version"
            )
        given = asdict(Tuned(source=str(path)))
        return parsed({"tuned": given} | values, cls, str(path))


FIRST_PASS_ALONE = Weights({FIRST_PASS: 1.0}, Tuned(TunedBy.FIRST_PASS))
"""No language model."""


def suited(
    weights: Weights, lists: Iterable[NbestList], force: bool = False
) -> Weights:
    """The weights, if they were tuned on scores of the models that gave the columns of
    these lists.

    A column whose model is not recorded, in the lists or with the weights, is taken as
    it is; so is another precision.

    Args:
        force: return weights of another model, too, which their signature then says.

    Raises:
        UserError: a column comes from another model, or has another norm.
    """
    last = None
    for nbest in lists:
        if nbest.header.columns is last:  # the lists of a file share one record
            continue
        last = nbest.header.columns
        fault = misfit(weights, last)
        if fault and not force:
            raise UserError(f"utterance {nbest.id}: {fault}")
        if fault:
            return replace(weights, tuned=replace(weights.tuned, forced=True))
    return weights


def misfit(weights: Weights, columns: Mapping[str, Column]) -> str | None:
    """Why weights do not suit columns: the first that comes from another model, or has
    another norm.
    """
    if weights.mixture and set(systems := Header(columns=columns).systems) != set(
        weights.mixture.votes
    ):
        return (
            f"the weights are votes of {', '.join(weights.mixture.votes)}, but the"
            f" systems of these lists are {', '.join(systems) or 'unknown'}; combine"
            " the same systems, with the same --name"
        )
    for name, tuned in weights.columns.items():
        scored = columns.get(name)
        if scored is None:
            continue
        # its norm is the lexicon, which may differ by set, as the words of --words do
        if tuned.role is Role.FREE:
            if scored.fingerprint != tuned.fingerprint:
                return (
                    f"column {name} comes from the channel {scored.fingerprint}, but"
                    f" the weights were tuned with the channel {tuned.fingerprint};"
                    " give that --channel, tune again, or go on with --force-weights"
                )
        elif scored.fingerprint != tuned.fingerprint or scored.norm != tuned.norm:
            return (
                f"column {name} comes from {scored.short}, but the weights were tuned"
                f" on scores of {tuned.short}; tune again, score with that model, or go"
                " on with --force-weights"
            )
    return None


def bonus_phrases(
    weights: Mapping[str, float], digits: str, excluded: Collection[str] = ()
) -> list[str]:
    """Bonuses as tables and summaries have them, such as `+0.25 a word`; `digits`
    formats a number.

    Args:
        excluded: origins of hypotheses that may not win.
    """
    phrases = [
        f"{weights[name]:{digits}} a {unit}"
        for name, unit in units().items()
        if name in weights
    ]
    phrases += [f"nothing {origin}" for origin in unrecognised() if origin in excluded]
    return phrases


def notes(
    every: Sequence[Mapping[str, float]],
    columns: Mapping[str, Column],
    with_all: float | None = None,
    value: float | None = None,
) -> Iterator[str]:
    """What weights of columns have that a person does not expect.

    Args:
        every: the weights that decided, of each fold where there are folds. with_all,
            value: as in `TunedFor`.
    """
    models = [name for name, column in columns.items() if column.role is Role.LM]
    useless = [
        name for name in models if not any(weights.get(name) for weights in every)
    ]
    if useless and any(
        weights[name] for weights in every for name in weights if name != FIRST_PASS
    ):
        known = with_all is not None and value is not None
        names = ", ".join(useless)
        figures = (
            f" ({with_all:.2f} with all columns, {value:.2f} with those that stay)"
            if known
            else ""
        )
        yield (
            f"{names}: weight 0, no significant gain beside the other columns on the"
            f" tuning lists{figures}"
        )
    for _, feature in FEATURES.loaded():
        yield from feature().notes(every)


def named_weights(weights: Mapping[str, float], excluded: Collection[str] = ()) -> str:
    """The weights of the models, the bonuses and what may not win, in one phrase."""
    others = {FIRST_PASS, *units()}
    parts = [
        f"{name} {weight:.4g}" for name, weight in weights.items() if name not in others
    ]
    return ", ".join(parts + bonus_phrases(weights, "+.4g", excluded))
