"""The record of an experiment: its figures, as a results file holds them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from msgspec import Meta

from rescore.columns import Column
from rescore.errors import counted
from rescore.metrics.base import is_better
from rescore.reports.figures import SIGNIFICANT, MeasuredRow, baseline_of
from rescore.reports.groups import Groups
from rescore.signature import Conditions
from rescore.tuning.record import Tuning
from rescore.tuning.weights import Weights


def described(text: str) -> Any:
    """A field's description, which the JSON schema has, too."""
    return Meta(description=text)


def rate(text: str) -> Any:
    """The description of a figure that a results file may have as null: an error rate
    of empty references is not defined (NaN).
    """
    return Meta(description=text, extra_json_schema={"type": ["number", "null"]})


OUTPUTS = ("first_pass", "oracle", "reranked")
"""What is measured of each list: the first pass's best, the best of all, and the text
that was chosen.
"""


@dataclass(frozen=True, slots=True)
class Test:
    """A test of the chosen texts."""

    against: str
    """What the texts are compared with."""
    p_value: float | None
    """The two-sided p-value; None for no test."""
    is_worse: bool
    """Whether the chosen texts are significantly worse."""


@dataclass(slots=True)
class MetricResult:
    """The texts of a run under one metric."""

    metric: Annotated[str, described("Name of the metric.")]
    higher_is_better: Annotated[
        bool, described("Whether a higher value is the better one.")
    ]
    first_pass: Annotated[
        float,
        rate("The metric of the first pass, in percent; null if it is not defined."),
    ]
    oracle: Annotated[
        float,
        rate(
            "The metric of the best hypothesis of each list under this metric, in"
            " percent; null if it is not defined."
        ),
    ]
    reranked: Annotated[
        float,
        rate(
            "The metric of the texts that were chosen, in percent; null if it is not"
            " defined."
        ),
    ]
    p_value: Annotated[
        float | None,
        described(
            "Two-sided p-value of the difference between reranked and first pass."
        ),
    ]
    counts: Annotated[
        dict[str, dict[str, int | float]],
        described("Counts behind first_pass, oracle and reranked."),
    ]
    sentence_errors: Annotated[
        dict[str, int],
        described(
            "For first_pass, oracle and reranked: utterances with an error (WER and CER"
            " only)."
        ),
    ]
    intervals: Annotated[
        dict[str, tuple[float, float]],
        described("95 % confidence intervals, by bootstrap."),
    ]
    signature: Annotated[str, described("All that is needed to get the figures again.")]
    conditions: Annotated[
        Conditions,
        described("How the metric was measured: what signature says beside choice."),
    ]
    own_oracle: Annotated[
        float | None,
        described(
            "The oracle of the toolkit's own hypotheses, if an expansion changed the"
            " oracle."
        ),
    ] = None
    mean_of_samples: Annotated[
        MeasuredRow | None,
        described(
            "The mean of all hypotheses, where a metric takes each text as one answer"
            " (exact)."
        ),
    ] = None
    best_system: Annotated[
        MeasuredRow | None,
        described(
            "The figures of the best of several systems; its p_value is against"
            " reranked."
        ),
    ] = None

    systems: Annotated[
        list[MeasuredRow], described("Each of several systems, alone.")
    ] = field(default_factory=list)
    equal_votes: Annotated[
        MeasuredRow | None,
        described("The same decision with equal votes; p_value is against reranked."),
    ] = None
    votes: Annotated[
        str | None, described("What tables call reranked, of several systems.")
    ] = None
    first_output: Annotated[
        str | None,
        described("What tables call first_pass, of outputs of `rescore eval`."),
    ] = None

    @property
    def is_defined(self) -> bool:
        """Whether there is anything to measure: an error rate of empty references is
        not defined.
        """
        return math.isfinite(self.first_pass) and math.isfinite(self.reranked)

    @property
    def certain(self) -> bool:
        """Whether the reranked texts differ significantly from the first pass."""
        return self.p_value is not None and self.p_value < SIGNIFICANT

    @property
    def is_worse(self) -> bool:
        """Whether the reranked texts are significantly worse than the first pass."""
        return self.certain and is_better(
            self.first_pass, self.reranked, self.higher_is_better
        )

    @property
    def baseline(self) -> str:
        """The first pass as tables name it; of outputs it is the first output."""
        if self.first_output is not None:
            return self.first_output
        return baseline_of(self.shows_systems)

    @property
    def test(self) -> Test:
        """The test that tables show of the chosen texts: of several systems against the
        best one, else against the first pass.
        """
        best = self.best_system
        if self.shows_systems and best is not None:
            return self._test(f"{best.name} alone", best.value, best.p_value)
        return self._test(self.baseline, self.first_pass, self.p_value)

    def untested(self) -> MetricResult:
        """Return the figures without the p-value that tables show."""
        best = self.best_system
        if best is not None:
            best = replace(best, p_value=None)
        return replace(self, p_value=None, best_system=best)

    def _test(self, against: str, before: float, p_value: float | None) -> Test:
        """Return the test of the chosen texts against others."""
        certain = p_value is not None and p_value < SIGNIFICANT
        is_worse = is_better(before, self.reranked, self.higher_is_better)
        return Test(against, p_value, certain and is_worse)

    @property
    def method(self) -> str | None:
        """What tables call the chosen texts of several systems; None for one system."""
        return self.votes

    @property
    def shows_systems(self) -> bool:
        """Whether the figures have rows of several systems."""
        return self.votes is not None

    def row(self, output: str) -> MeasuredRow:
        """One of `OUTPUTS`."""
        return MeasuredRow(
            name=self.baseline if output == "first_pass" else output,
            metric=self.metric,
            value=getattr(self, output),
            counts=self.counts[output],
            interval=self.intervals.get(output),
            p_value=self.p_value if output == "reranked" else None,
            signature=self.signature,
            wrong=self.sentence_errors.get(output),
        )


SCHEMA = "rescore/results/4"
"""The schema of a results file; the number changes where old readers would fail."""


@dataclass(slots=True, repr=False)
class Record:
    """The fields of a results file: the figures of one run. Figures of a metric are
    None or empty where the lists have no references.
    """

    utterances: Annotated[int, described("Number of test lists.")]
    hypotheses: Annotated[int, described("Number of hypotheses in the test lists.")]
    choice: Annotated[
        Weights,
        described(
            "What decided: weights, origins that may not win, decision, votes; and"
            " under tuning where they come from."
        ),
    ]
    signature: Annotated[str, described("All that is needed to get the figures again.")]
    schema: Annotated[str, described("Format and version of this file.")] = SCHEMA
    dataset: Annotated[str | None, described("Name of the test lists in tables.")] = (
        None
    )
    system: Annotated[str | None, described("Name of the output in tables.")] = None
    columns: Annotated[
        dict[str, Column], described("The models that gave the columns.")
    ] = field(default_factory=dict)
    metrics: Annotated[
        list[MetricResult],
        described("Figures of each metric; weights are tuned for the first metric."),
    ] = field(default_factory=list)
    ref_words: Annotated[
        int | None, described("Number of words in the (first) references.")
    ] = None
    references: Annotated[
        str | None, described("Number of references, and a hash of their texts.")
    ] = None
    dev: Annotated[
        list[MetricResult],
        described("Figures of the dev lists, for tables with both sets."),
    ] = field(default_factory=list)
    on_tuning_lists: Annotated[
        bool, described("Whether the weights were tuned on the test lists themselves.")
    ] = False
    changed: Annotated[
        int,
        described("Number of utterances whose text differs from the first pass."),
    ] = 0
    seconds: Annotated[
        float, described("Seconds of scoring, tuning and evaluation together.")
    ] = 0.0
    stages: Annotated[
        dict[str, float],
        described("Seconds of scoring, tuning and evaluation, by name."),
    ] = field(default_factory=dict)
    unboosted: Annotated[
        dict[str, float],
        described("Value of each metric without the bonus of listed words."),
    ] = field(default_factory=dict)
    groups: Annotated[
        Groups | None, described("Figures of groups of utterances (--by).")
    ] = None
    plan: Annotated[list[str], described("Choices of the plan, and why.")] = field(
        default_factory=list
    )

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each column of scores."""
        return self.choice.weights

    @property
    def tuning(self) -> Tuning:
        """Where the weights come from."""
        return self.choice.tuning

    @property
    def main(self) -> MetricResult | None:
        """The figures of the first metric; None where the lists have no references."""
        return self.metrics[0] if self.metrics else None

    @property
    def metric(self) -> str | None:
        """The name of the first metric."""
        return self.main.metric if self.main else None

    @property
    def baseline(self) -> str:
        """The first pass as tables name it, also where the lists have no references."""
        if self.main:
            return self.main.baseline
        return baseline_of(self.choice.mixture is not None)

    @property
    def first_pass(self) -> float | None:
        """The first metric of the first pass, in percent."""
        return self.main.first_pass if self.main else None

    @property
    def oracle(self) -> float | None:
        """The first metric of the best hypotheses, in percent."""
        return self.main.oracle if self.main else None

    @property
    def reranked(self) -> float | None:
        """The first metric of the texts that were chosen, in percent."""
        return self.main.reranked if self.main else None

    @property
    def size(self) -> str:
        """The number of lists and hypotheses, in words."""
        return (
            f"{counted(self.utterances, 'utterance')},"
            f" {counted(self.hypotheses, 'hypothesis')}"
        )
