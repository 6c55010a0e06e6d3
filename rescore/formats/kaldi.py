"""Kaldi N-best lists, as `nbest-to-linear` and `steps/rnnlmrescore.sh` leave them: a folder of archives in text form.

`words_text` (or `text`) has the lines `utt-1 words`, `utt-2 words`, ...; `acwt` (or `ac_cost`) and `lmwt.withlm` (or
`lmwt`, `lm_cost`, `lmwt.nolm`) the acoustic and the graph costs. Costs are negative logs: as scores they change sign.
Any file may be gzipped.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.files import path_for
from rescore.formats.lines import as_number, grouped, split_id, table
from rescore.formats.source import AcousticScale, ReadOptions, Source
from rescore.formats.text import strip_markup
from rescore.formats.writing import check_holds, checked_id, line, new_folder, opened
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList, free_name

log = logging.getLogger(__name__)

ACOUSTIC, LANGUAGE = "am", "lm"
"""Columns of the acoustic score and of the graph's."""
ACOUSTIC_SCALE = 1 / 12
"""Kaldi's own default, --inv-acwt 12."""
_WORDS = [name + packed for name in ("words_text", "words", "text", "nbest") for packed in ("", ".gz")]
_ACOUSTIC, _GRAPH = ("acwt", "ac_cost"), ("lmwt.withlm", "lmwt", "lm_cost", "lmwt.nolm")
_NUMBERED = re.compile(r"(.+)-(\d{1,9})")
_COMPONENT = Column.component("kaldi")
_ARCHIVES = re.compile(r"archives\.(\d+)")


def sniff(source: Source) -> bool:
    if source.is_folder:
        return bool(_parts(source.path))
    first = split_id(source.head.partition("\n")[0])[0]
    return source.is_regular and _NUMBERED.fullmatch(first) is not None and bool(_costs(source.path.parent))


def _parts(path: Path) -> list[Path]:
    """The folder itself, or its archives.1, archives.2, ..."""
    archives = [(int(match[1]), part) for part in path.iterdir() if (match := _ARCHIVES.fullmatch(part.name))]
    parts = [part for _, part in sorted(archives)] or [path]
    return [part for part in parts if _words(part) and (_costs(part) or archives)]


def _words(part: Path) -> Path | None:
    return next((part / name for name in _WORDS if (part / name).is_file()), None)


def _costs(part: Path) -> dict[str, Path]:
    """Files of costs by their names without .gz."""
    return {
        path.name.removesuffix(".gz"): path
        for path in sorted(part.iterdir())
        if path.is_file() and (path.name.removesuffix(".gz") in (*_ACOUSTIC, *_GRAPH) or path.name.startswith("lmwt."))
    }


Options = AcousticScale


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """`s2s` is the graph score and the acoustic score times --acoustic-scale (1/12); both have columns, too."""
    scale = options.of(Options).acoustic_scale
    scale = ACOUSTIC_SCALE if scale is None else scale
    files = [_words(part) for part in _parts(source.path)] if source.is_folder else [source.path]
    for words in files:
        assert words is not None
        costs = {name: table(path, source.warnings) for name, path in _costs(words.parent).items()}
        yield from _lists(Source(words, source.warnings) if source.is_folder else source, costs, scale)


def _lists(words: Source, costs: dict[str, dict[str, str]], scale: float) -> Iterator[NbestList]:
    graph = next((name for name in _GRAPH if name in costs), None)
    columns: dict[str, Column] = {}

    def entry(text: str, place: str) -> tuple[str, NbestList]:
        key, said = split_id(text)
        match = _NUMBERED.fullmatch(key)
        if not match:
            raise UserError(f"{place}: expected `utterance-1 words`, found {key!r}")
        scores: dict[str, float] = {}
        for name, values in costs.items():
            if key not in values:
                raise UserError(f"{words.path.parent / name}: no cost for {key}, but {words.name} contains it")
            column = ACOUSTIC if name in _ACOUSTIC else FIRST_PASS if name == graph else _column(name)
            scores[column] = -_cost(values[key], f"{words.path.parent / name}: {key}")
        if scores:
            language = scores.pop(FIRST_PASS, 0.0)
            total = language + scale * scores.get(ACOUSTIC, 0.0)
            both = {ACOUSTIC: scores.pop(ACOUSTIC), LANGUAGE: language} if ACOUSTIC in scores else {}
            scores = {FIRST_PASS: total, **both, **scores}
        columns.update((name, _COMPONENT) for name in scores if name != FIRST_PASS and name not in columns)
        return match[1], NbestList(match[1], [Hypothesis(strip_markup(said), scores)], provenance=columns)

    yield from grouped((entry(text, place) for place, text in words.filled()), words.name)


def _column(name: str) -> str:
    """The column of a file such as `lmwt.nolm`; a name like `s2s` does not make it the first pass."""
    column = name.removeprefix("lmwt.")
    return free_name(column) if column == FIRST_PASS else column


def _cost(text: str, place: str) -> float:
    return as_number(text.split(",")[0], place, "cost")


def write(lists: Iterable[NbestList], path: str) -> None:
    """`words_text`, `lmwt.withlm` and, of lists with an acoustic score, `acwt`; other columns as `lmwt.NAME`.

    Graph cost and acoustic cost, at Kaldi's scale, give the first-pass score.
    """
    changed = False
    with new_folder(path) as target, ExitStack() as stack:
        words = stack.enter_context(opened(str(target / "words_text")))
        files: dict[str, IO[str]] = {}
        for nbest in check_holds(lists, frozenset({"components"}), path):
            for rank, hypothesis in enumerate(nbest.hypotheses, 1):
                key = f"{checked_id(nbest, path)}-{rank}"
                words.write(f"{key} {line(hypothesis.text)}".rstrip() + "\n")
                costs, same = _costs_of(hypothesis)
                changed |= not same
                for name, score in costs.items():
                    if name not in files:
                        files[name] = stack.enter_context(opened(str(path_for(target, name, "the column"))))
                    files[name].write(f"{key} {-score!r}\n")
    if changed:
        log.warning(
            "%s: first-pass scores are not written: the format only holds lm and am, with the sum lm + am / 12", path
        )


def _costs_of(hypothesis: Hypothesis) -> tuple[dict[str, float], bool]:
    """The scores that become costs, by the names of their files; and whether the first pass can be read back."""
    scores = dict(hypothesis.scores)
    total, acoustic, graph = scores.pop(FIRST_PASS), scores.pop(ACOUSTIC, None), scores.pop(LANGUAGE, None)
    if graph is None or acoustic is None:
        if graph is not None:
            scores[LANGUAGE] = graph
        graph = total - ACOUSTIC_SCALE * acoustic if acoustic is not None and math.isfinite(acoustic) else total
    costs = {"lmwt.withlm": graph, **({} if acoustic is None else {"acwt": acoustic})}
    again = graph + ACOUSTIC_SCALE * (acoustic or 0.0)
    same = total == again or math.isclose(total, again, rel_tol=1e-6, abs_tol=1e-6)
    return costs | {f"lmwt.{name}": score for name, score in scores.items()}, same
