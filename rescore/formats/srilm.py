"""SRILM N-best lists (nbest-format(5)): one file per utterance, named after it; or a folder of such files.

Three formats: `NBestList1.0` with one total, `NBestList2.0` with times and scores of words, both in bytelogs, and
SRILM's own lines `acoustic language words w1 w2 ...` in logs of base 10.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rescore.errors import UserError
from rescore.files import path_for
from rescore.formats.lines import as_number
from rescore.formats.source import AcousticScale, ReadOptions, Source
from rescore.formats.text import strip_markup
from rescore.formats.writing import check_holds, checked_id, line, new_folder, opened
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList

log = logging.getLogger(__name__)

ACOUSTIC, LANGUAGE = "am", "lm"
ACOUSTIC_SCALE = 1 / 8
"""SRILM's own default, a language model weight of 8."""
BYTELOG = 1024 / 10000.5
"""One bytelog in natural logs, as SRILM converts."""
LN10 = math.log(10)
_COLUMNS = {name: Column.component("srilm") for name in (ACOUSTIC, LANGUAGE)}
_OWN = re.compile(
    r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?[ \t]+-?\d+(?:\.\d+)?(?:e[-+]?\d+)?[ \t]+\d+(?:[ \t]|$)", re.IGNORECASE
)
_SILENT = {"<s>", "</s>", "-pau-", "<pau>"}
_WORD_FIELDS = 11  # of NBestList2.0: w ( st: 0.1 et: 0.2 g: -10 a: -20 )


def sniff(source: Source) -> bool:
    if source.is_folder:
        files = _files(source.path)
        return bool(files) and _is_nbest(Source(files[0]).head)
    return _is_nbest(source.head)


def _is_nbest(head: str) -> bool:
    return head.startswith(("NBestList1.0", "NBestList2.0")) or _OWN.match(head) is not None


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))


Options = AcousticScale


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """`s2s` is the total, or the LM score and the acoustic score times --acoustic-scale (1/8), which have columns."""
    scale = options.of(Options).acoustic_scale
    scale = ACOUSTIC_SCALE if scale is None else scale
    for file in [Source(path, source.warnings) for path in _files(source.path)] if source.is_folder else [source]:
        lines = file.lines()
        first = next(lines, "")
        kind = first.strip() if first.startswith("NBestList") else ""
        nbest = NbestList(file.stem, [], provenance=_COLUMNS)
        start = 1 if kind else 0
        for number, text in enumerate(lines if kind else _again(first, lines), start + 1):
            if text.strip():
                nbest.hypotheses.append(_hypothesis(text.split(), kind, scale, f"{file.name}: line {number}"))
        yield nbest


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _hypothesis(cells: list[str], kind: str, scale: float, place: str) -> Hypothesis:
    if not kind:
        if len(cells) < 3:
            raise UserError(f"{place}: expected `acoustic language words w1 w2 ...`")
        acoustic, language = (as_number(cell, place) * LN10 for cell in cells[:2])
        words = cells[3:]
    else:
        total = as_number(cells[0].strip("()"), place) * BYTELOG
        if kind == "NBestList1.0":
            return Hypothesis(_text(cells[1:]), {FIRST_PASS: total})
        words, acoustic, language = _timed(cells[1:], place)
    scores = {FIRST_PASS: language + scale * acoustic, ACOUSTIC: acoustic, LANGUAGE: language}
    return Hypothesis(_text(words), scores if acoustic else {FIRST_PASS: language})


def _timed(cells: list[str], place: str) -> tuple[list[str], float, float]:
    """Words and their acoustic and LM scores; the phones and states within a word's time are no words."""
    if len(cells) % _WORD_FIELDS:
        raise UserError(f"{place}: expected `word ( st: S et: E g: G a: A )` for each word")
    words, acoustic, language, until = [], 0.0, 0.0, -1.0
    for start in range(0, len(cells), _WORD_FIELDS):
        word = cells[start : start + _WORD_FIELDS]
        if as_number(word[3], place) > until and not re.search(r"-\d$", word[0]):
            words.append(word[0])
            language += as_number(word[7], place) * BYTELOG
            acoustic += as_number(word[9], place) * BYTELOG
            until = as_number(word[5], place)
    return words, acoustic, language


def _text(words: list[str]) -> str:
    return strip_markup(" ".join(word for word in words if word not in _SILENT))


def write(lists: Iterable[NbestList], path: str) -> None:
    """One gzipped file per utterance, in SRILM's own format: the LM score's field holds all but the acoustic score."""
    lost: dict[str, None] = {}
    with new_folder(path) as target:
        for nbest in check_holds(lists, frozenset({ACOUSTIC, LANGUAGE}), path):
            with opened(str(path_for(target, f"{checked_id(nbest, path, '/.')}.gz", "the id"))) as file:
                for hypothesis in nbest.hypotheses:
                    acoustic, language = _written(hypothesis, lost)
                    words = line(hypothesis.text)
                    cells = f"{acoustic / LN10!r} {language / LN10!r} {len(words.split())} {words}"
                    file.write(cells.rstrip() + "\n")
    if lost:
        log.warning(
            "%s: not written: %s; SRILM's files only hold am, and the first-pass score minus am / 8",
            path,
            ", ".join(lost),
        )


def _written(hypothesis: Hypothesis, lost: dict[str, None]) -> tuple[float, float]:
    """The acoustic and the LM score for the file; scores that cannot be read back from it are put into `lost`."""
    total, scores = hypothesis.scores[FIRST_PASS], hypothesis.scores
    acoustic = scores.get(ACOUSTIC, 0.0)
    language = total - ACOUSTIC_SCALE * acoustic if math.isfinite(acoustic) else total
    if not _close(language + ACOUSTIC_SCALE * acoustic, total):
        lost["first-pass scores"] = None
    if LANGUAGE in scores and not (acoustic and _close(scores[LANGUAGE], language)):
        lost["column lm"] = None
    if ACOUSTIC in scores and not acoustic:
        lost["column am where it is 0"] = None
    return acoustic, language


def _close(score: float, other: float) -> bool:
    return score == other or math.isclose(score, other, rel_tol=1e-6, abs_tol=1e-6)
