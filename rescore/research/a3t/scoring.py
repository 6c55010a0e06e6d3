"""A3T: scores of hypotheses, given their recordings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from rescore.errors import UserError
from rescore.files import parsed, read_json
from rescore.lms import base
from rescore.lms.base import Capabilities, Question, TokenScores
from rescore.lms.folders import content_digest
from rescore.nbest import NO_AUDIO, Audio
from rescore.research.a3t.alignment import CtcAligner, TooShortError, letters_of
from rescore.research.a3t.network import A3tConfig, A3tNetwork, Batch, Example, Mel
from rescore.research.a3t.training import ALIGNER, example, normalised

SPAN = 0.4
"""Seconds of a masked span: about a word, so that the text has to say what is in it."""
BATCH = 16
"""Hypotheses that are reconstructed together."""


def load(folder: Path) -> A3tNetwork:
    """The network in a folder.

    Raises:
        UserError: files are missing or damaged.
    """
    path = folder / "config.json"
    values = read_json(path)
    if not isinstance(values, dict) or values.pop("kind", None) != "a3t":
        raise UserError(f"{path}: describes no A3T; train one with `rescore train --lm a3t`")
    config = parsed(values, A3tConfig, str(path))
    if not (0 < config.d_model <= 4_096 and 0 < config.layers <= 64 and config.heads > 0 and 0 < config.mels <= 512):
        raise UserError(f"{path}: sizes of no real network")
    network = A3tNetwork(config)
    try:
        network.load_state_dict(load_file(folder / "model.safetensors"))
    except Exception as error:  # safetensors and PyTorch raise several kinds of errors
        raise UserError(f"{folder}: no weights of this network ({' '.join(str(error).split())[:120]})") from None
    return network.eval()


class A3tModel:
    """Minus the mean L1 error of masked spans, reconstructed under each hypothesis, in units of the training set's
    deviation."""

    capabilities = Capabilities(audio=True)
    precision = "float32"

    def __init__(self, name: str, folder: Path) -> None:
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
        """An utterance under a text, as the network reads it."""
        config = self.network.config
        return normalised(example(audio, text, self.aligner, self.mel, config.units), config)

    def reconstructed(self, examples: Sequence[Example], hidden: Sequence[Tensor]) -> list[Tensor]:
        """The normalised spectrograms with their masked frames reconstructed: (frames, mels) each.

        Args:
            hidden: which frames of each are masked.
        """
        with torch.inference_mode():
            masks = torch.nn.utils.rnn.pad_sequence(list(hidden), batch_first=True)
            refined = self.network(Batch.of(list(examples)), masks)[1]
        return [
            torch.where(mask[:, None], frames[: len(mask)], utterance.frames)
            for utterance, mask, frames in zip(examples, hidden, refined, strict=True)
        ]

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
                results[place] = _by_letter(letters_of(questions[place].text), examples[place].owners, errors)
            base.report(min(start + BATCH, len(questions)), len(questions))
        return [results[place] for place in range(len(questions))]

    def _errors(self, examples: Sequence[Example]) -> list[Tensor]:
        """The mean absolute error of each frame while it is masked: (frames,) each."""
        size = round(SPAN * self.mel.rate / self.mel.hop)
        spans = [torch.arange(len(utterance.frames)) // size % 2 for utterance in examples]
        errors = [torch.zeros(len(utterance.frames)) for utterance in examples]
        for turn in (0, 1) if examples else ():
            hidden = [span == turn for span in spans]
            made = self.reconstructed(examples, hidden)
            for utterance, mask, own, frames in zip(examples, hidden, errors, made, strict=True):
                own[mask] = (frames - utterance.frames).abs().mean(1)[mask]
        return errors


def _by_letter(letters: str, owners: Tensor, errors: Tensor) -> TokenScores:
    """Minus the errors of each letter's frames, and of silence, as shares of the mean over all frames."""
    sums = torch.zeros(len(letters) + 1, dtype=torch.float64).index_add(0, owners, errors.double()) / len(errors)
    return TokenScores([*letters, "<silence>"], -torch.roll(sums, -1).numpy())
