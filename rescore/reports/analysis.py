"""What reranking changed on lists with references, what it gains, and the next step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from rapidfuzz.distance import Levenshtein

from rescore.decision.mixture import system_texts
from rescore.decision.rules import candidates
from rescore.metrics import Metric, Normaliser, value
from rescore.metrics.alignment import align
from rescore.metrics.base import Counts
from rescore.metrics.significance import Choice, paired_interval
from rescore.nbest import (
    FIRST_PASS,
    NbestList,
    Role,
    first_pass_indices,
    ranking,
)
from rescore.reports.figures import SIGNIFICANT, Figures, Row, sign
from rescore.styles import p_phrase, text
from rescore.tuning.weights import Weights

PAIRS = 20
"""How many word pairs are listed."""
LOW_SHARE = 1 / 3
"""The share of the possible gain below which another LM is the next step."""
SHOWN_DEPTHS = (1, 2, 3, 5, 10, 20, 50, 100)
"""The depths that the text shows, beside the greatest depth."""


@dataclass(frozen=True, slots=True)
class Depth:
    """The metric, in percent, of the best of the first `n` hypotheses of each list by
    first-pass score.
    """

    n: int
    oracle: float


@dataclass(frozen=True, slots=True)
class Changes:
    """Utterances with another hypothesis than before; of these, those whose metric is
    better, worse or the same.
    """

    moved: int
    better: int
    worse: int
    same: int


@dataclass(frozen=True, slots=True)
class Confusion:
    """A word of the reference, its replacement in the wrong output (empty for a
    deletion), and the count.
    """

    reference: str
    hypothesis: str
    count: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """The actual and the possible gain of rescoring on lists with references. Values
    are percentages.
    """

    metric: str
    has_lm: bool
    """Whether a language model's scores have a weight."""
    first_pass: float
    reranked: float
    flatters: bool
    """Whether the weights were tuned on these very lists."""
    gain: float
    """The improvement of the reranked output over the first pass, in points; below 0 if
    it is worse.
    """
    interval: tuple[float, float]
    """95 % confidence interval of the gain, by bootstrap over utterances."""
    p_value: float
    """Two-sided, of the gain, by paired approximate randomisation."""
    oracle: float
    """The value that a language model with perfect choices would reach."""
    next: str = ""
    """The next step."""

    @property
    def possible(self) -> float:
        """The gain of perfect choices, in points."""
        return abs(self.oracle - self.first_pass)

    @property
    def share(self) -> float:
        """How much of the possible gain is realised; 0 where nothing is possible."""
        return self.gain / self.possible if self.possible else 0.0

    @property
    def certain(self) -> str:
        """Whether the gain is more than chance; "unclear" where the p-value and the
        interval disagree.
        """
        signs = {self.gain > 0 and self.p_value < SIGNIFICANT, self.interval[0] > 0}
        return "unclear" if len(signs) > 1 else "yes" if signs == {True} else "no"


@dataclass(frozen=True, slots=True)
class System:
    """One of the systems that wrote the lists together, beside the reranked output."""

    name: str
    value: float
    """The metric of the system alone."""
    corrected: int
    """Words of the references that are wrong in the system's text and right in the
    reranked output.
    """
    broken: int
    """The reverse."""
    agreement: list[float]
    """With each system, in percent: 100 less the edit distance over the words of the
    longer text of each list.
    """


@dataclass(slots=True)
class Analysis:
    """All of it. Values are percentages; word pairs are for WER only."""

    metric: str
    signature: str
    by_depth: list[Depth]
    moves: Changes
    outlook: Outlook
    """Whether it is worth it."""
    corrected: list[Confusion] = field(default_factory=list)
    broken: list[Confusion] = field(default_factory=list)
    systems: list[System] = field(default_factory=list)
    """Of lists that several systems wrote."""


def analyse(metric: Metric, lists: Sequence[NbestList], weights: Weights) -> Analysis:
    """Compare the first pass with the texts chosen under weights, on lists with
    references.
    """
    texts = weights.decision.texts(metric, lists, weights.of)
    figures = Figures(metric, lists)
    first, reranked = figures.first, figures.of(texts)
    result = Analysis(
        metric.name,
        str(sign(metric, lists, weights)),
        (
            []
            if lists[0].header.systems
            else by_depth(metric, figures.statistics, lists)
        ),
        _moves(metric, first, reranked),
        outlook(metric, lists, weights),
    )
    if metric.words is not None and metric.unit == "word":
        before = [output.text for output in first]
        result.corrected = _most(
            _confused(metric.words, lists, wrong=before, right=texts)
        )
        result.broken = _most(_confused(metric.words, lists, wrong=texts, right=before))
        result.systems = _systems(metric, metric.words, figures, texts)
    return result


def best_system(figures: Figures, chosen: Choice) -> Row:
    """The best of the systems that wrote lists together; its p-value is of the
    difference to the chosen texts.
    """
    names = figures.lists[0].header.systems
    alone = {name: figures.of(system_texts(figures.lists, name)) for name in names}
    name = (max if figures.metric.higher_is_better else min)(
        names, key=lambda name: figures.value(alone[name])
    )
    p_value = figures.test.p_value(figures.metric, figures.lists, alone[name], chosen)
    return replace(figures.row(name, alone[name]), p_value=p_value)


def _systems(
    metric: Metric, normaliser: Normaliser, figures: Figures, chosen: Sequence[str]
) -> list[System]:
    """What the texts that are chosen correct and break of each system."""
    lists, rows = figures.lists, []
    texts = {name: system_texts(lists, name) for name in lists[0].header.systems}
    words = {name: [normaliser(text) for text in own] for name, own in texts.items()}
    for name, own in texts.items():
        corrected = _confused(normaliser, lists, wrong=own, right=chosen).total()
        broken = _confused(normaliser, lists, wrong=chosen, right=own).total()
        agreement = [_agreement(words[name], words[other]) for other in texts]
        rows.append(
            System(name, figures.value(figures.of(own)), corrected, broken, agreement)
        )
    return rows


def _agreement(ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> float:
    pairs = list(zip(ours, theirs, strict=True))
    errors = sum(Levenshtein.distance(*pair) for pair in pairs)
    return 100 - 100 * errors / max(1, sum(max(map(len, pair)) for pair in pairs))


def outlook(metric: Metric, lists: Sequence[NbestList], weights: Weights) -> Outlook:
    """What the texts chosen under weights gain, and what perfect choices would gain."""
    flatters = weights.tuned.is_on(lists)
    # reranked lists, as `run --folds -o` writes them, have another hash
    if weights.fold_weights and weights.tuned_for:
        flatters |= weights.tuned_for.utterances == len(lists)
    if weights.exclusions:  # excluded hypotheses are no possible gain
        lists = [candidates(nbest, weights.of(nbest).excluded) for nbest in lists]
    figures = Figures(metric, lists)
    first, chosen = (
        figures.first,
        figures.of(weights.decision.texts(metric, lists, weights.of)),
    )
    before, after = figures.value(first), figures.value(chosen)
    direction = 1.0 if metric.higher_is_better else -1.0
    rows = (
        figures.test.by_unit(lists, [text.counts for text in choice])
        for choice in (first, chosen)
    )
    ends = paired_interval(metric, *rows)
    # + 0.0: never minus nothing
    low, high = sorted(direction * end + 0.0 for end in ends)
    result = Outlook(
        metric=metric.name,
        has_lm=bool(weights.language_models),
        first_pass=before,
        reranked=after,
        flatters=flatters,
        gain=direction * (after - before) + 0.0,
        interval=(low, high),
        p_value=figures.test.p_value(metric, lists, first, chosen),
        oracle=figures.oracle,
    )
    return replace(result, next=_next_step(result, bool(lists[0].columns(Role.LM))))


def _next_step(outlook: Outlook, scored: bool) -> str:
    if not outlook.has_lm:
        how = (
            "give --weights FILE of `rescore tune`"
            if scored
            else "score the lists with a language model"
        )
        return f"{how}: the largest possible gain is {outlook.possible:.2f} points"
    if outlook.gain <= 0:
        return "another LM: this LM does not help here"
    if outlook.certain == "unclear":
        return "more test lists: the p-value and the interval disagree about the gain"
    if outlook.certain == "no":
        return "more lists to tune on, then another LM: the gain may be due to chance"
    if outlook.share < LOW_SHARE:
        return (
            f"another LM, closer to these texts: {100 * (1 - outlook.share):.0f} % of"
            " the possible gain is left"
        )
    return "more hypotheses, such as by --recombine 20: this LM does its part"


def by_depth(
    metric: Metric, statistics: Sequence[Counts], lists: Sequence[NbestList]
) -> list[Depth]:
    """The oracle of the toolkit's first N hypotheses by first-pass score, not by place
    in the file.
    """
    ranked = []
    for rows, nbest in zip(statistics, lists, strict=True):
        own = set(first_pass_indices(nbest))
        ranked.append(
            rows[
                [
                    place
                    for place in ranking(nbest, nbest.column(FIRST_PASS))
                    if place in own
                ]
            ]
        )
    changes = np.zeros((max(map(len, ranked)), statistics[0].shape[1]), dtype=np.int64)
    for rows in ranked:
        values = metric.sentence_values(rows) * (
            -1.0 if metric.higher_is_better else 1.0
        )
        better = np.append(True, values[1:] < np.minimum.accumulate(values)[:-1])
        changes[: len(rows)][better] += np.diff(
            rows[better], axis=0, prepend=np.zeros_like(rows[:1])
        )
    return [
        Depth(n, value(metric, sums))
        for n, sums in enumerate(changes.cumsum(axis=0), 1)
    ]


def _moves(metric: Metric, first: Choice, reranked: Choice) -> Changes:
    changes = []
    for old, new in zip(first, reranked, strict=True):
        if old.text != new.text:
            before, after = metric.sentence_values(np.stack([old.counts, new.counts]))
            changes.append(
                np.sign(after - before) * (1 if metric.higher_is_better else -1)
            )
    return Changes(len(changes), changes.count(1), changes.count(-1), changes.count(0))


def _confused(
    normaliser: Normaliser,
    lists: Sequence[NbestList],
    wrong: Sequence[str],
    right: Sequence[str],
) -> Counter[tuple[str, str]]:
    """The errors of an output at words that the other output has right."""
    counts: Counter[tuple[str, str]] = Counter()
    for nbest, *outputs in zip(lists, wrong, right, strict=True):
        if outputs[0] == outputs[1]:
            continue
        # Both outputs are compared with the reference in which the wrong output has the
        # fewest errors.
        reference = normaliser.closest(nbest.references, outputs[0])
        bad, good = (
            [
                words
                for words in align(*normaliser.pair([reference], output))
                if words[0] is not None
            ]
            for output in outputs
        )
        for (word, in_wrong), (_, in_right) in zip(bad, good, strict=True):
            if word is not None and in_wrong != word == in_right:
                counts[word, in_wrong or ""] += 1
    return counts


def _most(counts: Counter[tuple[str, str]]) -> list[Confusion]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        Confusion(word, in_wrong, count) for (word, in_wrong), count in ordered[:PAIRS]
    ]


def render(analysis: Analysis) -> str:
    """What a person wants to know first."""
    moves = analysis.moves
    depths = [
        depth
        for depth in analysis.by_depth
        if depth.n in (*SHOWN_DEPTHS, len(analysis.by_depth))
    ]
    corrected = [
        f"{pair.hypothesis or '(nothing)'} -> {pair.reference} {pair.count}"
        for pair in analysis.corrected
    ]
    broken = [
        f"{pair.reference} -> {pair.hypothesis or '(nothing)'} {pair.count}"
        for pair in analysis.broken
    ]
    lines = [
        (
            f"changed utterances: {moves.moved:,}, better {moves.better:,}, worse"
            f" {moves.worse:,}, as many errors {moves.same:,}"
        ),
        *(
            [
                "oracle by depth: "
                + ", ".join(f"{depth.n}: {depth.oracle:.2f}" for depth in depths)
            ]
            if depths
            else []
        ),
        "",
    ]
    if corrected or broken:
        lines += [
            f"corrected: {', '.join(corrected[:8])}",
            f"broken: {', '.join(broken[:8])}",
            "",
        ]
    if systems := analysis.systems:
        places = [str(place) for place in range(1, len(systems) + 1)]
        rows = [["", analysis.metric, "corrected", "broken", *places]]
        for place, one in zip(places, systems, strict=True):
            agreement = (f"{share:.1f}" for share in one.agreement)
            rows.append(
                [
                    f"{place} {one.name}",
                    f"{one.value:.2f}",
                    f"{one.corrected:,}",
                    f"{one.broken:,}",
                    *agreement,
                ]
            )
        rows.append(
            ["reranked", f"{analysis.outlook.reranked:.2f}", *[""] * (len(systems) + 2)]
        )
        lines += [
            text(rows),
            (
                "corrected, broken: words; 1, 2, ...: percent of words on which two"
                " systems agree"
            ),
            "",
        ]
    lines += [
        "Is it worth it?",
        *(f"{name:<14}{line}" for name, line in _rows(analysis.outlook)),
    ]
    return "\n".join([*lines, "", analysis.signature])


def _rows(outlook: Outlook) -> list[tuple[str, str]]:
    """The title of each line of the outlook, and its text."""
    points = (
        f"{outlook.metric} {outlook.first_pass:.2f} -> {outlook.oracle:.2f},"
        f" {outlook.possible:.2f} points"
    )
    if not outlook.has_lm:
        return [("perfect LM", points), ("next", outlook.next)]
    relative = (
        f" ({100 * outlook.gain / outlook.first_pass:.1f} %)"
        if outlook.first_pass
        else ""
    )
    change = f"{outlook.metric} {outlook.first_pass:.2f} -> {outlook.reranked:.2f}"
    flatters = (
        "the weights were tuned on these very lists, so the gain on other lists is"
        " smaller; see `run --folds`"
    )
    sure = "{}: 95 % CI {:.2f} to {:.2f} points".format(
        outlook.certain, *outlook.interval
    )
    return [
        ("gain", f"{change}, {outlook.gain:.2f} points{relative}"),
        *([("", flatters)] if outlook.flatters else []),
        ("certain", f"{sure}, {p_phrase(outlook.p_value)}"),
        ("perfect LM", f"{points}; this LM takes {100 * outlook.share:.0f} % of them"),
        ("next", outlook.next),
    ]
