"""A causal model that is shown the source: the hypothesis' tokens count, as
transformers itself scores them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from rescore.lms import ComputeOptions, Question, capabilities_of, load, without_context
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.large.test_huggingface import build

TEMPLATE = "German: {src}\\nEnglish: {text}"
PAIRS = [
    (source, text)
    for source in ("das alte haus", "ja")
    for text in (SENTENCES[0], SENTENCES[1], "yes")
]


@pytest.fixture(scope="module", params=["gpt2", "llama", "llama-without-bos"])
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
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
        return -float(model(input_ids=tokens, labels=labels).loss) * (
            len(ids) - len(shown)
        )


@pytest.mark.parametrize("budget", [None, 80])
def test_only_the_hypothesis_counts(folder: Path, budget: int | None) -> None:
    lm = load(
        f"hf-causal:{folder}", ComputeOptions(prompt=TEMPLATE, batch_tokens=budget)
    )
    for (source, text), found in zip(
        PAIRS, lm.score([Question(text, source) for source, text in PAIRS]), strict=True
    ):
        assert found.sum == pytest.approx(
            own(folder, f"German: {source}\nEnglish: ", text), abs=1e-4 * len(text)
        )
        assert "".join(found.tokens).replace("Ġ", " ").strip() == text


@pytest.mark.parametrize("budget", [None, 100, 40])
def test_a_long_prompt_is_read_once(
    folder: Path, budget: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = f"{' '.join(SENTENCES[:6])} German: {{src}} English: {{text}}"
    lm: Any = load(
        f"hf-causal:{folder}", ComputeOptions(prompt=prompt, batch_tokens=budget)
    )
    assert lm.network.keeps_past
    texts = [
        f"{start} {end}" for start in ("the old", "a clock") for end in SENTENCES[:12]
    ]
    questions = [
        Question(text, source)
        for source in ("das alte haus", "das ja")
        for text in texts
    ]
    pasts: list[int] = []
    read = lm.network._model.forward

    def watched(*inputs: Any, **named: Any) -> Any:
        if named["attention_mask"].dim() == 2:  # no tree
            pasts.append(named["input_ids"].numel())
        return read(*inputs, **named)

    monkeypatch.setattr(lm.network._model, "forward", watched)
    found = [scores.sum for scores in lm.score(questions)]
    whole, changed = pasts
    assert whole > 130 and changed < 20, (
        "of the second source's prompt, only its end is read"
    )
    assert [scores.sum for scores in lm.score(questions)] == pytest.approx(
        found, abs=1e-4
    )
    chains: Any = load(f"hf-causal:{folder}", ComputeOptions(prompt=prompt))
    chains.network.keeps_past = chains.network.reads_trees = False
    assert found == pytest.approx(
        [scores.sum for scores in chains.score(questions)], abs=1e-4 * 10
    )


def test_a_model_with_a_sliding_window_keeps_no_past(tmp_path: Path) -> None:
    folder = build("llama", tmp_path, positions=300)
    told = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**told, "sliding_window": 8}))
    lm: Any = load(f"hf-causal:{folder}")
    assert not lm.network.keeps_past


def test_a_template_without_a_source(folder: Path) -> None:
    lm = load(f"hf-causal:{folder}", ComputeOptions(prompt="He said: {text}"))
    assert not capabilities_of(lm).source
    assert lm.score(without_context(["yes"]))[0].sum == pytest.approx(
        own(folder, "He said: ", "yes"), abs=1e-4
    )
    plain = load(f"hf-causal:{folder}")
    assert plain.fingerprint != lm.fingerprint


def test_on_the_command_line(folder: Path, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "src": "das haus", "hyps": [{"text": "yes", "score": -1}, {"text":'
        ' "no", "score": -2}]}\n'
    )
    done = rescore(
        "score", "l.jsonl", "--lm", f"hf-causal:{folder}", "--prompt", TEMPLATE
    )
    assert done.returncode == 0 and '"hf-causal"' in done.stdout, done.stderr
    wrong = rescore(
        "score", "l.jsonl", "--lm", f"hf-causal:{folder}", "--prompt", "{text} {src}"
    )
    assert_one_line_error(wrong, "ends with {text}")
    assert_one_line_error(
        rescore("score", "l.jsonl", "--lm", "tta", "--prompt", TEMPLATE),
        "--prompt needs --lm hf-causal",
    )
