"""Law: `hf-causal` gives each hypothesis the score that the model itself gives when it
reads the hypothesis alone: within the window of the model's attention and beyond, with
and without a prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from rescore.lms import ComputeOptions, load, without_context
from tests.conftest import SENTENCES
from tests.large.test_huggingface import byte_bpe

WINDOW = 8
SIZE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
HEADS: dict[str, Any] = {"head_dim": 8, "query_pre_attn_scalar": 8}
MIXED = ["sliding_attention", "full_attention"] * 2
CONFIGS: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Mistral": {"sliding_window": WINDOW},
    "Qwen2": {
        "sliding_window": WINDOW,
        "use_sliding_window": True,
        "max_window_layers": 1,
    },
    "Phi3": {"sliding_window": WINDOW},
    "Gemma2": {"sliding_window": WINDOW, **HEADS},
    "Gemma3Text": {"sliding_window": WINDOW, "layer_types": MIXED, **HEADS},
    "Cohere2": {"sliding_window": WINDOW, "head_dim": 8},
    "GptOss": {
        "sliding_window": WINDOW,
        "head_dim": 8,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "Llama4Text": {
        "attention_chunk_size": WINDOW,
        "head_dim": 8,
        "num_local_experts": 2,
        "intermediate_size_mlp": 64,
        "no_rope_layers": [1, 1, 0, 1],
    },
    "GPTNeo": {
        "window_size": WINDOW,
        "attention_types": [[["global", "local"], 2]],
        "num_layers": 4,
        "num_heads": 4,
    },
}
"""The fields of tiny configurations, by the name of the class in transformers."""
LONG = " ".join(SENTENCES[:3])
TEXTS = [LONG, f"{LONG[:-9]} the end", SENTENCES[1], SENTENCES[0], "yes", "yes no"]
PROMPTS = [None, f"{SENTENCES[4]} {{text}}"]


def build(name: str, folder: Path) -> Any:
    """Return a random model, and write its folder."""
    torch.manual_seed(3)
    tokenizer = byte_bpe(False)
    fields = {**SIZE, "vocab_size": len(tokenizer), **CONFIGS[name]}
    config = getattr(transformers, f"{name}Config")(**fields)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


@pytest.mark.parametrize("name", CONFIGS)
def test_scores_are_those_of_the_model_alone(name: str, tmp_path: Path) -> None:
    model = build(name, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)

    def tokens(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def log_probs(ids: list[int]) -> list[float]:
        with torch.no_grad():
            rows = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        return [rows[at - 1, ids[at]].item() for at in range(1, len(ids))]

    for prompt in PROMPTS:
        before = ""
        if prompt is not None:
            before = prompt.removesuffix("{text}")
        own = len(tokens(before.rstrip(" ")))
        lm = load(f"hf-causal:{tmp_path}", ComputeOptions(prompt=prompt))
        for text, score in zip(TEXTS, lm.score(without_context(TEXTS)), strict=True):
            expected = log_probs([0, *tokens(before + text)])[own:]
            assert score.log_probs == pytest.approx(expected, abs=2e-4)


def test_within_the_window_sequences_share_their_beginnings(tmp_path: Path) -> None:
    """Sentences are read as trees wherever the model allows it."""
    build("Mistral", tmp_path)
    lm: Any = load(f"hf-causal:{tmp_path}")
    texts = ["yes no", "yes yes", LONG]
    requests = list(lm.requests(lm.encoded(without_context(texts))))
    assert [request.batch.tree is not None for request in requests] == [True, False]
