"""The training loop: Muon or AdamW, warm-up and linear decay, validation, checkpoints,
interruption, exact resume.
"""

from __future__ import annotations

import json
import logging
import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from itertools import cycle, islice
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from rescore.errors import UserError, counted
from rescore.lms import checkpoint
from rescore.lms.base import Report
from rescore.lms.devices import choose_device
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import SentenceBatch
from rescore.lms.training.objectives import Objective, Task
from rescore.lms.training.options import NeuralOptions

log = logging.getLogger(__name__)

STATE = "training.safetensors"
CHECKPOINT_SECONDS = 300.0
VALIDATION_SECONDS = 600.0
VALIDATIONS = 10
"""Validations of an adaptation, beside those due by time."""
PATIENCE = 3
"""An adaptation stops after this number of validations in a row without a gain."""
LARGEST_GRADIENT = 1.0
"""The norm to which larger gradients are cut."""
LINE_STEPS, LINE_SECONDS = 200, 30.0
"""A line about the progress is due after this number of steps or seconds."""


def optimizers(
    network: Network, name: str, weight_decay: float, heads: nn.Module | None = None
) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the layers' matrices, AdamW for embeddings, biases
    and LayerNorm; or AdamW for all.

    Muon's updates are scaled to the size of AdamW's (Liu et al. 2025, section 2.2), so
    one learning rate suits both. Weight decay is for matrices only, as in BERT's
    optimiser.

    Args:
        network: The network.
        name: `muon`, or `adamw` for all.
        weight_decay: Weight decay of matrices.
        heads: Parameters of objectives, for AdamW.
    """
    named = list(network.named_parameters())
    of_heads = list(heads.parameters()) if heads else []
    vectors = [value for _, value in named if value.dim() != 2]
    vectors += [value for value in of_heads if value.dim() != 2]
    matrices = [
        value for name, value in named if value.dim() == 2 and "embedding" not in name
    ]
    embeddings = [
        value for name, value in named if value.dim() == 2 and "embedding" in name
    ]
    embeddings += [value for value in of_heads if value.dim() == 2]
    optimizer_list: list[torch.optim.Optimizer] = []
    if name == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise UserError(
                f"PyTorch {torch.__version__} has no Muon; install 2.9 or later, or"
                " give --optimizer adamw"
            )
        muon = torch.optim.Muon(
            matrices, lr=0.0, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"
        )
        optimizer_list.append(muon)
        matrices = []
    groups = [
        {"params": [*matrices, *embeddings], "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer_list.append(
        torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-6, fused=True)
    )
    return optimizer_list


class Pace:
    """Speed and time left, measured since the previous line, because a machine's speed
    changes over hours.
    """

    def __init__(self, tokens: int, seconds: float, done: float) -> None:
        """
        Args:
            tokens, seconds, done: where training stands; `done` is a share of the
                whole.
        """
        self._before = tokens, seconds, done
        self._told = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether the next line is due, after a number of steps or seconds."""
        return step % LINE_STEPS == 0 or time.monotonic() - self._told >= LINE_SECONDS

    def line(self, tokens: int, seconds: float, done: float) -> str:
        """Tokens a second of the last interval, and the minutes to go at this pace."""
        more = [
            now - before
            for now, before in zip((tokens, seconds, done), self._before, strict=True)
        ]
        self._before, self._told = (tokens, seconds, done), time.monotonic()
        speed = more[0] / max(more[1], 1e-9)
        left = (1 - done) * more[1] / max(more[2], 1e-9) / 60
        return (
            f"{speed:,.0f} tokens/s  {min(done, 1.0):.1%} done,"
            f" {counted(round(max(left, 0)), 'minute')} to go"
        )


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """A list that gets the number of the first SIGINT or SIGTERM, which acts as usual
    at the end of the context; a second signal acts as usual at once.
    """
    noted: list[int] = []
    usual: dict[int, signal._HANDLER] = {}

    def restore() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        restore()

    # no other thread may set handlers
    if threading.current_thread() is threading.main_thread():
        handlers = {
            number: signal.getsignal(number)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        usual |= {
            number: handler
            for number, handler in handlers.items()
            if handler != signal.SIG_IGN
        }
        for number in usual:
            signal.signal(number, note)
    try:
        yield noted
    finally:
        restore()
    for number in noted:
        signal.raise_signal(number)


@dataclass(slots=True)
class TrainingState:
    """Where training stands. Losses are natural logs a token."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    validation_loss: float | None = None
    """The mean of the tasks' losses."""
    losses: dict[str, float] = field(default_factory=dict)
    """Each task's validation loss."""
    accuracies: dict[str, float] = field(default_factory=dict)
    """The accuracy of tasks whose objectives count it."""
    best_step: int = 0
    """Where the first task's validation loss was lowest; 0 is the model to start
    from.
    """
    best_losses: dict[str, float] = field(default_factory=dict)
    """Each task's validation loss there."""
    worse: int = 0
    """Number of validations since then."""
    rates: dict[str, float] = field(default_factory=dict)
    """The options that a resumed training may change, such as the learning rate."""


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """The number format of a training; `auto` is bfloat16 where the device multiplies
    it fast.
    """
    if name == "auto":
        fast = (
            torch.cuda.is_bf16_supported()
            if device.type == "cuda"
            else _cpu_multiplies_bfloat16()
        )
        name = "bfloat16" if fast else "float32"
    precision: torch.dtype = getattr(torch, name)
    return precision


def _cpu_multiplies_bfloat16() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


class Trainer:
    """One network, its tasks, its options. `run` trains to the end; `resume` first puts
    everything back as it was.
    """

    def __init__(
        self,
        network: Network,
        tokenizer: Tokenizer,
        schedule: Sequence[Task],
        options: NeuralOptions,
        folder: Path,
    ) -> None:
        """
        Args:
            schedule: the tasks of the batches in turn, repeated; a task may occur
                several times.
        """
        self.device = choose_device(options.device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        self.precision = choose_precision(options.precision, self.device)
        self.network = network.to(self.device)
        self.network.set_dropout(options.dropout)
        self.tokenizer, self.options, self.folder = tokenizer, options, folder
        self.schedule = list(schedule)
        self.tasks = {task.name: task for task in schedule}
        self.progress = TrainingState(rates=self._rates())
        self._adapts = options.start is not None
        self._validated, self._validated_share = time.monotonic(), 0.0
        self._best: dict[str, Tensor] = {}
        """The weights of the lowest validation loss, of an adaptation."""
        self.heads = nn.ModuleDict(_heads(self.tasks)).to(self.device)
        """The parameters of objectives, by the task."""
        self.optimizers = optimizers(
            network, options.optimizer, options.weight_decay, self.heads
        )
        self._model = network
        if self.device.type == "cuda":
            self._model = cast(Network, torch.compile(network, dynamic=True))

    @property
    def belongs_to(self) -> dict[str, Any]:
        """The identity that a saved state must match."""
        return {
            "tasks": " ".join(task.name for task in self.schedule),
            **{
                name: getattr(self.options, name)
                for name in (
                    "batch_tokens",
                    "batch_sentences",
                    "seed",
                    "optimizer",
                    "objective",
                )
            },
            "network": asdict(self.network.config),
            "tokenizer": self.tokenizer.fingerprint,
            "text": " ".join(
                dict.fromkeys(task.corpus.fingerprint for task in self.schedule)
            ),
            "held_out": self.schedule[0].corpus.held_out_sentences,
        }

    def learning_rate(self) -> float:
        """Linear warm-up, constant, linear decay to zero, by the share of the steps (or
        minutes) that is done.
        """
        options, done = self.options, self._done()
        if options.steps is not None:
            # the first step learns, and so does the last
            done = (self.progress.step + 1) / (options.steps + 1)
        assert options.learning_rate is not None and options.decay is not None
        rise = done / options.warmup if options.warmup else 1.0
        fall = (1.0 - done) / options.decay if options.decay else 1.0
        return options.learning_rate * max(0.0, min(rise, fall, 1.0))

    def _done(self) -> float:
        """How much of the whole training is done; 1 or more at its end."""
        if self.options.minutes is not None:
            return self.progress.seconds / (60 * self.options.minutes)
        assert self.options.steps is not None
        return self.progress.step / self.options.steps

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to train."""
        return self._done() >= 1

    def run(self, report: Report) -> TrainingState:
        """Train until the end; returns where it ended.

        Ctrl-C and SIGTERM save the state after the current update, then act as usual. A
        killed training keeps the state of the last checkpoint.
        """
        with noted_signals() as signals:
            self._run(report, signals)
        return self.progress

    def _run(self, report: Report, signals: Sequence[int]) -> None:
        progress = self.progress
        if self._adapts and not progress.losses:
            self.validate(report)
        self.network.train()
        saved = self._validated = time.monotonic()
        self._validated_share = self._done()
        pace = Pace(progress.tokens, progress.seconds, self._done())
        batches = self._batches()
        while self._done() < 1:
            began = time.monotonic()
            loss, tokens = self.update(*next(batches))
            if not math.isfinite(loss):
                raise UserError(
                    f"the loss is {loss} after {counted(progress.step, 'step')}; train"
                    f" with a lower --learning-rate than {self.options.learning_rate:g}"
                )
            now = time.monotonic()
            progress.step += 1
            progress.tokens += tokens
            progress.seconds += now - began
            if signals:
                break
            if self._adapts and progress.worse >= PATIENCE:
                report(
                    f"step {progress.step}  stopped: {PATIENCE} validations in a row"
                    " gained nothing"
                )
                break
            done = self._done()
            if pace.due(progress.step):
                speed = pace.line(progress.tokens, progress.seconds, done)
                report(
                    f"step {progress.step}  tokens {progress.tokens:,}  loss {loss:.3f}"
                    f"  {speed}"
                )
            due = (
                self._adapts
                and done - self._validated_share >= 1 / VALIDATIONS
                and done < 1
            )
            if due or time.monotonic() - self._validated > VALIDATION_SECONDS:
                self.validate(report)
            if now - saved > CHECKPOINT_SECONDS:
                self.save()
                saved = time.monotonic()
        else:
            self.validate(report)
        self.save()

    def _batches(self) -> Iterator[tuple[Objective, SentenceBatch]]:
        """Batches with their objectives, from the current step on."""
        rounds, begun = divmod(self.progress.step, len(self.schedule))
        names = [task.name for task in self.schedule]
        streams = {}
        for name, task in self.tasks.items():
            taken = names.count(name) * rounds + names[:begun].count(name)
            streams[name] = task.corpus.batches(
                self.options.batch_tokens, taken, self.options.batch_sentences
            )
        for task in islice(cycle(self.schedule), begun, None):
            yield task.objective, next(streams[task.name])

    def update(self, objective: Objective, batch: SentenceBatch) -> tuple[float, int]:
        """Make one update.

        Returns:
            The loss a target, and the number of tokens.
        """
        rate = self.learning_rate()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        seed = [self.options.seed, self.progress.step]
        objective = objective.at(min(self._done(), 1.0))
        example = objective(*_tensors(batch), seed).to(self.device)
        mixed = self.precision != torch.float32
        with torch.autocast(self.device.type, self.precision, enabled=mixed):
            hidden = objective.hidden(self._model, example)
        loss = objective.loss(self.network, hidden.to(self.precision), example)
        # A batch of short windows can lack a masked word.
        targets = max(1, len(example.targets))
        (loss / targets).backward()
        trained = [*self.network.parameters(), *self.heads.parameters()]
        nn.utils.clip_grad_norm_(trained, LARGEST_GRADIENT)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        frame = np.isin(batch.tokens, [self.tokenizer.bos, self.tokenizer.eos]).sum()
        return loss.item() / targets, int(batch.lengths.sum() - frame)

    @torch.no_grad()
    def validate(self, report: Report) -> None:
        """Measure each task's loss on its held-out sentences, in full precision and
        without dropout. An adaptation keeps the weights if the first task's loss was
        never lower.
        """
        self.network.eval()
        progress = self.progress
        for name, task in self.tasks.items():
            loss, accuracy = self._validation_loss(task)
            progress.losses[name] = loss
            of_task = f"{name}: " if len(self.tasks) > 1 else ""
            line = f"step {progress.step}  tokens {progress.tokens:,}  {of_task}"
            line += f"validation loss {loss:.4f}"
            line += f"  {task.objective.perplexity} {math.exp(loss):.2f}"
            if accuracy is not None:
                progress.accuracies[name] = accuracy
                line += f"  accuracy {accuracy:.4f}"
            report(line)
        self.network.train()
        progress.validation_loss = sum(progress.losses.values()) / len(progress.losses)
        self._validated, self._validated_share = time.monotonic(), self._done()
        if not self._adapts:
            return
        first = self.schedule[0].name
        if (
            not progress.best_losses
            or progress.losses[first] < progress.best_losses[first]
        ):
            progress.worse, progress.best_step, progress.best_losses = (
                0,
                progress.step,
                dict(progress.losses),
            )
            self._best = {
                name: value.detach().clone()
                for name, value in self.network.state_dict().items()
            }
        else:
            progress.worse += 1

    def _validation_loss(self, task: Task) -> tuple[float, float | None]:
        """Return a task's loss a target on its held-out sentences, natural log, and its
        accuracy, where the objective counts it.
        """
        objective = task.objective.at(1.0)
        total = right = 0.0
        targets = counted = 0
        for number, batch in enumerate(task.corpus.held_out(self.options.batch_tokens)):
            seed = [self.options.seed, number]  # the same masks at every validation
            example = objective(*_tensors(batch), seed).to(self.device)
            hidden = objective.hidden(self.network, example)
            total += objective.loss(self.network, hidden, example).item()
            targets += len(example.targets)
            correct = objective.right(self.network, hidden, example)
            if correct is not None:
                right += correct.item()
                counted += len(example.targets)
        return total / targets, right / counted if counted else None

    def save(self) -> None:
        """Write the whole state, so that `resume` goes on as if nothing had
        happened.
        """
        tensors = {
            f"model.{name}": value for name, value in self.network.state_dict().items()
        }
        tensors |= {f"best.{name}": value for name, value in self._best.items()}
        heads = self.heads.state_dict()
        tensors |= {f"head.{name}": value for name, value in heads.items()}
        for number, optimizer in enumerate(self.optimizers):
            for index, values in optimizer.state_dict()["state"].items():
                tensors |= {
                    f"optimizer.{number}.{index}.{name}": value
                    for name, value in values.items()
                }
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        about = {
            "progress": json.dumps(asdict(self.progress)),
            "belongs_to": json.dumps(self.belongs_to),
        }
        whole = {name: value.contiguous() for name, value in tensors.items()}
        checkpoint.write_tensors(self.folder / STATE, whole, about)

    def resume(self) -> None:
        """Read what `save` wrote."""
        path = self.folder / STATE
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: not a whole safetensors file ({error})") from None
        _check_same(path, json.loads(about.get("belongs_to", "{}")), self.belongs_to)
        # files of other versions have more or less
        known = {entry.name for entry in fields(TrainingState)}
        progress = json.loads(about["progress"]).items()
        self.progress = TrainingState(
            **{name: value for name, value in progress if name in known}
        )
        self._tell_changes()
        self.progress.rates = self._rates()
        # who resumes a training that stopped by itself wants it to go on
        self.progress.worse = 0
        self.network.load_state_dict(_with_prefix(tensors, "model."))
        self.heads.load_state_dict(_with_prefix(tensors, "head."))
        if self._adapts:
            self._best = _with_prefix(tensors, "best.")
        for number, optimizer in enumerate(self.optimizers):
            state = optimizer.state_dict()
            for name, value in _with_prefix(tensors, f"optimizer.{number}.").items():
                index, entry = name.split(".", 1)
                state["state"].setdefault(int(index), {})[entry] = value
            optimizer.load_state_dict(state)
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors and self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"])

    def _tell_changes(self) -> None:
        """Say which numbers are other than before, and go on with the new ones."""
        for name, value in self._rates().items():
            before = self.progress.rates.get(name, value)
            if before != value:
                flag = f"--{name.replace('_', '-')}"
                log.warning("%s was %g before, and is %g now", flag, before, value)

    def _rates(self) -> dict[str, float]:
        """The options that a resumed training may change."""
        names = ("learning_rate", "dropout", "weight_decay", "warmup", "decay")
        return {name: float(getattr(self.options, name)) for name in names}

    def export(self) -> None:
        """Write the model folder that scoring reads, with the last weights; for an
        adaptation, with the best weights.
        """
        if self._best:
            self.network.load_state_dict(self._best)
            self.progress.losses = self.progress.best_losses
        checkpoint.save(self.folder, self.network, self.tokenizer)


def _tensors(batch: SentenceBatch) -> tuple[Tensor, Tensor]:
    """Return the tokens and lengths of a batch."""
    return torch.from_numpy(batch.tokens), torch.from_numpy(batch.lengths)


def _heads(tasks: Mapping[str, Task]) -> dict[str, nn.Module]:
    """Return the parameters of objectives, by the first task that has them."""
    heads: dict[str, nn.Module] = {}
    for name, task in tasks.items():
        head = task.objective.head
        if head is not None and all(head is not other for other in heads.values()):
            heads[name] = head
    return heads


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _check_same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """See that a saved state belongs to this training. The length of the training may
    change; options that decide the batches or the network may not.
    """
    for name, wanted in now.items():
        saved = before.get(name)
        if isinstance(saved, dict) and isinstance(wanted, dict):
            name = next(
                (key for key in saved | wanted if saved.get(key) != wanted.get(key)),
                name,
            )
            saved, wanted = saved.get(name), wanted.get(name)
        if saved != wanted:
            raise UserError(
                f"{path}: was made with {name} {saved}, not {wanted}; resume with the"
                " same, or start in another folder"
            )
