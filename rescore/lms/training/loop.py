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
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from rescore.errors import UserError, counted
from rescore.keys import Key, key_of
from rescore.lms import checkpoint
from rescore.lms.base import Report
from rescore.lms.devices import choose_device, cpu_multiplies_bfloat16
from rescore.lms.networks import Network
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import SentenceBatch
from rescore.lms.training.objectives import Example, Objective, Task
from rescore.lms.training.optimizers import optimizers, usual_optimizer
from rescore.lms.training.options import NeuralOptions
from rescore.lms.training.state import check_same, of_earlier, read_state

log = logging.getLogger(__name__)

STATE = "training.safetensors"
"""The file of a saved state, in the folder of the training's state."""
CHECKPOINT_SECONDS = 300.0
"""Seconds between two checkpoints."""
VALIDATION_SECONDS = 600.0
"""Seconds between two validations."""
VALIDATION_PAUSE = 16.0
"""Where --minutes limit an adaptation, it trains this number of times as long as a
validation takes before the next validation.
"""
VALIDATION_SHARE = 0.02
"""The share of --minutes that one validation takes, at most. With the pauses between
them, all validations take about a tenth.
"""
FEWEST_VALIDATED = 100
"""Sentences that a validation measures, however long it takes."""
VALIDATIONS = 10
"""Validations of an adaptation, beside those due by time."""
PATIENCE = 3
"""An adaptation stops after this number of validations in a row without a gain."""
LARGEST_GRADIENT = 1.0
"""The norm to which larger gradients are cut."""
LINE_STEPS = 200
LINE_SECONDS = 30.0
"""A line about the progress is due after this number of steps or seconds."""
LEAST_SHARE = 0.1
"""The share of --minutes that is for updates, however long reading takes."""
FEW_TO_ADAPT = 20
"""Below this number of updates, an adaptation does not show what its text can teach."""
FEW_UPDATES = 100
"""Below this number of updates, a network that started from random weights is nearly
random still: no weight is recommended for it. The updates of the model that an adapted
network started from do not count: they are not known.
"""
FORWARD = 0.5
"""The time of a token in a validation, as a share of its time in an update, before a
validation was measured.
"""


class Pace:
    """Speed and time left, measured since the previous line, because a machine's speed
    changes over hours.
    """

    def __init__(self, tokens: int, seconds: float, done: float) -> None:
        """Start to measure.

        Args:
            tokens: Tokens that were trained on before.
            seconds: Seconds of training before.
            done: Share of the whole training that is done.
        """
        self._before = (tokens, seconds, done)
        self._reported = time.monotonic()

    def due(self, step: int) -> bool:
        """Return whether the next line is due, after a number of steps or seconds.

        Args:
            step: The number of steps that are done.
        """
        if step % LINE_STEPS == 0:
            return True
        return time.monotonic() - self._reported >= LINE_SECONDS

    def line(self, tokens: int, seconds: float, done: float) -> str:
        """Return a text with tokens a second of the last interval, and the minutes to
        go at this pace.

        Args:
            tokens: Tokens that were trained on.
            seconds: Seconds of training.
            done: Share of the whole training that is done.
        """
        tokens_before, seconds_before, done_before = self._before
        self._before = (tokens, seconds, done)
        self._reported = time.monotonic()
        interval = seconds - seconds_before
        speed = (tokens - tokens_before) / max(interval, 1e-9)
        left = (1 - done) * interval / max(done - done_before, 1e-9) / 60
        return (
            f"{speed:,.0f} tokens/s  {min(done, 1.0):.1%} done,"
            f" {counted(round(max(left, 0)), 'minute')} to go"
        )


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Yield a list that gets the number of the first SIGINT or SIGTERM.

    This signal acts as usual at the end of the context; a second signal acts as usual
    at once.
    """
    noted: list[int] = []
    usual: dict[int, signal._HANDLER] = {}

    def restore() -> None:
        """Give the signals back to their usual handlers."""
        for number, handler in usual.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        """Note a signal, as its handler."""
        noted.append(number)
        restore()

    # no other thread may set handlers
    if threading.current_thread() is threading.main_thread():
        for interrupt in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(interrupt)
            if handler != signal.SIG_IGN:
                usual[interrupt] = handler
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
    """Seconds of updates."""
    other_seconds: float = 0.0
    """Seconds of reading the text and of validations."""
    tokens: int = 0
    validation_loss: float | None = None
    """The mean of the tasks' losses."""
    losses: dict[str, float] = field(default_factory=dict)
    """Each task's validation loss."""
    accuracies: dict[str, float] = field(default_factory=dict)
    """The accuracy of tasks whose objectives count it."""
    best_step: int = 0
    """The step where the first task's validation loss was lowest; 0 is the model to
    start from.
    """
    best_losses: dict[str, float] = field(default_factory=dict)
    """Each task's validation loss at the best step."""
    worse: int = 0
    """Number of validations since the best step."""
    validated_share: float = 0.0
    """The share of the training that was done at the last validation."""
    held_out_share: float = 1.0
    """The share of the held-out sentences that a validation measures."""


def training_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the number format of a training.

    Args:
        name: `bfloat16`, `float32`, or `auto` for bfloat16 where the device multiplies
            it fast, else float32.
        device: The device of the training.
    """
    fast = name == "bfloat16"
    if name == "auto":
        if device.type == "cuda":
            fast = torch.cuda.is_bf16_supported()
        else:
            fast = cpu_multiplies_bfloat16() is True
    return torch.bfloat16 if fast else torch.float32


class Trainer:
    """A network, its tasks and the options of its training. `run` trains to the end;
    `resume` first restores a saved state.
    """

    def __init__(
        self,
        network: Network,
        tokenizer: Tokenizer,
        schedule: Sequence[Task],
        options: NeuralOptions,
        folder: Path,
        state_folder: Path | None = None,
    ) -> None:
        """Prepare a training from its beginning.

        Args:
            network: The network.
            tokenizer: Its tokenizer.
            schedule: The tasks of the batches in turn, repeated; a task may occur
                several times.
            options: The options of the training.
            folder: The folder of the model.
            state_folder: The folder of the saved state; None for the model's folder.
        """
        self.device = choose_device(options.device)
        if self.device.type == "cuda" and self.device.index is not None:
            torch.cuda.set_device(self.device)
        self.precision = training_precision(options.precision, self.device)
        self.network = network.to(self.device)
        self.network.set_dropout(options.dropout)
        self.tokenizer = tokenizer
        self.options = options
        self.folder = folder
        self.state_folder = state_folder or folder
        self.schedule = list(schedule)
        self.tasks = {task.name: task for task in schedule}
        self.progress = TrainingState()
        self._validated_step: int | None = None
        """The step of the last validation: a validation may use up the minutes."""
        self._validation_seconds: float | None = None
        self._held_out_tokens = 0
        for task in self.tasks.values():
            corpus = task.corpus
            self._held_out_tokens += corpus.tokens - corpus.training_tokens
        self._adapts = options.start is not None
        self._validated = time.monotonic()
        self._best: dict[str, Tensor] = {}
        """The weights of the lowest validation loss, of an adaptation."""
        self.heads = nn.ModuleDict(_heads(self.tasks)).to(self.device)
        """The parameters of objectives, by the task."""
        self.optimizer = options.optimizer or usual_optimizer()
        self.optimizers = optimizers(
            network, self.optimizer, options.weight_decay, self.heads
        )
        self._model = network
        if self.device.type == "cuda":
            self._model = cast(Network, torch.compile(network, dynamic=True))

    @property
    def key(self) -> Key:
        """The key of a saved state: all that the training depends on."""
        texts = dict.fromkeys(task.corpus.fingerprint for task in self.schedule)
        found = {
            "tasks": " ".join(task.name for task in self.schedule),
            "optimizer": self.optimizer,
            "network": asdict(self.network.config),
            "tokenizer": self.tokenizer.fingerprint,
            "text": " ".join(texts),
            "held_out": self.schedule[0].corpus.held_out_sentences,
            **self.options.contents,
        }
        return key_of(self.options, found, without=("pairs", "config"))

    def learning_rate(self) -> float:
        """Return the learning rate of the next step: linear warm-up, constant, linear
        decay to zero, by the share of the steps (or minutes) that is done.
        """
        options = self.options
        done = self._done()
        if options.steps is not None:
            # the first step learns, and so does the last
            done = (self.progress.step + 1) / (options.steps + 1)
        assert options.learning_rate is not None and options.decay is not None
        rise = done / options.warmup if options.warmup else 1.0
        fall = (1.0 - done) / options.decay if options.decay else 1.0
        return options.learning_rate * max(0.0, min(rise, fall, 1.0))

    def _done(self) -> float:
        """Return the share of the training that is done; 1 or more at its end."""
        if self.options.minutes is not None:
            whole = 60 * self.options.minutes
            others = self.progress.other_seconds + self._last_validation()
            return self.progress.seconds / max(LEAST_SHARE * whole, whole - others)
        assert self.options.steps is not None
        return self.progress.step / self.options.steps

    def _last_validation(self) -> float:
        """Return the seconds that the validation at the end will take: as the one
        before, else by its tokens.
        """
        if self._validation_seconds is not None:
            return self._validation_seconds
        progress = self.progress
        each = progress.seconds / max(1, progress.tokens)
        tokens = progress.held_out_share * self._held_out_tokens
        return FORWARD * tokens * each

    def are_few(self, updates: int) -> bool:
        """Return whether updates are too few to learn from: then the advice is about
        the length of the training, and not about the learning rate.

        Args:
            updates: A number of updates.
        """
        return updates < (FEW_TO_ADAPT if self._adapts else FEW_UPDATES)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to train."""
        return self._done() >= 1

    def run(self, report: Report) -> TrainingState:
        """Train until the end, and return the state there.

        Ctrl-C and SIGTERM save the state after the current update, then act as usual. A
        killed training keeps the state of the last checkpoint.

        Args:
            report: Called with each line about the progress.

        Raises:
            UserError: The loss is not a number.
        """
        with noted_signals() as signals:
            self._run(report, signals)
        return self.progress

    def _run(self, report: Report, signals: Sequence[int]) -> None:
        """Train until the end, or until a signal."""
        progress = self.progress
        if self.options.minutes is not None and not progress.step:
            self._limit_validation(60 * self.options.minutes)
        if self._adapts and not progress.losses:
            self.validate(report)
        self.network.train()
        self._validated = time.monotonic()
        # more steps than before make the share smaller
        progress.validated_share = min(progress.validated_share, self._done())
        saved = self._validated
        pace = Pace(progress.tokens, progress.seconds, self._done())
        batches = self._batches()
        told = False
        while not self.is_done:
            loss = self._step(batches)
            now = time.monotonic()
            if self._adapts and progress.worse >= PATIENCE:
                report(
                    f"step {progress.step}  stopped: {PATIENCE} validations in a row"
                    " gained nothing"
                )
                break
            if pace.due(progress.step):
                speed = pace.line(progress.tokens, progress.seconds, self._done())
                report(
                    f"step {progress.step}  tokens {progress.tokens:,}  loss {loss:.3f}"
                    f"  {speed}"
                )
                if not told and self.options.minutes is not None:
                    self._tell_updates(report)
                    told = True
            if self._validation_is_due():
                self.validate(report)
            # A validation that is due comes first: without it a resumed training would
            # keep other weights.
            if signals:
                break
            if now - saved > CHECKPOINT_SECONDS:
                self.save()
                saved = time.monotonic()
        else:
            if self._validated_step != progress.step:
                self.validate(report)
        self.save()

    def _tell_updates(self, report: Report) -> None:
        """Report how many updates --minutes hold at this speed, with an advice where
        these are too few to learn from.
        """
        options = self.options
        updates = round(self.progress.step / min(self._done(), 1.0))
        held = (
            f"about {counted(updates, 'update')} of at most"
            f" {options.batch_tokens:,} tokens fit into --minutes {options.minutes:g}"
        )
        if self.are_few(updates):
            held += (
                ", too few to learn from; give more --minutes, fewer --batch-tokens, or"
                f" more cores (there are {torch.get_num_threads()} threads)"
            )
        report(held)

    def _limit_validation(self, seconds: float) -> None:
        """Decide how many of the held-out sentences a validation measures, so that it
        takes `VALIDATION_SHARE` of the training at most. A small part is timed first.

        Args:
            seconds: The length of the training.
        """
        progress = self.progress
        fewest = min(
            FEWEST_VALIDATED / task.corpus.validated(1.0)
            for task in self.tasks.values()
        )
        if fewest >= 1:
            return
        progress.held_out_share = fewest
        self.network.eval()
        began = time.monotonic()
        with torch.no_grad():
            for task in self.tasks.values():
                self._validation_loss(task)
        taken = time.monotonic() - began
        progress.other_seconds += taken
        allowed = VALIDATION_SHARE * seconds / max(taken, 1e-9)
        progress.held_out_share = min(1.0, fewest * max(1.0, allowed))
        self._validation_seconds = taken * progress.held_out_share / fewest

    def _step(self, batches: Iterator[tuple[Objective, SentenceBatch]]) -> float:
        """Make the next update, and return its loss a target."""
        progress = self.progress
        began = time.monotonic()
        loss, tokens = self.update(*next(batches))
        if not math.isfinite(loss):
            raise UserError(
                f"the loss is {loss} after {counted(progress.step, 'step')}; train"
                f" with a lower --learning-rate than {self.options.learning_rate:g}"
            )
        progress.step += 1
        progress.tokens += tokens
        progress.seconds += time.monotonic() - began
        return loss

    def _validation_is_due(self) -> bool:
        """Return whether a validation is due by time, or, of an adaptation, by the
        share that is done.
        """
        if time.monotonic() - self._validated > VALIDATION_SECONDS:
            return True
        if not self._adapts or self.is_done:
            return False
        if self.options.minutes is not None:
            pause = VALIDATION_PAUSE * (self._validation_seconds or 0.0)
            if time.monotonic() - self._validated < pause:
                return False
        return self._done() - self.progress.validated_share >= 1 / VALIDATIONS

    def _batches(self) -> Iterator[tuple[Objective, SentenceBatch]]:
        """Yield batches with their objectives, from the current step on."""
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

        Args:
            objective: The objective.
            batch: The batch that it learns from.

        Returns:
            The loss a target, natural log, and the number of tokens.
        """
        rate = self.learning_rate()
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        seed = [self.options.seed, self.progress.step]
        objective = objective.at(min(self._done(), 1.0))
        example = objective(*_tensors(batch), seed).to(self.device)
        # A batch of short windows can lack a masked word.
        targets = max(1, len(example.targets))
        loss = self._backward(objective, example, targets)
        trained = [*self.network.parameters(), *self.heads.parameters()]
        nn.utils.clip_grad_norm_(trained, LARGEST_GRADIENT)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        frame = np.isin(batch.tokens, [self.tokenizer.bos, self.tokenizer.eos]).sum()
        return loss.item() / targets, int(batch.lengths.sum() - frame)

    def _backward(self, objective: Objective, example: Example, targets: int) -> Tensor:
        """Compute the gradients of the loss a target; return the loss of the example.

        Where PyTorch cannot compile the network, for example without a C compiler, the
        training goes on uncompiled.
        """
        if self._model is not self.network:
            try:
                return self._gradients(self._model, objective, example, targets)
            except Exception as error:  # compilers raise many kinds of errors
                reason = " ".join(str(error).split())[:200]
                text = "PyTorch cannot compile the network (%s); training is slower"
                log.warning(text, reason)
                self._model = self.network
                for optimizer in self.optimizers:
                    optimizer.zero_grad(set_to_none=True)
        return self._gradients(self.network, objective, example, targets)

    def _gradients(
        self, model: Network, objective: Objective, example: Example, targets: int
    ) -> Tensor:
        """Compute the gradients with the network or its compiled form."""
        mixed = self.precision != torch.float32
        with torch.autocast(self.device.type, self.precision, enabled=mixed):
            hidden = objective.hidden(model, example)
        loss = objective.loss(self.network, hidden.to(self.precision), example)
        (loss / targets).backward()
        return loss

    @torch.no_grad()
    def validate(self, report: Report) -> None:
        """Measure each task's loss on its held-out sentences, in full precision and
        without dropout. An adaptation keeps the weights if the first task's loss was
        never lower.

        Args:
            report: Called with a line for each task.
        """
        self.network.eval()
        began = time.monotonic()
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
        self._validated = time.monotonic()
        self._validated_step = progress.step
        if not self.is_done:  # the one at the end is in the estimate
            self._validation_seconds = self._validated - began
            progress.other_seconds += self._validation_seconds
        progress.validated_share = self._done()
        if self._adapts:
            self._keep_best()

    def _keep_best(self) -> None:
        """Keep the weights if the first task's validation loss was never lower."""
        progress = self.progress
        first = self.schedule[0].name
        best = progress.best_losses
        if best and progress.losses[first] >= best[first]:
            progress.worse += 1
            return
        progress.worse = 0
        progress.best_step = progress.step
        progress.best_losses = dict(progress.losses)
        weights = self.network.state_dict()
        self._best = {name: value.detach().clone() for name, value in weights.items()}

    def _validation_loss(self, task: Task) -> tuple[float, float | None]:
        """Return a task's loss a target on its held-out sentences, natural log, and its
        accuracy, where the objective counts it.
        """
        objective = task.objective.at(1.0)
        total = 0.0
        targets = 0
        right = 0.0
        judged = 0
        held_out = task.corpus.held_out(
            self.options.batch_tokens, self.progress.held_out_share
        )
        for number, batch in enumerate(held_out):
            seed = [self.options.seed, number]  # the same masks at every validation
            example = objective(*_tensors(batch), seed).to(self.device)
            hidden = objective.hidden(self.network, example)
            total += objective.loss(self.network, hidden, example).item()
            targets += len(example.targets)
            batch_right = objective.right(self.network, hidden, example)
            if batch_right is not None:
                right += batch_right.item()
                judged += len(example.targets)
        return total / targets, right / judged if judged else None

    def save(self) -> None:
        """Write the whole state, so that `resume` continues the training exactly."""
        tensors = {
            **_prefixed("model.", self.network.state_dict()),
            **_prefixed("best.", self._best),
            **_prefixed("head.", self.heads.state_dict()),
        }
        for number, optimizer in enumerate(self.optimizers):
            for index, values in optimizer.state_dict()["state"].items():
                tensors |= _prefixed(f"optimizer.{number}.{index}.", values)
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        about = {
            "progress": json.dumps(asdict(self.progress)),
            "belongs_to": json.dumps(self.key),
        }
        whole = {name: value.contiguous() for name, value in tensors.items()}
        checkpoint.write_tensors(self.state_folder / STATE, whole, about)

    def resume(self) -> None:
        """Restore the state that `save` wrote.

        Raises:
            UserError: The file is damaged, or belongs to another training.
        """
        path = self.state_folder / STATE
        about, tensors = read_state(path)
        # files of other versions have more or less
        known = {entry.name for entry in fields(TrainingState)}
        progress = json.loads(about["progress"])
        before = json.loads(about.get("belongs_to", "{}"))
        now = self.key
        before = {**progress.get("rates", {}), **before}
        before = of_earlier(before, now, self.options.of_objective)
        check_same(path, before, now)
        self.progress = TrainingState(
            **{name: value for name, value in progress.items() if name in known}
        )
        # who resumes a training that stopped by itself wants it to go on
        if self.progress.worse >= PATIENCE:
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


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors with a prefix before their names."""
    return {f"{prefix}{name}": value for name, value in tensors.items()}


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, under the rest of their
    names.
    """
    chosen = {}
    for name, value in tensors.items():
        if name.startswith(prefix):
            chosen[name.removeprefix(prefix)] = value
    return chosen
