"""How well a `unified` network translates by itself: BLEU of its greedy translations of the lists' sources.

python benchmarks/greedy.py LISTS --model DIR [--first 500]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from rescore import formats
from rescore.lms.neural import checkpoint
from rescore.lms.neural.blocks import Transformer
from rescore.lms.neural.tokenizer import Tokenizer
from rescore.lms.unified.network import Segment
from rescore.metrics import choose_metric

TOGETHER = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lists")
    parser.add_argument("--model", required=True)
    parser.add_argument("--first", type=int)
    options = parser.parse_args()
    network, tokenizer = checkpoint.load(Path(options.model), "unified")
    lists = formats.read([options.lists])[: options.first]
    texts: list[str] = []
    for start in range(0, len(lists), TOGETHER):
        texts += translated(network, tokenizer, [nbest.source or "" for nbest in lists[start : start + TOGETHER]])
    metric = choose_metric("bleu", lists)
    # WordPieces have no blanks between a mark and what it belongs to: both sides are cut into the same pieces.
    sides = (texts, [nbest.references[0] for nbest in lists])
    ours, references = ([" ".join(words) for words in tokenizer.words(side)] for side in sides)
    rows = metric.statistics(ours, [(reference,) for reference in references])
    for source, text in list(zip(lists, ours, strict=True))[:3]:
        print(f"{source.source}\n  {text}")
    print(f"BLEU {metric.values(rows.sum(axis=0)[None])[0]:.2f} of {len(texts)} greedy translations")


@torch.inference_mode()
def translated(network: Transformer, tokenizer: Tokenizer, sources: list[str]) -> list[str]:
    """Token by token the most probable, at most twice the source's length."""
    size, half = network.config.vocab_size, network.config.max_positions // 2
    shown = [[tokenizer.bos, *ids[: half - 2], tokenizer.eos] for ids in tokenizer.encode(sources)]
    rows = [[token + Segment.SOURCE * size for token in one] for one in shown]
    made: list[list[int]] = [[] for _ in rows]
    running = set(range(len(rows)))
    while running:
        some = sorted(running)
        sequences = [rows[index] + [token + Segment.TARGET * size for token in made[index]] for index in some]
        lengths = torch.tensor([len(one) for one in sequences])
        tokens = torch.zeros(len(some), int(lengths.max()), dtype=torch.long)
        for place, one in enumerate(sequences):
            tokens[place, : len(one)] = torch.tensor(one)
        last = network(tokens, lengths)[torch.arange(len(some)), lengths - 1]
        best = (last @ network.token_embedding.weight.T).argmax(-1).tolist()
        for index, token in zip(some, best, strict=True):
            if token == tokenizer.eos or len(made[index]) >= min(half - 1, 2 * len(rows[index])):
                running.discard(index)
            else:
                made[index].append(token)
    return [" ".join(tokenizer.tokens(ids)).replace(" ##", "") for ids in made]


if __name__ == "__main__":
    main()
