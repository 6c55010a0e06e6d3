"""Recordings of tones, one pitch a letter, and networks that are trained on them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import soundfile

from rescore.formats.times import Span
from tests.conftest import run_main

RATE = 8_000
PITCH = {"a": 300, "b": 700, "c": 1_500}
"""Hertz of each letter."""
SIZES = ("--rate", "8000", "--bands", "20", "--layers", "1", "--heads", "2")


def speak(text: str, path: Path, seed: int = 0) -> list[Span]:
    """Write a recording with a tone of 150 to 250 ms for each letter, 50 ms of silence
    between words, and some noise. Returns the times of the letters.
    """
    chance = random.Random(seed)
    noise = np.random.default_rng(seed)
    parts = []
    spans = []
    start = 0.0
    for letter in text:
        seconds = 0.05 if letter == " " else chance.uniform(0.15, 0.25)
        time = np.arange(int(seconds * RATE)) / RATE
        if letter == " ":
            parts.append(np.zeros(len(time)))
        else:
            parts.append(0.3 * np.sin(2 * np.pi * PITCH[letter] * time))
            spans.append(Span(start, start + len(time) / RATE))
        start += len(time) / RATE
    samples = np.concatenate(parts)
    soundfile.write(path, samples + 0.01 * noise.standard_normal(len(samples)), RATE)
    return spans


@pytest.fixture(scope="session")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty strings of two words each: wav/, text, and letters.ctm."""
    folder = tmp_path_factory.mktemp("tones")
    (folder / "wav").mkdir()
    chance = random.Random(3)
    lines = []
    times = []
    for number in range(60):
        words = ["".join(chance.choices("abc", k=chance.randint(1, 3))) for _ in "12"]
        text = " ".join(words)
        name = f"u{number}"
        spans = speak(text, folder / "wav" / f"{name}.wav", number)
        lines.append(f"{name} {text}\n")
        for letter, span in zip(text.replace(" ", ""), spans, strict=True):
            seconds = span.end - span.start
            times.append(f"{name} 1 {span.start:.4f} {seconds:.4f} {letter}\n")
    (folder / "text").write_text("".join(lines))
    (folder / "letters.ctm").write_text("".join(times))
    return folder


@pytest.fixture(scope="session")
def ctc(tones: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CTC recogniser of tones."""
    out = tmp_path_factory.mktemp("ctc") / "model"
    data = ("--audio", tones / "wav", "--text", tones / "text")
    learning = ("--steps", "200", "--batch-frames", "600", "--learning-rate", "4e-3")
    done = run_main(
        *("train", "--lm", "ctc", *data, *SIZES, "--d-model", "32", *learning),
        *("--out", out),
    )
    assert done.returncode == 0, done.stderr
    assert "60 utterances, 0." in done.stderr
    assert "step 200 of 200: loss" in done.stderr
    return out


@pytest.fixture(scope="session")
def a3t(tones: Path, ctc: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An A3T of tones."""
    out = tmp_path_factory.mktemp("a3t") / "model"
    data = ("--audio", tones / "wav", "--text", tones / "text")
    times = ("--align", tones / "letters.ctm", "--aligner", f"ctc:{ctc}")
    learning = ("--steps", "200", "--batch-frames", "500", "--learning-rate", "1e-2")
    done = run_main(
        *("train", "--lm", "a3t", *data, *times, *SIZES, "--d-model", "24", *learning),
        *("--out", out),
    )
    assert done.returncode == 0, done.stderr
    return out
