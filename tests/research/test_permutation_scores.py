"""Scores of a permutation language model: the order depends on the length alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rescore.lms import ComputeOptions, checkpoint, load, without_context
from rescore.research.permutation import order
from tests.lms.test_neural import short


def definition(folder: Path, sentence: str) -> np.ndarray:
    """For each place in the order a pass over a sentence in which all that comes later is another word."""
    network, tokenizer = checkpoint.load(folder)
    network.double()
    ids = tokenizer.encode([sentence])[0]
    size, found = tokenizer.vocab_size, np.zeros(len(ids))
    places = order(len(ids))
    for rank, place in enumerate(places):
        tokens = torch.tensor([[tokenizer.bos, *[7] * len(ids), tokenizer.eos]])
        for before, known in enumerate(places):
            tokens[0, known + 1] = (ids[known] if before < rank else 7) + (before + 1) * size
        with torch.no_grad():
            hidden = network(tokens, torch.tensor([len(ids) + 2]))[0, place + 1]
            log_probs = (network.token_embedding.weight @ hidden).log_softmax(-1)
        found[place] = log_probs[ids[place]].item()
    return found


def test_equals_the_definition(models: dict[str, Path]) -> None:
    folder = models["permutation"]
    sentences = short(folder)[:15]
    together = load(f"permutation:{folder}").score(without_context(sentences))
    single = load(f"permutation:{folder}", ComputeOptions(batch_tokens=1))
    for text, found in zip(sentences, together, strict=True):
        slow = definition(folder, text)
        assert found.log_probs == pytest.approx(slow, abs=1e-4)
        assert single.score(without_context([text]))[0].log_probs == pytest.approx(slow, abs=1e-4)


def test_an_order_has_all_places() -> None:
    assert all(sorted(order(length)) == list(range(length)) for length in range(12))
    assert (order(12) == order(12)).all() and list(order(12)) != list(range(12))
