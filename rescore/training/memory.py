"""Fill an n-gram memory before training: each row is the mean of the words that stand there, in one pass over the text.

A training of minutes looks up a row some dozen times; counting uses all its places in the text.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rescore.networks.memory import WIDTH
from rescore.networks.tta import TTA
from rescore.training.corpus import Corpus


@torch.no_grad()
def fill_memory(network: TTA, corpus: Corpus) -> None:
    """Set the table's rows from the training sentences; the network's output stays the same, as the projection is zero.

    A word is represented by the whitened principal components of its embedding. The table is scaled to a root mean
    square of 1 over the n-grams of the text.
    """
    memory = network.ngram_memory
    assert memory is not None
    table = memory.table_embedding.weight
    words = whitened(network.token_embedding.weight, torch.from_numpy(corpus.token_counts()))
    total, count = torch.zeros(table.shape), torch.zeros(len(table))
    for ids, number in corpus.stream():
        tokens, sentence = torch.from_numpy(ids), torch.from_numpy(number)
        near = memory.neighbours((tokens + sentence * network.config.vocab_size)[None], torch.tensor([len(ids)]))
        inner = (sentence == sentence.roll(1)) & (sentence == sentence.roll(-1))  # neither [BOS] nor [EOS]
        vectors = words[tokens[inner]]
        for pair in near.rows[0, inner].unbind(-1):
            total.index_add_(0, pair, vectors)
            count += torch.bincount(pair, minlength=len(table))
    means = total / count.clamp_min(1)[:, None]
    scale = (count @ means.square().mean(-1) / count.sum()).sqrt().clamp_min(1e-6)
    table.copy_(means / scale)


def whitened(embeddings: Tensor, counts: Tensor) -> Tensor:
    """(vocabulary, WIDTH): coordinates of variance 1 over the text along the axes of most variance."""
    share = counts.double() / counts.sum()
    vectors = embeddings.double() - share @ embeddings.double()
    values, axes = torch.linalg.eigh(vectors.T * share @ vectors)
    values, axes = values.flip(0)[:WIDTH].clamp_min(1e-9), axes.flip(1)[:, :WIDTH]
    found = vectors @ axes / values.sqrt()
    return torch.nn.functional.pad(found, (0, WIDTH - found.shape[1])).float()
