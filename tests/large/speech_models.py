"""Speech models of transformers, tiny and random, and sounds for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import tokenizers
import torch
import transformers

LETTERS = "|ABCDEFGHIJKLMNOPQRSTUVWXYZ'"
RATE = 16_000
SPEECH = ("whisper", "speech-to-text", "speecht5", "moonshine")


def sound(
    path: Path, seconds: float = 0.6, seed: int = 0, rate: int = RATE, **how: Any
) -> Path:
    """Three gliding tones and some noise."""
    random = np.random.default_rng(seed)
    time = np.arange(int(seconds * rate)) / rate
    tones = sum(
        np.sin(2 * np.pi * (low + 80 * time) * time)
        for low in random.uniform(100, 1500, 3)
    )
    soundfile.write(
        path, 0.2 * tones + 0.02 * random.standard_normal(len(time)), rate, **how
    )
    return path


def capitals(folder: Path) -> Any:
    """A tokenizer of capital letters."""
    names = ["<pad>", "<s>", "</s>", "<unk>", *LETTERS]
    (folder / "vocab.json").write_text(
        json.dumps({name: number for number, name in enumerate(names)})
    )
    return transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))


def subwords(folder: Path, special: list[str]) -> Any:
    """A byte-level tokenizer with two merges."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    names = ["<pad>", "<s>", "</s>", "<unk>", *alphabet, "th", "the", *special]
    vocabulary = {name: number for number, name in enumerate(names)}
    inner = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocabulary, [("t", "h"), ("th", "e")], unk_token="<unk>")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    named = {
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, additional_special_tokens=special, **named
    )


def build_speech(
    name: str, folder: Path, languages: tuple[str, ...] = ("en", "de")
) -> Path:
    torch.manual_seed(4)
    special = [
        "<|start|>",
        *(f"<|{code}|>" for code in languages),
        "<|transcribe|>",
        "<|translate|>",
        "<|notimestamps|>",
    ]
    tokenizer = subwords(folder, special)
    code = tokenizer.convert_tokens_to_ids
    sizes: dict[str, Any] = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "d_model": 16,
    }
    sizes |= {
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "init_std": 0.5,
    }
    tokens: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    features: Any = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True)
    if name == "whisper":
        config: Any = transformers.WhisperConfig(
            num_mel_bins=8,
            max_source_positions=100,
            max_target_positions=40,
            **sizes,
            **tokens,
        )
        config.decoder_start_token_id = code("<|start|>")
        model: Any = transformers.WhisperForConditionalGeneration(config)
        features = transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=2)
        generation = model.generation_config
        generation._from_model_config = False
        generation.decoder_start_token_id = code("<|start|>")
        generation.no_timestamps_token_id = code("<|notimestamps|>")
        generation.lang_to_id = {
            f"<|{name}|>": code(f"<|{name}|>") for name in languages
        }
        generation.task_to_id = {
            name: code(f"<|{name}|>") for name in ("transcribe", "translate")
        }
    elif name == "speech-to-text":
        config = transformers.Speech2TextConfig(
            input_feat_per_channel=80,
            conv_channels=16,
            max_target_positions=40,
            decoder_start_token_id=2,
            **sizes,
            **tokens,
        )
        model, features = (
            transformers.Speech2TextForConditionalGeneration(config),
            transformers.Speech2TextFeatureExtractor(),
        )
    elif name == "speecht5":
        config = transformers.SpeechT5Config(
            hidden_size=16,
            conv_dim=(8, 8),
            conv_kernel=(10, 8),
            conv_stride=(8, 40),
            num_conv_pos_embeddings=4,
            num_conv_pos_embedding_groups=2,
            max_text_positions=40,
            initializer_range=0.5,
            decoder_start_token_id=2,
            **{
                key: value
                for key, value in sizes.items()
                if key not in ("d_model", "init_std")
            },
            **tokens,
        )
        model, features = (
            transformers.SpeechT5ForSpeechToText(config),
            transformers.SpeechT5FeatureExtractor(),
        )
    else:
        config = transformers.MoonshineConfig(
            hidden_size=16,
            intermediate_size=32,
            encoder_num_hidden_layers=2,
            decoder_num_hidden_layers=2,
            encoder_num_attention_heads=2,
            decoder_num_attention_heads=2,
            max_position_embeddings=40,
            initializer_range=0.5,
            decoder_start_token_id=1,
            **tokens,
        )
        model = transformers.MoonshineForConditionalGeneration(config)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    features.save_pretrained(folder)
    return folder
