"""The order of sentences: how pairs are made, what the classifier reads, and that a
network learns it.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import Corpus, encode_corpus
from rescore.lms.training.loop import Trainer
from rescore.lms.training.options import NeuralOptions, TrainingData
from rescore.research.sentence_order import (
    IN_ORDER,
    SWAPPED,
    SentenceOrder,
    order_task,
)
from tests.conftest import SENTENCES, Run, assert_one_line_error, write_json
from tests.lms.training.test_corpus import BUDGET, epoch_of, sentences
from tests.lms.training.test_loop import options_of, tasks_of


def data_of(
    folder: Path,
    documents: Sequence[Sequence[str]],
    tokenizer: Tokenizer,
    config: NetworkConfig,
    held_out: int = 20,
    **settings: object,
) -> TrainingData:
    """A training on windows of two lines."""
    folder.mkdir(exist_ok=True)
    (folder / "text").write_text("\n\n".join("\n".join(lines) for lines in documents))
    os.utime(folder / "text", ns=(0, 0))
    encode_corpus([folder / "text"], tokenizer, folder / "corpus", 60)
    corpus = Corpus(folder / "corpus", tokenizer, held_out, seed=3, window=2)
    options: NeuralOptions = options_of(config, settings)
    return TrainingData(tokenizer, options, config, corpus)


def test_pairs_are_consecutive_lines_of_a_document(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig
) -> None:
    documents = [SENTENCES[:33], SENTENCES[33:34], SENTENCES[34:]]
    config = replace(config, max_positions=36)
    data = data_of(tmp_path, documents, tokenizer, config)
    expected = []
    for lines in documents:
        ids = tokenizer.encode(lines)
        for first, second in zip(ids[::2], ids[1::2], strict=False):
            pair = (tokenizer.bos, *first, tokenizer.eos, *second, tokenizer.eos)
            if len(pair) <= 36:
                expected.append(pair)
    assert 0 < len(expected) < len(SENTENCES) // 2 - 5  # some pairs are too long
    pairs = order_task("sop", data).corpus
    learned = [pair for batch in epoch_of(pairs) for pair in batch]
    apart = [pair for batch in pairs.held_out(BUDGET) for pair in sentences(batch)]
    assert sorted(learned + apart) == sorted(expected) and apart
    short = replace(data, config=replace(config, max_positions=4))
    with pytest.raises(UserError, match="too few windows of 2 consecutive lines: 0"):
        order_task("sop", short)


def slowly(pair: Sequence[int], label: int, eos: int) -> list[int]:
    """[BOS] first [EOS] second [EOS], or the two the other way round."""
    end = list(pair).index(eos)
    first, second = pair[1:end], pair[end + 1 : -1]
    if label == SWAPPED:
        first, second = second, first
    return [pair[0], *first, eos, *second, eos]


@pytest.mark.parametrize("name", ["sop", "srp"])
def test_half_of_the_pairs_are_swapped(
    name: str, tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig
) -> None:
    config = replace(config, max_positions=62)
    task = order_task(name, data_of(tmp_path, [SENTENCES], tokenizer, config))
    frame = {tokenizer.bos, tokenizer.eos}
    labels: list[int] = []
    for number, batch in enumerate(islice(task.corpus.batches(400), 200)):
        tokens, lengths = (
            torch.from_numpy(batch.tokens),
            torch.from_numpy(batch.lengths),
        )
        example = task.objective(tokens, lengths, [7, number])
        assert abs(2 * int(example.targets.sum()) - len(tokens)) <= 1
        labels += example.targets.tolist()
        for row, length in enumerate(lengths.tolist()):
            label = int(example.targets[row])
            shown = example.tokens[row, :length].tolist()
            assert shown == slowly(tokens[row, :length].tolist(), label, tokenizer.eos)
            assert not example.tokens[row, length:].any()
            read = example.predicted[row].nonzero().flatten().tolist()
            own = [at for at, token in enumerate(shown) if token not in frame]
            assert read == ([0] if name == "sop" else own)
        again = task.objective(tokens, lengths, [7, number])
        assert torch.equal(again.tokens, example.tokens)
    assert abs(sum(labels) / len(labels) - 0.5) < 0.02
    # A pair is not swapped for ever, and the only pair of a batch is swapped as often
    # as not.
    single = [
        int(task.objective(tokens[:1], lengths[:1], [number]).targets)
        for number in range(200)
    ]
    assert 70 < sum(single) < 130


@pytest.mark.parametrize("name", ["sop", "srp"])
def test_what_the_classifier_reads(name: str, tokenizer: Tokenizer) -> None:
    bos, eos = tokenizer.bos, tokenizer.eos
    tokens = torch.tensor([[bos, 10, 11, eos, 12, eos], [bos, 13, eos, 14, eos, 0]])
    objective = SentenceOrder(name, tokenizer, 8)
    example = objective(tokens, torch.tensor([6, 5]), [0])
    assert sorted(example.targets.tolist()) == [IN_ORDER, SWAPPED]
    torch.manual_seed(0)
    hidden = torch.randn(2, 6, 8)
    vectors = hidden[:, 0]
    if name == "srp":
        places = [[1, 2, 4], [1, 3]]
        if example.targets[0] == SWAPPED:
            places[0] = [1, 3, 4]
        means = [hidden[row, at].mean(dim=0) for row, at in enumerate(places)]
        vectors = torch.stack(means)
    network = torch.nn.Identity()  # the loss does not read the network
    loss = objective.loss(network, hidden, example)  # type: ignore[arg-type]
    assert loss.item() == pytest.approx(2 * math.log(2))
    torch.nn.init.normal_(objective.head.weight)
    logits = vectors @ objective.head.weight.T
    torch.testing.assert_close(objective.logits(hidden, example), logits)
    loss = objective.loss(network, hidden, example)  # type: ignore[arg-type]
    slow = F.cross_entropy(logits, example.targets, reduction="sum")
    torch.testing.assert_close(loss, slow)
    right = objective.right(network, hidden, example)  # type: ignore[arg-type]
    assert right.item() == (logits.argmax(dim=1) == example.targets).sum().item()


def successors(tokenizer: Tokenizer) -> list[list[str]]:
    """Documents of two lines: a letter, twice, and its successor in a circle, twice.
    Neither letter shows which line is the first, nor does a sum of what they say. (A
    letter stands twice because the vector of a T-TA does not know its own token.)
    """
    letters = list("abcdefghijklmnopqrst")
    random.Random(0).shuffle(letters)
    assert all(len(ids) == 1 for ids in tokenizer.encode(letters))
    lots = random.Random(1)
    documents = []
    for _ in range(3000):
        start = lots.randrange(len(letters))
        first, second = letters[start], letters[(start + 1) % len(letters)]
        documents.append([f"{first} {first}", f"{second} {second}"])
    return documents


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("tta", "sop"),
        ("tta", "srp"),
        pytest.param("bilm", "sop", marks=pytest.mark.slow),
        pytest.param("bilm", "srp", marks=pytest.mark.slow),
    ],
)
def test_order_is_learned(
    tmp_path: Path, tokenizer: Tokenizer, config: NetworkConfig, kind: str, name: str
) -> None:
    config = replace(config, kind=kind, layers=2)
    data = data_of(
        tmp_path,
        successors(tokenizer),
        tokenizer,
        config,
        200,
        steps=200,
        batch_tokens=250,
        learning_rate=1e-2,
        dropout=0.0,
    )
    usual = tasks_of(config, tokenizer, data.options, data.text)
    accuracies = []
    for tasks in ([*usual, order_task(name, data)], [order_task(name, data)]):
        torch.manual_seed(0)
        network = checkpoint.build(config)
        if tasks[0].name == name:  # only the classifier is trained
            for value in network.parameters():
                value.requires_grad_(False)
        progress = Trainer(network, tokenizer, tasks, data.options, tmp_path).run(
            lambda line: None
        )
        accuracies.append(progress.accuracies[name])
    learned, random_vectors = accuracies
    assert learned > 0.9 and random_vectors < 0.75, accuracies


def test_the_command(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES))
    sizes = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16, "vocab_size": 300}
    write_json(tmp_path / "tiny.json", sizes)
    train = ["train", "--text", "text", "--config", "tiny.json", "--device", "cpu"]
    order = [*train, "--lm", "bilm", "--sentence-order", "sop", "--out", "order"]
    done = rescore(*order, "--steps", "2")
    assert done.returncode == 0, done.stderr
    assert "sop: validation loss" in done.stderr and "  accuracy 0." in done.stderr
    assert rescore(*order, "--steps", "3", "--resume").returncode == 0
    other = [*order[:-3], "srp", "--out", "order", "--steps", "4", "--resume"]
    assert_one_line_error(rescore(*other), "was made with tasks bilm sop, not bilm srp")
    # The folder has what a model without the option has.
    done = rescore(*train, "--lm", "bilm", "--steps", "2", "--out", "plain")
    config = (tmp_path / "plain" / "config.json").read_text()
    assert (tmp_path / "order" / "config.json").read_text() == config
    first, second = (
        checkpoint.load(tmp_path / name)[0].state_dict() for name in ("plain", "order")
    )
    assert list(first) == list(second)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ("--lm", "unilm"),
            "unilm takes no --sentence-order; give it to --lm tta or bi",
        ),
        (
            ("--lm", "electra", "--generator", "tta"),
            "electra takes no --sentence-order; give it to --lm tta or bilm",
        ),
        (
            ("--lm", "ngram"),
            "train --lm ngram takes no --sentence-order; give it to --lm tta",
        ),
        (("--lm", "tta", "--context", "1"), "--sentence-order and --context exclude"),
        (("--lm", "tta", "--pairs", "text", "text"), "--sentence-order and --pairs"),
    ],
)
def test_combinations_are_refused(
    rescore: Run, tmp_path: Path, more: Sequence[str], message: str
) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES))
    order = ("--sentence-order", "srp", "--text", "text", "--out", "x")
    assert_one_line_error(rescore("train", *more, *order), message)
    assert not (tmp_path / "x").exists()


def test_a_model_that_reads_neighbours_can_be_adapted(
    rescore: Run, tmp_path: Path
) -> None:
    """Its pairs stand in one sentence."""
    (tmp_path / "text").write_text("\n".join(SENTENCES))
    sizes = {"layers": 1, "d_model": 16, "heads": 2, "d_ff": 16, "vocab_size": 300}
    write_json(tmp_path / "tiny.json", sizes | {"sentences": 3})
    train = ["train", "--lm", "tta", "--text", "text", "--device", "cpu"]
    made = rescore(*train, "--config", "tiny.json", "--steps", "0", "--out", "lm")
    assert made.returncode == 0, made.stderr
    adapt = [*train, "--init", "lm", "--steps", "2", "--sentence-order", "srp"]
    done = rescore(*adapt, "--out", "adapted")
    assert done.returncode == 0 and "srp: validation loss" in done.stderr, done.stderr
    config = json.loads((tmp_path / "adapted" / "config.json").read_text())
    assert config["sentences"] == 3
