"""Further targets in training: hypernym classes (Bai 2022, chapter 3), and sentence order (dissertation, 5.4.1)."""

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
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.errors import UserError, counted
from rescore.lms.config import NetworkConfig
from rescore.lms.networks import padding_mask
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import Corpus
from rescore.lms.training.objectives import ContextObjective, Example, Objective, Task

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
    """Nouns and their hypernyms, from WordNet's own files, which wndb(5WN) describes."""

    def __init__(self, folder: Path) -> None:
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


class HypernymClasses:
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


class OrderClassifier(nn.Module):
    """Softmax over two orders, of one vector of a pair: in SOP (Lan et al. 2020, ALBERT) the vector of [BOS], which is
    BERT's [CLS]; in SRP, the dissertation's, the mean vector of the sentences' tokens."""

    about = "sentence order"

    def __init__(self, name: str, width: int, frame: Sequence[int]) -> None:
        """
        Args:
            name: `sop` or `srp`. width: of the vectors. frame: the tokens that are not the sentences'.
        """
        super().__init__()
        self._first, self._frame = name == "sop", list(frame)
        self.linear = nn.Linear(width, 2)
        nn.init.zeros_(self.linear.weight)  # nothing random is drawn: what else is random stays what it is without
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor, example: Example) -> Tensor:
        """Hidden vectors (batch, n, d) of a batch of pairs -> logits (batch, 2): in order, swapped."""
        if self._first:
            pooled = hidden[:, 0].float()
        else:
            own = padding_mask(example.lengths, hidden.shape[1])
            for token in self._frame:
                own = own & (example.tokens != token)
            pooled = (hidden.float() * own[..., None]).sum(dim=1) / own.sum(dim=1, keepdim=True)
        logits: Tensor = self.linear(pooled)
        return logits

    def loss(self, hidden: Tensor, example: Example) -> Tensor:
        """The mean of -log p of the orders, natural log."""
        assert example.labels is not None
        return F.cross_entropy(self(hidden, example), example.labels.long())

    def right(self, hidden: Tensor, example: Example) -> Tensor:
        """(batch,), whether the right order is the more probable order."""
        assert example.labels is not None
        return self(hidden, example).argmax(dim=1) == example.labels


class SentenceOrder(Objective):
    """An objective for pairs of consecutive sentences, half of them swapped; `head` predicts which pairs are swapped.

    A pair has the form [BOS] first [EOS] second [EOS], as in BERT; [EOS] is not predicted.
    """

    def __init__(self, name: str, objective: Objective, tokenizer: Tokenizer, width: int) -> None:
        self.perplexity, self.predicts_end = objective.perplexity, objective.predicts_end
        self._objective, self._eos = ContextObjective(objective, tokenizer), tokenizer.eos
        self.head = OrderClassifier(name, width, (tokenizer.bos, tokenizer.eos))

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        random = np.random.default_rng([*seed, 2])
        # If their number is odd, chance decides which order gets the extra pair.
        swapped = torch.from_numpy((random.permutation(len(tokens)) + random.integers(2)) % 2 == 1)
        shown = tokens.clone()
        for row in swapped.nonzero()[:, 0].tolist():
            inner = tokens[row, 1 : lengths[row] - 1]
            end = int((inner == self._eos).nonzero()[0])
            shown[row, 1 : lengths[row] - 1] = torch.cat([inner[end + 1 :], inner[end : end + 1], inner[:end]])
        return replace(self._objective(shown, lengths, seed), labels=swapped)


def pairs(corpus: Corpus, tokenizer: Tokenizer, longest: int) -> Corpus:
    """The windows of two sentences of a corpus, as first [EOS] second with at most `longest` tokens."""
    kept = corpus.windows([tokenizer.eos], lambda sentences, tokens: (sentences == 2) & (tokens < longest))
    if not len(kept) or not kept.held_out_items:
        raise UserError(
            f"the text has too few pairs of consecutive lines with fewer than {longest} tokens: "
            f"{len(kept)} to train on, {kept.held_out_items} held out; --held-out sets how many are"
        )
    return kept


def order_task(name: str, usual: Task, config: NetworkConfig, tokenizer: Tokenizer) -> Task:
    """The task that `name` (`sop` or `srp`) adds to the usual task of a network.

    Args:
        usual: of a corpus whose windows are pairs.
    """
    corpus = pairs(usual.corpus, tokenizer, config.max_positions - 2)
    return Task(name, corpus, SentenceOrder(name, usual.objective, tokenizer, config.d_model))
