"""Models of the paper's size with random weights, ours and their twins in Hugging
Face's layout: equal in every score.

Speed does not depend on what the weights are. The vocabulary is that of the shipped
tokenizer, filled up.

    python benchmarks/models.py networks tta bilm unilm --size base
    rescore bench data/test.json --lm tta:networks/tta --lm bilm:networks/bilm
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
import torch
from common import ROOT
from torch import nn

from rescore.lms import checkpoint
from rescore.lms.config import NAMED, NetworkConfig, network_kind
from rescore.lms.networks import Transformer
from rescore.lms.tokenizer import BOS, EOS, MASK, PAD, UNK, Tokenizer

SIZES: dict[str, Callable[[], NetworkConfig]] = NAMED | {
    "tiny": partial(
        NetworkConfig, vocab_size=8_000, layers=1, d_model=32, heads=2, d_ff=64
    )
}
"""The sizes of `rescore train`, and one that only shows that a benchmark runs."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Write networks of random weights.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("kinds", nargs="+", help="such as tta; each gets a folder")
    parser.add_argument("--size", choices=SIZES, default="base")
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        make(kind, arguments.size, arguments.folder / kind)


def make(kind: str, size: str, folder: Path) -> Path:
    """A folder with a random network of a size of `SIZES`."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = asdict(SIZES[size]()) | {"kind": kind}
    config = network_kind(kind).Config(**settings)
    tokenizer = json.loads(
        (ROOT / "models" / "tta" / "tokenizer.json").read_text(encoding="utf-8")
    )
    vocabulary = tokenizer["model"]["vocab"]
    for index in range(len(vocabulary), config.vocab_size):
        vocabulary[f"[unused{index}]"] = index
    (folder / "tokenizer.json").write_text(
        json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8"
    )
    torch.manual_seed(0)
    checkpoint.save(
        folder, checkpoint.build(config), Tokenizer.load(folder / "tokenizer.json")
    )
    return folder


def twin(folder: Path) -> tuple[Any, Any]:
    """The same network and tokenizer as objects of transformers: a BERT without what
    ours does not have.

    That is the LayerNorm and the segments of its embeddings, and the transform before
    its softmax; a biLM is then a BertForMaskedLM, a uniLM a BertLMHeadModel, and a T-TA
    has none.
    """
    import transformers

    network, _ = checkpoint.load(folder)
    size = network.config
    causal = size.kind.startswith("unilm")
    config = transformers.BertConfig(
        vocab_size=size.vocab_size,
        hidden_size=size.d_model,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.d_ff,
        max_position_embeddings=size.max_positions,
        layer_norm_eps=1e-5,
        is_decoder=causal,
        tie_word_embeddings=False,
    )
    model = (transformers.BertLMHeadModel if causal else transformers.BertForMaskedLM)(
        config
    ).eval()
    model.bert.embeddings.LayerNorm = nn.Identity()
    model.cls.predictions.transform = nn.Identity()
    with torch.no_grad():
        _copy_weights(network, model)
    tokens = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    if not causal:
        frame = [(token, tokens.token_to_id(token)) for token in (BOS, EOS)]
        tokens.post_processor = tokenizers.processors.TemplateProcessing(
            f"{BOS} $A {EOS}", special_tokens=frame
        )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        pad_token=PAD,
        unk_token=UNK,
        cls_token=BOS,
        bos_token=BOS,
        sep_token=EOS,
        eos_token=EOS,
        mask_token=MASK,
    )
    return model, tokenizer


def causal(size: str, folder: Path, positions: int = 512) -> Path:
    """A random LLaMA of a size of `SIZES` with more positions, in Hugging Face's
    layout.
    """
    import transformers

    sizes = SIZES[size]()
    tokenizer = twin(make("unilm", size, folder / "unilm"))[1]
    config = transformers.LlamaConfig(
        vocab_size=sizes.vocab_size,
        hidden_size=sizes.d_model,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.d_ff,
        max_position_embeddings=positions,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _copy_weights(network: Transformer, model: Any) -> None:
    scale = network.scale
    embeddings = model.bert.embeddings
    embeddings.word_embeddings.weight.copy_(network.token_embedding.weight * scale)
    embeddings.position_embeddings.weight.copy_(
        network.position_embedding.weight * scale
    )
    embeddings.token_type_embeddings.weight.zero_()
    model.cls.predictions.decoder.weight.copy_(network.token_embedding.weight)
    model.cls.predictions.decoder.bias.zero_()
    for ours, theirs in zip(network.layers(), model.bert.encoder.layer, strict=True):
        attention = ours.attention
        for source, target in (
            (attention.query, theirs.attention.self.query),
            (attention.key, theirs.attention.self.key),
            (attention.value, theirs.attention.self.value),
            (attention.output, theirs.attention.output.dense),
            (ours.attention_norm, theirs.attention.output.LayerNorm),
            (ours.fc1, theirs.intermediate.dense),
            (ours.fc2, theirs.output.dense),
            (ours.feed_forward_norm, theirs.output.LayerNorm),
        ):
            target.weight.copy_(source.weight)
            target.bias.copy_(source.bias)


if __name__ == "__main__":
    main()
