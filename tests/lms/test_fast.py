"""What is computed cleverly equals what the definition computes, on random and on real
text, in any company.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rescore
from rescore.lms import ComputeOptions, Question, checkpoint, load, without_context
from rescore.lms.causal import PrefixTree
from rescore.lms.config import NetworkConfig
from rescore.lms.fast import Batch, TiedSoftmax, predict
from rescore.lms.networks import Network
from rescore.lms.scorers import NetworkScorer, Request, Window, windows
from rescore.lms.tokenizer import Tokenizer
from tests.conftest import ROOT, SENTENCES
from tests.lms import test_neural
from tests.lms.test_neural import BACKENDS, folder_of

NBEST = rescore.read(ROOT / "data" / "test.json")[:8]
REAL = [hypothesis.text for nbest in NBEST for hypothesis in nbest.hypotheses[:9]]

definition = cache(test_neural.definition)
"""Each text's is computed once for all sizes of batches."""


def short(folder: Path, texts: Sequence[str]) -> list[str]:
    """Of the texts those that fit a tiny model."""
    _, tokenizer = checkpoint.load(folder)
    return [
        text
        for text, ids in zip(texts, tokenizer.encode(texts), strict=True)
        if len(ids) <= 22
    ]


def questions(lm: NetworkScorer, texts: Sequence[str]) -> list[Request]:
    encoded = [
        lm.in_order(sentence) for sentence in lm.network.encode(without_context(texts))
    ]
    return list(lm.requests(list(dict.fromkeys(encoded))))


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("backend", BACKENDS)
def test_random_network_equals_the_definition(
    backend: str, size: int, models: dict[str, Path]
) -> None:
    folder = folder_of(backend, models)
    lm = load(f"{backend}:{folder}", ComputeOptions(batch_tokens=size * 11))
    texts = [*short(folder, REAL)[:16], *short(folder, SENTENCES)[:16]]
    assert len(texts) == 32
    expected = {
        text: definition(backend, folder, text)
        for text in set(texts[:: max(1, 8 // size)])
    }
    for start in range(0, len(texts), size):
        together = texts[start : start + size]
        if expected.keys().isdisjoint(together):
            continue
        for text, found in zip(
            together, lm.score(without_context(together)), strict=True
        ):
            if text in expected:
                assert found.log_probs == pytest.approx(expected[text], abs=1e-4)


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("backend", ["tta", "bilm"])
def test_shipped_network_equals_the_definition(backend: str, size: int) -> None:
    lm = load(backend)
    folder = ROOT / "models" / backend
    expected = {
        text: definition(backend, folder, text)
        for text in REAL[:: 24 if backend == "bilm" else 8]
    }
    texts = REAL[:64]
    for start in range(0, len(texts), size):
        together = texts[start : start + size]
        if expected.keys().isdisjoint(together):
            continue
        for text, found in zip(
            together, lm.score(without_context(together)), strict=True
        ):
            if text in expected:
                assert found.log_probs == pytest.approx(expected[text], abs=1e-4)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kind", ["tta", "bilm", "unilm"])
def test_options_of_the_configuration(
    kind: str,
    precision: str,
    models: dict[str, Path],
    tmp_path: Path,
    config: NetworkConfig,
) -> None:
    """LayerNorm on the embeddings, transform and bias before the softmax: the fast pass
    has what `forward` has.
    """
    torch.manual_seed(3)
    options: dict[str, Any] = {
        "embedding_norm": True,
        "output_transform": True,
        "output_bias": True,
    }
    options |= {"first_query": "mask", "scaled_embeddings": precision == "int8"}
    made = checkpoint.build(replace(config, kind=kind, **options))
    with torch.no_grad():
        for value in made.parameters():
            if value.dim() == 1:
                value.add_(torch.randn_like(value) * 0.3)
    checkpoint.save(tmp_path, made, checkpoint.load(models["tta"])[1])
    lm = load(f"{kind}:{tmp_path}", ComputeOptions(precision=precision))
    for text in short(tmp_path, REAL)[:5]:
        (found,) = lm.score(without_context([text]))
        near = 1e-4 if precision == "float32" else 0.5
        assert found.log_probs == pytest.approx(
            definition(kind, tmp_path, text), abs=near
        )


NEIGHBOURS = {"tta": (1, 1), "bilm": (1, 1), "unilm": (1, 0)}
BESIDE = [
    (kind, beside)
    for kind in NEIGHBOURS
    for beside in ("", "context=1:", "source", "channel:")
][:-2]
"""What a text is read with; a causal network reads no source."""


def beside(
    network: Network, tokenizer: Tokenizer, texts: Sequence[str], own: int
) -> list[float]:
    """log p of each token of a text among others, by `forward`: a token at a time,
    without batches.
    """
    size, kind = network.config.vocab_size, network.config.kind
    room = network.config.max_positions - 2
    ids = tokenizer.encode(texts)
    values = []
    cut = (
        windows(len(ids[own]) + (kind == "unilm"), room + (kind == "unilm"))
        if len(texts) == 1
        else None
    )
    for start, stop, first, last in cut or [
        (0, len(ids[own]), 0, len(ids[own]) + (kind == "unilm"))
    ]:
        parts = [ids[own][start:stop]] if cut else ids
        framed = [[tokenizer.bos, *part, tokenizer.eos] for part in parts]
        flat = [
            token + number * size
            for number, part in enumerate(framed)
            for token in part
        ]
        begin = sum(map(len, framed[:own])) + 1 - start
        for place in range(begin + first, begin + last):
            tokens = torch.tensor([flat[:place] if kind == "unilm" else flat])
            if kind == "bilm":
                tokens[0, place] = tokenizer.mask + own * size
            hidden = network(tokens, torch.tensor([tokens.shape[1]]))[
                0, place - (kind == "unilm")
            ]
            logits = network.token_embedding.weight @ hidden
            values.append(logits.log_softmax(-1)[flat[place] % size].item())
    return values


@pytest.mark.parametrize(
    ("precision", "error"), [("float32", 1e-4), ("bf16", 0.5), ("int8", 0.5)]
)
@pytest.mark.parametrize(("kind", "read"), BESIDE)
def test_equals_forward(
    kind: str,
    read: str,
    precision: str,
    error: float,
    tmp_path: Path,
    tokenizer: Tokenizer,
    config: NetworkConfig,
) -> None:
    """Of each kind, precision, source, window and neighbour."""
    torch.manual_seed(4)
    before, after = (
        NEIGHBOURS[kind] if read.startswith("context") else (int(read != ""), 0)
    )
    source = read in ("source", "channel:")
    network = checkpoint.build(
        replace(config, kind=kind, sentences=1 + before + after, source=source)
    )
    if read:
        # zero before any training
        torch.nn.init.normal_(network.sentence_embedding.weight)
    checkpoint.save(tmp_path, network, tokenizer)
    network = checkpoint.load(tmp_path)[0].double()
    one, other, third, long = (
        "the old clock",
        "an odd clock",
        "on the wall",
        " ".join(["the old clock"] * 20),
    )
    lm = load(
        f"{kind}:{'' if source and read == 'source' else read}{tmp_path}",
        ComputeOptions(precision=precision),
    )
    asked = [
        Question(text, other, (other,), (third,))
        for text in (one, third, long, f"{one} on")
    ]
    with torch.no_grad():
        for question, found in zip(asked, lm.score(asked), strict=True):
            texts, own = [question.text], 0
            if read == "channel:":
                texts, own = [question.text, other], 1
            elif read and question.text != long:
                texts, own = (
                    [*[other] * before, question.text, *[third] * after],
                    before,
                )
            if read == "channel:" and question.text == long:
                continue  # the text that is shown is cut
            expected = beside(network, tokenizer, texts, own)
            assert found.log_probs == pytest.approx(expected, abs=error)


def test_vocabulary_cannot_overflow() -> None:
    torch.manual_seed(0)
    for scale in (1e-3, 1.0, 1e3, 1e17):
        hidden, embeddings = torch.randn(7, 8) * scale, torch.randn(3000, 8) * scale
        of, targets = (
            torch.tensor([0, 0, 3, 6, 5]),
            torch.tensor([0, 2999, 1024, 1023, 7]),
        )
        slow = torch.log_softmax(hidden.double() @ embeddings.double().T, -1)[
            of, targets
        ].float()
        found = TiedSoftmax(embeddings).log_probs(hidden, of, targets)
        assert torch.isfinite(found).all() and torch.allclose(
            found, slow, rtol=1e-5, atol=1e-4
        )


@pytest.mark.parametrize("packed", [None, torch.float16])
def test_the_most_probable_token_of_the_whole_vocabulary(
    packed: torch.dtype | None,
) -> None:
    """Slices have 2,048 tokens: the winner is in each of three in turn."""
    torch.manual_seed(0)
    hidden = torch.randn(50, 16)
    weight = torch.randn(5000, 16).half().float()
    bias = torch.randn(5000)
    found = TiedSoftmax(weight, bias, packed).best(hidden)
    assert torch.equal(found, (hidden @ weight.T + bias).argmax(-1))
    assert {token // 2048 for token in found.tolist()} == {0, 1, 2}


def test_an_nbest_list_is_read_as_a_tree(models: dict[str, Path]) -> None:
    lm = load(f"unilm:{models['unilm']}", ComputeOptions(batch_tokens=100_000))
    assert isinstance(lm, NetworkScorer)
    for nbest in NBEST:
        texts = short(
            models["unilm"], [hypothesis.text for hypothesis in nbest.hypotheses]
        )
        sequences = [
            lm.in_order(sentence).ids
            for sentence in lm.network.encode(without_context(texts))
        ]
        prefixes = {ids[:length] for ids in sequences for length in range(len(ids))}
        found = questions(lm, texts)
        assert sum(len(question.batch.at) for question in found) <= 1.1 * len(prefixes)
        assert sum(len(question.targets) for question in found) < sum(
            map(len, sequences)
        )


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.integers(1, 3), min_size=1, max_size=6), min_size=1, max_size=8
    )
)
def test_prefix_tree_has_each_prefix_once(sequences: list[list[int]]) -> None:
    paths = sorted((0, *tokens) for tokens in sequences)
    tree = PrefixTree()
    for rank, tokens in enumerate(paths):
        tree.add(Window(tokens, slice(1, None), rank, 0))
    assert len(tree.tokens) == len(
        {path[:length] for path in paths for length in range(1, len(path) + 1)}
    )
    assert tree.size == len(
        {path[:length] for path in paths for length in range(1, len(path))}
    )
    assert [[tree.tokens[node] for node in nodes] for _, nodes in tree.scored] == [
        list(path[1:]) for path in paths
    ]
    for node, rank in tree.read.items():
        ancestors = {node}
        while (parent := tree.parents[min(ancestors)]) >= 0:
            ancestors.add(parent)
        seen = tree.visible(tree.size)[rank]
        assert {other for other, place in tree.read.items() if seen[place]} == ancestors
        assert tree.depths[node] == len(ancestors) - 1


def test_equal_masked_contexts_are_computed_once(models: dict[str, Path]) -> None:
    lm = load(f"bilm:{models['bilm']}")
    assert isinstance(lm, NetworkScorer)
    network = lm.network
    texts = short(
        models["bilm"], [hypothesis.text for hypothesis in NBEST[0].hypotheses]
    )
    sequences = [sentence.ids for sentence in network.encode(without_context(texts))]
    contexts = {
        (ids[:at], ids[at + 1 :]) for ids in sequences for at in range(len(ids))
    }
    found = questions(lm, texts)
    assert (
        sum(len(question.batch.tokens) for question in found)
        == len(contexts)
        < sum(map(len, sequences))
    )
    assert sum(len(question.targets) for question in found) == sum(
        map(len, set(sequences))
    )


@pytest.mark.parametrize("kind", ["tta", "bilm", "unilm"])
def test_batches_keep_to_the_budget_with_little_padding(
    kind: str, models: dict[str, Path]
) -> None:
    lm = load(f"{kind}:{models[kind]}", ComputeOptions(batch_tokens=600))
    assert isinstance(lm, NetworkScorer)
    lists = rescore.read(ROOT / "data" / "test.json")
    texts = [hypothesis.text for nbest in lists for hypothesis in nbest.hypotheses]
    real = grid = 0
    for question in questions(lm, texts[: 300 if kind == "bilm" else None]):
        rows, columns = question.batch.tokens.shape
        assert rows * columns <= 600 or rows == 1
        real += int(question.batch.lengths.sum())
        grid += rows * columns
    assert 1 - real / grid < 0.05


def test_masked_copies_of_a_long_sentence_come_in_small_batches(
    models: dict[str, Path],
) -> None:
    lm = load(f"bilm:{models['bilm']}", ComputeOptions(batch_tokens=256))
    assert isinstance(lm, NetworkScorer)
    asked = questions(lm, [" ".join(SENTENCES[:40])])
    assert max(question.batch.tokens.numel() for question in asked) <= 256
    assert sum(len(question.targets) for question in asked) > 350


def test_a_network_predicts_where_it_is_asked(models: dict[str, Path]) -> None:
    """Any positions, in any rows: `predict` is `forward` there."""
    torch.manual_seed(3)
    for kind, folder in models.items():
        network, _ = checkpoint.load(folder)
        tokens, lengths = torch.randint(5, 300, (4, 9)), torch.tensor([9, 3, 7, 9])
        with torch.inference_mode():
            hidden = network(tokens, lengths).flatten(0, 1)
            for at in ([0], [1, 10, 20, 30], [0, 1, 2, 8, 18, 19, 34], [9, 10, 11]):
                found = predict(network, Batch(tokens, lengths, torch.tensor(at)))
                assert torch.allclose(found, hidden[at], atol=1e-5), (kind, at)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("kind", ["tta", "bilm"])
def test_lower_precision_is_near_and_has_a_fingerprint_of_its_own(
    kind: str, precision: str
) -> None:
    texts = REAL[::6]
    exact, rough = load(kind), load(kind, ComputeOptions(precision=precision))
    sums = np.array(
        [
            [found.sum for found in lm.score(without_context(texts))]
            for lm in (exact, rough)
        ]
    )
    assert math.isfinite(sums[1].sum()) and 0 < np.abs(sums[1] - sums[0]).mean() < 0.5
    assert exact.fingerprint != rough.fingerprint
    assert (
        rough.fingerprint
        == load(kind, ComputeOptions(precision=precision, batch_tokens=99)).fingerprint
    )
