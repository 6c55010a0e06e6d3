"""Correction of texts: spans that sound like a listed term are replaced by the term.

A `Finder` finds spans and describes them by features, boosted `Trees` say how probable
a correction is, and a `Corrector` chooses corrections that do not overlap.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.channel import Channel
from rescore.asr.documents import Passage, Replacement, Text, replaced
from rescore.asr.terms import (
    Occurrence,
    Question,
    Term,
    TermIndex,
    TermSpan,
    TermWord,
    read_terms,
    split,
)
from rescore.border import check_number, checked_texts
from rescore.errors import UserError
from rescore.files import parsed, read_json
from rescore.lms import shipped_models
from rescore.lms.lexicon import NAME, Lexicon
from rescore.metrics.listed import WordList

Floats = npt.NDArray[np.float64]

FEATURES = (
    "share",
    "channel",
    "channel_mean",
    "letters",
    "length",
    "words_heard",
    "words_term",
    "rarest_heard",
    "mean_heard",
    "first_heard",
    "last_heard",
    "rarest_term",
    "mean_term",
    "first_sound",
    "last_sound",
    "same_words",
    "margin_term",
    "margin_span",
    "capitals",
    "possessive",
    "unknown",
    "term_elsewhere",
    "word_elsewhere",
    "near_elsewhere",
    "heard_elsewhere",
    "rarest_elsewhere",
)
"""The features of a span and its term, in the order of the model's columns."""
SHARE = 0.1
"""Share of sounds in which a span may differ from a term, at least."""
SHARE_OF_RARITY = 0.03
"""More share for each unit of -log P of the span's rarest word beyond `FREQUENT`."""
MOST_SHARE = 0.4
"""Share of sounds in which a span may differ, at most, before `SHARE` is added for
spans of more than `SHORT` sounds.
"""
FREQUENT = 5.0
SHORT = 5
ORDINARY = 9.0
"""-log P of a word up to which it is frequent, natural log."""
NEAR = 0.25
"""Share of sounds up to which a span counts as a further trace of a term in its
recording.
"""


@dataclass
class TermCounts:
    """Counts of a recording: its words, its terms, and spans that sound like terms."""

    words: Counter[str] = field(default_factory=Counter)
    terms: Counter[int] = field(default_factory=Counter)
    near: Counter[int] = field(default_factory=Counter)


@dataclass
class Heard:
    """A text, cut into words, and the spans that may be corrected."""

    text: str
    words: list[TermWord]
    present: list[Occurrence]
    """The terms that the text has."""
    spans: list[TermSpan]

    @cached_property
    def case(self) -> str:
        """The case of the text: upper, lower, or mixed."""
        if self.text == self.text.lower():
            return "lower"
        return "upper" if self.text == self.text.upper() else "mixed"

    @cached_property
    def has_capitals(self) -> bool:
        """Whether some words begin with a capital and some are in lower case."""
        return any(word.text[:1].isupper() for word in self.words) and any(
            word.text.islower() for word in self.words
        )


@dataclass(frozen=True, slots=True)
class Trees:
    """Boosted regression trees: the natural log-odds that a span should be corrected,
    from its features.

    A node is a row of five numbers: feature, threshold, left child, right child, value.
    Values up to the threshold go left. A leaf has no children (0).
    """

    features: tuple[str, ...]
    baseline: float
    trees: tuple[tuple[tuple[float, ...], ...], ...]
    threshold: float
    """The recommended threshold, as a probability."""
    source: str

    @classmethod
    def load(cls, path: Path) -> Trees:
        """Return the trees of a file.

        Raises:
            UserError: The file is absent or damaged, or has other features.
        """
        model = parsed(read_json(path), cls, str(path))
        if model.features != FEATURES:
            raise UserError(
                f"{path}: has other features than this version; train the model again"
            )
        return model

    def __call__(self, table: Floats) -> Floats:
        """Return the log-odds of spans.

        Args:
            table: The features of each span (spans, features).

        Returns:
            Natural log of the odds (spans,).
        """
        total = np.full(len(table), self.baseline)
        rows = np.arange(len(table))
        for tree in self.trees:
            nodes = np.array(tree)
            place = np.zeros(len(table), dtype=np.int64)
            inner = nodes[place, 2] > 0
            while inner.any():
                features = nodes[place, 0].astype(np.int64)
                is_left = table[rows, features] <= nodes[place, 1]
                children = nodes[place, np.where(is_left, 2, 3)].astype(np.int64)
                place = np.where(inner, children, place)
                inner = nodes[place, 2] > 0
            total += nodes[place, 4]
        return total


class Finder:
    """Finds candidates, and describes each by its features."""

    def __init__(
        self, terms: Sequence[Term], lexicon: Lexicon, channel: Channel
    ) -> None:
        self._terms = terms
        self._channel = channel
        self.index = TermIndex(terms)
        self.rarity = cache(lambda key: -lexicon.log_prob(key))
        self.known = lexicon.__contains__
        self._costs: dict[tuple[int, str], float] = {}

    def share(self, span: TermSpan) -> float:
        """Return the share of sounds in which a span and its term differ."""
        longer = max(len(span.sound), len(self._terms[span.term].sound), 1)
        return span.distance / longer

    def __call__(self, text: str) -> Heard:
        """Return the candidates of a text."""
        words = split(text)
        listed: dict[int, Occurrence] = {}
        for occurrence in self.index.occurrences(words):
            for place in range(occurrence.first, occurrence.last):
                listed[place] = occurrence
        ordered = []
        taken: set[int] = set()
        for span in self.index.ordered(text, words):
            if not _inside(span, listed.get(span.first)):
                ordered.append(span)
                taken.update(range(span.first, span.last))
        present = []
        for occurrence in dict.fromkeys(listed.values()):
            if taken.isdisjoint(range(occurrence.first, occurrence.last)):
                present.append(occurrence)
        spans = []
        for span in self.index.spans(text, words, self._limit(words)):
            if self._is_free(span, taken, listed):
                spans.append(span)
        every = sorted([*ordered, *self._nearest(spans)], key=attrgetter("first"))
        return Heard(text, words, present, every)

    def _limit(self, words: Sequence[TermWord]) -> Callable[[int, int, int], float]:
        """Return the share of sounds in which a span of a text may differ from a term:
        more if it has a rare word.
        """
        rarity = [self.rarity(word.key) for word in words]

        def limit(first: int, last: int, length: int) -> float:
            rare = max(0.0, max(rarity[first:last]) - FREQUENT)
            share = min(SHARE + SHARE_OF_RARITY * rare, MOST_SHARE)
            return share + (SHARE if length > SHORT else 0.0)

        return limit

    def look_up(self, texts: Iterable[str]) -> None:
        """Look up the sounds of many texts together, which is faster."""
        questions: list[Question] = []
        for text in texts:
            words = split(text)
            questions += self.index.questions(text, words, self._limit(words))
        self.index.look_up(questions)

    def _nearest(self, spans: list[TermSpan]) -> list[TermSpan]:
        """Return the spans without spans that overlap with a span nearer to the same
        term.
        """
        nearest = []
        for span, others in zip(spans, neighbours(spans), strict=True):
            share = self.share(span)
            for other in others:
                if other.term == span.term and self.share(other) < share:
                    break
            else:
                nearest.append(span)
        return nearest

    def _is_free(
        self, span: TermSpan, taken: Set[int], listed: Mapping[int, Occurrence]
    ) -> bool:
        """Return whether a span may be corrected.

        Args:
            span: The span.
            taken: The words of heard forms.
            listed: The term that each word belongs to, in the text.
        """
        for place in range(span.first, span.last):
            if place in taken:
                return False
            if place in listed and not self._contains(span, listed[place]):
                return False
        return True

    def _contains(self, span: TermSpan, occurrence: Occurrence) -> bool:
        """Return whether a term that a text has is wholly in a span, and a shorter part
        of the span's term.
        """
        if occurrence.first < span.first or span.last < occurrence.last:
            return False
        words = self._terms[span.term].words
        part = self._terms[occurrence.term].words
        places = range(len(words) - len(part) + 1)
        return len(part) < len(words) and any(
            words[place : place + len(part)] == part for place in places
        )

    def add(self, recording: TermCounts, heard: Heard) -> None:
        """Count the words, terms and near spans of a text for its recording."""
        recording.words.update(word.key for word in heard.words)
        recording.terms.update(occurrence.term for occurrence in heard.present)
        recording.near.update(
            {span.term for span in heard.spans if self.share(span) <= NEAR}
        )

    def features(self, heard: Heard, recording: TermCounts) -> Floats:
        """Return the features of the spans of a text.

        Args:
            heard: The text.
            recording: Its recording, which counts the text itself.

        Returns:
            Features of shape (spans, features), in the order of `FEATURES`.
        """
        spans = heard.spans
        table = np.zeros((len(spans), len(FEATURES)))
        self.weigh(spans)
        pairs = zip(spans, neighbours(spans), strict=True)
        for row, (span, overlapping) in enumerate(pairs):
            words = heard.words[span.first : span.last]
            features = self._of_pair(span, words)
            features |= self._of_neighbours(span, overlapping)
            features |= self._of_recording(span, words, recording)
            features["capitals"] = -1.0
            if heard.has_capitals:
                capitals = [word.text[:1].isupper() for word in words]
                features["capitals"] = sum(capitals) / len(capitals)
            table[row] = [features[name] for name in FEATURES]
        return table

    def _of_pair(self, span: TermSpan, words: Sequence[TermWord]) -> dict[str, float]:
        """Return the features of heard words and their term alone."""
        listed = self._terms[span.term]
        term = listed.words
        sound = listed.sound
        channel = self._costs[span.term, span.sound]
        keys = [word.key for word in words]
        rarity = [self.rarity(key) for key in keys]
        rarity_of_term = [self.rarity(word) for word in term]
        unknown = [key for key in keys if not self.known(key)]
        same = [word for word in term if word in keys]
        return {
            "share": self.share(span),
            "channel": channel,
            "channel_mean": channel / max(len(sound), 1),
            "letters": Levenshtein.normalized_similarity("".join(keys), "".join(term)),
            "length": len(sound),
            "words_heard": len(keys),
            "words_term": len(term),
            "rarest_heard": max(rarity),
            "mean_heard": sum(rarity) / len(rarity),
            "first_heard": rarity[0],
            "last_heard": rarity[-1],
            "rarest_term": max(rarity_of_term),
            "mean_term": sum(rarity_of_term) / len(term),
            "first_sound": span.sound[:1] == sound[:1],
            "last_sound": span.sound[-1:] == sound[-1:],
            "same_words": len(same) / len(term),
            "possessive": span.possessive,
            "unknown": len(unknown) / len(keys),
        }

    def _of_neighbours(
        self, span: TermSpan, overlapping: Iterable[TermSpan]
    ) -> dict[str, float]:
        """Return by how much a span is nearer to its term than overlapping spans are to
        other terms, and to the same term.
        """
        share = self.share(span)
        others = 0.5
        same = 0.5
        for other in overlapping:
            if other.term != span.term:
                others = min(others, self.share(other))
            elif other is not span:
                same = min(same, self.share(other))
        return {"margin_term": others - share, "margin_span": same - share}

    def _of_recording(
        self, span: TermSpan, words: Sequence[TermWord], recording: TermCounts
    ) -> dict[str, float]:
        """Return how often the term, the heard words and their like are elsewhere in
        the recording, as log(1 + number).
        """
        keys = [word.key for word in words]
        rarest = max(keys, key=self.rarity)
        rarest_of_term = max(self._terms[span.term].words, key=self.rarity)
        word = recording.words[rarest_of_term] - keys.count(rarest_of_term)
        near = recording.near[span.term]
        if self.share(span) <= NEAR:
            near -= 1  # the span itself
        numbers = {
            "term_elsewhere": recording.terms[span.term],
            "word_elsewhere": word,
            "near_elsewhere": near,
            "heard_elsewhere": min(recording.words[key] for key in keys) - 1,
            "rarest_elsewhere": recording.words[rarest] - 1,
        }
        return {name: math.log1p(max(0, number)) for name, number in numbers.items()}

    def weigh(self, spans: Iterable[TermSpan]) -> None:
        """Compute the channel's log-probabilities of pairs that are new."""
        new: dict[tuple[int, str], None] = {}
        for span in spans:
            if (span.term, span.sound) not in self._costs:
                new[span.term, span.sound] = None
        meant = [self._terms[term].sound for term, _ in new]
        heard = [sound for _, sound in new]
        costs = self._channel.log_probs(meant, heard).tolist()
        self._costs |= dict(zip(new, costs, strict=True))


def neighbours(spans: Sequence[TermSpan]) -> Iterator[list[TermSpan]]:
    """Yield for each span of a text the spans that overlap with it, and itself.

    Args:
        spans: In the order of their first words.
    """
    firsts = [span.first for span in spans]
    longest = max((span.last - span.first for span in spans), default=0)
    for span in spans:
        low = bisect_left(firsts, span.first - longest)
        high = bisect_left(firsts, span.last)
        yield [other for other in spans[low:high] if span.first < other.last]


def _inside(span: TermSpan, occurrence: Occurrence | None) -> bool:
    """Return whether a span is a part of a longer term that the text has."""
    if occurrence is None or occurrence.last < span.last:
        return False
    return span.last - span.first < occurrence.last - occurrence.first


class TermChange(NamedTuple):
    """A correction."""

    id: str
    """Of the utterance."""
    start: int
    end: int
    """Its place in the text, in characters."""
    heard: str
    meant: str
    log_odds: float
    """Natural log of the odds that the correction is right."""

    @property
    def probability(self) -> float:
        """The probability that the correction is right."""
        return math.exp(self.log_prob)

    @property
    def log_prob(self) -> float:
        """Natural log of the probability."""
        return -math.log1p(math.exp(-min(self.log_odds, ORDERED)))

    @property
    def has_effect(self) -> bool:
        """Whether the text is another after the correction."""
        return self.meant != self.heard

    @property
    def replacement(self) -> Replacement:
        """The correction as a replacement in the text."""
        return Replacement(self.start, self.end, self.meant)


class Correction(NamedTuple):
    """A possible correction; its first word, and the word behind its last."""

    first: int
    last: int
    change: TermChange


class Corrected(NamedTuple):
    """A text after its corrections."""

    text: str
    changes: tuple[TermChange, ...]


ORDERED = 50.0
"""Log-odds of a correction that the list orders (`heard => term`)."""
OF_CASE = 2.0
"""Log-odds of a correction of case alone: 90 % of them are right
(docs/results/terms.md).
"""


def log_odds(probability: float) -> float:
    """Return the natural log of the odds of a probability; infinite for 0 and 1."""
    if probability <= 0.0:
        return -math.inf
    if probability >= 1.0:
        return math.inf
    return math.log(probability / (1.0 - probability))


class Corrector:
    """Corrects texts to the terms of a list."""

    def __init__(
        self,
        words: WordList | Sequence[str],
        threshold: float | None = None,
        *,
        case: bool = False,
    ) -> None:
        """Load the models, and index the terms.

        Args:
            words: The list, or its lines.
            threshold: Least probability of a correction; None: the recommended one.
            case: Whether terms that differ from the list in case alone are corrected. A
                list all in capitals does not tell the case.

        Raises:
            UserError: A line of the list is not valid.
        """
        if not isinstance(words, WordList):
            words = WordList.of_lines(checked_texts("correct", "words", words), "words")
        self._listed = words
        self._terms = read_terms(words)
        folder = shipped_models() / "terms"
        lexicon = Lexicon.load(shipped_models() / "tta" / NAME)
        self._channel = Channel.load(folder)
        self.finder = Finder(self._terms, lexicon, self._channel)
        self._trees = Trees.load(folder / "terms.json")
        if threshold is None:
            threshold = self._trees.threshold
        self.threshold = log_odds(threshold)
        self._listed_in_capitals = all(
            term.text == term.text.upper() for term in self._terms
        )
        self._case = case and not self._listed_in_capitals

    def __call__(self, texts: Sequence[Text]) -> list[list[TermChange]]:
        """Return the corrections of each text, in order."""
        every = self.candidates(texts)
        return [choose(candidates, self.threshold) for candidates in every]

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits of the list and the models, for signatures."""
        # 0.0 and [] stood for weights and terms of utterances, without which signatures
        # of the same list would differ.
        terms = self._terms
        listed = sorted(repr((term.text, 0.0, sorted(term.heard))) for term in terms)
        model = (self._trees.features, self._trees.baseline, self._trees.trees)
        content = repr((listed, [], model, self._channel.digest))
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def candidates(self, texts: Sequence[Text]) -> list[list[Correction]]:
        """Return the possible corrections of each text.

        Args:
            texts: All texts of a recording are looked at together, wherever they stand.

        Raises:
            UserError: A line of the list begins with an utterance.
        """
        self._check_ids(texts)
        if not texts:
            return []
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            places.setdefault(text.recording, []).append(place)
        by_place: dict[int, tuple[Heard, Floats]] = {}
        for own in places.values():
            of_recording = self._described([texts[place] for place in own])
            by_place.update(zip(own, of_recording, strict=True))
        described = [by_place[place] for place in range(len(texts))]
        table = np.concatenate([features for _, features in described])
        scores = iter(self._trees(table).tolist())
        every = []
        for text, (heard, _) in zip(texts, described, strict=True):
            candidates = []
            for span in heard.spans:
                change = self._change(text, heard, span, next(scores))
                candidates.append(Correction(span.first, span.last, change))
            if self._case:
                candidates += self.recased(text, heard)
            every.append([each for each in candidates if each.change.has_effect])
        return every

    def _check_ids(self, texts: Iterable[Text]) -> None:
        """Check that no line of the list begins with an utterance of the texts."""
        names = self._listed.names
        for text in texts:
            if text.id in names and not text.id.isdecimal():
                raise UserError(
                    f"{self._listed.path}: a line begins with the utterance {text.id};"
                    " terms need one list for all utterances"
                )

    def _described(self, texts: Sequence[Text]) -> Iterator[tuple[Heard, Floats]]:
        """Yield the spans of each text of a recording, and their features."""
        self.finder.look_up(text.text for text in texts)
        recording = TermCounts()
        every = []
        spans: list[TermSpan] = []
        for text in texts:
            heard = self.finder(text.text)
            if not text.repeated:
                self.finder.add(recording, heard)
            every.append(heard)
            spans += heard.spans
        self.finder.weigh(spans)
        for heard in every:
            yield heard, self.finder.features(heard, recording)

    def recased(self, text: Text, heard: Heard) -> Iterator[Correction]:
        """Yield the terms that a text has, in the case of the list.

        A term in lower case may begin a sentence, and a word of the lexicon, or several
        frequent words (`to do`), may be ordinary words.

        Args:
            text: The text.
            heard: Its words and terms.
        """
        for first, last, number in heard.present:
            keys = [word.key for word in heard.words[first:last]]
            is_word = len(keys) == 1 and self.finder.known(keys[0])
            if is_word or max(map(self.finder.rarity, keys)) < ORDINARY:
                continue
            start = heard.words[first].start
            end = heard.words[last - 1].end
            written = text.text[start:end]
            term = self._cased(self._terms[number].text, heard)
            if term != term.lower() and written.casefold() == term.casefold():
                change = TermChange(text.id, start, end, written, term, OF_CASE)
                yield Correction(first, last, change)

    def _change(
        self, text: Text, heard: Heard, span: TermSpan, score: float
    ) -> TermChange:
        """Return the correction of a span, with the punctuation that belongs to the
        heard form or the term.
        """
        start = heard.words[span.first].start
        end = heard.words[span.last - 1].end
        term = self._terms[span.term].text
        if span.possessive:
            term += "'s"
        tail = "." if term.endswith(".") else ""
        if span.form:
            score = ORDERED
            tail = span.form.tail or tail
            if text.text.endswith(span.form.head, 0, start):
                start -= len(span.form.head)
        if text.text.startswith(tail, end):
            end += len(tail)
        written = text.text[start:end]
        return TermChange(text.id, start, end, written, self._cased(term, heard), score)

    def _cased(self, term: str, heard: Heard) -> str:
        """Return a term as the list has it; in capitals in a text in capitals; of a
        list in capitals in the text's case.
        """
        if heard.case == "upper":
            return term.upper()
        if not self._listed_in_capitals:
            return term
        if heard.case == "lower":
            return term.lower()
        words = []
        for word in term.split(" "):
            words.append(word if len(word) <= ACRONYM else word.capitalize())
        return " ".join(words)

    def texts(self, texts: Sequence[Text]) -> list[Corrected]:
        """Return texts of one or more recordings after their corrections."""
        corrected = []
        for text, changes in zip(texts, self(texts), strict=True):
            new = replaced(text.text, [change.replacement for change in changes])
            corrected.append(Corrected(new, tuple(changes)))
        return corrected

    def document(
        self, passages: Iterable[Passage]
    ) -> Iterator[tuple[str, list[TermChange]]]:
        """Yield the passages of a document (`rescore.asr.documents.passages`) as they
        are written, each with its corrections.
        """
        every = list(passages)
        corrections = iter(self([passage.text for passage in every if passage.text]))
        for passage in every:
            changes = next(corrections) if passage.text else []
            yield passage.render([change.replacement for change in changes]), changes


ACRONYM = 3
"""Letters of a word of a list in capitals that stays in capitals, at most."""


def choose(candidates: Sequence[Correction], threshold: float) -> list[TermChange]:
    """Return the corrections of a text that do not overlap and together gain the most
    above the threshold, in order.

    Args:
        candidates: The possible corrections.
        threshold: The log-odds above which a correction gains.
    """
    by_end: defaultdict[int, list[Correction]] = defaultdict(list)
    for candidate in candidates:
        by_end[candidate.last].append(candidate)
    gains = [0.0]
    taken: list[Correction | None] = [None]
    for end in range(1, max(by_end, default=0) + 1):
        gains.append(gains[-1])
        taken.append(None)
        for candidate in by_end[end]:
            odds = min(candidate.change.log_odds, ORDERED)
            gain = gains[candidate.first] + odds - max(threshold, -ORDERED)
            if gain > gains[end]:
                gains[end] = gain
                taken[end] = candidate
    changes = []
    end = len(taken) - 1
    while end:
        last = taken[end]
        end -= 1
        if last:
            changes.append(last.change)
            end = last.first
    return changes[::-1]


def correct(
    texts: Iterable[str],
    words: str | Path | Sequence[str],
    threshold: float | None = None,
    *,
    case: bool = True,
) -> list[Corrected]:
    """Return texts of one recording, in which words that sound like listed terms are
    corrected, each with its changes.

    Args:
        texts: In order; whether a term occurs elsewhere in the texts counts.
        words: A file of terms, as `--words` of `rescore correct`, or its lines.
        threshold: Least probability of a correction; None for the recommended one.
        case: Whether terms that differ from the list in case alone are corrected.

    Raises:
        UserError: The terms are absent, empty or damaged, or `texts` is no list.

    Example:
        >>> corrected = correct(["ask gold man sacks"], ["Goldman Sachs"])[0]
        >>> corrected.text, corrected.changes[0].heard
        ('ask Goldman Sachs', 'gold man sacks')
    """
    check_number("correct", "threshold", threshold)
    listed = WordList.load(Path(words)) if isinstance(words, (str, Path)) else words
    every = enumerate(checked_texts("correct", "texts", texts), 1)
    numbered = [Text(str(number), "", text) for number, text in every]
    return Corrector(listed, threshold, case=case).texts(numbered)
