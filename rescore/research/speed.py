"""Milliseconds of a sentence by its number of words, one at a time and in batches.

The run times of the T-TA paper (section 5.2, Figures 4 to 6) and of Shin's dissertation
(section 4.4.2, Figures 4.7 to 4.9). Times are wall clock, tokenising included. Models
take turns in each repetition, so that a ratio compares times of the same moment.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from rescore.errors import UserError, counted
from rescore.lms import LanguageModel, capabilities_of, without_context
from rescore.lms.devices import choose_device, cpu_name
from rescore.research.chart import Chart, Series
from rescore.research.vectors import Embedder
from rescore.version import VERSION

Work = Callable[[Sequence[str]], object]
"""What is timed: scores or vectors of sentences."""
ALONE = "one at a time"
TOGETHER = "in batches"
WHOLE = 100
"""Percents of the whole work."""


@dataclass(frozen=True, slots=True)
class Time:
    """The time of a sentence."""

    lm: str
    words: int
    """Words of the sentence."""
    way: str
    """`one at a time` or `in batches`."""
    milliseconds: float
    """Median over repetitions, of a sentence."""
    least: float
    """Milliseconds of the fastest repetition, of a sentence."""
    ratio: float
    """Median over repetitions of the time divided by the time of the first model."""


@dataclass(frozen=True, slots=True)
class SpeedReport:
    """The speed of models on this machine."""

    what: str
    """`scores` or `vectors`."""
    machine: str
    sentences: int
    """Sentences of each length."""
    repeats: int
    models: tuple[str, ...]
    fingerprints: tuple[str, ...]
    """The content hash of each model."""
    times: tuple[Time, ...]
    version: str = VERSION

    def cells(self) -> list[list[str]]:
        """Return a row for each way and length, with ratios behind the times."""
        first, *others = self.models
        head = ["", *self.models, *(f"{name} / {first}" for name in others)]
        by_place = {(each.way, each.words, each.lm): each for each in self.times}
        rows = [head]
        for way in (ALONE, TOGETHER):
            for words in self._lengths():
                own = [by_place[way, words, name] for name in self.models]
                row = [f"{way}, {counted(words, 'word')}"]
                row += [f"{each.milliseconds:.2f}" for each in own]
                row += [f"{each.ratio:.2f}" for each in own[1:]]
                rows.append(row)
        return rows

    def notes(self) -> list[str]:
        """Return what was measured, and where."""
        return [
            f"milliseconds a sentence ({self.what}, tokenising included):"
            f" {counted(self.sentences, 'sentence')} of each length,"
            f" median of {counted(self.repeats, 'run')}; ratios within a run",
            f"{self.machine}, rescore {self.version}",
        ]

    def charts(self) -> list[Chart]:
        """Return milliseconds over words, one chart for each way."""
        return [self._chart(way) for way in (ALONE, TOGETHER)]

    def _lengths(self) -> list[int]:
        """Return the lengths of sentences, in words."""
        return sorted({each.words for each in self.times})

    def _chart(self, way: str) -> Chart:
        """Return milliseconds over words for one way of computing."""
        series = []
        for name in self.models:
            points = []
            for each in self.times:
                if (each.lm, each.way) == (name, way):
                    points.append((float(each.words), each.milliseconds))
            series.append(Series(name, points))
        title = f"Run time of {self.what}, {way}"
        label = "milliseconds a sentence"
        return Chart(title, "words of the sentence", label, series, y_log=True)


def measure(
    lms: Sequence[LanguageModel],
    words: Sequence[str],
    lengths: Sequence[int],
    sentences: int = 10,
    repeats: int = 5,
    vectors: bool = False,
    device: str | None = None,
    progress: Callable[[int], object] = lambda number: None,
) -> SpeedReport:
    """Return how long models take for sentences of several lengths.

    Each model scores all sentences of a length once before it is timed.

    Args:
        lms: The models.
        words: Running words, from which sentences are cut.
        lengths: Lengths of sentences in words.
        sentences: Sentences of each length: one at a time, and all in one call.
        repeats: Repetitions of each measurement.
        vectors: Whether sentence vectors are timed instead of scores.
        device: Where the models compute, as `--device`; None for the default.
        progress: Called after each repetition of a length with the percents of the
            whole time that it took, about; their sum is `WHOLE`.

    Raises:
        UserError: There are fewer words than a sentence needs, a model looks up its
            scores, or a model has no vectors.
    """
    for lm in lms:
        if capabilities_of(lm).cached:
            raise UserError(
                f"--cache: looked-up scores of {lm.name} cannot be timed; leave"
                " out --cache"
            )
    if len(words) < max(lengths):
        raise UserError(
            f"the text has {counted(len(words), 'word')}, too few for a sentence of"
            f" {max(lengths)}; give a longer text or other --lengths"
        )
    works = [_work(lm, vectors) for lm in lms]
    sentences_of = {}
    for length in sorted(set(lengths)):
        sentences_of[length] = cut(words, length, sentences)
    for work in works:
        work(sentences_of[min(lengths)])  # the first call takes longer
    costs = {length: _warmed_up(works, texts) for length, texts in sentences_of.items()}
    done = _Percents(repeats * sum(costs.values()), progress)
    times: list[Time] = []
    for length, texts in sentences_of.items():
        runs = _runs(works, texts, repeats, partial(done.add, costs[length]))
        for way in (ALONE, TOGETHER):
            times += _summaries(lms, length, way, runs[way])
    return SpeedReport(
        what="vectors" if vectors else "scores",
        machine=machine(device),
        sentences=sentences,
        repeats=repeats,
        models=tuple(lm.name for lm in lms),
        fingerprints=tuple(lm.fingerprint for lm in lms),
        times=tuple(times),
    )


def cut(words: Sequence[str], length: int, number: int) -> list[str]:
    """Return sentences of a length, evenly spread over running words.

    Args:
        words: The running words, `length` of them at least.
        length: Words of a sentence.
        number: Sentences. They overlap where the words are too few.
    """
    room = len(words) - length
    starts = [room * rank // max(1, number - 1) for rank in range(number)]
    return [" ".join(words[start : start + length]) for start in starts]


def machine(device: str | None = None) -> str:
    """Return a description of the processor that computes.

    Args:
        device: A device, as `--device`; None for the default.
    """
    chosen = choose_device(device)
    if chosen.type == "cuda":
        return f"{torch.cuda.get_device_name(chosen)}, torch {torch.__version__}"
    capability = torch.backends.cpu.get_cpu_capability()
    threads = counted(torch.get_num_threads(), "thread")
    return f"{threads} of {cpu_name()} ({capability}), torch {torch.__version__}"


def _work(lm: LanguageModel, vectors: bool) -> Work:
    """Return what is timed of a model."""
    if vectors:
        return Embedder([lm]).sentences
    return lambda texts: lm.score(without_context(texts))


def _warmed_up(works: Sequence[Work], texts: Sequence[str]) -> float:
    """Score all sentences of a length once, and one of them alone. Return the
    milliseconds that a repetition will take, about, divided by the sentences.
    """
    total = 0.0
    for work in works:
        total += _milliseconds(work, [texts]) + _milliseconds(work, [texts[:1]])
    return total


class _Percents:
    """Tells whole percents of a work, of which parts are done.

    Args:
        total: The cost of the whole work.
        progress: Is told how many percents more are done.
    """

    def __init__(self, total: float, progress: Callable[[int], object]) -> None:
        self._total = total
        self._progress = progress
        self._done = 0.0
        self._told = 0

    def add(self, cost: float) -> None:
        """Count a part of the work."""
        self._done += cost
        percents = round(WHOLE * self._done / self._total)
        self._progress(percents - self._told)
        self._told = percents


def _runs(
    works: Sequence[Work],
    texts: Sequence[str],
    repeats: int,
    told: Callable[[], object],
) -> dict[str, list[list[float]]]:
    """Return the milliseconds of each model in each repetition, by the way of
    computing. The models take turns.
    """
    one_at_a_time = [[text] for text in texts]
    alone: list[list[float]] = [[] for _ in works]
    together: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for number, work in enumerate(works):
            alone[number].append(_milliseconds(work, one_at_a_time))
            together[number].append(_milliseconds(work, [texts]))
        told()
    return {ALONE: alone, TOGETHER: together}


def _milliseconds(work: Work, calls: Sequence[Sequence[str]]) -> float:
    """Return the time of calls, divided by the number of their sentences."""
    began = time.perf_counter()
    for texts in calls:
        work(texts)
    seconds = time.perf_counter() - began
    return 1000 * seconds / sum(map(len, calls))


def _summaries(
    lms: Sequence[LanguageModel], words: int, way: str, runs: Sequence[Sequence[float]]
) -> list[Time]:
    """Return the time of each model; `runs` has its milliseconds in each repetition."""
    summaries = []
    for lm, own in zip(lms, runs, strict=True):
        ratios = [ours / first for ours, first in zip(own, runs[0], strict=True)]
        summaries.append(
            Time(
                lm=lm.name,
                words=words,
                way=way,
                milliseconds=statistics.median(own),
                least=min(own),
                ratio=statistics.median(ratios),
            )
        )
    return summaries
