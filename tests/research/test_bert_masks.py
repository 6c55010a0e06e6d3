"""BERT's masks: which tokens are shown, in which shares, and what a biLM learns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rescore.lms.config import NetworkConfig
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import (
    ContextObjective,
    MaskedLanguageModelling,
    SourceObjective,
    Task,
    inner_positions,
)
from rescore.research.bert_masks import BertMasks
from tests.conftest import SENTENCES, Run, assert_one_line_error, write_json
from tests.lms.training.test_loop import trainer


def sentences(tokenizer: Tokenizer, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentences of ten tokens in their frame, and their lengths."""
    generator = torch.Generator().manual_seed(0)
    inner = torch.randint(5, tokenizer.vocab_size, (number, 10), generator=generator)
    bos = torch.full((number, 1), tokenizer.bos)
    eos = torch.full((number, 1), tokenizer.eos)
    return torch.cat([bos, inner, eos], dim=1), torch.full((number,), 12)


def test_shares(tokenizer: Tokenizer) -> None:
    """80 % are masked, 10 % random and 10 % kept; the predicted tokens are those that
    are predicted without the option.
    """
    tokens, lengths = sentences(tokenizer, 5000)
    masking = MaskedLanguageModelling(tokenizer, 0.2)
    plain = masking(tokens, lengths, [3, 1])
    example = BertMasks(masking, tokenizer, 0.1, 0.1)(tokens, lengths, [3, 1])
    assert torch.equal(example.predicted, plain.predicted)
    assert torch.equal(example.targets, plain.targets)
    chosen = example.predicted
    assert torch.equal(example.tokens[~chosen], tokens[~chosen])
    shown = example.tokens[chosen]
    masked = shown == tokenizer.mask
    kept = shown == example.targets
    other = shown[~masked & ~kept]
    count = len(shown)
    assert count == 10_000
    # a random token is the token itself once in a vocabulary
    assert masked.sum().item() / count == pytest.approx(0.8, abs=0.015)
    assert kept.sum().item() / count == pytest.approx(0.1, abs=0.01)
    assert len(other) / count == pytest.approx(0.1, abs=0.01)
    special = {tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos}
    assert not special & set(other.tolist())
    assert len(set(other.tolist())) > 0.8 * (tokenizer.vocab_size - 5)


@pytest.mark.parametrize(("keep", "swap"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_extreme_shares(tokenizer: Tokenizer, keep: float, swap: float) -> None:
    tokens, lengths = sentences(tokenizer, 300)
    masking = MaskedLanguageModelling(tokenizer)
    example = BertMasks(masking, tokenizer, keep, swap)(tokens, lengths, [0])
    shown = example.tokens[example.predicted]
    assert (shown == example.targets).all().item() == (keep == 1)
    assert (shown == tokenizer.mask).any().item() == (keep == swap == 0)


def test_the_seed_decides(tokenizer: Tokenizer) -> None:
    tokens, lengths = sentences(tokenizer, 50)
    objective = BertMasks(MaskedLanguageModelling(tokenizer), tokenizer, 0.3, 0.3)
    first, again, other = (objective(tokens, lengths, seed) for seed in ([4], [4], [5]))
    assert torch.equal(first.tokens, again.tokens)
    assert not torch.equal(first.tokens, other.tokens)


@pytest.mark.parametrize("wrapper", [ContextObjective, SourceObjective])
def test_tokens_of_several_sentences(
    tokenizer: Tokenizer, wrapper: type[ContextObjective | SourceObjective]
) -> None:
    """Kept and random tokens belong to the sentence in whose place they stand."""
    single, _ = sentences(tokenizer, 400)
    tokens = torch.cat([single, single.flip(0)], dim=1)
    lengths = torch.full((400,), 24)
    inner = wrapper(MaskedLanguageModelling(tokenizer, 0.5), tokenizer)
    example = BertMasks(inner, tokenizer, 0.4, 0.4)(tokens, lengths, [0])
    size = tokenizer.vocab_size
    number = torch.cat([torch.zeros(12), torch.ones(12)]).long()
    assert torch.equal(example.tokens // size, number.expand(400, -1))
    targets = example.targets
    kept = (example.tokens[example.predicted] % size == targets).float().mean()
    assert kept.item() == pytest.approx(0.4, abs=0.03)


def intact_accuracy(network: Network, tokenizer: Tokenizer) -> float:
    """Share of tokens that a network predicts where it sees them."""
    right = total = 0
    network.eval()
    for ids in tokenizer.encode(SENTENCES):
        if len(ids) > 20:
            continue
        tokens = torch.tensor([[tokenizer.bos, *ids, tokenizer.eos]])
        lengths = torch.tensor([tokens.shape[1]])
        with torch.no_grad():
            hidden = network(tokens, lengths)
        own = inner_positions(tokens, lengths)
        best = (hidden[own] @ network.output_weight.T).argmax(dim=1)
        right += int((best == tokens[own]).sum())
        total += len(ids)
    return right / total


@pytest.mark.long
def test_a_bilm_learns_to_copy(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig
) -> None:
    settings = {
        "steps": 80,
        "batch_tokens": 500,
        "learning_rate": 1e-2,
        "dropout": 0.0,
    }
    accuracies = []
    for keep in (0.0, 0.1):
        folder = tmp_path / f"{keep}"
        run = trainer(folder, tokenizer, replace(config, kind="bilm"), settings, 5)
        (task,) = run.schedule
        objective = BertMasks(task.objective, tokenizer, keep, keep)
        run.schedule = [Task("bilm", task.corpus, objective)]
        run.tasks = {"bilm": run.schedule[0]}
        run.run(lambda line: None)
        accuracies.append(intact_accuracy(run.network, tokenizer))
    plain, bert = accuracies
    assert bert > plain + 0.05, accuracies


def test_the_command(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES))
    sizes = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16, "vocab_size": 300}
    write_json(tmp_path / "tiny.json", sizes)
    train = ["train", "--text", "text", "--config", "tiny.json", "--held-out", "20"]
    bert = [*train, "--lm", "bilm", "--mask-keep", "0.1", "--mask-swap", "0.1"]
    done = rescore(*bert, "--steps", "2", "--out", "lm")
    told = "(at 15 % masked; of these 10 % kept, 10 % swapped)"
    assert done.returncode == 0 and told in done.stderr, done.stderr
    assert rescore(*bert, "--steps", "3", "--resume", "--out", "lm").returncode == 0
    plain = [*train, "--lm", "bilm", "--steps", "4", "--resume", "--out", "lm"]
    assert_one_line_error(rescore(*plain), "was made with mask-keep 0.1, not 0.0")
    assert_one_line_error(
        rescore(*train, "--lm", "tta", "--mask-keep", "0.1", "--out", "x"),
        "train --lm tta takes no --mask-keep; give it to --lm bilm",
    )
    assert_one_line_error(
        rescore(*bert[:-1], "0.95", "--out", "x"),
        "--mask-keep 0.1 and --mask-swap 0.95 add up to more than 1",
    )
    lists = {"u": {"ref": "a", "hyp_1": {"score": -1, "text": "the old clock"}}}
    write_json(tmp_path / "l.json", lists)
    done = rescore("score", "l.json", "--lm", "bilm:intact:lm")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["hyps"][0]["scores"]["bilm:intact"] < 0
