"""How often the most probable token of a network is the token of a text.

The accuracy of language modelling (Shin's dissertation, Tables 4.1 and 5.5): a T-TA
predicts each token from all others, a biLM each masked token, a uniLM each next token.
An intact biLM (`bilm:intact`) predicts tokens that it sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.errors import UserError, counted
from rescore.lms import LanguageModel, Question, record_of
from rescore.lms.fast import Batch
from rescore.lms.scorers import NetworkScorer, ScoredNetwork
from rescore.nbest import NbestList, in_parts
from rescore.reports.perplexity import questions
from rescore.signature import Signature

CHUNK = 200
"""Sentences that are predicted together."""
Flags = npt.NDArray[np.bool_]


class PredictingNetwork(ScoredNetwork, Protocol):
    """A network that names its most probable tokens."""

    def best(self, batch: Batch) -> Tensor:
        """Return the most probable token (k,) at each of the positions `batch.at`."""
        ...


@dataclass(frozen=True, slots=True)
class Predictions:
    """How many tokens of a text a model predicts."""

    lm: str
    fingerprint: str
    """The model's content hash."""
    tokens: int
    """Tokens of the text that are predicted."""
    right: int
    """Tokens of the text that are the most probable ones."""
    accuracy: float
    """Share of right tokens among the tokens of the text, from 0 to 1."""
    ends: int
    """Ends of sentences that are predicted; 0 for a model that predicts no ends."""
    right_ends: int
    accuracy_with_ends: float
    """Share of right predictions among tokens and ends of sentences together."""
    signature: str


@dataclass(frozen=True, slots=True)
class AccuracyReport:
    """The accuracy of several models on a text."""

    source: str
    """Path of the text."""
    sentences: int
    models: list[Predictions]

    def cells(self) -> list[list[str]]:
        """Return a row for each model."""
        head = ["", "tokens", "right", "accuracy", "ends", "right", "with ends"]
        rows = [head]
        for model in self.models:
            row = [model.lm, f"{model.tokens:,}", f"{model.right:,}"]
            row.append(f"{model.accuracy:.3f}")
            if model.ends:
                row += [f"{model.ends:,}", f"{model.right_ends:,}"]
                row.append(f"{model.accuracy_with_ends:.3f}")
            else:
                row += ["", "", ""]
            rows.append(row)
        return rows

    def notes(self) -> list[str]:
        """Return the text and the signatures."""
        about = (
            f"{self.source}: {counted(self.sentences, 'sentence')}; accuracy: share of"
            " tokens that are the most probable ones; with ends: with the ends of"
            " sentences, which causal models predict"
        )
        return [about, *(model.signature for model in self.models)]


def measure(
    lms: Sequence[LanguageModel],
    lines: Sequence[NbestList],
    source: str,
    progress: Callable[[int], object] = lambda number: None,
) -> AccuracyReport:
    """Return the accuracy of models on a text.

    Args:
        lms: Networks.
        lines: The text, as `rescore.reports.perplexity.documents` makes it.
        source: Path of the text.
        progress: Called with the number of sentences that were predicted since the
            last call.

    Raises:
        UserError: A model is not a network, or is wrapped in a cache or another case.
    """
    scorers = [predicting(lm) for lm in lms]
    models = [_measure_model(lm, lines, progress) for lm in scorers]
    return AccuracyReport(source, len(lines), models)


def _measure_model(
    lm: NetworkScorer, lines: Sequence[NbestList], progress: Callable[[int], object]
) -> Predictions:
    right = ends = right_ends = total = 0
    for part in in_parts(questions(lm, lines), CHUNK):
        for is_right, is_end in right_tokens(lm, part):
            total += len(is_right)
            right += int(is_right.sum())
            ends += int(is_end.sum())
            right_ends += int((is_right & is_end).sum())
        progress(len(part))
    tokens = total - ends
    return Predictions(
        lm=lm.name,
        fingerprint=lm.fingerprint,
        tokens=tokens,
        right=right - right_ends,
        accuracy=(right - right_ends) / max(1, tokens),
        ends=ends,
        right_ends=right_ends,
        accuracy_with_ends=right / max(1, total),
        signature=str(Signature("accuracy", columns={lm.name: record_of(lm, "none")})),
    )


@torch.inference_mode()
def right_tokens(
    lm: NetworkScorer, questions: Sequence[Question]
) -> list[tuple[Flags, Flags]]:
    """Return which tokens of sentences a network predicts.

    The predictions are those that the scores come from: at the token in a T-TA, at its
    mask in a masked model, at the token before it in a causal model.

    Args:
        lm: The network, as `predicting` returns it.
        questions: The sentences, each with the context that the network reads.

    Returns:
        Two arrays of shape (scored tokens,) for each sentence, in the order in which
        the network reads: whether the token is the most probable one, and whether it is
        the end of the sentence.
    """
    network = cast(PredictingNetwork, lm.network)
    sentences = lm.encoded(questions)
    if len(sentences) != len(questions):
        raise UserError(
            f"{lm.name}: reads each sentence in several orders; accuracy needs one"
        )
    right = [np.zeros(len(sentence.ids), dtype=np.bool_) for sentence in sentences]
    for batch, rows, targets, spans in lm.requests(sentences):
        own_targets = targets % network.vocabulary
        hits = (network.best(batch).cpu()[rows] == own_targets).numpy()
        for index, first, which in spans:
            values = hits[which]
            right[index][first : first + len(values)] = values
    ends = [token % network.vocabulary for token in network.end]
    results = []
    for sentence, flags in zip(sentences, right, strict=True):
        own = lm.scored(sentence)
        ids = np.array(sentence.ids[own], dtype=np.int64) % network.vocabulary
        results.append((flags[own], np.isin(ids, ends)))
    return results


def predicting(lm: LanguageModel) -> NetworkScorer:
    """Return the model, checked to be a network that names its most probable tokens.

    Raises:
        UserError: It is not.
    """
    if isinstance(lm, NetworkScorer) and hasattr(lm.network, "best"):
        return lm
    raise UserError(
        f"{lm.name}: predicts no single tokens; give a network (tta, bilm, unilm,"
        " unilm-bw, hf-masked, hf-causal), and leave out --cache, a case and --engine"
        " ray"
    )
