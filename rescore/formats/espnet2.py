"""ESPnet2 decode folders: logdir/output.J/{n}best_recog/{text,score}, in some also `scores`: what score is made of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.lines import table
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_holds, checked_id, line, new_folder, opened
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList, ranking

_OUTPUT = re.compile(r"output\.(\d+)")
_BEST = re.compile(r"(\d+)best_recog")
_TENSOR = re.compile(r"""["']?tensor\(\s*([-+.\w]+)[^()]*\)["']?""")
_COMPONENT = Column.component("espnet2")
# Releases differ: -1.23, tensor(-1.23), tensor(-1.23, device='cuda:0').
_SCORE = re.compile(r"(?:tensor\()?\s*([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan))\s*(?:,[^)]*)?\)?", re.IGNORECASE)


def sniff(source: Source) -> bool:
    return source.is_folder and bool(_parts(source.path))


def _numbered(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    found = [(int(match[1]), path) for path in folder.iterdir() if (match := pattern.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def _parts(folder: Path) -> list[Path]:
    """The output.J folders of a decode folder, of its logdir, or the one given itself; [] where there is none."""
    for candidate in (folder / "logdir", folder):
        if candidate.is_dir() and (parts := _numbered(candidate, _OUTPUT)):
            return [part for part in parts if part.is_dir() and _numbered(part, _BEST)]
    return [folder] if _numbered(folder, _BEST) else []


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """One part at a time. Lists may be of unequal length; a hypothesis may be empty.

    Of `scores`, lines such as `utt {"decoder": -1.2, "ctc": -3.4, "lm": -5.6}`, each key is a column.
    """
    if not source.is_folder:
        raise UserError(f"{source.name}: is not a folder; ESPnet2's lists are a decode folder with logdir/output.*")
    columns: dict[str, Column] = {}
    for part in _parts(source.path):
        lists: dict[str, NbestList] = {}
        for best in _numbered(part, _BEST):
            scores, texts = (table(best / name, source.warnings) for name in ("score", "text"))
            if scores.keys() != texts.keys():
                name = next(iter(scores.keys() ^ texts.keys()))
                has, lacks = ("text", "score") if name in texts else ("score", "text")
                raise UserError(f"{best / lacks}: no {lacks} for utterance {name}, which {best / has} has")
            parts = table(best / "scores", source.warnings) if (best / "scores").is_file() else {}
            for name, text in texts.items():
                found = {FIRST_PASS: _score(scores[name], f"{best / 'score'}: utterance {name}")}
                if name in parts:
                    found |= _components(parts[name], f"{best / 'scores'}: utterance {name}")
                    columns |= {key: _COMPONENT for key in found if key != FIRST_PASS and key not in columns}
                nbest = lists.setdefault(name, NbestList(name, [], provenance=columns))
                nbest.hypotheses.append(Hypothesis(plain(text), found))
        yield from lists.values()


def _score(text: str, place: str) -> float:
    match = _SCORE.fullmatch(text.strip())
    try:
        return float(match[1]) if match else float("x")
    except ValueError:
        raise UserError(f"{place}: score is {text[:40]!r}, not a number") from None


def _components(text: str, place: str) -> dict[str, float]:
    """`{"decoder": "tensor(-0.9)", "lm": -5.6}`, as JSON or as Python prints it."""
    found = loads(_TENSOR.sub(r'"\1"', text).replace("'", '"'), place, line=True)
    if not isinstance(found, dict):
        raise UserError(f'{place}: expected {{"decoder": -1.2, ...}}, found {text[:40]!r}')
    return {name: _score(str(value), place) for name, value in found.items() if name != FIRST_PASS}


def write(lists: Iterable[NbestList], path: str) -> None:
    """A decode folder: logdir/output.1/{n}best_recog/{text,score}, and the best in text; sorted by id.

    Columns beside the first pass go to `scores`, from where they are read again.
    """
    ordered = sorted(check_holds(lists, frozenset({"columns"}), path), key=lambda nbest: checked_id(nbest, path))
    with new_folder(path) as target:
        for rank in range(1, max((len(nbest.hypotheses) for nbest in ordered), default=0) + 1):
            found = [(nbest.id, nbest.hypotheses[rank - 1]) for nbest in ordered if rank <= len(nbest.hypotheses)]
            _write_rank(found, target / "logdir" / "output.1" / f"{rank}best_recog")
        with opened(str(target / "text")) as file:
            for nbest in ordered:
                best = nbest.hypotheses[ranking(nbest, nbest.column(FIRST_PASS))[0]]
                file.write(f"{nbest.id} {line(best.text)}".rstrip() + "\n")


def _write_rank(found: list[tuple[str, Hypothesis]], best: Path) -> None:
    """The hypotheses of one rank: few open files, however long the lists are."""
    best.mkdir(parents=True)
    with opened(str(best / "text")) as text, opened(str(best / "score")) as score:
        for name, hypothesis in found:
            text.write(f"{name} {line(hypothesis.text)}".rstrip() + "\n")
            score.write(f"{name} {hypothesis.scores[FIRST_PASS]!r}\n")
    more = [(name, {key: one.scores[key] for key in one.scores if key != FIRST_PASS}) for name, one in found]
    if any(columns for _, columns in more):
        with opened(str(best / "scores")) as file:
            for name, columns in more:
                file.write(f"{name} {json.dumps(columns, ensure_ascii=False)}\n")
