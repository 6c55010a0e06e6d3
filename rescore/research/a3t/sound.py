"""Mel-spectrograms, sound from them (Griffin-Lim), and mel-cepstral distortion; in PyTorch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

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

    def _transform(self, sound: Tensor) -> Tensor:
        window = torch.hann_window(self.window)
        return torch.stft(sound, self.size, self.hop, self.window, window, center=True, return_complex=True)

    def spectrogram(self, sound: np.ndarray) -> Tensor:
        """The natural logarithm of the magnitude in each band: (frames, bands)."""
        magnitudes = self._transform(torch.from_numpy(np.asarray(sound, dtype=np.float32))).abs()
        return (self.filters @ magnitudes).clamp_min(FLOOR).log().T

    def griffin_lim(self, spectrogram: Tensor, iterations: int = 60) -> np.ndarray:
        """A sound with about this mel-spectrogram (Griffin and Lim 1984), (samples,), in [-1, 1].

        Args:
            spectrogram: (frames, bands), as `spectrogram` gives it.
        """
        bands = spectrogram.float().exp().T
        linear = self.filters.T @ bands
        for _ in range(iterations):  # non-negative least squares (Lee and Seung 2001)
            linear *= (self.filters.T @ bands) / (self.filters.T @ (self.filters @ linear)).clamp_min(1e-8)
        window = torch.hann_window(self.window)
        length = (linear.shape[1] - 1) * self.hop
        generator = torch.Generator().manual_seed(1)
        phases = torch.exp(2j * math.pi * torch.rand(linear.shape, generator=generator))
        for _ in range(iterations):
            sound = torch.istft(linear * phases, self.size, self.hop, self.window, window, center=True, length=length)
            again = self._transform(sound)
            phases = again / again.abs().clamp_min(1e-8)
        sound = torch.istft(linear * phases, self.size, self.hop, self.window, window, center=True, length=length)
        return (sound / max(1.0, float(sound.abs().max()))).numpy()


CEPSTRA = 13
"""Mel-cepstral coefficients that are compared, without the first, which is loudness."""


def mel_cepstral_distortion(spectrogram: Tensor, reference: Tensor) -> float:
    """The mean distance of frames in decibel, of mel cepstra 1 to 13 (Kubichek 1993): 10 / ln 10 sqrt(2 sum d^2).

    Cepstra are those of log|H| = sum of c_m cos(m w), so that the distance does not depend on the number of bands.

    Args:
        spectrogram, reference: log-mel, (frames, bands) each.
    """
    bands = reference.shape[1]
    places = math.pi * (torch.arange(bands).double() + 0.5) / bands
    cosines = 2 / bands * torch.cos(torch.arange(1, CEPSTRA + 1).double()[:, None] * places)
    distance = (spectrogram.double() - reference.double()) @ cosines.T
    return float((10 / math.log(10) * (2 * distance.square().sum(1)).sqrt()).mean())
