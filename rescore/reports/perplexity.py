"""Perplexity of plain text: of a corpus, and the mean and the median over its sentences
(the paper's table 7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from rescore.errors import UserError, counted
from rescore.lms import (
    LanguageModel,
    Question,
    TokenScores,
    capabilities_of,
    is_pseudo,
    origin,
)
from rescore.lms.context import ask, in_place
from rescore.nbest import Hypothesis, NbestList, in_parts
from rescore.signature import Signature
from rescore.styles import text

CHUNK = 1000
"""Sentences that are scored together."""


@dataclass(frozen=True, slots=True)
class Perplexity:
    """exp(-log p / units) of the whole text, and the mean and the median of its
    sentences' own; lower is better. A pseudo-perplexity where scores are a
    pseudo-log-likelihood.
    """

    corpus: float
    mean: float
    median: float


@dataclass(frozen=True, slots=True)
class TextScore:
    """The scores of a text by a language model."""

    lm: str
    fingerprint: str
    """The model's content hash."""
    sentences: int
    words: int
    """Number of words between blanks, without ends of sentences."""
    tokens: int
    """The model's, where they are scored, the end of a sentence with them if the model
    predicts it.
    """
    unknown: int
    """Tokens that the model does not know."""
    log_prob: float
    """Of the text, natural log."""
    by_token: Perplexity
    by_word: Perplexity
    known_by_token: float
    """exp(-log p / tokens) of the known tokens: SRILM's ppl."""
    known_by_word: float
    """exp(-log p / words) of the known words, ends of sentences not counted: SRILM's
    ppl1. Of models of words alone; nan for others.
    """
    signature: str
    pseudo: bool = False
    """Whether the score is a pseudo-log-likelihood and the perplexities are
    pseudo-perplexities.
    """
    drops_punctuation: bool = False
    """Whether no token has punctuation that stands between blanks, and so counts as a
    word.
    """


def documents(lines: Iterable[str]) -> list[NbestList]:
    """Lines of text as lists of one hypothesis; an empty line ends a document, and
    neighbours come from within a document.
    """
    lists: list[NbestList] = []
    document = 0
    for line in lines:
        if line:
            lists.append(NbestList(f"{document}-{len(lists) + 1}", [Hypothesis(line)]))
        else:
            document += 1
    return lists


def measure(
    lm: LanguageModel,
    lines: Sequence[NbestList],
    progress: Callable[[int], object] = lambda number: None,
) -> tuple[TextScore, list[TokenScores]]:
    """The figures of a text, and the scores of each of its sentences.

    Args:
        lines: as `documents` makes them.
        progress: called with the number of sentences that were scored since the last
            call.
    """
    sentences = [line.hypotheses[0].text for line in lines]
    scores: list[TokenScores] = []
    for part in in_parts(questions(lm, lines), CHUNK):
        scores += lm.score(part)
        progress(len(part))
    return text_score(lm, sentences, scores), scores


def questions(lm: LanguageModel, lines: Sequence[NbestList]) -> Iterator[Question]:
    """The question about each sentence of a text, with the neighbours that the model
    reads.

    Args:
        lines: as `documents` makes them.

    Raises:
        UserError: The model gives tokens no probabilities.
    """
    if not capabilities_of(lm).predicts:
        raise UserError(
            f"{lm.name}: its scores are no probabilities of tokens, so it has no"
            " perplexity and no accuracy; it scores N-best lists"
        )
    for line in in_place([lm], lines):
        yield from ask(lm, line, [line.nbest.hypotheses[0].text])


def text_score(
    lm: LanguageModel, sentences: Sequence[str], scores: Sequence[TokenScores]
) -> TextScore:
    """Sum up the scores of sentences.

    All scored tokens count, including ends of sentences if the model predicts them.
    Words are separated by blanks, without ends of sentences, so that models with
    different tokenizers can be compared. Sentences without a unit are left out of mean
    and median.
    """
    log_probs = np.array([result.sum for result in scores])
    tokens = np.array([len(result.tokens) for result in scores])
    words = np.array([len(sentence.split()) for sentence in sentences])
    unknown = np.array([len(result.unknown) for result in scores])
    # words and ends of sentences
    of_words = tokens.sum() == words.sum() + len(sentences)
    known = log_probs - [
        sum(one.log_probs[list(one.unknown)]) if one.unknown else 0.0 for one in scores
    ]
    return TextScore(
        lm.name,
        lm.fingerprint,
        len(sentences),
        int(words.sum()),
        int(tokens.sum()),
        int(unknown.sum()),
        float(log_probs.sum()),
        _perplexity(log_probs, tokens),
        _perplexity(log_probs, words),
        _perplexity(known, tokens - unknown).corpus,
        _perplexity(known, words - unknown if of_words else 0 * words).corpus,
        str(Signature("PPL", columns={lm.name: origin(lm, "sum")})),
        is_pseudo(lm.model),
        any(map(_drops_punctuation, sentences, scores)),
    )


def _drops_punctuation(sentence: str, scores: TokenScores) -> bool:
    marks = "".join(
        word for word in sentence.split() if not any(map(str.isalnum, word))
    )
    return (
        bool(marks)
        and not scores.unknown
        and not set(marks) & {*"".join(scores.tokens)}
    )


def _perplexity(log_probs: np.ndarray, units: np.ndarray) -> Perplexity:
    counted = units > 0
    if not counted.any():
        return Perplexity(float("nan"), float("nan"), float("nan"))
    # a text that is all but impossible has an infinite perplexity
    with np.errstate(over="ignore"):
        perplexities = np.exp(-log_probs[counted] / units[counted])
        corpus = np.exp(-log_probs.sum() / units.sum())
    return Perplexity(
        float(corpus), float(perplexities.mean()), float(np.median(perplexities))
    )


def render(scores: Sequence[TextScore]) -> str:
    """A row per language model, then an explanation of the columns."""
    head = [
        "",
        "tokens",
        "unknown",
        "log p",
        "PPL/token",
        "mean",
        "median",
        "PPL/word",
        "mean",
        "median",
    ]
    pseudo = [score.lm for score in scores if score.pseudo]
    rows = [head]
    for score in scores:
        figures = [*astuple(score.by_token), *astuple(score.by_word)]
        counts = [f"{score.tokens:,}", f"{score.unknown:,}", f"{score.log_prob:,.1f}"]
        rows.append([score.lm, *counts, *(f"{figure:,.2f}" for figure in figures)])
    lines = [
        text(rows),
        "",
        (
            f"{counted(scores[0].sentences, 'sentence')},"
            f" {counted(scores[0].words, 'word')}; mean and median are over sentences;"
            " natural log"
        ),
    ]
    lines += [
        f"{score.lm}: without its {counted(score.unknown, 'unknown token')},"
        f" {score.known_by_token:,.2f} a token"
        + (
            f" (SRILM's ppl) and {score.known_by_word:,.2f} a word (ppl1)"
            if score.known_by_word > 0
            else ""
        )
        for score in scores
        if 0 < score.unknown < score.tokens
    ]
    if dropping := [score.lm for score in scores if score.drops_punctuation]:
        lines.append(
            f"{', '.join(dropping)}: reads no punctuation, but PPL/word counts it where"
            " blanks surround it"
        )
    if pseudo:
        lines.append(
            f"{', '.join(pseudo)}: pseudo-perplexity, not comparable with the"
            " perplexity of other kinds"
        )
    return "\n".join([*lines, *(score.signature for score in scores)])
