"""Perplexity of plain text: of the whole text, and the mean and the median over its
sentences (the T-TA paper's table 7).

`documents` makes lists of lines, `measure` scores them, and `render` makes the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from rescore.columns import NORM_SUM
from rescore.errors import UserError, counted
from rescore.lms import (
    LanguageModel,
    Question,
    TokenScores,
    capabilities_of,
    is_pseudo,
    record_of,
)
from rescore.lms.context import ask, with_needed_neighbours
from rescore.nbest import Hypothesis, NbestList, in_parts
from rescore.signature import Signature
from rescore.styles import text

CHUNK = 1000
"""Sentences that are scored together."""
HUGE = 1e6
"""The perplexity from which on a table shows a power of ten."""


@dataclass(frozen=True, slots=True)
class Perplexity:
    """exp(-log p / units), where units are tokens or words; lower is better.

    It is a pseudo-perplexity if the scores are pseudo-log-likelihoods.
    """

    corpus: float
    """Of the whole text."""
    mean: float
    """Mean over sentences."""
    median: float
    """Median over sentences."""


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
    """Number of scored tokens of the model, with ends of sentences if the model
    predicts them.
    """
    unknown: int
    """Number of tokens that the model does not know."""
    log_prob: float
    """Log-probability of the text, natural log."""
    by_token: Perplexity
    by_word: Perplexity
    known_by_token: float
    """exp(-log p / tokens) of the known tokens: SRILM's ppl."""
    known_by_word: float
    """exp(-log p / words) of the known words, ends of sentences not counted: SRILM's
    ppl1. NaN for models whose tokens are not words.
    """
    signature: str
    pseudo: bool = False
    """Whether the score is a pseudo-log-likelihood and the perplexities are
    pseudo-perplexities.
    """
    drops_punctuation: bool = False
    """Whether the text has punctuation between blanks, which counts as words, but the
    tokens have none.
    """


def documents(lines: Iterable[str]) -> list[NbestList]:
    """Return lines of text as lists of one hypothesis.

    Args:
        lines: The lines. An empty line ends a document: a model that reads neighbours
            reads those of the same document.
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
    """Return the figures of a text, and the scores of each of its sentences.

    Args:
        lm: The language model.
        lines: As `documents` returns them.
        progress: Called with the number of sentences that were scored since the last
            call.

    Raises:
        UserError: The model gives tokens no probabilities.
    """
    sentences = [line.hypotheses[0].text for line in lines]
    scores: list[TokenScores] = []
    for part in in_parts(questions(lm, lines), CHUNK):
        scores += lm.score(part)
        progress(len(part))
    return text_score(lm, sentences, scores), scores


def questions(lm: LanguageModel, lines: Sequence[NbestList]) -> Iterator[Question]:
    """Yield the question about each sentence of a text, with the neighbours that the
    model reads.

    Args:
        lm: The language model.
        lines: As `documents` returns them.

    Raises:
        UserError: The model gives tokens no probabilities.
    """
    if not capabilities_of(lm).predicts:
        raise UserError(
            f"{lm.name}: its scores are no probabilities of tokens, so it has no"
            " perplexity and no accuracy; it scores N-best lists"
        )
    for line in with_needed_neighbours([lm], lines):
        yield from ask(lm, line, [line.nbest.hypotheses[0].text])


def text_score(
    lm: LanguageModel, sentences: Sequence[str], scores: Sequence[TokenScores]
) -> TextScore:
    """Return the figures of a text from the scores of its sentences.

    All scored tokens count, including ends of sentences if the model predicts them.
    Words are separated by blanks, without ends of sentences, so that models with
    different tokenizers can be compared. Sentences without a unit are left out of mean
    and median.

    Args:
        lm: The language model.
        sentences: The sentences of the text.
        scores: The scores of each sentence.
    """
    log_probs = np.array([result.sum for result in scores])
    tokens = np.array([len(result.tokens) for result in scores])
    words = np.array([len(sentence.split()) for sentence in sentences])
    unknown = np.array([len(result.unknown) for result in scores])
    known_log_probs = log_probs - [_unknown_log_prob(result) for result in scores]
    known_words = np.zeros_like(words)
    if tokens.sum() == words.sum() + len(sentences):
        # The tokens are words and ends of sentences.
        known_words = words - unknown
    dropping = map(_drops_punctuation, sentences, scores)
    return TextScore(
        lm=lm.name,
        fingerprint=lm.fingerprint,
        sentences=len(sentences),
        words=int(words.sum()),
        tokens=int(tokens.sum()),
        unknown=int(unknown.sum()),
        log_prob=float(log_probs.sum()),
        by_token=_perplexity(log_probs, tokens),
        by_word=_perplexity(log_probs, words),
        known_by_token=_perplexity(known_log_probs, tokens - unknown).corpus,
        known_by_word=_perplexity(known_log_probs, known_words).corpus,
        signature=str(Signature("PPL", columns={lm.name: record_of(lm, NORM_SUM)})),
        pseudo=is_pseudo(lm.model),
        drops_punctuation=any(dropping),
    )


def _unknown_log_prob(scores: TokenScores) -> float:
    """Return the log-probability of the unknown tokens of a sentence, natural log."""
    if not scores.unknown:
        return 0.0
    return float(sum(scores.log_probs[list(scores.unknown)]))


def _drops_punctuation(sentence: str, scores: TokenScores) -> bool:
    """Return whether a sentence has punctuation between blanks, but no token has it."""
    marks: set[str] = set()
    for word in sentence.split():
        if not any(letter.isalnum() for letter in word):
            marks |= set(word)
    if not marks or scores.unknown:
        return False
    return marks.isdisjoint("".join(scores.tokens))


def _perplexity(log_probs: np.ndarray, units: np.ndarray) -> Perplexity:
    """Return the perplexity of sentences.

    Args:
        log_probs: Log-probabilities (sentences,), natural log.
        units: Numbers of tokens or words (sentences,).
    """
    counted = units > 0
    if not counted.any():
        return Perplexity(float("nan"), float("nan"), float("nan"))
    # A text that is all but impossible has an infinite perplexity.
    with np.errstate(over="ignore"):
        perplexities = np.exp(-log_probs[counted] / units[counted])
        corpus = np.exp(-log_probs.sum() / units.sum())
    return Perplexity(
        float(corpus), float(perplexities.mean()), float(np.median(perplexities))
    )


def render(scores: Sequence[TextScore]) -> str:
    """Return a table with a row for each language model, then an explanation.

    Args:
        scores: The figures of the same text under each model.
    """
    of_text = scores[0]
    sentences = counted(of_text.sentences, "sentence")
    words = counted(of_text.words, "word")
    lines = [
        text(cells(scores)),
        "",
        f"{sentences}, {words}; mean and median are over sentences; natural log",
    ]
    for score in scores:
        if 0 < score.unknown < score.tokens:
            lines.append(_without_unknown(score))
    dropping = [score.lm for score in scores if score.drops_punctuation]
    if dropping:
        lines.append(
            f"{', '.join(dropping)}: does not score punctuation, but PPL/word counts a"
            " mark between blanks as a word"
        )
    pseudo = [score.lm for score in scores if score.pseudo]
    if pseudo:
        lines.append(
            f"{', '.join(pseudo)}: pseudo-perplexity, not comparable with the"
            " perplexity of other kinds"
        )
    lines += [score.signature for score in scores]
    return "\n".join(lines)


def cells(scores: Sequence[TextScore]) -> list[list[str]]:
    """Return the head line of the table, and a row for each language model."""
    by_token = ["PPL/token", "mean/token", "median/token"]
    by_word = ["PPL/word", "mean/word", "median/word"]
    rows = [["", "tokens", "unknown", "log p", *by_token, *by_word]]
    for score in scores:
        row = [score.lm, f"{score.tokens:,}", f"{score.unknown:,}"]
        row.append(f"{score.log_prob:,.1f}")
        for perplexity in (score.by_token, score.by_word):
            row += [_shown(figure) for figure in astuple(perplexity)]
        rows.append(row)
    return rows


def _shown(perplexity: float) -> str:
    """Return a perplexity as the table shows it: a huge one, as a single impossible
    sentence makes the mean, with a power of ten.
    """
    if perplexity < HUGE:
        return f"{perplexity:,.2f}"
    return f"{perplexity:.1e}" if math.isfinite(perplexity) else f"{perplexity}"


def _without_unknown(score: TextScore) -> str:
    """Return a line with the perplexities of the known tokens and words."""
    unknown = counted(score.unknown, "unknown token")
    line = f"{score.lm}: without its {unknown}, {score.known_by_token:,.2f} a token"
    if score.known_by_word > 0:  # false for NaN
        line += f" (SRILM's ppl) and {score.known_by_word:,.2f} a word (ppl1)"
    return line
