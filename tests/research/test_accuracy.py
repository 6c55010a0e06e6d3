"""The accuracy of token prediction, against one token at a time in float64."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from rescore.lms import load, without_context
from rescore.research import accuracy
from tests.conftest import ROOT, SENTENCES, Run, assert_one_line_error
from tests.large.test_huggingface import build
from tests.lms.test_neural import predictions
from tests.lms.test_ngram import ARPA

TEXTS = [*SENTENCES[:4], SENTENCES[0], "the old"]


@pytest.mark.parametrize(
    "backend", ["tta-small", "bilm", "bilm:intact", "unilm", "unilm-bw"]
)
def test_shipped_models_equal_the_definition(backend: str) -> None:
    """Equal sentences and sentences with a common beginning are read once, and count
    each time.
    """
    lm = accuracy.predicting(load(backend))
    folder = ROOT / "models" / backend.partition(":")[0]
    kind = backend.removesuffix("-small")
    every = accuracy.right_tokens(lm, without_context(TEXTS))
    hits = 0
    for text, (right, is_end) in zip(TEXTS, every, strict=True):
        slow = [
            int(logits.argmax()) == target
            for logits, target in predictions(kind, folder, text)
        ]
        if kind == "unilm-bw":  # reads from the end; the end of reading comes last
            slow = slow[::-1]
        assert right.tolist() == slow
        assert is_end.sum() == kind.startswith("unilm")
        hits += sum(slow)
    assert 0 < hits < sum(len(right) for right, _ in every)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama-without-bos"])
def test_hugging_face(name: str, tmp_path: Path) -> None:
    """No token of the vocabulary has a higher log-probability than the best one."""
    pytest.importorskip("transformers")
    kind = "hf-masked" if name == "bert" else "hf-causal"
    lm = accuracy.predicting(load(f"{kind}:{build(name, tmp_path)}"))
    questions = without_context(TEXTS)
    network = cast(accuracy.PredictingNetwork, lm.network)
    vocabulary = torch.arange(network.vocabulary)
    with torch.inference_mode():
        for batch, *_ in lm.requests(lm.encoded(questions)):
            best = network.best(batch).tolist()
            for row in range(0, len(best), 5):
                rows = torch.full_like(vocabulary, row)
                log_probs = network.log_probs(batch, rows, vocabulary)
                assert int(log_probs.argmax()) == best[row]
    # a causal model without [BOS] does not predict the first token
    flags = accuracy.right_tokens(lm, questions)
    lengths = [len(scores.tokens) for scores in lm.score(questions)]
    assert [len(right) for right, _ in flags] == lengths
    assert not any(is_end.any() for _, is_end in flags)


def test_command(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(TEXTS), encoding="utf-8")
    lms = ["--lm", "tta-small", "--lm", "unilm"]
    done = rescore("accuracy", "text", *lms, "-o", "a.json", "-o", "a.csv")
    assert done.returncode == 0, done.stderr
    tta, unilm = json.loads((tmp_path / "a.json").read_text())["models"]
    rows = [line.split(",") for line in (tmp_path / "a.csv").read_text().splitlines()]
    assert rows[0][0:4] == ["", "tokens", "right", "accuracy"]
    flags = accuracy.right_tokens(
        accuracy.predicting(load("unilm")), without_context(TEXTS)
    )
    right, is_end = (np.concatenate(every) for every in zip(*flags, strict=True))
    assert unilm["ends"] == len(TEXTS) and unilm["tokens"] == len(right) - len(TEXTS)
    assert unilm["right"] == (right & ~is_end).sum()
    assert unilm["accuracy_with_ends"] == pytest.approx(right.mean())
    assert tta["ends"] == 0 and tta["accuracy"] == tta["right"] / tta["tokens"]
    assert f"{tta['accuracy']:.3f}" == rows[1][3] and rows[1][4:] == ["", "", ""]
    assert "accuracy|lm:unilm=unilm@" in done.stdout
    assert rescore("accuracy", "text", *lms, "--style", "json").stdout == (
        tmp_path / "a.json"
    ).read_text(encoding="utf-8")


def test_the_text_has_context(
    rescore: Run, models: dict[str, Path], tmp_path: Path
) -> None:
    """A model of neighbouring sentences reads the lines around a line."""
    (tmp_path / "text").write_text("\n".join(TEXTS), encoding="utf-8")
    done = rescore("accuracy", "text", "--lm", f"tta:context=1:{models['tta']}")
    assert_one_line_error(done, "was trained on single sentences")


def test_errors(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(TEXTS), encoding="utf-8")
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    tta = ("--lm", f"tta:{models['tta']}")
    done = rescore("accuracy", "text", "--lm", "ngram:lm.arpa")
    assert_one_line_error(done, "ngram: predicts no single tokens; give a network")
    done = rescore("accuracy", "text", *tta, "--cache", "cache")
    assert_one_line_error(done, "tta: predicts no single tokens", "leave out --cache")
    assert_one_line_error(rescore("accuracy", "empty", *tta), "empty: no text in it")
    several = f"permutation:orders=2:{models['permutation']}"
    done = rescore("accuracy", "text", "--lm", several)
    assert_one_line_error(done, "reads each sentence in several orders")
    done = rescore("accuracy", "text", *tta, "-o", "a.png")
    assert_one_line_error(done, "--output a.png: its ending is not one of", ".json")
