"""The network of A3T (thesis, section 4.3): it reconstructs masked frames from the
other frames and the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.research.a3t import folders
from rescore.research.a3t.layers import Block, sinusoids

ENCODER_KERNEL, DECODER_KERNEL, POST_NET_KERNEL = 7, 31, 5
"""Widths of the convolutions (thesis, section 4.4.2)."""
POST_NET_LAYERS = 5
MOST_UNITS = 499
"""Letters or phones of a text, at most: there are 500 alignment embeddings, and the
first is that of silence.
"""


@dataclass(frozen=True, kw_only=True)
class A3tConfig:
    """Texts, spectrograms and parts of a network."""

    units: tuple[str, ...]
    """Letters, or phones."""
    lexicon: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The phones of words; empty for a network that reads letters."""
    rate: int
    bands: int
    d_model: int
    layers: int
    """Blocks of the encoder, and of the decoder."""
    heads: int
    alignment: bool
    conformer: bool
    post_net: bool
    mean: float
    deviation: float
    """Of the spectrograms of the training set, to which frames are normalised."""

    def __post_init__(self) -> None:
        folders.check_sizes(self)
        if not self.units:
            raise UserError("units is empty; the network could read no text")


@dataclass(frozen=True, slots=True)
class Example:
    """A recording under a text, as the network reads it."""

    frames: Tensor
    """The normalised spectrogram, (frames, bands)."""
    units: Tensor
    """Letters or phones, from 1; 0 is unknown, and reads as nothing; (units,)."""
    owners: Tensor
    """The place of the unit of each frame, from 1; 0 for silence, (frames,)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples padded to the longest."""

    frames: Tensor
    """(examples, frames, bands)."""
    heard: Tensor
    """Which frames are no padding, (examples, frames)."""
    units: Tensor
    """(examples, units)."""
    read: Tensor
    """Which units are no padding, (examples, units)."""
    owners: Tensor
    """(examples, frames)."""

    @classmethod
    def of(cls, examples: Sequence[Example]) -> Batch:
        """Return the batch of examples."""
        nothing = torch.zeros(1, dtype=torch.long)
        texts = [example.units for example in examples]
        # convolutions need a place also where all texts are empty
        units = padded([*texts, nothing])[:-1]
        frames = padded([example.frames for example in examples])
        return cls(
            frames,
            within([len(example.frames) for example in examples], frames.shape[1]),
            units,
            within([len(text) for text in texts], units.shape[1]),
            padded([example.owners for example in examples]),
        )


def padded(parts: Sequence[Tensor]) -> Tensor:
    """Return tensors of different lengths as one, with zeros behind the shorter."""
    return nn.utils.rnn.pad_sequence(list(parts), batch_first=True)


def within(lengths: Sequence[int], size: int) -> Tensor:
    """Return which of `size` places each length covers, (lengths, size)."""
    return torch.arange(size) < torch.tensor(lengths)[:, None]


class PostNet(nn.Module):
    """Five convolutions that correct a spectrogram (Tacotron 2, Shen et al. 2018)."""

    def __init__(self, bands: int, width: int) -> None:
        super().__init__()
        sizes = [bands, *[width] * (POST_NET_LAYERS - 1), bands]
        padding = POST_NET_KERNEL // 2
        self.layers = nn.ModuleList(
            nn.Conv1d(inner, outer, POST_NET_KERNEL, padding=padding)
            for inner, outer in pairwise(sizes)
        )

    def forward(self, spectrogram: Tensor, heard: Tensor) -> Tensor:
        """Return the correction, (examples, frames, bands)."""
        states = spectrogram.transpose(1, 2)
        for number, layer in enumerate(self.layers, 1):
            states = layer(states * heard[:, None])
            if number < POST_NET_LAYERS:
                states = states.tanh()
        return states.transpose(1, 2)


class A3tNetwork(nn.Module):
    """An encoder and a decoder of blocks that read frames and text together.

    An embedding of a frame is the sum of the frame through a ReLU layer, its position,
    its modality and the alignment embedding of its unit. An embedding of a unit is the
    sum of the unit's own, its position, its modality and its alignment embedding.
    """

    def __init__(self, config: A3tConfig) -> None:
        super().__init__()
        self.config = config
        width = config.d_model
        self.acoustic = nn.Linear(config.bands, width)
        self.masked = nn.Parameter(torch.randn(config.bands))
        self.text = nn.Embedding(len(config.units) + 1, width, padding_idx=0)
        self.modality = nn.Embedding(2, width)
        self.blocks = nn.ModuleList()
        for kernel in (ENCODER_KERNEL, DECODER_KERNEL):
            for _ in range(config.layers):
                own = kernel if config.conformer else None
                self.blocks.append(Block(width, config.heads, own))
        self.out = nn.Linear(width, config.bands)
        if config.alignment:
            self.alignment = nn.Embedding(MOST_UNITS + 1, width, padding_idx=0)
        if config.post_net:
            self.post_net = PostNet(config.bands, width)
        self._let_frames_find_units()

    def _let_frames_find_units(self) -> None:
        """Set initial weights with which a frame attends to the unit that has its
        alignment embedding.

        From random weights, short trainings do not learn to read the text: the many
        masked frames of a unit are alike and attend to each other. Here keys equal
        queries, so that equal alignment embeddings attract each other, and a bias of
        the queries prefers units to frames.
        """
        attention = self.blocks[0].attention
        assert isinstance(attention, nn.MultiheadAttention)
        width = self.config.d_model
        with torch.no_grad():
            queries, keys, _ = attention.in_proj_weight.split(width)
            keys.copy_(queries.mul_(2))
            frame, unit = self.modality.weight
            attention.in_proj_bias[:width] = keys @ (unit - frame) / math.sqrt(2)
            if self.config.alignment:
                # what all units share tells them from silence
                self.alignment.weight[1:] += torch.randn(width)

    def forward(self, batch: Batch, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the reconstructed spectrograms before and behind the Post-Net.

        Args:
            batch: Recordings under texts.
            hidden: Which frames are masked, (examples, frames).

        Returns:
            Normalised, twice (examples, frames, bands); twice the same without a
            Post-Net.
        """
        length = batch.frames.shape[1]
        size = batch.units.shape[1]
        frames = torch.where(hidden[..., None], self.masked, batch.frames)
        positions = sinusoids(max(length, size), self.config.d_model)
        sounds = F.relu(self.acoustic(frames)) + positions[:length]
        texts = self.text(batch.units) + positions[:size]
        sounds = sounds + self.modality.weight[0]
        texts = texts + self.modality.weight[1]
        if self.config.alignment:
            places = torch.arange(1, size + 1) * batch.read
            sounds = sounds + self.alignment(batch.owners)
            texts = texts + self.alignment(places)
        states = torch.cat([sounds, texts], dim=1)
        used = torch.cat([batch.heard, batch.read], dim=1)
        for block in self.blocks:
            states = block(states, used, [length, size])
        first: Tensor = self.out(states[:, :length])
        if not self.config.post_net:
            return first, first
        return first, first + self.post_net(first, batch.heard)
