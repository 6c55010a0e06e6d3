"""Spectrograms on the mel scale, sounds from them, and the distortion of one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rescore.formats.audio import Samples

FLOOR = 1e-2
"""The least magnitude of which a logarithm is taken: at 8 kHz a tone of -80 dB. Without
it, digital silence and the last bits of samples would dominate the errors.
"""
LOWEST = 20.0
"""Hertz at the lower edge of the lowest band."""
ITERATIONS = 60
"""Iterations of Griffin and Lim, and of the least squares before them."""
CEPSTRA = 13
"""Mel cepstra that are compared; cepstrum 0, the loudness, is not."""


@dataclass(frozen=True)
class Mel:
    """Log-mel spectrograms of sounds: frames of 50 ms every 12.5 ms, Hann window
    (thesis, section 4.4.2).
    """

    rate: int
    """Samples a second."""
    bands: int

    @property
    def hop(self) -> int:
        """Samples from a frame to the next."""
        return round(0.0125 * self.rate)

    @property
    def seconds(self) -> float:
        """Seconds from a frame to the next."""
        return self.hop / self.rate

    @property
    def width(self) -> int:
        """Samples of a frame."""
        return 4 * self.hop

    @property
    def size(self) -> int:
        """Samples of the Fourier transform: the next power of two."""
        return 1 << (self.width - 1).bit_length()

    @cached_property
    def filters(self) -> Tensor:
        """Triangles of height 1, equally wide on the mel scale.

        A band that is narrower than a bin of the transform gets a tenth of the nearest
        bin, so that no band is empty.

        Returns:
            (bands, size / 2 + 1).
        """
        lowest, highest = _mels(LOWEST), _mels(self.rate / 2)
        mels = torch.linspace(lowest, highest, self.bands + 2, dtype=torch.float64)
        edges = 700 * (10 ** (mels / 2595) - 1)
        left, middle, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
        last = self.rate / 2
        bins = torch.linspace(0, last, self.size // 2 + 1, dtype=torch.float64)
        rising = (bins - left) / (middle - left)
        falling = (right - bins) / (right - middle)
        triangles = torch.minimum(rising, falling).clamp_min(0)
        nearest = (bins - middle).abs().argmin(1, keepdim=True)
        least = torch.zeros_like(triangles).scatter(1, nearest, 0.1)
        return torch.maximum(triangles, least).float()

    @cached_property
    def window(self) -> Tensor:
        """(width,)."""
        return torch.hann_window(self.width)

    def spectrogram(self, samples: Samples) -> Tensor:
        """Return the natural logarithm of the magnitude in each band.

        Args:
            samples: In [-1, 1], (samples,).

        Returns:
            (frames, bands), the first frame around the first sample.
        """
        magnitudes = self._transform(torch.from_numpy(samples)).abs()
        return (self.filters @ magnitudes).clamp_min(FLOOR).log().T

    def sound(self, spectrogram: Tensor) -> Samples:
        """Return a sound with about this spectrogram (Griffin and Lim 1984).

        Magnitudes of the bins follow from those of the bands by non-negative least
        squares (Lee and Seung 2001).

        Args:
            spectrogram: (frames, bands), as `spectrogram` returns it.

        Returns:
            Samples in [-1, 1], (hop * (frames - 1),).
        """
        bands = spectrogram.float().exp().T
        wanted = self.filters.T @ bands
        magnitudes = wanted.clone()
        for _ in range(ITERATIONS):
            present = self.filters.T @ (self.filters @ magnitudes)
            magnitudes *= wanted / present.clamp_min(1e-8)
        generator = torch.Generator().manual_seed(1)
        angles = 2 * math.pi * torch.rand(magnitudes.shape, generator=generator)
        phases = torch.polar(torch.ones_like(angles), angles)
        for _ in range(ITERATIONS):
            again = self._transform(self._inverse(magnitudes * phases))
            phases = again / again.abs().clamp_min(1e-8)
        samples = self._inverse(magnitudes * phases)
        loudest = max(1.0, float(samples.abs().max()))
        return (samples / loudest).numpy()

    def _transform(self, samples: Tensor) -> Tensor:
        """(samples,) -> complex (size / 2 + 1, frames)."""
        return torch.stft(
            samples,
            self.size,
            self.hop,
            self.width,
            self.window,
            pad_mode="constant",
            return_complex=True,
        )

    def _inverse(self, transform: Tensor) -> Tensor:
        """Complex (size / 2 + 1, frames) -> (samples,)."""
        length = self.hop * (transform.shape[1] - 1)
        return torch.istft(
            transform, self.size, self.hop, self.width, self.window, length=length
        )


def _mels(hertz: float) -> float:
    return 2595 * math.log10(1 + hertz / 700)


def mel_cepstral_distortion(spectrogram: Tensor, reference: Tensor) -> float:
    """Return the mean distance of frames in decibels (Kubichek 1993).

    The distance of two frames is 10 / ln 10 * sqrt(2 * sum of (c_m - c'_m)^2) over the
    mel cepstra c_1 to c_13. Cepstra are the coefficients of
    log magnitude = sum of c_m cos(m w), so that the number of bands does not matter.

    Args:
        spectrogram: Natural logarithms of magnitudes, (frames, bands).
        reference: The same of the true sound.
    """
    bands = reference.shape[1]
    angles = math.pi * (torch.arange(bands, dtype=torch.float64) + 0.5) / bands
    orders = torch.arange(1, CEPSTRA + 1, dtype=torch.float64)
    cosines = 2 / bands * torch.cos(orders[:, None] * angles)
    differences = (spectrogram.double() - reference.double()) @ cosines.T
    distances = (2 * differences.square().sum(1)).sqrt()
    return 10 / math.log(10) * float(distances.mean())
