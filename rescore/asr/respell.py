"""Respelling: new hypotheses with other words of a lexicon, or with listed terms.

A `Proposer` finds candidates for misheard words, a `Respeller` and a `TermRespeller`
make hypotheses of them, and `Respelling` chooses lexicon and channel for an experiment.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from rescore.asr.channel import Channel, collect, learn
from rescore.asr.correct import Correction, Corrector
from rescore.asr.documents import Replacement, Text, replaced
from rescore.asr.features import CHANNEL, EDITS, RESPELLED
from rescore.asr.systems import refuse_scored
from rescore.columns import FIRST_PASS, Column, Role
from rescore.config import RunConfig
from rescore.content import is_hash_of
from rescore.errors import UserError, counted, did_you_mean
from rescore.expansion import Expansion
from rescore.lms import parse, shipped_models
from rescore.lms.lexicon import NAME, Lexicon, spelled
from rescore.lms.neighbours import recording_of
from rescore.metrics.folds import split
from rescore.metrics.listed import OR, WordList
from rescore.metrics.normalise import WRITTEN
from rescore.nbest import Hypothesis, NbestList, in_parts, with_header
from rescore.options import Declared, option, read_file

log = logging.getLogger(__name__)

DISTANCE = 3
"""Letters in which a word may differ."""
PROPOSED = 200
"""Words that the channel weighs, for each that was heard."""
MAX_CANDIDATES = 12
"""Candidates of each word."""
EDIT_COST = 3.0
"""The cost of each letter that differs, natural log, where words are proposed."""
PRIOR = 0.5
"""The weight of the lexicon's log-probability beside the channel's."""
WORDS = 100
"""Words that are compared with the lexicon at once: bounds memory."""


# --- candidates ----------------------------------------------------------------------


class Candidate(NamedTuple):
    """A word or two that may have been meant."""

    text: str
    channel: float
    """Natural log of P(heard | meant)."""
    prior: float
    """Natural log of the probability in the lexicon."""

    @property
    def score(self) -> float:
        """The score by which the candidates of a word are ordered; higher is better."""
        return self.channel + PRIOR * self.prior


class Proposer:
    """Finds candidates for words."""

    def __init__(self, channel: Channel, lexicon: Lexicon) -> None:
        self._channel = channel
        self._lexicon = lexicon
        words = sorted(lexicon.counts, key=len)
        self._words = np.array(words, dtype=object)
        self._lengths = np.array([len(word) for word in words])
        self._priors = np.array([lexicon.log_prob(word) for word in words])

    def __call__(self, heard: Iterable[str]) -> dict[str, list[Candidate]]:
        """Return the best `MAX_CANDIDATES` candidates for each word, the best first.

        Args:
            heard: Words in lower case.
        """
        words = sorted(set(heard), key=len)
        pairs = []
        for word, near in zip(words, self._near(words), strict=True):
            pairs += [(word, meant) for meant in near]
        channel = self._channel.log_probs(
            [meant for _, meant in pairs], [word for word, _ in pairs]
        )
        candidates: dict[str, list[Candidate]] = {word: [] for word in words}
        for (word, meant), log_prob in zip(pairs, channel.tolist(), strict=True):
            prior = self._lexicon.log_prob(meant)
            candidates[word].append(Candidate(meant, log_prob, prior))
        for own in candidates.values():
            own.sort(key=lambda candidate: (-candidate.score, candidate.text))
            del own[MAX_CANDIDATES:]
        return candidates

    def _near(self, heard: Sequence[str]) -> Iterator[list[str]]:
        """Yield for words in order of length other words of the lexicon that differ in
        few letters.
        """
        for length, group in groupby(heard, key=len):
            limits = (length - DISTANCE, length + DISTANCE + 1)
            low, high = np.searchsorted(self._lengths, limits).tolist()
            words = self._words[low:high]
            priors = self._priors[low:high]
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
                    costs = EDIT_COST * row[near] - PRIOR * priors[near]
                    order = np.argsort(costs, kind="stable")
                    yield words[near[order[:PROPOSED]]].tolist()


# --- hypotheses ----------------------------------------------------------------------

DEFAULT_NUMBER = 20
SELECTION = 4
"""Raised when other new hypotheses are chosen than before: it is in signatures. 1
weighed the changed words alone, 2 added first-pass scores, whose unit differs by
toolkit, 3 also proposed two words for one.
"""
LEXICON_WEIGHT = 0.65
"""The weight of the words' log-probabilities in the lexicon, beside -log(rank) of the
original, where the new hypotheses of a list are chosen. This weight and the next two
had the best oracle on a third of LibriSpeech dev-other.
"""
CHANNEL_WEIGHT = 0.7
"""The weight of the log-probability of the channel."""
EDIT_BONUS = 3.0
"""The bonus for each respelled word."""
WINDOW = 200
"""Lists whose words are looked up together."""


class WordChange(NamedTuple):
    """A replacement of neighbouring words of a hypothesis."""

    first: int
    last: int
    """Numbers of the first word, and of the word behind the last."""
    gain: float
    """The score of the hypothesis with the change, minus the score without."""
    channel: float
    """Natural log of P(heard | meant)."""
    replacement: Replacement


class Original(NamedTuple):
    """A hypothesis that new hypotheses are made of."""

    hypothesis: Hypothesis
    score: float
    """The score without changes; scores and gains choose the new hypotheses."""
    changes: Sequence[WordChange]
    """In the order of their places."""

    def versions(self, number: int) -> list[tuple[float, tuple[WordChange, ...]]]:
        """Return the best sets of changes that do not overlap, with the scores of the
        hypotheses that they make.

        Args:
            number: The number of sets, at most, with the empty set.
        """
        beam: list[tuple[float, tuple[WordChange, ...]]] = [(self.score, ())]
        for _, same_place in groupby(self.changes, key=attrgetter("first")):
            changes = list(same_place)
            longer = list(beam)
            for score, chosen in beam:
                for change in changes:
                    if not chosen or chosen[-1].last <= change.first:
                        longer.append((score + change.gain, (*chosen, change)))
            beam = heapq.nlargest(number, longer, key=itemgetter(0))
        return [version for version in beam if version[1]]


def extended(nbest: NbestList, originals: Iterable[Original], number: int) -> NbestList:
    """Return a copy of a list with the best new hypotheses behind the old ones.

    Args:
        nbest: The list.
        originals: The hypotheses that new hypotheses are made of.
        number: The largest number of respelled hypotheses. The respelled hypotheses
            that the list already has count, too.
    """
    old = []
    for hypothesis in nbest.hypotheses:
        scores = {CHANNEL: 0.0, EDITS: 0.0} | hypothesis.scores
        old.append(replace(hypothesis, scores=scores))
    versions = []
    for original in originals:
        for score, changes in original.versions(number + len(old)):
            versions.append((score, original.hypothesis, changes))
    versions.sort(key=itemgetter(0), reverse=True)
    is_lower = all(hypothesis.text == hypothesis.text.lower() for hypothesis in old)
    respelled = [each for each in old if each.origin == RESPELLED]
    room = number - len(respelled)
    seen = {_key(hypothesis.text) for hypothesis in old}
    new: list[Hypothesis] = []
    for _, hypothesis, changes in versions:
        if len(new) >= room:
            break
        text = replaced(hypothesis.text, [change.replacement for change in changes])
        if _key(text) not in seen:
            seen.add(_key(text))
            if is_lower:
                text = text.lower()
            scores = hypothesis.scores | _with_changes(hypothesis, changes)
            new.append(Hypothesis(text, scores, RESPELLED))
    return replace(nbest, hypotheses=[*old, *new])


def _with_changes(
    hypothesis: Hypothesis, changes: Sequence[WordChange]
) -> dict[str, float]:
    """Return the columns of respelling of a hypothesis after changes."""
    channel = sum(change.channel for change in changes)
    return {
        CHANNEL: hypothesis.scores.get(CHANNEL, 0.0) + channel,
        EDITS: hypothesis.scores.get(EDITS, 0.0) + len(changes),
    }


def _key(text: str) -> tuple[str, ...]:
    """Return the words by which texts are told apart."""
    return tuple(WRITTEN.findall(text.lower()))


class Respeller:
    """Adds up to `number` hypotheses to each list of a stream."""

    def __init__(
        self, channel: Channel, lexicon: Lexicon, number: int = DEFAULT_NUMBER
    ) -> None:
        self._lexicon = lexicon
        self._number = number
        self._propose = Proposer(channel, lexicon)

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Yield copies of the lists with new hypotheses behind the old ones.

        Args:
            lists: The lists, a stream.

        Raises:
            UserError: A list has scores of models, which the new hypotheses would lack.
        """
        warned = False
        for window in in_parts(lists, WINDOW):
            words = self._unknown_words(window)
            reason = unsuited(window, self._lexicon)
            if reason:
                words = set()
                if not warned:
                    log.warning("no word is respelled: %s", reason)
                warned = True
            candidates = self._propose(words)
            for nbest in window:
                refuse_scored(nbest, "respell")
                originals = []
                for rank, hypothesis in ranked(nbest):
                    originals.append(self._original(hypothesis, rank, candidates))
                yield extended(nbest, originals, self._number)

    def _unknown_words(self, lists: Iterable[NbestList]) -> set[str]:
        """Return the words of lists that the lexicon lacks, in lower case."""
        words: set[str] = set()
        for nbest in lists:
            for hypothesis in nbest.hypotheses:
                words.update(_key(hypothesis.text))
        return {word for word in words if word not in self._lexicon and spelled(word)}

    def _original(
        self,
        hypothesis: Hypothesis,
        rank: int,
        candidates: Mapping[str, Sequence[Candidate]],
    ) -> Original:
        """Return a hypothesis with the changes that the candidates make possible.

        Args:
            hypothesis: The hypothesis.
            rank: Its rank by first-pass score, from 1.
            candidates: The candidates of words in lower case.
        """
        score = 0.0
        changes = []
        for number, match in enumerate(WRITTEN.finditer(hypothesis.text)):
            heard = match[0].lower()
            prior = self._lexicon.log_prob(heard)
            score += prior
            for meant in candidates.get(heard, ()):
                gain = LEXICON_WEIGHT * (meant.prior - prior)
                gain += CHANNEL_WEIGHT * meant.channel
                gain += EDIT_BONUS
                written = Replacement(*match.span(), cased(meant.text, match[0]))
                changes.append(
                    WordChange(number, number + 1, gain, meant.channel, written)
                )
        return Original(hypothesis, -math.log(rank) + LEXICON_WEIGHT * score, changes)


def ranked(nbest: NbestList) -> list[tuple[int, Hypothesis]]:
    """Return the hypotheses that new hypotheses may come from, the best first, with
    their ranks by first-pass score, from 1.

    Args:
        nbest: The list; hypotheses with infinite scores are left out.
    """
    scores = sorted(set(nbest.column(FIRST_PASS)), reverse=True)
    ranks = {score: rank for rank, score in enumerate(scores, 1)}
    finite = []
    for hypothesis in nbest.hypotheses:
        score = hypothesis.scores[FIRST_PASS]
        if math.isfinite(score):
            finite.append((ranks[score], hypothesis))
    return sorted(finite, key=itemgetter(0))


LOOKED_AT = 10
"""Hypotheses of a list in which terms are looked for: the best by first-pass score."""
LEAST_LOG_ODDS = -3.0
"""The least log-odds (natural log) of a correction that makes a new hypothesis."""


class TermRespeller:
    """Adds up to `number` hypotheses to each list, in which spans that sound like terms
    are the terms.
    """

    def __init__(self, words: WordList, number: int) -> None:
        self._number = number
        self._corrector = Corrector(words)
        self.digest = self._corrector.digest

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Yield copies of the lists with new hypotheses.

        The other texts of a recording tell whether a term is probable, wherever they
        stand, so all lists are read first.

        Args:
            lists: The lists.

        Raises:
            UserError: A list has scores of models, which the new hypotheses would lack.
        """
        every = list(lists)
        best = [ranked(nbest)[:LOOKED_AT] for nbest in every]
        texts = []
        for nbest, hypotheses in zip(every, best, strict=True):
            recording = recording_of(nbest)
            for number, (_, hypothesis) in enumerate(hypotheses):
                texts.append(Text(nbest.id, recording, hypothesis.text, number > 0))
        corrections = iter(self._corrector.candidates(texts))
        for nbest, hypotheses in zip(every, best, strict=True):
            refuse_scored(nbest, "respell")
            originals = []
            for rank, hypothesis in hypotheses:
                originals.append(self._original(hypothesis, rank, next(corrections)))
            yield extended(nbest, originals, self._number)

    def _original(
        self, hypothesis: Hypothesis, rank: int, corrections: Iterable[Correction]
    ) -> Original:
        """Return a hypothesis with the corrections that are probable enough for a new
        hypothesis.
        """
        changes = []
        for first, last, change in sorted(corrections, key=attrgetter("first", "last")):
            odds = change.log_odds
            if odds >= LEAST_LOG_ODDS:
                written = change.replacement
                changes.append(WordChange(first, last, odds, change.log_prob, written))
        return Original(hypothesis, -math.log(rank), changes)


def cased(text: str, like: str) -> str:
    """Return a text in the case of a word: upper, with a capital, or lower.

    Args:
        text: A text in lower case.
        like: The word.
    """
    if like.isupper() and (len(like) > 1 or text != like.lower()):
        return text.upper()
    return text.capitalize() if like[:1].isupper() else text


# --- experiments ---------------------------------------------------------------------

CHANNELS = ("shipped", "dev")
"""Channels that are no folder: the shipped one, and one learned from the dev lists.
Each third of the dev lists is respelled with what was learned from the other two.
"""
LEARNABLE = 500
"""Dev lists from which on a channel is learned from them, where no channel is given."""
FOLDS = 3
"""Parts of the dev lists, each of which is respelled with a channel of the others."""
KNOWN = 0.5
"""Share of words that a lexicon for the language of the lists knows, at least."""


def find_lexicon(
    path: str | None, specs: Sequence[str], words: WordList | None = None
) -> Lexicon:
    """Return the lexicon of a file, or of the first language model, else the shipped
    T-TA's; with own words.

    Args:
        path: The file of the lexicon; None without one.
        specs: The language models, as --lm gives them.
        words: Words that are known beside the words of the lexicon.

    Raises:
        UserError: A file is absent or damaged.
    """
    file = shipped_models() / "tta" / NAME
    if path:
        file = Path(path)
    elif specs:
        own = parse(specs[0]).path / NAME
        if own.is_file():
            file = own
    lexicon = Lexicon.load(file)
    if not words:
        return lexicon
    listed: list[str] = []
    for term in words.terms:
        listed += WRITTEN.findall(term)
    return lexicon.with_words(listed)


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
            _, _, digest = self._channel.source.rpartition(", ")
            if dev and self._dev and is_hash_of(digest, self._dev):
                log.warning(
                    "--channel %s was learned from these dev lists, so the gain on them"
                    " is too high; give --channel dev",
                    self._name,
                )
            respelled = Respeller(self._channel, self._lexicon, self._number)(lists)
        return with_header(respelled, lambda header: header.with_records(self.records))

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
    def records(self) -> dict[str, Column]:
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
            Role.CHANNEL,
        )
        return {
            EDITS: replace(column, fingerprint="", role=Role.COUNT),
            CHANNEL: column,
        }

    def _crosswise(self, lists: Sequence[NbestList]) -> Iterator[NbestList]:
        """Dev lists: each part is respelled with a channel of the other parts.

        So the column's weight is tuned on lists whose channel did not see them.
        """
        folds = split(lists, FOLDS).fold_of_list
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
    """Return why the words of lists cannot be looked up in a lexicon; None if they can.

    Args:
        lists: The lists, whose first hypotheses are looked at.
        lexicon: The lexicon.
    """
    words: list[str] = []
    for nbest in lists:
        for hypothesis in nbest.hypotheses[:1]:
            words += filter(spelled, _key(hypothesis.text))
    known = sum(word in lexicon for word in words)
    if words and known < KNOWN * len(words):
        return (
            f"the lexicon knows {known:,} of {counted(len(words), 'word')}; is it"
            " for this language?"
        )
    return None


def _learned(lists: Sequence[NbestList]) -> Channel:
    """Return a channel that is learned from lists."""
    return learn(collect(lists), counted(len(lists), "list"))
