"""Perplexity of words by their frequency in a training text, and which model wins them.

Bai's thesis (chapter 3, section 3.4.2, Figures 3.5 and 3.6) compares models on frequent
and on rare words: the perplexity of the words of each range of frequencies, and the
share of words to which each model gives the higher probability. Words, not tokens, are
compared here, so that models may have different tokenizers.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rescore.errors import UserError, counted
from rescore.formats.sentences import read_text
from rescore.lms import LanguageModel, TokenScores, is_pseudo, record_of
from rescore.lms.lexicon import LEAST, NAME, Lexicon
from rescore.metrics.normalise import Normaliser
from rescore.nbest import NbestList
from rescore.reports.perplexity import measure as measure_text
from rescore.research.chart import Chart, Series
from rescore.signature import Signature

PREFIXES = ("##", "\u2581", "\u0120")
"""Marks before the letters of a token: WordPiece, SentencePiece, byte-level BPE."""
SUFFIXES = ("</w>", "@@")
"""Marks behind the letters of a token, of two forms of BPE."""
TIE = 1e-6
"""Log-probabilities that differ by less are equal."""
LARGE = 1e6
"""Perplexities from here on are shown with a power of ten."""
BARE = Normaliser(drop_punctuation=True)
"""How words are counted: in lower case, without punctuation around them."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """How often the words of a training text stand in it."""

    counts: Mapping[str, int]
    """Counts of bare words."""
    least: int
    """The lowest count that is known; rarer words count as 0."""
    digest: str
    """Twelve hexadecimal digits of the content, for signatures."""

    def count(self, word: str) -> int:
        """Return the count of a word as it is written."""
        return self.counts.get(bare(word), 0)


@dataclass(frozen=True, slots=True)
class Range:
    """The words of a text whose counts in the corpus are in a range."""

    low: int
    """Lowest count in the corpus."""
    high: int | None
    """Highest count in the corpus; None for an open range."""
    words: int
    """Words of the text."""
    perplexities: tuple[float, ...]
    """exp(-log p / words) of the words under each model."""
    wins: tuple[float, ...]
    """Share of words to which each model gives the highest probability, from 0 to 1."""
    ties: float
    """Share of words for which several models are equally good."""

    @property
    def counts(self) -> str:
        """The range of counts, such as `10-99` or `1,000 on`."""
        if self.high is None:
            return f"{self.low:,} on"
        if self.low == self.high:
            return f"{self.low:,}"
        return f"{self.low:,}-{self.high:,}"


@dataclass(frozen=True, slots=True)
class FrequencyReport:
    """The perplexity of words by frequency under several models."""

    source: str
    """Path of the text."""
    corpus: str
    """Path of the training text or of the model folder."""
    sentences: int
    """Sentences that are compared."""
    unmatched: int
    """Sentences that are left out, because tokens could not be assigned to words."""
    unknown: int
    """Words that are left out, because a model does not know them."""
    models: tuple[str, ...]
    pseudo: tuple[str, ...]
    """Models whose perplexity is a pseudo-perplexity."""
    ranges: tuple[Range, ...]
    whole: Range
    """All words."""
    signatures: tuple[str, ...]

    def cells(self) -> list[list[str]]:
        """Return a row for each range of frequencies, rare words first."""
        head = ["count", "words", *(f"PPL {name}" for name in self.models)]
        if len(self.models) > 1:
            head += [*(f"{name} wins %" for name in self.models), "ties %"]
        rows = [head]
        rows += [self._row(each.counts, each) for each in self.ranges]
        rows.append(self._row("all", self.whole))
        return rows

    def _row(self, name: str, words: Range) -> list[str]:
        row = [name, f"{words.words:,}", *map(_shown, words.perplexities)]
        if len(self.models) > 1:
            row += [f"{100 * share:.1f}" for share in (*words.wins, words.ties)]
        return row

    def notes(self) -> list[str]:
        """Return what the figures are, what is left out, and the signatures."""
        lines = [
            f"{self.source}: {counted(self.sentences, 'sentence')}; perplexity per"
            f" word, by the word's count in {self.corpus}; a model wins a word to which"
            " it gives the highest probability"
        ]
        if self.unmatched:
            lines.append(
                f"left out: {counted(self.unmatched, 'sentence')} whose tokens cannot"
                " be assigned to words"
            )
        if self.unknown:
            lines.append(
                f"left out: {counted(self.unknown, 'word')} unknown to a model"
            )
        if self.pseudo:
            lines.append(
                f"{', '.join(self.pseudo)}: pseudo-perplexity; a token of a word is"
                " predicted from the word's other tokens, too"
            )
        return [*lines, *self.signatures]

    def charts(self) -> list[Chart]:
        """Return the perplexity of each range, and the shares of wins."""
        ticks = [(float(x), f"{each.low:g}") for x, each in enumerate(self.ranges)]
        label = "count of the word in the corpus, from"
        perplexities = []
        wins = []
        for rank, name in enumerate(self.models):
            values = [each.perplexities[rank] for each in self.ranges]
            perplexities.append(Series(name, list(enumerate(values))))
            shares = [100 * each.wins[rank] for each in self.ranges]
            wins.append(Series(name, list(enumerate(shares))))
        charts = [
            Chart(
                "Perplexity by frequency",
                label,
                "perplexity per word",
                perplexities,
                ticks,
                y_log=True,
            )
        ]
        if len(self.models) > 1:
            charts.append(Chart("Wins by frequency", label, "% of words", wins, ticks))
        return charts


def read_corpus(path: str) -> Corpus:
    """Return the counts of the words of a training text.

    Args:
        path: A text, a model folder with a lexicon, or a lexicon.

    Raises:
        UserError: There is no such file, or the folder has no lexicon.
    """
    place = Path(path)
    if place.is_dir():
        place = place / NAME
        if not place.is_file():
            raise UserError(
                f"{path}: has no {NAME}; give the text that the models were trained on"
            )
    if place.name == NAME:
        lexicon = Lexicon.load(place)
        return Corpus(lexicon.counts, LEAST, lexicon.digest)
    written: Counter[str] = Counter()
    for line in read_text(place):
        written.update(line.split())
    counts: Counter[str] = Counter()
    for word, count in written.items():
        counts[bare(word)] += count
    if not counts:
        raise UserError(f"{path}: no text in it; give the text of a training")
    return Corpus(counts, 1, Lexicon(counts, counts.total()).digest)


def bare(word: str) -> str:
    """Return a word in lower case without the punctuation around it."""
    return " ".join(BARE(word))


def measure(
    lms: Sequence[LanguageModel],
    lines: Sequence[NbestList],
    corpus: Corpus,
    sources: tuple[str, str],
    progress: Callable[[int], object] = lambda number: None,
) -> FrequencyReport:
    """Return the perplexity of the words of a text by their frequency in a corpus.

    Args:
        lms: The models.
        lines: The text, as `rescore.reports.perplexity.documents` makes it.
        corpus: The counts of words.
        sources: Path of the text and path of the corpus.
        progress: Called with the number of sentences that were scored since the last
            call.

    Raises:
        UserError: The tokens of no sentence can be assigned to its words.
    """
    scores = []
    for lm in lms:
        _, own = measure_text(lm, lines, progress)
        scores.append(own)
    words = _Words()
    for number, line in enumerate(lines):
        words.add(line.hypotheses[0].text, [own[number] for own in scores])
    if not words.log_probs:
        names = ", ".join(lm.name for lm in lms)
        raise UserError(
            f"{sources[0]}: no word that all models know ({names}); the tokens of"
            f" {counted(words.unmatched, 'sentence')} cannot be assigned to words"
        )
    signatures = []
    for lm in lms:
        settings = {"corpus": corpus.digest}
        signature = Signature("PPL", settings, columns={lm.name: record_of(lm, "sum")})
        signatures.append(str(signature))
    return FrequencyReport(
        source=sources[0],
        corpus=sources[1],
        sentences=len(lines) - words.unmatched,
        unmatched=words.unmatched,
        unknown=words.unknown,
        models=tuple(lm.name for lm in lms),
        pseudo=tuple(lm.name for lm in lms if is_pseudo(lm.model)),
        ranges=tuple(words.ranges(corpus)),
        whole=_range(0, None, words.log_probs),
        signatures=tuple(signatures),
    )


class _Words:
    """The words of a text that all models know, and their log-probabilities."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.log_probs: list[tuple[float, ...]] = []
        """Of each word, under each model."""
        self.unmatched = self.unknown = 0
        """Sentences and words that are left out."""

    def add(self, text: str, scores: Sequence[TokenScores]) -> None:
        """Add the words of a sentence.

        Args:
            text: The sentence.
            scores: Its scores under each model.
        """
        by_model = []
        for own in scores:
            log_probs = word_log_probs(text, own)
            if log_probs is None:
                self.unmatched += 1
                return
            by_model.append(log_probs)
        for word, values in zip(text.split(), zip(*by_model, strict=True), strict=True):
            if any(map(math.isnan, values)):
                self.unknown += 1
            else:
                self.words.append(word)
                self.log_probs.append(values)

    def ranges(self, corpus: Corpus) -> Iterator[Range]:
        """The figures of each range of frequencies that has words."""
        counts = [corpus.count(word) for word in self.words]
        for low, high in _bounds(corpus.least, max(counts)):
            most = math.inf if high is None else high
            inside = []
            for count, values in zip(counts, self.log_probs, strict=True):
                if low <= count <= most:
                    inside.append(values)
            if inside:
                yield _range(low, high, inside)


def word_log_probs(text: str, scores: TokenScores) -> list[float] | None:
    """Return the log-probability of each word of a text: the sum over its tokens.

    Tokens are assigned to words by their letters. The end of the sentence belongs to no
    word. Punctuation at the end of a word has no token if the tokenizer removes it.

    Args:
        text: The text; blanks separate its words.
        scores: The scores of its tokens.

    Returns:
        Natural logs, one per word, NaN for a word with an unknown token and for a word
        of removed punctuation alone; None if the letters of the tokens are not the
        letters of the words.
    """
    sums = _WordSums(text)
    last = len(scores.tokens) - 1
    for place, token in enumerate(scores.tokens):
        piece = _letters(_unmarked(token))
        sums.skip_removed(piece)
        if place in scores.unknown and not sums.is_done:
            sums.add_unknown()
        elif sums.continues_with(piece):
            sums.add(piece, float(scores.log_probs[place]))
        elif sums.letters_read or place not in (0, last):
            return None
    return sums.finished()


class _WordSums:
    """Sums the log-probabilities of tokens over the words of a text. The tokens come in
    the order of the text.
    """

    def __init__(self, text: str) -> None:
        self.words = [_letters(word) for word in text.split()]
        self.log_probs = [0.0] * len(self.words)
        self.place = 0
        """The place of the word that the next token belongs to."""
        self.letters_read = 0
        """Number of letters of this word that tokens had so far."""

    @property
    def is_done(self) -> bool:
        """Whether the tokens had all words."""
        return self.place == len(self.words)

    @property
    def rest(self) -> str:
        """The letters of the word that no token had so far."""
        return self.words[self.place][self.letters_read :]

    def continues_with(self, piece: str) -> bool:
        """Return whether the letters of a token are the next letters of the word."""
        return not self.is_done and self.rest.startswith(piece)

    def add(self, piece: str, log_prob: float) -> None:
        """Add a token: its letters, and its log-probability (natural log)."""
        self.log_probs[self.place] += log_prob
        self.letters_read += len(piece)
        if not self.rest:
            self._next_word()

    def add_unknown(self) -> None:
        """Add an unknown token, which stands for the rest of the word."""
        self.log_probs[self.place] = math.nan
        self._next_word()

    def skip_removed(self, piece: str) -> None:
        """Skip punctuation that the next token, with these letters, does not have."""
        while not self.is_done and _is_removed(self.rest, piece):
            self._skip()

    def finished(self) -> list[float] | None:
        """Return the sums behind the last token; None if a word has letters left."""
        while not self.is_done:
            if _has_letters(self.rest):
                return None
            self._skip()
        return self.log_probs

    def _skip(self) -> None:
        """Skip the rest of the word, which has no token."""
        if self.letters_read == 0:
            self.log_probs[self.place] = math.nan
        self._next_word()

    def _next_word(self) -> None:
        self.place += 1
        self.letters_read = 0


def _is_removed(rest: str, piece: str) -> bool:
    """Whether the rest of a word is punctuation that the next token does not have."""
    return not _has_letters(rest) and not rest.startswith(piece)


def _has_letters(text: str) -> bool:
    return any(map(str.isalnum, text))


def _shown(perplexity: float) -> str:
    """A perplexity in a table."""
    return f"{perplexity:,.2f}" if perplexity < LARGE else f"{perplexity:.2e}"


def _unmarked(token: str) -> str:
    """A token without the marks of its tokenizer."""
    for mark in PREFIXES:
        token = token.removeprefix(mark)
    for mark in SUFFIXES:
        token = token.removesuffix(mark)
    return token


def _letters(text: str) -> str:
    """A text in lower case without accents, as tokenizers may change both."""
    parts = unicodedata.normalize("NFKD", text).casefold()
    return "".join(part for part in parts if not unicodedata.combining(part))


def _bounds(least: int, most: int) -> Iterator[tuple[int, int | None]]:
    """The ranges of counts: below the least known count, then by powers of ten."""
    yield 0, least - 1
    low = least
    high = 10
    while high <= most:
        yield low, high - 1
        low, high = high, 10 * high
    yield low, None


def _range(low: int, high: int | None, values: Sequence[tuple[float, ...]]) -> Range:
    """The figures of words.

    Args:
        low: Lowest count.
        high: Highest count; None for an open range.
        values: The log-probabilities of each word under each model.
    """
    models = len(values[0])
    wins = [0] * models
    ties = 0
    for own in values:
        best = max(own)
        winners = [number for number in range(models) if best - own[number] < TIE]
        if len(winners) == 1:
            wins[winners[0]] += 1
        else:
            ties += 1
    perplexities = []
    for number in range(models):
        mean = sum(own[number] for own in values) / len(values)
        perplexities.append(math.exp(-mean) if mean > -700 else math.inf)
    return Range(
        low,
        high,
        len(values),
        tuple(perplexities),
        tuple(number / len(values) for number in wins),
        ties / len(values),
    )
