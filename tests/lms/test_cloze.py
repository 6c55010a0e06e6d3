"""A unified network that learned to fill in masked tokens in all its readings (UniLM as in the paper)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rescore.errors import UserError
from rescore.lms import ComputeOptions, Question, checkpoint, load
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.mt.kinds import UnifiedKind
from rescore.mt.unified import Unified, objectives
from rescore.research.vectors import Embedder
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.mt.test_unified import PAIRS, log_probs


def definition(reading: str, folder: Path, source: str, target: str) -> list[float]:
    """A token at a time: [MASK] behind what is before it, which it sees together with itself."""
    network, tokenizer = checkpoint.load(folder)
    assert isinstance(network, Unified)
    network.double()
    given, ids = tokenizer.encode([source, target])
    ids = [*(ids[::-1] if reading == "r2l" else ids), tokenizer.eos]
    directed = reading in ("l2r", "r2l")
    front = [tokenizer.bos] if directed else [tokenizer.bos, *given, tokenizer.eos]
    own = {"l2r": 1, "r2l": 2}.get(reading, 4)
    values = []
    with torch.no_grad():
        for index, token in enumerate(ids):
            tokens = [*front, *ids[:index], tokenizer.mask]
            size = len(front)
            segments = [own if directed else 3] * size + [own] * (index + 1)
            seen = [
                [j <= i if directed else j < size or (i >= size and j <= i) for j in range(len(tokens))]
                for i in range(len(tokens))
            ]
            values.append(log_probs(network, tokens, segments, seen)[-1, token].item())
    return values[::-1] if reading == "r2l" else values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer, config: NetworkConfig) -> Path:
    made = tmp_path_factory.mktemp("cloze")
    torch.manual_seed(3)
    network = checkpoint.build(replace(config, kind="unified", max_positions=80, cloze=True))
    with torch.no_grad():
        for value in network.parameters():
            value.add_(torch.randn_like(value) * 0.1)
    checkpoint.save(made, network, tokenizer)
    return made


@pytest.mark.parametrize("budget", [None, 60])
@pytest.mark.parametrize("reading", ["l2r", "r2l", "seq2seq", "channel"])
def test_equals_the_definition(reading: str, budget: int | None, folder: Path) -> None:
    lm = load(f"unified:{reading}:{folder}", ComputeOptions(batch_tokens=budget))
    found = lm.score([Question(target, source) for source, target in PAIRS])
    for (source, target), scores in zip(PAIRS, found, strict=True):
        slow = definition(reading, folder, *((target, source) if reading == "channel" else (source, target)))
        np.testing.assert_allclose(scores.log_probs, slow, atol=1e-4)


@pytest.mark.parametrize("reading", ["l2r", "r2l", "seq2seq"])
def test_what_is_learned_is_what_is_asked(reading: str, folder: Path) -> None:
    """The loss of the one masked token is minus its log-probability in the score."""
    network, tokenizer = checkpoint.load(folder)
    objective = objectives(tokenizer, cloze=True, cap=1)[reading]
    source, target = (tokenizer.encode([text])[0] for text in PAIRS[0])
    inner = [*source, tokenizer.eos, *target] if reading == "seq2seq" else target
    tokens = torch.tensor([[tokenizer.bos, *inner, tokenizer.eos, tokenizer.pad]])
    scores = load(f"unified:{reading}:{folder}").score([Question(PAIRS[0][1], PAIRS[0][0])])[0].log_probs
    scores = scores[::-1] if reading == "r2l" else scores
    seen = set()
    for seed in range(60):
        example = objective(tokens, torch.tensor([tokens.shape[1] - 1]), [seed])
        (place,) = example.predicted[0].nonzero().flatten().tolist()
        with torch.no_grad():
            hidden = network(example.tokens, example.lengths)[example.predicted]
        found = (hidden @ network.token_embedding.weight.T).log_softmax(-1)[0, example.targets[0]].item()
        assert example.tokens[0, place] % tokenizer.vocab_size == tokenizer.mask
        at = place - (len(source) + 2 if reading == "seq2seq" else 1)
        if at >= 0:  # of the target
            assert found == pytest.approx(scores[at], abs=1e-4)
            seen.add(at)
        else:
            assert reading == "seq2seq" and place != len(source) + 1  # the border stays
    assert seen == set(range(len(target) + 1))  # [EOS], too


def test_vectors_and_settings(folder: Path) -> None:
    with pytest.raises(UserError, match="give --kind hidden"):
        Embedder([load(f"unified:l2r:{folder}")])
    with pytest.raises(UserError, match="cloze is true; a tta"):
        NetworkConfig("tta", cloze=True)


def test_trained_by_the_command(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(SENTENCES[:60]) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(text.upper() for text in SENTENCES[:60]) + "\n")
    NetworkConfig("tta", 300, layers=1, d_model=16, heads=2, d_ff=32, max_positions=64).save(tmp_path / "tiny.json")
    common = ("--held-out", "5", "--batch-tokens", "400", "--device", "cpu", "--pairs", "a.txt", "b.txt")
    train = ("train", "--lm", "unified", *common)
    done = rescore(*train, "--config", "tiny.json", "--steps", "6", "--cloze", "--out", "lm")
    assert done.returncode == 0 and done.stderr.count("15 % masked") == 5, done.stderr
    assert load(f"unified:l2r:{tmp_path / 'lm'}").network.cloze is not None  # type: ignore[attr-defined]
    done = rescore(*train, "--init", "lm", "--steps", "2", "--reading", "seq2seq", "--out", "tuned")
    assert done.returncode == 0 and "validation loss" in done.stderr, done.stderr
    assert "15 % masked" in done.stderr  # as it began
    single = ("train", "--lm", "unified", *common[:-3], "--text", "a.txt", "--init", "lm", "--steps", "2")
    done = rescore(*single, "--reading", "l2r", "--out", "single")
    assert done.returncode == 0 and "validation loss" in done.stderr, done.stderr
    assert not (tmp_path / "single" / "pairs").exists() and "15 % masked" in done.stderr, done.stderr
    again = rescore(*single, "--steps", "3", "--reading", "r2l", "--out", "single", "--resume")
    assert_one_line_error(again, "was made with tasks l2r, not r2l")
    assert_one_line_error(rescore(*single, "--reading", "seq2seq", "--out", "x"), "give --pairs SOURCE TARGET")
    with pytest.raises(UserError, match="--reading x: expected one of bi, bi:source, l2r, r2l, seq2seq"):
        UnifiedKind.Options(reading=("x",))
    assert_one_line_error(rescore("train", "--lm", "tta", "--text", "a.txt", "--cloze", "--out", "x"), "is for unified")
    wrong = rescore("train", "--lm", "tta", "--text", "a.txt", "--reading", "bi", "--out", "x")
    assert_one_line_error(wrong, "--reading is for unified")
