"""Scores of a permutation language model: orders are seeded, depend on the length alone, and are averaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rescore.errors import UserError
from rescore.lms import ComputeOptions, checkpoint, load, without_context
from rescore.research.networks import order
from tests.conftest import Run, assert_one_line_error
from tests.lms.test_neural import short


def definition(folder: Path, sentence: str, orders: int, seed: int) -> np.ndarray:
    """For each order and each place in it a pass over a sentence in which all that comes later is another word."""
    network, tokenizer = checkpoint.load(folder)
    network.double()
    ids = tokenizer.encode([sentence])[0]
    size, found = tokenizer.vocab_size, np.zeros((orders, len(ids)))
    for which in range(orders):
        places = order(len(ids), which, seed)
        for rank, place in enumerate(places):
            tokens = torch.tensor([[tokenizer.bos, *[7] * len(ids), tokenizer.eos]])
            for before, known in enumerate(places):
                tokens[0, known + 1] = (ids[known] if before < rank else 7) + (before + 1) * size
            with torch.no_grad():
                hidden = network(tokens, torch.tensor([len(ids) + 2]))[0, place + 1]
                log_probs = (network.token_embedding.weight @ hidden).log_softmax(-1)
            found[which, place] = log_probs[ids[place]].item()
    return found.mean(axis=0)


@pytest.mark.parametrize(("options", "orders", "seed"), [("", 1, 0), ("orders=3:", 3, 0), ("orders=2:seed=5:", 2, 5)])
def test_equals_the_definition(options: str, orders: int, seed: int, models: dict[str, Path]) -> None:
    folder = models["permutation"]
    sentences = short(folder)[:15]
    together = load(f"permutation:{options}{folder}").score(without_context(sentences))
    single = load(f"permutation:{options}{folder}", ComputeOptions(batch_tokens=1))
    for text, found in zip(sentences, together, strict=True):
        slow = definition(folder, text, orders, seed)
        assert found.log_probs == pytest.approx(slow, abs=1e-4)
        assert single.score(without_context([text]))[0].log_probs == pytest.approx(slow, abs=1e-4)


def test_orders_are_seeded() -> None:
    found = {tuple(order(12, which, seed)) for which in range(4) for seed in range(3)}
    assert len(found) == 12 and all(sorted(one) == list(range(12)) for one in found)
    assert (order(12, 1, 2) == order(12, 1, 2)).all()


def test_the_fingerprint_has_the_orders(models: dict[str, Path]) -> None:
    options = ("", "orders=2:", "orders=4:", "seed=1:", "orders=4:seed=1:")
    lms = [load(f"permutation:{one}{models['permutation']}") for one in options]
    assert (
        len({lm.fingerprint for lm in lms})
        == len({lm.score(without_context(["the old clock"]))[0].sum for lm in lms})
        == 5
    )


def test_usual_numbers_change_nothing(models: dict[str, Path]) -> None:
    folder = models["permutation"]
    plain, given = load(f"permutation:{folder}"), load(f"permutation:orders=1:seed=0:{folder}")
    assert (plain.name, plain.fingerprint) == (given.name, given.fingerprint)
    four = [load(f"permutation:orders=4:{seed}{folder}").fingerprint for seed in ("", "seed=0:", "seed=1:")]
    assert four[0] == four[1] != four[2]


def test_wrong_numbers_are_refused(models: dict[str, Path], rescore: Run) -> None:
    for wrong in ("orders=0", "orders=many", "seed=-1", "orders=100"):
        with pytest.raises(UserError, match=f"{wrong}; expected a number from"):
            load(f"permutation:{wrong}:{models['permutation']}")
    (Path.cwd() / "t.txt").write_text("a\n", encoding="utf-8")
    done = rescore("score", "--text", "t.txt", "--lm", f"permutation:orders=x:{models['permutation']}")
    assert_one_line_error(done, "orders=x; expected a number from 1 to 99")
