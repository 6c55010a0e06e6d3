"""A discriminator learns from what generators put in the place of tokens, and scores what is left as it was."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rescore.errors import UserError
from rescore.lms import ComputeOptions, checkpoint, load, without_context
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.research.electra import Generator, ReplacedTokenDetection
from tests.conftest import SENTENCES, Run, assert_one_line_error, write_json
from tests.lms.test_neural import short
from tests.lms.training.test_loop import trainer


def batch(tokenizer: Tokenizer, sentence: str, times: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = tokenizer.encode([sentence])[0]
    tokens = torch.tensor([[tokenizer.bos, *ids, tokenizer.eos]])
    return tokens.repeat(times, 1), torch.full((times,), tokens.shape[1])


def test_what_was_replaced_is_told(tokenizer: Tokenizer, model: Path) -> None:
    objective = ReplacedTokenDetection(Generator(model, tokenizer), 0.25)
    tokens, lengths = batch(tokenizer, SENTENCES[0], 200)
    example = objective(tokens, lengths, [3])
    own = (tokens > 4) & (tokens != tokenizer.eos)
    assert torch.equal(example.predicted, own)  # every token is judged
    assert torch.equal(example.targets, (example.tokens != tokens)[own].long())
    share = example.targets.float().mean().item()
    assert 0.2 < share <= 0.27 and not (example.tokens[own] < 5).any()
    assert torch.equal(example.tokens, objective(tokens, lengths, [3]).tokens)
    assert not torch.equal(example.tokens, objective(tokens, lengths, [4]).tokens)


def test_a_tta_samples_from_its_softmax(tokenizer: Tokenizer, model: Path) -> None:
    """At one position, so many times that shares are near the probabilities of `forward`, special tokens left out."""
    network, _ = checkpoint.load(model)
    tokens, lengths = batch(tokenizer, SENTENCES[1], 1)
    with torch.no_grad():
        logits = network(tokens, lengths)[0, 3] @ network.token_embedding.weight.T
        logits[:5] = -torch.inf
        expected = logits.softmax(-1)
    many, lengths = batch(tokenizer, SENTENCES[1], 20_000)
    at = torch.arange(20_000) * many.shape[1] + 3
    drawn = Generator(model, tokenizer)(many, lengths, at, np.random.default_rng(0))
    shares = torch.bincount(drawn, minlength=len(expected)) / 20_000
    assert (shares - expected).abs().max() < 5 * (expected.max() / 20_000) ** 0.5


def test_it_learns(tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig, model: Path) -> None:
    settings = {"steps": 150, "batch_tokens": 500, "learning_rate": 1e-2, "dropout": 0.0, "generator": str(model)}
    made = trainer(tmp_path, tokenizer, replace(config, kind="electra"), settings, repeats=5)
    made.validate(lambda line: None)
    before = made.progress.validation_loss
    after = made.run(lambda line: None).validation_loss
    assert before is not None and after is not None
    assert after < 0.35 < 0.42 < before  # the entropy of 15 % is 0.42
    made.export()
    lm = load(f"electra:{tmp_path}")
    swapped = [" ".join(reversed(text.split())) for text in SENTENCES[:20]]
    whole, broken = (
        np.mean([found.mean for found in lm.score(without_context(texts))]) for texts in (SENTENCES[:20], swapped)
    )
    assert whole > broken


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_scores_equal_the_definition(models: dict[str, Path], precision: str) -> None:
    """log sigmoid of the difference of both logits, of the intact sentence, alone or in a batch."""
    folder = models["electra"]
    network, tokenizer = checkpoint.load(folder)
    network.double()
    sentences = short(folder)[:20]
    together = load(f"electra:{folder}", ComputeOptions(precision=precision)).score(without_context(sentences))
    single = load(f"electra:{folder}", ComputeOptions(batch_tokens=1))
    near = 1e-4 if precision == "float32" else 0.5
    for text, found in zip(sentences, together, strict=True):
        tokens, lengths = batch(tokenizer, text, 1)
        with torch.no_grad():
            hidden = network(tokens, lengths)[0, 1:-1]
            weight, bias = network.verdict_embedding.weight, network.output_bias
            slow = torch.nn.functional.logsigmoid(hidden @ (weight[0] - weight[1]) + bias[0] - bias[1]).numpy()
        assert found.tokens == tokenizer.pieces([text])[0]
        assert found.log_probs == pytest.approx(slow, abs=near)
        assert single.score(without_context([text]))[0].log_probs == pytest.approx(slow, abs=1e-4)


def test_wrong_generators_are_refused(
    rescore: Run, tokenizer: Tokenizer, models: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="is a bilm, not a tta"):
        Generator(models["bilm"], tokenizer)
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    train = ["train", "--lm", "electra", "--text", tmp_path / "text", "--out", "lm"]
    assert_one_line_error(rescore(*train), "learns from replaced tokens; give --generator tta")
    assert_one_line_error(rescore(*train, "--generator", "absent"), "--generator absent: no such folder")
    assert_one_line_error(rescore("train", "--lm", "tta", "--generator", "tta", "--out", "x"), "is for electra")


def test_generators_that_cannot_do_it(
    rescore: Run, model: Path, tokenizer: Tokenizer, tmp_path: Path, config: NetworkConfig
) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    replace(config, kind="electra", max_positions=config.max_positions + 1).save(tmp_path / "longer.json")
    train = ["train", "--lm", "electra", "--text", tmp_path / "text", "--out", "lm", "--steps", "1"]
    done = rescore(*train, "--config", tmp_path / "longer.json", "--generator", model)
    assert_one_line_error(done, f"reads at most {config.max_positions} tokens")


def test_command(rescore: Run, model: Path, tmp_path: Path, config: NetworkConfig) -> None:
    """The generator's tokenizer is taken; resumed, with the same generator alone."""
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    replace(config, kind="electra").save(tmp_path / "tiny.json")
    shutil.copytree(model, tmp_path / "generator")
    options = [tmp_path / "text", "--config", tmp_path / "tiny.json", "--generator", "generator"]
    train = ["train", "--lm", "electra", "--text", *options, "--out", tmp_path / "lm", "--held-out", "20"]
    assert rescore(*train, "--steps", "2").returncode == 0
    done = rescore(*train, "--steps", "3", "--resume")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "lm" / "tokenizer.json").read_text() == (model / "tokenizer.json").read_text()
    assert "original or replaced" in (tmp_path / "lm" / "README.md").read_text()
    torch.manual_seed(5)
    checkpoint.save(tmp_path / "generator", checkpoint.build(config), Tokenizer.load(model / "tokenizer.json"))
    other = rescore(*train, "--steps", "4", "--resume")
    assert_one_line_error(other, "was made with generator generator@")
    lists = write_json(tmp_path / "l.json", {"u": {"ref": "the", "hyp_1": {"score": -1, "text": "the old clock"}}})
    done = rescore("score", lists, "--lm", f"electra:{tmp_path / 'lm'}")
    assert done.returncode == 0 and '"electra": -' in done.stdout, done.stderr
