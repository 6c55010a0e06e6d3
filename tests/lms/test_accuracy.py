"""Token accuracy equals the slow definition, of the shipped networks: random ones would be wrong everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rescore.lms import load as load_model
from rescore.lms import without_context
from rescore.lms.fast import CPU_SLICE, TiedSoftmax
from rescore.lms.scorers import NetworkScorer, right_tokens
from tests.conftest import ROOT, SENTENCES, Run, assert_one_line_error
from tests.large.test_huggingface import build
from tests.lms.test_neural import load, predictions
from tests.lms.test_ngram import ARPA

TEXTS = [*SENTENCES[:4], SENTENCES[0], ""]


def definition(backend: str, folder: Path, sentence: str) -> list[bool]:
    """Whether each token has the largest logit, one token at a time."""
    return [int(logits.argmax()) == target for logits, target in predictions(backend, folder, sentence)]


@pytest.mark.parametrize("backend", ["tta", "bilm", "bilm:intact", "unilm", "unilm-bw"])
def test_equals_the_definition(backend: str) -> None:
    kind = backend.partition(":")[0]
    folder = ROOT / "models" / ("tta-small" if kind == "tta" else kind)
    found = [right.tolist() for right in right_tokens(load(backend, folder), without_context(TEXTS))]
    assert [sorted(right) for right in found] == [sorted(definition(backend, folder, text)) for text in TEXTS]
    if backend != "unilm-bw":  # which predicts from the right
        assert found == [definition(backend, folder, text) for text in TEXTS]
    assert 0.05 < sum(map(sum, found)) / sum(map(len, found)) < 0.95


@pytest.mark.parametrize("name", ["hf-masked", "hf-causal"])
def test_most_probable_of_hugging_face(name: str, tmp_path: Path) -> None:
    folder = build("bert" if name == "hf-masked" else "gpt2", tmp_path / "model")
    lm = load_model(f"{name}:{folder}")
    assert isinstance(lm, NetworkScorer)
    for batch, rows, _, _ in lm.requests(lm.encoded(without_context(["the old clock", "the clock"]))):
        every = torch.arange(lm.network.vocabulary)
        with torch.inference_mode():
            slow = [int(lm.network.log_probs(batch, row.expand(len(every)), every).argmax()) for row in rows]
            assert lm.network.most_probable(batch, rows).tolist() == slow and len(set(slow)) > 1


def test_largest_logit_over_slices_of_the_vocabulary() -> None:
    torch.manual_seed(0)
    size = 2 * CPU_SLICE + 7
    hidden, embeddings, bias = torch.randn(50, 8), torch.randn(size, 8), torch.randn(size)
    logits = hidden @ embeddings.T
    assert torch.equal(TiedSoftmax(embeddings).most_probable(hidden), logits.argmax(-1))
    assert torch.equal(TiedSoftmax(embeddings, bias=bias).most_probable(hidden), (logits + bias).argmax(-1))


def test_command(rescore: Run) -> None:
    Path("t.txt").write_text("\n".join(SENTENCES[:4]) + "\n", encoding="utf-8")
    lm = ("--lm", f"tta:{ROOT / 'models' / 'tta-small'}")
    done = rescore("score", "--text", "t.txt", *lm, "--accuracy", "-o", "found.json")
    slow = [right for text in SENTENCES[:4] for right in definition("tta", ROOT / "models" / "tta-small", text)]
    (found,) = json.loads(Path("found.json").read_text(encoding="utf-8"))
    assert found["accuracy"] == pytest.approx(sum(slow) / len(slow))
    head, row = done.stdout.splitlines()[:2]
    assert head.endswith("accuracy") and row.endswith(f"{found['accuracy']:.3f}")
    assert "accuracy" not in rescore("score", "--text", "t.txt", *lm).stdout


def test_what_has_no_accuracy_is_an_error(rescore: Run) -> None:
    Path("t.txt").write_text("a b\n", encoding="utf-8")
    Path("lm.arpa").write_text(ARPA, encoding="utf-8")
    assert_one_line_error(rescore("score", "--text", "t.txt", "--lm", "ngram:lm.arpa", "--accuracy"), "not for ngram")
    cached = rescore("score", "--text", "t.txt", "--lm", "tta-small", "--cache", "c", "--accuracy")
    assert_one_line_error(cached, "without --cache")
