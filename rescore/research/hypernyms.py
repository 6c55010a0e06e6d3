"""Hypernym classes (Bai's thesis, chapter 3; Bai et al. 2022): classes of rare nouns
from WordNet, and the lesson that predicts them before the nouns.

`rescore.research.hypernym_prediction` has the objectives. This module needs no PyTorch.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.lms.base import Kind
from rescore.lms.training.options import Lesson, TrainingData
from rescore.options import Declared, option

if TYPE_CHECKING:
    from rescore.lms.training.objectives import Task

log = logging.getLogger(__name__)

DEPTH = 6
"""Depth of classes in WordNet, the best in Table 3.3. The root has depth 1."""
FREQUENT = 6000 / 103e6
"""Tokens with a larger share of the text have no class. The best threshold in Table 3.4
is 6,000 occurrences in the 103 million tokens of WikiText-103.
"""
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
"""The endings of plural nouns and of their singulars, as in morphy(7WN)."""


# --- WordNet -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WordNet:
    """The nouns of WordNet. A synset is named by its offset in data.noun."""

    senses: Mapping[str, Sequence[str]]
    """The synsets of each noun, the most frequent sense first."""
    hypernyms: Mapping[str, Sequence[str]]
    """The hypernyms of each synset."""
    names: Mapping[str, str]
    """The name of each synset, such as `iron.n.01`."""
    irregular: Mapping[str, Sequence[str]]
    """The singulars of irregular plurals."""

    @classmethod
    def read(cls, folder: Path) -> WordNet:
        """Read WordNet's own files, which wndb(5WN) describes.

        Args:
            folder: Folder with data.noun, index.noun and noun.exc.

        Raises:
            UserError: A file is missing, or does not have WordNet's format.
        """
        senses = _entries(folder / "index.noun", _senses)
        synsets = _entries(folder / "data.noun", _first_noun_and_hypernyms)
        irregular = _entries(folder / "noun.exc", lambda fields: fields[1:])
        names = {}
        for synset, (noun, *_) in synsets.items():
            known = senses.get(noun, ())
            rank = list(known).index(synset) + 1 if synset in known else 0
            names[synset] = f"{noun}.n.{rank:02}"
        hypernyms = {synset: pointers[1:] for synset, pointers in synsets.items()}
        wanted = {above for every in hypernyms.values() for above in every}
        wanted.update(synset for every in senses.values() for synset in every)
        absent = sorted(wanted - synsets.keys())
        if absent:
            raise UserError(
                f"{folder / 'data.noun'}: no synset {absent[0]}; give the files of one"
                " release of WordNet"
            )
        return cls(senses, hypernyms, names, irregular)

    def synsets(self, word: str) -> list[str]:
        """Return the synsets of a word and of its singulars, the most frequent first.

        Args:
            word: A word; case does not matter.
        """
        word = word.lower()
        forms = [word, *self.irregular.get(word, ())]
        if word not in self.irregular:
            for ending, singular in ENDINGS.items():
                if word.endswith(ending):
                    forms.append(word.removesuffix(ending) + singular)
        return [synset for form in forms for synset in self.senses.get(form, ())]

    def paths(self, synset: str) -> Iterator[list[str]]:
        """Yield each path from the root to a synset, in the order of names."""
        above = sorted(self.hypernyms[synset], key=lambda other: self.names[other])
        if not above:
            yield [synset]
        for hypernym in above:
            for path in self.paths(hypernym):
                yield [*path, synset]

    def hypernym(self, word: str, depth: int) -> str | None:
        """Return the name of a word's class (Code 1 of the thesis); None for a word
        without a class.

        The class is the synset at this depth of the first path that is deep enough.
        Frequent senses come first.

        Args:
            word: A word.
            depth: Depth of classes; the root has depth 1.
        """
        for synset in self.synsets(word):
            for path in self.paths(synset):
                if len(path) >= depth:
                    return self.names[path[depth - 1]]
        return None


def _senses(fields: Sequence[str]) -> Sequence[str]:
    """Return the synsets of a line of index.noun."""
    return fields[-int(fields[2]) :]


def _first_noun_and_hypernyms(fields: Sequence[str]) -> Sequence[str]:
    """Return the first noun of a line of data.noun, and the offsets of its hypernyms.

    Hypernyms of instances (`@i`, such as a poet of Homer) count as hypernyms (`@`).
    """
    nouns = int(fields[3], 16)
    pointers = fields[5 + 2 * nouns :]
    number = int(fields[4 + 2 * nouns])
    hypernyms = []
    for start in range(0, 4 * number, 4):
        symbol, offset = pointers[start : start + 2]
        if symbol in ("@", "@i"):
            hypernyms.append(offset)
    return [fields[4].lower(), *hypernyms]


def _entries(
    path: Path, parse: Callable[[Sequence[str]], Sequence[str]]
) -> dict[str, Sequence[str]]:
    """Return what a function makes of each line of a file, by the line's first field.

    Args:
        path: A file of WordNet. Lines of its licence begin with a blank.
        parse: Makes an entry of the fields of a line.

    Raises:
        UserError: The file cannot be read, or a line does not have the format.
    """
    entries = {}
    advice = "give a folder such as /usr/share/wordnet of Debian's wordnet-base"
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.startswith(" ") or not line.strip():
                    continue
                fields = line.split(" | ")[0].rstrip().split(" ")
                try:
                    entries[fields[0]] = parse(fields)
                except (ValueError, IndexError):
                    raise UserError(
                        f"--hypernyms: {path}: line {number}: expected WordNet's"
                        f" format; {advice}"
                    ) from None
    except OSError as error:
        raise UserError(
            f"--hypernyms: {path}: cannot be read ({error.strerror or error}); {advice}"
        ) from None
    return entries


# --- classes -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TokenClasses:
    """The classes of the tokens of a vocabulary."""

    of: npt.NDArray[np.int64]
    """(vocabulary,), the number of each token's class; -1 for a token without class."""
    names: tuple[str, ...]
    """The hypernym of each class."""

    @property
    def tokens(self) -> int:
        """Number of tokens that have a class."""
        return int((self.of >= 0).sum())

    @property
    def shared(self) -> int:
        """Number of classes that several tokens have."""
        sizes = np.bincount(self.of[self.of >= 0], minlength=len(self.names))
        return int((sizes > 1).sum())


def token_classes(
    wordnet: WordNet,
    tokens: Sequence[str],
    counts: npt.NDArray[np.int64],
    depth: int = DEPTH,
    most: int | None = None,
) -> TokenClasses:
    """Return the classes of tokens (Code 1 of the thesis).

    Args:
        wordnet: WordNet.
        tokens: The tokens of a vocabulary.
        counts: (vocabulary,), how often each token occurs in the text.
        depth: Depth of classes; the root has depth 1.
        most: Occurrences of a token that has a class, at most; None for the thesis'
            share of the text.
    """
    if most is None:
        most = int(FREQUENT * counts.sum())
    members: dict[str, list[int]] = defaultdict(list)
    for number, token in enumerate(tokens):
        if counts[number] > most:
            continue
        name = wordnet.hypernym(token, depth)
        if name is not None:
            members[name].append(number)
    of = np.full(len(tokens), -1, dtype=np.int64)
    for number, own in enumerate(members.values()):
        of[own] = number
    return TokenClasses(of, tuple(members))


# --- pacing --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pacing:
    """The probability that a step predicts classes (equations 3.4 and 3.5)."""

    linear: bool
    """Whether the probability falls to 0; else it is constant."""
    share: float
    """Share of the training with class prediction: a in the thesis."""
    rate: float
    """Probability at the beginning: b in the thesis."""

    def __call__(self, done: float) -> float:
        """Return the probability.

        Args:
            done: Share of the training that is done, from 0 to 1: t / N in the thesis.
        """
        if done >= self.share:
            return 0.0
        if self.linear:
            return self.rate - self.rate * done / self.share
        return self.rate


PACINGS = {"constant": Pacing(False, 0.12, 0.8), "linear": Pacing(True, 0.64, 0.64)}
"""The thesis' values: for its base and large models (section 3.4.3), and the best
linear function of Table 3.5.
"""
CLASSES = ("embedded", "summed")
"""How classes are predicted: by embeddings of their own (equation 3.2), or by the
probabilities of their tokens.
"""


# --- the lesson ----------------------------------------------------------------------


class HypernymLesson(Lesson):
    """Predicts the hypernyms of rare nouns in the beginning of a training."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        hypernyms: Path | None = option(
            None,
            "Predict hypernyms instead of rare nouns in the beginning of the training"
            " (Bai et al. 2022). DIR is WordNet, such as /usr/share/wordnet of Debian's"
            " wordnet-base.",
            metavar="DIR",
            reads=True,
        )
        hypernym_depth: int = option(
            DEPTH,
            "Depth of hypernyms in WordNet, from 1, the root.",
            low=1,
            high=30,
            needs="hypernyms",
        )
        hypernym_frequency: int | None = option(
            None,
            "Tokens that occur more often in the text are predicted as they are. "
            " [default: 6000 in 103 million tokens, in proportion to the text]",
            metavar="N",
            low=1,
            needs="hypernyms",
        )
        hypernym_pacing: str = option(
            "constant",
            "Probability that a step predicts hypernyms: constant, or linear, which"
            " falls to 0.",
            choices=tuple(PACINGS),
            needs="hypernyms",
        )
        hypernym_share: float | None = option(
            None,
            "Share of the training, from its beginning, in which steps can predict"
            " hypernyms.  [default: 0.12; with linear pacing 0.64]",
            low=0,
            high=1,
            needs="hypernyms",
        )
        hypernym_rate: float | None = option(
            None,
            "Probability that the first step predicts hypernyms.  [default: 0.8; with"
            " linear pacing 0.64]",
            low=0,
            high=1,
            needs="hypernyms",
        )
        hypernym_classes: str = option(
            "embedded",
            "embedded: hypernyms have embeddings and replace nouns in the input, too;"
            " summed: the probability of a hypernym is the sum over its nouns.",
            choices=CLASSES,
            needs="hypernyms",
        )

    @property
    def pacing(self) -> Pacing:
        """The pacing that the options ask for."""
        pacing = PACINGS[self.options.hypernym_pacing]
        if self.options.hypernym_share is not None:
            pacing = replace(pacing, share=self.options.hypernym_share)
        if self.options.hypernym_rate is not None:
            pacing = replace(pacing, rate=self.options.hypernym_rate)
        return pacing

    @classmethod
    def suits(cls, kind: Kind) -> bool:
        """Return whether a kind is a network; `tasks` refuses networks that do not
        predict tokens.
        """
        return kind.is_network

    def tasks(self, tasks: list[Task], data: TrainingData) -> list[Task]:
        """Return the tasks; those that predict tokens predict classes first.

        Raises:
            UserError: No task predicts tokens by a softmax over the vocabulary, or
                WordNet cannot be read.
        """
        from rescore.research.hypernym_prediction import (
            EmbeddedClasses,
            HypernymCurriculum,
            SummedClasses,
            has_outputs_for_tokens,
            predicts_tokens,
        )

        suited = any(predicts_tokens(task.objective) for task in tasks)
        if not suited or not has_outputs_for_tokens(data.config):
            raise UserError(
                f"--hypernyms is not for --lm {data.config.kind}, which does not"
                " predict tokens by a softmax over the vocabulary"
            )
        classes = self._classes(data)
        prediction: EmbeddedClasses | SummedClasses
        if self.options.hypernym_classes == "embedded":
            prediction = EmbeddedClasses(classes.of, data.config, data.options.seed)
        else:
            prediction = SummedClasses(classes.of)
        changed = []
        for task in tasks:
            if predicts_tokens(task.objective):
                objective = HypernymCurriculum(
                    task.objective, prediction, self.pacing, data.options.seed
                )
                task = replace(task, objective=objective)
            changed.append(task)
        return changed

    def _classes(self, data: TrainingData) -> TokenClasses:
        """Return the classes of the tokenizer's tokens, and tell how many there are."""
        folder = self.options.hypernyms
        tokens = data.tokenizer.tokens(range(data.tokenizer.vocab_size))
        try:
            classes = token_classes(
                WordNet.read(folder),
                tokens,
                data.text.counts(),
                self.options.hypernym_depth,
                self.options.hypernym_frequency,
            )
        except RecursionError:
            raise UserError(
                f"--hypernyms {folder}: a synset is its own hypernym; give WordNet's"
                " files as they are released"
            ) from None
        log.info(
            "--hypernyms: %s in %s, %s of them of several tokens",
            counted(classes.tokens, "token"),
            counted(len(classes.names), "hypernym"),
            classes.shared,
        )
        if not classes.shared:
            log.warning(
                "--hypernyms %s changes little: no two rare tokens share a class; give"
                " a longer text, a larger --size or another --hypernym-depth",
                folder,
            )
        return classes
