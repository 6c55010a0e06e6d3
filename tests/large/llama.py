"""A random Llama in two forms: a folder of transformers, and a GGUF file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.conftest import SENTENCES

SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WIDTH, LAYERS, HEADS, GROUPS, HIDDEN, POSITIONS = 64, 2, 4, 2, 128, 256


def pieces() -> Tokenizer:
    """A tokenizer of the first Llama's kind: BPE over blanks, bytes for what has no
    piece.
    """
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(
        SENTENCES, trainers.BpeTrainer(vocab_size=300, show_progress=False)
    )
    model = json.loads(trained.to_str())["model"]
    names = [*SPECIAL, *BYTES, *sorted(model["vocab"], key=model["vocab"].__getitem__)]
    vocabulary = {name: rank for rank, name in enumerate(names)}
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        prepend_scheme="first", split=False
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    return tokenizer


def save(folder: Path, bos: bool = True) -> Path:
    """One random model in two forms: a folder for transformers, and model.gguf in it.

    Args:
        bos: whether a text begins with <s>.
    """
    tokenizer = pieces()
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        intermediate_size=HIDDEN,
        max_position_embeddings=POSITIONS,
        initializer_range=0.2,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=POSITIONS,
    ).save_pretrained(folder)
    write_gguf(folder / "model.gguf", model, tokenizer, bos)
    return folder


def write_gguf(path: Path, model: Any, tokenizer: Tokenizer, bos: bool) -> None:
    names = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    plain = len(SPECIAL) + len(BYTES)
    kinds = [
        gguf.TokenType.UNKNOWN,
        *[gguf.TokenType.CONTROL] * 2,
        *[gguf.TokenType.BYTE] * 256,
    ]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(names))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(names)
    writer.add_token_scores(
        [0.0] * plain + [float(-rank) for rank in range(len(names) - plain)]
    )
    writer.add_token_types([*kinds, *[gguf.TokenType.NORMAL] * (len(names) - plain)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(bos)
    writer.add_add_space_prefix(True)
    for name, tensor in model.state_dict().items():
        values = tensor.float().numpy()
        for part, heads in (("q_proj", HEADS), ("k_proj", GROUPS)):
            # the two halves of a rotation lie side by side in this format
            if part in name:
                split = values.reshape(
                    heads, 2, values.shape[0] // heads // 2, *values.shape[1:]
                )
                values = split.swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(named(name), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def named(name: str) -> str:
    """transformers' name of a tensor -> that in a GGUF file."""
    parts = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "model.layers": "blk",
    }
    for theirs, ours in parts.items():
        name = name.replace(theirs, ours)
    return name
