"""Translation models on N-best lists: the encoder once a list, against transformers
pair by pair or list by list.

python benchmarks/seq2seq.py [--model DIR] [--sources 8] [--layers 6]; without a model a
random one of Marian's usual size (6 + 6 layers of 512), with 8,000 pieces.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from common import write_json
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from rescore.lms import Question, load

WORDS = [f"w{index}" for index in range(7_990)]
FRACTION = 0.1
"""Words that a hypothesis has in other places than the first."""


def made(folder: Path, layers: int) -> Path:
    """A folder with a random Marian model.

    Args:
        layers: of the encoder, and of the decoder.
    """
    tokenizer = Tokenizer(
        models.WordLevel(
            {w: i for i, w in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}, "<unk>"
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **names
    ).save_pretrained(folder)
    config = transformers.MarianConfig(
        vocab_size=tokenizer.get_vocab_size(),
        d_model=512,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=2048,
        decoder_ffn_dim=2048,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    transformers.MarianMTModel(config).save_pretrained(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--sources", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6, help="of the random model")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        if options.model:
            folder = Path(options.model)
        else:
            folder = made(Path(scratch), options.layers)
        lm = load(f"hf-seq2seq:{folder}")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        print(
            f"{'N':>3} {'rescore':>10} {'list by list':>14} {'pair by pair':>14} "
            f" seconds for {options.sources} lists"
        )
        for size in (10, 50):
            lists = [
                sample(size, random.Random(number)) for number in range(options.sources)
            ]
            pairs = [
                Question(text, source) for source, texts in lists for text in texts
            ]
            scores, own = timed(
                lambda pairs=pairs: [one.sum for one in lm.score(pairs)]
            )
            batched, by_list = timed(
                lambda lists=lists: [
                    s for one in lists for s in losses(model, tokenizer, *one)
                ]
            )
            single, by_pair = timed(
                lambda lists=lists: [
                    losses(model, tokenizer, one, [t])[0]
                    for one, texts in lists
                    for t in texts
                ]
            )
            worst = max(
                abs(a - b)
                for other in (batched, single)
                for a, b in zip(scores, other, strict=True)
            )
            print(
                f"{size:3} {own:10.2f} {by_list:8.2f} ({by_list / own:.2f}x)"
                f" {by_pair:8.2f} ({by_pair / own:.2f}x)  largest difference"
                f" {worst:.0e}"
            )
            rows[f"{size} hypotheses"] = {
                "hf-seq2seq, s": own,
                "transformers, list by list, s": by_list,
                "ratio": by_list / own,
                "pair by pair, s": by_pair,
                "ratio of pairs": by_pair / own,
            }
    if options.output:
        write_json(options.output, rows)


def sample(size: int, chance: random.Random) -> tuple[str, list[str]]:
    """A source, and hypotheses that differ from one another in a tenth of their
    words.
    """
    source, first = (
        [chance.choice(WORDS) for _ in range(chance.randint(15, 30))] for _ in range(2)
    )
    texts = [
        " ".join(
            chance.choice(WORDS) if chance.random() < FRACTION else word
            for word in first
        )
        for _ in range(size)
    ]
    return " ".join(source), texts


def losses(model: Any, tokenizer: Any, source: str, texts: list[str]) -> list[float]:
    """As transformers computes it: the source is repeated for each text."""
    inputs = tokenizer([source] * len(texts), return_tensors="pt", padding=True)
    labels = tokenizer(text_target=texts, return_tensors="pt", padding=True)[
        "input_ids"
    ]
    labels[labels == tokenizer.pad_token_id] = -100
    with torch.inference_mode():
        logits = model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            labels=labels,
        ).logits
    each = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), reduction="none", ignore_index=-100
    )
    return [-float(value) for value in each.view(labels.shape).sum(1)]


def timed(work: Callable[[], list[float]]) -> tuple[list[float], float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
