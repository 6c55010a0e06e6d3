"""What reranking changed on lists with references, what it gains, and the next step.

`analyse` makes the record of `rescore analyse`, and `render` its text. The record holds
the oracle of the first N hypotheses, the words that reranking corrected and broke, the
errors that are left and the utterances with the most errors, each of the systems that
wrote the lists, and the outlook: the actual gain beside the gain of perfect choices. Of
lists without a choice, such as 1-best texts, the text has only the errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from rescore.columns import FIRST_PASS, Role
from rescore.dataset import Dataset
from rescore.deciding import Decided, first_pass
from rescore.decision.choice import candidates
from rescore.errors import counted
from rescore.lms.cards import FASTER
from rescore.lms.foreign import is_foreign
from rescore.metrics import Metric, Normaliser, oracle, total, value
from rescore.metrics.base import Counts, check_measurable
from rescore.metrics.normalise import EXACT
from rescore.metrics.significance import PairedTest, ScoredTexts, paired_interval
from rescore.nbest import own_indices, ranking
from rescore.parts import ANALYSIS_OF_SYSTEMS, resolve
from rescore.reports.figures import (
    FIRST,
    SIGNIFICANT,
    Figures,
    sign,
    summed,
)
from rescore.reports.outputs import deciding
from rescore.reports.word_errors import (
    Confusion,
    WithErrors,
    aligned,
    confused,
    most_errors,
    most_frequent,
    word_errors,
)
from rescore.styles import figure, p_phrase
from rescore.tuning.phrases import (
    ANOTHER_SCALE,
    BEST_ON_DEV,
    MORE_LISTS,
    another_lm,
)
from rescore.tuning.weights import FIRST_PASS_ALONE, Weights

SHOWN_PAIRS = 8
"""Number of word pairs in the text."""
SHOWN_UTTERANCES = 5
"""Number of utterances with errors in the text."""
LOW_SHARE = 1 / 3
"""The share of the possible gain below which another LM is the next step."""
SHOWN_DEPTHS = (1, 2, 3, 5, 10, 20, 50, 100)
"""The depths that the text shows, beside the greatest depth."""


@dataclass(frozen=True, slots=True)
class Depth:
    """The oracle of shorter lists."""

    n: int
    """Number of hypotheses that are kept of each list, by first-pass score."""
    oracle: float
    """The metric of the best of these hypotheses, in percent."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Numbers of utterances whose text reranking changed."""

    moved: int
    """Utterances with another text than in the first pass."""
    better: int
    """Changed utterances whose metric is better than before."""
    worse: int
    same: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """The actual and the possible gain of rescoring on lists with references. Values
    are percentages.
    """

    metric: str
    has_lm: bool
    """Whether a language model's scores have a weight, and the decision reads them."""
    first_pass: float
    reranked: float
    flatters: bool
    """Whether the weights were tuned on these very lists."""
    gain: float
    """The improvement of the reranked output over the first pass, in points; below 0 if
    it is worse.
    """
    interval: tuple[float, float]
    """95 % confidence interval of the gain, by bootstrap over utterances or speakers.
    """
    p_value: float
    """Two-sided, of the gain, by paired approximate randomisation."""
    oracle: float
    """The value that perfect choices from the lists would reach. A decision that writes
    texts of its own, such as rover, may reach more.
    """
    new_texts: int = 0
    """Chosen texts that no hypothesis of their list has."""
    next: str = ""
    """The next step."""
    by_votes: bool = False
    """Whether the first pass of several systems decides, without a language model."""

    @property
    def possible(self) -> float:
        """The gain of perfect choices, in points."""
        return abs(self.oracle - self.first_pass)

    @property
    def bound(self) -> str:
        """What `possible` is: of a decision that writes texts it is no bound."""
        return "gain of the oracle" if self.new_texts else "possible gain"

    @property
    def told_possible(self) -> str:
        """The gain of perfect choices as a clause of a sentence."""
        largest = "" if self.new_texts else "largest "
        return f"the {largest}{self.bound} is {self.possible:.2f} points"

    @property
    def share(self) -> float:
        """The part of the possible gain that is realised, 1 for all of it; 0 if no gain
        is possible.
        """
        return self.gain / self.possible if self.possible else 0.0

    @property
    def certain(self) -> str:
        """Whether the gain is more than chance: yes, no, or unclear, if the p-value and
        the interval disagree.
        """
        by_test = self.gain > 0 and self.p_value < SIGNIFICANT
        by_interval = self.interval[0] > 0
        if by_test != by_interval:
            return "unclear"
        return "yes" if by_test else "no"


@dataclass(slots=True)
class Analysis:
    """The record of `rescore analyse`. Values are percentages."""

    metric: str
    signature: str
    by_depth: list[Depth]
    """Empty for lists that several systems wrote."""
    moves: Changes
    outlook: Outlook
    """Whether reranking is worth it."""
    corrected: list[Confusion] = field(default_factory=list)
    """Words that are wrong in the first pass and right in the reranked output, the most
    frequent first; empty for metrics other than WER.
    """
    broken: list[Confusion] = field(default_factory=list)
    """Words that are right in the first pass and wrong in the reranked output."""
    left: list[Confusion] = field(default_factory=list)
    """Errors of the reranked output, with insertions, the most frequent first."""
    worst: list[WithErrors] = field(default_factory=list)
    """Utterances of the reranked output with errors, the most errors first."""
    has_choices: bool = True
    """Whether a list has several hypotheses; 1-best texts have no choices."""
    baseline: str = FIRST
    """The first pass as tables name it."""
    systems: list[Any] = field(default_factory=list)
    """A record of each of the systems that wrote the lists; empty if one system wrote
    them.
    """


class SystemAnalysis(Protocol):
    """Compares the systems that wrote the lists with the chosen texts: the functions of
    the module `rescore.parts.ANALYSIS_OF_SYSTEMS`.
    """

    CHOICE: str
    """What several systems do together, in a word."""

    def compared(
        self, words: Normaliser, figures: Figures, chosen: Sequence[str]
    ) -> list[Any]:
        """Return a record of each system.

        Args:
            words: Cuts texts into words.
            figures: The lists under a metric.
            chosen: The reranked text of each list.
        """
        ...

    def next_step(self, outlook: Outlook, weights: Weights) -> str:
        """Return advice on what to do where no language model has a weight.

        Args:
            outlook: The figures.
            weights: The weights that decided.
        """
        ...

    def lines(self, analysis: Analysis) -> list[str]:
        """Return the lines of the text of an analysis about the systems."""
        ...


def analysis_of_systems() -> SystemAnalysis:
    """Return what compares the systems of lists."""
    module: SystemAnalysis = resolve(ANALYSIS_OF_SYSTEMS)
    return module


def analyse(
    metric: Metric, decided: Decided, test: PairedTest | None = None
) -> Analysis:
    """Return what reranking changes on lists with references.

    Args:
        metric: The metric of all figures.
        decided: The lists, with their references, and the text chosen for each.
        test: The test of the p-value and the interval; None for the default.

    Raises:
        UserError: A list has no reference.
    """
    lists = decided.lists
    texts = decided.texts
    weights = decided.weights
    if weights == FIRST_PASS_ALONE:
        weights = deciding([lists.have_choices])
    check_measurable(metric, lists, "no text can gain or lose")
    figures = Figures(metric, lists)
    first = figures.of(decided.first_pass_texts)
    depths: list[Depth] = []
    if not figures.systems:
        depths = by_depth(metric, figures.statistics, lists)
    analysis = Analysis(
        metric=metric.name,
        signature=str(sign(metric, lists, weights, test)),
        by_depth=depths,
        moves=_moves(metric, first, figures.of(texts)),
        outlook=outlook(metric, decided, test),
        has_choices=lists.have_choices,
        baseline=figures.baseline,
    )
    if metric.words is not None and metric.unit == "word":
        before = [output.text for output in first]
        corrected = confused(metric.words, lists, wrong=before, right=texts)
        broken = confused(metric.words, lists, wrong=texts, right=before)
        analysis.corrected = most_frequent(corrected)
        analysis.broken = most_frequent(broken)
        alignments = list(aligned(metric.words, lists, texts))
        analysis.left = most_frequent(word_errors(alignments))
        analysis.worst = most_errors(lists, alignments)
        if figures.systems:
            systems = analysis_of_systems().compared(metric.words, figures, texts)
            analysis.systems = systems
    return analysis


def outlook(
    metric: Metric, decided: Decided, test: PairedTest | None = None
) -> Outlook:
    """Return what reranking gains, and what perfect choices would gain.

    Hypotheses that the weights exclude are no possible gain.

    Args:
        metric: The metric of all figures.
        decided: The lists, with their references, and the text chosen for each.
        test: The test of the p-value and the interval; None for the default.

    Raises:
        UserError: A list has no reference.
    """
    lists = decided.lists
    weights = decided.weights
    flatters = weights.tuning.is_on(lists)
    if weights.excluded:
        lists = lists.with_lists(candidates(nbest, weights.excluded) for nbest in lists)
    figures = Figures(metric, lists, test)
    first = figures.of(first_pass(lists).texts)
    chosen = figures.of(decided.texts)
    before = figures.value(first)
    after = figures.value(chosen)
    ends = paired_interval(metric, figures.by_unit(first), figures.by_unit(chosen))
    direction = _direction(metric)
    # "+ 0.0" makes 0 of -0, which would be shown as "-0.00".
    low, high = sorted(direction * end + 0.0 for end in ends)
    are_alike = weights.decision.scale == 0
    new_texts = _number_of_new(lists, decided.texts)
    choices = [figures.oracle, before]
    if not new_texts:
        choices.append(after)
    # The oracle decides list by list: under a metric whose value is no mean over lists,
    # such as BLEU, another choice may be better.
    best_of = max if metric.higher_is_better else min
    result = Outlook(
        metric=metric.name,
        has_lm=not are_alike and any(map(weights.weighs, weights.score_columns)),
        first_pass=before,
        reranked=after,
        flatters=flatters,
        gain=direction * (after - before) + 0.0,
        interval=(low, high),
        p_value=figures.p_value(first, chosen),
        oracle=best_of(choices),
        new_texts=new_texts,
    )
    if not result.possible:
        by_votes = lists.header.by_systems and not result.has_lm
        result = replace(result, by_votes=by_votes)
        return replace(result, next=_step_without_choice(metric, result, lists))
    if lists.header.by_systems and not result.has_lm:
        result = replace(result, by_votes=True)
        step = analysis_of_systems().next_step(result, weights)
        return replace(result, next=step)
    if are_alike and weights.score_columns:
        reason = "at scale 0 all hypotheses count alike"
        step = f"{ANOTHER_SCALE}: {reason}; {result.told_possible}"
        return replace(result, next=step)
    counts = metric.details(summed(first))
    instead = another_lm(counts, weights.weights, weights.tuning.columns)
    step = _next_step(result, lists, instead or MORE_LISTS)
    if not result.has_lm and weights.score_columns:
        named = "this LM has"
        if not instead:
            named = "all columns have"
            instead = BEST_ON_DEV if weights.tuning.unproven else MORE_LISTS
        step = f"{instead}: {named} weight 0; {result.told_possible}"
    step = _of_known_language(step, result, lists)
    return replace(result, next=step)


def _number_of_new(lists: Dataset, texts: Sequence[str]) -> int:
    """Return the number of chosen texts that no hypothesis of their list has."""
    number = 0
    for nbest, text in zip(lists, texts, strict=True):
        words = EXACT(text)
        number += all(EXACT(one.text) != words for one in nbest.hypotheses)
    return number


def _step_without_choice(metric: Metric, outlook: Outlook, lists: Dataset) -> str:
    """Return the next step where no list has a better text than the first pass.

    Args:
        metric: The metric.
        outlook: The figures.
        lists: The lists.
    """
    perfect = 100.0 if metric.higher_is_better else 0.0
    if outlook.first_pass == perfect:
        return "nothing: the first pass has no errors"
    more = "more hypotheses, for example by score --recombine 20"
    if lists.header.by_systems:
        more = "one more system"
    elif not lists.have_choices:
        return (
            "write N-best lists with your toolkit (docs/get-lists.md): they show what"
            " better choices could gain"
        )
    return f"{more}: no list has a better text than the first pass"


SAMPLE = 1_000
"""Lists whose texts show the language."""


def _of_known_language(step: str, result: Outlook, lists: Dataset) -> str:
    """Return the next step without advice to use a model that does not know the
    language of the lists.

    Args:
        step: The step for a model that knows the language.
        result: The figures.
        lists: The lists.
    """
    models = []
    for name in lists.columns(Role.LM):
        record = lists.header.records.get(name)
        models.append(record.model if record else name)
    texts = first_pass(lists[:SAMPLE]).texts
    foreign = [name for name in models or [FASTER] if is_foreign(name, texts)]
    if not foreign or len(foreign) < len(models):
        return step
    possible = result.told_possible
    names = ", ".join(foreign)
    if models:
        return (
            f"another LM: {names} does not know the language of the lists; {possible}"
        )
    return (
        "score the lists with a language model of their language, which"
        f" {names} does not know: {possible}"
    )


def _direction(metric: Metric) -> float:
    """Return 1 if a higher value is better, -1 if a lower value is better."""
    return 1.0 if metric.higher_is_better else -1.0


def _next_step(outlook: Outlook, lists: Dataset, instead: str) -> str:
    """Return advice on what to do next.

    Args:
        outlook: The figures.
        lists: The lists.
        instead: What to try where the model does not help.
    """
    if not outlook.has_lm:
        step = "score the lists with a language model"
        if lists.columns(Role.LM):
            step = "give --weights FILE of `rescore tune`"
        return f"{step}: {outlook.told_possible}"
    if outlook.gain <= 0:
        return f"{instead}: this LM does not help here"
    if outlook.certain == "unclear":
        return "more test lists: the p-value and the interval disagree about the gain"
    if outlook.certain == "no":
        return "more lists to tune on, then another LM: the gain may be due to chance"
    if outlook.share < LOW_SHARE:
        return (
            f"another LM, closer to these texts: {100 * (1 - outlook.share):.0f} % of"
            f" the {outlook.bound} is left"
        )
    if lists.header.by_systems:
        return "one more system: this LM works well"
    return "more hypotheses, for example by score --recombine 20: this LM works well"


def by_depth(
    metric: Metric, statistics: Sequence[Counts], lists: Dataset
) -> list[Depth]:
    """Return the oracle of the first N hypotheses of each list, for each N.

    The toolkit's own hypotheses count, in the order of their first-pass scores.

    Args:
        metric: The metric.
        statistics: The statistics (hypotheses, k) of each list.
        lists: The lists.
    """
    ranked = []
    for rows, nbest in zip(statistics, lists, strict=True):
        own = set(own_indices(nbest))
        order = ranking(nbest, nbest.column(FIRST_PASS))
        ranked.append(rows[[place for place in order if place in own]])
    greatest = max(map(len, ranked))
    if any(len(nbest.references) > 1 for nbest in lists):
        depths = []
        for number in range(1, greatest + 1):
            cut = [rows[:number] for rows in ranked]
            best = total(cut, oracle(metric, cut))
            depths.append(Depth(number, value(metric, best)))
        return depths
    width = statistics[0].shape[1]
    # Row n: the change of the sum over all lists when they grow to n + 1 hypotheses.
    changes = np.zeros((greatest, width), dtype=np.int64)
    for rows in ranked:
        losses = -_direction(metric) * metric.sentence_values(rows)
        is_better = np.ones(len(rows), dtype=bool)
        is_better[1:] = losses[1:] < np.minimum.accumulate(losses)[:-1]
        nothing = np.zeros_like(rows[:1])
        changes[: len(rows)][is_better] += np.diff(
            rows[is_better], axis=0, prepend=nothing
        )
    sums = changes.cumsum(axis=0)
    return [Depth(n, value(metric, total)) for n, total in enumerate(sums, start=1)]


def _moves(metric: Metric, first: ScoredTexts, reranked: ScoredTexts) -> Changes:
    """Return how many utterances changed, and how many of them for the better."""
    directions = []
    for old, new in zip(first, reranked, strict=True):
        if old.text == new.text:
            continue
        before, after = metric.ranking_values(np.stack([old.counts, new.counts]))
        change = np.sign(after - before)
        if metric.orders_by_errors or not metric.higher_is_better:
            change = -change
        directions.append(change)
    return Changes(
        moved=len(directions),
        better=directions.count(1),
        worse=directions.count(-1),
        same=directions.count(0),
    )


def render(analysis: Analysis) -> str:
    """Return the text of an analysis.

    Args:
        analysis: As `analyse` returns it.
    """
    outlook = analysis.outlook
    blocks = []
    if analysis.has_choices:
        blocks += [_changes(analysis), _errors(analysis, "errors left", "choice")]
    else:
        blocks += [
            [f"{outlook.metric} {figure(outlook.first_pass)}"],
            _errors(analysis, "errors", "text"),
        ]
    if analysis.systems:
        blocks.append(analysis_of_systems().lines(analysis))
    if analysis.has_choices:
        lines = ["Is it worth it?"]
        for title, line in _outlook_lines(outlook):
            lines.append(f"{title:<14}{line}")
        blocks.append(lines)
    else:
        blocks.append([f"next: {outlook.next}"])
    blocks.append([analysis.signature])
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _changes(analysis: Analysis) -> list[str]:
    """Return the lines of how many utterances changed, and of the oracle by depth."""
    moves = analysis.moves
    lines = [
        f"changed utterances: {moves.moved:,}, better {moves.better:,}, worse"
        f" {moves.worse:,}, as many errors {moves.same:,}"
    ]
    if analysis.by_depth:
        lines.append(f"oracle by depth: {_shown_depths(analysis.by_depth)}")
    return lines


def _errors(analysis: Analysis, title: str, output: str) -> list[str]:
    """Return the lines of the words that reranking changed, and of the errors.

    Args:
        analysis: The analysis.
        title: What the errors of the output are called.
        output: What the output is called.
    """
    lines = []
    if analysis.corrected or analysis.broken:
        change = f"{analysis.baseline} -> {output}"
        corrected = _listed(analysis.corrected, "{hypothesis} -> {reference}")
        lines.append(f"corrected, {change}: {corrected}")
        broken = _listed(analysis.broken, TO_HYPOTHESIS)
        lines.append(f"broken, {change}: {broken}")
    if analysis.left:
        left = _listed(analysis.left, TO_HYPOTHESIS)
        lines.append(f"{title}, reference -> {output}: {left}")
    utterances = []
    for one in analysis.worst[:SHOWN_UTTERANCES]:
        words = counted(one.words, "word")
        utterances.append(f"{one.id} ({one.errors:,} in {words})")
    if utterances:
        lines.append(f"most errors: {', '.join(utterances)}")
    return lines


TO_HYPOTHESIS = "{reference} -> {hypothesis}"
"""How the text shows an error of the choice."""


def _listed(errors: Sequence[Confusion], arrow: str) -> str:
    """Return the most frequent errors in one line, each with its number.

    Args:
        errors: The errors.
        arrow: How the two words of an error are written.
    """
    shown = []
    for error in errors[:SHOWN_PAIRS]:
        words = arrow.format(
            reference=error.reference or "(nothing)",
            hypothesis=error.hypothesis or "(nothing)",
        )
        shown.append(f"{words} {error.count}")
    return ", ".join(shown)


def _shown_depths(depths: Sequence[Depth]) -> str:
    """Return the oracles of the depths that the text shows."""
    shown = []
    for depth in depths:
        if depth.n in SHOWN_DEPTHS or depth.n == len(depths):
            shown.append(f"{depth.n}: {depth.oracle:.2f}")
    return ", ".join(shown)


def _outlook_lines(outlook: Outlook) -> list[tuple[str, str]]:
    """Return the title of each line of the outlook, and its text."""
    possible = (
        f"{outlook.metric} {outlook.first_pass:.2f} -> {outlook.oracle:.2f},"
        f" {outlook.possible:.2f} points"
    )
    perfect = "perfect LM"
    if outlook.by_votes:
        perfect = f"perfect {analysis_of_systems().CHOICE}"
    if outlook.new_texts:  # perfect choices are no bound then
        perfect = "oracle"
        verb = "is" if outlook.new_texts == 1 else "are"
        chosen = counted(outlook.new_texts, "chosen text")
        possible += f"; {chosen} {verb} in no list"
    without_lm = [(perfect, possible), ("next", outlook.next)]
    if not outlook.has_lm and outlook.reranked == outlook.first_pass:
        return without_lm
    gain = (
        f"{outlook.metric} {outlook.first_pass:.2f} -> {outlook.reranked:.2f},"
        f" {outlook.gain:.2f} points"
    )
    if outlook.first_pass:
        gain += f" ({100 * outlook.gain / outlook.first_pass:.1f} %)"
    lines = [("gain", gain)]
    if outlook.flatters:
        warning = (
            "the weights were tuned on these very lists, so the gain on other lists is"
            " smaller; see `run --folds`"
        )
        lines.append(("", warning))
    low, high = outlook.interval
    certain = (
        f"{outlook.certain}: 95 % CI {low:.2f} to {high:.2f} points,"
        f" {p_phrase(outlook.p_value)}"
    )
    lines.append(("certain", certain))
    if not outlook.has_lm:
        return [*lines, *without_lm]
    if not outlook.new_texts:
        possible += f"; this LM takes {100 * outlook.share:.0f} % of them"
    return [*lines, (perfect, possible), ("next", outlook.next)]
