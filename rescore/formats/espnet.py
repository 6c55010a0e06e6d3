"""ESPnet: the data.json of ESPnet1 and the decode folders of ESPnet2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.files import loads, opened, parsed
from rescore.formats.native import is_espnet1
from rescore.formats.rows import Joins, Row, RowFormat, as_list
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.formats.text import field_of, numbered, table
from rescore.formats.writing import (
    check_folder,
    check_holds,
    checked_id,
    new_folder,
    unmarked,
)
from rescore.nbest import (
    Hypothesis,
    NbestList,
    as_first_pass,
    ranked_by,
    ranking,
)

# --- ESPnet1 -------------------------------------------------------------------------

_FILE = re.compile(r"data\.(\d{1,9})\.json")


class _Espnet1(RowFormat):
    """data.json: one file, or the folder that parallel decoding leaves (data.1.json,
    data.2.json, ...).
    """

    def sniff(self, source: Source) -> bool:
        """Return whether the source is such a file or folder."""
        if source.is_folder:
            return bool(_files(source.path))
        return is_espnet1(source.peek)

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of a file, or of the files of a folder.

        Args:
            source: The file or folder.
            options: The options of formats, of which ESPnet1 has none.

        Raises:
            UserError: A file has another structure.
        """
        if not source.is_folder:
            yield from _rows_of_file(source)
            return
        for path in _files(source.path):
            yield from _rows_of_file(Source(path, source.warnings))


class _Output(msgspec.Struct):
    """A hypothesis as a file has it."""

    rec_text: str
    score: float


def _files(folder: Path) -> list[Path]:
    """Return data.json if it exists (ESPnet joins the parts into it), else data.1.json,
    data.2.json, ... in order.
    """
    whole = folder / "data.json"
    if whole.exists():
        return [whole]
    return numbered(folder, _FILE)


def _rows_of_file(source: Source) -> Iterator[Row]:
    """Yield the hypotheses of one file."""
    document = loads(source.read_all(), source.name)
    utterances = field_of(document, "utts")
    if not isinstance(utterances, dict):
        raise UserError(f'{source.name}: expected a JSON object with "utts"')
    for name, entry in utterances.items():
        place = f"{source.name}: utterance {name}"
        output = field_of(entry, "output")
        if not isinstance(output, list):
            raise UserError(f'{place}: no "output" list')
        if not output:
            yield Row(name, place, joins=Joins.NEVER)
        for rank, value in enumerate(output, 1):
            row = _row(name, value, f"{place}, hypothesis {rank}")
            if rank == 1:
                row.joins = Joins.NEVER
                row.references = _references(value, place)
            yield row


def _references(value: dict[str, Any], place: str) -> tuple[str, ...]:
    """Return the reference of an utterance, which stands beside its hypotheses."""
    text = value.get("text")
    if text is None:
        return ()
    if not isinstance(text, str):
        raise UserError(f'{place}: "text" is {text!r}, not a text')
    return (text,)


def _row(name: str, value: Any, place: str) -> Row:
    """Return a hypothesis from its JSON."""
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
    return Row(name, place, output.rec_text, total=output.score)


# --- ESPnet2 -------------------------------------------------------------------------

_OUTPUT = re.compile(r"output\.(\d+)")
_BEST = re.compile(r"(\d+)best_recog")
_TENSOR = re.compile(r"""["']?tensor\(\s*([-+.\w]+)[^()]*\)["']?""")
_SCORE = re.compile(
    r"(?:tensor\()?\s*([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan))\s*(?:,[^)]*)?\)?",
    re.IGNORECASE,
)
"""A score; releases write -1.23, tensor(-1.23) or tensor(-1.23, device='cuda:0')."""


class _Espnet2(RowFormat):
    """Decode folders: logdir/output.J/{n}best_recog/{text,score}, in some also
    `scores`: the parts of the score.
    """

    components = "espnet2"
    holds_choice = True
    """Whether the combined score is written beside the first pass."""

    def sniff(self, source: Source) -> bool:
        """Return whether the source is such a folder."""
        return source.is_folder and bool(_parts(source.path))

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses, one part of the folder at a time. Lists may be of
        unequal length; a hypothesis may be empty.

        In `scores`, lines have the form `utt {"decoder": -1.2, "ctc": -3.4, "lm":
        -5.6}`; each key is a column.

        Args:
            source: The folder.
            options: The options of formats, of which ESPnet2 has none.

        Raises:
            UserError: Texts and scores have different utterances, or a score is no
                number.
        """
        if not source.is_folder:
            raise UserError(
                f"{source.name}: is not a folder; ESPnet2's lists are a decode folder"
                " with logdir/output.*"
            )
        for part in _parts(source.path):
            utterances: dict[str, list[Row]] = {}
            for best in numbered(part, _BEST):
                for row in _rank(best, source.warnings):
                    utterances.setdefault(row.id, []).append(row)
            for rows in utterances.values():
                yield from as_list(rows)

    def check(self, lists: Iterable[NbestList], path: str) -> None:
        """Check that lists can be written: ids have no blanks, and the folder is new.

        Args:
            lists: The lists.
            path: The folder.

        Raises:
            UserError: An id cannot be written, or the folder has files.
        """
        check_folder(path)
        for nbest in lists:
            checked_id(nbest, path)

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """Write a decode folder: logdir/output.1/{n}best_recog/{text,score}, and the
        best in `text`; sorted by id.

        Columns beside the first pass go to `scores`, from where they are read again.

        Args:
            lists: The lists.
            path: The folder, which is new or empty.

        Raises:
            UserError: An id cannot be written, or the folder has files.
        """
        ordered = sorted(
            check_holds(lists, frozenset({"components"}), path),
            key=lambda nbest: checked_id(nbest, path),
        )
        longest = max((len(nbest.hypotheses) for nbest in ordered), default=0)
        with new_folder(path) as target:
            part = target / "logdir" / "output.1"
            for rank in range(longest):
                _write_rank(ordered, rank, part / f"{rank + 1}best_recog")
            with opened(str(target / "text")) as file:
                for nbest in ordered:
                    nbest = as_first_pass(nbest)
                    order = ranking(nbest, nbest.column(FIRST_PASS))
                    file.write(_line(nbest, nbest.hypotheses[order[0]]))


def _parts(folder: Path) -> list[Path]:
    """Return the output.J folders of a decode folder, of its logdir, or the folder
    itself; none if it is no decode folder.
    """
    for candidate in (folder / "logdir", folder):
        if not candidate.is_dir():
            continue
        parts = numbered(candidate, _OUTPUT)
        if parts:
            return [part for part in parts if part.is_dir() and numbered(part, _BEST)]
    if numbered(folder, _BEST):
        return [folder]
    return []


def _rank(best: Path, warnings: InputWarnings) -> Iterator[Row]:
    """Yield the hypothesis of each utterance in the folder of one rank."""
    scores = table(best / "score", warnings)
    # OWSM's `text` has the language, the task and times as words
    plain = best / "text_nospecial"
    texts = table(plain if plain.is_file() else best / "text", warnings)
    unpaired = scores.keys() ^ texts.keys()
    if unpaired:
        name = next(iter(unpaired))
        has, lacks = ("text", "score") if name in texts else ("score", "text")
        raise UserError(
            f"{best / lacks}: no {lacks} for utterance {name}, which {best / has} has"
        )
    components: dict[str, str] = {}
    if (best / "scores").is_file():
        components = table(best / "scores", warnings)
    for name, text in texts.items():
        place = f"{best}/score: utterance {name}"
        total = _score(scores[name], place)
        columns: dict[str, float] = {}
        if name in components:
            columns = _components(components[name], f"{best}/scores: utterance {name}")
        yield Row(name, place, text, columns, total=total)


def _score(text: str, place: str) -> float:
    """Return a score."""
    match = _SCORE.fullmatch(text.strip())
    try:
        if match is not None:
            return float(match[1])
    except ValueError:  # such as 1.2.3
        pass
    raise UserError(f"{place}: score is {text[:40]!r}, not a number")


def _components(text: str, place: str) -> dict[str, float]:
    """Return the parts of a score: `{"decoder": "tensor(-0.9)", "lm": -5.6}`, as JSON
    or as Python prints it.
    """
    parts = loads(_TENSOR.sub(r'"\1"', text).replace("'", '"'), place, line=True)
    if not isinstance(parts, dict):
        raise UserError(
            f'{place}: expected {{"decoder": -1.2, ...}}, found {text[:40]!r}'
        )
    return {name: _score(str(value), place) for name, value in parts.items()}


def _write_rank(lists: list[NbestList], rank: int, best: Path) -> None:
    """Write the hypotheses of one rank, from 0: few files are open, however long the
    lists are.
    """
    best.mkdir(parents=True)
    components = []
    with opened(str(best / "text")) as text, opened(str(best / "score")) as score:
        for nbest in lists:
            if rank >= len(nbest.hypotheses):
                continue
            hypothesis = nbest.hypotheses[rank]
            total, columns = ranked_by(hypothesis)
            text.write(_line(nbest, hypothesis))
            score.write(f"{nbest.id} {total!r}\n")
            components.append((nbest.id, columns))
    if any(columns for _, columns in components):
        with opened(str(best / "scores")) as file:
            for name, columns in components:
                file.write(f"{name} {json.dumps(columns, ensure_ascii=False)}\n")


def _line(nbest: NbestList, hypothesis: Hypothesis) -> str:
    """Return the line of a hypothesis in a file of texts."""
    return f"{nbest.id} {unmarked(hypothesis.text)}".rstrip() + "\n"


ESPNET1 = _Espnet1()
ESPNET2 = _Espnet2()
