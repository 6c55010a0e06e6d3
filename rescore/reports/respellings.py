"""What respelling did: each word that was heard, what is written instead, and whether that is better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from rescore.expansion.recombine import Edit, edits_between
from rescore.metrics import Metric
from rescore.nbest import EDITS, FIRST_PASS, NbestList
from rescore.parts import STYLES

EFFECTS = ("better", "worse", "unchanged")


@dataclass(frozen=True, slots=True)
class Respelled:
    """One word (or more) in all utterances."""

    heard: str
    written: str
    times: int
    effects: tuple[int, int, int] | None
    """How often that alone is better, worse, or as good; None without references."""


def respellings(metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]) -> list[Respelled]:
    """What was respelled in the chosen texts, the most frequent first.

    The effect is that on the utterance's errors (by the metric), where this alone is changed in the hypothesis that
    the chosen one came from.
    """
    found = [(nbest, *one) for nbest, text in zip(lists, texts, strict=True) for one in _changes(nbest, text)]
    with_references = bool(found) and all(nbest.references for nbest, *_ in found)
    effects: Counter[tuple[str, str, str]] = Counter()
    if with_references:
        references = [nbest.references for nbest, *_ in found]
        before = metric.losses(metric.statistics([" ".join(words) for _, words, _ in found], references))
        after = metric.losses(metric.statistics([_applied(words, edit) for _, words, edit in found], references))
        for (_, words, edit), change in zip(found, (after - before).tolist(), strict=True):
            effect = "better" if change < 0 else "worse" if change > 0 else "unchanged"
            effects[(*_sides(words, edit), effect)] += 1
    times = Counter(_sides(words, edit) for _, words, edit in found)
    return [
        Respelled(*sides, number, tuple(effects[(*sides, name)] for name in EFFECTS) if with_references else None)  # type: ignore[arg-type]
        for sides, number in sorted(times.items(), key=lambda item: (-item[1], item[0]))
    ]


def heard(nbest: NbestList, text: str) -> str | None:
    """The hypothesis that a respelled text of the list came from; None for other texts."""
    chosen = next((one for one in nbest.hypotheses if one.text == text), None)
    if chosen is None or not chosen.scores.get(EDITS):
        return None
    words, first = text.split(), chosen.scores[FIRST_PASS]
    sources = [one.text for one in nbest.hypotheses if not one.scores.get(EDITS) and one.scores[FIRST_PASS] == first]
    return min(sources, key=lambda some: Levenshtein.distance(some.split(), words))


def _changes(nbest: NbestList, text: str) -> Iterator[tuple[list[str], Edit]]:
    """The words of the hypothesis that a respelled text came from, with each change; nothing for other texts."""
    source = heard(nbest, text)
    if source is not None:
        words = source.split()
        for edit in edits_between(words, text.split()):
            yield words, edit


def _sides(words: Sequence[str], edit: Edit) -> tuple[str, str]:
    return " ".join(words[edit.start : edit.end]).lower(), " ".join(edit.words).lower()


def _applied(words: Sequence[str], edit: Edit) -> str:
    return " ".join([*words[: edit.start], *edit.words, *words[edit.end :]])


def render(found: Sequence[Respelled], style: str) -> str:
    """A table, with the sum of all in its last row."""
    known = bool(found) and all(one.effects is not None for one in found)
    rows = [["heard", "written", "times", *(EFFECTS if known else ())]]
    for one in found:
        rows.append([one.heard, one.written, str(one.times), *map(str, one.effects or ())])
    sums = [sum(column) for column in zip(*(one.effects for one in found if one.effects), strict=True)]
    rows.append(["all", "", str(sum(one.times for one in found)), *map(str, sums if known else ())])
    return STYLES[style](rows)
