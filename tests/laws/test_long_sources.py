"""Law: each text-to-text model of transformers scores a source and a hypothesis of any
length: a source beyond the model's positions loses its end, with one warning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.models.auto import modeling_auto

from rescore.lms import Question, load
from tests.large.test_huggingface import byte_bpe

TABLE = modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
"""The names of classes, by kind of model."""
SMALL = 1_000_000
"""The most parameters of a model that is built here."""
ROOM = 16
"""The positions of a model that has positions."""
SIZES = {
    **dict.fromkeys(("num_layers", "num_decoder_layers", "num_encoder_layers"), 1),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "local_radius"), 1),
    **dict.fromkeys(("num_sparse_encoder_layers", "num_sparse_decoder_layers"), 0),
    **dict.fromkeys(("num_heads", "num_experts", "encoder_attention_heads"), 2),
    **dict.fromkeys(("decoder_attention_heads", "num_encoder_attention_heads"), 2),
    "num_decoder_attention_heads": 2,
    **dict.fromkeys(("d_model", "hidden_size", "d_ff", "d_kv"), 8),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "head_dim"), 8),
    "attention_window": ROOM,
    "max_position_embeddings": ROOM,
    "max_encoder_position_embeddings": ROOM,
    "max_decoder_position_embeddings": ROOM,
    "attention_type": "original_full",
    "langs": ["en", "de"],
}
"""Values of all configurations that have such a field."""


def built(kind: str, tokenizer: Any) -> Any:
    """Return a small model; None for a kind whose size has other names: the models that
    hear or see, and those of two configurations.
    """
    config_class = transformers.CONFIG_MAPPING[kind]
    usual = config_class()
    words = ("vocab_size", "src_vocab_size", "tgt_vocab_size")
    fields: dict[str, Any] = SIZES | dict.fromkeys(words, len(tokenizer))
    fields = {name: value for name, value in fields.items() if hasattr(usual, name)}
    ends = ("eos_token_id", "bos_token_id", "decoder_start_token_id")
    special = dict.fromkeys(ends, tokenizer.eos_token_id)
    special["pad_token_id"] = tokenizer.pad_token_id
    build = getattr(transformers, TABLE[kind])
    with torch.device("meta"):
        outline = build(config_class(**fields, **special))
    if sum(parameter.numel() for parameter in outline.parameters()) > SMALL:
        return None
    return build(config_class(**fields, **special)).eval()


KINDS_OF_TEXT = [
    *("bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "fsmt", "led"),
    *("longt5", "m2m_100", "marian", "mbart", "mt5", "mvp", "nllb-moe", "pegasus"),
    *("pegasus_x", "plbart", "prophetnet", "switch_transformers", "t5", "umt5"),
]
"""Kinds of the table that read text alone, with one configuration."""
OTHERS = [
    *("audioflamingo3", "encoder-decoder", "glmasr", "granite_speech", "voxtral"),
    *("granite_speech_plus", "moss_transcribe_diarize", "musicflamingo", "omniasr"),
    *("nemo_speechlm", "qwen2_audio", "qwen3_asr", "seamless_m4t", "t5gemma"),
    *("seamless_m4t_v2", "t5gemma2", "vibevoice_asr", "voxtral_realtime"),
]


def test_no_kind_is_forgotten() -> None:
    """A new version of transformers may have further kinds, and lack some."""
    new = {*TABLE} - {*KINDS_OF_TEXT, *OTHERS}
    assert not new, "add each to one of the two lists"


@pytest.mark.parametrize("kind", [kind for kind in KINDS_OF_TEXT if kind in TABLE])
def test_a_text_of_any_length_is_scored(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(1)
    tokenizer = byte_bpe(True)
    model = built(kind, tokenizer)
    assert model is not None
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    language_model = load(f"hf-seq2seq:{tmp_path}")
    long = "haus und hof " * 4
    # The ends of both sources are beyond the positions.
    sources = (long, long + "und haus")
    questions = [Question(long, long), *(Question("ja", source) for source in sources)]
    results = language_model.score(questions)
    for scores in results:
        assert len(scores.tokens) == len(scores.log_probs)
        assert np.isfinite(scores.log_probs).all()
    is_limited = "a source has" in caplog.text
    assert caplog.text.count("a source has") == is_limited
    if is_limited:
        assert results[1].sum == pytest.approx(results[2].sum, abs=1e-4)
