"""ESPnet2 decode folders: logdir/output.J/{n}best_recog/{text,score}."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.formats.lines import table
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_holds, checked_id, folder, line, opened
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

_OUTPUT = re.compile(r"output\.(\d+)")
_BEST = re.compile(r"(\d+)best_recog")
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
    """One part at a time. Lists may be of unequal length; a hypothesis may be empty."""
    if not source.is_folder:
        raise UserError(f"{source.name}: is no folder; ESPnet2's N-best lists are a decode folder with logdir/output.*")
    for part in _parts(source.path):
        lists: dict[str, NbestList] = {}
        for best in _numbered(part, _BEST):
            scores, texts = (table(best / name, source.oddities) for name in ("score", "text"))
            if scores.keys() != texts.keys():
                name = next(iter(scores.keys() ^ texts.keys()))
                has, lacks = ("text", "score") if name in texts else ("score", "text")
                raise UserError(f"{best / lacks}: no {lacks} for utterance {name}, which {best / has} has")
            for name, text in texts.items():
                nbest = lists.setdefault(name, NbestList(name, []))
                nbest.hypotheses.append(Hypothesis(plain(text), {FIRST_PASS: _score(scores[name], name, best)}))
        yield from lists.values()


def _score(text: str, name: str, folder: Path) -> float:
    match = _SCORE.fullmatch(text.strip())
    try:
        return float(match[1]) if match else float("x")
    except ValueError:
        raise UserError(f"{folder / 'score'}: utterance {name}: score is {text!r}, not a number") from None


def write(lists: Iterable[NbestList], path: str) -> None:
    """A decode folder: logdir/output.1/{n}best_recog/{text,score}, and the best in text and score; sorted by id."""
    target = folder(path)
    part = target / "logdir" / "output.1"
    ordered = sorted(check_holds(lists, frozenset(), path), key=lambda nbest: nbest.id)
    with ExitStack() as stack:
        files: dict[int, tuple[IO[str], IO[str]]] = {}
        for nbest in ordered:
            name = checked_id(nbest, path)
            for rank, hypothesis in enumerate(nbest.hypotheses, 1):
                if rank not in files:
                    best = folder(str(part / f"{rank}best_recog"))
                    files[rank] = (
                        stack.enter_context(opened(str(best / "text"))),
                        stack.enter_context(opened(str(best / "score"))),
                    )
                text, score = files[rank]
                text.write(f"{name} {line(hypothesis.text)}".rstrip() + "\n")
                score.write(f"{name} {hypothesis.scores[FIRST_PASS]!r}\n")
    with opened(str(target / "text")) as file:
        for nbest in ordered:
            best_one = max(nbest.hypotheses, key=lambda hypothesis: hypothesis.scores[FIRST_PASS])
            file.write(f"{nbest.id} {line(best_one.text)}".rstrip() + "\n")
