"""The respelling of one experiment: which lexicon, which channel, and which lists it was learned from."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from rescore.errors import UserError
from rescore.expansion import Channel, Lexicon, Respeller
from rescore.expansion.channel import collect, learn
from rescore.expansion.respell import SELECTION
from rescore.lms import parse, shipped_models
from rescore.lms.lexicon import NAME, spelled
from rescore.metrics.normalise import WordList
from rescore.nbest import CHANNEL, Column, NbestList, content_hash
from rescore.parts import did_you_mean
from rescore.tuning.folds import LARGE_SET, split

log = logging.getLogger(__name__)

CHANNELS = ("shipped", "dev", "folds")
"""Channels that are no folder: the shipped one; one learned from the dev lists; of the lists themselves, of which each
part is respelled with what was learned from the others."""
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
    places = [parse(spec).path / NAME for spec in specs]
    shipped = shipped_models() / "tta" / NAME
    found = Lexicon.load(Path(path) if path else next((place for place in places if place.is_file()), shipped))
    return found.with_words(chain.from_iterable(map(str.split, words.entries))) if words else found


@dataclass(frozen=True, slots=True)
class Respelling:
    """Adds hypotheses to lists, and says where the column `channel` comes from."""

    number: int
    lexicon: Lexicon
    channel: Channel

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Copies of the lists with new hypotheses, a stream; of unsuited lists, with the columns alone."""
        return self._checked(lists, Respeller(self.channel, self.lexicon, self.number))

    def crosswise(self, lists: Sequence[NbestList]) -> Iterator[NbestList]:
        """The same for the lists that the channel was learned from: each part with a channel of the other parts.

        So the column's weight is tuned on lists whose channel did not see them.

        Raises:
            UserError: there are too few utterances for that.
        """
        ids = [nbest.id for nbest in lists]
        if (number := len(set(ids))) < FOLDS:
            raise UserError(
                f"the channel of {number} utterance{'s' if number > 1 else ''} cannot be learned from the others, "
                f"which takes {FOLDS}; give --channel shipped, or a channel's folder"
            )
        parts = split(ids, FOLDS)
        result = list(lists)
        for fold in range(FOLDS):
            channel = _learned([nbest for nbest, place in zip(lists, parts.fold, strict=True) if place != fold])
            mine = [index for index, place in enumerate(parts.fold) if place == fold]
            respeller = Respeller(channel, self.lexicon, self.number)
            for index, nbest in zip(mine, self._checked((lists[i] for i in mine), respeller), strict=True):
                result[index] = nbest
        return iter(result)

    def _checked(self, lists: Iterable[NbestList], respeller: Respeller) -> Iterator[NbestList]:
        stream = iter(lists)
        head = list(islice(stream, HEAD))
        reason = unsuited(head, self.lexicon)
        if reason:
            log.warning("nothing is respelled: %s", reason)
        every = chain(head, stream)
        model = f"respell:{self.number}:v{SELECTION}"
        origin = Column(model, self.channel.digest, f"lexicon:{self.lexicon.digest}", "float32")
        before, columns = None, {}
        # What is left alone has the columns, too: weights that were tuned on lists that are respelled fit it.
        for nbest in (respeller.respell(one, {}) for one in every) if reason else respeller(every):
            if nbest.provenance is not before:
                before, columns = nbest.provenance, {**nbest.provenance, CHANNEL: origin}
            yield replace(nbest, provenance=columns)


def unsuited(lists: Sequence[NbestList], lexicon: Lexicon) -> str | None:
    """Why the words of lists cannot be looked up in a lexicon, if they cannot."""
    words = [word.lower() for nbest in lists for one in nbest.hypotheses[:1] for word in one.text.split()]
    letters = [letter for word in words for letter in word if unicodedata.category(letter)[0] == "L"]
    unspaced = sum(unicodedata.name(letter, "").startswith(UNSPACED) for letter in letters)
    if 2 * unspaced > len(letters):
        return "its words have no blanks between them"
    looked_up = [word for word in words if spelled(word)]
    known = sum(word in lexicon for word in looked_up)
    if looked_up and known < KNOWN * len(looked_up):
        return f"the lexicon knows {known:,} of {len(looked_up):,} words; is it for this language?"
    return None


def respelled(
    lists: Iterable[NbestList],
    number: int,
    lexicon: Lexicon,
    channel: str | None = None,
    dev: Sequence[NbestList] | None = None,
    own: bool = False,
) -> Iterator[NbestList]:
    """Lists with up to `number` new hypotheses each.

    Args:
        channel: a folder, or a name of `CHANNELS`; None for `dev` where there are many dev lists, else `shipped`.
        dev: dev lists. own: whether `lists` are these.

    Raises:
        UserError: the channel is absent or damaged, there are no lists to learn one from, or it would be learned from
            the references of lists that others are the dev lists of.
    """
    if channel == "folds" and dev is not None and not own:
        raise UserError(
            "--channel folds learns from the references of the lists themselves, which are to be decided; "
            "give --channel dev, which learns from the dev lists"
        )
    if channel is None:
        channel = "dev" if dev is not None and len(dev) >= LARGE_SET else "shipped"
        log.info("--channel %s, as no other is given", channel)
    if channel == "folds" or (channel == "dev" and own):
        every = list(lists)
        return Respelling(number, lexicon, _learned(every)).crosswise(every)
    if channel == "dev":
        if dev is None:
            raise UserError("--channel dev: there are no dev lists; give folds, shipped, or a channel's folder")
        return Respelling(number, lexicon, _learned(dev))(lists)
    path = Channel.shipped() if channel == "shipped" else Path(channel)
    if not path.exists():
        raise UserError(f"--channel {channel}: no such folder{did_you_mean(channel, CHANNELS)}")
    found = Channel.load(path)
    if own and dev and content_hash(dev) in found.source:
        log.warning("--channel %s was learned from these dev lists, so its gain on them flatters; give dev", channel)
    return Respelling(number, lexicon, found)(lists)


def _learned(lists: Sequence[NbestList]) -> Channel:
    return learn(collect(lists), f"{len(lists):,} lists")
