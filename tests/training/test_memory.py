"""An n-gram memory is filled with what stood beside each pair of neighbours, is trained, and goes on after a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rescore.errors import UserError
from rescore.networks import checkpoint
from rescore.networks.config import NetworkConfig
from rescore.networks.memory import PAIRS, hashed
from rescore.networks.tokenizer import Tokenizer
from rescore.networks.tta import TTA
from rescore.training.corpus import Corpus, encode_corpus
from rescore.training.loop import Recipe
from rescore.training.memory import fill_memory, whitened
from rescore.training.train import train
from tests.conftest import SENTENCES

ROWS = 1 << 12


@pytest.fixture
def corpus(tmp_path: Path, tokenizer: Tokenizer) -> Corpus:
    (tmp_path / "text").write_text("\n".join(SENTENCES[:200]))
    encode_corpus(tmp_path / "text", tokenizer, tmp_path / "corpus", 22)
    return Corpus(tmp_path / "corpus", tokenizer, 20, 0)


def with_memory(config: NetworkConfig) -> TTA:
    torch.manual_seed(0)
    network = checkpoint.build(replace(config, ngram_memory=ROWS))
    assert isinstance(network, TTA)
    return network


def learned(corpus: Corpus) -> list[list[int]]:
    """The sentences that are trained on, in the order of the text."""
    found = []
    for tokens, number in corpus.stream():
        found += [tokens[number == one].tolist() for one in range(number.max() + 1)]
    return found


def test_the_stream_has_what_is_not_held_out(corpus: Corpus, tokenizer: Tokenizer) -> None:
    held_out = {
        tuple(row[1 : size - 1].tolist())
        for batch in corpus.held_out(9999)
        for row, size in zip(batch.tokens, batch.lengths, strict=True)
    }
    pieces = [ids[s : s + 22] for ids in tokenizer.encode(SENTENCES[:200]) for s in range(0, len(ids), 22)]
    expected = [[tokenizer.bos, *piece, tokenizer.eos] for piece in pieces if tuple(piece) not in held_out]
    assert len(held_out) == 20 and learned(corpus) == expected
    assert corpus.token_counts().sum() == corpus.training_tokens


def test_a_row_is_the_mean_of_what_stood_there(corpus: Corpus, config: NetworkConfig) -> None:
    network = with_memory(config)
    words = whitened(network.token_embedding.weight, torch.from_numpy(corpus.token_counts())).tolist()
    sums, counts = torch.zeros(ROWS, 64), torch.zeros(ROWS)
    none = config.vocab_size
    for sentence in learned(corpus):
        for place in range(1, len(sentence) - 1):
            near = {d: sentence[place + d] if 0 <= place + d < len(sentence) else none for d in (-2, -1, 1, 2)}
            for number, (one, other) in enumerate(PAIRS):
                row = hashed(torch.tensor(near[one]), torch.tensor(near[other]), number, none, ROWS)
                sums[row] += torch.tensor(words[sentence[place]])
                counts[row] += 1
    means = sums / counts.clamp_min(1)[:, None]
    scale = ((counts[:, None] * means.square()).sum() / counts.sum() / 64).sqrt()
    assert network.ngram_memory is not None
    fill_memory(network, corpus)
    assert torch.allclose(network.ngram_memory.table_embedding.weight, means / scale, atol=1e-4)


def test_whitened_coordinates_have_variance_1_and_mean_0() -> None:
    torch.manual_seed(0)
    counts = torch.randint(1, 50, (300,))
    found, share = whitened(torch.randn(300, 80), counts), counts / counts.sum()
    assert torch.allclose(share @ found, torch.zeros(64), atol=1e-5)
    assert torch.allclose(found.T * share @ found, torch.eye(64), atol=1e-4)
    assert whitened(torch.randn(300, 16), counts)[:, 16:].eq(0).all()  # a narrow network fills a part of a row


def _train(folder: Path, out: str, steps: int, **options: object) -> TTA:
    recipe = Recipe(steps=steps, batch_tokens=300, dropout=0.0, checkpoint_seconds=0.0)
    train("tta", folder / out, recipe, text=folder / "text", held_out=20, device="cpu", precision="float32", **options)  # type: ignore[arg-type]
    network = checkpoint.load(folder / out)[0]
    assert isinstance(network, TTA)
    return network


def test_training_uses_it_and_resumes_with_it(tmp_path: Path, corpus: Corpus, config: NetworkConfig) -> None:
    config.save(tmp_path / "c.json")
    options = {"config": str(tmp_path / "c.json"), "ngram_memory": ROWS}
    first = _train(tmp_path, "lm", 6, **options)
    assert first.ngram_memory is not None and first.config.ngram_memory == ROWS
    assert all(value.abs().max() > 0 for value in first.ngram_memory.parameters())
    same = _train(tmp_path, "lm", 6, **options, resume=True)  # nothing is left to do, and nothing is filled anew
    for one, other in zip(first.parameters(), same.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_model_without_one_gets_one(tmp_path: Path, corpus: Corpus, config: NetworkConfig) -> None:
    config.save(tmp_path / "c.json")
    plain = _train(tmp_path, "plain", 2, config=str(tmp_path / "c.json"))
    assert plain.ngram_memory is None
    _train(tmp_path, "more", 1, init=tmp_path / "plain", ngram_memory=ROWS)
    kept = _train(tmp_path, "kept", 1, init=tmp_path / "more")
    assert kept.ngram_memory is not None and kept.config.ngram_memory == ROWS
    with pytest.raises(UserError, match="has one of 4096 rows"):
        _train(tmp_path, "x", 1, init=tmp_path / "more", ngram_memory=64)
    with pytest.raises(UserError, match="a bilm has none"):
        train("bilm", tmp_path / "y", Recipe(steps=1), init=tmp_path / "plain", text=tmp_path / "text", ngram_memory=64)
