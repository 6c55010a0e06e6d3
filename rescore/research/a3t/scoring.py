"""A3T as a scorer of hypotheses, and the distortion of what it reconstructs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.lms.base import Capabilities, TokenScores
from rescore.lms.folders import content_digest
from rescore.lms.scorers import batches
from rescore.nbest import Audio
from rescore.research.a3t.alignment import CtcAligner, ImpossibleError, units_of
from rescore.research.a3t.network import A3tNetwork, Batch, Example, padded
from rescore.research.a3t.training import ALIGNER, Reader, load
from rescore.research.a3t.utterances import LONGEST, Listener

SPAN = 0.4
"""Seconds of a masked span: about a word, so that the text has to say what is in it."""
BUDGET = 8_000
"""Frames that are reconstructed together."""
SILENCE = "<silence>"


class A3tScorer(Listener):
    """Minus the mean absolute error of masked spans that A3T reconstructs under a
    hypothesis, in units of the deviation of the training set's spectrograms.

    Every second span of `SPAN` seconds is masked, then the others: each frame is
    masked once. The spans do not depend on the hypothesis.
    """

    precision = "float32"
    capabilities = Capabilities(audio=LONGEST)

    def __init__(self, name: str, folder: Path) -> None:
        """
        Raises:
            UserError: The folder holds no A3T, or no CTC model that aligns hypotheses.
        """
        self.name = self.model = name
        self._folder = folder
        self.network = load(folder)
        if not (folder / ALIGNER).is_dir():
            raise UserError(
                f"{folder}: no CTC model that aligns hypotheses; train with --aligner"
                " ctc:DIR"
            )
        self.reader = Reader(self.network.config, CtcAligner(folder / ALIGNER))

    @cached_property
    def fingerprint(self) -> str:
        own = content_digest(self._folder, str(SPAN).encode())
        aligner = content_digest(self._folder / ALIGNER)
        return hashlib.sha256(own + aligner).hexdigest()

    def hear(self, audio: Audio, texts: Sequence[str]) -> list[TokenScores]:
        """Return for each unit, and for silence, minus the errors of its frames as a
        share of the mean over all frames.

        An impossible text has -inf: the recording is too short for it, or it has more
        units than the network reads.
        """
        frames = self.reader.frames(audio)
        examples: dict[int, Example] = {}
        for place, text in enumerate(texts):
            try:
                examples[place] = self.reader.under(audio, frames, text)
            except ImpossibleError:
                continue
        errors = self.errors(frames, list(examples.values()))
        errors_of = dict(zip(examples, errors, strict=True))
        results = []
        for place, text in enumerate(texts):
            units = units_of(text, self.network.config.lexicon)
            if place in errors_of:
                example = examples[place]
                values = by_unit(example.owners, errors_of[place], len(units))
                unknown = (example.units == 0).nonzero()[:, 0].tolist()
                scores = TokenScores([*units, SILENCE], values, tuple(unknown))
                results.append(scores)
            else:
                nothing = np.zeros(len(units))
                results.append(TokenScores(units, nothing, total=-np.inf))
        return results

    def errors(self, frames: Tensor, examples: Sequence[Example]) -> list[Tensor]:
        """Return the mean absolute error of each frame while it is masked.

        Args:
            frames: The spectrogram of a recording, (frames, bands).
            examples: The recording under texts.

        Returns:
            For each example (frames,).
        """
        span = round(SPAN / self.reader.mel.seconds)
        turns = torch.arange(len(frames)) // span % 2
        results: list[Tensor] = []
        for batch in batches(examples, _length, BUDGET):
            errors = torch.zeros(len(batch), len(frames))
            for turn in (0, 1):
                hidden = turns == turn
                made = reconstructed(self.network, batch, [hidden] * len(batch))
                differences = (torch.stack(made) - frames).abs().mean(-1)
                errors[:, hidden] = differences[:, hidden]
            results += errors
        return results


def _length(example: Example) -> int:
    return len(example.frames)


def reconstructed(
    network: A3tNetwork, examples: Sequence[Example], hidden: Sequence[Tensor]
) -> list[Tensor]:
    """Return what the network makes of examples.

    Args:
        network: It computes without gradients.
        examples: They are one batch.
        hidden: Which frames of each are masked, (frames,).

    Returns:
        For each a normalised spectrogram, (frames, bands); only masked frames count.
    """
    with torch.inference_mode():
        _, refined = network(Batch.of(examples), padded(hidden))
    return [
        made[: len(example.frames)]
        for made, example in zip(refined, examples, strict=True)
    ]


def by_unit(owners: Tensor, errors: Tensor, units: int) -> np.ndarray:
    """Return minus the errors of the frames of each unit, then of silence, as shares of
    the mean over all frames.

    Args:
        owners: The place of the unit of each frame, from 1; 0 for silence.
        errors: Of each frame, (frames,).
        units: Their number.

    Returns:
        (units + 1,), which add up to minus the mean.
    """
    sums = torch.zeros(units + 1, dtype=torch.float64)
    sums.index_add_(0, owners, errors.double())
    return -torch.roll(sums, -1).numpy() / len(errors)
