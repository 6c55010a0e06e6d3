"""A closer look at a run: an analysis, single utterances with their tokens, the metric against each weight."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import IO, Any

import numpy as np

from rescore import decision
from rescore.errors import UserError
from rescore.lms import LanguageModel
from rescore.lms.context import ask, in_place
from rescore.metrics import Metric
from rescore.metrics.alignment import AlignedPair, Edit, align, edits_between
from rescore.metrics.normalise import Normaliser
from rescore.metrics.significance import SPEAKER, by_group, speakers
from rescore.nbest import FIRST_PASS, NbestList, tie_order
from rescore.reports.analysis import Analysis, analyse
from rescore.reports.words import heard
from rescore.tuning.tune import Step, curves
from rescore.tuning.weights import Weights


@dataclass(frozen=True, slots=True)
class Output:
    """One text for an utterance."""

    text: str
    pairs: list[AlignedPair]
    """Words of reference and text, aligned; None stands for a missing partner."""
    errors: int
    """Pairs that differ."""
    tokens: list[tuple[str, float]]
    """The model's tokens and their natural-log probabilities."""
    respelled: Sequence[Edit] = ()
    """Places of respelled words among the text's words in `pairs`, with the words heard there."""


@dataclass(frozen=True, slots=True)
class RankedHypothesis:
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
    """The closest to the reranked text, as it was given."""
    words: int
    """In the normalised reference."""
    outputs: list[Output]
    """First pass, reranked."""
    candidates: list[RankedHypothesis]
    """All hypotheses, in the order of the file."""
    certain: Sequence[Any] = ()
    """The words of the reranked text with the probability that each is right, where this is known."""


def describe_utterances(
    lists: Sequence[NbestList],
    outputs: Sequence[Sequence[str]],
    lm: LanguageModel,
    normaliser: Normaliser | None = None,
) -> list[Utterance]:
    """
    Args:
        outputs: texts of each system, one per list. lm: scores tokens. normaliser: cuts texts into words.
    """
    normaliser = normaliser or Normaliser()
    chosen_texts = list(zip(*outputs, strict=True))
    questions_of = [ask(lm, placed, texts) for placed, texts in zip(in_place([lm], lists), chosen_texts, strict=True)]
    questions = list(dict.fromkeys(question for list_questions in questions_of for question in list_questions))
    tokens = dict(zip(questions, lm.score(questions), strict=True))
    utterances = []
    for nbest, chosen, about in zip(lists, chosen_texts, questions_of, strict=True):
        # All outputs stand below each other, beside one reference: the closest to the last output.
        closest = normaliser.closest(nbest.references, chosen[-1])
        reference = normaliser(closest)
        sides = []
        for text, question in zip(chosen, about, strict=True):
            pairs = align(reference, normaliser(text))
            scores = tokens[question]
            shaded = list(zip(scores.tokens, map(float, scores.log_probs), strict=True))
            errors = sum(expected != word for expected, word in pairs)
            sides.append(Output(text, pairs, errors, shaded, _respelled(nbest, text, pairs, normaliser)))
        utterances.append(Utterance(nbest.id, closest, len(reference), sides, _candidates(nbest, normaliser)))
    return utterances


def _respelled(nbest: NbestList, text: str, pairs: Sequence[AlignedPair], normaliser: Normaliser) -> Sequence[Edit]:
    source = heard(nbest, text)
    return edits_between([word for _, word in pairs if word is not None], normaliser(source)) if source else ()


def _candidates(nbest: NbestList, normaliser: Normaliser) -> list[RankedHypothesis]:
    errors = [
        sum(expected != word for expected, word in align(*normaliser.pair(nbest.references, hypothesis.text)))
        for hypothesis in nbest.hypotheses
    ]
    best = min(tie_order(nbest), key=errors.__getitem__)
    return [
        RankedHypothesis(hypothesis.text, number, hypothesis.scores, rank == best)
        for rank, (hypothesis, number) in enumerate(zip(nbest.hypotheses, errors, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class SpeakerErrors:
    """Of one speaker (or document), whose utterances begin alike."""

    name: str
    utterances: int
    words: int
    """In the normalised references."""
    first_pass: float
    """Errors in a hundred words."""
    reranked: float


@dataclass(frozen=True, slots=True)
class Details:
    """The contents of an HTML report beside the results."""

    analysis: Analysis
    utterances: list[Utterance]
    curve: list[Step]
    """The metric on the tuning lists against the weight of each language model."""
    by_speaker: list[SpeakerErrors]
    """Speakers with the most errors first; empty if ids do not show speakers."""


def details(
    metric: Metric,
    lists: Sequence[NbestList],
    texts: Sequence[str],
    weights: Weights,
    lm: LanguageModel,
    dev: Sequence[NbestList] | None = None,
    certain: Sequence[Sequence[Any]] | None = None,
) -> Details:
    """Look closer at a run on lists with references.

    Args:
        texts: the choices, one per list. lm: gives the log-probabilities of single tokens.
        dev: the lists that weights were tuned on. certain: the words of `texts`, each with its text, confidence and
            alternatives.

    Raises:
        UserError: the lists have no references.
    """
    if not any(nbest.references for nbest in lists):
        raise UserError("an HTML report needs references; give --ref FILE")
    first = decision.best(lists, {FIRST_PASS: 1.0})
    before = [nbest.hypotheses[index].text for nbest, index in zip(lists, first, strict=True)]
    utterances = describe_utterances(lists, (before, texts), lm, metric.words)
    if certain is not None:
        utterances = [replace(utterance, certain=words) for utterance, words in zip(utterances, certain, strict=True)]
    return Details(
        analyse(metric, lists, weights, texts, dev),
        utterances,
        weight_curve(metric, dev, weights) if dev else [],
        by_speaker(utterances),
    )


def by_speaker(utterances: Sequence[Utterance]) -> list[SpeakerErrors]:
    """Errors of first pass and reranked output by speaker, where ids show who that is and some speak more than once."""
    try:
        names = speakers([utterance.id for utterance in utterances], SPEAKER)
    except UserError:
        return []
    if not 1 < len(set(names)) < len(names):
        return []
    rows = [np.array([1, each.words, *(output.errors for output in each.outputs)]) for each in utterances]
    sums = zip(dict.fromkeys(names), by_group(rows, names).tolist(), strict=True)
    return [
        SpeakerErrors(name, count, words, *(100 * errors / max(words, 1) for errors in (before, after)))
        for name, (count, words, before, after) in sorted(sums, key=lambda item: -item[1][3])
    ]


def weight_curve(metric: Metric, lists: Sequence[NbestList], weights: Weights) -> list[Step]:
    """The metric's value on lists against the weight of each language model."""
    bounded = [name for name in weights.language_models if 0 <= weights.weights[name] <= 1]
    return curves(metric, lists, bounded, weights.weights, weights.excluded)


def write_curve(steps: Iterable[Step], metric: str, file: IO[str]) -> None:
    """One line a step: the column whose weight changes, from where to where, and the metric's value there (percent)."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["column", "low", "high", metric])
    rows.writerows(astuple(step) for step in steps)
