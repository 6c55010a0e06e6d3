"""A discriminator learns which tokens generators replaced, and scores the tokens of a
sentence as originals.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.lms import ComputeOptions, checkpoint, load, without_context
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import MaskedLanguageModelling
from rescore.nbest import Hypothesis, NbestList
from rescore.research.electra import (
    ORIGINAL,
    REPLACED,
    Confusions,
    Electra,
    ReplacedTokenDetection,
    SampledTokens,
)
from tests.conftest import SENTENCES, Run, assert_one_line_error, write_json
from tests.lms.test_neural import short
from tests.lms.training.test_loop import trainer


def batch(
    tokenizer: Tokenizer, text: str, times: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    ids = tokenizer.encode([text])[0]
    tokens = torch.tensor([[tokenizer.bos, *ids, tokenizer.eos]])
    return tokens.repeat(times, 1), torch.full((times,), tokens.shape[1])


def lists_of(*texts: str) -> list[NbestList]:
    return [NbestList("u", [Hypothesis(text, {}) for text in texts])]


def test_labels(tokenizer: Tokenizer, model: Path) -> None:
    """Every token is judged: it is original if and only if it is the token of the
    sentence, also where the generator drew it.
    """
    tokens, lengths = batch(tokenizer, SENTENCES[0], 200)
    positions = MaskedLanguageModelling(tokenizer, 0.25)
    generator = SampledTokens(model, tokenizer)
    objective = ReplacedTokenDetection(positions, generator, None)
    example = objective(tokens, lengths, [3])
    size = int(lengths[0])
    labels = []
    for row in range(200):
        for place in range(1, size - 1):
            same = example.tokens[row, place] == tokens[row, place]
            labels.append(ORIGINAL if same else REPLACED)
            assert example.predicted[row, place]
            assert example.tokens[row, place] > 4  # no special token
    assert example.targets.tolist() == labels
    assert torch.equal(example.tokens[:, [0, -1]], tokens[:, [0, -1]])
    assert int(example.predicted.sum()) == 200 * (size - 2)
    # at the positions that a biLM would mask
    chosen = positions(tokens, lengths, [3]).predicted
    assert not (example.tokens != tokens)[~chosen].any()
    assert 0.9 * chosen.sum() < sum(labels) <= chosen.sum()
    again = objective(tokens, lengths, [3])
    assert torch.equal(example.tokens, again.tokens)
    assert not torch.equal(example.tokens, objective(tokens, lengths, [4]).tokens)


def test_a_token_that_replaces_itself_is_original(tokenizer: Tokenizer) -> None:
    confusions = Confusions([], tokenizer)
    confusions.counts[7] = Counter({7: 1, 9: 1})
    tokens = torch.tensor([[tokenizer.bos, 7, tokenizer.eos]]).repeat(400, 1)
    positions = MaskedLanguageModelling(tokenizer)
    objective = ReplacedTokenDetection(positions, None, confusions)
    example = objective(tokens, torch.full((400,), 3), [0])
    expected = torch.where(example.tokens[:, 1] == 7, ORIGINAL, REPLACED)
    assert torch.equal(example.targets, expected)
    assert 150 < int(example.targets.sum()) < 250


def test_a_tta_samples_from_its_softmax(tokenizer: Tokenizer, model: Path) -> None:
    """So often at one position that shares are near the probabilities of `forward`,
    without special tokens.
    """
    network, _ = checkpoint.load(model)
    tokens, lengths = batch(tokenizer, SENTENCES[1])
    with torch.no_grad():
        logits = network(tokens, lengths)[0, 3] @ network.token_embedding.weight.T
        logits[:5] = -torch.inf
        expected = logits.softmax(-1)
    tokens, lengths = batch(tokenizer, SENTENCES[1], 20_000)
    chosen = torch.zeros_like(tokens, dtype=torch.bool)
    chosen[:, 3] = True
    random = np.random.default_rng(0)
    drawn = SampledTokens(model, tokenizer).draw(tokens, lengths, chosen, random)
    shares = torch.bincount(drawn, minlength=len(expected)) / 20_000
    deviation = (expected.max().item() / 20_000) ** 0.5
    assert (shares - expected).abs().max() < 5 * deviation


def test_confusions_stand_in_the_same_place(tokenizer: Tokenizer) -> None:
    """Tokens of the first hypothesis against each other hypothesis, both ways;
    insertions and deletions do not count.
    """
    first, second, third = "the a b c", "the a d c", "the a d c e"
    ids = {text: tokenizer.encode([text])[0][0] for text in "bd"}
    assert all(len(tokenizer.encode([text])[0]) == 1 for text in "abcde")
    lists = [*lists_of(first, second, third, first), *lists_of(first, second)]
    confusions = Confusions(lists, tokenizer)
    assert confusions.counts == {
        ids["b"]: {ids["d"]: 3},
        ids["d"]: {ids["b"]: 3},
    }
    confusions.counts[ids["b"]][300] += 1
    tokens = torch.tensor([ids["b"], 301] * 1000)
    assert 301 not in confusions.counts
    drawn, replaced = confusions.draw(tokens, np.random.default_rng(0))
    assert replaced.tolist() == [True, False] * 1000
    assert (drawn[1::2] == 301).all()
    share = (drawn[::2] == 300).float().mean().item()
    assert share == pytest.approx(0.25, abs=0.05)


def test_both_sources_are_used_alike(tokenizer: Tokenizer, model: Path) -> None:
    tokens, lengths = (
        torch.tensor([[2, 7, 8, 3]]).repeat(3000, 1),
        torch.full((3000,), 4),
    )
    confusions = Confusions([], tokenizer)
    confusions.counts[7] = Counter({9: 1})
    shares = []
    positions = MaskedLanguageModelling(tokenizer, 0.99)
    for source in (None, confusions):
        objective = ReplacedTokenDetection(
            positions, SampledTokens(model, tokenizer), source
        )
        shown = objective(tokens, lengths, [0]).tokens
        shares.append((shown[:, 1] == 9).float().mean().item())
        # nothing is confused with the other token: the T-TA replaces it
        assert (shown[:, 2] != 8).float().mean() > 0.9
    sampled, both = shares
    assert sampled < 0.1 and both == pytest.approx(0.5 + sampled / 2, abs=0.05)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_scores_equal_the_definition(models: dict[str, Path], precision: str) -> None:
    """log sigmoid of the difference of both logits, of the intact sentence, alone or in
    a batch.
    """
    folder = models["electra"]
    network, tokenizer = checkpoint.load(folder)
    assert isinstance(network, Electra)
    network.double()
    texts = short(folder)[:20]
    together = load(f"electra:{folder}", ComputeOptions(precision=precision))
    single = load(f"electra:{folder}", ComputeOptions(batch_tokens=1))
    tolerance = 1e-4 if precision == "float32" else 0.5
    for text, scores in zip(texts, together.score(without_context(texts)), strict=True):
        tokens, lengths = batch(tokenizer, text)
        weight, bias = network.label_embedding.weight, network.output_bias
        assert bias is not None
        with torch.no_grad():
            hidden = network(tokens, lengths)[0, 1:-1]
            difference = hidden @ (weight[ORIGINAL] - weight[REPLACED])
            difference += bias[ORIGINAL] - bias[REPLACED]
            slow = F.logsigmoid(difference).numpy()
        assert scores.tokens == tokenizer.pieces([text])[0]
        assert scores.log_probs == pytest.approx(slow, abs=tolerance)
        (alone,) = single.score(without_context([text]))
        assert alone.log_probs == pytest.approx(slow, abs=1e-4)


@pytest.mark.long
def test_it_learns(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig, model: Path
) -> None:
    settings = {
        "steps": 100,
        "batch_tokens": 500,
        "learning_rate": 1e-2,
        "dropout": 0.0,
        "generator": str(model),
    }
    run = trainer(tmp_path, tokenizer, replace(config, kind="electra"), settings, 5)
    progress = run.run(lambda line: None)
    assert progress.validation_loss is not None
    assert progress.validation_loss < 0.38  # the entropy of 15 % is 0.42
    run.export()
    lm = load(f"electra:{tmp_path}")
    means = []
    turned = [" ".join(reversed(text.split())) for text in SENTENCES[:20]]
    for texts in (SENTENCES[:20], turned):
        scores = lm.score(without_context(texts))
        means.append(np.mean([score.mean for score in scores]))
    assert means[0] > means[1]


def test_the_commands(
    rescore: Run, model: Path, tmp_path: Path, config: NetworkConfig
) -> None:
    """With both sources: trained, resumed, scored with, compared."""
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    replace(config, kind="electra").save(tmp_path / "tiny.json")
    hypotheses = {
        "hyp_1": {"score": -1, "text": "the old clock"},
        "hyp_2": {"score": -2, "text": "the odd clock"},
    }
    lists = {f"u{n}": {"ref": "the old clock", **hypotheses} for n in range(3)}
    write_json(tmp_path / "l.json", lists)
    train = ["train", "--lm", "electra", "--text", "text", "--config", "tiny.json"]
    train += ["--generator", model, "--confusions", "l.json", "--held-out", "20"]
    train += ["--device", "cpu", "--out", "lm"]
    done = rescore(*train, "--steps", "2")
    assert done.returncode == 0 and "of original or replaced" in done.stderr
    assert rescore(*train, "--steps", "3", "--resume").returncode == 0
    own = (tmp_path / "lm" / "tokenizer.json").read_text()
    assert own == (model / "tokenizer.json").read_text()
    done = rescore("score", "l.json", "--lm", "electra:lm")
    for report in (("score", "--text"), ("accuracy",)):
        refused = rescore(*report, "text", "--lm", "electra:lm")
        assert_one_line_error(refused, "its scores are no probabilities of tokens")
    line = json.loads(done.stdout.splitlines()[0])
    assert line["hyps"][0]["scores"]["electra"] < 0
    done = rescore("compare", "l.json", "--lm", "electra:lm", "--dev", "l.json")
    assert done.returncode == 0 and "electra" in done.stdout, done.stderr
    (tmp_path / "pairs").write_text("1\tthe old clock\tthe clock\n3\ta wall\ta day\n")
    done = rescore("similarity", "pairs", "--lm", "electra:lm")
    assert done.returncode == 0, done.stderr
    # The state belongs to the confusions and to the generator.
    more = {"hyp_3": {"score": -3, "text": "the cold clock"}}
    write_json(tmp_path / "l.json", {"u": {**lists["u0"], **more}})
    done = rescore(*train, "--steps", "4", "--resume")
    assert_one_line_error(done, "was made with confusions l.json@")


def test_wrong_sources_are_refused(
    rescore: Run,
    tokenizer: Tokenizer,
    models: dict[str, Path],
    tmp_path: Path,
    config: NetworkConfig,
) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    train = ["train", "--lm", "electra", "--text", "text", "--out", "x"]
    train += ["--steps", "1"]
    message = "give --generator tta, --confusions LISTS, or both"
    assert_one_line_error(rescore(*train), message)
    done = rescore(*train, "--generator", "absent")
    assert_one_line_error(done, "--generator absent: no such folder; give one, or a")
    longer = replace(config, kind="electra", max_positions=config.max_positions + 1)
    longer.save(tmp_path / "longer.json")
    done = rescore(*train, "--config", "longer.json", "--generator", models["tta"])
    assert_one_line_error(done, f"reads at most {config.max_positions} tokens")
    replace(config, kind="electra").save(tmp_path / "tiny.json")
    train += ["--config", "tiny.json"]
    done = rescore(*train, "--generator", models["bilm"])
    assert_one_line_error(done, "the model is of kind bilm, not tta")
    lists = {"u": {"ref": "the", "hyp_1": {"score": -1, "text": "the old clock"}}}
    write_json(tmp_path / "l.json", lists)
    train += ["--tokenizer", models["tta"] / "tokenizer.json"]
    done = rescore(*train, "--confusions", "l.json")
    assert_one_line_error(done, "--confusions l.json: no hypothesis has another token")
    with pytest.raises(UserError, match="has another tokenizer; give --tokenizer"):
        SampledTokens(Path(__file__).parents[2] / "models" / "tta-small", tokenizer)
    with pytest.raises(UserError, match="output_bias is true"):
        replace(config, kind="electra", output_bias=True)
