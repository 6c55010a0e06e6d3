"""One checkpoint, seven scorers: what a `unified` network says of a sentence, or of a sentence given its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.networks.unified import Segment
from rescore.scoring.base import DEFAULT, ComputeOptions, Question
from rescore.scoring.causal import (
    LARGEST_TREE,
    BackwardScorer,
    CausalScorer,
    PrefixTree,
    Window,
    as_request,
    prefix_trees,
)
from rescore.scoring.masked import masked_scorer
from rescore.scoring.one_pass import CONTEXT_TOKEN, Encoded, NetworkScorer, Request, batches, log, windows
from rescore.scoring.own_network import OwnNetwork

if TYPE_CHECKING:
    from pathlib import Path

    from rescore.scoring.backends import Spec


def load(spec: Spec, computing: ComputeOptions = DEFAULT) -> NetworkScorer:
    """`unified:READING:DIR`, the reading one of `READINGS`.

    Raises:
        UserError: no reading is named, or two; the model's files are missing or damaged, or it was not trained for it.
    """
    known = {option for name in READINGS for option in name.split(":")}
    named = sorted(option for option in spec.options if option in known)
    make = next((make for name, make in READINGS.items() if sorted(name.split(":")) == named), None)
    if make is None:
        given = " and ".join(named) or "nothing"
        raise UserError(f"--lm unified: expected one of {', '.join(READINGS)} as in unified:bi:DIR, found {given}")
    return make(spec, computing)


def _masked(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    return masked_scorer(spec, UnifiedNetwork(spec.path, computing, Segment.BOTH))


def _forward(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    return CausalScorer(spec.name, UnifiedNetwork(spec.path, computing, Segment.FORWARD))


def _backward(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    return BackwardScorer(spec.name, UnifiedNetwork(spec.path, computing, Segment.BACKWARD))


def _masked_pair(spec: Spec, computing: ComputeOptions, channel: bool) -> NetworkScorer:
    scorer = masked_scorer(spec, PairNetwork(spec.path, computing, channel))
    scorer.reads_source = True
    return scorer


def _behind_source(spec: Spec, computing: ComputeOptions, channel: bool) -> NetworkScorer:
    return SourceScorer(spec.name, UnifiedNetwork(spec.path, computing, Segment.TARGET), channel)


READINGS: dict[str, Callable[[Spec, ComputeOptions], NetworkScorer]] = {
    "bi": _masked,
    "l2r": _forward,
    "r2l": _backward,
    "seq2seq": partial(_behind_source, channel=False),
    "channel": partial(_behind_source, channel=True),
    "seq2seq:channel": partial(_behind_source, channel=True),
    "bi:source": partial(_masked_pair, channel=False),
    "bi:channel": partial(_masked_pair, channel=True),
}
"""The options that say how to read. With `source` and `seq2seq` the hypothesis is scored given its source, with
`channel` the source given the hypothesis."""


class UnifiedNetwork(OwnNetwork):
    """The network with all tokens in one segment (`rescore.networks.unified`)."""

    def __init__(self, folder: Path, computing: ComputeOptions, segment: Segment) -> None:
        super().__init__(folder, "unified", computing)
        self._shift = segment * self.vocabulary
        self.before, self.after, self.end = (self._shifted(ids) for ids in (self.before, self.after, self.end))
        if self.network.config.cloze:
            self.cloze = self.mask + self._shift

    def _shifted(self, ids: Sequence[int]) -> list[int]:
        return [token + self._shift for token in ids]

    def encode_texts(self, texts: Sequence[str]) -> list[Encoded]:
        return [Encoded(tuple(self._shifted(ids)), words) for ids, words in super().encode_texts(texts)]

    def sources(self, texts: Sequence[str], segment: Segment = Segment.SOURCE) -> list[tuple[int, ...]]:
        """[BOS] text [EOS], each in the segment of what is shown and not scored."""
        shift = segment * self.vocabulary
        ids = self._tokenizer.encode(texts)
        return [tuple(token + shift for token in (self._tokenizer.bos, *some, self._tokenizer.eos)) for some in ids]


class PairNetwork(UnifiedNetwork):
    """The network with two sentences that see each other from both sides, [BOS] one [EOS] other [EOS]; the other is
    scored. The first is cut to what the other leaves of the positions."""

    def __init__(self, folder: Path, computing: ComputeOptions, channel: bool) -> None:
        super().__init__(folder, computing, Segment.SECOND)
        if not self.network.config.bi_source:
            raise UserError(f"{folder}: its reading bi is of single sentences; train one in bi:source, from --pairs")
        self.before, self._channel = [], channel

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        pairs = [one.pair(self._channel) for one in questions]
        given = list(dict.fromkeys(one for one, _ in pairs))
        shown = dict(zip(given, self.sources(given, Segment.BOTH), strict=True))
        found = []
        for (one, _), own in zip(pairs, self.encode_texts([text for _, text in pairs]), strict=True):
            first = cut(shown[one], max(2, self.positions - len(self.after) - len(own.ids)))
            found.append(Encoded((*first, *own.ids), (*[CONTEXT_TOKEN] * len(first), *own.words)))
        return found


def cut(source: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The same, its last token kept, in so many tokens."""
    return source if len(source) <= most else (*source[: most - 1], source[-1])


class SourceScorer(CausalScorer):
    """log p(hypothesis given source), [EOS] with it; with `channel` log p(source given hypothesis).

    Hypotheses of one source are a tree: the source is read once, and so is what they begin with. A source that takes
    more than half of the network's positions is cut there; a longer target is read in overlapping windows.
    """

    reads_source = True

    def __init__(self, name: str, network: UnifiedNetwork, channel: bool) -> None:
        super().__init__(name, network)
        self._network, self._channel = network, channel

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        """Source and target one behind the other."""
        pairs = [one.pair(self._channel) for one in questions]
        given = list(dict.fromkeys(one for one, _ in pairs))
        sources = dict(zip(given, self._network.sources(given), strict=True))
        targets = map(self.in_order, self._network.encode_texts([other for _, other in pairs]))
        return [
            Encoded((*sources[one], *target.ids), (*[CONTEXT_TOKEN] * len(sources[one]), *target.words))
            for (one, _), target in zip(pairs, targets, strict=True)
        ]

    def _tell_once(self, sentences: Sequence[Encoded]) -> None:
        most = self._network.positions // 2
        long = [split for sentence in sentences if (split := self.scored(sentence).start) > most]
        if long and not self._reported:
            self._reported = True
            log.warning(
                "%s: a source of %d tokens exceeds half of the model's %d positions; such sources are cut",
                self.name,
                long[0],
                self._network.positions,
            )

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        network = self._network
        most = network.positions // 2
        paths: dict[tuple[int, ...], list[Window]] = {}
        for index, sentence in enumerate(sentences):
            split = self.scored(sentence).start
            source, target = cut(sentence.ids[:split], most), sentence.ids[split:]
            for start, stop, first, last in windows(len(target), network.positions - len(source)):
                tokens = (source[-1], *target[start:stop])
                scored = slice(first - start + 1, last - start + 1)
                paths.setdefault(source[:-1], []).append(Window(tokens, scored, index, split + first))
        trees: list[PrefixTree] = []
        for stem, some in paths.items():
            some.sort(key=lambda path: path.tokens)
            trees += prefix_trees(some, True, min(LARGEST_TREE, network.batch_tokens), stem, network.cloze)
        trees.sort(key=lambda tree: tree.size)
        for together in batches(trees, lambda tree: tree.size, network.batch_tokens):
            yield as_request(together, network.pad, True)
