"""Numbers in one spelling: `twenty five`, `twenty-five` and `25` are the same word.

The package text2num writes number words as digits. The rules around it write digits in
one way: thousands without commas, a scale word as zeros, currencies and percent behind
the number, and a year that is read in two halves as one number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from importlib.metadata import version

from rescore.errors import UserError, installed_by

LANGUAGES = ("en",)
"""The languages whose numbers are known."""
SCALES = {
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
CURRENCIES = {"$": "dollars", "\u20ac": "euros", "\u00a3": "pounds"}

_COMMA = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_THOUSANDS = re.compile(
    r"(?<![\d.,])[1-9]\d{0,2}(?:(?:,\d{3})+|(?:,\d{2})+,\d{3})(?!,?\d)"
)
"""A number with commas between thousands, or lakhs: 1,000 and 1,00,000, not 0,500."""
_MONEY_SIGN = (
    "[$\u00a2-\u00a5\u060b\u0e3f\u20a0-\u20cf\ufdfc\uff04\uffe0\uffe1\uffe5\uffe6"
    "\ufdd0-\ufdd2]"
)
"""A sign of a currency, also as `held` writes it."""
_MINUS = re.compile(rf"(?<!\S)([^\w\s\u2212-]*)[-\u2212](?={_MONEY_SIGN}?[.,]?\d)")
"""A minus sign, behind the marks that begin its word: not a dash, nor a hyphen."""
_OF_NUMBERS = re.compile(
    r"(?<=\d)[^\w\s]+(?=\d)"  # 3.5, 1,5, 1/2, 10:30
    rf"|{_MONEY_SIGN}(?=\u2212?[.,]?\d)|(?<=\d){_MONEY_SIGN}|^{_MONEY_SIGN}$"
    r"|(?<=\d)[%\u00b0\u066a\u2030\uff05]|^[%\u066a\u2030\uff05]$"
    r"|(?<![\w.,])[.,](?=\d)|\u2212(?=[^\w\s]*\d)"
)
"""The marks that make a word another number: those within it, its sign, its decimal
point, percent and currency. Percent and currency may stand alone: 50 %.
"""
_AMOUNT = r"\d+(?:\.\d+)?"
_SCALE = rf"[\s-](?:{'|'.join(SCALES)})\b"
_MONEY = re.compile(
    rf"([{''.join(CURRENCIES)}])\s?({_AMOUNT})((?:{_SCALE})*)", re.IGNORECASE
)
_SCALED = re.compile(rf"\b({_AMOUNT})((?:{_SCALE})+)", re.IGNORECASE)
_SCALED_FRACTION = re.compile(r"\b(\d+\.\d+)\s(1(?:00|(?:000)+))\b")
_SIGNS = re.compile(
    rf"[{''.join(CURRENCIES)}](?=\s?\d)|{_COMMA.pattern}|(?<=\d)\.(?=\d)"
    r"|(?<=\d)%|(?<=\d\s)%"
)
"""The signs that belong to a number."""
_LETTERS = str.maketrans("$\u20ac\u00a3,.%", "\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4\ufdd5")
"""Characters that no text has, and that are neither punctuation nor symbols, for the
signs of numbers.
"""
_SIGNS_OF = {letter: sign for sign, letter in _LETTERS.items()}
_ONE_CURRENCY = re.compile(r"(?<=\d )(dollar|euro|pound)\b", re.IGNORECASE)
_PERCENT = re.compile(r"(?<=\d)\s?(?:%|per\s?cent\b)", re.IGNORECASE)
_CARDINALS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty"
    " seventy eighty ninety hundred thousand million billion trillion"
)
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth"
_NUMBER = rf"(?:{'|'.join(_CARDINALS.split())})\b"
_LAST = rf"(?:{'|'.join(_ORDINALS.split())})\b"
_COMPOUND = re.compile(
    rf"(?<![\w-])(?>{_NUMBER}(?:-(?:and-)?{_NUMBER})*(?:-{_LAST})?)(?=-[^\W\d])",
    re.IGNORECASE,
)
"""A number with another word behind its hyphen, such as in twenty-five-year-old."""
_YEAR = re.compile(
    r"(?<![\w.,$-])(1[1-9]|20)\s(?:(?:oh|o|0)\s(\d)|(\d\d))(?![\w-]|\.\d)",
    re.IGNORECASE,
)


@cache
def normaliser(name: str, language: str) -> Callable[[str], str]:
    """Return a function that writes the numbers of a text in one way.

    Args:
        name: The switch, `numbers`.
        language: The language, such as en.

    Raises:
        UserError: The language is unknown, or the package is not installed.
    """
    if language not in LANGUAGES:
        known = " or ".join(LANGUAGES)
        raise UserError(
            f"--numbers {language}: only numbers of English are known; give {known},"
            " or leave the option out"
        )
    try:
        from text_to_num import alpha2digit
    except ImportError:
        raise UserError(
            f"--numbers needs the package text2num; {installed_by('numbers')}"
        ) from None

    def in_digits(match: re.Match[str]) -> str:
        return str(alpha2digit(match[0], language, threshold=0))

    def written(text: str) -> str:
        text = text.translate(_SIGNS_OF)
        text = without_commas(text)
        text = _COMPOUND.sub(in_digits, text)
        text = _MONEY.sub(_money, text)
        text = _SCALED.sub(_product, text)
        text = alpha2digit(text, language, threshold=0)
        text = _SCALED_FRACTION.sub(_product, text)
        text = _YEAR.sub(_year, text)
        text = _PERCENT.sub(" percent", text)
        return _ONE_CURRENCY.sub(r"\1s", text)

    return written


def held(text: str) -> str:
    """Return a text with letters that no text has for the signs of its numbers; the
    normaliser reads them as the signs.

    Args:
        text: The text.
    """
    return _SIGNS.sub(lambda match: match[0].translate(_LETTERS), text)


def without_commas(text: str) -> str:
    """Return a text whose numbers have no commas between thousands.

    Args:
        text: The text.
    """
    return _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)


_DECIMAL = re.compile(r"([-+\u2212]?)\$?([-+\u2212]?)([0-9]*)(?:\.([0-9]*))?")


def decimal(word: str) -> str:
    """Return a decimal number in one way of writing; another word as it is.

    Commas between thousands, a dollar sign, a plus, zeros around the digits, and a
    point at the end say nothing.

    Args:
        word: The word.

    Example:
        >>> decimal("$1,200.50"), decimal("-.50"), decimal("12."), decimal("50%")
        ('1200.5', '-0.5', '12', '50%')
    """
    match = _DECIMAL.fullmatch(without_commas(word))
    if match is None:
        return word
    before, after, whole, fraction = match.groups(default="")
    if not whole + fraction or (before and after):
        return word
    number = whole.lstrip("0") or "0"
    if fraction.rstrip("0"):
        number += f".{fraction.rstrip('0')}"
    is_negative = before + after in ("-", "\u2212") and number != "0"
    return f"-{number}" if is_negative else number


def with_minus(text: str) -> str:
    """Return a text with U+2212 for each minus sign, which tells it from a hyphen.

    Args:
        text: The text.
    """
    return _MINUS.sub("\\1\u2212", text)


def parts(word: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a word in their order, and whether each is marks of a number.

    Args:
        word: The word, with its minus sign as `with_minus` writes it.
    """
    end = 0
    for marks in _OF_NUMBERS.finditer(word):
        yield word[end : marks.start()], False
        yield marks[0], True
        end = marks.end()
    yield word[end:], False


def version_of(name: str, language: str) -> str:
    """Return the language and the version of the package, for the signature.

    Args:
        name: The switch, `numbers`.
        language: The language, such as en.

    Raises:
        UserError: The language is unknown, or the package is not installed.
    """
    normaliser(name, language)
    return f"{language}-text2num-{version('text2num')}"


def _money(match: re.Match[str]) -> str:
    """Return an amount with its currency behind it, as it is said."""
    sign, amount, scales = match.groups()
    return f"{amount}{scales} {CURRENCIES[sign]}"


def _product(match: re.Match[str]) -> str:
    """Return a number times the scales behind it, such as 1.5 million, in digits."""
    amount, scales = match.groups()
    product = Decimal(amount)
    for scale in scales.lower().replace("-", " ").split():
        product *= SCALES.get(scale) or int(scale)
    if product == product.to_integral_value():
        return str(int(product))
    return f"{product.normalize():f}"


def _year(match: re.Match[str]) -> str:
    """Return a year whose halves were numbers of their own, such as 19 99."""
    century, unit, rest = match.groups()
    return century + (rest or f"0{unit}")
