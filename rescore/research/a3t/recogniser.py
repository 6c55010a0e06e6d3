"""CTC recognisers: what they all do, and as scorers log p(text | recording)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from rescore.lms.base import Capabilities, TokenScores
from rescore.lms.folders import content_digest
from rescore.nbest import Audio
from rescore.research.a3t import folders
from rescore.research.a3t.ctc import Heard, prefix_log_probs
from rescore.research.a3t.ctc_network import KIND, OwnRecogniser
from rescore.research.a3t.utterances import Listener

END = "</s>"


class Recogniser(Protocol):
    """A CTC model with its letters."""

    folder: Path
    blank: int
    """The label of silence."""
    longest: float
    """Seconds of the longest recording that it hears."""

    def labels(self, text: str) -> list[int]:
        """Return the labels of a text."""
        ...

    def names(self, labels: Sequence[int]) -> list[str]:
        """Return the letters of labels."""
        ...

    def unknown(self, labels: Sequence[int]) -> tuple[int, ...]:
        """Return the places of letters that the model does not know."""
        ...

    def text(self, labels: Sequence[int]) -> str:
        """Return the text of labels."""
        ...

    def hear(self, audio: Audio) -> Heard:
        """Return the probabilities of labels in a recording."""
        ...


def load_recogniser(folder: Path) -> Recogniser:
    """Return the recogniser of a folder, which `train` or transformers wrote.

    Raises:
        UserError: The folder holds no CTC model.
    """
    if folders.kind_in(folder) == KIND:
        return OwnRecogniser(folder)
    # here: it needs transformers
    from rescore.research.a3t.pretrained import PretrainedRecogniser

    return PretrainedRecogniser(folder)


class CtcScorer(Listener):
    """log p of a text given a recording, summed over all alignments."""

    precision = "float32"

    def __init__(self, name: str, recogniser: Recogniser) -> None:
        self.name = self.model = name
        self.recogniser = recogniser
        self.capabilities = Capabilities(audio=recogniser.longest)

    @cached_property
    def fingerprint(self) -> str:
        content = content_digest(self.recogniser.folder, b"ctc")
        return hashlib.sha256(content).hexdigest()

    def hear(self, audio: Audio, texts: Sequence[str]) -> list[TokenScores]:
        """Return natural-log probabilities of letters given those before them, and of
        the end.
        """
        heard = self.recogniser.hear(audio)
        labels = [self.recogniser.labels(text) for text in texts]
        steps = prefix_log_probs(heard.log_probs, labels, self.recogniser.blank)
        results = []
        for own, log_probs in zip(labels, steps, strict=True):
            tokens = [*self.recogniser.names(own), END]
            unknown = self.recogniser.unknown(own)
            results.append(TokenScores(tokens, log_probs, unknown))
        return results
