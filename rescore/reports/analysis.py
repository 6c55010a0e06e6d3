"""Where reranking changed things: by depth of the lists, place in the sentence, length, word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

import numpy as np

from rescore.metrics import Metric, Normaliser, value
from rescore.metrics.alignment import align
from rescore.metrics.significance import ScoredText
from rescore.nbest import NbestList
from rescore.reports.figures import Figures, sign
from rescore.reports.outlook import Depth, Outlook, by_depth, outlook
from rescore.reports.outlook import render as outlook_lines
from rescore.styles import as_json, text
from rescore.tuning.weights import Weights

LENGTHS = (5, 10, 15, 20, 25, 30, 40, 60)
"""Upper ends of the classes of reference lengths, in words."""
POSITIONS = 40
"""Places beyond count with this one."""
PAIRS = 20
"""How many word pairs are listed."""

References = Sequence[Sequence[str]]
"""Of each utterance one or more."""


@dataclass(frozen=True, slots=True)
class Length:
    """The metric over utterances whose references have more words than `above`, and at most `to` (None: any); words as
    the metric counts them.

    Of several references, the closest to the first pass counts.
    """

    above: int
    to: int | None
    utterances: int
    first_pass: float
    """The metric in percent."""
    reranked: float
    """The metric in percent."""


@dataclass(frozen=True, slots=True)
class Changes:
    """How often another hypothesis was chosen, and what that did to the utterance."""

    moved: int
    """Utterances with another hypothesis than before."""
    better: int
    """Of these, those whose metric is better,"""
    worse: int
    """worse,"""
    same: int
    """or the same."""


@dataclass(frozen=True, slots=True)
class Position:
    """Word errors at one place of the reference (from 1; insertions count with the word before), and how many words."""

    position: int
    words: int
    """References that have a word there; of two references the longer."""
    first_pass: int
    """Its errors there."""
    reranked: int
    """Its errors there."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """A word of the reference, its replacement in the wrong output (empty for a deletion), and the count."""

    reference: str
    hypothesis: str
    count: int


@dataclass(slots=True)
class Analysis:
    """All of it. Values are percentages; word pairs and places are for WER only."""

    metric: str
    signature: str
    by_depth: list[Depth]
    by_length: list[Length]
    moves: Changes
    outlook: Outlook
    """Whether it is worth it."""
    by_position: list[Position] = field(default_factory=list)
    corrected: list[Confusion] = field(default_factory=list)
    broken: list[Confusion] = field(default_factory=list)


def analyse(
    metric: Metric,
    lists: Sequence[NbestList],
    weights: Weights,
    texts: Sequence[str] | None = None,
) -> Analysis:
    """Compare the first pass with the texts chosen under weights, on lists with references.

    Args:
        texts: what was chosen, one per list; None to choose as the weights were tuned for.
    """
    if texts is None:
        texts = weights.decision.texts(metric, lists, weights.of)
    figures = Figures(metric, lists)
    first, reranked = figures.first, figures.of(texts)
    result = Analysis(
        metric.name,
        str(sign(metric, lists, weights)),
        by_depth(metric, figures.statistics, lists),
        _by_length(metric, lists, first, reranked),
        _moves(metric, first, reranked),
        outlook(metric, lists, weights),
    )
    if metric.words is not None and metric.unit == "word":
        references = [nbest.references for nbest in lists]
        outputs = [output.text for output in first], [output.text for output in reranked]
        result.by_position = _by_position(metric.words, references, *outputs)
        result.corrected = _pairs_of(metric.words, references, wrong=outputs[0], right=outputs[1])
        result.broken = _pairs_of(metric.words, references, wrong=outputs[1], right=outputs[0])
    return result


def _by_length(
    metric: Metric, lists: Sequence[NbestList], first: Sequence[ScoredText], reranked: Sequence[ScoredText]
) -> list[Length]:
    words = metric.words or Normaliser()
    references = [words.closest(nbest.references, output.text) for nbest, output in zip(lists, first, strict=True)]
    lengths = np.array([len(words(reference)) for reference in references])
    classes = []
    for above, to in zip((0, *LENGTHS), (*LENGTHS, None), strict=True):
        mine = np.flatnonzero((lengths > above) & (lengths <= (to or np.inf))).tolist()
        if mine:
            sums = (np.sum([choice[index].counts for index in mine], axis=0) for choice in (first, reranked))
            classes.append(Length(above, to, len(mine), *(value(metric, counts) for counts in sums)))
    return classes


def _moves(metric: Metric, first: Sequence[ScoredText], reranked: Sequence[ScoredText]) -> Changes:
    changes = []
    for old, new in zip(first, reranked, strict=True):
        if old.text != new.text:
            before, after = metric.sentence_values(np.stack([old.counts, new.counts]))
            changes.append(np.sign(after - before) * (1 if metric.higher_is_better else -1))
    return Changes(len(changes), changes.count(1), changes.count(-1), changes.count(0))


def _by_position(
    normaliser: Normaliser, references: References, first: Sequence[str], reranked: Sequence[str]
) -> list[Position]:
    words, errors = Counter[int](), (Counter[int](), Counter[int]())
    for texts, *outputs in zip(references, first, reranked, strict=True):
        pairs = [normaliser.pair(texts, output) for output in outputs]
        longest = max(len(expected) for expected, _ in pairs)
        words.update(min(place, POSITIONS) for place in range(1, longest + 1))
        for counter, pair in zip(errors, pairs, strict=True):
            place = 0
            for word, hypothesis_word in align(*pair):
                place += word is not None
                if word != hypothesis_word:
                    counter[min(max(place, 1), POSITIONS)] += 1
    return [Position(place, words[place], errors[0][place], errors[1][place]) for place in sorted(words)]


def _pairs_of(
    normaliser: Normaliser, references: References, wrong: Sequence[str], right: Sequence[str]
) -> list[Confusion]:
    """The most frequent errors of an output at words that the other output has right."""
    counts: Counter[tuple[str, str]] = Counter()
    for texts, *outputs in zip(references, wrong, right, strict=True):
        if outputs[0] == outputs[1]:
            continue
        # Both outputs are compared with the reference in which the wrong output has the fewest errors.
        expected = normaliser(normaliser.closest(texts, outputs[0]))
        bad, good = (
            [pair for pair in align(expected, normaliser(output)) if pair[0] is not None] for output in outputs
        )
        for (word, in_wrong), (_, in_right) in zip(bad, good, strict=True):
            if word is not None and in_wrong != word == in_right:
                counts[word, in_wrong or ""] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(word, in_wrong, count) for (word, in_wrong), count in ordered[:PAIRS]]


def _pairs_line(name: str, pairs: list[Confusion], broken: bool = False) -> str:
    """The most frequent pairs: the word of the first pass, the word after reranking, and how often.

    Args:
        broken: the word of the first pass is the reference; else the word after reranking is.
    """
    shown = []
    for pair in pairs[:8]:
        wrong, right = pair.hypothesis or "(nothing)", pair.reference or "(nothing)"
        shown.append(f"{right if broken else wrong} -> {wrong if broken else right} {pair.count}")
    return f"{name}: {', '.join(shown)}"


def write(analysis: Analysis, file: IO[str]) -> None:
    """Write one JSON object."""
    file.write(as_json(analysis) + "\n")


def render(analysis: Analysis) -> str:
    """What a person wants to know first."""
    moves = analysis.moves
    rows = [["words", "utterances", "first pass", "reranked"]]
    for group in analysis.by_length:
        name = f"{group.above + 1}-{group.to}" if group.to else f"over {group.above}"
        rows.append([name, f"{group.utterances:,}", f"{group.first_pass:.2f}", f"{group.reranked:.2f}"])
    depths = [depth for depth in analysis.by_depth if depth.n in (1, 2, 3, 5, 10, 20, 50, 100, len(analysis.by_depth))]
    lines = [
        f"changed utterances: {moves.moved:,}, better {moves.better:,}, worse {moves.worse:,}, "
        f"as many errors {moves.same:,}",
        "oracle by depth: " + ", ".join(f"{depth.n}: {depth.oracle:.2f}" for depth in depths),
        "",
        text(rows),
    ]
    if analysis.corrected or analysis.broken:
        lines += ["", _pairs_line("corrected", analysis.corrected), _pairs_line("broken", analysis.broken, True)]
    return "\n".join([*lines, "", outlook_lines(analysis.outlook), "", analysis.signature])
