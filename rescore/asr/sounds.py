"""How words sound, roughly: English letters to classes of sounds, Chinese characters to pinyin."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from rescore.errors import UserError
from rescore.metrics.normalise import UNSPACED

RULES = (
    ("^[kgp]n", "n"),
    ("^wr", "r"),
    ("^wh(?=o)", "h"),
    ("^ps(?=[aeiouy])", "s"),
    ("^x", "z"),
    ("^mc(?=[^aeiouy])", "mek"),
    ("^aoi", "i"),
    ("^sio(?=[bn])", "So"),
    ("bh", "v"),
    ("tch", "C"),
    ("chr", "kr"),
    ("sch(?=[lmnrw])", "S"),
    ("sch", "sk"),
    ("ch(?=s)", "k"),
    ("ch|cz", "C"),
    ("sh", "S"),
    ("[tsc]i(?=o[nu]|a[ln]?$)", "S"),
    ("ph", "f"),
    ("th", "0"),
    ("gh(?=[aeiouy])", "g"),
    ("gh", ""),
    ("dg(?=[eiy])", "J"),
    ("ck", "k"),
    ("qu", "kw"),
    ("q", "k"),
    ("sc(?=[eiy])", "s"),
    ("cc(?=[eiy])", "ks"),
    ("c(?=[eiy])", "s"),
    ("c", "k"),
    ("gg", "g"),
    ("g(?=[eiy])", "J"),
    ("j", "J"),
    ("x", "ks"),
    ("tz", "ts"),
    ("(?<=m)b$", ""),
    ("(?<=[aeiou])[ow]?w(?![aeiouy])", "o"),
    ("y(?=[aeiou])", "y"),
    ("(?<=[^aeiouy])e$", ""),
    ("(?<=[aeiouy][^aeiouy])ed$", "d"),
    ("ee|ea|ie|ei|ey|[iy]", "i"),
    ("au", "o"),
    ("a[iy]?", "a"),
    ("eu|ew|oo|ou|u", "u"),
    ("oa|oe|ow|o", "o"),
    ("e", "e"),
    ("h(?=[aeiouy])", "h"),
    ("h", ""),
)
"""Patterns of letters, and the class of sounds of each; the first pattern that matches counts, and other letters stand
for themselves."""
_RULES = re.compile("|".join(f"({pattern})" for pattern, _ in RULES) + "|(.)", re.DOTALL)
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SIGNS = {"&": " and ", "+": " plus ", "#": " sharp ", "@": " at "}


def sounds(text: str) -> str:
    """The sounds of one or more words, without blanks; a letter that no rule knows stands for itself.

    Raises:
        UserError: the text has Chinese characters, and pypinyin is not installed.

    Example:
        >>> sounds("gold man sacks") == sounds("Goldman Sachs"), sounds("kubectl")
        (True, 'kubektl')
    """
    return joined(_of_spoken(word) for word in spoken(text).split())


def joined(words: Iterable[str]) -> str:
    """The sounds of words in a row, of those of each: a sound that ends a word and begins the next is said once."""
    row = ""
    for word in words:
        row += word[1:] if row[-1:] == word[:1] else word
    return row


@lru_cache(maxsize=1 << 16)
def _of_spoken(word: str) -> str:
    if UNSPACED.search(word):
        return joined(map(_of_spoken, _pinyin(word).split()))
    return _RUNS.sub(r"\1", "".join(map(_of_match, _RULES.finditer(word))))


def _of_match(match: re.Match[str]) -> str:
    number = match.lastindex or 0
    return str(match[number]) if number > len(RULES) else RULES[number - 1][1]


_RUNS = re.compile(r"(.)\1+", re.DOTALL)


@lru_cache(maxsize=1 << 16)
def spoken(text: str) -> str:
    """A text in lower case without accents and punctuation, digits and signs as English words.

    Example:
        >>> spoken("A&T 3M Škoda's")
        'a and t three m skodas'
    """
    letters = []
    for letter in unicodedata.normalize("NFKD", text.casefold()):
        category = unicodedata.category(letter)
        if letter in _SIGNS:
            letters.append(_SIGNS[letter])
        elif letter.isascii() and letter.isdecimal():
            letters.append(f" {_DIGITS[int(letter)]} ")
        elif category[0] in "LN":
            letters.append(letter)
        elif category[0] != "M" and letter not in "'\u2019.":
            letters.append(" ")
    return " ".join("".join(letters).split())


def _pinyin(text: str) -> str:
    """A text with pinyin, without tones, in place of Chinese characters."""
    try:
        from pypinyin import lazy_pinyin
    except ImportError:
        raise UserError("Chinese terms need the package pypinyin; pip install 'rescore[terms]'") from None
    return " ".join(lazy_pinyin(text))
