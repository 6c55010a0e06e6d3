"""Spectrograms, sounds from them, and mel-cepstral distortion."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rescore.research.a3t.mel import CEPSTRA, FLOOR, Mel, mel_cepstral_distortion

RATE = 8_000


def tone(hertz: float, seconds: float = 1.0) -> np.ndarray:
    time = np.arange(int(seconds * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


def test_a_tone_is_loudest_in_its_band() -> None:
    """The middles of bands are equally far from each other on the mel scale."""
    mel = Mel(RATE, 20)
    mels = np.linspace(*(2595 * np.log10(1 + np.array([20, 4_000]) / 700)), 22)
    middles = 700 * (10 ** (mels / 2595) - 1)
    for band in (3, 10, 18):
        spectrogram = mel.spectrogram(tone(middles[band + 1]))
        assert spectrogram.shape == (81, 20)
        assert int(spectrogram[40].argmax()) == band


def test_louder_is_higher_and_silence_is_the_floor() -> None:
    mel = Mel(RATE, 20)
    quiet, loud = mel.spectrogram(tone(500)), mel.spectrogram(2 * tone(500))
    assert float((loud - quiet).max()) == pytest.approx(math.log(2), abs=1e-3)
    silence = mel.spectrogram(np.zeros(200, np.float32))  # 25 ms, the shortest sound
    assert silence.shape == (3, 20)
    assert torch.allclose(silence, torch.tensor(FLOOR).log())


@pytest.mark.parametrize("bands", [8, 40, 128])
def test_no_band_is_empty(bands: int) -> None:
    assert float(Mel(RATE, bands).filters.amax(1).min()) >= 0.1


def test_griffin_lim_gives_the_spectrogram_back() -> None:
    mel = Mel(RATE, 40)
    time = np.arange(RATE) / RATE
    glide = 0.2 * np.sin(2 * np.pi * (900 + 300 * time) * time)
    noise = 0.01 * np.random.default_rng(0).standard_normal(RATE)
    before = mel.spectrogram((tone(440) + glide + noise).astype(np.float32))
    sound = mel.sound(before)
    assert sound.shape == (RATE,) and float(np.abs(sound).max()) <= 1
    inner = slice(2, -2)
    again = mel.spectrogram(sound)[inner]
    order = torch.randperm(len(before), generator=torch.Generator().manual_seed(0))
    near = mel_cepstral_distortion(again, before[inner])
    far = mel_cepstral_distortion(before[order][inner], before[inner])
    assert near < 6 and near < far


def test_mel_cepstral_distortion_is_the_formula() -> None:
    """10 / ln 10 sqrt(2 sum of squared differences of cepstra 1 to 13), as a mean over
    frames.
    """
    generator = torch.Generator().manual_seed(0)
    one, other = torch.randn(2, 5, 20, generator=generator).double()
    expected = []
    for frame, true in zip(one.tolist(), other.tolist(), strict=True):
        total = 0.0
        for order in range(1, CEPSTRA + 1):
            difference = 0.0
            for band in range(20):
                cosine = math.cos(math.pi * order * (band + 0.5) / 20)
                difference += 2 / 20 * cosine * (frame[band] - true[band])
            total += difference**2
        expected.append(10 / math.log(10) * math.sqrt(2 * total))
    assert mel_cepstral_distortion(one, other) == pytest.approx(np.mean(expected))
    loudness = mel_cepstral_distortion(one, one + 3)
    assert loudness == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("bands", [20, 80])
def test_a_ripple_has_its_distortion_with_any_number_of_bands(bands: int) -> None:
    """The root mean square of one cepstrum, in decibels."""
    ripple = torch.cos(3 * math.pi * (torch.arange(bands) + 0.5) / bands)[None]
    decibels = 20 / math.log(10) * ripple.square().mean().sqrt()
    distortion = mel_cepstral_distortion(ripple, torch.zeros(1, bands))
    assert distortion == pytest.approx(float(decibels), rel=1e-6)
