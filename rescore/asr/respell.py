"""Respelling: candidates from a lexicon for what a recogniser wrote, the hypotheses that they make, and the respelling
of an experiment, which chooses lexicon and channel."""

from __future__ import annotations

import heapq
import logging
import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from rescore.asr.channel import Channel, collect, learn
from rescore.asr.correct import Candidate as Correction
from rescore.asr.correct import Corrector
from rescore.asr.formats.documents import Text, recording_of, replaced
from rescore.asr.merge import refuse_scored
from rescore.config import RunConfig
from rescore.errors import UserError, counted
from rescore.expansion import Expansion
from rescore.lms import parse, shipped_models
from rescore.lms.lexicon import NAME, Lexicon, spelled
from rescore.metrics.listed import WordList
from rescore.metrics.significance import split
from rescore.nbest import (
    CHANNEL,
    EDITS,
    FIRST_PASS,
    Column,
    Hypothesis,
    NbestList,
    Origin,
    Role,
    content_hash,
)
from rescore.options import Declared, option
from rescore.parts import did_you_mean

log = logging.getLogger(__name__)

DISTANCE = 3
"""Letters in which a word may differ."""
PROPOSED = 200
"""Words that the channel weighs, for each that was heard."""
MAX_CANDIDATES = 12
"""Candidates of each word."""
EDIT_COST = 3.0
"""What each letter that differs costs in the choice of the proposed, natural log."""
PRIOR = 0.5
"""The weight of the lexicon's log-probability beside the channel's."""
FREQUENT = 1e-5
"""The share of a text from which on a word may be one of two that were run together."""
CELLS = 1 << 24
"""Distances computed at once: bounds memory, a byte each."""

Numbers = npt.NDArray[np.int64]


class Candidate(NamedTuple):
    """What may have been meant."""

    text: str
    """One word, or two."""
    channel: float
    """Natural log of P(heard | meant)."""
    prior: float
    """Natural log of its probability in the lexicon, of two words the sum."""

    @property
    def score(self) -> float:
        """By this the candidates of a word are ordered, higher is better."""
        return self.channel + PRIOR * self.prior


KEPT = 1 << 17
"""Words whose candidates are kept."""


class Proposer:
    """Looks for candidates; keeps the candidates of recent words."""

    def __init__(self, channel: Channel, lexicon: Lexicon) -> None:
        self._channel, self._lexicon = channel, lexicon
        words = sorted(lexicon.counts, key=len)
        self._words = np.array(words, dtype=object)
        self._priors = np.array([lexicon.log_prob(word) for word in words])
        lengths = np.array([len(word) for word in words])
        self._starts = np.searchsorted(lengths, np.arange(lengths[-1] + DISTANCE + 2))
        self._frequent = {word for word in words if lexicon.counts[word] >= FREQUENT * lexicon.total}
        self._near_frequent = _deletions(word for word in self._frequent if len(word) > 2)
        self._known: dict[str, list[Candidate]] = {}

    def __call__(self, heard: Iterable[str]) -> dict[str, list[Candidate]]:
        """The best `MAX_CANDIDATES` candidates for each of some words in lower case, the best first."""
        every = list(dict.fromkeys(heard))
        if len(self._known) > KEPT:
            self._known.clear()
        new = sorted((word for word in every if word not in self._known), key=len)
        proposals = dict(zip(new, self._near(new), strict=True))
        for word in new:
            proposals[word] += self._split(word)
        pairs = [(word, meant) for word in new for meant in proposals[word]]
        channel = self._channel.log_probs([meant for _, meant in pairs], [word for word, _ in pairs])
        for word, group in groupby(zip(pairs, channel.tolist(), strict=True), key=lambda item: item[0][0]):
            candidates = [
                Candidate(meant, log_prob, sum(map(self._lexicon.log_prob, meant.split())))
                for (_, meant), log_prob in group
            ]
            self._known[word] = sorted(candidates, key=lambda candidate: (-candidate.score, candidate.text))[
                :MAX_CANDIDATES
            ]
        return {word: self._known.get(word, []) for word in every}

    def _near(self, heard: Sequence[str]) -> Iterator[list[str]]:
        """For words in order of length, other ones of the lexicon that differ in few letters."""
        for length, group in groupby(heard, key=len):
            low, high = (
                int(self._starts[min(max(end, 0), len(self._starts) - 1)])
                for end in (length - DISTANCE, length + DISTANCE + 1)
            )
            words, priors = self._words[low:high].tolist(), self._priors[low:high]
            same = list(group)
            part = max(1, CELLS // max(len(words), 1))
            for start in range(0, len(same), part):
                distances = process.cdist(
                    same[start : start + part],
                    words,
                    scorer=Levenshtein.distance,
                    score_cutoff=DISTANCE,
                    dtype=np.uint8,
                )
                for row in distances:
                    near = np.flatnonzero((row <= DISTANCE) & (row > 0))
                    order = np.argsort(EDIT_COST * row[near] - PRIOR * priors[near], kind="stable")
                    yield [words[index] for index in near[order[:PROPOSED]].tolist()]

    def _split(self, heard: str) -> list[str]:
        """Two frequent words that make up a word, one of them perhaps with a letter more, less or other."""
        splits = set()
        for at in range(1, len(heard)):
            left, right = heard[:at], heard[at:]
            if left in self._frequent:
                splits |= {f"{left} {word}" for word in self._close(right)}
            if right in self._frequent:
                splits |= {f"{word} {right}" for word in self._close(left)}
        return sorted(splits)

    def _close(self, piece: str) -> set[str]:
        """Frequent words that differ from a piece in one letter or none."""
        close_words = {piece} & self._frequent
        for shorter in _shorter(piece) if len(piece) > 2 else ():
            close_words |= {
                word for word in self._near_frequent.get(shorter, ()) if Levenshtein.distance(word, piece) <= 1
            }
        return close_words


def _shorter(word: str) -> set[str]:
    """A word, and what is left of it without one of its letters."""
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}


def _deletions(words: Iterable[str]) -> dict[str, list[str]]:
    """The symmetric-delete index of distance 1: what is left of words without a letter, and whose it is."""
    index: defaultdict[str, list[str]] = defaultdict(list)
    for word in words:
        for shorter in _shorter(word):
            index[shorter].append(word)
    return dict(index)


DEFAULT_NUMBER = 20
SELECTION = 3
"""Raised when other new hypotheses are chosen than before: it is in signatures. 1 weighed the changed words alone, 2
added first-pass scores, whose unit differs by toolkit."""
LEXICON_WEIGHT, CHANNEL_WEIGHT, EDIT_BONUS = 0.65, 0.7, 3.0
"""Beside -log(rank) of the original, where a list's new hypotheses are chosen: of the words' log-probabilities in the
lexicon, of the channel, and for each respelled word. They had the best oracle on a third of LibriSpeech dev-other."""
WINDOW = 200
"""Lists whose words are looked up together."""


class Version(NamedTuple):
    """A hypothesis in the making."""

    score: float
    """By which the best are chosen, higher is better."""
    chosen: tuple[tuple[int, Candidate], ...]
    """The places of respelled words, and what stands there."""

    @property
    def channel(self) -> float:
        return sum(candidate.channel for _, candidate in self.chosen)

    def applied(self, words: Sequence[str]) -> str:
        """The text of the hypothesis that has these words."""
        new = dict(self.chosen)
        return " ".join(cased(new[place].text, word) if place in new else word for place, word in enumerate(words))


class Respeller:
    """Adds up to `number` hypotheses to each list of a stream."""

    def __init__(self, channel: Channel, lexicon: Lexicon, number: int = DEFAULT_NUMBER) -> None:
        self._lexicon, self._number = lexicon, number
        self._propose = Proposer(channel, lexicon)

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Copies of the lists with new hypotheses behind the old ones."""
        stream = iter(lists)
        while window := list(islice(stream, WINDOW)):
            words = {
                word
                for nbest in window
                for hypothesis in nbest.hypotheses
                for word in hypothesis.text.lower().split()
                if self.doubtful(word)
            }
            candidates = self._propose(sorted(words))
            for nbest in window:
                yield self.respell(nbest, candidates)

    def doubtful(self, word: str) -> bool:
        """Whether a word in lower case is none of the lexicon."""
        return word not in self._lexicon and spelled(word)

    def respell(self, nbest: NbestList, candidates: Mapping[str, Sequence[Candidate]]) -> NbestList:
        """A copy of one list with new hypotheses, given candidates for words in lower case.

        Raises:
            UserError: the list has scores of models, which the new hypotheses would lack.
        """
        refuse_scored(nbest, "respell")
        original = {CHANNEL: 0.0, EDITS: 0.0}
        old = [replace(hypothesis, scores=original | hypothesis.scores) for hypothesis in nbest.hypotheses]
        texts = [hypothesis.text.split() for hypothesis in nbest.hypotheses]
        firsts = first_pass_ranks(nbest)
        if self._lexicon.by_utterance:
            candidates = {
                word: [
                    candidate for candidate in candidates[word] if self._lexicon.knows(candidate.text.split(), nbest.id)
                ]
                for word in {word.lower() for words in texts for word in words} & candidates.keys()
            }
        versions = [
            (version, place)
            for place, rank in firsts.items()
            for version in self._versions(texts[place], -math.log(rank), candidates, self._number + len(texts))
        ]
        versions.sort(key=lambda item: -item[0].score)
        room = self._number - sum(one.origin is Origin.RESPELLED for one in old)
        seen = {" ".join(words).lower() for words in texts}
        new: list[Hypothesis] = []
        for version, place in versions:
            text = version.applied(texts[place])
            if text.lower() not in seen and len(new) < room:
                seen.add(text.lower())
                new.append(_respelled(old[place], text, version.channel, len(version.chosen)))
        return replace(nbest, hypotheses=[*old, *new])

    def _versions(
        self, words: Sequence[str], first: float, candidates: Mapping[str, Sequence[Candidate]], number: int
    ) -> list[Version]:
        """The best `number` texts that candidates make of a hypothesis, the best first, without itself."""
        heard = [word.lower() for word in words]
        beam = [Version(first + LEXICON_WEIGHT * sum(map(self._lexicon.log_prob, heard)), ())]
        for place, word in enumerate(heard):
            if options := candidates.get(word):
                gains = [(self._gain(word, candidate), (place, candidate)) for candidate in options]
                longer = [Version(old.score + gain, (*old.chosen, new)) for old in beam for gain, new in gains]
                beam = heapq.nlargest(number, [*beam, *longer], key=lambda version: version.score)
        return [version for version in beam if version.chosen]

    def _gain(self, heard: str, meant: Candidate) -> float:
        words = LEXICON_WEIGHT * (meant.prior - self._lexicon.log_prob(heard))
        return words + CHANNEL_WEIGHT * meant.channel + EDIT_BONUS


def first_pass_ranks(nbest: NbestList) -> dict[int, int]:
    """The places of the hypotheses that new hypotheses may come from, and their ranks by first-pass score, from 1."""
    scores = nbest.column(FIRST_PASS)
    ranks = {score: rank for rank, score in enumerate(sorted(set(scores), reverse=True), 1)}
    return {
        place: ranks[score]
        for place, (hypothesis, score) in enumerate(zip(nbest.hypotheses, scores, strict=True))
        if math.isfinite(score)
    }


def _respelled(original: Hypothesis, text: str, channel: float, edits: int) -> Hypothesis:
    scores = original.scores
    columns = {CHANNEL: scores[CHANNEL] + channel, EDITS: scores[EDITS] + edits}
    return Hypothesis(text, scores | columns, Origin.RESPELLED)


LOOKED_AT = 10
"""Hypotheses of a list in which terms are looked for: the best by first-pass score."""
TOGETHER = 2_000
"""Lists of a recording that are looked at together."""
LEAST_LOG_ODDS = -3.0
"""Of a correction to a term that makes a new hypothesis, natural log."""


class TermRespeller:
    """Adds up to `number` hypotheses to each list of a stream, in which spans that sound like terms are the terms."""

    def __init__(self, words: WordList, number: int) -> None:
        self._corrector, self._number = Corrector(words), number
        self.digest = self._corrector.digest

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        for recording, group in groupby(lists, key=lambda nbest: recording_of(nbest.id)):
            while window := list(islice(group, TOGETHER)):
                yield from self._together(recording, window)

    def _together(self, recording: str, window: Sequence[NbestList]) -> Iterator[NbestList]:
        """Lists of a recording, whose other texts tell whether a term is probable."""
        ranks = [
            dict(sorted(first_pass_ranks(nbest).items(), key=lambda item: item[1])[:LOOKED_AT]) for nbest in window
        ]
        texts = [
            Text(nbest.id, recording, nbest.hypotheses[place].text, place != next(iter(own)))
            for nbest, own in zip(window, ranks, strict=True)
            for place in own
        ]
        self._corrector.restart()
        corrections = iter(self._corrector.candidates(texts))
        for nbest, own in zip(window, ranks, strict=True):
            yield self._corrected(nbest, own, list(islice(corrections, len(own))))

    def _corrected(
        self, nbest: NbestList, ranks: Mapping[int, int], corrections: Sequence[Sequence[Correction]]
    ) -> NbestList:
        refuse_scored(nbest, "respell")
        old = [replace(one, scores={CHANNEL: 0.0, EDITS: 0.0} | one.scores) for one in nbest.hypotheses]
        versions = [
            (score - math.log(rank), place, chosen)
            for (place, rank), candidates in zip(ranks.items(), corrections, strict=True)
            for score, chosen in _combined(candidates, self._number + len(old))
        ]
        versions.sort(key=lambda item: -item[0])
        seen = {" ".join(one.text.lower().split()) for one in old}
        lower = all(one.text == one.text.lower() for one in old)
        new: list[Hypothesis] = []
        for _, place, chosen in versions:
            text = replaced(old[place].text, [correction.change.replacement for correction in chosen])
            if (key := " ".join(text.lower().split())) not in seen and len(new) < self._number:
                seen.add(key)
                channel = sum(correction.change.log_prob for correction in chosen)
                new.append(_respelled(old[place], key if lower else text, channel, len(chosen)))
        return replace(nbest, hypotheses=[*old, *new])


def _combined(corrections: Iterable[Correction], number: int) -> list[tuple[float, tuple[Correction, ...]]]:
    """The best `number` sets of corrections of a text that do not overlap, the best first, each in order."""
    beam: list[tuple[float, tuple[Correction, ...]]] = [(0.0, ())]
    for correction in sorted(corrections, key=lambda one: (one.first, one.last)):
        if correction.change.log_odds >= LEAST_LOG_ODDS:
            longer = [
                (score + correction.change.log_odds, (*chosen, correction))
                for score, chosen in beam
                if not chosen or chosen[-1].last <= correction.first
            ]
            beam = heapq.nlargest(number, [*beam, *longer], key=lambda item: item[0])
    return [item for item in beam if item[1]]


def cased(text: str, like: str) -> str:
    """A text in the case of a word: upper, with a capital, or lower."""
    if like.isupper() and (len(like) > 1 or text != like.lower()):
        return text.upper()
    return text.capitalize() if like[:1].isupper() else text


CHANNELS = ("shipped", "dev", "folds")
"""Channels that are no folder: the shipped one; one learned from the dev lists; of the lists themselves, of which each
part is respelled with what was learned from the others."""
LEARNABLE = 500
"""Dev lists from which on a channel is learned from them, where no channel is given."""
FOLDS = 3
HEAD = 100
"""Lists that are looked at before the first is respelled."""
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""Scripts that put no blanks between words, as the names of their letters begin."""
KNOWN = 0.5
"""Share of words that the lexicon has to know; of fewer, it is one of another language."""


def find_lexicon(path: str | None, specs: Sequence[str], words: WordList | None = None) -> Lexicon:
    """The lexicon of a file, or of the first language model that has one, else the shipped T-TA's; with own words.

    Raises:
        UserError: a file is absent or damaged.
    """
    places = [model.path / NAME for model in map(parse, specs)]
    shipped = shipped_models() / "tta" / NAME
    lexicon = Lexicon.load(Path(path) if path else next((place for place in places if place.is_file()), shipped))
    if words is None:
        return lexicon
    return lexicon.with_words(chain.from_iterable(map(str.split, words.entries)), words.lower)


class Respelling(Expansion):
    """The respelling of one experiment: which lexicon, which channel, and which lists it was learned from."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        respell: int = option(
            0,
            "Add up to N hypotheses to each list, after --recombine: words outside the lexicon are replaced by words "
            "of the lexicon, and words that sound like a term of --words by the term.",
            metavar="N",
            low=0,
        )
        channel: str | None = option(
            None,
            "With --respell: model of misheard words. DIR: a trained model; dev: learned from the dev lists; folds: "
            "learned from the lists that are respelled, each third from the other two; shipped: comes with rescore.  "
            "[default: dev with 500 dev lists or more, else shipped]",
            metavar="DIR|dev|folds|shipped",
            needs="respell",
            reads=True,
        )
        lexicon: str | None = option(
            None,
            "With --respell: file of words with counts.  [default: in the folder of the first --lm]",
            metavar="FILE",
            needs="respell",
            reads=True,
        )

    adds = (CHANNEL, EDITS)
    reads_words = True
    reads_neighbours = True
    """A term is probable if its recording has it."""

    def __init__(
        self,
        number: int,
        lexicon: Lexicon,
        channel: str | None = None,
        dev: Sequence[NbestList] | None = None,
        words: WordList | None = None,
    ) -> None:
        """
        Args:
            number: of new hypotheses for each list, at most.
            channel: a folder, or a name of `CHANNELS`; None for `dev` where there are `LEARNABLE` dev lists, else
                `shipped`.
            dev: dev lists.
            words: terms that are looked for in hypotheses.
        """
        self._number, self._lexicon, self._dev = number, lexicon, dev
        self._terms = TermRespeller(words, number) if words else None
        self._name = channel or ("dev" if dev is not None and len(dev) >= LEARNABLE else "shipped")
        if channel is None and dev is not None:
            log.info("using --channel %s, the default for these dev lists", self._name)
        elif channel is None:
            log.warning(
                "using --channel shipped, which is not learned from your lists. `rescore run` learns a channel from "
                "%d dev lists or more. For the same figures score dev lists with --channel folds, and test lists with "
                "--channel DIR, a folder that `rescore train --lm channel` makes from the dev lists",
                LEARNABLE,
            )

    @classmethod
    def made(cls, options: Options, config: RunConfig, dev: Sequence[NbestList] | None) -> Respelling:
        words = config.measuring.words
        return cls(options.respell, find_lexicon(options.lexicon, config.lms, words), options.channel, dev, words)

    def check_decided(self) -> None:
        if self._name == "folds":
            raise UserError(
                "--channel folds learns from the references of these lists, which rerank must not use; give a folder"
            )

    def __call__(self, lists: Iterable[NbestList], dev: bool = False) -> Iterator[NbestList]:
        """Copies of the lists with new hypotheses, a stream; of unsuited lists, with the columns alone."""
        if self._name == "folds" and self._dev is not None and not dev:
            raise UserError(
                "--channel folds learns from the references of the test lists; "
                "give --channel dev, which learns from the dev lists"
            )
        if self._terms:
            lists = self._terms(lists)
        if self._name == "folds" or (self._name == "dev" and dev):
            every = list(lists)
            return self._crosswise(every, self._channel if self._name == "dev" else _learned(every))
        if dev and self._dev and content_hash(self._dev) in self._channel.source:
            log.warning(
                "--channel %s was learned from these dev lists, so the gain on them is too high; give --channel dev",
                self._name,
            )
        return self._checked(lists, self._channel)

    @cached_property
    def _channel(self) -> Channel:
        """The channel of lists that are not cut into parts."""
        if self._name == "dev":
            if self._dev is None:
                raise UserError("--channel dev: there are no dev lists; give folds, shipped, or a channel's folder")
            return _learned(self._dev)
        path = Channel.shipped() if self._name == "shipped" else Path(self._name)
        if not path.exists():
            raise UserError(f"--channel {self._name}: no such folder{did_you_mean(self._name, CHANNELS)}")
        return Channel.load(path)

    @cached_property
    def _respeller(self) -> Respeller:
        return Respeller(self._channel, self._lexicon, self._number)

    @property
    def columns(self) -> dict[str, Column]:
        """The columns of lists that the channel was not learned from."""
        return self._columns(self._channel)

    def _columns(self, channel: Channel) -> dict[str, Column]:
        sources = f"lexicon:{self._lexicon.digest}" + (f",terms:{self._terms.digest}" if self._terms else "")
        column = Column(f"respell:{self._number}:v{SELECTION}", channel.digest, sources, "float32", Role.CHANNEL)
        return {EDITS: replace(column, fingerprint="", role=Role.COUNT), CHANNEL: column}

    def _crosswise(self, lists: Sequence[NbestList], whole: Channel) -> Iterator[NbestList]:
        """Lists that the whole channel was learned from: each part is respelled with a channel of the other parts.

        So the column's weight is tuned on lists whose channel did not see them.

        Raises:
            UserError: there are too few utterances for that.
        """
        ids = [nbest.id for nbest in lists]
        if (number := len(set(ids))) < FOLDS:
            raise UserError(
                f"--channel {self._name}: {counted(number, 'utterance')} cannot be split into {FOLDS} parts for "
                "cross-validation; give --channel shipped, or the folder of a channel"
            )
        parts = split(ids, FOLDS)
        result = list(lists)
        for fold in range(FOLDS):
            channel = _learned([nbest for nbest, place in zip(lists, parts.fold, strict=True) if place != fold])
            mine = [index for index, place in enumerate(parts.fold) if place == fold]
            respelled = self._checked((lists[index] for index in mine), whole, channel)
            for index, nbest in zip(mine, respelled, strict=True):
                result[index] = nbest
        return iter(result)

    def _checked(
        self, lists: Iterable[NbestList], recorded: Channel, channel: Channel | None = None
    ) -> Iterator[NbestList]:
        """The lists, respelled where they are suited for that.

        Args:
            recorded: the channel that the column is said to come from. channel: that respells, where it is another.
        """
        respeller = Respeller(channel, self._lexicon, self._number) if channel else self._respeller
        stream = iter(lists)
        head = list(islice(stream, HEAD))
        reason = unsuited(head, self._lexicon)
        if reason:
            log.warning("%s: %s", "only listed terms are proposed" if self._terms else "nothing is respelled", reason)
        every = chain(head, stream)
        own = self._columns(recorded)
        before, columns = None, {}
        # What is left alone has the columns, too: weights that were tuned on lists that are respelled fit it.
        for nbest in (respeller.respell(original, {}) for original in every) if reason else respeller(every):
            if nbest.provenance is not before:
                before = nbest.provenance
                columns = {**own, **before}
            yield replace(nbest, provenance=columns)


def unsuited(lists: Sequence[NbestList], lexicon: Lexicon) -> str | None:
    """Why the words of lists cannot be looked up in a lexicon, if they cannot."""
    words = [word.lower() for nbest in lists for hypothesis in nbest.hypotheses[:1] for word in hypothesis.text.split()]
    letters = [letter for word in words for letter in word if unicodedata.category(letter)[0] == "L"]
    unspaced = sum(unicodedata.name(letter, "").startswith(UNSPACED) for letter in letters)
    if 2 * unspaced > len(letters):
        return "its words have no blanks between them"
    looked_up = [word for word in words if spelled(word)]
    known = sum(word in lexicon for word in looked_up)
    if looked_up and known < KNOWN * len(looked_up):
        return f"the lexicon knows {known:,} of {counted(len(looked_up), 'word')}; is it for this language?"
    return None


def _learned(lists: Sequence[NbestList]) -> Channel:
    return learn(collect(lists), counted(len(lists), "list"))
