"""Hypernym class prediction (Bai 2022, chapter 3): early in training, a rare noun's class is predicted, not the noun.

Classes are read from WordNet's own files, `data.noun`, `index.noun` and `noun.exc`, which are described in wndb(5WN).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.errors import UserError, counted
from rescore.lms.neural.tokenizer import Tokenizer
from rescore.lms.neural.training.objectives import Curriculum, Example

log = logging.getLogger(__name__)

DEPTH = 6
"""Of a class below the root, which has 1 (Table 3.3)."""
FREQUENT = 6000 / 103e6
"""Tokens with a larger share of the text are no class's (Table 3.4: 6,000 of the 103 million of WikiText-103)."""
BEGINNING, OFTEN = 0.12, 0.8
"""Classes are predicted in this share of the training, in this share of its steps (section 3.5.3: a and b)."""
ENDINGS = {
    "s": "",
    "ses": "s",
    "ves": "f",
    "xes": "x",
    "zes": "z",
    "ches": "ch",
    "shes": "sh",
    "men": "man",
    "ies": "y",
}
"""The endings that morphy(7WN) takes off nouns, with their replacements."""


class WordNet:
    """Nouns and their hypernyms."""

    def __init__(self, folder: Path) -> None:
        """
        Raises:
            UserError: one of the files is missing, or has not WordNet's form.
        """
        self._above: dict[str, list[str]] = {}
        self._senses: dict[str, list[str]] = {}
        self._irregular: dict[str, list[str]] = {}
        for fields in _lines(folder / "data.noun"):
            pointers = fields[4 + 2 * int(fields[3], 16) :]
            relations = [pointers[1 + 4 * n : 3 + 4 * n] for n in range(int(pointers[0]))]
            self._above[fields[0]] = [offset for kind in ("@", "@i") for symbol, offset in relations if symbol == kind]
        for fields in _lines(folder / "index.noun"):
            self._senses[fields[0]] = fields[-int(fields[2]) :]
        for fields in _lines(folder / "noun.exc"):
            self._irregular[fields[0]] = fields[1:]

    def senses(self, word: str) -> list[str]:
        """The synsets of a word and of its singular, the most frequent first."""
        forms = self._irregular.get(word) or [
            word.removesuffix(ending) + singular for ending, singular in ENDINGS.items() if word.endswith(ending)
        ]
        return [sense for form in dict.fromkeys([word, *forms]) for sense in self._senses.get(form, [])]

    def paths(self, synset: str) -> Iterator[list[str]]:
        """From the root to the synset, in all ways."""
        if not self._above[synset]:
            yield [synset]
        for above in self._above[synset]:
            for path in self.paths(above):
                yield [*path, synset]

    def hypernym(self, word: str, depth: int) -> str | None:
        """The synset at this depth above the most frequent sense that is as deep (Code 1 of the thesis)."""
        paths = (path for sense in self.senses(word) for path in self.paths(sense))
        return next((path[depth - 1] for path in paths if len(path) >= depth), None)


def _lines(path: Path) -> Iterator[list[str]]:
    """The fields of each line, less the licence, whose lines begin with blanks."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from (line.split(" | ")[0].split() for line in file if not line.startswith(" ") and line.strip())
    except OSError as error:
        raise UserError(
            f"--hypernyms: {path}: cannot be read ({error.strerror or error}); give the folder of WordNet's data.noun, "
            "such as /usr/share/wordnet of Debian's wordnet-base"
        ) from None


def classes(folder: Path, tokenizer: Tokenizer, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The class of each token (vocabulary,); a token without a class is a class of its own.

    Args:
        counts: (vocabulary,), how often each token occurs in the text.

    Raises:
        UserError: there is no WordNet in the folder.
    """
    try:
        wordnet = WordNet(folder)
        words = tokenizer.tokens(range(len(counts)))
        rare = counts <= FREQUENT * counts.sum()
        names = [wordnet.hypernym(word, DEPTH) if rare[token] else None for token, word in enumerate(words)]
    except (ValueError, IndexError, KeyError, RecursionError) as error:
        raise UserError(f"--hypernyms {folder}: not WordNet's files ({error!r})") from None
    numbers: dict[str, int] = {}
    return np.array([token if name is None else numbers.setdefault(name, token) for token, name in enumerate(names)])


class HypernymClasses(Curriculum):
    """A `Curriculum`: targets are replaced by their classes in the beginning of a training.

    In the thesis, classes have their own embeddings and replace tokens in the input, too. Here, the probability of a
    class is the sum over its words, so the network has the same parameters as without classes.
    """

    def __init__(self, of: npt.NDArray[np.int64]) -> None:
        """of: the class of each token, as `classes` has it."""
        self.classes = torch.from_numpy(of)

    @property
    def shared(self) -> npt.NDArray[np.int64]:
        """The sizes of classes of several tokens."""
        _, sizes = np.unique(self.classes.numpy(), return_counts=True)
        return sizes[sizes > 1]

    @classmethod
    def read(cls, folder: Path, tokenizer: Tokenizer, counts: npt.NDArray[np.int64]) -> Self:
        """Of the tokens of a text, as `classes` has them."""
        replacement = cls(classes(folder, tokenizer, counts))
        if not len(replacement.shared):
            log.warning(
                "--hypernyms %s changes nothing: no two rare words of the vocabulary have a class together; "
                "give a larger text, --vocabulary words, or a larger --size",
                folder,
            )
        return replacement

    def __str__(self) -> str:
        tokens, hypernyms = counted(int(self.shared.sum()), "token"), counted(len(self.shared), "hypernym")
        return f"{tokens} in the classes of {hypernyms}"

    def __call__(self, example: Example, done: float, seed: Sequence[int]) -> Example:
        if done >= BEGINNING or np.random.default_rng([*seed, 1]).random() >= OFTEN:
            return example
        return replace(example, targets=self.classes[example.targets], loss=partial(class_cross_entropy, self.classes))


def class_cross_entropy(
    classes: Tensor, hidden: Tensor, embeddings: Tensor, targets: Tensor, rows: int = 256, bias: Tensor | None = None
) -> Tensor:
    """Cross entropy with classes as targets: -log of the sum of the probabilities of a class's tokens.

    Args:
        classes: (vocabulary,), the class of each token.
    """
    classes = classes.to(hidden.device)
    total = hidden.new_zeros((), dtype=torch.float32)
    for part, wanted in zip(hidden.split(rows), targets.split(rows), strict=True):
        logits = (part @ embeddings.to(part.dtype).T).float()
        logits = logits if bias is None else logits + bias
        inside = logits.masked_fill(classes != wanted[:, None], -torch.inf)
        total = total + (logits.logsumexp(-1) - inside.logsumexp(-1)).sum()
    return total
