"""The interface of metrics: statistics of each hypothesis, and values of their sums.

A metric counts each hypothesis once (errors, matching n-grams). The counts add up: the
value of a set, of a bootstrap sample or of an interval of weights is computed from the
sum over its sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.metrics.normalise import Normaliser
from rescore.nbest import NbestList
from rescore.options import Declared, NoOptions, OptionValues, settings_of

Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
PairLosses = Callable[[Places, Places], Values]
"""Takes places of choices and places of references among the texts of a list. Returns
losses of shape (choices, references).
"""


SESSION = "session"
"""What a metric reads (`Metric.reads`) that measures recordings with speakers."""


class Input(NamedTuple):
    """What a metric reads that reads more than the text (`Metric.reads`)."""

    about: str
    """The source of the hypothesis, or the id of its utterance."""
    text: str


class Metric:
    """Counts hypotheses, and computes percentages from sums of the counts.

    The statistics of a set are the sum of the statistics of its sentences.
    """

    name: str
    """The name in tables, such as WER or BLEU."""
    higher_is_better: bool = True
    unit: str
    """The unit of errors or matches: word, character, n-gram, edit."""
    options: Any
    """The options of this metric, of the class `Options`. `choose` makes the same
    metric from them.
    """
    Options: ClassVar[type[Declared]] = NoOptions
    """Declares the options of the metric for the command line, weights files and
    `MetricOptions`.
    """
    reads: str = ""
    """What the metric reads beside a text: `source`, `utterance`, or nothing if empty.
    Hypotheses are then `Input`s. A metric of `session` reads texts of recordings with
    speakers (`rescore.parts.SESSIONS`).
    """
    learned: ClassVar[bool] = False
    """Whether the metric is a trained model. Weights are not tuned for it: a trained
    model overestimates the texts that it has chosen (arXiv 2411.03524).
    """
    companion: ClassVar[str] = ""
    """A further metric that is reported by default; empty for none. It shows gains that
    tuning for the first metric does not flatter.
    """
    words: Normaliser | None = None
    """The normaliser that cuts texts into words; None for a metric without a word
    alignment.
    """
    units: Callable[[str], Sequence[str]] | None = None
    """Cuts a text into the units whose edit distance the metric counts: words or
    characters; None for other metrics. The texts of several systems estimate such a
    metric without references.
    """
    pair_losses: Callable[[Sequence[Any]], PairLosses] | None = None
    """Returns a function that compares the texts of a list with each other (`losses`);
    None if the metric has no short cut.
    """
    least_losses: Callable[[Sequence[Any]], PairLosses] | None = None
    """As `pair_losses`, with lower bounds of the losses; None unless these are faster.
    """
    undefined: ClassVar[str] = "all references are empty"
    """Why the value of a set is not defined, if it is not (`measures`)."""
    punishes_brevity: ClassVar[bool] = False
    """Whether the length of the whole set punishes short texts, like BLEU's brevity
    penalty.
    """

    def __init__(self, options: Any = None, **values: Any) -> None:
        """Make a metric.

        Args:
            options: Options of the class `Options`; None for the defaults.
            values: Values of options by name, where `options` is None.
        """
        self.options = options if options is not None else self.Options(**values)

    @classmethod
    def choose(cls, options: Any, references: Sequence[str]) -> Metric:
        """Return the metric for the references that it will see.

        Args:
            options: Options of the class `Options`.
            references: The references; empty if they are not known.

        Raises:
            UserError: The options or the references do not fit the metric.
        """
        return cls(options)

    @property
    def settings(self) -> dict[str, str]:
        """How the metric counts, for the signature: by default its options."""
        return settings_of(self.options)

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the libraries that the figures depend on, by name."""
        return {}

    @property
    def for_reports(self) -> Self:
        """The metric whose `statistics` give the figures of reports.

        A metric whose signature names a library returns a metric here that calls the
        library, where it counts all hypotheses of lists in a faster way that gives the
        same statistics. Other metrics return themselves.
        """
        return self

    def statistics(
        self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Return the sufficient statistics of hypotheses.

        Args:
            hypotheses: Texts, or `Input`s for a metric that reads more (`reads`).
            references: One or more references for each hypothesis.

        Returns:
            Counts of shape (hypotheses, k).
        """
        raise NotImplementedError

    def values(self, sums: Counts) -> Values:
        """Return the value of each of several sets.

        Args:
            sums: The summed statistics of the sets, of shape (sets, k).

        Returns:
            Percentages of shape (sets,).
        """
        raise NotImplementedError

    def measures(self, sums: Counts) -> npt.NDArray[np.bool_]:
        """Return whether the references of several sets have anything to measure.

        A rate of references without words is not defined. `values` still returns
        numbers for such a set, the errors as if there were a reference word, so that
        samples and weights can be compared; a report shows `-`.

        Args:
            sums: The summed statistics of the sets, of shape (sets, k).

        Returns:
            Flags of shape (sets,).
        """
        return np.ones(len(sums), dtype=bool)

    def said(self, text: str) -> str:
        """Return the words of a text that the metric reads, without what else the text
        has: speakers and times of a recording (`SESSION`). All else that looks at texts
        asks here.

        Args:
            text: The text of a hypothesis or of a reference.
        """
        return text

    def mismatch(self, texts: Sequence[str], references: Sequence[str]) -> str:
        """Return a sentence if texts and references are written in different ways, so
        that the metric is far too low; empty if they are not.

        Args:
            texts: Texts of hypotheses.
            references: Their references.
        """
        return ""

    def sentence_values(self, statistics: Counts) -> Values:
        """Return the value of each single sentence, smoothed where necessary.

        The oracle chooses by these values.

        Args:
            statistics: Counts of shape (hypotheses, k).

        Returns:
            Percentages of shape (hypotheses,).
        """
        return self.values(statistics)

    def losses(self, statistics: Counts) -> Values:
        """Return the loss of each sentence for minimum Bayes risk.

        Args:
            statistics: Counts of shape (hypotheses, k).

        Returns:
            Losses of shape (hypotheses,); 0 for a perfect sentence.
        """
        return 100.0 - self.sentence_values(statistics)

    def ranking_values(self, statistics: Counts) -> Values:
        """Return numbers that order the texts of an utterance: the number of errors, or
        the sentence values of a metric that counts no errors.

        Args:
            statistics: Counts of shape (hypotheses, k).

        Returns:
            Numbers of shape (hypotheses,); `orders_by_errors` says which end is better.
        """
        if self.orders_by_errors:
            return self.losses(statistics)
        return self.sentence_values(statistics)

    @property
    def orders_by_errors(self) -> bool:
        """Whether fewer errors make a text better, also if a higher value is better."""
        return self.words is not None

    def best_places(self, statistics: Sequence[Counts]) -> list[int]:
        """Return the place of the best hypothesis of each list; of equals the first.

        Args:
            statistics: Counts of shape (hypotheses, k) for each list.
        """
        lower_is_better = self.orders_by_errors or not self.higher_is_better
        best = np.argmin if lower_is_better else np.argmax
        return [int(best(self.ranking_values(rows))) for rows in statistics]

    def details(self, sums: Counts) -> dict[str, int | float]:
        """Return the counts that a report shows beside the value.

        Args:
            sums: The summed statistics of one set, of shape (k,).
        """
        return {}


class MetricOptions(OptionValues):
    """The options of metrics that are set, such as
    `MetricOptions(normaliser=Normaliser(nfkc=True), words=names)`.
    """

    @property
    def words(self) -> Any:
        """The list of words (`rescore.metrics.listed`) that BWER counts, and UWER does
        not; None without a list.
        """
        return self.values.get("words")

    def merged_with(self, options: MetricOptions) -> MetricOptions:
        """Return other options, completed by the values of this object.

        Args:
            options: The options that win where both have a value. Normalisers are
                merged: the switches of both are on.
        """
        both = self.entries | options.entries
        ours = self.values.get("normaliser")
        theirs = options.values.get("normaliser")
        if ours and theirs:
            both["normaliser"] = ours.merged_with(theirs)
        return MetricOptions(**both)


# --- statistics of lists --------------------------------------------------------------


def list_statistics(metric: Metric, lists: Sequence[NbestList]) -> list[Counts]:
    """Return the statistics of all hypotheses of lists.

    Args:
        metric: The metric.
        lists: Lists with references.

    Returns:
        Counts of shape (hypotheses, k) for each list.

    Raises:
        UserError: A list has no reference.
    """
    check_references(lists)
    # A `CachedMetric` looks up the lists that it has seen before.
    remembered = getattr(metric, "statistics_of_lists", None)
    if remembered is None:
        return _list_statistics(metric, lists)
    return list(remembered(lists, _list_statistics))


def check_references(lists: Iterable[NbestList]) -> None:
    """Raise an error if a list has no reference. An empty reference is a reference."""
    for nbest in lists:
        if not nbest.references:
            raise UserError(
                f"{nbest.title}: no reference; give a file with all of them as --ref"
            )


def check_measurable(metric: Metric, lists: Dataset, purpose: str) -> None:
    """Raise an error if all references are empty, as the metric counts them.

    Args:
        metric: The metric.
        lists: Lists with references.
        purpose: What cannot be done without references that have words.

    Raises:
        UserError: A list has no reference, or the references have nothing to measure.
    """
    if not lists:
        return
    every = np.concatenate(list_statistics(metric, lists))
    if not is_measurable(metric, every.sum(axis=0)):
        raise UserError(
            f"{lists.header.prefix}{metric.undefined}, as {metric.name} counts"
            f" them; {purpose}"
        )


def _list_statistics(metric: Metric, lists: Sequence[NbestList]) -> list[Counts]:
    """Return the statistics of all hypotheses of lists, of shape (hypotheses, k) each.

    Lists repeat hypotheses (with other scores); each text is compared once.
    """
    rows: dict[tuple[str | Input, tuple[str, ...]], int] = {}
    rows_of_lists = []
    for nbest in lists:
        own = []
        for text in metric_inputs(metric, nbest):
            own.append(rows.setdefault((text, nbest.references), len(rows)))
        rows_of_lists.append(own)
    texts = [text for text, _ in rows]
    references = [references for _, references in rows]
    statistics = metric.statistics(texts, references)
    return [statistics[own] for own in rows_of_lists]


def metric_inputs(metric: Metric, nbest: NbestList) -> list[Any]:
    """Return the `metric_input` of each hypothesis of a list."""
    texts = [hypothesis.text for hypothesis in nbest.hypotheses]
    if metric.reads in ("", SESSION):
        return texts
    return [metric_input(metric, nbest, text) for text in texts]


def metric_input(metric: Metric, nbest: NbestList, text: str) -> str | Input:
    """Return the input of a metric for one hypothesis.

    Args:
        metric: The metric.
        nbest: The list of the hypothesis.
        text: The text of the hypothesis.

    Returns:
        The text; with the source or the utterance if the metric reads these.

    Raises:
        UserError: The metric reads the source, and the list has none.
    """
    if metric.reads in ("", SESSION):
        return text
    about = nbest.source if metric.reads == "source" else nbest.id
    if about is None:
        raise UserError(
            f"utterance {nbest.id}: no source; {metric.name} compares with it"
        )
    return Input(about, text)


def text_statistics(
    metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]
) -> Counts:
    """Return the statistics of the texts that are chosen from lists.

    Args:
        metric: The metric.
        lists: Lists with references.
        texts: The text that is chosen from each list.

    Returns:
        Counts of shape (lists, k).
    """
    inputs: Sequence[Any] = texts
    if metric.reads not in ("", SESSION):
        pairs = zip(lists, texts, strict=True)
        inputs = [metric_input(metric, nbest, text) for nbest, text in pairs]
    return metric.statistics(inputs, [nbest.references for nbest in lists])


def text_value(
    metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]
) -> float:
    """Return the value of a metric, in percent, for the texts chosen from lists.

    Args:
        metric: The metric.
        lists: Lists with references.
        texts: The text that is chosen from each list.
    """
    rows = text_statistics(metric.for_reports, lists, texts)
    return value(metric, rows.sum(axis=0))


def settings_on(metric: Metric, lists: Sequence[NbestList]) -> dict[str, str]:
    """Return how a metric counts on lists, for the signature.

    A metric of sacreBLEU has its setting `nrefs`: the number of references of a list,
    or `var` if lists differ.

    Args:
        metric: The metric.
        lists: The lists; those without a reference do not count.
    """
    settings = metric.settings | _unsigned(metric)
    numbers = {len(nbest.references) for nbest in lists if nbest.references}
    if "nrefs" not in settings or not numbers:
        return settings
    number = str(min(numbers)) if len(numbers) == 1 else "var"
    return settings | {"nrefs": number}


def _unsigned(metric: Metric) -> dict[str, str]:
    """Return the options that differ from their defaults and that the settings of a
    metric leave out, as the settings of a metric of another package may.
    """
    signed = metric.settings
    further: dict[str, str] = {}
    shown = settings_of(metric.options)
    for entry in type(metric.options).declared():
        name = entry.name.replace("_", "-")
        is_usual = getattr(metric.options, entry.name) == entry.default
        if is_usual or entry.about.nested or entry.about.harmless or name in signed:
            continue
        values = {entry.name: entry.default}
        try:
            without = metric.choose(replace(metric.options, **values), ())
        except UserError:  # the metric needs the option, and so signs it
            continue
        # A metric may choose the value itself, where the option is not set.
        is_chosen = getattr(without.options, entry.name) == getattr(
            metric.options, entry.name
        )
        if without.settings == signed and not is_chosen:
            further[name] = shown.get(name, "none")
    return further


def aligned_outputs(metric: Metric, lists: Dataset) -> Dataset:
    """Return lists whose outputs have, of alternatives, those that sclite aligns with a
    reference, for the words of a metric.

    Args:
        metric: The metric; without a normaliser case does not count.
        lists: Lists with references.
    """
    normaliser = metric.words or Normaliser()
    aligned = []
    for nbest in lists:
        if not any(hypothesis.alternatives for hypothesis in nbest.hypotheses):
            aligned.append(nbest)
            continue
        hypotheses = []
        for hypothesis in nbest.hypotheses:
            if hypothesis.alternatives:
                text = normaliser.heard(nbest.references, hypothesis.alternatives)
                hypothesis = replace(hypothesis, text=text)
            hypotheses.append(hypothesis)
        aligned.append(replace(nbest, hypotheses=hypotheses))
    return lists.with_lists(aligned)


# --- values of sets -------------------------------------------------------------------


def total(statistics: Sequence[Counts], choice: Sequence[int]) -> Counts:
    """Return the summed statistics of a set with one hypothesis chosen from each list.

    Args:
        statistics: Counts of shape (hypotheses, k) for each list.
        choice: The place of the chosen hypothesis in each list.

    Returns:
        Counts of shape (k,).
    """
    chosen = []
    for rows, place in zip(statistics, choice, strict=True):
        chosen.append(rows[place])
    return np.sum(chosen, axis=0, dtype=np.int64)


def value(metric: Metric, sums: Counts) -> float:
    """Return the value of one set in percent.

    Args:
        metric: The metric.
        sums: The summed statistics of the set, of shape (k,).

    Returns:
        The value; NaN if the references have nothing to measure.
    """
    if not is_measurable(metric, sums):
        return math.nan
    return float(metric.values(sums[None])[0])


def is_measurable(metric: Metric, sums: Counts) -> bool:
    """Return whether the references of one set have anything to measure.

    Args:
        metric: The metric.
        sums: The summed statistics of the set, of shape (k,).
    """
    return bool(metric.measures(sums[None])[0])


def is_better(figure: float, other: float, higher_is_better: bool) -> bool:
    """Return whether a figure of a metric is better than another figure."""
    return figure > other if higher_is_better else figure < other


def oracle(metric: Metric, statistics: Sequence[Counts]) -> list[int]:
    """Return the place of the best hypothesis of each list; of equals the first.

    Args:
        metric: The metric, which says which texts are better.
        statistics: Counts of shape (hypotheses, k) for each list.
    """
    return metric.best_places(statistics)
