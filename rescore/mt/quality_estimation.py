"""Quality estimation of translations: reference-free models of unbabel-comet (COMET-QE, CometKiwi, UniTE).

The score is the model's estimate of a translation's quality, usually between 0 and 1. It is not a log-probability.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rescore.errors import UserError
from rescore.lms.base import Capabilities, ComputeOptions, Kind, Question, Spec, Streamed, TokenScores

if TYPE_CHECKING:
    from pathlib import Path

TOGETHER = 32
"""Pairs of a source and a translation in a batch."""
ESTIMATE = "[estimate]"
"""The only token of a translation's scores."""


class QualityKind(Kind):
    """The estimate of a reference-free model of COMET."""

    capabilities = Capabilities(source=True)

    def load(self, spec: Spec, computing: ComputeOptions) -> QualityEstimator:
        """`qe:DIR`, a folder with hparams.yaml and checkpoints/model.ckpt."""
        return QualityEstimator(spec.name, spec.path, computing)


class QualityEstimator(Streamed):
    """The estimated quality of each text as a translation of its source."""

    capabilities = QualityKind.capabilities
    precision = "float32"

    def __init__(self, name: str, folder: Path, computing: ComputeOptions) -> None:
        from rescore.lms.devices import choose_device
        from rescore.mt import comet

        self.name = self.model = name
        self._folder = folder
        if computing.precision not in (None, self.precision):
            raise UserError(f"--precision {computing.precision} is not for {name}; give float32")
        device = choose_device(computing.device)
        self._network: Any = comet.load_checkpoint(folder)
        if self._network.requires_references():
            kind = type(self._network).__name__
            raise UserError(f"{folder}: is a {kind}, which needs references; give it as --metric comet --comet-model")
        self._network.eval().to(device)

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the weights and settings; the settings name the tokenizer."""
        from rescore.mt import comet

        digest = hashlib.sha256(b"quality estimation")
        for path in (comet.settings_of(self._folder), comet.checkpoint_of(self._folder)):
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with a source and their estimates; equal questions are estimated once."""
        places: dict[tuple[str, str], list[int]] = {}
        for place, question in enumerate(questions):
            places.setdefault(question.pair(channel=False), []).append(place)
        distinct = sorted(places, key=lambda pair: sum(map(len, pair)))
        for start in range(0, len(distinct), TOGETHER):
            batch = distinct[start : start + TOGETHER]
            for pair, estimate in zip(batch, self._estimates(batch), strict=True):
                yield from ((place, TokenScores([ESTIMATE], np.array([estimate]))) for place in places[pair])

    def _estimates(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import torch

        samples = [{"src": source, "mt": text} for source, text in pairs]
        with torch.inference_mode():
            inputs = self._network.prepare_sample(samples, stage="predict")
            inputs = self._network.transfer_batch_to_device(inputs, self._network.device, 0)
            return list(self._network.predict_step(inputs).scores.double().cpu().tolist())
