"""How well a `unified` network translates by itself: N-best lists of its beam search
from the sources of other lists.

    python benchmarks/beam.py test.generate.txt beam.jsonl --model DIR --first 500

The scores of hypotheses are means of natural logs over tokens; their sums are beside
them. Tokens have no blanks between a mark and the word before it, so references are
split at marks as hypotheses are. The command prints the BLEU of the best hypotheses
(with --beam 1, of greedy translations), and of the best hypothesis of each list by
sentence BLEU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rescore import formats
from rescore.columns import FIRST_PASS, SUM
from rescore.lms import checkpoint
from rescore.lms.fast import Batch, predict
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.metrics import choose_metric
from rescore.metrics.base import list_statistics, oracle, total, value
from rescore.nbest import Hypothesis, NbestList
from rescore.research.unified_kind import Segment


@dataclass(frozen=True, slots=True)
class Translation:
    """A hypothesis of the search."""

    ids: list[int]
    """Its tokens, without [BOS] and [EOS]."""
    sum: float
    """Natural log of its probability; if it is finished, with its [EOS]."""

    @property
    def mean(self) -> float:
        """The natural log a token, of a finished hypothesis."""
        return self.sum / (len(self.ids) + 1)


class BeamSearch:
    """Translations of a source, from left to right (Dong et al. 2019, section 2.3: the
    target sees the source and its own past).
    """

    def __init__(self, network: Network, tokenizer: Tokenizer, size: int) -> None:
        """Make a search.

        Args:
            network: A unified network that predicts next tokens.
            tokenizer: Its tokenizer.
            size: Number of hypotheses.
        """
        self._network = network
        self._tokenizer = tokenizer
        self._size = size
        self._vocabulary = network.config.vocab_size

    @torch.inference_mode()
    def translations(self, source: list[int]) -> list[Translation]:
        """Return the hypotheses of a source, the highest mean first.

        Args:
            source: The tokens of the source, without [BOS] and [EOS].
        """
        room = self._network.config.max_positions - 2
        source = source[:room]
        longest = min(room, 2 * len(source) + 10)
        beam = [Translation([], 0.0)]
        finished: list[Translation] = []
        while len(finished) < self._size and beam:
            log_probs = self._next(source, beam)
            if len(beam[0].ids) == longest:
                ends = log_probs[:, self._tokenizer.eos].tolist()
                for hypothesis, end in zip(beam, ends, strict=True):
                    finished.append(Translation(hypothesis.ids, hypothesis.sum + end))
                break
            beam = self._grown(beam, log_probs, finished)
        finished.sort(key=lambda hypothesis: -hypothesis.mean)
        return finished[: self._size]

    def _next(self, source: list[int], beam: list[Translation]) -> Tensor:
        """Return (hypotheses, vocabulary) natural logs of the next token."""
        tokenizer, network = self._tokenizer, self._network
        first = torch.tensor([tokenizer.bos, *source, tokenizer.eos])
        first = first + Segment.SOURCE * self._vocabulary
        second = torch.tensor([[tokenizer.bos, *hypothesis.ids] for hypothesis in beam])
        second = second + Segment.TARGET * self._vocabulary
        tokens = torch.cat([first.expand(len(beam), -1), second], dim=1)
        rows, columns = tokens.shape
        last = torch.arange(1, rows + 1) * columns - 1
        hidden = predict(network, Batch(tokens, torch.full((rows,), columns), last))
        log_probs = (hidden @ network.output_weight.T).log_softmax(-1)
        never = [tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.mask]
        log_probs[:, never] = -torch.inf
        return log_probs

    def _grown(
        self, beam: list[Translation], log_probs: Tensor, finished: list[Translation]
    ) -> list[Translation]:
        """Return the best unfinished hypotheses that are a token longer; those among
        the best that end are added to `finished`.
        """
        sums = torch.tensor([hypothesis.sum for hypothesis in beam])
        best, places = (sums[:, None] + log_probs).flatten().topk(2 * self._size)
        grown = []
        scored = zip(best.tolist(), places.tolist(), strict=True)
        for rank, (score, place) in enumerate(scored):
            parent, token = divmod(place, self._vocabulary)
            ids = beam[parent].ids
            if token != self._tokenizer.eos:
                grown.append(Translation([*ids, token], score))
            elif rank < self._size:
                finished.append(Translation(ids, score))
        return grown[: self._size]


def translated(
    network: Network, tokenizer: Tokenizer, lists: list[NbestList], size: int
) -> Iterator[NbestList]:
    """Yield lists with the same sources and references, and hypotheses of the network.

    Args:
        network: A unified network that predicts next tokens.
        tokenizer: Its tokenizer.
        lists: Lists with sources.
        size: Number of hypotheses.
    """
    search = BeamSearch(network, tokenizer, size)
    for nbest in lists:
        (source,) = tokenizer.encode([nbest.source or ""])
        hypotheses = []
        for translation in search.translations(source):
            text = " ".join(tokenizer.tokens(translation.ids)).replace(" ##", "")
            scores = {FIRST_PASS: translation.mean, SUM: translation.sum}
            hypotheses.append(Hypothesis(text, scores))
        references = [" ".join(words) for words in tokenizer.words(nbest.references)]
        yield NbestList(nbest.id, hypotheses, tuple(references), nbest.source)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists")
    parser.add_argument("out")
    parser.add_argument("--model", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--beam", type=int, default=7, metavar="N", help="hypotheses of a list"
    )
    parser.add_argument("--first", type=int, metavar="N", help="only the first N lists")
    options = parser.parse_args()
    network, tokenizer = checkpoint.load(options.model, "unified")
    lists = formats.read([options.lists])[: options.first]
    formats.write(translated(network, tokenizer, lists, options.beam), options.out)
    beams = formats.read([options.out])
    metric = choose_metric("bleu", beams)
    rows = list_statistics(metric, beams)
    first = value(metric, total(rows, [0] * len(beams)))
    best = value(metric, total(rows, oracle(metric, rows)))
    print(
        f"BLEU {first:.2f} of the first hypotheses, {best:.2f} of the best hypothesis"
        f" of each list, {len(beams)} lists"
    )


if __name__ == "__main__":
    main()
