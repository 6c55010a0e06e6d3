"""The native format: one JSON object of utterances, or JSON Lines; see docs/formats.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import IO, Any

from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

_HYPOTHESIS = re.compile(r"hyp_(\d+)")


def sniff(source: Source) -> bool:
    head = source.head.lstrip()
    return head.startswith("{") and not re.match(r'\{\s*"utts"\s*:', head)


def read(source: Source) -> Iterator[NbestList]:
    """Read either form. JSON Lines are read line by line; one JSON object has to be in memory as a whole."""
    if _is_lines(source.head):
        yield from _read_lines(source)
    else:
        yield from _read_object(source)


def _is_lines(head: str) -> bool:
    first = head.lstrip().split("\n", 1)[0]
    try:
        value = json.loads(first)
    except ValueError:
        # The head may end within a long first line; then its beginning has to tell.
        return re.match(r'\{\s*"id"\s*:\s*["\d]', first) is not None
    return isinstance(value, dict) and "hyps" in value


def load_json(source: Source) -> Any:
    """One JSON document.

    Raises:
        UserError: it is not whole (names line and column), or an object has a key twice.
    """
    with source.open() as file:
        text = file.read()

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):  # of equal keys json keeps the last and says nothing
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{source.name}: {twice} comes twice; give each utterance and hypothesis once")
        return value

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{source.name}: line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}); is it truncated?"
        ) from None


def _read_object(source: Source) -> Iterator[NbestList]:
    utterances = load_json(source)
    if not isinstance(utterances, dict):
        raise UserError(f"{source.name}: expected a JSON object of utterances")
    for name, entry in utterances.items():
        place = f"{source.name}: utterance {name}"
        if not isinstance(entry, dict):
            raise UserError(f'{place}: expected an object with "hyp_1", "hyp_2", ...')
        numbered = sorted((int(match[1]), key) for key in entry if (match := _HYPOTHESIS.fullmatch(key)))
        hypotheses = [_hypothesis(entry[key], f"{place}, {key}") for _, key in numbered]
        yield NbestList(name, hypotheses, _references(entry.get("ref"), place), _source(entry.get("src"), place))


def _read_lines(source: Source) -> Iterator[NbestList]:
    with source.open() as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            place = f"{source.name}: line {number}"
            try:
                entry = json.loads(line)
            except json.JSONDecodeError as error:
                raise UserError(
                    f"{place}, column {error.colno}: not valid JSON ({error.msg}); is it truncated?"
                ) from None
            if not isinstance(entry, dict) or not isinstance(entry.get("hyps"), list):
                raise UserError(f'{place}: expected an object with "id" and a list "hyps"')
            if not isinstance(entry.get("id"), (str, int)):
                raise UserError(f'{place}: no "id"')
            hypotheses = [
                _hypothesis(value, f"{place}, hypothesis {rank}") for rank, value in enumerate(entry["hyps"], 1)
            ]
            references, text = _references(entry.get("ref"), place), _source(entry.get("src"), place)
            yield NbestList(str(entry["id"]), hypotheses, references, text)


def _hypothesis(value: Any, place: str) -> Hypothesis:
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise UserError(f'{place}: expected an object with "text" and "score"')
    more = value.get("scores", {})
    if not isinstance(more, dict):
        raise UserError(f'{place}: "scores" is not an object of named numbers')
    scores: dict[str, float] = {}
    for name, score in ({FIRST_PASS: value["score"]} if "score" in value else {}).items() | more.items():
        if isinstance(score, bool) or not isinstance(score, (int, float)):
            raise UserError(f"{place}: score {name} is {score!r}, not a number")
        scores[name] = float(score)
    return Hypothesis(
        value["text"], {name: scores[name] for name in sorted(scores, key=lambda name: name != FIRST_PASS)}
    )


def _references(value: Any, place: str) -> tuple[str, ...]:
    if value is None:
        return ()
    references = value if isinstance(value, list) else [value]
    if not all(isinstance(reference, str) for reference in references):
        raise UserError(f'{place}: "ref" is neither a text nor a list of texts')
    return tuple(references)


def _source(value: Any, place: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise UserError(f'{place}: "src" is no text')
    return value


def _entry(hypothesis: Hypothesis) -> dict[str, Any]:
    entry: dict[str, Any] = {"text": hypothesis.text}
    more = dict(hypothesis.scores)
    if FIRST_PASS in more:
        entry = {"score": more.pop(FIRST_PASS), **entry}
    return {**entry, "scores": more} if more else entry


def _about(nbest: NbestList) -> dict[str, Any]:
    about: dict[str, Any] = {}
    if nbest.references:
        about["ref"] = nbest.references[0] if len(nbest.references) == 1 else list(nbest.references)
    if nbest.source is not None:
        about["src"] = nbest.source
    return about


def write(lists: Iterable[NbestList], file: IO[str]) -> None:
    """Write one JSON object, an utterance at a time."""
    separator = "{\n"
    for nbest in lists:
        hypotheses = {f"hyp_{rank}": _entry(hypothesis) for rank, hypothesis in enumerate(nbest.hypotheses, 1)}
        value = json.dumps({**_about(nbest), **hypotheses}, ensure_ascii=False, indent=1)
        file.write(f"{separator}{json.dumps(nbest.id, ensure_ascii=False)}: {value}")
        separator = ",\n"
    file.write("\n}\n" if separator != "{\n" else "{}\n")


def write_lines(lists: Iterable[NbestList], file: IO[str]) -> None:
    """Write JSON Lines."""
    for nbest in lists:
        hyps = [_entry(hypothesis) for hypothesis in nbest.hypotheses]
        file.write(json.dumps({"id": nbest.id, **_about(nbest), "hyps": hyps}, ensure_ascii=False) + "\n")
