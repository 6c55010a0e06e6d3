"""Functions of Python as language models, and the fingerprint of their content."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from rescore.errors import UserError, counted
from rescore.lms.base import Question, TokenScores

_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, type(...))

_OPAQUE: dict[int, tuple[object, str]] = {}
"""By id the objects that show nothing, kept so that no other one takes the id, each with a name of its own."""


def content_of(value: object) -> str:
    """The hash, in hexadecimal."""
    digest = hashlib.sha256()
    for part in _parts(value, {}):
        digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()


def _parts(value: Any, seen: dict[int, tuple[int, object]]) -> Iterator[bytes]:
    """The parts of a value. A repeated part is replaced by its place, because values may contain themselves."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}".encode(errors="backslashreplace")
    elif id(value) in seen:
        yield f"again {seen[id(value)][0]}".encode()
    else:
        seen[id(value)] = len(seen), value  # kept: a new object must not take the id
        parts = _inside(value)  # the number of parts tells where a nested part ends
        yield f"{type(value).__module__}.{type(value).__qualname__} {len(parts)}".encode()
        for part in parts:
            yield from _parts(part, seen)


def _inside(value: Any) -> list[Any]:
    """The values that one consists of."""
    if isinstance(value, CodeType):
        return [value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_argcount, value.co_consts]
    if isinstance(value, ModuleType):
        return [value.__name__, str(getattr(value, "__version__", ""))]
    if isinstance(value, (FunctionType, BuiltinFunctionType, type)) and _is_installed(value.__module__):
        return [value.__module__, value.__qualname__]
    if isinstance(value, FunctionType):
        closed = [_content(cell) for cell in value.__closure__ or ()]
        named = [(name, value.__globals__.get(name)) for name in sorted(_names(value.__code__))]
        return [value.__code__, value.__defaults__, value.__kwdefaults__, closed, named]
    if isinstance(value, type):
        own = {name: part for name, part in vars(value).items() if _is_own(name, part)}
        return [value.__qualname__, value.__bases__, *(part for name in sorted(own) for part in (name, own[name]))]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, dict):
        return [part for item in value.items() for part in item]
    if isinstance(value, (set, frozenset)):  # in an order that does not depend on the process
        return sorted(content_of(part) for part in value)
    if isinstance(getattr(value, "fingerprint", None), str):
        return [value.fingerprint]
    try:
        state = value.__reduce_ex__(4)
    except Exception:  # it says so in its own way
        return [_OPAQUE.setdefault(id(value), (value, uuid.uuid4().hex))[1]]
    return [state] if isinstance(state, str) else [list(part) if isinstance(part, Iterator) else part for part in state]


def _is_own(name: str, part: object) -> bool:
    """Whether an attribute of a class was written by its author: a function, or a value with a name that Python does
    not reserve."""
    if isinstance(part, (*_PLAIN, FunctionType)):
        return name not in ("__firstlineno__", "__doc__")
    python = name.startswith("__") and name.endswith("__")
    return not python and not isinstance(part, (MemberDescriptorType, GetSetDescriptorType))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet
        return None


def _names(code: CodeType) -> set[str]:
    """The names in a function's code, and in that of functions inside."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return set(code.co_names).union(*inner)


@cache
def _is_installed(module: str | None) -> bool:
    """Whether a module is part of Python or of an installed package."""
    if module == "__main__" or module is None:
        return module is None
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or any(file.startswith(place) for place in sysconfig.get_paths().values())


class FunctionModel:
    """Scores of whole sentences, natural log, by a function; its words count as the tokens."""

    precision = "float64"

    def __init__(self, function: Callable[[Sequence[str]], Sequence[float]]) -> None:
        self.name = self.model = _name_of(function)
        self._function = function

    @cached_property
    def fingerprint(self) -> str:
        """Of the function's content (`rescore.lms.function`) when it is first asked for."""
        return content_of(self._function)

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, of its text alone.

        Raises:
            UserError: the function returned another number of scores, or scores that are no numbers.
        """
        sentences = [question.text for question in questions]
        values = list(self._function(sentences))
        if len(values) != len(sentences):
            raise UserError(
                f"{self.name}: returned {counted(len(values), 'score')} for {counted(len(sentences), 'sentence')}"
            )
        try:
            totals = [float(value) for value in values]
        except (TypeError, ValueError) as error:
            raise UserError(f"{self.name}: returned scores that are no numbers ({error})") from None
        return [
            TokenScores(text.split(), np.zeros(len(text.split())), total=value)
            for text, value in zip(sentences, totals, strict=True)
        ]


def _name_of(function: Any) -> str:
    """The function's name; for a partial, that of its function; for a callable object, that of its class."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")
