"""The options of both trainings; needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rescore.errors import UserError
from rescore.lms.options import TrainingOptions
from rescore.options import option, read_file

PREFIX = "ctc:"
"""How --align and --aligner name a CTC model."""


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


@dataclass(frozen=True, kw_only=True)
class A3tOptions(NetworkOptions):
    """Options of an A3T."""

    title = "A3T"

    align: str = option(
        "",
        "Times of letters or words: a CTM file, or ctc:DIR, a CTC model that places the"
        " letters.",
        metavar="FILE|ctc:DIR",
        required=True,
        common=True,
    )
    aligner: str | None = option(
        None,
        "With --align FILE: the CTC model that places the letters of hypotheses."
        " Scoring needs it.",
        metavar="ctc:DIR",
        common=True,
    )
    lexicon: Path | None = read_file(
        None,
        "Read phones instead of letters. Lines are `word phone phone ...`, as in"
        " Kaldi's lexicon.txt.",
    )
    alignment: bool = option(
        True, "Without cross-modal alignment embeddings.", "--no-alignment"
    )
    conformer: bool = option(
        True, "Transformer blocks instead of Conformer blocks.", "--no-conformer"
    )
    post_net: bool = option(True, "Without the Post-Net.", "--no-post-net")
    loss: str = option(
        "l1", "Loss of masked frames: absolute or squared.", choices=("l1", "l2")
    )
    mask: float = option(
        0.8, "Share of the letters whose frames are masked.", low=0.01, high=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aligner is not None and not self.aligner.startswith(PREFIX):
            raise UserError(f"--aligner {self.aligner}: expected ctc:DIR")
