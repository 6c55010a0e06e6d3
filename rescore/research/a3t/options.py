"""The options of both trainings; needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rescore.errors import UserError
from rescore.lms.options import TrainingOptions
from rescore.options import option, read_file


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(TrainingOptions):
    """Recordings, size and training of a network that listens."""

    title = "Networks that listen"

    audio: tuple[str, ...] = option(
        (),
        "Recordings: wav.scp, a folder, or a NeMo manifest. May be repeated.",
        metavar="PATH",
        reads=True,
        required=True,
        common=True,
    )
    text: tuple[Path, ...] = read_file(
        (),
        "Transcripts in Kaldi's form: `utterance words`. May be repeated.",
        required=True,
        common=True,
    )
    rate: int = option(
        16_000, "Samples per second; recordings are resampled.", low=4_000, high=48_000
    )
    bands: int = option(40, "Bands of the mel spectrogram.", low=8, high=128)
    d_model: int = option(96, "Width of the network.", low=8, high=1_024)
    layers: int = option(2, "Number of blocks.", low=1, high=12)
    heads: int = option(4, "Attention heads.", low=1, high=16)
    steps: int = option(
        2_000, "Number of updates.", low=1, high=10_000_000, common=True
    )
    batch_frames: int = option(
        4_000, "Frames per batch, including padding.", low=1, high=1_000_000
    )
    learning_rate: float = option(2e-3, "Highest learning rate.", low=1e-9, high=1)
    seed: int = option(1, "Random seed.", low=0, high=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d_model % 2 or self.d_model % self.heads:
            raise UserError(
                f"--d-model {self.d_model}: is odd, or cannot be divided among"
                f" {self.heads} heads"
            )


@dataclass(frozen=True, kw_only=True)
class CtcOptions(NetworkOptions):
    """Options of a CTC recogniser."""

    title = "CTC recognisers"
