"""A permutation language model is the chain rule in any order: a token that comes later
in the order is not known.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.lms import ComputeOptions, checkpoint, load, without_context
from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, predict
from rescore.lms.networks import TTA
from rescore.lms.tokenizer import Tokenizer
from rescore.research.permutation import (
    Permutation,
    PermutationLanguageModelling,
    order,
)
from tests.conftest import SENTENCES, Run, assert_one_line_error, write_json
from tests.lms.test_neural import short

VOCABULARY, SIZE = 50, 16
ORDER = st.integers(1, SIZE - 2).flatmap(
    lambda length: st.permutations(range(1, length + 1))
)
"""The places of the tokens of a sentence; the first is predicted first."""


def network(seed: int, vocabulary: int = VOCABULARY, **fields: object) -> Permutation:
    """A random network in float64, whose biases and norms are no defaults."""
    torch.manual_seed(seed)
    config = NetworkConfig(
        "permutation",
        vocabulary,
        layers=3,
        d_model=16,
        heads=2,
        d_ff=32,
        max_positions=SIZE,
        **fields,  # type: ignore[arg-type]
    )
    random_network = Permutation(config).double().eval()
    with torch.no_grad():
        for value in random_network.parameters():
            if value.dim() == 1:
                value.add_(torch.randn_like(value) * 0.1)
    return random_network


def numbered(tokens: list[int], places: list[int], vocabulary: int) -> torch.Tensor:
    """[BOS] tokens [EOS] with the ranks of an order."""
    sentence = torch.tensor([[2, *tokens, 3]])
    for rank, place in enumerate(places, 1):
        sentence[0, place] += rank * vocabulary
    return sentence


def random_tokens(length: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, VOCABULARY, (length,), generator=generator).tolist()


def chain_rule(
    network: Permutation, tokens: list[int], places: list[int]
) -> list[torch.Tensor]:
    """The factors of equation 2.8 of the dissertation: the log-probabilities
    (vocabulary,) at each place of the order, by a network that is given the frame and
    the tokens of the places before it, and nothing else.
    """
    factors = []
    frame = [(0, 2), (len(tokens) + 1, 3)]
    position = network.position_embedding.weight
    width = network.config.d_model // network.config.heads
    for step, place in enumerate(places):
        known = [*frame, *((before, tokens[before - 1]) for before in places[:step])]
        memory = torch.stack(
            [
                network.token_embedding.weight[token] + position[at]
                for at, token in known
            ]
        )
        query = position[place]
        for block in network.layers():
            attention = block.attention
            heads = []
            for part in torch.arange(network.config.d_model).split(width):
                keys = attention.key(memory)[:, part]
                logits = keys @ attention.query(query)[part] / math.sqrt(width)
                heads.append(logits.softmax(0) @ attention.value(memory)[:, part])
            context = attention.output(torch.cat(heads))
            hidden = block.attention_norm(query + context)
            inner = block.fc2(F.gelu(block.fc1(hidden)))
            query = block.feed_forward_norm(hidden + inner)
        factors.append((network.token_embedding.weight @ query).log_softmax(-1))
    return factors


@settings(max_examples=30)
@given(ORDER, st.integers(0, 100))
def test_equals_the_chain_rule(places: list[int], seed: int) -> None:
    lm = network(seed)
    tokens = random_tokens(len(places), seed)
    sentence = numbered(tokens, places, VOCABULARY)
    lengths = torch.tensor([sentence.shape[1]])
    inner = torch.arange(1, len(tokens) + 1)
    with torch.no_grad():
        slow = chain_rule(lm, tokens, places)
        fast = predict(lm, Batch(sentence, lengths, inner))
        for hidden in (lm(sentence, lengths)[0, 1:-1], fast):
            log_probs = (hidden @ lm.token_embedding.weight.T).log_softmax(-1)
            for place, factor in zip(places, slow, strict=True):
                torch.testing.assert_close(log_probs[place - 1], factor)


@settings(max_examples=30)
@given(ORDER, st.integers(0, 100), st.data())
def test_later_tokens_are_unknown(
    places: list[int], seed: int, data: st.DataObject
) -> None:
    """Another token changes the predictions behind it in the order, and no other."""
    lm = network(seed)
    tokens = random_tokens(len(places), seed)
    step = data.draw(st.integers(0, len(places) - 1))
    changed = list(tokens)
    old = changed[places[step] - 1]
    changed[places[step] - 1] = 5 + (old - 4) % (VOCABULARY - 5)
    lengths = torch.tensor([len(tokens) + 2])
    with torch.no_grad():
        first = lm(numbered(tokens, places, VOCABULARY), lengths)[0]
        second = lm(numbered(changed, places, VOCABULARY), lengths)[0]
    moved = (first - second).abs().amax(-1) > 1e-12
    expected = [rank > step for rank in range(len(places))]
    assert [bool(moved[place]) for place in places] == expected


def test_the_probabilities_of_all_sentences_add_up_to_one() -> None:
    """Of three tokens of a vocabulary of four, in one order, given the length."""
    lm = network(0, vocabulary=4)
    total = 0.0
    for number in range(4**3):
        tokens = [number // 16, number // 4 % 4, number % 4]
        with torch.no_grad():
            hidden = lm(numbered(tokens, [2, 3, 1], 4), torch.tensor([5]))[0, 1:-1]
            log_probs = (hidden @ lm.token_embedding.weight.T).log_softmax(-1)
        total += math.exp(log_probs[range(3), tokens].sum())
    assert total == pytest.approx(1.0)


def test_the_probability_depends_on_the_order() -> None:
    lm = network(0)
    tokens = random_tokens(5, 0)
    scores = set()
    for places in ([1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [3, 1, 5, 2, 4]):
        with torch.no_grad():
            factors = chain_rule(lm, tokens, places)
        total = 0.0
        for place, factor in zip(places, factors, strict=True):
            total += factor[tokens[place - 1]].item()
        scores.add(round(total, 6))
    assert len(scores) == 3


@pytest.mark.parametrize("first_query", ["position", "mask"])
def test_without_an_order_it_is_a_tta(first_query: str) -> None:
    lm = network(0, first_query=first_query, embedding_norm=True)
    twin = TTA(lm.config.of_kind("tta")).double().eval()
    twin.load_state_dict(lm.state_dict())
    tokens, lengths = torch.randint(5, VOCABULARY, (3, 9)), torch.tensor([9, 4, 7])
    with torch.no_grad():
        for row, length in enumerate(lengths):
            torch.testing.assert_close(
                lm(tokens, lengths)[row, :length], twin(tokens, lengths)[row, :length]
            )


def test_training_draws_an_order_for_each_sentence(tokenizer: Tokenizer) -> None:
    objective = PermutationLanguageModelling(tokenizer)
    tokens = torch.tensor([[2, 7, 8, 9, 3], [2, 7, 8, 3, 0]]).repeat(300, 1)
    lengths = torch.tensor([5, 4]).repeat(300)
    example = objective(tokens, lengths, [7, 1])
    size = tokenizer.vocab_size
    assert torch.equal(example.tokens % size, tokens)
    assert example.targets.tolist() == [7, 8, 9, 7, 8] * 300
    ranks = example.tokens // size
    assert not ranks[~example.predicted].any()
    long = {tuple(row) for row in ranks[::2, 1:4].tolist()}
    assert long == {(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)}
    first = (ranks[1::2, 1] == 1).float().mean().item()
    assert 0.4 < first < 0.6  # each order is as probable
    assert torch.equal(objective(tokens, lengths, [7, 1]).tokens, example.tokens)
    assert not torch.equal(objective(tokens, lengths, [7, 2]).tokens, example.tokens)


def slow_score(folder: Path, text: str, orders: int, seed: int) -> list[float]:
    """The mean over orders of the chain rule, in float64."""
    lm, tokenizer = checkpoint.load(folder)
    lm.double()
    assert isinstance(lm, Permutation)
    ids = tokenizer.encode([text])[0]
    log_probs = np.zeros((orders, len(ids)))
    for number in range(orders):
        places = [int(place) + 1 for place in order(len(ids), number, seed)]
        with torch.no_grad():
            factors = chain_rule(lm, ids, places)
        for place, factor in zip(places, factors, strict=True):
            log_probs[number, place - 1] = factor[ids[place - 1]]
    means: list[float] = log_probs.mean(axis=0).tolist()
    return means


@pytest.mark.parametrize(
    ("options", "orders", "seed"),
    [("", 1, 0), ("orders=3:", 3, 0), ("orders=2:seed=5:", 2, 5)],
)
def test_scores_equal_the_definition(
    options: str, orders: int, seed: int, models: dict[str, Path]
) -> None:
    folder = models["permutation"]
    texts = [*short(folder)[:10], "", short(folder)[0]]
    together = load(f"permutation:{options}{folder}")
    single = load(f"permutation:{options}{folder}", ComputeOptions(batch_tokens=1))
    for text, scores in zip(texts, together.score(without_context(texts)), strict=True):
        slow = slow_score(folder, text, orders, seed)
        assert scores.log_probs == pytest.approx(slow, abs=1e-4)
        (alone,) = single.score(without_context([text]))
        assert alone.log_probs == pytest.approx(slow, abs=1e-4)
        assert alone.tokens == scores.tokens


def test_long_sentences_are_read_in_windows(models: dict[str, Path]) -> None:
    lm = load(f"permutation:orders=2:{models['permutation']}")
    (scores,) = lm.score(without_context([" ".join(["the old clock"] * 20)]))
    assert len(scores.tokens) > 40 and (scores.log_probs < 0).all()


def test_orders_are_seeded_and_differ() -> None:
    orders = {
        tuple(order(12, number, seed).tolist())
        for number in range(4)
        for seed in range(3)
    }
    assert len(orders) == 12
    assert all(sorted(places) == list(range(12)) for places in orders)
    assert (order(12, 1, 2) == order(12, 1, 2)).all()


def test_names_and_fingerprints_have_the_options(models: dict[str, Path]) -> None:
    folder = models["permutation"]
    options = ("", "orders=2:", "orders=4:", "seed=1:", "orders=4:seed=1:")
    lms = [load(f"permutation:{option}{folder}") for option in options]
    assert len({lm.fingerprint for lm in lms}) == 5
    scores = {lm.score(without_context(["the old clock"]))[0].sum for lm in lms}
    assert len(scores) == 5
    defaults = load(f"permutation:seed=0:orders=1:{folder}")
    assert (defaults.name, defaults.fingerprint) == (lms[0].name, lms[0].fingerprint)
    turned = load(f"permutation:seed=1:orders=4:{folder}")
    assert (turned.name, turned.fingerprint) == (lms[4].name, lms[4].fingerprint)


@pytest.mark.parametrize("wrong", ["orders=0", "orders=many", "seed=-1", "orders=100"])
def test_wrong_numbers_are_refused(wrong: str, models: dict[str, Path]) -> None:
    with pytest.raises(UserError, match=f"{wrong}; expected a number from"):
        load(f"permutation:{wrong}:{models['permutation']}")


def test_the_commands(rescore: Run, tmp_path: Path) -> None:
    """Trained, resumed, scored with, compared, and asked for vectors."""
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    sizes = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16, "vocab_size": 300}
    write_json(tmp_path / "tiny.json", sizes)
    train = ["train", "--lm", "permutation", "--text", "text", "--config", "tiny.json"]
    train += ["--held-out", "20", "--device", "cpu", "--out", "lm"]
    done = rescore(*train, "--steps", "3")
    assert done.returncode == 0 and "given the length) " in done.stderr, done.stderr
    assert rescore(*train, "--steps", "5", "--resume").returncode == 0
    hypotheses = {
        "hyp_1": {"score": -1, "text": "the old clock"},
        "hyp_2": {"score": -2, "text": "the odd clock"},
    }
    lists = {f"u{n}": {"ref": "the old clock", **hypotheses} for n in range(3)}
    write_json(tmp_path / "l.json", lists)
    done = rescore("score", "l.json", "--lm", "permutation:orders=2:lm")
    (first, *_) = [json.loads(line) for line in done.stdout.splitlines()]
    assert first["hyps"][0]["scores"]["permutation:orders=2"] < 0
    done = rescore("compare", "l.json", "--lm", "permutation:lm", "--dev", "l.json")
    assert done.returncode == 0 and "permutation" in done.stdout, done.stderr
    (tmp_path / "pairs").write_text("1\tthe old clock\tthe clock\n3\ta wall\ta day\n")
    done = rescore("similarity", "pairs", "--lm", "permutation:lm")
    assert done.returncode == 0, done.stderr
    done = rescore("score", "l.json", "--lm", "permutation:orders=x:lm")
    assert_one_line_error(done, "orders=x; expected a number from 1 to 99")
