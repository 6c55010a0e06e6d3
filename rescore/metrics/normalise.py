"""What counts as the same word: explicit, and part of the signature."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rescore.errors import UserError

LONGEST_RULE = 1_000
UNKNOWN = ("<unk>", "<UNK>", "[UNK]")


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

    def __call__(self, text: str) -> list[str]:
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
    def settings(self) -> dict[str, str]:
        """For the signature: the case, and what is not the default."""
        names = ("split_hyphens", "drop_punctuation", "drop_apostrophes", "drop_unknown")
        return {
            "case": "mixed" if self.case_sensitive else "lc",
            **{name.replace("_", "-"): "yes" for name in names if getattr(self, name)},
            **({"glm": self.glm.digest} if self.glm else {}),
        }


def _without_punctuation(word: str) -> str:
    kept = [letter for letter in word if letter in "'\u2019-" or unicodedata.category(letter)[0] not in "PS"]
    return "".join(kept).strip("'\u2019-")


@dataclass(frozen=True, slots=True)
class Glm:
    """Replacements of a global mapping file, in its order."""

    rules: tuple[tuple[re.Pattern[str], str], ...]
    digest: str

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
        return cls(tuple(rules), hashlib.sha256(content).hexdigest()[:12])


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


def words_of(texts: Sequence[str], normaliser: Normaliser) -> list[list[str]]:
    """The words of each text; equal texts are normalised once."""
    known = {text: normaliser(text) for text in dict.fromkeys(texts)}
    return [known[text] for text in texts]
