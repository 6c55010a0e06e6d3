"""OpenNMT (and CTranslate2): `-n_best N` writes N lines for each sentence; `-verbose` logs them with their scores."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from rescore.errors import UserError
from rescore.formats.lines import as_number, portions
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_equal_sizes, check_holds, line, opened
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

_SENTENCE = re.compile(r"SENT (\d+): (.*)")
_SCORED = re.compile(r"\[(-?\d+(?:\.\d+)?)\] (\[.*\])")
_LOG = re.compile(r"^(?:\[[^\]]*\] )?SENT \d+: ", re.MULTILINE)


def sniff(source: Source) -> bool:
    return _LOG.search(source.head) is not None


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """Of the log: `BEST HYP` with scores. Of plain lines: --nbest-size of them a list, their order as first pass."""
    if sniff(source):
        yield from _log(source)
        return
    size = options.size
    if not size:
        raise UserError(f"{source.name}: how many lines has a sentence? Tell with --nbest-size N (OpenNMT's -n_best)")
    yield from portions((Hypothesis(plain(text)) for text in source.lines()), size, source.name)


def _log(source: Source) -> Iterator[NbestList]:
    current: NbestList | None = None
    last = ""  # what was predicted, whose score is on the next line
    for number, text in enumerate(source.lines(), 1):
        place = f"{source.name}: line {number}"
        if match := _SENTENCE.search(text):
            if current is not None:
                yield current
            current = NbestList(match[1], [], (), _joined(match[2], place))
        elif current is not None and (match := _SCORED.fullmatch(text.strip())):
            current.hypotheses.append(Hypothesis(_joined(match[2], place), {FIRST_PASS: float(match[1])}))
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


def _joined(text: str, place: str) -> str:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise UserError(f"{place}: expected a list of tokens, found {text[:40]}") from None
    return plain(" ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))


def write(lists: Iterable[NbestList], path: str) -> None:
    """Plain lines, the best hypothesis first; every list must have the same number of hypotheses."""
    with opened(path) as file:
        for nbest in check_equal_sizes(check_holds(lists, frozenset(), path, scores=False), path, "moses"):
            for hypothesis in nbest.hypotheses:
                file.write(line(hypothesis.text) + "\n")
