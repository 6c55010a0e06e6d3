"""Global mapping files (GLM) and alternatives, as NIST's sclite has them."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.references import readings
from rescore.metrics.alignment import GAP, SUBSTITUTION

Readings = Sequence[Sequence[Sequence[str]]]
"""A text in parts; of each part the alternatives; of each alternative the words."""

MOST_CELLS = 4_000_000
IMPOSSIBLE = 1 << 40  # more than any alignment costs


def ambiguous(text: Readings) -> bool:
    """Whether the text has more than one reading."""
    return any(len(part) > 1 for part in text)


def first(text: Readings) -> list[str]:
    """The words of the first reading."""
    return [word for part in text for word in part[0]]


def nearest(reference: Readings, hypothesis: Readings) -> tuple[list[str], list[str]]:
    """The readings of both texts with the cheapest alignment (`alignment`); of equally cheap readings, the first.

    Networks of words are aligned as in sclite: each word follows any of its possible predecessors. Time and memory grow
    with the product of the numbers of words.

    Raises:
        UserError: a text with alternatives is too long.
    """
    if not ambiguous(reference) and not ambiguous(hypothesis):
        return first(reference), first(hypothesis)
    expected, expected_before, expected_ends = _network(reference)
    heard, heard_before, heard_ends = _network(hypothesis)
    if len(expected) * len(heard) > MOST_CELLS:
        raise UserError(
            f"--glm: {len(heard):,} words of a text and {len(expected):,} of its reference are too many to compare "
            f"with their alternatives, at most {MOST_CELLS:,} pairs; cut long recordings into utterances"
        )
    # Of the cheapest alignment of a path up to word i with one up to word j.
    cost = [[0] * len(heard) for _ in expected]
    for i, before_i in enumerate(expected_before):
        here = cost[i]
        rows = [cost[p] for p in before_i] or [[IMPOSSIBLE] * len(heard)]
        above = rows[0] if len(rows) == 1 else list(map(min, *rows))
        for j, before_j in enumerate(heard_before):
            if i or j:
                change = SUBSTITUTION * (expected[i] != heard[j])
                least = above[j] + GAP
                for q in before_j:
                    least = min(least, above[q] + change, here[q] + GAP)
                here[j] = least
    i, j = min(((p, q) for p in expected_ends for q in heard_ends), key=lambda ends: cost[ends[0]][ends[1]])
    words: tuple[list[str], list[str]] = ([], [])
    while i or j:
        change = SUBSTITUTION * (expected[i] != heard[j])
        # Of equally cheap steps the change (or match) is taken first, then the insertion, as in `alignment`.
        steps = [(change, p, q) for p in expected_before[i] for q in heard_before[j]]
        steps += [(GAP, i, q) for q in heard_before[j]] + [(GAP, p, j) for p in expected_before[i]]
        p, q = next((p, q) for more, p, q in steps if cost[p][q] + more == cost[i][j])
        words[0].extend([expected[i]] * (p != i))
        words[1].extend([heard[j]] * (q != j))
        i, j = p, q
    return words[0][::-1], words[1][::-1]


def _network(text: Readings) -> tuple[list[str], list[Sequence[int]], Sequence[int]]:
    """The words of all alternatives after a begin (word 0); for each the places of those before it; and the last."""
    words: list[str] = [""]
    before: list[Sequence[int]] = [()]
    ends: Sequence[int] = [0]
    for part in text:
        starts = ends
        ends = []
        for alternative in part:
            last = starts
            for word in alternative:
                words.append(word)
                before.append(last)
                last = [len(words) - 1]
            ends = [*ends, *(place for place in last if place not in ends)]
    return words, before, ends


LONGEST_RULE = 1_000
REFERENCES, HYPOTHESES = {"ref", "stm", "trn", "txt"}, {"hyp", "ctm", "trn", "txt"}
"""Names in a file that restrict the rules below to one side: csrfilt.sh's `-t` and `-i`."""

VERSION = "v2"
"""Version of the rules' meaning: in v1, a rule read the output of the rules above it."""
KEY = 3  # letters by which rules are found


@dataclass(frozen=True, slots=True)
class Rule:
    """`old` becomes one of `new` between `before` and `after`. All in lower case."""

    old: str
    new: tuple[str, ...]
    before: str
    after: str

    def fits(self, text: str, at: int) -> bool:
        """Whether the rule applies at this place of a text in lower case."""
        end = at + len(self.old)
        return text.startswith(self.old, at) and text.endswith(self.before, 0, at) and text.startswith(self.after, end)


Table = Mapping[str, Sequence[tuple[int, Rule]]]
"""Rules and their places in the file, by their first letters."""


@dataclass(frozen=True, slots=True)
class Glm:
    """The rules of a global mapping file.

    A text is read once, from left to right; at each place, the first rule that fits replaces the text. Replaced text is
    not read again, and contexts refer to the original text.
    """

    of_references: Table = field(repr=False, compare=False)
    of_hypotheses: Table = field(repr=False, compare=False)
    digest: str
    """Hash of the file's content, and the version of the rules' meaning."""
    path: str = ""
    """Where it was read."""

    def __call__(self, text: str, reference: bool = False) -> list[tuple[str, ...]]:
        """The text in parts, each a set of alternatives; any alternative is right."""
        text = f" {' '.join(text.split())} "
        lower = text.lower()
        if len(lower) != len(text):  # few letters become two
            lower = "".join(letter.lower()[0] for letter in text)
        table = self.of_references if reference else self.of_hypotheses
        parts: list[tuple[str, ...]] = []
        plain, at = [], 0
        while at < len(text):
            rule = _first(table, lower, at)
            if rule is None or len(rule.new) == 1:
                plain.append(rule.new[0] if rule else text[at])
            else:
                parts += [("".join(plain),), rule.new]
                plain = []
            at += len(rule.old) if rule else 1
        return [*parts, ("".join(plain),)]

    @property
    def sided(self) -> bool:
        """Whether references and hypotheses have rules of their own."""
        return self.of_references != self.of_hypotheses

    @classmethod
    def load(cls, path: str | Path) -> Glm:
        """Read a file of lines `A => B / [ ] __ [ ]`; `;;` begins a comment, `*` a line of its head.

        A and B may stand in brackets or quotes. A blank as context matches the end of a word; without a context, any
        part of a text is replaced. Each alternative of `{B / C}` is right; `@` stands for no word. Case does not
        matter. Below a line `;; INPUT_DEPENDENT_APPLICATION = "hyp"` rules are for hypotheses, of `"ref"` for
        references.

        Raises:
            UserError: the file is absent, or a line has another form.
        """
        try:
            content = Path(path).read_bytes()
            lines = content.decode("utf-8").splitlines()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
        except UnicodeDecodeError:
            raise UserError(f"{path}: not UTF-8; convert the file with iconv") from None
        of_references: dict[str, list[tuple[int, Rule]]] = defaultdict(list)
        of_hypotheses: dict[str, list[tuple[int, Rule]]] = defaultdict(list)
        applies = (True, True)
        for number, line in enumerate(lines, 1):
            side = re.match(r';;\s+INPUT_DEPENDENT_APPLICATION\s*=\s*"([^"]*)"', line)
            if side:
                applies = _sides(side[1])
            line = line.partition(";;")[0].strip()
            if line and not line.startswith("*"):
                rule = _rule(line, f"{path}: line {number}")
                for table, yes in zip((of_references, of_hypotheses), applies, strict=True):
                    if yes:
                        table[rule.old[:KEY]].append((number, rule))
        if not of_references and not of_hypotheses:
            raise UserError(f"{path}: no rule in it; expected lines such as A => B / [ ] __ [ ]")
        digest = f"{hashlib.sha256(content).hexdigest()[:12]}:{VERSION}"
        return cls(of_references, of_hypotheses, digest, str(path))


def _first(table: Table, text: str, at: int) -> Rule | None:
    fitting = [
        (number, rule)
        for letters in range(1, KEY + 1)
        for number, rule in table.get(text[at : at + letters], ())
        if rule.fits(text, at)
    ]
    return min(fitting, key=lambda numbered: numbered[0])[1] if fitting else None


def _sides(expression: str) -> tuple[bool, bool]:
    """Whether rules are for references, and for hypotheses. Of the regular expression its words are read."""
    names = set(re.findall("[a-z]+", expression.lower()))
    return not names or bool(names & REFERENCES), not names or bool(names & HYPOTHESES)


def _rule(line: str, place: str) -> Rule:
    line = " ".join(line.split())
    if len(line) > LONGEST_RULE:
        raise UserError(f"{place}: has more than {LONGEST_RULE:,} characters")
    old, arrow, rest = (side.strip().lower() for side in line.partition("=>"))
    context = re.fullmatch(r"(.*)/([^/{}_]*)_+([^/{}_]*)", rest)
    new, before, after = context.groups() if context else (rest, "", "")
    if not arrow or not old:
        raise UserError(f"{place}: expected `A => B / [ ] __ [ ]`, found {line!r}")
    if not _bare(old):
        raise UserError(f"{place}: no word before =>; expected `A => B / [ ] __ [ ]`")
    return Rule(_bare(old), _alternatives(new.strip(), place), _bare(before.strip()), _bare(after.strip()))


def _alternatives(new: str, place: str) -> tuple[str, ...]:
    """The texts that the right side of a rule stands for."""
    if "{" not in new:
        return (_bare(new),)
    # Files that are in use have lines without the bracket at the end.
    text = re.sub("([{}/])", r" \1 ", new.strip("[] "))
    if text.count("{") != text.count("}"):
        raise UserError(f"{place}: {{ and }} do not match; expected alternatives such as `{{A B / C}}`")
    return readings(text, place)


def _bare(side: str) -> str:
    return side[1:-1] if side[:1] + side[-1:] in ("[]", '""') and len(side) > 1 else side
