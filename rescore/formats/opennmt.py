"""OpenNMT (and CTranslate2): `-n_best N` writes N lines for each sentence; `-verbose` logs them with their scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rescore.errors import UserError
from rescore.formats.lines import as_number, literal_words, portions
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_equal_sizes, check_holds, line, opened
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

_SENTENCE = re.compile(r"SENT (\d+): (.*)")
_SCORED = re.compile(r"\[(-?\d+(?:\.\d+)?)\] (\[.*\])")


def sniff(source: Source) -> bool:
    return any(_begins_sentence(line) for line in source.head.split("\n"))


def _begins_sentence(line: str) -> bool:
    """Whether a line is `SENT 1: ...`, perhaps behind a time in brackets."""
    before, mark, rest = line.partition("SENT ")
    number, colon, _ = rest.partition(": ")
    return bool(mark and colon) and number.isdecimal() and (not before or (before[0] == "[" and before[-2:] == "] "))


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """Of the log: `BEST HYP` with scores. Of plain lines: --nbest-size of them a list, their order as first pass."""
    if sniff(source):
        yield from _log(source)
        return
    size = options.size
    if not size:
        raise UserError(f"{source.name}: how many lines has a sentence? Say it with --nbest-size N (OpenNMT's -n_best)")
    yield from portions((Hypothesis(plain(text)) for text in source.lines()), size, source.name)


def _log(source: Source) -> Iterator[NbestList]:
    current: NbestList | None = None
    last = ""  # what was predicted, whose score is on the next line
    for number, text in enumerate(source.lines(), 1):
        place = f"{source.name}: line {number}"
        if match := _SENTENCE.search(text):
            if current is not None:
                yield current
            current = NbestList(match[1], [], (), plain(literal_words(match[2], place)))
        elif current is not None and (match := _SCORED.fullmatch(text.strip())):
            current.hypotheses.append(Hypothesis(plain(literal_words(match[2], place)), {FIRST_PASS: float(match[1])}))
        elif current is not None and (match := re.search(r"GOLD \d+: (.*)", text)):
            current.references = (plain(match[1]),)
        elif current is not None and not current.hypotheses and (match := re.search(r"PRED \d+: (.*)", text)):
            last = match[1]
        elif current is not None and not current.hypotheses and (match := re.search(r"PRED SCORE: (\S+)", text)):
            current.hypotheses.append(Hypothesis(plain(last), {FIRST_PASS: as_number(match[1], place)}))
        elif current is not None and text.strip() == "BEST HYP:":
            current.hypotheses.clear()  # the list has the best, too
    if current is not None:
        yield current


def write(lists: Iterable[NbestList], path: str) -> None:
    """Plain lines, the best hypothesis first; every list must have the same number of hypotheses."""
    with opened(path) as file:
        for nbest in check_equal_sizes(check_holds(lists, frozenset(), path, scores=False), path, "moses"):
            for hypothesis in nbest.hypotheses:
                file.write(line(hypothesis.text) + "\n")
