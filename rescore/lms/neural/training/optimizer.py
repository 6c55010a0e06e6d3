"""Muon and AdamW; the pace of a training, and its interruption."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType

import torch
from torch import nn

from rescore.errors import UserError, counted
from rescore.lms.neural.blocks import Network


def optimizers(
    network: Network, name: str, weight_decay: float, heads: nn.Module | None = None
) -> list[torch.optim.Optimizer]:
    """Muon (Jordan et al. 2024) for the layers' matrices, AdamW for embeddings, biases and LayerNorm; or AdamW for all.

    Muon's updates are scaled to the size of AdamW's (Liu et al. 2025, section 2.2), so one learning rate suits both.
    Weight decay is for matrices only, as in BERT's optimiser.

    Args:
        name: `muon`, or `adamw` for all. heads: further modules to train, all with AdamW.

    Raises:
        UserError: this PyTorch has no Muon.
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
    head_parameters = [] if heads is None else list(heads.parameters())
    if head_parameters:
        optimizer_list.append(
            torch.optim.AdamW(head_parameters, lr=0.0, weight_decay=weight_decay, eps=1e-6, fused=True)
        )
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
