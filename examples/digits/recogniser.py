"""A small CTC recogniser of transformers (Wav2Vec2-BERT's layers on mel filterbanks), trained from nothing in minutes.

    python recogniser.py data/train ctc --seed 1 --steps 900

`rescore --lm hf-ctc:ctc` scores with the model that this writes.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np
import torch
import transformers
from torch import Tensor

from rescore.formats.audio import recordings, samples

LETTERS = "|0123456789"
"""| stands between words."""
BATCH = 8


def new_model(seed: int) -> tuple[transformers.Wav2Vec2BertForCTC, transformers.SeamlessM4TFeatureExtractor]:
    """A random model of 0.2 million parameters, and its features: a vector for each 40 ms at 16 kHz."""
    torch.manual_seed(seed)
    config = transformers.Wav2Vec2BertConfig(
        vocab_size=len(LETTERS) + 2,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        position_embeddings_type="relative_key",
        conv_depthwise_kernel_size=7,
        feature_projection_input_dim=320,
        output_hidden_size=64,
        layerdrop=0.0,
        apply_spec_augment=False,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.Wav2Vec2BertForCTC(config), transformers.SeamlessM4TFeatureExtractor(stride=4)


def save(model: transformers.Wav2Vec2BertForCTC, features: transformers.SeamlessM4TFeatureExtractor, out: Path) -> None:
    """The folder that `hf-ctc` reads: weights, features, and a tokenizer of letters."""
    out.mkdir(parents=True, exist_ok=True)
    vocabulary = out / "vocab.json"
    vocabulary.write_text(json.dumps({token: number for number, token in enumerate(["<pad>", "<unk>", *LETTERS])}))
    tokens = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": None, "eos_token": None}
    transformers.Wav2Vec2CTCTokenizer(str(vocabulary), word_delimiter_token="|", **tokens).save_pretrained(out)
    features.save_pretrained(out)
    model.save_pretrained(out)


def masked(features: Tensor, randomness: random.Random) -> Tensor:
    """A copy with random bands and stretches set to 0 (SpecAugment)."""
    features = features.clone()
    for _ in range(2):
        at = randomness.randrange(300)
        features[:, at : at + randomness.randrange(40)] = 0
        at = randomness.randrange(len(features))
        features[at : at + randomness.randrange(4)] = 0
    return features


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with wav.scp and text")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=900)
    arguments = parser.parse_args()
    randomness = random.Random(arguments.seed)
    model, extractor = new_model(arguments.seed)
    audio = recordings([str(arguments.data / "wav.scp")])
    examples = []
    for line in (arguments.data / "text").read_text(encoding="utf-8").splitlines():
        name, text = line.split(" ", 1)
        heard = extractor(samples(audio[name], 16_000), sampling_rate=16_000, return_tensors="pt")
        labels = torch.tensor([LETTERS.index(letter) + 2 for letter in text.replace(" ", "|")])
        examples.append((heard["input_features"][0], labels))
    examples.sort(key=lambda example: len(example[0]))
    batches = [examples[start : start + BATCH] for start in range(0, len(examples), BATCH)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    losses = []
    for step in range(1, arguments.steps + 1):
        batch = randomness.choice(batches)
        inputs = [masked(features, randomness) for features, _ in batch]
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(one)) for one in inputs], batch_first=True)
        labels = torch.nn.utils.rnn.pad_sequence([labels for _, labels in batch], True, -100)
        loss = model(
            torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True), attention_mask=mask.long(), labels=labels
        ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(step / 100, 1) * (1 - step / arguments.steps)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if step % 100 == 0:
            print(f"{step} steps: loss {np.mean(losses[-100:]):.3f}", flush=True)
    save(model.eval(), extractor, arguments.out)


if __name__ == "__main__":
    main()
