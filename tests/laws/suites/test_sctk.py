"""Law: texts in the forms of sclite give sclite's counts, but for the cases whose
difference is listed with a reason.

The cases were written for this table: a case for each form of trn, STM and CTM that
sclite reads. The expected words, substitutions, deletions and insertions are those that
sclite 2.4.10 prints.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.asr.test_sclite import counts_of, sclite_counts
from tests.laws.suites.suite import Case, Suite

ENDINGS = {"trn": ("ref.trn", "hyp.trn"), "ctm": ("ref.stm", "hyp.ctm")}


def written(kind: str, reference: str, output: str, folder: str) -> tuple[Path, Path]:
    """Write the two files of a case, and return the paths of output and reference."""
    paths = [Path(folder) / name for name in ENDINGS[kind]]
    for path, content in zip(paths, (reference, output), strict=True):
        path.write_text(content, encoding="utf-8")
    return paths[1], paths[0]


def counts(kind: str, reference: str, output: str) -> list[int]:
    """Return the words, substitutions, deletions and insertions of an output."""
    with TemporaryDirectory() as folder:
        return counts_of(*written(kind, reference, output, folder))


TRN: list[tuple[str, str, str, list[int]]] = [
    ("equal", "the old clock (s-1)\n", "the old clock (s-1)\n", [3, 0, 0, 0]),
    ("case", "The OLD clock (s-1)\n", "the old CLOCK (s-1)\n", [3, 0, 0, 0]),
    (
        "one of each",
        "the old clock ticks (s-1)\n",
        "the cold clock (s-1)\n",
        [4, 1, 1, 0],
    ),
    ("insertions", "a b (s-1)\n", "a x y b z (s-1)\n", [2, 0, 0, 3]),
    ("deletions", "a b c d e (s-1)\n", "b d (s-1)\n", [5, 0, 3, 0]),
    ("shift", "a b c d (s-1)\n", "b c d a (s-1)\n", [4, 0, 1, 1]),
    ("substitution or gaps", "a b (s-1)\n", "b c (s-1)\n", [2, 0, 1, 1]),
    ("more errors than needed", "a b c (s-1)\n", "c x (s-1)\n", [3, 0, 2, 1]),
    ("empty hypothesis", "a b c (s-1)\n", "(s-1)\n", [3, 0, 3, 0]),
    ("empty reference", "(s-1)\na (s-2)\n", "x y (s-1)\na (s-2)\n", [1, 0, 0, 2]),
    (
        "two utterances",
        "a b (s-1)\nc d (s-2)\n",
        "c d (s-2)\na x (s-1)\n",
        [4, 1, 0, 0],
    ),
    ("id in another case", "a b (S-1)\n", "a b (s-1)\n", [2, 0, 0, 0]),
    ("alternatives of reference", "{ a / b } c (s-1)\n", "b c (s-1)\n", [2, 0, 0, 0]),
    (
        "alternatives of several words",
        "{ it's / it is } late (s-1)\n",
        "it is late (s-1)\n",
        [3, 0, 0, 0],
    ),
    ("alternative of nothing", "{ uh / @ } yes (s-1)\n", "yes (s-1)\n", [1, 0, 0, 0]),
    (
        "alternative of nothing, heard",
        "{ uh / @ } yes (s-1)\n",
        "uh yes (s-1)\n",
        [2, 0, 0, 0],
    ),
    ("alternatives of hypothesis", "b c (s-1)\n", "{ a / b } c (s-1)\n", [2, 0, 0, 0]),
    (
        "nested alternatives",
        "{ a / { b / c } d } e (s-1)\n",
        "c d e (s-1)\n",
        [3, 0, 0, 0],
    ),
    (
        "cheapest alternatives, not fewest errors",
        "{ a f e / a c a / @ } b f (s-1)\n",
        "f g a a c (s-1)\n",
        [2, 0, 1, 4],
    ),
    (
        "words rather than none, where both cost the same",
        "x { a b / @ } (s-1)\n",
        "x a (s-1)\n",
        [3, 0, 1, 0],
    ),
    (
        "alternatives of both",
        "c d { f a / e g b } (s-1)\n",
        "{ c / a d } { b f a / g } (s-1)\n",
        [4, 1, 0, 0],
    ),
    ("empty word in reference", "a @ b (s-1)\n", "a b (s-1)\n", [2, 0, 0, 0]),
    ("optional word left out", "a (uh) b (s-1)\n", "a b (s-1)\n", [3, 0, 1, 0]),
    ("optional word heard", "a (uh) b (s-1)\n", "a uh b (s-1)\n", [3, 1, 0, 0]),
    ("fragment", "a wor- b (s-1)\n", "a word b (s-1)\n", [3, 1, 0, 0]),
    ("hyphen", "twenty-one (s-1)\n", "twenty one (s-1)\n", [1, 1, 0, 1]),
    ("apostrophe", "it's (s-1)\n", "its (s-1)\n", [1, 1, 0, 0]),
    ("umlauts", "Über alles (s-1)\n", "über alles (s-1)\n", [2, 1, 0, 0]),
    ("tag of a word", "a;x b (s-1)\n", "a b (s-1)\n", [2, 0, 0, 0]),
    (
        "comment lines",
        ";; a comment\na b (s-1)\n",
        ";; another\na b (s-1)\n",
        [2, 0, 0, 0],
    ),
    ("several blanks", "a   b (s-1)\n", "  a b   (s-1)\n", [2, 0, 0, 0]),
    ("tabs", "a\tb (s-1)\n", "a b (s-1)\n", [2, 0, 0, 0]),
]
CTM: list[tuple[str, str, str, list[int]]] = [
    (
        "one segment",
        "t 1 s 0 2 a b c\n",
        "t 1 0.1 0.2 a\nt 1 0.5 0.2 x\nt 1 1.0 0.2 c\n",
        [3, 1, 0, 0],
    ),
    (
        "labels",
        "t 1 s 0 2 <o,f0,male> a b\n",
        "t 1 0.1 0.2 a\nt 1 0.5 0.2 b\n",
        [2, 0, 0, 0],
    ),
    (
        "confidences",
        "t 1 s 0 2 a b\n",
        "t 1 0.1 0.2 a 0.9\nt 1 0.5 0.2 b 0.1\n",
        [2, 0, 0, 0],
    ),
    (
        "two segments",
        "t 1 s 0 2 a b\nt 1 s 2 4 c d\n",
        "t 1 0.1 0.2 a\nt 1 0.5 0.2 b\nt 1 2.1 0.2 c\nt 1 2.5 0.2 x\n",
        [4, 1, 0, 0],
    ),
    (
        "middle of a word decides",
        "t 1 s 0 2 a b\nt 1 s 2 4 c\n",
        "t 1 0.1 0.2 a\nt 1 1.8 0.6 b\nt 1 2.6 0.2 c\n",
        [3, 0, 1, 1],
    ),
    (
        "two channels",
        "t A s 0 2 a\nt B s 0 2 b\n",
        "t A 0.1 0.2 a\nt B 0.1 0.2 b\n",
        [2, 0, 0, 0],
    ),
    (
        "word in a pause",
        "t 1 s 0 1 a\nt 1 s 2 3 b\n",
        "t 1 0.1 0.2 a\nt 1 1.4 0.2 x\nt 1 2.1 0.2 b\n",
        [2, 0, 0, 1],
    ),
    (
        "segment without words",
        "t 1 s 0 1 a\nt 1 s 2 3 \n",
        "t 1 0.1 0.2 a\nt 1 2.1 0.2 b\n",
        [1, 0, 0, 1],
    ),
    (
        "ignored segment",
        "t 1 s 0 1 a\nt 1 s 1 2 IGNORE_TIME_SEGMENT_IN_SCORING\nt 1 s 2 3 b\n",
        "t 1 0.1 0.2 a\nt 1 1.4 0.2 x\nt 1 2.1 0.2 b\n",
        [2, 0, 0, 0],
    ),
    (
        "ignored segment, lower case",
        "t 1 s 0 1 a\nt 1 s 1 2 ignore_time_segment_in_scoring\nt 1 s 2 3 b\n",
        "t 1 0.1 0.2 a\nt 1 1.4 0.2 x\nt 1 2.1 0.2 b\n",
        [2, 0, 0, 0],
    ),
    (
        "ignored segment, without _",
        "t 1 s 0 1 a\nt 1 s 1 2 IGNORETIMESEGMENTINSCORING\nt 1 s 2 3 b\n",
        "t 1 0.1 0.2 a\nt 1 1.4 0.2 x\nt 1 2.1 0.2 b\n",
        [2, 0, 0, 0],
    ),
    (
        "mark within text",
        "t 1 s 0 1 a\nt 1 s 1 2 c IGNORE_TIME_SEGMENT_IN_SCORING d\nt 1 s 2 3 b\n",
        "t 1 0.1 0.2 a\nt 1 1.4 0.2 x\nt 1 2.1 0.2 b\n",
        [2, 0, 0, 0],
    ),
    (
        "excluded region",
        "t 1 s 0 1 a\nt 1 excluded_region 1 2 c\nt 1 s 2 3 b\n",
        "t 1 0.1 0.2 a\nt 1 1.4 0.2 x\nt 1 2.1 0.2 b\n",
        [3, 1, 0, 0],
    ),
    (
        "alternatives of reference",
        "t 1 s 0 2 { a / b } c\n",
        "t 1 0.1 0.2 b\nt 1 0.5 0.2 c\n",
        [2, 0, 0, 0],
    ),
    (
        "alternatives of CTM",
        "t 1 s 0 2 b c\n",
        "t 1 * * <ALT_BEGIN>\nt 1 0.1 0.2 a\nt 1 * * <ALT>\nt 1 0.1 0.2 b\n"
        "t 1 * * <ALT_END>\nt 1 0.5 0.2 c\n",
        [2, 0, 0, 0],
    ),
    (
        "comments",
        ";; x\nt 1 s 0 2 a b\n",
        ";; y\nt 1 0.1 0.2 a\nt 1 0.5 0.2 b\n",
        [2, 0, 0, 0],
    ),
    ("nothing heard", "t 1 s 0 2 a b c\n", "", [3, 0, 3, 0]),
    (
        "a recording not heard",
        "t 1 s 0 2 a b c\nu 1 s 0 2 d\n",
        "t 1 0.1 0.2 a\n",
        [4, 0, 3, 0],
    ),
    (
        "case of names",
        "Talk A s 0 2 a b\n",
        "talk a 0.1 0.2 a\ntalk a 0.5 0.2 b\n",
        [2, 0, 0, 0],
    ),
    (
        "words out of order",
        "t 1 s 0 2 a b\n",
        "t 1 0.5 0.2 b\nt 1 0.1 0.2 a\n",
        [2, 0, 1, 1],
    ),
    (
        "zero length words",
        "t 1 s 0 2 a b\n",
        "t 1 0.1 0.0 a\nt 1 0.5 0.0 b\n",
        [2, 0, 0, 0],
    ),
]


def cases() -> dict[str, Case]:
    """Return the cases of both tables by their names."""
    every = {}
    for kind, rows in (("trn", TRN), ("ctm", CTM)):
        for name, reference, output, expected in rows:
            every[f"{kind}, {name}"] = Case(counts, (kind, reference, output), expected)
    return every


SUITE = Suite(
    tool="sclite 2.4.10",
    cases=cases(),
    different={
        "case is folded in all scripts": ["trn, umlauts"],
        "tags of words are not read": ["trn, tag of a word"],
        "names of recordings are taken as they are written": ["ctm, case of names"],
        "words are sorted by time, with a message": ["ctm, words out of order"],
    },
    within=0,
)


@pytest.mark.parametrize("name", SUITE.cases)
def test_case(name: str) -> None:
    SUITE.check(name)


@pytest.mark.tools
@pytest.mark.parametrize("name", SUITE.cases)
def test_expected_is_sclites(name: str, tmp_path: Path) -> None:
    case = SUITE.cases[name]
    assert sclite_counts(*written(*case.given, str(tmp_path))) == case.expected
