"""The server of llama-cpp-python with a tiny model: its scores are those of transformers for the same weights."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from rescore import formats
from rescore.errors import UserError
from rescore.lms import ComputeOptions, without_context
from rescore.lms import load as load_model
from tests.conftest import ROOT, SENTENCES, Run

pytestmark = pytest.mark.slow
gguf = pytest.importorskip("gguf", reason="needs gguf: pip install gguf")
pytest.importorskip("llama_cpp.server", reason="needs a server: pip install 'llama-cpp-python[server]'")

SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WIDTH, LAYERS, HEADS, GROUPS, HIDDEN, POSITIONS = 64, 2, 4, 2, 128, 256
PROMPT = "Text: {text}"


def pieces() -> Tokenizer:
    """A tokenizer of the first Llama's kind: BPE over blanks, bytes for what has no piece."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=300, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    names = [*SPECIAL, *BYTES, *sorted(model["vocab"], key=model["vocab"].__getitem__)]
    vocabulary = {name: rank for rank, name in enumerate(names)}
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
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
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", model_max_length=POSITIONS
    ).save_pretrained(folder)
    write_gguf(folder / "model.gguf", model, tokenizer, bos)
    return folder


def write_gguf(path: Path, model: Any, tokenizer: Tokenizer, bos: bool) -> None:
    names = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    plain = len(SPECIAL) + len(BYTES)
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
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
    writer.add_token_scores([0.0] * plain + [float(-rank) for rank in range(len(names) - plain)])
    writer.add_token_types([*kinds, *[gguf.TokenType.NORMAL] * (len(names) - plain)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(bos)
    writer.add_add_space_prefix(True)
    for name, tensor in model.state_dict().items():
        values = tensor.float().numpy()
        for part, heads in (("q_proj", HEADS), ("k_proj", GROUPS)):
            if part in name:  # the two halves of a rotation lie side by side in this format
                split = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("llama"))


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server with the model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {"model": folder / "model.gguf", "port": port, "n_ctx": POSITIONS, "logits_all": True, "n_threads": 1}
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    with open(folder / "log", "wb") as told:
        server = subprocess.Popen(
            [sys.executable, "-m", "llama_cpp.server", *arguments, "--model_alias", "tiny"],
            stdout=told,
            stderr=told,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        until = time.monotonic() + 120
        while True:
            assert server.poll() is None and time.monotonic() < until, (folder / "log").read_text()[-2000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.3)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(folder) as address:
        yield address


def test_scores_are_those_of_transformers(folder: Path, url: str) -> None:
    texts = [*SENTENCES[:20], "a", "straße 5 €", "two  blanks", ""]
    prompted = ComputeOptions(prompt=PROMPT)
    served = load_model(f"server:{url}#tiny", prompted).score(without_context(texts))
    here = load_model(f"hf-causal:{folder}", prompted).score(without_context(texts))
    for text, one, other in zip(texts, served, here, strict=True):
        assert len(one.tokens) == len(other.tokens), text
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-2), text


def test_without_a_prompt_this_server_does_not_score_the_first_token(
    folder: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    served = load_model(f"server:{url}").score(without_context(SENTENCES[:5]))
    assert "gives no score for the first token of a text" in caplog.text
    for one, other in zip(served, load_model(f"hf-causal:{folder}").score(without_context(SENTENCES[:5])), strict=True):
        assert one.log_probs == pytest.approx(other.log_probs[1:], abs=1e-2)


def test_the_same_choice_of_the_demo_lists(folder: Path, url: str, rescore: Run, tmp_path: Path) -> None:
    lists = ROOT / "data" / "test.json"
    chosen = []
    for lm in (f"server:{url}#tiny", f"hf-causal:{folder}"):
        done = rescore(lists, "--lm", lm, "--prompt", PROMPT, "--weight", "0.5", "--best", "best")
        assert done.returncode == 0, done.stderr
        chosen.append((tmp_path / "best").read_text(encoding="utf-8"))
    assert chosen[0] == chosen[1]
    first = "".join(f"{one.id} {one.hypotheses[0].text}\n" for one in formats.read([lists]))
    assert chosen[0] != first


def test_without_a_first_token_this_server_takes_the_wrong_log_probabilities(tmp_path: Path) -> None:
    """They are those of the next token; a prompt that begins with <s> mends it."""
    with serving(save(tmp_path, bos=False)) as url:
        with pytest.raises(UserError, match=r"gives no log-probabilities of .*its tokens spell"):
            load_model(f"server:{url}#tiny")
        served = load_model(f"server:{url}#tiny", ComputeOptions(prompt=f"<s>{PROMPT}")).score(
            without_context(SENTENCES[:5])
        )
    here = load_model(f"hf-causal:{tmp_path}", ComputeOptions(prompt=PROMPT)).score(without_context(SENTENCES[:5]))
    for one, other in zip(served, here, strict=True):
        assert one.sum == pytest.approx(other.sum, abs=0.2)
