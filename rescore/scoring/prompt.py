"""Causal models that are shown more than the hypothesis: its source, or what was said before. Only its tokens count."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from rescore.scoring.base import Question, Template
from rescore.scoring.causal import CausalScorer
from rescore.scoring.one_pass import Encoded, Network


class PromptNetwork(Network, Protocol):
    """A network whose tokenizer cuts a text together with what stands before it."""

    def encode_behind(self, before: Sequence[str], texts: Sequence[str]) -> list[Encoded]:
        """The tokens of both as one text; the word of those that end before the text begins is `CONTEXT_TOKEN`."""
        ...


class PromptedScorer(CausalScorer):
    """log p of the hypothesis' tokens given the template up to it, with the source in its place.

    The template is read once for all hypotheses of a source.
    """

    def __init__(self, name: str, network: PromptNetwork, template: str) -> None:
        """
        Args:
            template: as `Template` takes it.

        Raises:
            UserError: it does not end with {text}.
        """
        super().__init__(name, network)
        self._prompted = network
        self._template = Template(template)
        self.reads_source = self._template.reads_source

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self._template.text}\0{super().fingerprint}".encode()).hexdigest()

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        before = [self._template.before(one) for one in questions]
        return [self.in_order(one) for one in self._prompted.encode_behind(before, [one.text for one in questions])]


class ContinuingScorer(CausalScorer):
    """log p of the hypothesis' tokens given the 1-best of the utterances before it, one per line."""

    def __init__(self, name: str, network: PromptNetwork, number: int) -> None:
        super().__init__(name, network)
        self._prompted = network
        self.context = (number, 0)

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"context {self.context[0]} {super().fingerprint}".encode()).hexdigest()

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        before = ["".join(f"{neighbour}\n" for neighbour in one.before[-self.context[0] :]) for one in questions]
        return [self.in_order(one) for one in self._prompted.encode_behind(before, [one.text for one in questions])]
