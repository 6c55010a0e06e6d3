"""Logs of fairseq-generate and fairseq-interactive: S-, T-, H-, D- and P- lines among logging noise."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rescore.errors import UserError
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain, undo_bpe, undo_entities
from rescore.nbest import FIRST_PASS, SUM, Hypothesis, NbestList

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
    for number, line in enumerate(source.lines(), 1):
        if match := _LINE.fullmatch(line):
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
        text = None if block.source is None else undo_entities(undo_bpe(block.source))
        yield NbestList(str(index), hypotheses, reference, text)


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
