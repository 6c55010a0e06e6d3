"""One checkpoint: each reading of a unified network equals its definition, mask by mask."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from rescore.errors import UserError
from rescore.lms import ComputeOptions, Question, capabilities_of, checkpoint, is_pseudo, load, without_context
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.mt.kinds import UnifiedKind
from rescore.mt.unified import Segment, Unified
from rescore.nbest import Hypothesis, NbestList, ranked_by_means
from tests.conftest import ROOT, SENTENCES, Run, assert_one_line_error

SOURCES = ["the old house", "he said so", "yes"]
TARGETS = [text for text in SENTENCES if len(text.split()) <= 8][:6]
PAIRS = [(source, target) for source in SOURCES for target in TARGETS]


def log_probs(network: Unified, tokens: list[int], segments: list[int], visible: list[list[bool]]) -> torch.Tensor:
    """(n, vocabulary): the network with a mask that is given, one sequence, float64."""
    places = torch.arange(len(tokens))
    beside = [network.segment_embedding.weight[segment] for segment in segments]
    embedded = network.token_embedding(torch.tensor(tokens)) + network.position_embedding(places) + torch.stack(beside)
    hidden = embedded[None]
    for block in network.layers():
        hidden = block(hidden, hidden, torch.tensor(visible)[None, None])
    return torch.log_softmax(hidden[0] @ network.token_embedding.weight.T, -1)


def definition(reading: str, folder: Path, source: str, target: str) -> list[float]:
    """A token at a time."""
    network, tokenizer = checkpoint.load(folder)
    assert isinstance(network, Unified)
    network.double()
    bos, eos, mask = tokenizer.bos, tokenizer.eos, tokenizer.mask
    given, ids = tokenizer.encode([source, target])
    values = []
    with torch.no_grad():
        if reading == "bi":
            for index, token in enumerate(ids):
                tokens = [bos, *ids[:index], mask, *ids[index + 1 :], eos]
                everything = [[True] * len(tokens)] * len(tokens)
                values.append(log_probs(network, tokens, [0] * len(tokens), everything)[index + 1, token].item())
        elif reading in ("l2r", "r2l"):
            ids = [*(ids[::-1] if reading == "r2l" else ids), eos]
            for index, token in enumerate(ids):
                tokens = [bos, *ids[:index]]
                past = [[j <= i for j in range(len(tokens))] for i in range(len(tokens))]
                segments = [1 if reading == "l2r" else 2] * len(tokens)
                values.append(log_probs(network, tokens, segments, past)[-1, token].item())
            values = values[::-1] if reading == "r2l" else values
        else:
            front = [bos, *given, eos]
            for index, token in enumerate([*ids, eos]):
                tokens = [*front, *ids[:index]]
                size = len(front)
                segments = [3] * size + [4] * index
                seen = [[j < size or (i >= size and j <= i) for j in range(len(tokens))] for i in range(len(tokens))]
                values.append(log_probs(network, tokens, segments, seen)[-1, token].item())
    return values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer, config: NetworkConfig) -> Path:
    made = tmp_path_factory.mktemp("unified")
    torch.manual_seed(3)
    network = checkpoint.build(replace(config, kind="unified", max_positions=80))
    with torch.no_grad():
        for value in network.parameters():
            value.add_(torch.randn_like(value) * 0.1)
    checkpoint.save(made, network, tokenizer)
    return made


@pytest.mark.parametrize("reading", ["bi", "l2r", "r2l"])
def test_a_sentence_equals_the_definition(reading: str, folder: Path) -> None:
    found = load(f"unified:{reading}:{folder}").score(without_context(TARGETS))
    for text, scores in zip(TARGETS, found, strict=True):
        slow = definition(reading, folder, "", text)
        np.testing.assert_allclose(scores.log_probs, slow, atol=1e-4)
        assert len(scores.tokens) == len(slow) and not any("#" in scores.tokens[0] for _ in slow)


@pytest.mark.parametrize("budget", [None, 60])
@pytest.mark.parametrize("reading", ["seq2seq", "channel"])
def test_a_pair_equals_the_definition(reading: str, budget: int | None, folder: Path) -> None:
    lm = load(f"unified:{reading}:{folder}", ComputeOptions(batch_tokens=budget))
    assert capabilities_of(lm).source and not is_pseudo(f"unified:{reading}")
    for (source, target), scores in zip(
        PAIRS, lm.score([Question(target, source) for source, target in PAIRS]), strict=True
    ):
        slow = definition(reading, folder, *((target, source) if "channel" in reading else (source, target)))
        np.testing.assert_allclose(scores.log_probs, slow, atol=1e-4)
        assert scores.tokens[-1] == "[EOS]"


def test_padding_and_neighbours_change_nothing(folder: Path) -> None:
    network, tokenizer = checkpoint.load(folder)
    size = tokenizer.vocab_size
    one = torch.tensor([[2, 7, 8, 3]]) + 3 * size
    both = torch.cat([one, torch.tensor([[9, 11, 3]]) + 4 * size], dim=1)
    padded = torch.cat([torch.cat([both, torch.zeros(1, 3, dtype=torch.long)], dim=1), torch.full((1, 10), 6)])
    with torch.no_grad():
        alone, among = network(both, torch.tensor([7])), network(padded, torch.tensor([7, 10]))
        source = network(one, torch.tensor([4]))
    torch.testing.assert_close(alone[0], among[0, :7], atol=1e-5, rtol=0)
    torch.testing.assert_close(source[0], among[0, :4], atol=1e-5, rtol=0)  # a source does not see its target


def test_long_sources_and_targets(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    lm = load(f"unified:seq2seq:{folder}")
    long = " ".join(["house"] * 120)
    cut, whole, both = lm.score([Question("yes", long), Question(long, "yes"), Question(long, long)])
    assert "long sources are cut" in caplog.text
    assert (
        len(whole.tokens) == len(both.tokens) > 120 and np.isfinite(both.log_probs).all() and (both.log_probs < 0).all()
    )
    assert cut.sum != lm.score([Question("yes", "yes")])[0].sum


def test_pseudo_is_what_is_masked(folder: Path) -> None:
    assert is_pseudo("unified:bi") and not is_pseudo("unified:seq2seq")


@pytest.fixture(scope="module")
def beam() -> ModuleType:
    """benchmarks/beam.py"""
    spec = importlib.util.spec_from_file_location("beam", ROOT / "benchmarks" / "beam.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_scores_of_a_beam(beam: ModuleType, folder: Path) -> None:
    network, tokenizer = checkpoint.load(folder)
    assert isinstance(network, Unified)
    lists = [NbestList("1", [Hypothesis("x")], ("Yes, it's so.",), SOURCES[0])]
    (nbest,) = beam.translated(network, tokenizer, lists, 4)
    assert nbest.source == SOURCES[0] and ranked_by_means([nbest])
    means = nbest.column("s2s")
    assert len(means) == 4 and means == sorted(means, reverse=True)
    (source,) = tokenizer.encode(SOURCES[:1])
    front, size = [tokenizer.bos, *source, tokenizer.eos], len(source) + 2
    for one in beam.search(network, tokenizer, source, 4):
        target = [*one.ids, tokenizer.eos]
        tokens = [*front, *one.ids]
        seen = [[j < size or (i >= size and j <= i) for j in range(len(tokens))] for i in range(len(tokens))]
        slow = log_probs(network, tokens, [3] * size + [4] * len(one.ids), seen)[size - 1 :]
        assert one.sum == pytest.approx(slow[range(len(target)), target].sum().item(), abs=1e-3)
        assert one.mean == pytest.approx(one.sum / len(target))


def test_a_beam_of_one_is_greedy(beam: ModuleType, folder: Path) -> None:
    network, tokenizer = checkpoint.load(folder)
    assert isinstance(network, Unified)
    source = tokenizer.encode(SOURCES[1:2])[0]
    (best,) = beam.search(network, tokenizer, source, 1)
    size, front = tokenizer.vocab_size, [tokenizer.bos, *source, tokenizer.eos]
    ids = [token + Segment.SOURCE * size for token in front]
    made: list[int] = []
    with torch.no_grad():
        while len(made) < len(best.ids) + 1:
            logits = network(torch.tensor([ids]), torch.tensor([len(ids)]))[0, -1] @ network.token_embedding.weight.T
            logits[[tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.mask]] = -torch.inf
            made.append(int(logits.argmax()))
            ids.append(made[-1] + Segment.TARGET * size)
    ended = len(best.ids) == 2 * len(source) + 10
    assert made[:-1] == best.ids and (ended or made[-1] == tokenizer.eos)


def test_on_the_command_line(folder: Path, rescore: Run, tmp_path: Path) -> None:
    hypotheses = [{"text": text, "score": -1.0 - place} for place, text in enumerate(TARGETS)]
    lists = [
        {"id": str(number), "src": source, "ref": TARGETS[number], "hyps": hypotheses}
        for number, source in enumerate(SOURCES)
    ]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lists))
    done = rescore("score", "dev.jsonl", "--lm", f"unified:seq2seq:{folder}", "--lm", f"unified:channel:{folder}")
    assert done.returncode == 0, done.stderr
    read = [json.loads(line) for line in done.stdout.splitlines()]
    expected = sum(definition("seq2seq", folder, SOURCES[1], TARGETS[2]))
    found = next(one for one in read if one.get("id") == "1")["hyps"][2]["scores"]
    assert found["unified:seq2seq"] == pytest.approx(expected, abs=1e-3) and "unified:channel" in found
    lower = rescore("score", "dev.jsonl", "--lm", f"unified:seq2seq:lower:{folder}")
    assert lower.returncode == 0, lower.stderr  # a case of its own does not hide the source
    assert_one_line_error(rescore("score", "dev.jsonl", "--lm", f"unified:{folder}"), "unified", "bi, l2r, r2l")
    assert_one_line_error(rescore("score", "dev.jsonl", "--lm", f"unified:bi:l2r:{folder}"), "bi and l2r")


def test_trained_by_the_command(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(SENTENCES[:60]) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(text.upper() for text in SENTENCES[:60]) + "\n")
    NetworkConfig("tta", 300, layers=2, d_model=16, heads=2, d_ff=32, max_positions=64).save(tmp_path / "tiny.json")
    train = ("train", "--lm", "unified", "--config", "tiny.json", "--held-out", "5", "--batch-tokens", "400")
    train += ("--device", "cpu", "--steps", "6")
    done = rescore(*train, "--pairs", "a.txt", "b.txt", "--out", "lm")
    assert done.returncode == 0, done.stderr
    for name in ("bi", "l2r", "r2l", "seq2seq"):
        assert f"  {name}: validation loss" in done.stderr
    card = (tmp_path / "lm" / "README.md").read_text()
    assert "| validation perplexity, seq2seq |" in card
    for name in ("seq2seq", "channel", "bi:intact"):
        assert load(f"unified:{name}:{tmp_path / 'lm'}").score([Question("yes", "yes")])[0].sum < 0
    assert_one_line_error(rescore(*train, "--out", "other", "--text", "a.txt"), "--pairs SOURCE TARGET")
    (tmp_path / "c.txt").write_text("one\ntwo\n")
    assert_one_line_error(
        rescore(*train, "--pairs", "a.txt", "c.txt", "--out", "x", "--tokenizer", "lm/tokenizer.json"),
        "c.txt: has 2 lines",
    )


def test_one_reading_is_trained(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(SENTENCES[:60]) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(text.upper() for text in SENTENCES[:60]) + "\n")
    NetworkConfig("tta", 300, layers=1, d_model=16, heads=2, d_ff=32, max_positions=64).save(tmp_path / "tiny.json")
    common = ("--held-out", "5", "--batch-tokens", "400", "--device", "cpu", "--pairs", "a.txt", "b.txt")
    train = ("train", "--lm", "unified", *common)
    done = rescore(*train, "--config", "tiny.json", "--steps", "6", "--out", "lm")
    assert done.returncode == 0 and done.stderr.count("15 % masked") == 1, done.stderr
    done = rescore(*train, "--init", "lm", "--steps", "2", "--reading", "seq2seq", "--out", "tuned")
    assert done.returncode == 0 and "validation loss" in done.stderr, done.stderr
    single = ("train", "--lm", "unified", *common[:-3], "--text", "a.txt", "--init", "lm", "--steps", "2")
    done = rescore(*single, "--reading", "l2r", "--out", "single")
    assert done.returncode == 0 and "validation loss" in done.stderr, done.stderr
    assert not (tmp_path / "single" / "pairs").exists(), done.stderr
    again = rescore(*single, "--steps", "3", "--reading", "r2l", "--out", "single", "--resume")
    assert_one_line_error(again, "was made with tasks l2r, not r2l")
    assert_one_line_error(rescore(*single, "--reading", "seq2seq", "--out", "x"), "give --pairs SOURCE TARGET")
    with pytest.raises(UserError, match="--reading x: expected one of bi, l2r, r2l, seq2seq"):
        UnifiedKind.Options(reading=("x",))
    wrong = rescore("train", "--lm", "tta", "--text", "a.txt", "--reading", "bi", "--out", "x")
    assert_one_line_error(wrong, "No such option '--reading'")


@pytest.mark.parametrize("field", ["cloze", "bi_source"])
def test_fields_of_earlier_versions(field: str, config: NetworkConfig, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    values = asdict(replace(config, kind="unified"))
    path.write_text(json.dumps(values | {field: False}))
    assert NetworkConfig.load(path) == replace(config, kind="unified")
    path.write_text(json.dumps(values | {field: True}))
    with pytest.raises(UserError, match=f"{field} belongs to an earlier version; train the network again"):
        NetworkConfig.load(path)
