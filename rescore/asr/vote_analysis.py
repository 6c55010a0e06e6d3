"""Each of the systems that wrote lists together, beside the texts that were chosen: the
part of `rescore analyse` about votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from rescore.asr.mixture import system_texts
from rescore.metrics import Normaliser
from rescore.reports.analysis import Analysis, Outlook
from rescore.reports.figures import Figures
from rescore.reports.word_errors import confused
from rescore.styles import text
from rescore.tuning import Weights

CHOICE = "vote"
"""What the systems do together, in a word."""


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
    """Words of the references that are right in the system's text and wrong in the
    reranked output.
    """
    agreement: list[float]
    """Agreement with each system, in percent: 100 less the edit distance over the words
    of the longer text of each list.
    """


def compared(
    words: Normaliser, figures: Figures, chosen: Sequence[str]
) -> list[System]:
    """Return the systems that wrote the lists, beside the reranked texts.

    Args:
        words: Cuts texts into words.
        figures: The lists under a metric.
        chosen: The reranked text of each list.
    """
    lists = figures.lists
    texts_of_system = {}
    words_of_system = {}
    for name in figures.systems:
        texts = system_texts(lists, name)
        texts_of_system[name] = texts
        words_of_system[name] = [words(text) for text in texts]
    systems = []
    for name, texts in texts_of_system.items():
        own = words_of_system[name]
        system = System(
            name,
            value=figures.value(figures.of(texts)),
            corrected=confused(words, lists, wrong=texts, right=chosen).total(),
            broken=confused(words, lists, wrong=chosen, right=texts).total(),
            agreement=[_agreement(own, other) for other in words_of_system.values()],
        )
        systems.append(system)
    return systems


def _agreement(ours: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> float:
    """Return the agreement of the words of two systems' texts, in percent."""
    differences = 0
    words = 0
    for our_words, their_words in zip(ours, theirs, strict=True):
        differences += Levenshtein.distance(our_words, their_words)
        words += max(len(our_words), len(their_words))
    return 100 - 100 * differences / max(1, words)


def next_step(outlook: Outlook, weights: Weights) -> str:
    """Return advice on what to do after a vote. It names no language model: the figures
    of votes do not show that a model would gain.

    Args:
        outlook: The figures.
        weights: The weights that decided.
    """
    if not weights.tuning.digest:
        return "tune the votes: give --weights FILE of `rescore tune`"
    if outlook.gain <= 0:
        return "other systems: tuned votes do not help here"
    if outlook.certain == "unclear":
        return "more test lists: the p-value and the interval disagree about the gain"
    if outlook.certain == "no":
        return "more lists to tune votes on: the gain may be due to chance"
    return "one more system of similar quality"


def cells(systems: Sequence[System], metric: str) -> list[list[str]]:
    """Return the head of a table, and a row for each system.

    Args:
        systems: The systems.
        metric: The name of their metric.
    """
    numbers = [str(number) for number in range(1, len(systems) + 1)]
    rows = [["", metric, "corrected", "broken", *numbers]]
    for number, system in zip(numbers, systems, strict=True):
        row = [f"{number} {system.name}", f"{system.value:.2f}"]
        row += [f"{system.corrected:,}", f"{system.broken:,}"]
        row += [f"{share:.1f}" for share in system.agreement]
        rows.append(row)
    return rows


def lines(analysis: Analysis) -> list[str]:
    """Return a table with a row for each system, and the reranked output below."""
    rows = cells(analysis.systems, analysis.metric)
    empty = [""] * (len(rows[0]) - 2)
    rows.append(["reranked", f"{analysis.outlook.reranked:.2f}", *empty])
    return [
        text(rows),
        "corrected, broken: words; 1, 2, ...: percent of words on which two systems"
        " agree",
    ]
