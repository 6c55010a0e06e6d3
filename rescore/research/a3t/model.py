"""A3T as a scorer of hypotheses, and as what reconstructs masked or edited speech."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.lms import base
from rescore.lms.base import Capabilities, ComputeOptions, Question, TokenScores
from rescore.lms.folders import content_digest
from rescore.nbest import NO_AUDIO, Audio
from rescore.research.a3t.alignment import CtcAligner, TooShortError, units_of
from rescore.research.a3t.network import Batch, Example
from rescore.research.a3t.sound import Mel
from rescore.research.a3t.training import ALIGNER, example, load, normalised

SPAN = 0.4
"""Seconds of a masked span: about a word, so that the text has to say what is in it."""
BATCH = 16
"""Hypotheses that are reconstructed together."""


class A3tModel:
    """Minus the mean L1 error of masked spans, reconstructed under each hypothesis, in units of the training set's
    deviation."""

    capabilities = Capabilities(audio=True)
    precision = "float32"

    def __init__(self, name: str, folder: Path, computing: ComputeOptions) -> None:
        """
        Raises:
            UserError: the folder holds no A3T, or no CTC model that aligns hypotheses.
        """
        self.name = self.model = name
        self._folder, self.network = folder, load(folder)
        self.mel = Mel(self.network.config.rate, self.network.config.mels)
        if not (folder / ALIGNER).is_dir():
            raise UserError(f"{folder}: no CTC model that aligns hypotheses; train with --aligner hf-ctc:DIR")
        self.aligner = CtcAligner(folder / ALIGNER)

    @cached_property
    def fingerprint(self) -> str:
        digest = content_digest(self._folder) + content_digest(self._folder / ALIGNER)
        return hashlib.sha256(f"a3t {SPAN}".encode() + digest).hexdigest()

    def example(self, audio: Audio, text: str) -> Example:
        """An utterance under a text, as the network reads it.

        Raises:
            UserError: the recording cannot be used, or is too short for the text.
        """
        config = self.network.config
        raw = example(audio, text, self.aligner, self.mel, config.units, config.lexicon)
        return normalised([raw], config.mean, config.deviation)[0]

    def reconstructed(self, examples: Sequence[Example], hidden: Sequence[Tensor]) -> list[Tensor]:
        """The normalised spectrograms with their masked frames reconstructed: (frames, mels) each.

        Args:
            hidden: which frames of each are masked.
        """
        with torch.inference_mode():
            masks = torch.nn.utils.rnn.pad_sequence(list(hidden), batch_first=True)
            refined = self.network(Batch.of(list(examples)), masks)[1]
        return [
            torch.where(mask[:, None], made[: len(mask)], one.frames)
            for one, mask, made in zip(examples, hidden, refined, strict=True)
        ]

    def sound(self, normalised_frames: Tensor) -> np.ndarray:
        """The samples of a spectrogram, by Griffin and Lim."""
        return self.mel.griffin_lim(normalised_frames * self.network.config.deviation + self.network.config.mean)

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question with a recording, in their order; 0 where the recording is `NO_AUDIO`.

        Each frame is masked once, in one of two passes over spans that do not depend on the hypothesis.
        """
        results: dict[int, TokenScores] = {}
        for start in range(0, len(questions), BATCH):
            examples: dict[int, Example] = {}
            for place, question in enumerate(questions[start : start + BATCH], start):
                if question.audio is None:
                    raise UserError("this model listens to the recording of an utterance; give --audio")
                results[place] = TokenScores([], np.zeros(0))
                if question.audio != NO_AUDIO:
                    try:
                        examples[place] = self.example(question.audio, question.text)
                    except TooShortError:
                        results[place] = TokenScores([], np.zeros(0), total=-np.inf)
            for place, errors in zip(examples, self._errors(list(examples.values())), strict=True):
                units = units_of(questions[place].text, self.network.config.lexicon)
                results[place] = _by_unit(units, examples[place].owners, errors)
            base.report(min(start + BATCH, len(questions)), len(questions))
        return [results[place] for place in range(len(questions))]

    def _errors(self, examples: Sequence[Example]) -> list[Tensor]:
        """The mean absolute error of each frame while it is masked: (frames,) each."""
        size = round(SPAN * self.mel.rate / self.mel.hop)
        spans = [torch.arange(len(one.frames)) // size % 2 for one in examples]
        errors = [torch.zeros(len(one.frames)) for one in examples]
        for turn in (0, 1) if examples else ():
            hidden = [span == turn for span in spans]
            for one, mask, own, made in zip(
                examples, hidden, errors, self.reconstructed(examples, hidden), strict=True
            ):
                own[mask] = (made - one.frames).abs().mean(1)[mask]
        return errors


def _by_unit(units: Sequence[str], owners: Tensor, errors: Tensor) -> TokenScores:
    """Minus the errors of each letter's or phone's frames, and of silence, as shares of the mean over all frames."""
    sums = torch.zeros(len(units) + 1, dtype=torch.float64).index_add(0, owners, errors.double()) / len(errors)
    return TokenScores([*units, "<silence>"], -torch.roll(sums, -1).numpy())
