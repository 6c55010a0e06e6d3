"""Law: a value of the wrong kind, in any argument of any function of the Python API, is
a `UserError` of one line, and never another exception.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import rescore
from rescore import Hypothesis, NbestList
from rescore.tuning import search
from tests.laws.test_numbers import usual, write

pytestmark = pytest.mark.filterwarnings("error")

ODD: list[Any] = [
    *(None, 7, -1, True, float("nan"), "abc", "", b"x", object()),
    *([], [None], [7], ["abc"], {}, {"a": None}, {"lm": None}),
]
"""Values that few arguments take."""


def some_lists() -> list[NbestList]:
    lists = []
    for number in range(3):
        hypotheses = []
        for place, text in enumerate(("a b", "a c", "b")):
            scores = {"s2s": -float(place), "lm": -1.5 * place}
            hypotheses.append(Hypothesis(text, scores))
        lists.append(NbestList(f"u{number}", hypotheses, ("a b",)))
    return lists


def zero(sentences: Sequence[str]) -> list[float]:
    return [0.0] * len(sentences)


GOOD: dict[str, Any] = {
    "lists": some_lists(),
    "dev": some_lists(),
    "weights": 0.3,
    "texts": ["a b"],
    "words": ["Goldman Sachs"],
    "reference": "a b",
    "hypothesis": "a c",
    "paths": "lists.jsonl",
}
"""Values of arguments that a call needs."""
NOT_CALLED = {
    *("load", "load_weights", "save_weights"),  # of names and paths alone
    *("Answer", "LanguageModel", "Normaliser", "Question", "Rescorer", "Results"),
    *("RunConfig", "TokenScores", "UserError", "Weights", "Hypothesis", "NbestList"),
    "__version__",
}
"""What the API has beside functions of lists and texts."""
FUNCTIONS = [name for name in rescore.__all__ if name not in NOT_CALLED]


def arguments_of(name: str) -> list[inspect.Parameter]:
    return list(inspect.signature(getattr(rescore, name)).parameters.values())


def call_with(name: str, odd: inspect.Parameter, value: Any) -> None:
    """Call a function with an odd value of one argument."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    models: list[Any] = []
    for argument in arguments_of(name):
        if argument.kind is argument.VAR_KEYWORD:
            continue
        if argument.kind is argument.VAR_POSITIONAL:
            models = [value] if argument is odd else [zero]
            continue
        needed = argument.default is argument.empty
        if argument is odd or needed:
            given = value if argument is odd else GOOD[argument.name]
            if argument.kind is argument.KEYWORD_ONLY or not needed:
                named[argument.name] = given
            else:
                positional.append(given)
    function: Callable[..., Any] = getattr(rescore, name)
    function(*positional, *models, **named)


CASES = [
    (name, argument)
    for name in FUNCTIONS
    for argument in arguments_of(name)
    if argument.kind is not argument.VAR_KEYWORD
]


@pytest.mark.parametrize(
    ("name", "argument"),
    CASES,
    ids=[f"{name} {argument.name}" for name, argument in CASES],
)
def test_a_value_of_the_wrong_kind_is_a_user_error(
    name: str,
    argument: inspect.Parameter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(search, "SAMPLES", 3)
    monkeypatch.setattr(search, "TRIALS", 50)
    write("lists.jsonl", usual())
    for value in ODD:
        try:
            call_with(name, argument, value)
        except rescore.UserError as error:
            assert "\n" not in str(error)
            assert len(str(error)) < 300


FIELDS: dict[str, Callable[[NbestList, Any], None]] = {
    "id": lambda nbest, value: setattr(nbest, "id", value),
    "references": lambda nbest, value: setattr(nbest, "references", value),
    "source": lambda nbest, value: setattr(nbest, "source", value),
    "hypotheses": lambda nbest, value: setattr(nbest, "hypotheses", value),
    "text": lambda nbest, value: setattr(nbest.hypotheses[0], "text", value),
    "scores": lambda nbest, value: setattr(nbest.hypotheses[0], "scores", value),
}
"""Set a field of a list, or of its first hypothesis."""


@pytest.mark.parametrize("name", ["evaluate", "score", "texts", "tune", "confidence"])
@pytest.mark.parametrize("field", FIELDS)
def test_a_list_with_a_wrong_field_is_a_user_error(field: str, name: str) -> None:
    for value in ODD:
        lists = some_lists()
        FIELDS[field](lists[0], value)
        given: list[Any] = [lists]
        if name == "score":
            given.append(zero)
        if name in ("texts", "confidence"):
            given.append(0.3)
        try:
            getattr(rescore, name)(*given)
        except rescore.UserError as error:
            assert "\n" not in str(error)


def test_references_that_are_no_texts_are_a_user_error() -> None:
    for value in (None, 7, "abc"):
        with pytest.raises(rescore.UserError, match="references"):
            NbestList("u", [], value)


def test_a_text_is_not_read_letter_by_letter() -> None:
    with pytest.raises(rescore.UserError, match="texts is the text 'abc'"):
        rescore.correct("abc", ["Goldman Sachs"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("id", 7), ("text", None), ("scores", None), ("source", 7), ("hypotheses", None)],
)
def test_a_field_of_the_wrong_kind_is_refused(field: str, value: Any) -> None:
    lists = some_lists()
    FIELDS[field](lists[0], value)
    with pytest.raises(rescore.UserError, match=r"rescore\.evaluate: utterance"):
        rescore.evaluate(lists)


def test_what_an_error_quotes_is_cut() -> None:
    message = str(rescore.UserError("x.json: " + "y" * 6000 + " is too long"))
    assert len(message) < 300
    assert message.startswith("x.json: y") and message.endswith(" is too long")


def test_values_without_a_meaning_are_one_line() -> None:
    """An empty set has no error rate, a number is no model, None is no score."""
    calls: dict[str, Callable[[], object]] = {
        "wer: no reference": lambda: rescore.wer([], []),
        "cer: no reference": lambda: rescore.cer([], []),
        "lm is 3; give the name of a model": lambda: rescore.load(3),  # type: ignore[arg-type]
        "returned None; return a score": lambda: rescore.score(
            [["a", "b"]],
            lambda texts: None,  # type: ignore[arg-type,return-value]
        ),
    }
    for message, call in calls.items():
        with pytest.raises(rescore.UserError, match=message):
            call()
