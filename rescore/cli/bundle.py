"""Options that belong together, given to a command as one object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

Command = TypeVar("Command", bound=Callable[..., Any])


def bundled(name: str, bundle: type[Any], options: list[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    """A decorator that gives a command some options together, as one argument: an object made of them."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def wrapped(**values: Any) -> Any:
            mine = {field.name: values.pop(field.name) for field in fields(bundle)}
            return command(**{name: bundle(**mine)}, **values)

        result: Any = wrapped
        for option in reversed(options):
            result = option(result)
        return result

    return decorate
