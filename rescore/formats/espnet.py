"""ESPnet: the data.json of ESPnet1 and the decode folders of ESPnet2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rescore.columns import FIRST_PASS, Column
from rescore.errors import UserError
from rescore.files import loads, parsed
from rescore.formats.native import is_espnet1
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.formats.text import numbered, strip_markup, table
from rescore.formats.writing import check_holds, checked_id, line, new_folder, opened
from rescore.nbest import Header, Hypothesis, NbestList, ranking


class _Espnet1:
    """data.json: one file, or the folder that parallel decoding leaves (data.1.json,
    data.2.json, ...).
    """

    def sniff(self, source: Source) -> bool:
        if source.is_folder:
            return bool(_files(source.path))
        return is_espnet1(source.peek)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        for part in (
            [Source(path, source.warnings) for path in _files(source.path)]
            if source.is_folder
            else [source]
        ):
            yield from _read_file(part)


_FILE = re.compile(r"data\.(\d{1,9})\.json")


class _Output(msgspec.Struct):
    rec_text: str
    score: float


def _files(folder: Path) -> list[Path]:
    """data.json where there is one (ESPnet joins the parts into it), else data.1.json,
    data.2.json, ... in order.
    """
    whole = folder / "data.json"
    return [whole] if whole.exists() else numbered(folder, _FILE)


def _read_file(source: Source) -> Iterator[NbestList]:
    document = loads(source.read_all(), source.name)
    utterances = document.get("utts") if isinstance(document, dict) else None
    if not isinstance(utterances, dict):
        raise UserError(f'{source.name}: expected a JSON object with "utts"')
    for name, entry in utterances.items():
        place = f"{source.name}: utterance {name}"
        output = entry.get("output") if isinstance(entry, dict) else None
        if not isinstance(output, list):
            raise UserError(f'{place}: no "output" list')
        hypotheses = [
            _hypothesis(value, f"{place}, hypothesis {rank}")
            for rank, value in enumerate(output, 1)
        ]
        reference = output[0].get("text") if output else None
        if not isinstance(reference, str | None):
            raise UserError(f'{place}: "text" is {reference!r}, not a text')
        yield NbestList(
            name, hypotheses, () if reference is None else (strip_markup(reference),)
        )


def _hypothesis(value: Any, place: str) -> Hypothesis:
    if isinstance(value, list):
        raise UserError(
            f"{place}: is a list, as for several speakers; write one file per speaker, "
            'with the list of the speaker as "output"'
        )
    if not isinstance(value, dict) or "rec_text" not in value:
        raise UserError(
            f'{place}: no "rec_text"; is this the data.json of a data folder? Give the'
            " one that decoding wrote"
        )
    output = parsed(value, _Output, place)
    return Hypothesis(strip_markup(output.rec_text), {FIRST_PASS: output.score})


class _Espnet2:
    """Decode folders: logdir/output.J/{n}best_recog/{text,score}, in some also
    `scores`: the parts of the score.
    """

    def sniff(self, source: Source) -> bool:
        return source.is_folder and bool(_parts(source.path))

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """One part at a time. Lists may be of unequal length; a hypothesis may be
        empty.

        In `scores`, lines have the form `utt {"decoder": -1.2, "ctc": -3.4, "lm":
        -5.6}`; each key is a column.
        """
        if not source.is_folder:
            raise UserError(
                f"{source.name}: is not a folder; ESPnet2's lists are a decode folder"
                " with logdir/output.*"
            )
        columns: dict[str, Column] = {}
        header = Header(columns=columns)
        for part in _parts(source.path):
            lists: dict[str, NbestList] = {}
            for best in numbered(part, _BEST):
                _add_rank(lists, best, columns, header, source.warnings)
            yield from lists.values()

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """A decode folder: logdir/output.1/{n}best_recog/{text,score}, and the best in
        text; sorted by id.

        Columns beside the first pass go to `scores`, from where they are read again.
        """
        ordered = sorted(
            check_holds(lists, frozenset({"components"}), path),
            key=lambda nbest: checked_id(nbest, path),
        )
        with new_folder(path) as target:
            for rank in range(
                1, max((len(nbest.hypotheses) for nbest in ordered), default=0) + 1
            ):
                entries = [
                    (nbest.id, nbest.hypotheses[rank - 1])
                    for nbest in ordered
                    if rank <= len(nbest.hypotheses)
                ]
                _write_rank(
                    entries, target / "logdir" / "output.1" / f"{rank}best_recog"
                )
            with opened(str(target / "text")) as file:
                for nbest in ordered:
                    best = nbest.hypotheses[ranking(nbest, nbest.column(FIRST_PASS))[0]]
                    file.write(f"{nbest.id} {line(best.text)}".rstrip() + "\n")


_OUTPUT = re.compile(r"output\.(\d+)")
_BEST = re.compile(r"(\d+)best_recog")
_TENSOR = re.compile(r"""["']?tensor\(\s*([-+.\w]+)[^()]*\)["']?""")
_COMPONENT = Column.component("espnet2")
# Releases differ: -1.23, tensor(-1.23), tensor(-1.23, device='cuda:0').
_SCORE = re.compile(
    r"(?:tensor\()?\s*([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan))\s*(?:,[^)]*)?\)?",
    re.IGNORECASE,
)


def _parts(folder: Path) -> list[Path]:
    """The output.J folders of a decode folder, of its logdir, or the folder itself; []
    if there are none.
    """
    for candidate in (folder / "logdir", folder):
        if candidate.is_dir() and (parts := numbered(candidate, _OUTPUT)):
            return [part for part in parts if part.is_dir() and numbered(part, _BEST)]
    return [folder] if numbered(folder, _BEST) else []


def _add_rank(
    lists: dict[str, NbestList],
    best: Path,
    columns: dict[str, Column],
    header: Header,
    warnings: InputWarnings,
) -> None:
    """Add the hypotheses of one rank to their lists, and the components of their scores
    to `columns`.
    """
    scores, texts = (table(best / name, warnings) for name in ("score", "text"))
    if scores.keys() != texts.keys():
        name = next(iter(scores.keys() ^ texts.keys()))
        has, lacks = ("text", "score") if name in texts else ("score", "text")
        raise UserError(
            f"{best / lacks}: no {lacks} for utterance {name}, which {best / has} has"
        )
    parts = table(best / "scores", warnings) if (best / "scores").is_file() else {}
    for name, text in texts.items():
        first_pass = {
            FIRST_PASS: _score(scores[name], f"{best / 'score'}: utterance {name}")
        }
        more = (
            _components(parts[name], f"{best / 'scores'}: utterance {name}")
            if name in parts
            else {}
        )
        columns.update((key, _COMPONENT) for key in more if key not in columns)
        nbest = lists.setdefault(name, NbestList(name, [], header=header))
        nbest.hypotheses.append(Hypothesis(strip_markup(text), first_pass | more))


def _score(text: str, place: str) -> float:
    match = _SCORE.fullmatch(text.strip())
    try:
        return float(match[1]) if match else float("x")
    except ValueError:
        raise UserError(f"{place}: score is {text[:40]!r}, not a number") from None


def _components(text: str, place: str) -> dict[str, float]:
    """`{"decoder": "tensor(-0.9)", "lm": -5.6}`, as JSON or as Python prints it."""
    parts = loads(_TENSOR.sub(r'"\1"', text).replace("'", '"'), place, line=True)
    if not isinstance(parts, dict):
        raise UserError(
            f'{place}: expected {{"decoder": -1.2, ...}}, found {text[:40]!r}'
        )
    return {
        name: _score(str(value), place)
        for name, value in parts.items()
        if name != FIRST_PASS
    }


def _write_rank(entries: list[tuple[str, Hypothesis]], best: Path) -> None:
    """The hypotheses of one rank: few open files, however long the lists are."""
    best.mkdir(parents=True)
    with opened(str(best / "text")) as text, opened(str(best / "score")) as score:
        for name, hypothesis in entries:
            text.write(f"{name} {line(hypothesis.text)}".rstrip() + "\n")
            score.write(f"{name} {hypothesis.scores[FIRST_PASS]!r}\n")
    more = [
        (
            name,
            {
                key: value
                for key, value in hypothesis.scores.items()
                if key != FIRST_PASS
            },
        )
        for name, hypothesis in entries
    ]
    if any(columns for _, columns in more):
        with opened(str(best / "scores")) as file:
            for name, columns in more:
                file.write(f"{name} {json.dumps(columns, ensure_ascii=False)}\n")


ESPNET1 = _Espnet1()
ESPNET2 = _Espnet2()
