"""Word errors by place in the sentence and by length of the sentence.

Shin's dissertation, section 3.4.4, counts the errors of reranked texts by place to see
where the context of a bidirectional model helps (Figure 3.4). Here an error belongs to
the place of the reference word, so that the places of all outputs have equal numbers of
words; an inserted word belongs to the reference word before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.deciding import first_pass
from rescore.errors import UserError, counted
from rescore.metrics import Metric
from rescore.metrics.alignment import align
from rescore.metrics.base import aligned_outputs
from rescore.metrics.normalise import Normaliser
from rescore.metrics.texts import warn_of_texts
from rescore.pipeline import decide_stream
from rescore.plan import resolve
from rescore.reports.figures import baseline_of, sign
from rescore.reports.outputs import deciding, in_order
from rescore.research.chart import Chart, Series
from rescore.tuning import Weights

BINS = 8
"""Bins of places and lengths; the last one is open."""


class Output(NamedTuple):
    """The texts of one system."""

    name: str
    texts: Sequence[str]
    """The text of each utterance."""
    signature: str


@dataclass(frozen=True, slots=True)
class Bin:
    """The word errors of a range of places, or of references of a range of lengths."""

    low: int
    """The first place or the shortest length."""
    high: int | None
    """The last place or the greatest length; None for an open range."""
    utterances: int
    """References that have a word at such a place, or such a length."""
    words: int
    """Words of the references."""
    errors: tuple[int, ...]
    """Substitutions, deletions and insertions of each output."""
    rates: tuple[float, ...]
    """Word error rate of each output, in percent."""

    @property
    def range(self) -> str:
        """The places or lengths, such as `6-10` or `36 on`."""
        return f"{self.low} on" if self.high is None else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The errors of outputs by place and by length."""

    utterances: int
    width: int
    """Places or lengths in a bin."""
    outputs: tuple[str, ...]
    """Names of the outputs."""
    places: tuple[Bin, ...]
    lengths: tuple[Bin, ...]
    whole: Bin
    """All utterances."""
    signatures: tuple[str, ...]
    """The signature of the word error rate of each output."""

    def cells(self) -> list[list[str]]:
        """Return a row for each bin, the bins of places first."""
        rows = [["", "utterances", "words", *self.outputs]]
        rows += [_row(f"place {each.range}", each) for each in self.places]
        rows += [_row(f"length {each.range}", each) for each in self.lengths]
        rows.append(_row("all", self.whole))
        return rows

    def notes(self) -> list[str]:
        """Return what the figures are, and the signatures."""
        about = (
            f"{counted(self.utterances, 'utterance')}; WER in percent, by the place of"
            " the reference word (an inserted word counts at the word before it) and by"
            " the number of words of the reference"
        )
        return [about, *dict.fromkeys(self.signatures)]

    def charts(self) -> list[Chart]:
        """Return the word error rate over places, and over lengths."""
        place = "place of the word in the reference"
        length = "words of the reference"
        return [
            _chart("Errors by place", place, self.places, self.outputs),
            _chart("Errors by length", length, self.lengths, self.outputs),
        ]


class _Counter:
    """Counts of utterances, words and errors for each bin."""

    def __init__(self, width: int, outputs: int) -> None:
        self._width = width
        self.utterances = [0] * BINS
        self.words = [0] * BINS
        self.errors = [[0] * outputs for _ in range(BINS)]

    def bin_of(self, number: int) -> int:
        """The bin of a place or length, which counts from 1."""
        return min((number - 1) // self._width, BINS - 1)

    def bins(self) -> Iterator[Bin]:
        """The bins that have words."""
        for number in range(BINS):
            if not self.words[number]:
                continue
            low = number * self._width + 1
            last = number == BINS - 1
            high = None if last else low + self._width - 1
            yield _bin(
                low,
                high,
                self.utterances[number],
                self.words[number],
                self.errors[number],
            )


def compare_outputs(
    outputs: Sequence[tuple[str, Dataset]], config: RunConfig, width: int
) -> ErrorReport:
    """Return the word errors of several outputs for the same utterances.

    Args:
        outputs: The name of each output, and its lists with references; the first pass
            of lists counts.
        config: What was asked: the metric and its settings.
        width: Places or lengths in a bin.

    Raises:
        UserError: The metric is not WER, or outputs have other utterances or other
            references than the first output.
    """
    name, base = outputs[0]
    metric = resolve(config, base).metric
    words_of(metric)
    for _, lists in outputs:
        warn_of_texts(metric, lists)
    outputs = [(own, aligned_outputs(metric, lists)) for own, lists in outputs]
    name, base = outputs[0]
    ordered = [(own, in_order(own, lists, name, base)) for own, lists in outputs]
    shown = [_first_pass(own, metric, lists) for own, lists in ordered]
    return measure(metric, [nbest.references for nbest in base], shown, width)


def compare_weights(
    lists: Dataset,
    weights: Mapping[str, Weights],
    config: RunConfig,
    width: int,
) -> ErrorReport:
    """Return the word errors of the first pass, and of the texts under weights.

    Args:
        lists: Scored lists with references.
        weights: Weights by the name of the output.
        config: What was asked: the metric, its settings and the decision.
        width: Places or lengths in a bin.

    Raises:
        UserError: The metric is not WER, or weights do not fit the lists.
    """
    metric = resolve(config, lists, weights=next(iter(weights.values()))).metric
    words_of(metric)
    warn_of_texts(metric, lists)
    outputs = [_first_pass(baseline_of(lists.header.by_systems), metric, lists)]
    for name, own in weights.items():
        plan = resolve(config, lists, weights=own)
        texts = [text for _, text in decide_stream(plan, plan.weights, lists)]
        outputs.append(Output(name, texts, str(sign(metric, lists, own))))
    return measure(metric, [nbest.references for nbest in lists], outputs, width)


def _first_pass(name: str, metric: Metric, lists: Dataset) -> Output:
    """The first pass of lists, or 1-best texts."""
    texts = first_pass(lists).texts
    return Output(name, texts, str(sign(metric, lists, deciding([lists.have_choices]))))


def measure(
    metric: Metric,
    references: Sequence[Sequence[str]],
    outputs: Sequence[Output],
    width: int = 5,
) -> ErrorReport:
    """Return the word errors of outputs by place and by length.

    Args:
        metric: The word error rate, with its normalisation.
        references: The references of each utterance. With several references of an
            utterance, the closest to the first output counts for all outputs.
        outputs: The outputs, each with a text for each utterance.
        width: Places or lengths in a bin.

    Raises:
        UserError: The metric has no word errors, or there are no words.
    """
    normaliser = words_of(metric)
    by_place = _Counter(width, len(outputs))
    by_length = _Counter(width, len(outputs))
    all_errors = [0] * len(outputs)
    for utterance, texts in enumerate(references):
        closest = normaliser.closest(texts, outputs[0].texts[utterance])
        length = len(normaliser(closest))
        for place in range(1, length + 1):
            by_place.words[by_place.bin_of(place)] += 1
        if length:
            for reached in range(by_place.bin_of(length) + 1):
                by_place.utterances[reached] += 1
        own_bin = by_length.bin_of(max(1, length))
        by_length.words[own_bin] += length
        by_length.utterances[own_bin] += 1
        for number, output in enumerate(outputs):
            for place in error_places(normaliser, closest, output.texts[utterance]):
                by_place.errors[by_place.bin_of(place)][number] += 1
                by_length.errors[own_bin][number] += 1
                all_errors[number] += 1
    words = sum(by_length.words)
    if not words:
        raise UserError("errors: the references have no words")
    return ErrorReport(
        utterances=len(references),
        width=width,
        outputs=tuple(output.name for output in outputs),
        places=tuple(by_place.bins()),
        lengths=tuple(by_length.bins()),
        whole=_bin(1, None, len(references), words, all_errors),
        signatures=tuple(output.signature for output in outputs),
    )


def error_places(normaliser: Normaliser, reference: str, text: str) -> list[int]:
    """Return the place of each word error, from 1.

    An inserted word has the place of the reference word before it, and the place 1 at
    the beginning.
    """
    reference_words, words = normaliser.pair([reference], text)
    if reference_words == words:
        return []
    places = []
    place = 0
    for expected, heard in align(reference_words, words):
        if expected is not None:
            place += 1
        if expected != heard:
            places.append(max(place, 1))
    return places


def words_of(metric: Metric) -> Normaliser:
    """Return what counts as the words of a text.

    Raises:
        UserError: The metric is not the word error rate.
    """
    if metric.words is None or metric.unit != "word":
        raise UserError(
            f"errors: {metric.name} has no errors of words; give --metric wer"
        )
    return metric.words


def _bin(
    low: int, high: int | None, utterances: int, words: int, errors: Sequence[int]
) -> Bin:
    rates = tuple(100 * number / words for number in errors)
    return Bin(low, high, utterances, words, tuple(errors), rates)


def _row(name: str, bin_: Bin) -> list[str]:
    figures = [f"{rate:.2f}" for rate in bin_.rates]
    return [name, f"{bin_.utterances:,}", f"{bin_.words:,}", *figures]


def _chart(
    title: str, label: str, bins: Sequence[Bin], outputs: Sequence[str]
) -> Chart:
    ticks = [(float(number), each.range) for number, each in enumerate(bins)]
    series = []
    for rank, name in enumerate(outputs):
        points = [(float(x), each.rates[rank]) for x, each in enumerate(bins)]
        series.append(Series(name, points))
    return Chart(title, label, "WER in percent", series, ticks)
