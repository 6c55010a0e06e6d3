"""Models of unbabel-comet in local folders: COMET (Rei et al. 2020) as a metric, and
quality estimation.

COMET is also a utility of minimum Bayes risk. Every text is embedded once. A small
network compares the embeddings of hypothesis and reference, so all pairs of a list cost
little more than its texts.

Reference-free models (COMET-QE, CometKiwi, UniTE) estimate the quality of a
translation, usually between 0 and 1. Their score is not a log-probability.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rescore.errors import UserError, installed_by
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

SETTINGS = "hparams.yaml"
"""File in the folder of a model: the names of its class and its encoder."""
CHECKPOINT = "checkpoints/model.ckpt"
"""File in the folder of a model: its weights."""
UNIT = 1e-6
"""Scores are summed as whole multiples of this unit, so that sums do not depend on
their order.
"""
TOGETHER = 32
"""Texts that are embedded at once, or pairs of a source and a translation that are
estimated at once.
"""
PAIRS = 4096
"""Pairs that are compared at once."""
KEPT = 1 << 15
"""Number of texts whose embeddings are kept: 128 MiB of 1,024 numbers each."""
ESTIMATE = "[estimate]"
"""The only token of the scores of a translation whose quality is estimated."""


class Comet(Metric):
    """The score of a model that compares a hypothesis with its source and a reference
    (of class `regression_metric`).

    Values are the mean score times 100. With several references, the score of a
    hypothesis is the mean over them.
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
        self._embedded: dict[str, Tensor] = {}

    @cached_property
    def settings(self) -> dict[str, str]:
        return {"comet": sha256(self._folder / CHECKPOINT).hex()[:8]}

    @property
    def versions(self) -> dict[str, str]:
        return {"unbabel-comet": version("unbabel-comet")}

    def statistics(
        self, hypotheses: Sequence[Input], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Return the scores of hypotheses, as numbers that add up.

        Args:
            hypotheses: The hypotheses with their sources.
            references: One or more references for each hypothesis.

        Returns:
            Counts of shape (hypotheses, 2): the score in units of 1e-6, and 1.
        """
        triples = []
        for (source, text), several in zip(hypotheses, references, strict=True):
            for reference in several:
                triples.append((source, text, reference))
        scores = self._scores(triples)
        rows = np.zeros((len(hypotheses), 2), dtype=np.int64)
        start = 0
        for row, several in zip(rows, references, strict=True):
            mean = scores[start : start + len(several)].mean()
            row[:] = [round(mean / UNIT), 1]
            start += len(several)
        return rows

    def values(self, sums: Counts) -> Values:
        return np.asarray(100.0 * UNIT * sums[:, 0] / sums[:, 1])

    def pair_losses(self, texts: Sequence[Input]) -> PairLosses:
        """Return a function that computes the losses between texts of a list.

        Args:
            texts: The texts of the list with their source.
        """

        def compare(choices: Places, references: Places) -> Values:
            triples = []
            for choice in choices:
                source, text = texts[choice]
                for reference in references:
                    triples.append((source, text, texts[reference].text))
            scores = self._scores(triples)
            return 100.0 - 100.0 * scores.reshape(len(choices), -1)

        return compare

    def _scores(self, triples: Sequence[tuple[str, str, str]]) -> Values:
        """Return scores of shape (triples,).

        Args:
            triples: Source, hypothesis and reference.
        """
        import torch

        scores = [np.zeros(0)]
        with torch.inference_mode():
            for start in range(0, len(triples), PAIRS):
                batch = triples[start : start + PAIRS]
                self._embed(list(chain(*batch)))
                sides = []
                for texts in zip(*batch, strict=True):
                    sides.append(torch.stack([self._embedded[text] for text in texts]))
                estimates = self._model.estimate(*sides).score
                scores.append(estimates.double().cpu().numpy())
        return np.concatenate(scores)

    def _embed(self, texts: Sequence[str]) -> None:
        """Embed the texts that are not embedded yet, those of one length together."""
        if len(self._embedded) > KEPT:
            self._embedded.clear()
        new = dict.fromkeys(text for text in texts if text not in self._embedded)
        ordered = sorted(new, key=len)
        for start in range(0, len(ordered), TOGETHER):
            batch = ordered[start : start + TOGETHER]
            inputs = self._model.encoder.prepare_sample(batch).to(self._model.device)
            embedded = self._model.get_sentence_embedding(
                inputs["input_ids"], inputs["attention_mask"]
            )
            self._embedded.update(zip(batch, embedded.clone(), strict=True))


def load_checkpoint(folder: Path) -> Any:
    """Return a model of unbabel-comet, of any class, on the CPU.

    Args:
        folder: A folder with `SETTINGS` and `CHECKPOINT`.

    Raises:
        UserError: The folder has no such files, they cannot be loaded, or unbabel-comet
            is not installed.
    """
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
            f"COMET needs unbabel-comet ({error}); install it with:"
            f" {installed_by('comet')}"
        ) from None
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    try:
        return comet.load_from_checkpoint(
            str(folder / CHECKPOINT), local_files_only=True
        )
    except Exception as error:
        # The library raises many kinds of errors for a folder that it cannot read.
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{folder}: unbabel-comet cannot load it ({reason})") from None


@lru_cache(maxsize=1)  # several plans of a program have metrics of their own
def _load(folder: Path) -> Any:
    """Return the model of a metric, on the GPU if there is one."""
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
        """Return the model of `qe:DIR`.

        Args:
            spec: DIR is a folder with hparams.yaml and checkpoints/model.ckpt.
            computing: The device; the precision is float32.
        """
        return QualityEstimator(spec.name, spec.path, computing)


class QualityEstimator(Streamed):
    """The estimated quality of each text as a translation of its source."""

    capabilities = QualityKind.capabilities
    precision = "float32"

    def __init__(self, name: str, folder: Path, computing: ComputeOptions) -> None:
        """Load the model.

        Args:
            name: The name of the column.
            folder: A folder with hparams.yaml and checkpoints/model.ckpt.
            computing: The device; the precision is float32.

        Raises:
            UserError: The model cannot be loaded, or needs references.
        """
        from rescore.lms.devices import choose_device

        self.name = name
        self.model = name
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
        """Yield the places of questions with their estimates.

        Equal questions are estimated once.

        Args:
            questions: Questions with a source.
        """
        places = places_of(question.pair(channel=False) for question in questions)
        ordered = sorted(places, key=lambda pair: sum(map(len, pair)))
        for start in range(0, len(ordered), TOGETHER):
            batch = ordered[start : start + TOGETHER]
            for pair, estimate in zip(batch, self._estimates(batch), strict=True):
                for place in places[pair]:
                    yield place, TokenScores([ESTIMATE], np.array([estimate]))

    def _estimates(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the estimated quality of pairs of a source and a translation."""
        import torch

        model = self._network
        samples = [{"src": source, "mt": text} for source, text in pairs]
        with torch.inference_mode():
            inputs = model.prepare_sample(samples, stage="predict")
            inputs = model.transfer_batch_to_device(inputs, model.device, 0)
            estimates = model.predict_step(inputs).scores
            return list(estimates.double().cpu().tolist())
