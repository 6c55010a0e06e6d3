"""A3T, alignment-aware acoustic and text pretraining (Bai et al., ICML 2022): the options of its training.

A network reads a mel-spectrogram with masked spans and the text, and reconstructs the masked spans. As a scorer of
hypotheses, it gives minus the mean absolute error of spans that are masked and reconstructed under each hypothesis.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rescore.lms.options import TrainingOptions
from rescore.options import option


@dataclass(frozen=True, kw_only=True)
class A3tOptions(TrainingOptions):
    """Options of a training."""

    title = "A3T"

    audio: tuple[str, ...] = option(
        (), "Recordings: wav.scp, a folder, or a NeMo manifest. May be repeated.", metavar="PATH"
    )
    text: tuple[Path, ...] = option(
        (), "Transcripts, Kaldi text: `utterance words`. May be repeated.", metavar="FILE", reads=True
    )
    align: str = option(
        "",
        "Times of words or of letters in a CTM, or hf-ctc:DIR, a CTC model that places the letters (Viterbi). "
        "Scoring needs the CTC model.",
        metavar="FILE|hf-ctc:DIR",
        reads=True,
        required=True,
    )
    aligner: str | None = option(
        None, "With times from a CTM: the CTC model that places the letters of hypotheses.", metavar="hf-ctc:DIR"
    )
    alignment: bool = option(True, "Read cross-modal alignment embeddings.", "--alignment/--no-alignment")
    post_net: bool = option(True, "Refine spectrograms by a Post-Net.", "--post-net/--no-post-net")
    mask: float = option(0.8, "Share of letters whose frames are masked.", low=1e-6, high=1)
    rate: int = option(8_000, "Samples a second.", low=4_000, high=48_000)
    mels: int = option(40, "Bands of the mel-spectrogram.", low=8, high=128)
    d_model: int = option(96, "Width of the network.", low=8, high=1_024)
    layers: int = option(2, "Blocks of the encoder, and of the decoder.", low=1, high=12)
    heads: int = option(2, "Attention heads.", low=1, high=16)
    steps: int = option(2_000, "Batches of the training.", low=1, high=10_000_000)
    batch_frames: int = option(3_000, "Frames in a batch, padding included.", low=1, high=1_000_000)
    learning_rate: float = option(1e-3, "Peak learning rate.", low=1e-9, high=1)
    seed: int = option(1, "Of weights, batches and masks.")
