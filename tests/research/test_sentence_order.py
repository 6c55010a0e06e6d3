"""Order as a further objective: how pairs are made, what the classifier reads, and that the network learns it."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import Corpus, SentenceBatch, encode_corpus
from rescore.lms.training.loop import Trainer
from rescore.lms.training.objectives import (
    Example,
    LanguageAutoencoding,
    MaskedLanguageModelling,
    Objective,
    inner_positions,
)
from rescore.research.targets import OrderClassifier, SentenceOrder
from rescore.research.targets import pairs as pairs_of
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.lms.training.test_corpus import BUDGET, epoch_of, sentences
from tests.lms.training.test_loop import CPU, KilledError, options_of, tasks_of


def corpus_of(folder: Path, documents: Sequence[Sequence[str]], tokenizer: Tokenizer, held_out: int = 20) -> Corpus:
    folder.mkdir(exist_ok=True)
    (folder / "text").write_text("\n\n".join("\n".join(lines) for lines in documents))
    os.utime(folder / "text", ns=(0, 0))
    encode_corpus(folder / "text", tokenizer, folder / "corpus", 60)
    return Corpus(folder / "corpus", tokenizer, held_out, seed=3, window=2)


def test_pairs_are_consecutive_lines_of_a_document(tmp_path: Path, tokenizer: Tokenizer) -> None:
    documents = [SENTENCES[:33], SENTENCES[33:34], SENTENCES[34:]]
    corpus = corpus_of(tmp_path, documents, tokenizer)
    longest = 34
    expected = []
    for lines in documents:
        ids = tokenizer.encode(lines)
        for one, other in zip(ids[::2], ids[1::2], strict=False):
            if len(one) + 1 + len(other) <= longest:
                expected.append((tokenizer.bos, *one, tokenizer.eos, *other, tokenizer.eos))
    assert 0 < len(expected) < len(SENTENCES) // 2 - 5  # some are too long
    pairs = pairs_of(corpus, tokenizer, longest)
    learned = [pair for batch in epoch_of(pairs) for pair in batch]
    apart = [pair for batch in pairs.held_out(BUDGET) for pair in sentences(batch)]
    assert sorted(learned + apart) == sorted(expected) and apart
    alone = {one for batch in corpus.held_out(BUDGET) for one in sentences(batch)}
    assert all((*pair[: pair.index(tokenizer.eos)], tokenizer.eos) in alone for pair in apart)
    with pytest.raises(UserError, match="too few pairs of consecutive lines with fewer than 3 tokens: 0 to train on"):
        pairs_of(corpus, tokenizer, 3)


def slowly(pair: Sequence[int], swapped: bool, eos: int) -> list[int]:
    """[BOS] one [EOS] other [EOS], or the two the other way round."""
    end = list(pair).index(eos)
    one, other = pair[1:end], pair[end + 1 : -1]
    return [pair[0], *(other if swapped else one), eos, *(one if swapped else other), eos]


@pytest.mark.parametrize("masked", [False, True])
def test_half_of_the_pairs_are_swapped(tmp_path: Path, tokenizer: Tokenizer, masked: bool) -> None:
    pairs = pairs_of(corpus_of(tmp_path, [SENTENCES], tokenizer), tokenizer, 60)
    objective = SentenceOrder(
        "sop", MaskedLanguageModelling(tokenizer) if masked else LanguageAutoencoding(), tokenizer, 8
    )
    told: list[bool] = []
    for number, batch in zip(range(200), pairs.batches(400), strict=False):
        tokens, lengths = torch.from_numpy(batch.tokens), torch.from_numpy(batch.lengths)
        example = objective(tokens, lengths, [7, number])
        assert example.labels is not None
        assert abs(2 * int(example.labels.sum()) - len(tokens)) <= 1
        told += example.labels.tolist()
        shown = example.tokens.clone()
        shown[example.predicted] = example.targets  # what was masked
        for row, (length, swap) in enumerate(zip(lengths.tolist(), example.labels.tolist(), strict=True)):
            pair = tokens[row, :length].tolist()
            assert shown[row, :length].tolist() == slowly(pair, swap, tokenizer.eos)
            assert not shown[row, length:].any()
        assert not set(example.targets.tolist()) & {tokenizer.bos, tokenizer.eos, tokenizer.pad}
        again = objective(tokens, lengths, [7, number])
        assert torch.equal(again.labels, example.labels) and torch.equal(again.tokens, example.tokens)
    assert abs(sum(told) / len(told) - 0.5) < 0.02
    # A pair is not swapped for ever, and the one batch of one pair is as often swapped as not.
    single = [objective(tokens[:1], lengths[:1], [number]).labels for number in range(200)]
    assert 70 < sum(map(int, single)) < 130
    # Nor does its place in the batch say it: two neighbours are as often alike as chance has it.
    four = [objective(tokens[:4], lengths[:4], [number]).labels for number in range(200)]
    alike = [bool(one[0] == one[1]) for one in four if one is not None]
    assert len(tokens) >= 4 and 40 < sum(alike) < 100  # of two and two a third


def test_what_the_classifier_reads(tokenizer: Tokenizer) -> None:
    """[BOS] alone, or the sentences' own tokens."""
    bos, eos = tokenizer.bos, tokenizer.eos
    tokens = torch.tensor([[bos, 10, 11, eos, 12, eos], [bos, 13, eos, tokenizer.mask, eos, 0]])
    example = Example(tokens, torch.tensor([6, 5]), tokens > 9, tokens[tokens > 9], labels=torch.tensor([True, False]))
    torch.manual_seed(0)
    hidden = torch.randn(2, 6, 8)
    vectors = {
        "sop": hidden[:, 0],
        "srp": torch.stack([hidden[0, [1, 2, 4]].mean(dim=0), hidden[1, [1, 3]].mean(dim=0)]),
    }
    for name, vector in vectors.items():
        head = OrderClassifier(name, 8, (bos, eos))
        assert head.loss(hidden, example).item() == pytest.approx(math.log(2))
        torch.nn.init.normal_(head.linear.weight)
        logits = vector @ head.linear.weight.T
        assert torch.allclose(head(hidden, example), logits, atol=1e-6)
        assert head.loss(hidden, example).item() == pytest.approx(F.cross_entropy(logits, torch.tensor([1, 0])).item())
        assert head.right(hidden, example).tolist() == (logits.argmax(dim=1) == torch.tensor([1, 0])).tolist()


def trainer(
    folder: Path,
    documents: Sequence[Sequence[str]],
    tokenizer: Tokenizer,
    config: NetworkConfig,
    settings: dict[str, Any],
    order: str | None,
    held_out: int = 20,
) -> Trainer:
    corpus = corpus_of(folder, documents, tokenizer, held_out)
    options = options_of(config, settings | {"sentence_order": order})
    torch.manual_seed(options.seed)
    network = checkpoint.build(config)
    return Trainer(network, tokenizer, tasks_of(config, tokenizer, options, corpus), options, CPU, folder)


def successors(tokenizer: Tokenizer) -> list[list[str]]:
    """Two lines of a word said twice, of which the second is the successor of the first in a circle: neither word, nor
    a sum of what the two of them say, shows which line was first. (Twice, as a T-TA's vector knows the others alone.)
    """
    letters = list("abcdefghijklmnopqrst")
    random.Random(0).shuffle(letters)
    assert all(len(ids) == 1 for ids in tokenizer.encode(letters))
    lots = random.Random(1)
    starts = [lots.randrange(len(letters)) for _ in range(3000)]
    said = [f"{letter} {letter}" for letter in letters]
    return [[said[start], said[(start + 1) % len(said)]] for start in starts]


@pytest.mark.parametrize(
    ("kind", "order"), [("tta", "sop"), ("tta", "srp"), pytest.param("bilm", "srp", marks=pytest.mark.slow)]
)
def test_order_is_learned(tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig, kind: str, order: str) -> None:
    """And not without the option, where a classifier is trained on what the network has learned."""
    config = replace(config, kind=kind, layers=2)
    settings = {"steps": 200, "batch_tokens": 250, "learning_rate": 1e-2, "dropout": 0.0}
    documents = successors(tokenizer)
    asked = trainer(tmp_path / "asked", documents, tokenizer, config, settings, order, 200)
    accuracy = asked.run(lambda line: None).accuracies[order]
    unasked = trainer(tmp_path / "unasked", documents, tokenizer, config, settings, None, 200)
    unasked.run(lambda line: None)
    pairs = trainer(tmp_path / "pairs", documents, tokenizer, config, settings | {"steps": 100}, order, 200)
    pairs.schedule = pairs.schedule[1:]
    pairs.tasks = {order: pairs.tasks[order]}
    pairs.network.load_state_dict(unasked.network.state_dict())
    for value in pairs.network.parameters():
        value.requires_grad_(False)
    frozen = pairs.run(lambda line: None).accuracies[order]
    assert accuracy > 0.9 and frozen < 0.75, (accuracy, frozen)


@pytest.mark.parametrize(("kind", "order"), [("tta", "sop"), ("bilm", "srp")])
def test_resume_is_exact(
    tmp_path: Path,
    tokenizer: Tokenizer,
    config: NetworkConfig,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    order: str,
) -> None:
    config = replace(config, kind=kind, max_positions=62)
    settings = {"steps": 20, "batch_tokens": 300, "learning_rate": 1e-2, "dropout": 0.1, "checkpoint_seconds": 0.0}

    def made(name: str) -> Trainer:
        return trainer(tmp_path / name, [SENTENCES], tokenizer, config, settings, order)

    whole = made("whole")
    whole.run(lambda line: None)
    first = made("killed")
    step = first.update

    def step_until_killed(objective: Objective, batch: SentenceBatch) -> tuple[float, int]:
        if first.progress.step == 9:
            raise KilledError
        return step(objective, batch)

    monkeypatch.setattr(first, "update", step_until_killed)
    with pytest.raises(KilledError):
        first.run(lambda line: None)
    second = made("killed")
    second.resume()
    assert second.progress.step == 9
    second.run(lambda line: None)
    for one, other in zip(whole.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(whole.heads[order].linear.weight, second.heads[order].linear.weight)
    assert whole.heads[order].linear.weight.any()
    assert second.progress.accuracies == whole.progress.accuracies
    other = trainer(tmp_path / "killed", [SENTENCES], tokenizer, config, settings, "srp" if order == "sop" else "sop")
    with pytest.raises(UserError, match="was made with tasks"):
        other.resume()


def test_validation_is_of_the_usual_objective(tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig) -> None:
    config = replace(config, max_positions=62)
    made = trainer(tmp_path, [SENTENCES], tokenizer, config, {"steps": 0, "batch_tokens": 300}, "srp")
    torch.nn.init.normal_(made.heads["srp"].linear.weight)
    said: list[str] = []
    made.validate(said.append)
    made.network.eval()
    for task, pairs in (made.tasks["tta"], False), (made.tasks["srp"], True):
        total, count = 0.0, 0
        for batch in task.corpus.held_out(300):
            tokens, lengths = torch.from_numpy(batch.tokens), torch.from_numpy(batch.lengths)
            shown = task.objective(tokens, lengths, [0, count]).tokens if pairs else tokens
            own = inner_positions(shown, lengths) & (shown != tokenizer.eos)
            hidden = made.network(shown, lengths)[own]
            logits = hidden @ made.network.output_weight.T
            total += F.cross_entropy(logits, shown[own], reduction="sum").item()
            count += int(own.sum())
        assert made.progress.losses[task.name] == pytest.approx(total / count, rel=1e-5)
    assert "  accuracy " in said[1] and "accuracy" not in said[0]


def test_the_command(rescore: Run, tmp_path: Path) -> None:
    """The folder has what a model without the option has."""
    (tmp_path / "text").write_text("\n".join(SENTENCES))
    (tmp_path / "tiny.json").write_text('{"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16, "vocab_size": 300}')
    train = ("train", "--text", "text", "--config", "tiny.json", "--steps", "2", "--batch-tokens", "300")
    for name, more in (("plain", ()), ("order", ("--sentence-order", "sop"))):
        done = rescore(*train, "--lm", "bilm", "--out", name, *more)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "order/config.json").read_bytes() == (tmp_path / "plain/config.json").read_bytes()
    weights = [checkpoint.load(tmp_path / name)[0].state_dict() for name in ("plain", "order")]
    assert list(weights[0]) == list(weights[1])
    card = (tmp_path / "order/README.md").read_text()
    assert "validation accuracy of sentence order, sop" in card and "sop: validation loss" in done.stderr
    for more, part in (
        (
            ("--lm", "unilm", "--sentence-order", "sop"),
            "--sentence-order is for tta, bilm; it does not apply to --lm unilm",
        ),
        (
            ("--lm", "tta", "--sentence-order", "srp", "--context", "1"),
            "--sentence-order cannot be combined with --context",
        ),
        (("--lm", "tta", "--sentence-order", "srp", "--pairs", "text", "text"), "cannot be combined with --context or"),
        (
            ("--lm", "ngram", "--sentence-order", "srp"),
            "--sentence-order is for tta, bilm; it does not apply to --lm ngram",
        ),
        (("--lm", "tta", "--sentence-order", "nsp"), "sop"),
    ):
        assert_one_line_error(rescore("train", "--text", "text", "--out", "x", *more), part)
