"""Records and tables with a key for each hypothesis: which keys a pattern stands for,
and which text has which score.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from rescore.errors import UserError, counted, listed
from rescore.formats.source import InputProblem
from rescore.ids import without_zeros

_DIGITS = re.compile(r"\d+")


class Match(NamedTuple):
    """A key of a record that --field names, or that a pattern of --field stands for."""

    name: str
    option: int
    """The number of the key of --field among those of its role, from 0."""
    stars: str | None = None
    """What the `*` of a pattern stands for, as it is compared; None for a name."""

    @property
    def pair(self) -> tuple[int, str | None]:
        """What a text and its score have in common, if patterns name both."""
        return self.option, self.stars


def is_pattern(key: str) -> bool:
    """Return whether a key of --field stands for several names.

    Args:
        key: The key.
    """
    return "*" in key


def is_nearer(key: str, pattern: str) -> bool:
    """Return whether a key says more than a pattern: a name, or a longer pattern. Of
    `hyp*` and `hyp*_score`, the second has `hyp1_score`.

    Args:
        key: The key.
        pattern: The pattern.
    """
    return not is_pattern(key) or len(key) > len(pattern)


def is_matched(name: str, keys: Iterable[str]) -> bool:
    """Return whether a name is one of some keys, or matches one of them.

    Args:
        name: The name.
        keys: Keys and patterns.
    """
    return any(fnmatchcase(name, key) for key in keys if is_pattern(key) or key == name)


def stars(name: str, pattern: str) -> str | None:
    """Return what the `*` of a pattern stands for in a name that matches; None if the
    pattern has several `*`, or letters to choose from.

    Args:
        name: The name, as it is compared.
        pattern: The pattern, as it is compared.

    Example:
        >>> stars("text_01", "text_*")
        '1'
    """
    ahead, _, behind = pattern.partition("*")
    if "*" in behind or "[" in pattern:
        return None
    star = name[len(ahead) : len(name) - len(behind)]
    return without_zeros(star)


def by_number(matches: list[Match]) -> list[Match]:
    """Return the keys of a pattern in the order of their numbers, if they stand in the
    order of the alphabet: 0, 1, 10, 11, 2. Other keys keep their order.

    Args:
        matches: The keys, in the order of the record.
    """
    names = [match.name for match in matches]
    if names != sorted(names) or not all((m.stars or "").isdecimal() for m in matches):
        return matches
    return sorted(matches, key=lambda match: int(match.stars or 0))


def pairs(texts: Sequence[Match], scores: Sequence[Match]) -> list[tuple[str, str]]:
    """Return the texts of a list, each with its score: by what `*` stands for where
    patterns name both, else in the order of the options.

    Args:
        texts: The keys of the texts.
        scores: The keys of the scores.

    Raises:
        UserError: A text has no score, or a score no text.
    """
    if _has_patterns(texts) and _has_patterns(scores):
        by_stars = {score.pair: score.name for score in scores}
        ours = {text.pair for text in texts}
        without = [text.name for text in texts if text.pair not in by_stars]
        left = [score.name for score in scores if score.pair not in ours]
        if without or left:
            raise UserError(
                "--field pairs texts and scores by what * stands for: of"
                f" {counted(len(texts), 'text')}, {listed(without) or 'none'} without"
                f" a score; of {counted(len(scores), 'score')},"
                f" {listed(left) or 'none'} without a text; name each text and its"
                " score, in the same order"
            )
        return [(text.name, by_stars[text.pair]) for text in texts]
    if len(scores) != len(texts):
        shown = listed([text.name for text in texts]) or "none named"
        raise UserError(
            f"--field gives {counted(len(texts), 'column')} of texts ({shown}) and"
            f" {len(scores)} of scores ({listed([score.name for score in scores])});"
            " give each text its score, in the same order"
        )
    return [(text.name, score.name) for text, score in zip(texts, scores, strict=True)]


def _has_patterns(matches: Sequence[Match]) -> bool:
    """Return whether a pattern stands for a key."""
    return any(match.stars is not None for match in matches)


def are_empty(cells: Iterable[object]) -> bool:
    """Return whether cells hold nothing: no value, or a text of blanks.

    Args:
        cells: The cells of a hypothesis: its text, and its score.
    """
    return all(cell is None or str(cell).strip() == "" for cell in cells)


def left_scores(
    texts: Iterable[tuple[str, object]],
    record: Mapping[str, Any],
    known: Collection[str],
) -> Iterator[InputProblem]:
    """Yield what users are told of keys of numbers that may be the scores of numbered
    texts: keys that differ in their number only, and have the numbers of all texts.

    Args:
        texts: The keys of the texts, which have no scores.
        record: The keys and values of a record.
        known: The keys that --field names.
    """
    wanted = {_number(text) for text, _ in texts}
    numbers = []
    for name, value in record.items():
        if name not in known and _is_number(value):
            numbers.append(name)
    for pattern, names in _families(numbers).items():
        if wanted <= set(map(_number, names)):
            shown = listed(names)
            yield InputProblem(
                f"has texts without scores beside {shown}",
                f"have texts without scores beside {shown}",
                f"; if these are the scores, give --field 'score={pattern}'",
            )


def numbered(names: Iterable[str]) -> str:
    """Return the end of a message about a record without known hypotheses: the option
    for columns that differ in their number only. Empty if there are none.

    Args:
        names: The columns of a table, or the keys of a record that have a text.

    Example:
        >>> numbered(["id", "sample_0", "sample_1"])
        "; for a column for each hypothesis: --field 'text=sample_*'"
    """
    for pattern, own in _families(names).items():
        if len(own) > 1:
            return f"; for a column for each hypothesis: --field 'text={pattern}'"
    return ""


def _families(names: Iterable[str]) -> dict[str, list[str]]:
    """Return names that differ in their last number only, by their pattern."""
    families: dict[str, list[str]] = {}
    for name in names:
        if _DIGITS.search(name):
            families.setdefault(_pattern(name), []).append(name)
    return families


def _is_number(value: Any) -> bool:
    """Return whether a value, or a cell of a table, is a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _number(name: str) -> int | None:
    """Return the last number of a name; None if it has no number."""
    numbers = _DIGITS.findall(name)
    return int(numbers[-1]) if numbers else None


def _pattern(name: str) -> str:
    """Return a name with a `*` for its last number."""
    *_, last = _DIGITS.finditer(name)
    return f"{name[: last.start()]}*{name[last.end() :]}"
