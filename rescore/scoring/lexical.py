"""Lexical translation models: a hypothesis judged by its source, word by word (IBM Model 1, Brown et al. 1993).

The probability of a text is the product over its words w, given the words g of the other text and NULL:

    p(w) = sum over g of prior(link) * t(w | g)

A reading is a column: `lexical` p(hypothesis | source), `lexical:channel` p(source | hypothesis); `lexical:coverage`
and `lexical:channel:coverage`, how many words nothing on the other side explains; `lexical:length`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rescore.errors import UserError
from rescore.scoring.base import ComputeOptions, Question, TokenScores
from rescore.scoring.lexical_links import Floats, Links, Texts, portions, texts_of_words
from rescore.scoring.lexical_model import LexicalModel, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from rescore.scoring.backends import Spec

LINKS = 1 << 22
"""Links that are looked at together: 300 MiB."""


def load(spec: Spec, computing: ComputeOptions) -> LexicalLM:
    """`lexical[:channel][:coverage]:DIR`, `lexical:length:DIR`.

    Raises:
        UserError: the folder is no such model, or options exclude each other.
    """
    if "length" in spec.options and len(spec.options) > 1:
        raise UserError(f"--lm {spec.name}: length has no other options")
    return LexicalLM(spec.name, spec.path, spec.options)


class LexicalLM:
    """One reading of a lexical model."""

    reads_source = True
    precision = "float64"

    def __init__(self, name: str, folder: Path, options: Sequence[str] = ()) -> None:
        """
        Args:
            options: of `channel`, `coverage`, `length`.
        """
        self.name = self.model = name
        self._folder = folder
        self._options = [option for option in ("channel", "coverage", "length") if option in options]
        self._model = LexicalModel.load(folder)

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self._options} {fingerprint(self._folder)}".encode()).hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question with a source, in their order."""
        pairs = [one.pair(False) for one in questions]
        texts = list(dict.fromkeys(text for both in pairs for text in both))
        cut = dict(zip(texts, self._model.cut(texts), strict=True))
        sources, targets = ([cut[both[side]] for both in pairs] for side in (0, 1))
        if "length" in self._options:
            return [self._length(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        # Whether the source's words are the tokens; those that the hypothesis does not explain are the source's, too.
        channel = ("channel" in self._options) != ("coverage" in self._options)
        given, predicted = (targets, sources) if channel else (sources, targets)
        unknown: dict[str, int] = {}
        numbers = self._model.numbered(predicted, unknown)
        likelihood, unexplained = self._log_probs(self._model.numbered(given, unknown).with_null(), numbers, channel)
        values = -unexplained if "coverage" in self._options else likelihood
        beyond = len(self._model.vocabulary)
        results = []
        for rank, words in enumerate(predicted):
            span = slice(int(numbers.starts[rank]), int(numbers.starts[rank + 1]))
            foreign = tuple(np.flatnonzero(numbers.ids[span] > beyond).tolist())
            results.append(TokenScores(words, values[span], foreign))
        return results

    def _log_probs(self, given: Texts, predicted: Texts, channel: bool) -> tuple[Floats, Floats]:
        """(words,) twice: ln p of each predicted word, and the share of it that is not due to a given word."""
        direction = "channel" if channel else "direct"
        table = self._model.tables[direction]
        alignment, smoothing = self._model.config.alignment[direction], self._model.config.smoothing
        texts = texts_of_words(predicted)
        found, unexplained = np.empty(len(texts)), np.empty(len(texts))
        for some in portions(given.lengths[texts], LINKS):
            links = Links(given, predicted, np.arange(some.start, some.stop), texts[some])
            t = table.probabilities(links.given_words, links.predicted_words, smoothing)
            joint = alignment.prior(links) * t
            sums = links.sums(joint)
            found[some], unexplained[some] = np.log(sums), joint[links.first] / sums
        return found, unexplained

    def _length(self, source: int, target: int) -> TokenScores:
        """ln of the log-normal density of the ratio of lengths, as one token."""
        config = self._model.config
        away = (math.log((target + 1) / (source + 1)) - config.length_mean) / config.length_deviation
        value = -0.5 * away * away - math.log(config.length_deviation * math.sqrt(2 * math.pi))
        return TokenScores(["length"], np.array([value]))
