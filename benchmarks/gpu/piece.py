"""Train for a few minutes on one shard, and leave a state from which the next piece
goes on, on any machine.

    python benchmarks/gpu/piece.py shards/shard-000.safetensors --state state \\
        --tokenizer models/tta/tokenizer.json \
        --config benchmarks/gpu/wide.json --minutes 9

The state is a model folder with weights in float16 (2 bytes for a parameter), which
`--lm tta:state` scores with at any time, and progress.json. What the optimiser has
gathered is not kept: each piece warms up anew. The last piece, with
--last, lowers the learning rate to zero.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from safetensors import safe_open

from rescore.errors import UserError
from rescore.files import replacing
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import TtaKind
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import Corpus
from rescore.lms.training.loop import Trainer
from rescore.lms.training.options import TrainingData


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train a T-TA for some minutes, and leave a small state."
    )
    parser.add_argument("shard", type=Path)
    parser.add_argument(
        "--state", type=Path, required=True, help="a folder; the first piece makes it"
    )
    parser.add_argument(
        "--tokenizer", type=Path, required=True, help="a tokenizer.json"
    )
    parser.add_argument(
        "--config", type=Path, required=True, help="a config.json, for the first piece"
    )
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--steps", type=int, help="instead of --minutes")
    parser.add_argument(
        "--last", action="store_true", help="lower the learning rate to zero"
    )
    parser.add_argument("--batch-tokens", type=int, default=65_536)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument(
        "--held-out", type=int, default=500, help="sentences of the shard"
    )
    parser.add_argument("--device")
    arguments = parser.parse_args()
    tokenizer = Tokenizer.load(arguments.tokenizer)
    begun = arguments.state / "progress.json"
    if begun.exists():
        network, tokens = checkpoint.load(arguments.state)
        if tokens.fingerprint != tokenizer.fingerprint:
            raise UserError(
                f"{arguments.state}: was begun with another tokenizer than"
                f" {arguments.tokenizer}"
            )
        progress = json.loads(begun.read_text(encoding="utf-8"))
    else:
        network = checkpoint.build(NetworkConfig.load(arguments.config))
        progress = {"pieces": 0, "tokens": 0, "seconds": 0.0}
    made = TtaKind.training_options()
    assert made is not None
    options = made(
        steps=arguments.steps,
        minutes=None if arguments.steps else arguments.minutes,
        batch_tokens=arguments.batch_tokens,
        learning_rate=arguments.learning_rate,
        warmup=0.03,
        decay=0.97 if arguments.last else 0.0,
        dropout=0.0,
        seed=progress["pieces"],
        device=arguments.device,
    )
    with tempfile.TemporaryDirectory() as folder:
        unpack(arguments.shard, tokenizer, Path(folder))
        corpus = Corpus(Path(folder), tokenizer, arguments.held_out, seed=0)
        data = TrainingData(tokenizer, options, network.config, corpus)
        tasks = TtaKind("tta").tasks(data)
        trainer = Trainer(network, tokenizer, tasks, options, Path(folder))
        done = trainer.run(lambda line: print(line, flush=True))
    checkpoint.save(arguments.state, network, tokenizer)
    progress = {
        "pieces": progress["pieces"] + 1,
        "tokens": progress["tokens"] + done.tokens,
        "seconds": progress["seconds"] + done.seconds,
        "loss": done.validation_loss,
    }
    with replacing(begun) as path:
        path.write_text(json.dumps(progress) + "\n", encoding="utf-8")
    print(
        f"{progress['pieces']} pieces, {progress['tokens']:,} tokens,"
        f" {done.tokens / done.seconds:,.0f} tokens/s"
    )


def unpack(shard: Path, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a shard as the encoded text that `Corpus` reads.

    Raises:
        UserError: it was packed with another tokenizer.
    """
    with safe_open(shard, framework="np") as file:
        if file.metadata()["tokenizer"] != tokenizer.fingerprint:
            raise UserError(
                f"{shard}: was packed with another tokenizer; pack the text anew"
            )
        ids, lengths, documents = (
            file.get_tensor(name) for name in ("ids", "lengths", "documents")
        )
    ids.tofile(folder / "ids.bin")
    np.cumsum(lengths, dtype=np.int64).tofile(folder / "ends.bin")
    np.cumsum(documents).tofile(folder / "documents.bin")
    (folder / "corpus.json").write_text(
        json.dumps({"dtype": "uint16", "content": shard.name}), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
