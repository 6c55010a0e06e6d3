"""A causal model that is shown the source: the hypothesis' tokens count, as transformers itself scores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from rescore.lms import ComputeOptions, Question, capabilities_of, load, without_context
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.large.test_huggingface import build

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


@pytest.mark.parametrize("budget", [None, 100, 40])
def test_a_long_prompt(folder: Path, budget: int | None) -> None:
    """The same scores, whether hypotheses share the prompt in a tree or not."""
    prompt = f"{' '.join(SENTENCES[:6])} German: {{src}} English: {{text}}"
    lm = load(f"hf-causal:{folder}", ComputeOptions(prompt=prompt, batch_tokens=budget))
    texts = [f"{start} {end}" for start in ("the old", "a clock") for end in SENTENCES[:12]]
    questions = [Question(text, source) for source in ("das alte haus", "das ja") for text in texts]
    found = [scores.sum for scores in lm.score(questions)]
    chains: Any = load(f"hf-causal:{folder}", ComputeOptions(prompt=prompt))
    assert chains.network.reads_trees
    chains.network.reads_trees = False
    assert found == pytest.approx([scores.sum for scores in chains.score(questions)], abs=1e-4 * 10)


def test_a_template_without_a_source(folder: Path) -> None:
    lm = load(f"hf-causal:{folder}", ComputeOptions(prompt="He said: {text}"))
    assert not capabilities_of(lm).source
    assert lm.score(without_context(["yes"]))[0].sum == pytest.approx(own(folder, "He said: ", "yes"), abs=1e-4)
    plain = load(f"hf-causal:{folder}")
    assert plain.fingerprint != lm.fingerprint


def test_on_the_command_line(folder: Path, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "src": "das haus", "hyps": [{"text": "yes", "score": -1}, {"text": "no", "score": -2}]}\n'
    )
    done = rescore("score", "l.jsonl", "--lm", f"hf-causal:{folder}", "--prompt", TEMPLATE)
    assert done.returncode == 0 and '"hf-causal"' in done.stdout, done.stderr
    wrong = rescore("score", "l.jsonl", "--lm", f"hf-causal:{folder}", "--prompt", "{text} {src}")
    assert_one_line_error(wrong, "ends with {text}")
    assert_one_line_error(
        rescore("score", "l.jsonl", "--lm", "tta", "--prompt", TEMPLATE), "--prompt needs --lm hf-causal"
    )
