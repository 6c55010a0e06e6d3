"""Respelling: candidates from a lexicon for what a recogniser wrote, the hypotheses
that they make, and the respelling of an experiment, which chooses lexicon and channel.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from rescore.asr.channel import Channel, collect, learn
from rescore.asr.correct import Candidate as Correction
from rescore.asr.correct import Corrector
from rescore.asr.features import CHANNEL, EDITS, RESPELLED
from rescore.asr.formats.documents import Replacement, Text, replaced
from rescore.asr.systems import refuse_scored
from rescore.columns import FIRST_PASS, Column, Role
from rescore.config import RunConfig
from rescore.errors import UserError, counted, did_you_mean
from rescore.expansion import Expansion
from rescore.lms import parse, shipped_models
from rescore.lms.lexicon import NAME, Lexicon, spelled
from rescore.lms.neighbours import recording_of
from rescore.metrics.folds import split
from rescore.metrics.listed import OR, WordList
from rescore.metrics.normalise import WRITTEN
from rescore.nbest import Hypothesis, NbestList, content_hash, in_parts
from rescore.options import Declared, option, read_file

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
WORDS = 100
"""Words that are compared with the lexicon at once: bounds memory."""


class Candidate(NamedTuple):
    """What may have been meant."""

    text: str
    channel: float
    """Natural log of P(heard | meant)."""
    prior: float
    """Natural log of its probability in the lexicon."""

    @property
    def score(self) -> float:
        """By this the candidates of a word are ordered, higher is better."""
        return self.channel + PRIOR * self.prior


class Proposer:
    """Looks for candidates."""

    def __init__(self, channel: Channel, lexicon: Lexicon) -> None:
        self._channel, self._lexicon = channel, lexicon
        words = sorted(lexicon.counts, key=len)
        self._words = np.array(words, dtype=object)
        self._lengths = np.array([len(word) for word in words])
        self._priors = np.array([lexicon.log_prob(word) for word in words])

    def __call__(self, heard: Iterable[str]) -> dict[str, list[Candidate]]:
        """The best `MAX_CANDIDATES` candidates for each of some words in lower case,
        the best first.
        """
        words = sorted(set(heard), key=len)
        pairs = [
            (word, meant)
            for word, near in zip(words, self._near(words), strict=True)
            for meant in near
        ]
        channel = self._channel.log_probs(
            [meant for _, meant in pairs], [word for word, _ in pairs]
        )
        candidates: dict[str, list[Candidate]] = {word: [] for word in words}
        for (word, meant), log_prob in zip(pairs, channel.tolist(), strict=True):
            candidates[word].append(
                Candidate(meant, log_prob, self._lexicon.log_prob(meant))
            )
        return {
            word: sorted(own, key=lambda candidate: (-candidate.score, candidate.text))[
                :MAX_CANDIDATES
            ]
            for word, own in candidates.items()
        }

    def _near(self, heard: Sequence[str]) -> Iterator[list[str]]:
        """For words in order of length, other ones of the lexicon that differ in few
        letters.
        """
        for length, group in groupby(heard, key=len):
            low, high = np.searchsorted(
                self._lengths, (length - DISTANCE, length + DISTANCE + 1)
            ).tolist()
            words, priors = self._words[low:high], self._priors[low:high]
            for part in in_parts(group, WORDS):
                distances = process.cdist(
                    part,
                    words.tolist(),
                    scorer=Levenshtein.distance,
                    score_cutoff=DISTANCE,
                    dtype=np.uint8,
                )
                for row in distances:
                    near = np.flatnonzero((row <= DISTANCE) & (row > 0))
                    order = np.argsort(
                        EDIT_COST * row[near] - PRIOR * priors[near], kind="stable"
                    )
                    yield words[near[order[:PROPOSED]]].tolist()


DEFAULT_NUMBER = 20
SELECTION = 4
"""Raised when other new hypotheses are chosen than before: it is in signatures. 1
weighed the changed words alone, 2 added first-pass scores, whose unit differs by
toolkit, 3 also proposed two words for one.
"""
LEXICON_WEIGHT, CHANNEL_WEIGHT, EDIT_BONUS = 0.65, 0.7, 3.0
"""Beside -log(rank) of the original, where a list's new hypotheses are chosen: of the
words' log-probabilities in the lexicon, of the channel, and for each respelled word.
They had the best oracle on a third of LibriSpeech dev-other.
"""
WINDOW = 200
"""Lists whose words are looked up together."""


class Change(NamedTuple):
    """What may stand in the place of neighbouring words of a hypothesis."""

    first: int
    last: int
    """Numbers of the first word, and of the word behind the last."""
    gain: float
    """By how much the hypothesis is better with it."""
    channel: float
    """Natural log of P(heard | meant)."""
    replacement: Replacement


class Original(NamedTuple):
    """A hypothesis that new hypotheses are made of."""

    hypothesis: Hypothesis
    score: float
    """How good it is as it is; scores and gains choose the new hypotheses of a list."""
    changes: Sequence[Change]
    """In the order of their places."""

    def versions(self, number: int) -> list[tuple[float, tuple[Change, ...]]]:
        """The best `number` sets of changes that do not overlap, and the scores of the
        hypotheses they make.
        """
        beam: list[tuple[float, tuple[Change, ...]]] = [(self.score, ())]
        for _, same_place in groupby(self.changes, key=lambda change: change.first):
            options = list(same_place)
            longer = [
                (score + change.gain, (*chosen, change))
                for score, chosen in beam
                for change in options
                if not chosen or chosen[-1].last <= change.first
            ]
            beam = heapq.nlargest(
                number, [*beam, *longer], key=lambda version: version[0]
            )
        return [version for version in beam if version[1]]


def extended(nbest: NbestList, originals: Iterable[Original], number: int) -> NbestList:
    """A copy of the list with the best new hypotheses behind the old ones, so that up
    to `number` are respelled.
    """
    old = [
        replace(one, scores={CHANNEL: 0.0, EDITS: 0.0} | one.scores)
        for one in nbest.hypotheses
    ]
    versions = [
        (score, original, chosen)
        for original in originals
        for score, chosen in original.versions(number + len(old))
    ]
    versions.sort(key=lambda version: -version[0])
    room = number - sum(one.origin == RESPELLED for one in old)
    seen = {_key(one.text) for one in old}
    lower = all(one.text == one.text.lower() for one in old)
    new: list[Hypothesis] = []
    for _, (hypothesis, *_), chosen in versions:
        text = replaced(hypothesis.text, [change.replacement for change in chosen])
        if _key(text) not in seen and len(new) < room:
            seen.add(_key(text))
            columns = {
                CHANNEL: (
                    hypothesis.scores.get(CHANNEL, 0.0)
                    + sum(change.channel for change in chosen)
                ),
                EDITS: hypothesis.scores.get(EDITS, 0.0) + len(chosen),
            }
            new.append(
                Hypothesis(
                    text.lower() if lower else text,
                    hypothesis.scores | columns,
                    RESPELLED,
                )
            )
    return replace(nbest, hypotheses=[*old, *new])


def _key(text: str) -> tuple[str, ...]:
    """The words by which texts are told apart."""
    return tuple(WRITTEN.findall(text.lower()))


class Respeller:
    """Adds up to `number` hypotheses to each list of a stream."""

    def __init__(
        self, channel: Channel, lexicon: Lexicon, number: int = DEFAULT_NUMBER
    ) -> None:
        self._lexicon, self._number = lexicon, number
        self._propose = Proposer(channel, lexicon)

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Copies of the lists with new hypotheses behind the old ones.

        Raises:
            UserError: a list has scores of models, which the new hypotheses would lack.
        """
        warned = False
        for window in in_parts(lists, WINDOW):
            words = {
                word
                for nbest in window
                for one in nbest.hypotheses
                for word in _key(one.text)
            }
            if reason := unsuited(window, self._lexicon):
                if not warned:
                    log.warning("no word is respelled: %s", reason)
                warned = True
                words.clear()
            candidates = self._propose(
                word for word in words if word not in self._lexicon and spelled(word)
            )
            for nbest in window:
                refuse_scored(nbest, "respell")
                originals = [
                    self._original(one, rank, candidates) for rank, one in ranked(nbest)
                ]
                yield extended(nbest, originals, self._number)

    def _original(
        self,
        hypothesis: Hypothesis,
        rank: int,
        candidates: Mapping[str, Sequence[Candidate]],
    ) -> Original:
        """A hypothesis with the changes that candidates for words in lower case make
        possible.
        """
        score, changes = 0.0, []
        for number, match in enumerate(WRITTEN.finditer(hypothesis.text)):
            heard = match[0].lower()
            prior = self._lexicon.log_prob(heard)
            score += prior
            for meant in candidates.get(heard, ()):
                gain = (
                    LEXICON_WEIGHT * (meant.prior - prior)
                    + CHANNEL_WEIGHT * meant.channel
                    + EDIT_BONUS
                )
                written = Replacement(*match.span(), cased(meant.text, match[0]))
                changes.append(Change(number, number + 1, gain, meant.channel, written))
        return Original(hypothesis, -math.log(rank) + LEXICON_WEIGHT * score, changes)


def ranked(nbest: NbestList) -> list[tuple[int, Hypothesis]]:
    """The ranks by first-pass score, from 1, and the hypotheses that new hypotheses may
    come from; the best first.
    """
    scores = sorted(set(nbest.column(FIRST_PASS)), reverse=True)
    finite = [one for one in nbest.hypotheses if math.isfinite(one.scores[FIRST_PASS])]
    return sorted(
        ((scores.index(one.scores[FIRST_PASS]) + 1, one) for one in finite),
        key=lambda item: item[0],
    )


LOOKED_AT = 10
"""Hypotheses of a list in which terms are looked for: the best by first-pass score."""
TOGETHER = 2_000
"""Lists of a recording that are looked at together."""
LEAST_LOG_ODDS = -3.0
"""Of a correction to a term that makes a new hypothesis, natural log."""


class TermRespeller:
    """Adds up to `number` hypotheses to each list of a stream, in which spans that
    sound like terms are the terms.
    """

    def __init__(self, words: WordList, number: int) -> None:
        self._corrector, self._number = Corrector(words), number
        self.digest = self._corrector.digest

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Copies of the lists with new hypotheses. The other texts of a recording tell
        whether a term is probable.

        Raises:
            UserError: a list has scores of models, which the new hypotheses would lack.
        """
        for recording, group in groupby(lists, key=recording_of):
            for window in in_parts(group, TOGETHER):
                ranks = [ranked(nbest)[:LOOKED_AT] for nbest in window]
                texts = [
                    Text(nbest.id, recording, one.text, number > 0)
                    for nbest, own in zip(window, ranks, strict=True)
                    for number, (_, one) in enumerate(own)
                ]
                corrections = iter(self._corrector.candidates(texts))
                for nbest, own in zip(window, ranks, strict=True):
                    refuse_scored(nbest, "respell")
                    originals = [
                        self._original(one, rank, next(corrections))
                        for rank, one in own
                    ]
                    yield extended(nbest, originals, self._number)

    def _original(
        self, hypothesis: Hypothesis, rank: int, corrections: Iterable[Correction]
    ) -> Original:
        """A hypothesis with the corrections that are probable enough for a new
        hypothesis.
        """
        changes = [
            Change(first, last, change.log_odds, change.log_prob, change.replacement)
            for first, last, change in sorted(
                corrections, key=lambda one: (one.first, one.last)
            )
            if change.log_odds >= LEAST_LOG_ODDS
        ]
        return Original(hypothesis, -math.log(rank), changes)


def cased(text: str, like: str) -> str:
    """A text in the case of a word: upper, with a capital, or lower."""
    if like.isupper() and (len(like) > 1 or text != like.lower()):
        return text.upper()
    return text.capitalize() if like[:1].isupper() else text


CHANNELS = ("shipped", "dev")
"""Channels that are no folder: the shipped one, and one learned from the dev lists.
Each third of the dev lists is respelled with what was learned from the other two.
"""
LEARNABLE = 500
"""Dev lists from which on a channel is learned from them, where no channel is given."""
FOLDS = 3
KNOWN = 0.5
"""Share of words that the lexicon has to know; of fewer, it is one of another
language.
"""


def find_lexicon(
    path: str | None, specs: Sequence[str], words: WordList | None = None
) -> Lexicon:
    """The lexicon of a file, or of the first language model, else the shipped T-TA's;
    with own words.

    Raises:
        UserError: a file is absent or damaged.
    """
    own = [
        model.path / NAME
        for model in map(parse, specs[:1])
        if (model.path / NAME).is_file()
    ]
    lexicon = Lexicon.load(
        Path(path) if path else next(iter(own), shipped_models() / "tta" / NAME)
    )
    return (
        lexicon.with_words(
            word for term in words.terms for word in WRITTEN.findall(term)
        )
        if words
        else lexicon
    )


class Respelling(Expansion):
    """The respelling of one experiment: which lexicon, which channel, and which lists
    it was learned from.
    """

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        respell: int = option(
            0,
            "Add up to N hypotheses to each list, after --recombine: words outside the"
            " lexicon are replaced by words of the lexicon, and words that sound like a"
            " term of --words by the term.",
            metavar="N",
            low=0,
        )
        channel: str | None = option(
            None,
            "With --respell: model of misheard words. DIR: a trained model; dev:"
            " learned from the dev lists; shipped: comes with rescore.  [default: dev"
            " with 500 dev lists or more, else shipped]",
            metavar="DIR|dev|shipped",
            needs="respell",
            reads=True,
        )
        lexicon: str | None = read_file(
            None,
            "With --respell: file of words with counts.  [default: in the folder of the"
            " first --lm]",
            needs="respell",
        )

    adds = (CHANNEL, EDITS)
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
            channel: a folder, or a name of `CHANNELS`; None for `dev` where there are
                `LEARNABLE` dev lists, else `shipped`.
            dev: dev lists.
            words: terms that are looked for in hypotheses, if all utterances have the
                same.
        """
        self._number, self._lexicon, self._dev = number, lexicon, dev
        self._terms = (
            TermRespeller(words, number) if words and not words.by_utterance else None
        )
        if words and words.by_utterance:
            log.warning(
                "%s: lines begin with utterances, so --respell looks for no term%s",
                words.path,
                OR,
            )
        self._name = channel or (
            "dev" if dev is not None and len(dev) >= LEARNABLE else "shipped"
        )
        if channel is None:
            where = "without dev lists" if dev is None else "for these dev lists"
            log.info("using --channel %s, the default %s", self._name, where)

    @classmethod
    def made(
        cls, options: Options, config: RunConfig, dev: Sequence[NbestList] | None
    ) -> Respelling:
        words = config.measuring.words
        return cls(
            options.respell,
            find_lexicon(options.lexicon, config.lms, words),
            options.channel,
            dev,
            words,
        )

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        """Copies of the lists with new hypotheses, a stream; of unsuited lists, with
        the columns alone.
        """
        lists = self._terms(lists) if self._terms else lists
        if dev and self._name == "dev":
            respelled = self._crosswise(list(lists))
        else:
            if dev and self._dev and content_hash(self._dev) in self._channel.source:
                log.warning(
                    "--channel %s was learned from these dev lists, so the gain on them"
                    " is too high; give --channel dev",
                    self._name,
                )
            respelled = Respeller(self._channel, self._lexicon, self._number)(lists)
        return (
            replace(nbest, header=nbest.header.with_columns(self.columns))
            for nbest in respelled
        )

    @cached_property
    def _channel(self) -> Channel:
        """The channel of lists that are not cut into parts."""
        if self._name == "dev":
            if self._dev is None:
                raise UserError(
                    "--channel dev: there are no dev lists; give shipped, or a"
                    " channel's folder"
                )
            return _learned(self._dev)
        path = Channel.shipped() if self._name == "shipped" else Path(self._name)
        if not path.exists():
            raise UserError(
                f"--channel {self._name}: no such"
                f" folder{did_you_mean(self._name, CHANNELS)}"
            )
        return Channel.load(path)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The records of the columns; those of dev lists name the channel that was
        learned from all of them.
        """
        sources = f"lexicon:{self._lexicon.digest}" + (
            f",terms:{self._terms.digest}" if self._terms else ""
        )
        column = Column(
            f"respell:{self._number}:v{SELECTION}",
            self._channel.digest,
            sources,
            "float32",
            Role.FREE,
        )
        return {
            EDITS: replace(column, fingerprint="", role=Role.COUNT),
            CHANNEL: column,
        }

    def _crosswise(self, lists: Sequence[NbestList]) -> Iterator[NbestList]:
        """Dev lists: each part is respelled with a channel of the other parts.

        So the column's weight is tuned on lists whose channel did not see them.
        """
        folds = split([nbest.id for nbest in lists], FOLDS).fold
        respelled = []
        for fold in range(FOLDS):
            channel = _learned(
                [
                    nbest
                    for nbest, place in zip(lists, folds, strict=True)
                    if place != fold
                ]
            )
            own = [
                nbest
                for nbest, place in zip(lists, folds, strict=True)
                if place == fold
            ]
            respelled.append(Respeller(channel, self._lexicon, self._number)(own))
        return (next(respelled[fold]) for fold in folds)


def unsuited(lists: Sequence[NbestList], lexicon: Lexicon) -> str | None:
    """Why the words of lists cannot be looked up in a lexicon, if they cannot."""
    words = [
        word
        for nbest in lists
        for hypothesis in nbest.hypotheses[:1]
        for word in _key(hypothesis.text)
    ]
    looked_up = [word for word in words if spelled(word)]
    known = sum(word in lexicon for word in looked_up)
    if looked_up and known < KNOWN * len(looked_up):
        return (
            f"the lexicon knows {known:,} of {counted(len(looked_up), 'word')}; is it"
            " for this language?"
        )
    return None


def _learned(lists: Sequence[NbestList]) -> Channel:
    return learn(collect(lists), counted(len(lists), "list"))
