"""Steps of a normaliser, each from a text to a text: what they do, and their order.

`STEPS` is the table of the steps that an option of `Normaliser` turns on. Packages add
steps to `rescore.parts.STEPS`; `--step` turns these on.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

from rescore.errors import UserError
from rescore.metrics import numbers, open_asr, scripts, whisper

Function = Callable[[str], str]
"""Takes a text and returns it after a step."""

CACHED = 1 << 17
"""Number of texts whose result is kept, for each slow step: bounds memory."""
ZERO_WIDTH = re.compile("[\u200b\u2060\ufeff]")
"""Characters without width that say nothing about a word."""
UNKNOWN = ("<unk>", "[unk]", "\u2047")
"""A recogniser's unknown word, in any case."""
INNER = "'\u2019-"
"""Punctuation that is part of a word when letters surround it."""
APOSTROPHES = re.compile(
    "(?<!\\d)['\u2019]|['\u2019](?!\\d)|['\u2019](?=\\d{3}(?!\\d))"
)
"""Apostrophes, and those between thousands, but not those between feet and inches."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a normaliser.

    Steps run in the order of their table, but a step runs behind those of `after` and
    ahead of those of `before`.
    """

    name: str
    """The option of `Normaliser` that turns the step on, or the name of a package's
    step.
    """
    made: Callable[[str, Any, bool], Function]
    """Returns the function of the step for its name, the value of its option, and
    whether case counts.
    """
    version_of: Callable[[str, Any], str] | None = None
    """Returns what the signature says beside the name, from the name and the value of
    the option; None for `yes`.
    """
    after: tuple[str, ...] = ()
    """Steps that run first where both are on."""
    before: tuple[str, ...] = ()
    """Steps that run afterwards where both are on."""
    across: bool = False
    """Whether a word may change with its neighbours. If not, the words of a text are
    those of its words, one by one.
    """
    signed: int = 0
    """The place in signatures: of two steps, the one with the lower number is first."""
    removes_signs: bool = False
    """Whether punctuation and symbols go."""
    drops_brackets: bool = False
    """Whether texts in brackets go."""
    hold: Function | None = None
    """Writes the signs that the step reads as letters, so that steps that remove signs
    leave them. These steps run ahead of this step, and once more behind it.
    """

    def setting(self, value: Any) -> str:
        """Return what the signature says of the step.

        Args:
            value: The value of the option.
        """
        return "yes" if self.version_of is None else self.version_of(self.name, value)


def step_of_function(function: Function) -> Step:
    """Return the step that runs a plain function, with the needs that the function has
    as attributes: `after`, `before`, `across` (True without the attribute), `version`
    and `name`.

    Args:
        function: Takes a text and returns it after the step.
    """
    version = str(getattr(function, "version", ""))
    return Step(
        name=getattr(function, "name", getattr(function, "__name__", "")),
        made=_plain(function),
        version_of=lambda name, value: version,
        after=tuple(getattr(function, "after", ())),
        before=tuple(getattr(function, "before", ())),
        across=bool(getattr(function, "across", True)),
    )


def ordered(steps: Iterable[Step]) -> list[Step]:
    """Return steps in the order in which they run.

    Args:
        steps: The steps, in the order of their tables.

    Raises:
        UserError: Steps need each other first.
    """
    left = list(steps)
    order: list[Step] = [step for step in left if step.name == ANSWER]
    left = [step for step in left if step.name != ANSWER]
    while left:
        free = (step for step in left if not _is_behind_any(step, left))
        step = next(free, None)
        if step is None:
            names = ", ".join(step.name for step in left)
            raise UserError(f"steps {names}: each has to run behind another of them")
        order.append(step)
        left.remove(step)
    return order


def _is_behind_any(step: Step, others: Iterable[Step]) -> bool:
    """Return whether a step has to run behind one of others."""
    for other in others:
        if other.name in step.after or step.name in other.before:
            return True
    return False


def functions(steps: Sequence[tuple[Step, Any]], cased: bool) -> list[Function]:
    """Return the functions of steps in the order in which they run.

    Args:
        steps: Steps in this order, each with the value of its option.
        cased: Whether case counts.

    Raises:
        UserError: A step needs a package that is not installed, or cannot take a value.
    """
    made = [step.made(step.name, value, cased) for step, value in steps]
    holds = [step.hold for step, _ in steps if step.hold]
    removing = [place for place, (step, _) in enumerate(steps) if step.removes_signs]
    result: list[Function] = []
    for place, (step, _) in enumerate(steps):
        if place in removing[:1]:
            result += holds
        result.append(made[place])
        if step.hold:
            result += [made[other] for other in removing]
    return result


# --- the functions --------------------------------------------------------------------


def _plain(function: Function) -> Callable[[str, Any, bool], Function]:
    """Return what makes a step's function that needs no value."""
    return lambda name, value, cased: function


@cache
def _remembering(function: Function) -> Function:
    """Return a function with a cache of texts: packages are slow."""
    return lru_cache(CACHED)(function)


def _packaged(module: ModuleType) -> Callable[[str, Any, bool], Function]:
    """Return what makes a step's function: the normaliser of a module."""
    return lambda name, value, cased: _remembering(module.normaliser(name, value))


def _version(module: ModuleType) -> Callable[[str, Any], str]:
    """Return what names the version of a module's normaliser."""
    return lambda name, value: module.version_of(name, value)


def answer_pattern(text: str) -> str:
    """Return a regular expression that takes an answer out of a text.

    Args:
        text: The expression, as it was typed.

    Raises:
        UserError: It is no regular expression.
    """
    try:
        re.compile(text)
    except re.error as error:
        raise UserError(
            f"{text}: {error}; expected a regular expression, such as"
            r" '#### (-?[\d.,]*\d)'"
        ) from None
    return text


def _answering(name: str, pattern: str, cased: bool) -> Function:
    """Return what takes the answer out of a text: of the last match the first group
    that matches something, or the whole match if the expression has no group; empty
    without such a match.
    """
    compiled = re.compile(answer_pattern(pattern))

    def answer(text: str) -> str:
        matches = list(compiled.finditer(text))
        if not matches:
            return ""
        if not compiled.groups:
            return matches[-1][0]
        return next(filter(None, matches[-1].groups()), "")

    return answer


def without_unknown(text: str) -> str:
    """Return a text without a recogniser's unknown words."""
    return " ".join(word for word in text.split() if word.lower() not in UNKNOWN)


def compatible(text: str) -> str:
    """Return a text in Unicode's form NFKC, without characters of no width."""
    return unicodedata.normalize("NFKC", ZERO_WIDTH.sub("", text))


def without_marks(text: str) -> str:
    """Return a text without the marks of Arabic and Hebrew, such as short vowels."""
    text = unicodedata.normalize("NFC", text)
    return "".join(letter for letter in text if not _is_semitic_mark(letter))


def has_marks(text: str) -> bool:
    """Return whether a text has marks of Arabic and Hebrew."""
    if text.isascii():
        return False
    return any(map(_is_semitic_mark, unicodedata.normalize("NFC", text)))


@cache
def _is_semitic_mark(letter: str) -> bool:
    """Return whether a letter is a mark of Arabic or Hebrew."""
    script = unicodedata.name(letter, "").partition(" ")[0]
    is_mark = unicodedata.category(letter) == "Mn"
    return is_mark and script in ("ARABIC", "HEBREW")


TURKISH = str.maketrans("I\u0130", "\u0131i")
"""The small letters of capitals that differ in Turkish and Azerbaijani."""


def _turkish(name: str, language: str, cased: bool) -> Function:
    """Return what folds the case of I, with a dot and without, unless case counts."""
    if cased:
        return str
    return lambda text: unicodedata.normalize("NFC", text).translate(TURKISH)


HYPHEN_MINUS = str.maketrans("\u2212", "-")


def without_hyphens(text: str) -> str:
    """Return a text with blanks for hyphens; a minus sign is none."""
    text = numbers.with_minus(text).replace("-", " ")
    return text.translate(HYPHEN_MINUS)


def without_apostrophes(text: str) -> str:
    """Return a text without apostrophes, but for those within numbers, such as 5'10."""
    return APOSTROPHES.sub("", text)


def without_punctuation(text: str) -> str:
    """Return a text without punctuation but for apostrophes and hyphens in words, and
    the marks that make a number another number.
    """
    return " ".join(map(_bare, text.split()))


def _bare(word: str) -> str:
    """Return a word without punctuation but for apostrophes and hyphens within it, and
    the marks of a number: 3.5 and -20 stay, 1,000 becomes 1000.
    """
    if any(map(str.isdigit, word)):
        word = numbers.with_minus(numbers.without_commas(word))
    kept = []
    for part, is_of_number in numbers.parts(word):
        kept.append(part if is_of_number else _without_signs(part))
    return "".join(kept).strip(INNER).translate(HYPHEN_MINUS)


def _without_signs(part: str) -> str:
    """Return a part of a word without punctuation but for apostrophes and hyphens."""
    kept = []
    for letter in part:
        if letter in INNER or unicodedata.category(letter)[0] not in "PS":
            kept.append(letter)
    return "".join(kept)


ANSWER = "answer"
"""The step that runs ahead of all others, also those of packages."""

STEPS: tuple[Step, ...] = (
    Step(
        name=ANSWER,
        made=_answering,
        version_of=lambda name, value: str(value),
        across=True,
        signed=14,
    ),
    Step(
        name="drop_unknown",
        made=_plain(without_unknown),
        # `<unk>` and U+2047 are words only as long as their signs stand
        before=("nfkc", "unicode_basic", "drop_punctuation"),
        signed=4,
    ),
    Step(name="nfkc", made=_plain(compatible), before=("numbers",), signed=5),
    Step(
        name="replace",
        made=lambda name, value, cased: value.function(cased),
        version_of=lambda name, value: str(value.digest),
        before=("whisper_english",),
        across=True,
        signed=11,
    ),
    Step(
        name="drop_marks",
        made=_plain(without_marks),
        before=("whisper_basic",),  # which puts a blank for a mark
        signed=12,
    ),
    Step(
        name="language",
        made=_turkish,
        version_of=lambda name, value: str(value),
        before=("whisper_basic",),  # which folds case
        signed=13,
    ),
    Step(
        name="whisper_english",
        made=_packaged(whisper),
        version_of=_version(whisper),
        before=("drop_apostrophes",),  # contractions are told by them
        across=True,
        drops_brackets=True,
        signed=6,
    ),
    Step(
        name="open_asr",
        made=_packaged(open_asr),
        version_of=_version(open_asr),
        before=("drop_apostrophes",),
        across=True,
        drops_brackets=True,
        signed=8,
    ),
    Step(
        name="split_hyphens",
        made=_plain(without_hyphens),
        before=("numbers",),
        signed=1,
    ),
    Step(
        name="drop_apostrophes",
        made=_plain(without_apostrophes),
        before=("whisper_basic",),  # which puts a blank for an apostrophe
        signed=3,
    ),
    Step(
        name="whisper_basic",
        made=_packaged(whisper),
        version_of=_version(whisper),
        before=("drop_punctuation",),  # texts in brackets are told by them
        across=True,
        drops_brackets=True,
        signed=7,
        removes_signs=True,
    ),
    Step(
        name="unicode_basic",
        made=_packaged(scripts),
        version_of=_version(scripts),
        signed=9,
        removes_signs=True,
    ),
    Step(
        name="drop_punctuation",
        made=_plain(without_punctuation),
        signed=2,
        removes_signs=True,
    ),
    Step(
        name="numbers",
        made=_packaged(numbers),
        version_of=_version(numbers),
        across=True,
        signed=10,
        hold=numbers.held,
    ),
)
"""The steps of the options of `Normaliser`, in the order in which they run."""
