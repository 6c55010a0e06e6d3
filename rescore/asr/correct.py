"""Correction of texts: which spans that sound like a listed term are replaced by it."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.channel import Channel
from rescore.asr.formats.documents import Part, Replacement, Text, replaced
from rescore.asr.terms import Span, Term, TermIndex, Word, read_terms, split
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


SHARE, SHARE_OF_RARITY, MOST_SHARE = 0.1, 0.03, 0.4
"""Share of sounds in which a span may differ from a term: at least; more for each unit
of -log P of the span's rarest word beyond `FREQUENT`; and at most, before `SHARE` is
added for spans of more than `SHORT` sounds.
"""
FREQUENT, SHORT = 5.0, 5
ORDINARY = 9.0
"""-log P of a word up to which it is frequent, natural log."""
NEAR = 0.25
"""Share of sounds up to which a span counts as a further trace of a term in its
recording.
"""


@dataclass
class Recording:
    """What is known of a recording: counts of its words, of the terms in it, and of the
    spans that sound like them.
    """

    words: Counter[str] = field(default_factory=Counter)
    terms: Counter[int] = field(default_factory=Counter)
    near: Counter[int] = field(default_factory=Counter)


@dataclass
class Heard:
    """A text, cut into words, and the spans that may be corrected."""

    text: str
    words: list[Word]
    present: list[tuple[int, int, int]]
    """The terms that the text has: first word, word behind the last, number of the
    term.
    """
    spans: list[Span]

    @cached_property
    def case(self) -> str:
        """upper, lower, or mixed."""
        if self.text == self.text.lower():
            return "lower"
        return "upper" if self.text == self.text.upper() else "mixed"


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
        """
        Raises:
            UserError: the file is absent or damaged, or has other features.
        """
        model = parsed(read_json(path), cls, str(path))
        if model.features != FEATURES:
            raise UserError(
                f"{path}: has other features than this version; train the model again"
            )
        return model

    def __call__(self, table: Floats) -> Floats:
        """(spans, features) -> (spans,) log-odds."""
        total = np.full(len(table), self.baseline)
        rows = np.arange(len(table))
        for tree in self.trees:
            nodes = np.array(tree)
            place = np.zeros(len(table), dtype=np.int64)
            while (inner := nodes[place, 2] > 0).any():
                left = table[rows, nodes[place, 0].astype(np.int64)] <= nodes[place, 1]
                place = np.where(
                    inner, nodes[place, np.where(left, 2, 3)].astype(np.int64), place
                )
            total += nodes[place, 4]
        return total


class Finder:
    """Finds candidates, and describes each by its features."""

    def __init__(
        self, terms: Sequence[Term], lexicon: Lexicon, channel: Channel
    ) -> None:
        self._terms, self._channel = terms, channel
        self.index = TermIndex(terms)
        self.rarity = cache(lambda key: -lexicon.log_prob(key))
        self.known = lexicon.__contains__
        self._costs: dict[tuple[int, str], float] = {}

    def share(self, span: Span) -> float:
        return span.distance / max(
            len(span.sound), len(self._terms[span.term].sound), 1
        )

    def __call__(self, text: str) -> Heard:
        """The candidates of a text."""
        words = split(text)
        listed = {
            place: term
            for term in self.index.occurrences(words)
            for place in range(*term[:2])
        }
        ordered = [
            span
            for span in self.index.ordered(text, words)
            if not _inside(span, listed.get(span.first))
        ]
        taken = {place for span in ordered for place in range(span.first, span.last)}
        present = [
            term
            for term in dict.fromkeys(listed.values())
            if taken.isdisjoint(range(*term[:2]))
        ]
        spans = [
            span
            for span in self.index.spans(text, words, self._limit(words))
            for places in [range(span.first, span.last)]
            if taken.isdisjoint(places)
            and all(
                self._contains(span, listed[place])
                for place in places
                if place in listed
            )
        ]
        every = sorted([*ordered, *self._nearest(spans)], key=lambda span: span.first)
        return Heard(text, words, present, every)

    def _limit(self, words: Sequence[Word]) -> Callable[[int, int, int], float]:
        """The share of sounds in which a span of a text may differ from a term: more if
        it has a rare word.
        """
        rarity = [self.rarity(word.key) for word in words]

        def limit(first: int, last: int, length: int) -> float:
            share = SHARE + SHARE_OF_RARITY * max(
                0.0, max(rarity[first:last]) - FREQUENT
            )
            return min(share, MOST_SHARE) + (SHARE if length > SHORT else 0.0)

        return limit

    def look_up(self, texts: Iterable[str]) -> None:
        """Look the sounds of many texts up together, which is faster than text by
        text.
        """
        every = [(text, split(text)) for text in texts]
        self.index.look_up(
            question
            for text, words in every
            for question in self.index.questions(text, words, self._limit(words))
        )

    def _nearest(self, spans: list[Span]) -> list[Span]:
        """The spans without those that overlap with a span nearer to the same term."""
        return [
            span
            for span, others in zip(spans, neighbours(spans), strict=True)
            if all(
                other.term != span.term or self.share(other) >= self.share(span)
                for other in others
            )
        ]

    def _contains(self, span: Span, there: tuple[int, int, int]) -> bool:
        """Whether a term that stands in a span is a shorter part of the span's term,
        and wholly in the span.
        """
        ours, theirs = self._terms[span.term].words, self._terms[there[2]].words
        return (
            len(theirs) < len(ours)
            and span.first <= there[0]
            and there[1] <= span.last
            and any(ours[at : at + len(theirs)] == theirs for at in range(len(ours)))
        )

    def add(self, recording: Recording, heard: Heard) -> None:
        """Count what a text has for the features of its recording."""
        recording.words.update(word.key for word in heard.words)
        recording.terms.update(number for _, _, number in heard.present)
        recording.near.update(
            {span.term for span in heard.spans if self.share(span) <= NEAR}
        )

    def features(self, heard: Heard, recording: Recording) -> Floats:
        """(spans, features); the recording counts the text itself."""
        spans, words = heard.spans, heard.words
        table = np.zeros((len(spans), len(FEATURES)))
        if not spans:
            return table
        self.weigh(spans)
        letters = [word.text for word in words]
        mixed = any(text[:1].isupper() for text in letters) and any(
            text.islower() for text in letters
        )
        rarity = [self.rarity(word.key) for word in words]
        for row, (span, overlapping) in enumerate(
            zip(spans, neighbours(spans), strict=True)
        ):
            term = self._terms[span.term].words
            keys = [word.key for word in words[span.first : span.last]]
            rare = rarity[span.first : span.last]
            sound, channel = (
                self._terms[span.term].sound,
                self._costs[span.term, span.sound],
            )
            share, others, same = self.share(span), 0.5, 0.5
            for other in overlapping:
                if other.term != span.term:
                    others = min(others, self.share(other))
                elif other is not span:
                    same = min(same, self.share(other))
            rarest, rarity_of_term = (
                max(term, key=self.rarity),
                [self.rarity(word) for word in term],
            )
            table[row] = (
                share,
                channel,
                channel / max(len(sound), 1),
                Levenshtein.normalized_similarity("".join(keys), "".join(term)),
                len(sound),
                len(keys),
                len(term),
                max(rare),
                sum(rare) / len(rare),
                rare[0],
                rare[-1],
                max(rarity_of_term),
                sum(rarity_of_term) / len(term),
                span.sound[:1] == sound[:1],
                span.sound[-1:] == sound[-1:],
                sum(word in keys for word in term) / len(term),
                others - share,
                same - share,
                (
                    np.mean(
                        [text[:1].isupper() for text in letters[span.first : span.last]]
                    )
                    if mixed
                    else -1.0
                ),
                span.possessive,
                sum(not self.known(key) for key in keys) / len(keys),
                math.log1p(recording.terms[span.term]),
                math.log1p(max(0, recording.words[rarest] - keys.count(rarest))),
                math.log1p(max(0, recording.near[span.term] - (share <= NEAR))),
                math.log1p(max(0, min(recording.words[key] for key in keys) - 1)),
                math.log1p(max(0, recording.words[keys[rare.index(max(rare))]] - 1)),
            )
        return table

    def weigh(self, spans: Iterable[Span]) -> None:
        """Compute the channel's log-probabilities of pairs that are new."""
        new = list(
            dict.fromkeys(
                (span.term, span.sound)
                for span in spans
                if (span.term, span.sound) not in self._costs
            )
        )
        values = self._channel.log_probs(
            [self._terms[term].sound for term, _ in new], [heard for _, heard in new]
        )
        self._costs |= dict(zip(new, values.tolist(), strict=True))


def neighbours(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """For each span of a text, those that overlap with it, and itself; spans are in the
    order of their first words.
    """
    firsts = [span.first for span in spans]
    longest = max((span.last - span.first for span in spans), default=0)
    for span in spans:
        low, high = (
            bisect_left(firsts, span.first - longest),
            bisect_left(firsts, span.last),
        )
        yield [other for other in spans[low:high] if span.first < other.last]


def _inside(span: Span, term: tuple[int, int, int] | None) -> bool:
    """Whether a span is a part of a longer term that the text has."""
    return (
        term is not None
        and span.last <= term[1]
        and span.last - span.first < term[1] - term[0]
    )


class Change(NamedTuple):
    """A correction."""

    id: str
    """Of the utterance."""
    start: int
    end: int
    """Its place in the text, in characters."""
    heard: str
    meant: str
    log_odds: float
    """That the correction is right, natural log."""

    @property
    def probability(self) -> float:
        return math.exp(self.log_prob)

    @property
    def log_prob(self) -> float:
        """Natural log of the probability."""
        return -math.log1p(math.exp(-min(self.log_odds, ORDERED)))

    @property
    def replacement(self) -> Replacement:
        return Replacement(self.start, self.end, self.meant)


class Candidate(NamedTuple):
    """A possible correction, and its place in words: the first, and the word behind the
    last.
    """

    first: int
    last: int
    change: Change


class Corrected(NamedTuple):
    """A text after its corrections."""

    text: str
    changes: tuple[Change, ...]


ORDERED = 50.0
"""Log-odds of a correction that the list orders (`heard => term`)."""
OF_CASE = 2.0
"""Log-odds of a correction of case alone: 90 % of them are right
(docs/results/terms.md).
"""


def log_odds(probability: float) -> float:
    """The natural log of the odds; infinite for 0 and 1."""
    if not 0.0 < probability < 1.0:
        return math.inf if probability >= 1.0 else -math.inf
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
        """
        Args:
            words: the list, or its lines.
            threshold: least probability of a correction; None for the recommended one.
            case: whether terms that differ from the list in case alone are corrected. A
                list all in capitals does not tell the case.

        Raises:
            UserError: a line of the list is not valid.
        """
        if not isinstance(words, WordList):
            words = WordList(tuple(words), "words")
        self._terms, self._listed = read_terms(words), words
        folder = shipped_models() / "terms"
        lexicon = Lexicon.load(shipped_models() / "tta" / NAME)
        self._channel = Channel.load(folder)
        self.finder = Finder(self._terms, lexicon, self._channel)
        self._trees = Trees.load(folder / "terms.json")
        self.threshold = log_odds(
            self._trees.threshold if threshold is None else threshold
        )
        self._listed_in_capitals = all(
            term.text == term.text.upper() for term in self._terms
        )
        self._case = case and not self._listed_in_capitals

    def __call__(self, texts: Sequence[Text]) -> list[list[Change]]:
        """The corrections of each text, in order."""
        return [
            choose(candidates, self.threshold) for candidates in self.candidates(texts)
        ]

    @cached_property
    def digest(self) -> str:
        """Of the list with its heard forms, and of the model that decides, for
        signatures.
        """
        # 0.0 and [] stood for weights and terms of utterances, without which signatures
        # of the same list would differ.
        listed = sorted(
            repr((term.text, 0.0, sorted(term.heard))) for term in self._terms
        )
        model = (self._trees.features, self._trees.baseline, self._trees.trees)
        return hashlib.sha256(
            repr((listed, [], model, self._channel.digest)).encode()
        ).hexdigest()[:12]

    def candidates(self, texts: Sequence[Text]) -> list[list[Candidate]]:
        """What may be corrected in each text; neighbouring texts of a recording are
        looked at together.
        """
        names = self._listed.names
        if name := next(
            (text.id for text in texts if text.id in names and not text.id.isdecimal()),
            None,
        ):
            raise UserError(
                f"{self._listed.path}: a line begins with the utterance {name}; terms"
                " need one list for all utterances"
            )
        recordings = groupby(texts, key=lambda text: text.recording)
        described = [
            pair for _, group in recordings for pair in self._described(list(group))
        ]
        scores = iter(
            self._trees(
                np.concatenate([features for _, features in described])
            ).tolist()
            if texts
            else ()
        )
        every = []
        for text, (heard, _) in zip(texts, described, strict=True):
            candidates = [
                Candidate(
                    span.first, span.last, self._change(text, heard, span, next(scores))
                )
                for span in heard.spans
            ]
            candidates += self.recased(text, heard) if self._case else ()
            every.append(
                [
                    candidate
                    for candidate in candidates
                    if candidate.change.meant != candidate.change.heard
                ]
            )
        return every

    def _described(self, texts: Sequence[Text]) -> Iterator[tuple[Heard, Floats]]:
        """The spans of texts of one recording, and their features."""
        self.finder.look_up(text.text for text in texts)
        recording = Recording()
        every = [self.finder(text.text) for text in texts]
        for text, heard in zip(texts, every, strict=True):
            if not text.repeated:
                self.finder.add(recording, heard)
        self.finder.weigh([span for heard in every for span in heard.spans])
        yield from ((heard, self.finder.features(heard, recording)) for heard in every)

    def recased(self, text: Text, heard: Heard) -> Iterator[Candidate]:
        """The terms that a text has, in the case of the list. A term in lower case may
        begin a sentence, and a word of the lexicon, or several frequent words (`to
        do`), may be ordinary words.
        """
        for first, last, number in heard.present:
            words = [word.key for word in heard.words[first:last]]
            if max(map(self.finder.rarity, words)) < ORDINARY or (
                len(words) == 1 and self.finder.known(words[0])
            ):
                continue
            start, end = heard.words[first].start, heard.words[last - 1].end
            written, term = (
                text.text[start:end],
                self._cased(self._terms[number].text, heard),
            )
            if term != term.lower() and written.casefold() == term.casefold():
                yield Candidate(
                    first, last, Change(text.id, start, end, written, term, OF_CASE)
                )

    def _change(self, text: Text, heard: Heard, span: Span, score: float) -> Change:
        start, end = heard.words[span.first].start, heard.words[span.last - 1].end
        term = self._terms[span.term].text + ("'s" if span.possessive else "")
        tail = "." if term.endswith(".") else ""
        if span.form:
            head, tail, score = span.form.head, span.form.tail or tail, ORDERED
            start -= len(head) if text.text.endswith(head, 0, start) else 0
        end += len(tail) if text.text.startswith(tail, end) else 0
        written = text.text[start:end]
        return Change(text.id, start, end, written, self._cased(term, heard), score)

    def _cased(self, term: str, heard: Heard) -> str:
        """A term as the list has it; in capitals in a text in capitals; of a list in
        capitals in the text's case.
        """
        if heard.case == "upper":
            return term.upper()
        if not self._listed_in_capitals:
            return term
        if heard.case == "lower":
            return term.lower()
        words = term.split(" ")
        return " ".join(
            word if len(word) <= ACRONYM else word.capitalize() for word in words
        )

    def texts(self, texts: Sequence[Text]) -> list[Corrected]:
        """The texts after their corrections."""
        return [
            Corrected(
                replaced(text.text, [change.replacement for change in changes]),
                tuple(changes),
            )
            for text, changes in zip(texts, self(texts), strict=True)
        ]

    def document(self, parts: Iterable[Part]) -> Iterator[tuple[str, list[Change]]]:
        """The parts of a document as they are written, with their corrections."""
        every = list(parts)
        corrections = iter(self([part.text for part in every if part.text]))
        for part in every:
            changes = next(corrections) if part.text else []
            yield part.render([change.replacement for change in changes]), changes


ACRONYM = 3
"""Letters of a word of a list in capitals that stays in capitals, at most."""


def choose(candidates: Sequence[Candidate], threshold: float) -> list[Change]:
    """The corrections of a text, in order, that do not overlap and gain the most above
    the threshold together.
    """
    by_end: defaultdict[int, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_end[candidate.last].append(candidate)
    gains: list[float] = [0.0]
    taken: list[Candidate | None] = [None]
    for end in range(1, max(by_end, default=0) + 1):
        gains.append(gains[-1])
        taken.append(None)
        for candidate in by_end[end]:
            odds = min(candidate.change.log_odds, ORDERED)
            if (
                gain := gains[candidate.first] + odds - max(threshold, -ORDERED)
            ) > gains[end]:
                gains[end], taken[end] = gain, candidate
    changes, end = [], len(taken) - 1
    while end:
        last = taken[end]
        changes += [last.change] if last else []
        end = last.first if last else end - 1
    return changes[::-1]


def correct(
    texts: Iterable[str],
    words: str | Path | Sequence[str],
    threshold: float | None = None,
    *,
    case: bool = True,
) -> list[Corrected]:
    """Texts of one recording, in which words that sound like listed terms are
    corrected, each with its changes.

    Args:
        texts: in order; whether a term occurs elsewhere in the texts counts.
        words: a file of terms, as `--words` of `rescore correct`, or its lines.
        threshold: least probability of a correction; None for the recommended one.
        case: whether terms that differ from the list in case alone are corrected.

    Raises:
        UserError: the list of terms is absent, empty or damaged.

    Example:
        >>> corrected = correct(["ask gold man sacks"], ["Goldman Sachs"])[0]
        >>> corrected.text, corrected.changes[0].heard
        ('ask Goldman Sachs', 'gold man sacks')
    """
    listed = WordList.load(Path(words)) if isinstance(words, (str, Path)) else words
    return Corrector(listed, threshold, case=case).texts(
        [Text(str(number), "", text) for number, text in enumerate(texts, 1)]
    )
