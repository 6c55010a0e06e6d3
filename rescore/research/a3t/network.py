"""The network of A3T (thesis, section 4.3), and the spectrograms that it reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

FLOOR = 1e-2
"""The least magnitude that a logarithm is taken of: at 8 kHz a tone of -80 dB. Digital silence and the last bits of
samples would dominate the errors of a spectrogram."""


@dataclass(frozen=True)
class Mel:
    """Log-mel-spectrograms of sounds at one rate: 50 ms frames every 12.5 ms, Hann window, as in the thesis."""

    rate: int
    bands: int

    @property
    def hop(self) -> int:
        """Samples from a frame to the next."""
        return round(0.0125 * self.rate)

    @property
    def window(self) -> int:
        """Samples of a frame."""
        return 4 * self.hop

    @property
    def size(self) -> int:
        """Of the Fourier transform."""
        return 1 << (self.window - 1).bit_length()

    @cached_property
    def filters(self) -> Tensor:
        """Triangles on the mel scale (2595 log10(1 + f / 700)): (bands, size / 2 + 1)."""

        def mels(hertz: float) -> float:
            return 2595 * math.log10(1 + hertz / 700)

        edges = 700 * (10 ** (torch.linspace(mels(20), mels(self.rate / 2), self.bands + 2).double() / 2595) - 1)
        bins = torch.linspace(0, self.rate / 2, self.size // 2 + 1).double()
        rising = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        falling = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
        triangles = torch.minimum(rising, falling).clamp_min(0)
        nearest = (bins - edges[1:-1, None]).abs().argmin(1)
        triangles[torch.arange(self.bands), nearest] = triangles[torch.arange(self.bands), nearest].clamp_min(0.1)
        return triangles.float()

    def spectrogram(self, sound: np.ndarray) -> Tensor:
        """The natural logarithm of the magnitude in each band: (frames, bands)."""
        samples = torch.from_numpy(np.asarray(sound, dtype=np.float32))
        window = torch.hann_window(self.window)
        transform = torch.stft(samples, self.size, self.hop, self.window, window, center=True, return_complex=True)
        return (self.filters @ transform.abs()).clamp_min(FLOOR).log().T


MOST_TOKENS = 500
"""Alignment embeddings; a text has fewer letters."""
KERNELS = (7, 31)
"""Of the convolutions in encoder and decoder."""


@dataclass(frozen=True, kw_only=True)
class A3tConfig:
    """Sizes and parts of a network, and what its spectrograms are."""

    units: tuple[str, ...]
    """The letters, in the order of their numbers."""
    rate: int
    mels: int
    d_model: int
    layers: int
    heads: int
    alignment: bool
    post_net: bool
    mean: float
    deviation: float
    """Of the spectrograms of the training set, to which frames are normalised."""


@dataclass(frozen=True, slots=True)
class Example:
    """An utterance: its frames, its letters, and the letter that each frame belongs to."""

    frames: Tensor
    """Log-mel, normalised: (frames, mels)."""
    letters: Tensor
    """(letters,), from 1."""
    owners: Tensor
    """The place of the letter of each frame, from 1; 0 for silence: (frames,)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples padded to the longest."""

    frames: Tensor
    letters: Tensor
    """0 is padding."""
    owners: Tensor
    heard: Tensor
    """Whether a frame is one: (examples, frames)."""

    @classmethod
    def of(cls, examples: list[Example]) -> Batch:
        """The batch of some examples."""

        def padded(parts: list[Tensor]) -> Tensor:
            return nn.utils.rnn.pad_sequence(parts, batch_first=True)

        frames = [example.frames for example in examples]
        heard = padded([torch.ones(len(part), dtype=torch.bool) for part in frames])
        letters, owners = ([getattr(example, name) for example in examples] for name in ("letters", "owners"))
        return cls(padded(frames), padded(letters), padded(owners), heard)


def sinusoids(length: int, width: int) -> Tensor:
    """Position embeddings (Vaswani et al. 2017): (length, width)."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


class FeedForward(nn.Module):
    """A block's wide layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, states: Tensor) -> Tensor:
        return self.narrow(F.silu(self.wide(self.norm(states))))


class Convolution(nn.Module):
    """The convolution module of a Conformer (Gulati et al. 2020), of frames and letters apart; padding is silenced."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), nn.LayerNorm(width)
        self.gate, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)

    def forward(self, states: Tensor, used: Tensor, frames: int) -> Tensor:
        gated = (F.glu(self.gate(self.norm(states))) * used[..., None]).transpose(1, 2)
        parts = gated[..., :frames], gated[..., frames:]
        mixed = torch.cat([self.depthwise(part) for part in parts], -1).transpose(1, 2)
        return self.out(F.silu(self.inner(mixed)))


class Block(nn.Module):
    """A Conformer block (Gulati et al. 2020)."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.after, self.before = FeedForward(width), FeedForward(width)
        self.convolution = Convolution(width, kernel)

    def forward(self, states: Tensor, used: Tensor, frames: int) -> Tensor:
        states = states + 0.5 * self.before(states)
        normed = self.norm(states)
        states = states + self.attention(normed, normed, normed, key_padding_mask=~used, need_weights=False)[0]
        states = states + self.convolution(states, used, frames)
        return self.last(states + 0.5 * self.after(states))


class PostNet(nn.Module):
    """Five convolutions that refine a spectrogram (Tacotron 2)."""

    def __init__(self, mels: int, width: int) -> None:
        super().__init__()
        sizes = [mels, width, width, width, width, mels]
        self.layers = nn.ModuleList(nn.Conv1d(a, b, 5, padding=2) for a, b in pairwise(sizes))

    def forward(self, spectrogram: Tensor, heard: Tensor) -> Tensor:
        states = spectrogram.transpose(1, 2)
        for number, layer in enumerate(self.layers):
            states = layer(states * heard[:, None])
            if number + 1 < len(self.layers):
                states = states.tanh()
        return states.transpose(1, 2)


class A3tNetwork(nn.Module):
    """Reconstructs masked frames from the other frames and the text."""

    def __init__(self, config: A3tConfig) -> None:
        super().__init__()
        self.config, width = config, config.d_model
        self.acoustic = nn.Linear(config.mels, width)
        self.masked = nn.Parameter(torch.randn(config.mels))
        self.text = nn.Embedding(len(config.units) + 1, width, padding_idx=0)
        self.kind = nn.Embedding(2, width)
        self.aligned = nn.Embedding(MOST_TOKENS, width, padding_idx=0) if config.alignment else None
        blocks = [Block(width, config.heads, kernel) for kernel in KERNELS for _ in range(config.layers)]
        self.blocks = nn.ModuleList(blocks)
        self.out = nn.Linear(width, config.mels)
        self.post_net = PostNet(config.mels, width) if config.post_net else None
        self._let_frames_find_letters(blocks[0].attention)

    def _let_frames_find_letters(self, attention: nn.MultiheadAttention) -> None:
        """Initial weights with which frames attend to the letter that has their alignment embedding.

        From random weights, short trainings do not learn to read the text: the many masked frames of a letter, which
        say nothing, attend to each other. Queries and keys are alike, and a bias of the query prefers letters.
        """
        width = self.config.d_model
        with torch.no_grad():
            queries, keys, _ = attention.in_proj_weight.split(width)
            keys.copy_(queries.mul_(2))
            attention.in_proj_bias[:width] = keys @ (self.kind.weight[1] - self.kind.weight[0]) / math.sqrt(2)
            if self.aligned is not None:  # so that frames of letters differ from silence alike
                self.aligned.weight[1:] += torch.randn(width)

    def forward(self, batch: Batch, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The reconstructed spectrograms before and after the Post-Net, (examples, frames, mels) each.

        Args:
            hidden: which frames are masked, (examples, frames).
        """
        number, size = batch.letters.shape
        width = self.config.d_model
        frames = torch.where(hidden[..., None], self.masked, batch.frames)
        sounds = F.relu(self.acoustic(frames)) + sinusoids(frames.shape[1], width) + self.kind.weight[0]
        texts = self.text(batch.letters) + sinusoids(size, width) + self.kind.weight[1]
        if self.aligned is not None:
            places = torch.arange(1, size + 1).expand(number, -1) * (batch.letters > 0)
            sounds, texts = sounds + self.aligned(batch.owners), texts + self.aligned(places)
        states = torch.cat([sounds, texts], 1)
        used = torch.cat([batch.heard, batch.letters > 0], 1)
        for block in self.blocks:
            states = block(states, used, frames.shape[1])
        first: Tensor = self.out(states[:, : frames.shape[1]])
        return first, first if self.post_net is None else first + self.post_net(first, batch.heard)
