"""Logs of fairseq-generate and fairseq-interactive: S-, T-, H-, D- and P- lines among logging noise."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rescore.errors import UserError
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain, undo_bpe, undo_entities
from rescore.formats.writing import check_holds, checked_number, line, opened
from rescore.nbest import FIRST_PASS, SUM, Hypothesis, NbestList

log = logging.getLogger(__name__)

MOST_TOKENS = 100_000
_LINE = re.compile(r"([STHDP])-(\d{1,18})(?:\t(.*))?", re.DOTALL)


def sniff(source: Source) -> bool:
    return re.search(r"^[SH]-\d+\t", source.head, re.MULTILINE) is not None


@dataclass(slots=True)
class _Candidate:
    score: float  # per token, base 2
    text: str
    line: int
    tokens: int  # how many the score is a mean over, </s> included


@dataclass(slots=True)
class _Block:
    source: str | None = None
    reference: str | None = None
    candidates: list[_Candidate] = field(default_factory=list)


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """Blocks come out of order and are returned in the order of their ids.

    H is log2 p / tokens ** lenpen: `s2s` is that in natural log, `sum` is natural log p, with the number of P values
    (or of H tokens and one) as tokens.
    """
    blocks: dict[int, _Block] = {}
    for number, text in enumerate(source.lines(), 1):
        if match := _LINE.fullmatch(text):
            block = blocks.setdefault(int(match[2]), _Block())
            _take(block, match[1], match[3] or "", number, f"{source.name}: line {number}")
    for index in sorted(blocks):
        block = blocks[index]
        hypotheses = []
        for candidate in block.candidates:
            mean = candidate.score * math.log(2)
            try:
                scores = {FIRST_PASS: mean, SUM: mean * candidate.tokens**options.lenpen}
            except OverflowError:
                raise UserError(
                    f"{source.name}: line {candidate.line}: {candidate.tokens} tokens to the power of --lenpen "
                    f"{options.lenpen:g} is beyond all numbers"
                ) from None
            hypotheses.append(Hypothesis(plain(candidate.text), scores))
        reference = () if block.reference is None else (plain(block.reference.replace("<<unk>>", "<unk>")),)
        said = None if block.source is None else undo_entities(undo_bpe(block.source))
        yield NbestList(str(index), hypotheses, reference, said)


def _take(block: _Block, kind: str, rest: str, number: int, place: str) -> None:
    if kind == "S":
        block.source = rest
    elif kind == "T":
        block.reference = rest
    elif kind == "H":
        score, text = _score_and_text(rest, place)
        block.candidates.append(_Candidate(score, text, number, len(text.split()) + 1))
    elif not block.candidates:
        raise UserError(f"{place}: a {kind}- line before the first H- line of its sentence")
    elif kind == "D":
        score, text = _score_and_text(rest, place)
        if score != block.candidates[-1].score:
            raise UserError(f"{place}: D- score {score} is not that of the H- line {block.candidates[-1].line}")
        block.candidates[-1].text = text
    else:
        block.candidates[-1].tokens = len(rest.split())


def _score_and_text(rest: str, place: str) -> tuple[float, str]:
    score, _, text = rest.partition("\t")
    try:
        return float(score), text
    except ValueError:
        raise UserError(f"{place}: score is {score!r}, not a number") from None


def write(lists: Iterable[NbestList], path: str) -> None:
    """S-, T-, H-, D- and P- lines as fairseq-generate prints them; of scores the first pass and its sum.

    P has the mean as often as there were tokens, so that the sum can be read back (--lenpen 1).
    """
    lost = False
    with opened(path) as file:
        for nbest in check_holds(lists, frozenset({"reference", "source", SUM}), path):
            number = checked_number(nbest, path)
            if nbest.source is not None:
                file.write(f"S-{number}\t{line(nbest.source)}\n")
            if nbest.references:
                file.write(f"T-{number}\t{line(nbest.references[0])}\n")
            for hypothesis in nbest.hypotheses:
                mean, text = hypothesis.scores[FIRST_PASS], line(hypothesis.text)
                tokens = _tokens(hypothesis)
                lost |= tokens is None
                tokens = tokens or len(text.split()) + 1
                score = repr(mean / math.log(2))
                file.write(f"H-{number}\t{score}\t{text}\nD-{number}\t{score}\t{text}\n")
                file.write(f"P-{number}\t{' '.join([f'{mean / math.log(2):.4f}'] * tokens)}\n")
    if lost:
        log.warning("%s: not written: sums that are not a whole multiple of the first pass, which is their mean", path)


def _tokens(hypothesis: Hypothesis) -> int | None:
    """How many tokens the first pass is a mean of, as the sum says; None where it is no mean of these."""
    mean, total = hypothesis.scores[FIRST_PASS], hypothesis.scores.get(SUM)
    usual = len(hypothesis.text.split()) + 1
    if total is None or mean * usual == total:
        return usual
    ratio = total / mean if mean and math.isfinite(mean) and math.isfinite(total) else 0.0
    whole = round(ratio) if 0.5 < ratio < MOST_TOKENS else 0
    return whole if whole and math.isclose(whole * mean, total, rel_tol=1e-6) else None
