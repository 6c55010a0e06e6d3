"""A causal model that is shown the source: the hypothesis' tokens count, as transformers itself scores them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from rescore.lms import ComputeOptions, Question, alone, capabilities_of, load
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.lms.test_huggingface import build

TEMPLATE = "German: {src}\\nEnglish: {text}"
PAIRS = [(source, text) for source in ("das alte haus", "ja") for text in (SENTENCES[0], SENTENCES[1], "yes")]


@pytest.fixture(scope="module", params=["gpt2", "llama", "llama-without-bos"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(request.param, tmp_path_factory.mktemp(request.param), positions=300)


def own(folder: Path, before: str, text: str) -> float:
    """transformers' loss with the prompt's labels ignored, summed over the others."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    shown = tokenizer(before.rstrip(" "), add_special_tokens=False)["input_ids"]
    ids = tokenizer(before + text, add_special_tokens=False)["input_ids"]
    assert ids[: len(shown)] == shown  # nothing runs across the border in these texts
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    tokens = torch.tensor([[*start, *ids]])
    labels = tokens.clone()
    labels[0, : len(start) + len(shown)] = -100
    with torch.inference_mode():
        return -float(model(input_ids=tokens, labels=labels).loss) * (len(ids) - len(shown))


@pytest.mark.parametrize("budget", [None, 80])
def test_only_the_hypothesis_counts(folder: Path, budget: int | None) -> None:
    lm = load(f"hf-causal:{folder}", ComputeOptions(prompt=TEMPLATE, batch_tokens=budget))
    for (source, text), found in zip(PAIRS, lm.score([Question(text, source) for source, text in PAIRS]), strict=True):
        assert found.sum == pytest.approx(own(folder, f"German: {source}\nEnglish: ", text), abs=1e-4 * len(text))
        assert "".join(found.tokens).replace("Ġ", " ").strip() == text


def test_a_template_without_a_source(folder: Path) -> None:
    lm = load(f"hf-causal:{folder}", ComputeOptions(prompt="He said: {text}"))
    assert not capabilities_of(lm).source
    assert lm.score(alone(["yes"]))[0].sum == pytest.approx(own(folder, "He said: ", "yes"), abs=1e-4)
    plain = load(f"hf-causal:{folder}")
    assert plain.fingerprint != lm.fingerprint


def test_what_was_said_before_is_shown(folder: Path) -> None:
    lm = load(f"hf-causal:context=2:{folder}")
    before = (SENTENCES[2], SENTENCES[3])
    texts = (SENTENCES[0], "yes")
    for text, found in zip(texts, lm.score([Question(text, before=before) for text in texts]), strict=True):
        shown = "".join(f"{line}\n" for line in before)
        assert found.sum == pytest.approx(own(folder, shown, text), abs=1e-4 * len(text))
    plain = load(f"hf-causal:{folder}")
    assert lm.score(alone(["yes"]))[0].sum == pytest.approx(plain.score(alone(["yes"]))[0].sum, abs=1e-4)
    assert plain.fingerprint != lm.fingerprint


def test_on_the_command_line(folder: Path, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "src": "das haus", "hyps": [{"text": "yes", "score": -1}, {"text": "no", "score": -2}]}\n'
    )
    done = rescore("score", "l.jsonl", "--lm", f"hf-causal:{folder}", "--prompt", TEMPLATE)
    assert done.returncode == 0 and '"hf-causal"' in done.stdout, done.stderr
    wrong = rescore("score", "l.jsonl", "--lm", f"hf-causal:{folder}", "--prompt", "{text} {src}")
    assert_one_line_error(wrong, "ends with {text}")
    assert_one_line_error(rescore("score", "l.jsonl", "--lm", "tta", "--prompt", TEMPLATE), "--prompt is for hf-causal")
    both = rescore("score", "l.jsonl", "--lm", f"hf-causal:{folder}", "--prompt", TEMPLATE, "--context", "1")
    assert_one_line_error(both, "--prompt and --context exclude each other")
