"""Train by the clock on shards that arrive while the training goes on.

    setsid python benchmarks/gpu/trainer.py --shards shards --out run \
        --tokenizer models/tta/tokenizer.json --config benchmarks/gpu/large.json \
        --narrow benchmarks/gpu/narrow.json --minutes 10 > run.log 2>&1 < /dev/null &

The clock starts with the program. Training starts with the first shard, and stops so
that the last save is written when the minutes are over. `--out` gets a folder for each
save, `save-001` and so on: config.json, tokenizer.json, progress.json, and the weights
in float16 as `model.safetensors.00` and so on. A folder of that name is always whole.
This makes a model folder of it:

    cat model.safetensors.* > model.safetensors && rm model.safetensors.*

With `--resume SAVE` the training goes on from a save, on any machine. The optimizer's
state is not saved: the learning rate warms up again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from shards import Shards, prepared

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig, network_kind
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import SentenceBatch
from rescore.lms.training.loop import Trainer, noted_signals
from rescore.lms.training.options import NeuralOptions, TrainingData

LINE_SECONDS = 1.0
"""Seconds between two lines about the progress."""
SAVE_SECONDS = 3.0
"""Seconds that the last save may take."""
KEPT = 2
"""Saves that are kept."""
WEIGHTS = "model.safetensors"


@dataclass(slots=True)
class Progress:
    """Where a training stands, over all machines."""

    runs: int = 0
    """Number of times that it was started."""
    tokens: int = 0
    seconds: float = 0.0
    """Seconds since the first shard of each run."""
    loss: float | None = None
    """The validation loss a token, natural log; None before the first validation."""


@dataclass
class Clock:
    """The time that a program may take."""

    minutes: float
    started: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return 60 * self.minutes - self.elapsed


def main() -> None:
    arguments = parser().parse_args()
    clock = Clock(arguments.minutes)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "pid").write_text(f"{os.getpid()}\n", encoding="utf-8")
    tokenizer = Tokenizer.load(arguments.tokenizer)
    shards = Shards(
        arguments.shards, tokenizer, arguments.held_out, arguments.seed, report
    )
    threading.Thread(target=shards.watch, daemon=True).start()
    network, progress = begun(arguments, tokenizer)
    wait_for_text(shards, clock)
    batches = prepared(shards.batches(arguments.batch_tokens))
    with noted_signals() as signals:
        run = Run(arguments, clock, shards, batches, signals)
        enough = run.train(network, progress, judged=arguments.resume is not None)
        if not enough:
            narrow = checkpoint.build(NetworkConfig.load(arguments.narrow))
            report(f"too slow: starts again with {arguments.narrow}")
            run.train(narrow, Progress(runs=1), judged=True)
    report("finished")


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--shards", type=Path, required=True, help="the folder where shards arrive"
    )
    options.add_argument("--out", type=Path, required=True, help="the folder of saves")
    options.add_argument("--tokenizer", type=Path, required=True)
    options.add_argument("--config", type=Path, help="a config.json")
    options.add_argument("--resume", type=Path, help="a save, instead of --config")
    options.add_argument(
        "--narrow",
        type=Path,
        help="a config.json of a faster network, for a machine that is too slow",
    )
    options.add_argument(
        "--least-tokens",
        type=float,
        default=200e6,
        help="with fewer tokens in sight, --narrow starts",
    )
    options.add_argument(
        "--judge-after",
        type=float,
        default=60.0,
        help="seconds of training after which the speed is judged",
    )
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--save-every", type=float, default=2.0, help="minutes")
    options.add_argument(
        "--part-megabytes", type=float, default=16.0, help="size of a file of weights"
    )
    options.add_argument("--batch-tokens", type=int, default=65_536)
    options.add_argument("--learning-rate", type=float, default=2e-3)
    options.add_argument("--decay", type=float, default=0.3)
    options.add_argument(
        "--held-out", type=int, default=500, help="sentences of each shard"
    )
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--device")
    return options


def report(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def begun(
    arguments: argparse.Namespace, tokenizer: Tokenizer
) -> tuple[Network, Progress]:
    """Return the network and the progress of `--resume`, or those of a new training.

    Raises:
        UserError: The save was made with another tokenizer.
    """
    if arguments.resume is None:
        network = checkpoint.build(NetworkConfig.load(arguments.config))
        return network, Progress(runs=1)
    network, own = joined(arguments.resume)
    if own.fingerprint != tokenizer.fingerprint:
        raise UserError(
            f"{arguments.resume}: has another tokenizer than {arguments.tokenizer}"
        )
    saved = (arguments.resume / "progress.json").read_text(encoding="utf-8")
    progress = Progress(**json.loads(saved))
    progress.runs += 1
    return network, progress


def wait_for_text(shards: Shards, clock: Clock) -> None:
    """Return when the first shard was read.

    Raises:
        UserError: The first shard cannot be used, or none came in time.
    """
    while not shards.shards:
        if shards.problem is not None:
            raise shards.problem
        if clock.left <= 0:
            raise UserError(f"{shards.folder}: no shard came in time")
        time.sleep(0.1)


@dataclass
class Run:
    """What all trainings of this program share."""

    arguments: argparse.Namespace
    clock: Clock
    shards: Shards
    batches: Iterator[SentenceBatch]
    signals: list[int]
    """A signal ends the training with a save."""
    saves: int = 0

    def train(self, network: Network, progress: Progress, judged: bool = False) -> bool:
        """Train until the end of the time; return False if the network is too slow.

        Args:
            network: The network.
            progress: Where the training stands.
            judged: Whether the network is kept, however slow it is.
        """
        before = Progress(**asdict(progress))
        trainer = self._trainer(network)
        objective = trainer.schedule[0].objective
        trainer.validate(report)  # how long it takes decides when training stops
        pace = Pace()
        saved = self.clock.elapsed
        while not trainer.is_done and not self.signals:
            loss, tokens = trainer.update(objective, next(self.batches))
            if not math.isfinite(loss):
                raise UserError(f"the loss is {loss}; lower --learning-rate")
            trainer.progress.step += 1
            trainer.progress.tokens += tokens
            trainer.progress.seconds = pace.elapsed
            progress.tokens = before.tokens + trainer.progress.tokens
            progress.seconds = before.seconds + trainer.progress.seconds
            if pace.is_due:
                self._print(pace, trainer, loss)
            if self._can_judge(judged, pace):
                judged = True
                if self._tokens_in_sight(pace, trainer) < self.arguments.least_tokens:
                    return False
            if self.clock.elapsed - saved >= 60 * self.arguments.save_every:
                saved = self.clock.elapsed
                self.save(trainer, progress)
        trainer.validate(report)
        progress.loss = trainer.progress.validation_loss
        self.save(trainer, progress)
        return True

    def _trainer(self, network: Network) -> Trainer:
        """Return the trainer of a network, for the time that is left."""
        arguments = self.arguments
        kind = network_kind(network.config.kind)
        made: type[NeuralOptions] = kind.training_options()
        options = made(
            minutes=max(0.001, (self.clock.left - SAVE_SECONDS) / 60),
            batch_tokens=arguments.batch_tokens,
            learning_rate=arguments.learning_rate,
            warmup=0.03,
            decay=arguments.decay,
            dropout=0.0,
            seed=arguments.seed,
            device=arguments.device,
        )
        data = TrainingData(
            self.shards.tokenizer,
            options,
            network.config,
            self.shards,  # type: ignore[arg-type]
        )
        tasks = kind.tasks(data)
        trainer = Trainer(network, self.shards.tokenizer, tasks, options, arguments.out)
        report(
            f"{sum(value.numel() for value in network.parameters()):,} parameters on"
            f" {trainer.device}, {trainer.precision}, {60 * options.minutes:.0f} s"
        )
        return trainer

    def _print(self, pace: Pace, trainer: Trainer, loss: float) -> None:
        """Print a line about the progress."""
        tokens = trainer.progress.tokens
        passes = tokens / self.shards.training_tokens
        speed = pace.mark(tokens)
        report(
            f"{self.clock.elapsed:5.0f} s  step {trainer.progress.step}"
            f"  tokens {tokens:,}  passes {passes:.2f}  loss {loss:.3f}"
            f"  {speed:,.0f} tokens/s"
        )

    def _can_judge(self, judged: bool, pace: Pace) -> bool:
        """Return whether the speed is judged now."""
        if judged or self.arguments.narrow is None:
            return False
        return pace.elapsed >= self.arguments.judge_after

    def _tokens_in_sight(self, pace: Pace, trainer: Trainer) -> float:
        """Return the tokens that the training will have read at its end."""
        speed = pace.lately(self.arguments.judge_after / 2)
        seen = trainer.progress.tokens + speed * max(0.0, self.clock.left)
        report(f"speed {speed:,.0f} tokens/s: {seen / 1e6:,.1f} M tokens in sight")
        return seen

    def save(self, trainer: Trainer, progress: Progress) -> None:
        """Write a save, and remove the saves before the last two."""
        out = self.arguments.out
        self.saves = max(self.saves, last_number(out)) + 1
        folder = out / f"save-{self.saves:03}"
        size = int(self.arguments.part_megabytes * 1e6)
        with tempfile.TemporaryDirectory(dir=out) as name:
            unfinished = Path(name) / "save"
            checkpoint.save(unfinished, trainer.network, trainer.tokenizer)
            cut(unfinished / WEIGHTS, size)
            text = json.dumps(asdict(progress)) + "\n"
            (unfinished / "progress.json").write_text(text, encoding="utf-8")
            unfinished.rename(folder)
        for old in sorted(out.glob("save-*"))[:-KEPT]:
            shutil.rmtree(old)
        report(f"saved {folder}")


class Pace:
    """Seconds since the first batch, and tokens a second."""

    def __init__(self) -> None:
        """Start to measure."""
        self._started = time.monotonic()
        self._marks = [(0.0, 0)]

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def is_due(self) -> bool:
        """Whether a second has passed since the last mark."""
        return self.elapsed - self._marks[-1][0] >= LINE_SECONDS

    def mark(self, tokens: int) -> float:
        """Return the tokens a second since the last mark.

        Args:
            tokens: Tokens since the start.
        """
        self._marks.append((self.elapsed, tokens))
        return self.lately(0.0)

    def lately(self, seconds: float) -> float:
        """Return the tokens a second of the last seconds, at least from the last mark
        but one.

        Args:
            seconds: The time that is measured.
        """
        last, tokens = self._marks[-1]
        for then, before in reversed(self._marks[:-1]):
            if last - then >= seconds:
                return (tokens - before) / (last - then)
        return tokens / max(last, 1e-9)


def last_number(out: Path) -> int:
    """Return the number of the last save in a folder; 0 if there is none."""
    numbers = [int(folder.name.removeprefix("save-")) for folder in out.glob("save-*")]
    return max(numbers, default=0)


def cut(path: Path, size: int) -> None:
    """Cut a file into parts, `NAME.00` and so on, and remove it.

    Args:
        path: The file.
        size: Bytes of a part, at most.
    """
    with open(path, "rb") as file:
        number = 0
        while part := file.read(size):
            path.with_name(f"{path.name}.{number:02}").write_bytes(part)
            number += 1
    path.unlink()


def joined(save: Path) -> tuple[Network, Tokenizer]:
    """Return the network and the tokenizer of a save.

    Args:
        save: The folder, with the weights in parts or whole.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("config.json", "tokenizer.json"):
            shutil.copy(save / file, folder / file)
        with open(folder / WEIGHTS, "wb") as whole:
            for part in sorted(save.glob(f"{WEIGHTS}*")):
                whole.write(part.read_bytes())
        return checkpoint.load(folder)


if __name__ == "__main__":
    main()
