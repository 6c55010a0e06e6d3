"""A closer look at a run: an analysis, single utterances with their tokens, the metric against each weight."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import IO, Any

import numpy as np

from rescore import decision
from rescore.errors import UserError
from rescore.lms import LanguageModel, TokenScores
from rescore.lms.context import ask, in_place
from rescore.metrics import Metric
from rescore.metrics.alignment import align, edits_between
from rescore.metrics.normalise import Normaliser
from rescore.metrics.significance import SPEAKER, by_group, speakers
from rescore.nbest import FIRST_PASS, NbestList, tie_order
from rescore.reports.analysis import Analysis, analyse
from rescore.reports.words import heard
from rescore.tuning.curves import Step, curves
from rescore.tuning.weights import Weights


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
    utterances: list[dict[str, Any]]
    """As the page reads them: plain values for JSON."""
    columns: list[str]
    """The names of the scores of each hypothesis."""
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
        dev: the lists that weights were tuned on. certain: the words of `texts`, each with its text and confidence.

    Raises:
        UserError: the lists have no references.
    """
    if not any(nbest.references for nbest in lists):
        raise UserError("an HTML report needs references; give --ref FILE")
    first = decision.best(lists, {FIRST_PASS: 1.0})
    before = [nbest.hypotheses[index].text for nbest, index in zip(lists, first, strict=True)]
    outputs = list(zip(before, texts, strict=True))
    normaliser, words = metric.words or Normaliser(), certain or [()] * len(lists)
    columns = list(lists[0].hypotheses[0].scores)
    each = zip(lists, outputs, _token_scores(lists, outputs, lm), words, strict=True)
    utterances = [_utterance(*entry, columns, normaliser) for entry in each]
    return Details(
        analyse(metric, lists, weights, texts, dev),
        utterances,
        columns,
        weight_curve(metric, dev, weights) if dev else [],
        by_speaker(utterances),
    )


def _token_scores(
    lists: Sequence[NbestList], outputs: Sequence[tuple[str, str]], lm: LanguageModel
) -> Iterator[list[TokenScores]]:
    """The scores of the texts of each list."""
    placed = zip(in_place([lm], lists), outputs, strict=True)
    questions_of = [ask(lm, nbest, texts) for nbest, texts in placed]
    questions = list(dict.fromkeys(question for questions in questions_of for question in questions))
    scores = dict(zip(questions, lm.score(questions), strict=True))
    return ([scores[question] for question in questions] for questions in questions_of)


def _utterance(
    nbest: NbestList,
    texts: tuple[str, str],
    scores: Sequence[TokenScores],
    certain: Sequence[Any],
    columns: Sequence[str],
    normaliser: Normaliser,
) -> dict[str, Any]:
    """One utterance, its first-pass and reranked text, and all hypotheses in the order of the file."""
    # Both texts stand below each other, beside one reference: the closest to the reranked text.
    reference = normaliser.closest(nbest.references, texts[-1])
    words = normaliser(reference)
    errors = [_errors(align(*normaliser.pair(nbest.references, hypothesis.text))) for hypothesis in nbest.hypotheses]
    best = min(tie_order(nbest), key=errors.__getitem__)
    return {
        "id": nbest.id,
        "text": " ".join([nbest.id, reference, *texts]).lower(),
        "reference": reference,
        "words": len(words),
        "changed": texts[0] != texts[1],
        "outputs": [_output(nbest, *each, words, normaliser) for each in zip(texts, scores, strict=True)],
        "certain": [[word.text, round(word.confidence, 3)] for word in certain],
        "list": [
            [each.text, number, rank == best, [_finite(each.scores.get(name), 3) for name in columns]]
            for rank, (each, number) in enumerate(zip(nbest.hypotheses, errors, strict=True))
        ],
    }


def _output(
    nbest: NbestList, text: str, scores: TokenScores, reference: Sequence[str], normaliser: Normaliser
) -> dict[str, Any]:
    """A text beside the reference; the places of respelled words among its words, and the words heard there."""
    words, source = normaliser(text), heard(nbest, text)
    pairs = align(reference, words)
    edits = edits_between(words, normaliser(source)) if source else ()
    tokens = zip(scores.tokens, map(float, scores.log_probs), strict=True)
    return {
        "pairs": pairs,
        "errors": _errors(pairs),
        "respelled": [[edit.start, edit.end, " ".join(edit.words)] for edit in edits],
        "tokens": [[token, _finite(value, 2)] for token, value in tokens],
    }


def _errors(pairs: Iterable[tuple[str | None, str | None]]) -> int:
    return sum(expected != word for expected, word in pairs)


def _finite(value: float | None, digits: int) -> float | None:
    """For JSON, which knows no infinity."""
    return None if value is None or not math.isfinite(value) else round(value, digits)


def by_speaker(utterances: Sequence[dict[str, Any]]) -> list[SpeakerErrors]:
    """Errors of first pass and reranked output by speaker, where ids show who that is and some speak more than once."""
    try:
        names = speakers([utterance["id"] for utterance in utterances], SPEAKER)
    except UserError:
        return []
    if not 1 < len(set(names)) < len(names):
        return []
    rows = [np.array([1, each["words"], *(output["errors"] for output in each["outputs"])]) for each in utterances]
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
