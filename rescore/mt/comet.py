"""Models of unbabel-comet in local folders: COMET (Rei et al. 2020) as a metric, and
quality estimation.

COMET is also a utility of minimum Bayes risk. Every text is embedded once. A small
network compares the embeddings of hypothesis and reference, so all pairs of a list cost
little more than its texts.

Reference-free models (COMET-QE, CometKiwi, UniTE) estimate the quality of a
translation, usually between 0 and 1. The score is not a log-probability.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rescore.errors import UserError
from rescore.files import sha256
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Kind,
    Question,
    Spec,
    Streamed,
    TokenScores,
    places_of,
)
from rescore.metrics.base import Counts, Input, Metric, PairLosses, Places, Values
from rescore.options import Declared, option

if TYPE_CHECKING:
    from torch import Tensor

SETTINGS, CHECKPOINT = "hparams.yaml", "checkpoints/model.ckpt"
"""Files in the folder of a model: the names of its class and its encoder, and its
weights.
"""
UNIT = 1e-6
"""Scores are summed as whole numbers of this, so that sums do not depend on their
order.
"""
TOGETHER = 32
"""Texts that are embedded at once, or pairs of a source and a translation that are
estimated at once.
"""
PAIRS = 4096
"""Pairs that are compared at once."""
KEPT = 1 << 15
"""Texts whose embeddings are kept: 128 MiB of 1,024 numbers each."""
ESTIMATE = "[estimate]"
"""The only token of the scores of a translation whose quality is estimated."""


class Comet(Metric):
    """A model that compares a hypothesis with its source and a reference (of class
    `regression_metric`).

    Values are the mean of its scores times 100; of several references, of the mean over
    them.
    """

    name = "COMET"
    unit = "point"
    reads = "source"
    learned = True

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        model: str | None = option(
            None,
            "Folder of the COMET model, with hparams.yaml and checkpoints/model.ckpt.",
            "--comet-model",
            metavar="DIR",
        )

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        if self.options.model is None:
            raise UserError("--metric comet: no model; give --comet-model DIR")
        self._folder = Path(self.options.model)
        self._model = _load(self._folder)
        self._known: dict[str, Tensor] = {}

    @cached_property
    def settings(self) -> dict[str, str]:
        return {"comet": sha256(self._folder / CHECKPOINT).hex()[:8]}

    @property
    def versions(self) -> dict[str, str]:
        return {"unbabel-comet": version("unbabel-comet")}

    def statistics(
        self, hypotheses: Sequence[Input], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Columns: the score in units of 1e-6, and 1."""
        if not hypotheses:
            return np.zeros((0, 2), dtype=np.int64)
        triples = [
            (source, text, reference)
            for (source, text), several in zip(hypotheses, references, strict=True)
            for reference in several
        ]
        ends = np.cumsum([len(several) for several in references])
        scores = self._scores(triples)
        means = [part.mean() for part in np.split(scores, ends[:-1])]
        return np.array(
            [[round(mean / UNIT), 1] for mean in means], dtype=np.int64
        ).reshape(-1, 2)

    def values(self, sums: Counts) -> Values:
        return np.asarray(100.0 * UNIT * sums[:, 0] / sums[:, 1])

    def pair_losses(self, texts: Sequence[Input]) -> PairLosses:
        def compare(choices: Places, references: Places) -> Values:
            pairs = (
                (texts[choice], texts[reference].text)
                for choice in choices
                for reference in references
            )
            scores = self._scores(
                [(source, text, reference) for (source, text), reference in pairs]
            )
            return 100.0 - 100.0 * scores.reshape(len(choices), -1)

        return compare

    def _scores(self, triples: Sequence[tuple[str, str, str]]) -> Values:
        """(n,) of source, hypothesis, reference."""
        import torch

        scores = []
        with torch.inference_mode():
            for start in range(0, len(triples), PAIRS):
                batch = triples[start : start + PAIRS]
                self._embed([text for triple in batch for text in triple])
                sides = (
                    torch.stack([self._known[triple[side]] for triple in batch])
                    for side in range(3)
                )
                scores.append(self._model.estimate(*sides).score.double().cpu().numpy())
        return np.concatenate(scores) if scores else np.zeros(0)

    def _embed(self, texts: Sequence[str]) -> None:
        if len(self._known) > KEPT:
            self._known.clear()
        new = sorted(
            dict.fromkeys(text for text in texts if text not in self._known), key=len
        )
        for start in range(0, len(new), TOGETHER):
            batch = new[start : start + TOGETHER]
            inputs = self._model.encoder.prepare_sample(batch).to(self._model.device)
            embedded = self._model.get_sentence_embedding(
                inputs["input_ids"], inputs["attention_mask"]
            )
            self._known.update(zip(batch, embedded.clone(), strict=True))


def load_checkpoint(folder: Path) -> Any:
    """A model of unbabel-comet, of any class, on the CPU."""
    for path in (folder / SETTINGS, folder / CHECKPOINT):
        if not path.is_file():
            raise UserError(
                f"{path}: no such file; expected a COMET model, {SETTINGS} and"
                f" {CHECKPOINT}"
            )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its dependencies, about each other
            import comet
    except ImportError as error:
        raise UserError(
            f"COMET needs unbabel-comet ({error}); install it with: pip install"
            " 'rescore[comet]'"
        ) from None
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    try:
        return comet.load_from_checkpoint(
            str(folder / CHECKPOINT), local_files_only=True
        )
    except Exception as error:
        # The library raises many kinds of errors for a folder that it cannot read.
        raise UserError(
            f"{folder}: unbabel-comet cannot load it"
            f" ({' '.join(str(error).split())[:200]})"
        ) from None


@lru_cache(maxsize=1)  # several plans of a program have metrics of their own
def _load(folder: Path) -> Any:
    import torch

    model = load_checkpoint(folder)
    from comet.models import RegressionMetric

    if type(model) is not RegressionMetric:
        raise UserError(
            f"{folder}: is a {type(model).__name__}; give a model that reads source and"
            " reference"
        )
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


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

        self.name = self.model = name
        self._folder = folder
        if computing.precision not in (None, self.precision):
            raise UserError(
                f"--precision {computing.precision} is not for {name}; give float32"
            )
        device = choose_device(computing.device)
        self._network: Any = load_checkpoint(folder)
        if self._network.requires_references():
            kind = type(self._network).__name__
            raise UserError(
                f"{folder}: is a {kind}, which needs references; give it as --metric"
                " comet --comet-model"
            )
        self._network.eval().to(device)

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the weights and settings; the settings name the tokenizer."""
        digest = hashlib.sha256(b"quality estimation")
        for path in (self._folder / SETTINGS, self._folder / CHECKPOINT):
            digest.update(sha256(path))
        return digest.hexdigest()

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with a source and their estimates; equal questions are
        estimated once.
        """
        places = places_of(question.pair(channel=False) for question in questions)
        distinct = sorted(places, key=lambda pair: sum(map(len, pair)))
        for start in range(0, len(distinct), TOGETHER):
            batch = distinct[start : start + TOGETHER]
            for pair, estimate in zip(batch, self._estimates(batch), strict=True):
                yield from (
                    (place, TokenScores([ESTIMATE], np.array([estimate])))
                    for place in places[pair]
                )

    def _estimates(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import torch

        samples = [{"src": source, "mt": text} for source, text in pairs]
        with torch.inference_mode():
            inputs = self._network.prepare_sample(samples, stage="predict")
            inputs = self._network.transfer_batch_to_device(
                inputs, self._network.device, 0
            )
            return list(
                self._network.predict_step(inputs).scores.double().cpu().tolist()
            )
