"""The training loop: Muon or AdamW, warm-up and linear decay, validation, checkpoints, interruption, exact resume."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from rescore.errors import UserError, counted
from rescore.lms import checkpoint
from rescore.lms.devices import choose_device
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import SentenceBatch
from rescore.lms.training.objectives import Curriculum, Example, Objective, Task, tied_cross_entropy
from rescore.lms.training.options import NeuralOptions


def optimizers(
    network: Network, name: str, weight_decay: float, heads: nn.Module | None = None
) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the layers' matrices, AdamW for embeddings, biases and LayerNorm; or AdamW for all.

    Muon's updates are scaled to the size of AdamW's (Liu et al. 2025, section 2.2), so one learning rate suits both.
    Weight decay is for matrices only, as in BERT's optimiser.

    Args:
        name: `muon`, or `adamw` for all. heads: further modules to train, all with AdamW.
    """
    named = list(network.named_parameters())
    vectors = [value for _, value in named if value.dim() != 2]
    matrices = [value for name, value in named if value.dim() == 2 and "embedding" not in name]
    embeddings = [value for name, value in named if value.dim() == 2 and "embedding" in name]
    optimizer_list: list[torch.optim.Optimizer] = []
    if name == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise UserError(f"PyTorch {torch.__version__} has no Muon; install 2.9 or later, or give --optimizer adamw")
        muon = torch.optim.Muon(matrices, lr=0.0, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
        optimizer_list.append(muon)
        matrices = []
    groups = [
        {"params": [*matrices, *embeddings], "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer_list.append(torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.999), eps=1e-6, fused=True))
    if heads is not None and (parameters := list(heads.parameters())):
        optimizer_list.append(torch.optim.AdamW(parameters, lr=0.0, weight_decay=weight_decay, eps=1e-6, fused=True))
    return optimizer_list


EVERY_STEPS = 200
EVERY_SECONDS = 30.0


class Pace:
    """Speed and time left, measured since the previous line, because a machine's speed changes over hours."""

    def __init__(self, tokens: int, seconds: float, done: float) -> None:
        """
        Args:
            tokens, seconds, done: where training stands; `done` is a share of the whole.
        """
        self._before = tokens, seconds, done
        self._told = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether the next line is due, after a number of steps or seconds."""
        return step % EVERY_STEPS == 0 or time.monotonic() - self._told >= EVERY_SECONDS

    def line(self, tokens: int, seconds: float, done: float) -> str:
        """Tokens a second of the last interval, and the minutes to go at this pace."""
        more = [now - before for now, before in zip((tokens, seconds, done), self._before, strict=True)]
        self._before, self._told = (tokens, seconds, done), time.monotonic()
        speed = more[0] / max(more[1], 1e-9)
        left = (1 - done) * more[1] / max(more[2], 1e-9) / 60
        return f"{speed:,.0f} tokens/s  {min(done, 1.0):.1%} done, {counted(round(max(left, 0)), 'minute')} to go"


NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context in which the first signal is noted in `number`; `obey`, or a second signal, acts as usual."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._usual: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
            self._usual = {
                number: signal.getsignal(number) for number in NUMBERS if signal.getsignal(number) != signal.SIG_IGN
            }
            for number in self._usual:
                signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._usual.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for signal_number, handler in self._usual.items():
            signal.signal(signal_number, handler)

    def obey(self) -> None:
        """Act on the noted signal as usual: raise KeyboardInterrupt or SystemExit, or end the process."""
        if self.number is not None:
            signal.raise_signal(self.number)


STATE = "training.safetensors"
PATIENCE = 3
"""An adaptation stops after this number of validations in a row without a gain."""
VALIDATIONS = 10
"""Validations of an adaptation, beside those due by time."""


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
    """On validation, of the tasks whose objectives have a head."""
    best_step: int = 0
    """Where the first task's validation loss was lowest; 0 is the model to start from."""
    best_losses: dict[str, float] = field(default_factory=dict)
    """Each task's validation loss there."""
    best_accuracies: dict[str, float] = field(default_factory=dict)
    """The tasks' accuracies there."""
    worse: int = 0
    """Number of validations since then."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where and how the arithmetic runs."""

    device: torch.device
    precision: torch.dtype
    compiled: bool
    rank: int = 0
    world: int = 1

    @classmethod
    def choose(cls, name: str | None, precision: str, compiled: bool | None) -> Device:
        """Read the machine: CUDA where there is one, bfloat16 where it is fast, torchrun's variables."""
        world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
        device = choose_device(name)
        if device.type == "cuda":
            if world > 1:
                device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
        if precision == "auto":
            fast = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_multiplies_bfloat16()
            precision = "bfloat16" if fast else "float32"
        if world > 1 and not torch.distributed.is_initialized():
            torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        compiled = device.type == "cuda" if compiled is None else compiled
        return cls(device, getattr(torch, precision), compiled, rank, world)


def _cpu_multiplies_bfloat16() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


class Trainer:
    """One network, its tasks, its options. `run` trains to the end; `resume` first puts everything back as it was."""

    def __init__(
        self,
        network: Network,
        tokenizer: Tokenizer,
        schedule: Sequence[Task],
        options: NeuralOptions,
        device: Device,
        folder: Path,
        curriculum: Curriculum | None = None,
    ) -> None:
        """
        Args:
            schedule: the tasks of the batches in turn, repeated; a task may occur several times.
            curriculum: changes examples with the progress of the training, except in validation.
        """
        self._curriculum = curriculum
        self.network = network.to(device.device)
        self.network.set_dropout(options.dropout)
        self.tokenizer, self.options, self.device, self.folder = tokenizer, options, device, folder
        self.schedule = list(schedule)
        self.tasks = {task.name: task for task in schedule}
        self.progress = TrainingState()
        self._adapts = options.start is not None
        self._validated, self._validated_share = time.monotonic(), 0.0
        self._best: dict[str, Tensor] = {}
        """The weights of the lowest validation loss, of an adaptation."""
        heads = {name: task.objective.head for name, task in self.tasks.items()}
        self.heads = nn.ModuleDict({name: head for name, head in heads.items() if head is not None}).to(device.device)
        self.optimizers = optimizers(network, options.optimizer, options.weight_decay, self.heads)
        self._model: Callable[..., Tensor] = torch.compile(network, dynamic=True) if device.compiled else network
        if device.world > 1:
            assert isinstance(self._model, nn.Module)
            self._model = nn.parallel.DistributedDataParallel(self._model)

    @property
    def belongs_to(self) -> dict[str, Any]:
        """The identity that a saved state must match."""
        return {
            "tasks": " ".join(task.name for task in self.schedule),
            **{name: getattr(self.options, name) for name in ("batch_tokens", "seed", "optimizer", "objective")},
            "network": asdict(self.network.config),
            "tokenizer": self.tokenizer.fingerprint,
            "text": " ".join(dict.fromkeys(task.corpus.fingerprint for task in self.schedule)),
            "held_out": self.schedule[0].corpus.held_out_sentences,
        }

    def learning_rate(self) -> float:
        """Linear warm-up, constant, linear decay to zero, by the share of the steps (or minutes) that is done."""
        done, options = self._done(), self.options
        assert options.learning_rate is not None and options.decay is not None
        rise = done / options.warmup if options.warmup else 1.0
        fall = (1.0 - done) / options.decay if options.decay else 1.0
        return options.learning_rate * max(0.0, min(rise, fall, 1.0))

    def _done(self) -> float:
        if self.options.minutes is not None:
            return self.progress.seconds / (60 * self.options.minutes)
        assert self.options.steps is not None
        return (self.progress.step + 1) / (self.options.steps + 1)  # the first step learns, and so does the last

    def _share(self) -> float:
        """How much of the whole training is done."""
        return self._done() if self.options.steps is None else self.progress.step / max(self.options.steps, 1)

    def run(self, report: Callable[[str], None]) -> TrainingState:
        """Train until the end; returns where it ended.

        Ctrl-C and SIGTERM save the state after the current update, then act as usual. A killed training keeps the state
        of the last checkpoint.
        """
        with Interrupts() as interrupts:
            self._run(report, interrupts)
            interrupts.obey()
        return self.progress

    def _run(self, report: Callable[[str], None], interrupts: Interrupts) -> None:
        options, progress = self.options, self.progress
        main = self.device.rank == 0
        if main and self._adapts and not progress.losses:
            self.validate(report)
        self.network.train()
        saved = self._validated = time.monotonic()
        self._validated_share = self._share()
        pace = Pace(progress.tokens, progress.seconds, self._share())
        batches = self._batches()
        while (self._done() < 1) if options.minutes is not None else (progress.step < (options.steps or 0)):
            began = time.monotonic()
            loss, tokens = self.update(*next(batches))
            if not math.isfinite(loss):
                raise UserError(
                    f"the loss is {loss} after {counted(progress.step, 'step')}; train with a lower "
                    f"--learning-rate than {options.learning_rate:g}"
                )
            now = time.monotonic()
            progress.step += 1
            progress.tokens += tokens
            stops = self._adapts and progress.worse >= PATIENCE
            seconds, interrupted, stops = self._agreed(now - began, interrupts.number is not None, stops)
            progress.seconds += seconds
            if interrupted:
                interrupts.number = interrupts.number or signal.SIGTERM  # perhaps another process was told
                break
            if stops:
                if main:
                    report(f"step {progress.step}  stopped: {PATIENCE} validations in a row gained nothing")
                break
            if main and pace.due(progress.step):
                now_at = pace.line(progress.tokens, progress.seconds, self._share())
                report(f"step {progress.step}  tokens {progress.tokens:,}  loss {loss:.3f}  {now_at}")
            share = self._share()
            due = self._adapts and share - self._validated_share >= 1 / VALIDATIONS and share < 1
            if main and (due or time.monotonic() - self._validated > options.validation_seconds):
                self.validate(report)
            if main and now - saved > options.checkpoint_seconds:
                self.save()
                saved = time.monotonic()
        else:
            if main:
                self.validate(report)
        if main:
            self.save()

    def _batches(self) -> Iterator[tuple[Objective, SentenceBatch]]:
        """Batches with their examples, from the current step on."""
        rounds, begun = divmod(self.progress.step, len(self.schedule))
        names = [task.name for task in self.schedule]
        streams = {}
        for name, task in self.tasks.items():
            taken = names.count(name) * rounds + names[:begun].count(name)
            streams[name] = task.corpus.batches(self.options.batch_tokens, taken, self.device.rank, self.device.world)
        for task in islice(cycle(self.schedule), begun, None):
            yield task.objective, next(streams[task.name])

    def update(self, objective: Objective, batch: SentenceBatch) -> tuple[float, int]:
        """One update. Returns the loss a token of this process's share, and the tokens of all processes."""
        rate = self.learning_rate()
        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            group["lr"] = rate
        loss, count = self._loss(objective, batch)
        # DistributedDataParallel averages gradients over processes; the loss is a mean over the tokens of them all.
        (loss * self.device.world / self._sum(count)).backward()
        if self.device.world > 1:  # all processes are at the same task: each head has a gradient in all, or in none
            for part in (value.grad for value in self.heads.parameters() if value.grad is not None):
                torch.distributed.all_reduce(part)
                part /= self.device.world
        nn.utils.clip_grad_norm_(self.network.parameters(), self.options.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        frame = np.isin(batch.tokens, [self.tokenizer.bos, self.tokenizer.eos]).sum()
        return loss.item() / max(count, 1), self._sum(int(batch.lengths.sum() - frame))

    def _sum(self, number: int) -> int:
        """The sum of the numbers of all processes."""
        if self.device.world == 1:
            return number
        total = torch.tensor([number], device=self.device.device)
        torch.distributed.all_reduce(total)
        return int(total)

    def _agreed(self, seconds: float, interrupted: bool, stops: bool) -> tuple[float, bool, bool]:
        """The time of the slowest process, and whether any process is interrupted or stops; so all end after the same
        step."""
        if self.device.world == 1:
            return seconds, interrupted, stops
        most = torch.tensor([seconds, float(interrupted), float(stops)], device=self.device.device)
        torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
        return most[0].item(), bool(most[1]), bool(most[2])

    def _loss(self, objective: Objective, batch: SentenceBatch) -> tuple[Tensor, int]:
        """Sum of the losses of a batch's predicted tokens, and their number; a head's loss is added for each token."""
        seed = [self.options.seed, self.progress.step, self.device.rank]
        example = objective(torch.from_numpy(batch.tokens), torch.from_numpy(batch.lengths), seed)
        if self._curriculum is not None:
            example = self._curriculum(example, self._share(), seed)
        example = example.to(self.device.device)
        mixed = self.device.precision != torch.float32
        with torch.autocast(self.device.device.type, self.device.precision, enabled=mixed):
            hidden = self._model(example.tokens, example.lengths)
        loss = self._cross_entropy(hidden[example.predicted].to(self.device.precision), example)
        if objective.head is not None:
            loss = loss + len(example.targets) * objective.head.loss(hidden, example)
        return loss, len(example.targets)

    def _cross_entropy(self, hidden: Tensor, example: Example) -> Tensor:
        """Sum of the losses of hidden vectors (k, d)."""
        weight, bias = self.network.token_embedding.weight, self.network.output_bias
        return (example.loss or tied_cross_entropy)(hidden, weight, example.targets, bias=bias)

    @torch.no_grad()
    def validate(self, report: Callable[[str], None]) -> None:
        """Each task's loss on its held-out sentences, in full precision and without dropout. An adaptation keeps the
        weights if the first task's loss was never lower."""
        self.network.eval()
        progress = self.progress
        for name, task in self.tasks.items():
            loss = progress.losses[name] = self._validation_loss(task)
            report(
                f"step {self.progress.step}  tokens {self.progress.tokens:,}  "
                f"{f'{name}: ' if len(self.tasks) > 1 else ''}validation loss {loss:.4f}  "
                f"{task.objective.perplexity} {math.exp(loss):.2f}"
                f"{f'  accuracy {100 * self.progress.accuracies[name]:.1f} %' if name in self.heads else ''}"
            )
        self.network.train()
        progress.validation_loss = sum(progress.losses.values()) / len(progress.losses)
        self._validated, self._validated_share = time.monotonic(), self._share()
        first = self.schedule[0].name
        if self._adapts and (not progress.best_losses or progress.losses[first] < progress.best_losses[first]):
            progress.worse, progress.best_step = 0, progress.step
            progress.best_losses, progress.best_accuracies = dict(progress.losses), dict(progress.accuracies)
            self._best = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        elif self._adapts:
            progress.worse += 1

    def _validation_loss(self, task: Task) -> float:
        total, count = 0.0, 0
        right: list[bool] = []
        head = task.objective.head
        for batch in task.corpus.held_out(self.options.batch_tokens):
            seed = [self.options.seed, count]  # the same masks at every validation
            example = task.objective(torch.from_numpy(batch.tokens), torch.from_numpy(batch.lengths), seed)
            example = example.to(self.device.device)
            hidden = self.network(example.tokens, example.lengths)
            total += self._cross_entropy(hidden[example.predicted], example).item()
            count += len(example.targets)
            right += [] if head is None else head.right(hidden, example).tolist()
        if right:
            self.progress.accuracies[task.name] = sum(right) / len(right)
        return total / count

    def save(self) -> None:
        """Write the whole state, so that `resume` goes on as if nothing had happened."""
        tensors = {f"model.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self._best.items()}
        tensors |= {f"heads.{name}": value for name, value in self.heads.state_dict().items()}
        for number, optimizer in enumerate(self.optimizers):
            for index, values in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{number}.{index}.{name}": value for name, value in values.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        about = {"progress": json.dumps(asdict(self.progress)), "belongs_to": json.dumps(self.belongs_to)}
        whole = {name: value.contiguous() for name, value in tensors.items()}
        checkpoint.write_tensors(self.folder / STATE, whole, about)

    def resume(self) -> None:
        """Read what `save` wrote."""
        path = self.folder / STATE
        if not path.is_file():
            raise UserError(f"{path}: no such file; there is nothing to resume, leave out --resume")
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: not a whole safetensors file ({error})") from None
        _check_same(path, json.loads(about.get("belongs_to", "{}")), self.belongs_to)
        self.progress = TrainingState(**json.loads(about["progress"]))
        self.network.load_state_dict(_with_prefix(tensors, "model."))
        if self._adapts:
            self._best = _with_prefix(tensors, "best.")
        self.progress.worse = 0  # who resumes a training that stopped by itself wants it to go on
        self.heads.load_state_dict(_with_prefix(tensors, "heads."))
        for number, optimizer in enumerate(self.optimizers):
            state = optimizer.state_dict()
            for name, value in _with_prefix(tensors, f"optimizer.{number}.").items():
                index, field = name.split(".", 1)
                state["state"].setdefault(int(index), {})[field] = value
            optimizer.load_state_dict(state)
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors and self.device.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"])

    def export(self) -> None:
        """Write the model folder that scoring reads, with the last weights; for an adaptation, with the best
        weights."""
        if self._best:
            self.network.load_state_dict(self._best)
            self.progress.losses, self.progress.accuracies = self.progress.best_losses, self.progress.best_accuracies
        checkpoint.save(self.folder, self.network, self.tokenizer)


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _check_same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """See that a saved state belongs to this training. The length of the training and the frequency of saving may
    change; options that decide the batches or the network may not."""
    for name, wanted in now.items():
        saved = before.get(name)
        if isinstance(saved, dict) and isinstance(wanted, dict):
            name = next((key for key in saved | wanted if saved.get(key) != wanted.get(key)), name)
            saved, wanted = saved.get(name), wanted.get(name)
        if saved != wanted:
            raise UserError(
                f"{path}: was made with {name} {saved}, not {wanted}; resume with the same, or start in another folder"
            )
