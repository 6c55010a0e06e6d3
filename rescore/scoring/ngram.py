"""n-gram language models: through KenLM, or where it is not installed, ARPA files in NumPy."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from rescore.errors import UserError
from rescore.networks.tokenizer import Tokenizer
from rescore.scoring.arpa import END, LOG_10, ArpaModel
from rescore.scoring.base import ComputeOptions, Question, TokenScores, Values
from rescore.scoring.cards import card_value

if TYPE_CHECKING:
    import kenlm

    from rescore.scoring.backends import Spec

log = logging.getLogger(__name__)


def load(spec: Spec, computing: ComputeOptions) -> NgramLM:
    """The model that --lm names."""
    return NgramLM(spec.name, spec.path)


class NgramLM:
    """log p(sentence) under a back-off n-gram model, `</s>` included.

    A file is ARPA or KenLM's binary; its words are what stands between blanks. A folder is what `rescore train --lm
    ngram` wrote: lm.binary (or lm.arpa), a tokenizer.json that normalises text as the training did, and a card that
    says whether the model's units are words or the tokenizer's subwords.
    """

    precision = "float32"

    def __init__(self, name: str, path: Path) -> None:
        """Load a model; memory mapped where it is a binary.

        Raises:
            UserError: the file is absent, or KenLM cannot read it.
        """
        self.name = self.model = name
        self._file, self._tokenizer, self._units = _find(path)
        self._model = _open(self._file)

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(b"ngram")
        with open(self._file, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
        if self._tokenizer is not None:
            digest.update(hashlib.sha256(self._tokenizer.read_bytes()).digest())
        return digest.hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question. A token is a word (or subword), the last `</s>`; unknown ones score as `<unk>`."""
        return self._model.score(list(self._units([question.text for question in questions])))


class KenlmModel:
    """A model that KenLM reads: an ARPA file, or its own binary."""

    def __init__(self, path: Path, kenlm: ModuleType) -> None:
        config = kenlm.Config()
        config.show_progress = False
        config.arpa_complain = kenlm.ARPALoadComplain.NONE
        try:
            self._model = kenlm.Model(str(path), config)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(
                f"{path}: neither an ARPA file nor a KenLM binary that this machine can read ({reason_of(error)})"
            ) from None
        self._known: set[str] = set()

    def score(self, texts: Sequence[str]) -> list[TokenScores]:
        """One result per text, whose words stand between blanks; `</s>` is the last token."""
        results: list[TokenScores] = []
        for text in texts:
            words = text.split()
            unknown = () if self._known.issuperset(words) else self._look_up(words)
            results.append(WordScores(text, self._model, unknown))
        return results

    def _look_up(self, words: list[str]) -> tuple[int, ...]:
        """The places of unknown words; the known ones are kept in mind."""
        known, unknown = self._known, []
        for index, word in enumerate(words):
            if word not in known:
                if word in self._model:
                    known.add(word)
                else:
                    unknown.append(index)
        return tuple(unknown)


class WordScores(TokenScores):
    """The sum at once, which costs a sixth of the scores of all words; these when somebody asks."""

    __slots__ = ("_model", "_text")

    def __init__(self, text: str, model: kenlm.Model, unknown: tuple[int, ...]) -> None:
        self._text, self._model, self.unknown = text, model, unknown
        self._sum = model.score(text) * LOG_10

    @property
    def tokens(self) -> list[str]:
        return [*self._text.split(), END]

    @property
    def log_probs(self) -> Values:
        return np.array([log10 for log10, _, _ in self._model.full_scores(self._text)]) * LOG_10

    @property
    def sum(self) -> float:
        return self._sum


def _open(path: Path) -> KenlmModel | ArpaModel:
    """KenLM's reader; where it is not installed, an ARPA file is read here."""
    try:
        import kenlm
    except ImportError:
        if path.suffix == ".gz" or _is_text(path):
            log.info("kenlm is not installed: %s is read in NumPy, which takes longer and gives the same scores", path)
            return ArpaModel(path)
        raise UserError(
            f"{path}: a binary n-gram model needs kenlm, which a C++ compiler builds: pip install 'rescore[ngram]' (on "
            "Python 3.13 or later: pip install https://github.com/kpu/kenlm/archive/master.zip); an ARPA file needs "
            "nothing"
        ) from None
    return KenlmModel(path, kenlm)


def _is_text(path: Path) -> bool:
    """Whether a file is none of KenLM's binaries, whose first bytes have zeros among them."""
    with open(path, "rb") as file:
        return b"\0" not in file.read(256)


def _plain(sentence: str) -> str:
    """With blanks for whatever Python, but not KenLM, takes for the end of a word."""
    return sentence if sentence.isascii() and sentence.isprintable() else " ".join(sentence.split())


def _find(path: Path) -> tuple[Path, Path | None, Callable[[Sequence[str]], Iterable[str]]]:
    """The model file, the tokenizer's file if there is one, and how sentences are cut into the model's units."""
    if not path.exists():
        raise UserError(f"{path}: no such file; expected an ARPA file, a KenLM binary, or a folder with lm.binary")
    if path.is_file():
        return path, None, partial(map, _plain)
    files = [path / name for name in ("lm.binary", "lm.arpa", "lm.arpa.gz") if (path / name).is_file()]
    if not files:
        raise UserError(f"{path}: neither lm.binary nor lm.arpa in it; give the model's file as ngram:FILE")
    place = path / "tokenizer.json"
    if not place.is_file():
        return files[0], None, partial(map, _plain)
    tokenizer = Tokenizer.load(place)
    unit = card_value(path, "unit") or "word"
    if unit not in ("word", "subword"):
        raise UserError(f"{path / 'README.md'}: unit {unit!r} is neither word nor subword")
    cut = tokenizer.words if unit == "word" else tokenizer.pieces
    return files[0], place, lambda sentences: map(" ".join, cut(sentences))


def reason_of(error: Exception) -> str:
    """KenLM's message without its source code."""
    message = " ".join(str(error).split())
    found = re.search(r"(?:threw \w+(?: because `.*?')?\.|Exception because.*?\.) (.*)$", message)
    return (found[1] if found else message).rstrip(".)")
