"""Kaldi N-best lists, as `nbest-to-linear` and `steps/rnnlmrescore.sh` leave them: a folder of archives in text form.

`words_text` (or `text`) has the lines `utt-1 words`, `utt-2 words`, ...; `acwt` (or `ac_cost`) and `lmwt.withlm` (or
`lmwt`, `lm_cost`, `lmwt.nolm`) the acoustic and the graph costs. Costs are negative logs: as scores they change sign.
Any file may be gzipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.lines import as_number, grouped, split_id, table
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_holds, checked_id, folder, line, opened
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

ACOUSTIC, LANGUAGE = "am", "lm"
"""Columns of the acoustic score and of the graph's."""
ACOUSTIC_SCALE = 1 / 12
"""Kaldi's own default, --inv-acwt 12."""
_WORDS = [name + packed for name in ("words_text", "words", "text", "nbest") for packed in ("", ".gz")]
_ACOUSTIC, _GRAPH = ("acwt", "ac_cost"), ("lmwt.withlm", "lmwt", "lm_cost", "lmwt.nolm")
_NUMBERED = re.compile(r"(.+)-(\d{1,9})")
_ARCHIVES = re.compile(r"archives\.(\d+)")


def sniff(source: Source) -> bool:
    if source.is_folder:
        return bool(_parts(source.path))
    first = split_id(source.head.partition("\n")[0])[0]
    return source.is_regular and _NUMBERED.fullmatch(first) is not None and bool(_costs(source.path.parent))


def _parts(path: Path) -> list[Path]:
    """The folder itself, or its archives.1, archives.2, ..."""
    found = [(int(match[1]), one) for one in path.iterdir() if (match := _ARCHIVES.fullmatch(one.name))]
    parts = [one for _, one in sorted(found)] or [path]
    return [one for one in parts if _words(one) and (_costs(one) or found)]


def _words(part: Path) -> Path | None:
    return next((part / name for name in _WORDS if (part / name).is_file()), None)


def _costs(part: Path) -> dict[str, Path]:
    """Files of costs by their names without .gz."""
    return {
        one.name.removesuffix(".gz"): one
        for one in sorted(part.iterdir())
        if one.is_file() and (one.name.removesuffix(".gz") in (*_ACOUSTIC, *_GRAPH) or one.name.startswith("lmwt."))
    }


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """`s2s` is the graph score and the acoustic score times --acoustic-scale (1/12); both have columns, too."""
    scale = ACOUSTIC_SCALE if options.acoustic_scale is None else options.acoustic_scale
    files = [_words(part) for part in _parts(source.path)] if source.is_folder else [source.path]
    for words in files:
        assert words is not None
        costs = {name: table(path, source.oddities) for name, path in _costs(words.parent).items()}
        yield from _lists(Source(words, source.oddities) if source.is_folder else source, costs, scale)


def _lists(words: Source, costs: dict[str, dict[str, str]], scale: float) -> Iterator[NbestList]:
    graph = next((name for name in _GRAPH if name in costs), None)

    def entry(text: str, place: str) -> tuple[str, NbestList]:
        key, said = split_id(text)
        match = _NUMBERED.fullmatch(key)
        if not match:
            raise UserError(f"{place}: expected `utterance-1 words`, found {key!r}")
        scores: dict[str, float] = {}
        for name, values in costs.items():
            if key not in values:
                raise UserError(f"{words.path.parent / name}: no cost for {key}, which {words.name} has")
            column = ACOUSTIC if name in _ACOUSTIC else LANGUAGE if name == graph else name.removeprefix("lmwt.")
            scores[column] = -_cost(values[key], f"{words.path.parent / name}: {key}")
        if scores:
            total = scores.get(LANGUAGE, 0.0) + scale * scores.get(ACOUSTIC, 0.0)
            scores = {FIRST_PASS: total, **(scores if ACOUSTIC in scores else _without(scores, LANGUAGE))}
        return match[1], NbestList(match[1], [Hypothesis(plain(said), scores)])

    yield from grouped((entry(text, place) for place, text in words.filled()), words.name)


def _without(scores: dict[str, float], column: str) -> dict[str, float]:
    return {name: score for name, score in scores.items() if name != column}


def _cost(text: str, place: str) -> float:
    return as_number(text.split(",")[0], place, "cost")


def write(lists: Iterable[NbestList], path: str) -> None:
    """`words_text`, `lmwt.withlm` and, of lists with an acoustic score, `acwt`; other columns as `lmwt.NAME`.

    The graph cost is what with the acoustic cost at Kaldi's scale makes the first pass.
    """
    target = folder(path)
    with ExitStack() as stack:
        files = {"words_text": stack.enter_context(opened(str(target / "words_text")))}
        for nbest in check_holds(lists, frozenset({"columns"}), path):
            for rank, hypothesis in enumerate(nbest.hypotheses, 1):
                key = f"{checked_id(nbest, path)}-{rank}"
                files["words_text"].write(f"{key} {line(hypothesis.text)}".rstrip() + "\n")
                scores = dict(hypothesis.scores)
                acoustic = scores.pop(ACOUSTIC, None)
                total, graph = scores.pop(FIRST_PASS), scores.pop(LANGUAGE, None)
                if acoustic is None or graph is None:
                    graph = total - ACOUSTIC_SCALE * (acoustic or 0.0)
                costs = {"lmwt.withlm": graph, **({} if acoustic is None else {"acwt": acoustic})}
                for name, score in (costs | {f"lmwt.{name}": score for name, score in scores.items()}).items():
                    if name not in files:
                        files[name] = stack.enter_context(opened(str(target / name)))
                    files[name].write(f"{key} {-score!r}\n")
