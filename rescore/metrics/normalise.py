"""What counts as the same word: explicit, and part of the signature."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.source import read_lines

LONGEST_RULE = 1_000
UNKNOWN = ("<unk>", "<UNK>", "[UNK]")
YES = ("split_hyphens", "drop_punctuation", "drop_apostrophes", "drop_unknown")
FLAGS = ("case_sensitive", *YES, "whisper_english")
"""What a `Normaliser` may do beside the replacements of a file."""


@dataclass(frozen=True, slots=True)
class Normaliser:
    """From a text to its words. The default is sclite's: upper and lower case are the same, all else is a difference.

    `glm` replaces as NIST's global mapping files say, after case is folded; then hyphens part compounds; then
    punctuation goes, but for apostrophes and hyphens within words; then the recogniser's unknown word.
    """

    case_sensitive: bool = False
    split_hyphens: bool = False
    drop_punctuation: bool = False
    drop_apostrophes: bool = False
    drop_unknown: bool = False
    glm: Glm | None = None
    whisper_english: bool = False
    """Whisper's normaliser of English comes first: numbers as digits, contractions in full, American spelling, without
    fillers, punctuation and what stands in brackets."""

    def __call__(self, text: str) -> list[str]:
        if self.whisper_english:
            text = _whisper_english()(text)
        if not self.case_sensitive:
            text = text.lower()
        if self.glm:
            text = self.glm(text)
        if self.split_hyphens:
            text = text.replace("-", " ")
        if self.drop_apostrophes:
            text = re.sub("['\u2019]", "", text)
        words = text.split()
        if self.drop_unknown:
            words = [word for word in words if word not in UNKNOWN]
        if self.drop_punctuation:
            words = [stripped for word in words if (stripped := _without_punctuation(word))]
        return words

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of what is on; `glm` aside."""
        return tuple(name for name in FLAGS if getattr(self, name))

    def beside(self, given: Normaliser) -> Normaliser:
        """What either does; of two mapping files the one given."""
        return Normaliser(
            **{name: True for name in FLAGS if name in self.flags or name in given.flags}, glm=given.glm or self.glm
        )

    @property
    def settings(self) -> dict[str, str]:
        """For the signature: the case, and what is not the default."""
        return {
            "case": "mixed" if self.case_sensitive else "lc",
            **{name.replace("_", "-"): "yes" for name in YES if getattr(self, name)},
            **({"glm": self.glm.digest} if self.glm else {}),
            **({"whisper-english": _whisper_version()} if self.whisper_english else {}),
        }


@cache
def _whisper_english() -> Callable[[str], str]:
    try:
        from whisper_normalizer.english import EnglishTextNormalizer
    except ImportError:
        raise UserError(
            "--normalizer whisper-english needs the package whisper-normalizer; pip install 'rescore[whisper]'"
        ) from None
    made: Callable[[str], str] = EnglishTextNormalizer()
    return made


def _whisper_version() -> str:
    """What a figure depends on: other versions spell other words alike."""
    _whisper_english()
    return version("whisper-normalizer")


def _without_punctuation(word: str) -> str:
    kept = [letter for letter in word if letter in "'\u2019-" or unicodedata.category(letter)[0] not in "PS"]
    return "".join(kept).strip("'\u2019-")


@dataclass(frozen=True, slots=True)
class Glm:
    """Replacements of a global mapping file, in its order."""

    rules: tuple[tuple[re.Pattern[str], str], ...]
    digest: str
    """Of the file's content."""
    path: str = ""
    """Where it was read."""

    def __call__(self, text: str) -> str:
        text = f" {' '.join(text.split())} "
        for pattern, replacement in self.rules:
            text = pattern.sub(lambda found, new=replacement: new, text)  # type: ignore[misc]
        return text

    @classmethod
    def load(cls, path: Path) -> Glm:
        """Read a file of lines `A => B / [ ] __ [ ]`; `;;` begins a comment, `*` a line of its head.

        A and B may stand in brackets or quotes. A context of a blank asks for the end of a word; without a context
        any part of a text is replaced. Case does not matter.

        Raises:
            UserError: the file is absent, or a line is none of these (alternatives `{A / B}` are not supported).
        """
        try:
            content = path.read_bytes()
            lines = content.decode("utf-8").splitlines()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
        except UnicodeDecodeError:
            raise UserError(f"{path}: not UTF-8; convert the file with iconv") from None
        rules = []
        for number, line in enumerate(lines, 1):
            line = line.partition(";;")[0].strip()
            if line and not line.startswith("*"):
                rules.append(_rule(line, f"{path}: line {number}"))
        return cls(tuple(rules), hashlib.sha256(content).hexdigest()[:12], str(path))


def _rule(line: str, place: str) -> tuple[re.Pattern[str], str]:
    line = " ".join(line.split())
    if len(line) > LONGEST_RULE:
        raise UserError(f"{place}: has more than {LONGEST_RULE:,} characters")
    found = re.fullmatch(r"(.+?) ?=> ?(.*?)(?: ?/ ?\[([^]]*)\] ?__ ?\[([^]]*)\])?", line)
    if not found:
        raise UserError(f"{place}: expected `A => B / [ ] __ [ ]`, found {line!r}")
    old, new, left, right = found.groups()
    if "{" in line:
        raise UserError(f"{place}: alternatives {{...}} are not supported; write the one that is to count")
    if not _bare(old):
        raise UserError(f"{place}: nothing to replace")
    before, after = (f"(?<={re.escape(left)})" if left else ""), (f"(?={re.escape(right)})" if right else "")
    return re.compile(before + re.escape(_bare(old)) + after, re.IGNORECASE), _bare(new).lower()


def _bare(side: str) -> str:
    return side[1:-1] if side[:1] + side[-1:] in ("[]", '""', "''") and len(side) > 1 else side


@dataclass(frozen=True, slots=True)
class WordList:
    """The words of a file, one or more per line."""

    lines: tuple[str, ...]
    path: str

    @classmethod
    def load(cls, path: Path) -> WordList:
        """Read a file of words.

        Raises:
            UserError: the file cannot be read, is not UTF-8, or has no word.
        """
        lines = tuple(sorted(set(read_lines(path))))
        if not lines:
            raise UserError(f"{path}: no word in it; expected one per line")
        return cls(lines, str(path))

    @property
    def digest(self) -> str:
        """Of the words, in any order."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:12]

    def words(self, normaliser: Normaliser) -> frozenset[str]:
        """As the words of references are compared."""
        return frozenset(word for line in self.lines for word in normaliser(line))


def words_of(texts: Sequence[str], normaliser: Normaliser) -> list[list[str]]:
    """The words of each text; equal texts are normalised once."""
    known = {text: normaliser(text) for text in dict.fromkeys(texts)}
    return [known[text] for text in texts]
