"""A small CTC recogniser of letters, and its training."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from rescore.formats.audio import samples
from rescore.lms.base import Report
from rescore.nbest import Audio
from rescore.research.a3t import folders
from rescore.research.a3t.ctc import Heard
from rescore.research.a3t.fitting import fit
from rescore.research.a3t.layers import Block
from rescore.research.a3t.mel import Mel
from rescore.research.a3t.options import CtcOptions
from rescore.research.a3t.utterances import (
    LONGEST,
    amount,
    plain,
    read_utterances,
)

KIND = "ctc"
BLANK = 0
"""The label of silence."""
UNKNOWN = 1
"""The label of letters that the training did not see."""
FIRST = 2
"""The label of the first letter."""
STACK = 3
"""Mel frames that become one frame of the network: 37.5 ms."""
KERNEL = 7
"""Width of the convolutions."""
MASKS = 2
"""Masks of bands, and of frames, in a training example (SpecAugment, Park et al. 2019).
"""
WIDEST_BANDS = 0.25
"""The largest share of the bands that a mask covers."""
WIDEST_FRAMES = 0.05
"""The largest share of the frames that a mask covers."""


# --- the network ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CtcConfig:
    """Letters, spectrograms and sizes of a network."""

    letters: tuple[str, ...]
    rate: int
    bands: int
    d_model: int
    layers: int
    heads: int
    mean: float
    deviation: float
    """Of the spectrograms of the training set, to which frames are normalised."""

    def __post_init__(self) -> None:
        folders.check_sizes(self)


class CtcNetwork(nn.Module):
    """Conformer blocks on stacked mel frames, and a layer that names the letters.

    It has no position embeddings: convolutions tell what is near, and short trainings
    without positions do not get stuck.
    """

    def __init__(self, config: CtcConfig) -> None:
        super().__init__()
        width = config.d_model
        self.acoustic = nn.Linear(STACK * config.bands, width)
        self.blocks = nn.ModuleList(
            Block(width, config.heads, KERNEL) for _ in range(config.layers)
        )
        self.out = nn.Linear(width, FIRST + len(config.letters))

    def forward(self, frames: Tensor, sizes: Tensor) -> Tensor:
        """Return log-probabilities of labels.

        Args:
            frames: Normalised spectrograms, (utterances, frames, bands).
            sizes: The number of frames of each, (utterances,).

        Returns:
            (utterances, stacked frames, labels), see `stacked`.
        """
        number, length, bands = frames.shape
        padding = -length % STACK
        whole = nn.functional.pad(frames, (0, 0, 0, padding))
        stacks = whole.reshape(number, -1, STACK * bands)
        places = stacks.shape[1]
        states = self.acoustic(stacks)
        used = torch.arange(places) < stacked(sizes)[:, None]
        for block in self.blocks:
            states = block(states, used, [places])
        return self.out(states).log_softmax(-1)


def stacked(frames: Tensor) -> Tensor:
    """Return how many frames of the network some mel frames are."""
    return (frames + STACK - 1) // STACK


class OwnRecogniser:
    """A network of this module; it computes on the CPU, in float32."""

    blank = BLANK
    longest = LONGEST

    def __init__(self, folder: Path) -> None:
        """
        Raises:
            UserError: The folder holds no such network.
        """
        self.folder = folder
        self.config = folders.load_config(folder, KIND, CtcConfig)
        self.mel = Mel(self.config.rate, self.config.bands)
        self.network = CtcNetwork(self.config)
        folders.load_weights(folder, self.network)
        self._label_of = label_table(self.config.letters)

    def labels(self, text: str) -> list[int]:
        return [self._label_of.get(letter, UNKNOWN) for letter in plain(text)]

    def names(self, labels: Sequence[int]) -> list[str]:
        letters = ("", "<unk>", *self.config.letters)
        return [letters[label] for label in labels]

    def unknown(self, labels: Sequence[int]) -> tuple[int, ...]:
        return tuple(place for place, label in enumerate(labels) if label == UNKNOWN)

    def text(self, labels: Sequence[int]) -> str:
        return plain("".join(self.names(labels)))

    def hear(self, audio: Audio) -> Heard:
        raw = self.mel.spectrogram(samples(audio, self.config.rate))
        frames = (raw - self.config.mean) / self.config.deviation
        with torch.inference_mode():
            log_probs = self.network(frames[None], torch.tensor([len(frames)]))[0]
        return Heard(log_probs.double().numpy(), STACK * self.mel.seconds)


def label_table(letters: Sequence[str]) -> dict[str, int]:
    """Return the label of each letter."""
    return {letter: label for label, letter in enumerate(letters, FIRST)}


# --- training ------------------------------------------------------------------------


def train(options: CtcOptions, report: Report = lambda line: None) -> None:
    """Train a recogniser, and write its folder.

    Raises:
        UserError: Recordings or texts are missing or do not fit together.
    """
    folders.prepare(options.out)
    utterances = read_utterances(options.audio, options.text)
    letters = sorted(set("".join(utterance.text for utterance in utterances)))
    mel = Mel(options.rate, options.bands)
    raw = [
        mel.spectrogram(samples(utterance.audio, options.rate))
        for utterance in utterances
    ]
    every = torch.cat(raw)
    config = CtcConfig(
        letters=tuple(letters),
        rate=options.rate,
        bands=options.bands,
        d_model=options.d_model,
        layers=options.layers,
        heads=options.heads,
        mean=float(every.mean()),
        deviation=float(every.std()),
    )
    report(amount(len(utterances), len(every) * mel.seconds))
    frames = [(own - config.mean) / config.deviation for own in raw]
    label_of = label_table(letters)
    targets = [
        torch.tensor([label_of[letter] for letter in utterance.text])
        for utterance in utterances
    ]
    torch.manual_seed(options.seed)
    network = CtcNetwork(config)
    criterion = nn.CTCLoss(BLANK, zero_infinity=True)
    randomness = random.Random(options.seed)

    def loss_of(batch: list[int]) -> Tensor:
        inputs = [with_masks(frames[place], randomness) for place in batch]
        sizes = torch.tensor([len(own) for own in inputs])
        padded = nn.utils.rnn.pad_sequence(inputs, batch_first=True)
        log_probs = network(padded, sizes).transpose(0, 1)
        wanted = [targets[place] for place in batch]
        lengths = torch.tensor([len(own) for own in wanted])
        return criterion(log_probs, torch.cat(wanted), stacked(sizes), lengths)

    loss = fit(network, [len(own) for own in frames], loss_of, options, report)
    about = f"# CTC recogniser\n\nLoss at the end of training: {loss:.4f}."
    folders.save(options.out, KIND, config, network, len(utterances), about)


def with_masks(frames: Tensor, randomness: random.Random) -> Tensor:
    """Return a spectrogram with random bands and stretches set to 0, the mean.

    Args:
        frames: Normalised, (frames, bands).
        randomness: Decides what is masked.
    """
    masked = frames.clone()
    length, bands = masked.shape
    for _ in range(MASKS):
        width = randomness.randint(0, int(WIDEST_BANDS * bands))
        start = randomness.randint(0, bands - width)
        masked[:, start : start + width] = 0
        width = randomness.randint(0, int(WIDEST_FRAMES * length))
        start = randomness.randint(0, length - width)
        masked[start : start + width] = 0
    return masked
