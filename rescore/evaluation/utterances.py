"""Single utterances: what was chosen before and after, aligned with the reference, and how likely each token is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rescore.metrics.alignment import Pair, align
from rescore.metrics.normalise import Normaliser
from rescore.nbest import NbestList
from rescore.scoring import LanguageModel
from rescore.scoring.context import question


@dataclass(frozen=True, slots=True)
class Output:
    """One text for an utterance."""

    text: str
    pairs: list[Pair]
    """Words of reference and text, aligned; None where a word has no partner."""
    errors: int
    """Pairs that differ."""
    tokens: list[tuple[str, float]]
    """The model's tokens and their natural-log probabilities."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One hypothesis of the list."""

    text: str
    errors: int
    """Of an alignment with the reference, as `Output.errors`."""
    scores: dict[str, float]
    oracle: bool
    """Whether no other of the list has fewer errors (the first of equals)."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance and its texts."""

    id: str
    reference: str
    """The first, as it was given."""
    words: int
    """In the normalised reference."""
    outputs: list[Output]
    """First pass, reranked."""
    candidates: list[Candidate]
    """All hypotheses, in the order of the file."""


def describe_utterances(
    lists: Sequence[NbestList],
    outputs: Sequence[Sequence[str]],
    lm: LanguageModel,
    normaliser: Normaliser | None = None,
) -> list[Utterance]:
    """
    Args:
        outputs: texts of each system, one a list. lm: scores tokens. normaliser: cuts texts into words.
    """
    normaliser = normaliser or Normaliser()
    texts = list(dict.fromkeys(question(lm, *one) for output in outputs for one in zip(lists, output, strict=True)))
    tokens = dict(zip(texts, lm.score(texts), strict=True))
    found = []
    for nbest, *chosen in zip(lists, *outputs, strict=True):
        reference = normaliser(nbest.references[0])
        sides = []
        for text in chosen:
            pairs = align(reference, normaliser(text))
            scores = tokens[question(lm, nbest, text)]
            shaded = list(zip(scores.tokens, map(float, scores.log_probs), strict=True))
            sides.append(Output(text, pairs, sum(ours != theirs for ours, theirs in pairs), shaded))
        found.append(Utterance(nbest.id, nbest.references[0], len(reference), sides, _candidates(nbest, normaliser)))
    return found


def _candidates(nbest: NbestList, normaliser: Normaliser) -> list[Candidate]:
    reference = normaliser(nbest.references[0])
    errors = [
        sum(ours != theirs for ours, theirs in align(reference, normaliser(hypothesis.text)))
        for hypothesis in nbest.hypotheses
    ]
    best = errors.index(min(errors))
    return [
        Candidate(hypothesis.text, number, hypothesis.scores, rank == best)
        for rank, (hypothesis, number) in enumerate(zip(nbest.hypotheses, errors, strict=True))
    ]
