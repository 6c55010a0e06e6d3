"""How well a `unified` network translates by itself: N-best lists of its beam search from the sources of other lists.

python benchmarks/beam.py LISTS OUT.jsonl --model DIR [--beam 7] [--first 500]

Scores are means of natural logarithms over tokens, the sum is beside them. WordPieces have no blanks between a mark
and the word before it, so references are cut at marks as hypotheses are. Prints the BLEU of the best hypotheses, which
is that of greedy translations with --beam 1, and of the best one of each list by sentence BLEU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from rescore import formats
from rescore.lms import checkpoint
from rescore.lms.tokenizer import Tokenizer
from rescore.metrics import choose_metric
from rescore.metrics.base import list_statistics, oracle, total, value
from rescore.mt.unified import Segment, Unified
from rescore.nbest import FIRST_PASS, SUM, Hypothesis, NbestList

SEEN = torch.ones(1, 1, 1, 1, dtype=torch.bool)


class Translation(NamedTuple):
    """A finished hypothesis."""

    ids: list[int]
    """Without [EOS]."""
    sum: float
    """Natural logarithm of its probability, [EOS] included."""

    @property
    def mean(self) -> float:
        return self.sum / (len(self.ids) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists")
    parser.add_argument("out")
    parser.add_argument("--model", required=True, metavar="DIR")
    parser.add_argument("--beam", type=int, default=7, metavar="N", help="hypotheses of a list")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N lists")
    options = parser.parse_args()
    network, tokenizer = checkpoint.load(Path(options.model), "unified")
    assert isinstance(network, Unified)
    given = formats.read([options.lists])[: options.first]
    formats.write(translated(network, tokenizer, given, options.beam), options.out)
    lists = formats.read([options.out])
    metric = choose_metric("bleu", lists)
    rows = list_statistics(metric, lists)
    first, best = (value(metric, total(rows, choice)) for choice in ([0] * len(lists), oracle(metric, rows)))
    print(f"BLEU {first:.2f} of the first hypotheses, {best:.2f} of the best, {len(lists)} lists")


def translated(network: Unified, tokenizer: Tokenizer, lists: list[NbestList], size: int) -> Iterator[NbestList]:
    """Lists with the same sources and references, and the network's own hypotheses, the best first."""
    most = network.config.max_positions // 2
    for nbest in lists:
        source = tokenizer.encode([nbest.source or ""])[0][: most - 2]
        hypotheses = [
            Hypothesis(" ".join(tokenizer.tokens(one.ids)).replace(" ##", ""), {FIRST_PASS: one.mean, SUM: one.sum})
            for one in search(network, tokenizer, source, size)
        ]
        references = tuple(" ".join(words) for words in tokenizer.words(nbest.references))
        yield NbestList(nbest.id, hypotheses, references, nbest.source)


@torch.inference_mode()
def search(network: Unified, tokenizer: Tokenizer, source: list[int], size: int) -> list[Translation]:
    """At most `size` translations of token ids by beam search, the highest mean first; twice as long as the source."""
    vocabulary, most = network.config.vocab_size, network.config.max_positions // 2
    limit = min(most - 1, 2 * len(source) + 10)
    never = [tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.mask]
    tokens = torch.tensor([[tokenizer.bos, *source, tokenizer.eos]]) + Segment.SOURCE * vocabulary
    memories = [torch.empty(1, 0, network.config.d_model)] * network.config.layers
    rows: list[list[int]] = [[]]
    sums = torch.zeros(1)
    finished: list[Translation] = []
    while len(finished) < size and rows:
        last, memories = extended(network, tokens, memories)
        scores = (last @ network.token_embedding.weight.T).log_softmax(-1)
        scores[:, never] = -torch.inf
        if len(rows[0]) == limit:
            ends = (sums + scores[:, tokenizer.eos]).tolist()
            finished += [Translation(row, end) for row, end in zip(rows, ends, strict=True)]
            break
        best, places = (sums[:, None] + scores).flatten().topk(2 * size)
        parents, following = (places // vocabulary).tolist(), (places % vocabulary).tolist()
        ended = [rank for rank in range(size) if following[rank] == tokenizer.eos]
        finished += [Translation(rows[parents[rank]], float(best[rank])) for rank in ended]
        kept = [rank for rank in range(2 * size) if following[rank] != tokenizer.eos][:size]
        rows = [[*rows[parents[rank]], following[rank]] for rank in kept]
        sums = best[kept]
        memories = [memory[[parents[rank] for rank in kept]] for memory in memories]
        tokens = torch.tensor([[row[-1]] for row in rows]) + Segment.TARGET * vocabulary
    return sorted(finished, key=lambda one: -one.mean)[:size]


def extended(network: Unified, tokens: Tensor, memories: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """The hidden vector (batch, d) of the last of more tokens (batch, n), and what each layer remembers with them."""
    positions = torch.arange(tokens.shape[1]) + memories[0].shape[1]
    hidden = network.embed_at(tokens, positions) * network.scale
    grown = []
    for block, memory in zip(network.layers(), memories, strict=True):
        grown.append(torch.cat([memory, hidden], dim=1))
        hidden = block(hidden, grown[-1], SEEN)
    return network.output_transform(hidden)[:, -1], grown


if __name__ == "__main__":
    main()
