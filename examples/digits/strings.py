"""Join recordings of single digits into strings of three to seven, as Kaldi data folders.

    python strings.py recordings.tar.xz data

Each of train, dev and test gets wav.scp, text and wav/ID.wav. Recordings 0 to 4 of each digit and speaker are the test
set, 5 to 9 the dev set, the rest is for training. A string has one speaker. Digits follow each other as a
random bigram model says, so that a language model has something to learn.
"""

from __future__ import annotations

import argparse
import io
import random
import tarfile
import wave
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

RATE = 8_000
SIZES = {"train": 900, "dev": 240, "test": 240}
PAUSE = 0.08
"""Longest pause between digits, in seconds."""
Samples = npt.NDArray[np.int16]
Digits = dict[tuple[str, str, int], list[Samples]]
"""The recordings of each set, speaker and digit."""


def read(archive: Path) -> Digits:
    """The samples of DIGIT_SPEAKER_NUMBER.wav files in an archive."""
    found: dict[str, Samples] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            if (file := tar.extractfile(member)) is not None:
                with wave.open(io.BytesIO(file.read())) as sound:
                    assert sound.getframerate() == RATE and sound.getnchannels() == 1
                    found[Path(member.name).stem] = np.frombuffer(sound.readframes(sound.getnframes()), np.int16)
    digits: Digits = defaultdict(list)
    for name in sorted(found):
        digit, speaker, number = name.split("_")
        part = "test" if int(number) < 5 else "dev" if int(number) < 10 else "train"
        digits[part, speaker, int(digit)].append(found[name])
    return digits


def bigrams(seed: int) -> npt.NDArray[np.float64]:
    """p(digit | previous digit), (10, 10): skewed, so that most digits are followed by a few others."""
    return np.random.default_rng(seed).dirichlet(np.full(10, 0.25), size=10)


def string(randomness: random.Random, follows: npt.NDArray[np.float64]) -> list[int]:
    """Three to seven digits."""
    digits = [randomness.randrange(10)]
    for _ in range(randomness.randint(2, 6)):
        digits += randomness.choices(range(10), follows[digits[-1]])
    return digits


def joined(recordings: Sequence[Samples], randomness: random.Random) -> Samples:
    """The samples of a string, with a pause before each digit."""
    parts = []
    for samples in recordings:
        parts += [np.zeros(int(randomness.uniform(0, PAUSE) * RATE), np.int16), samples]
    return np.concatenate(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    digits, follows = read(arguments.archive), bigrams(1)
    speakers = sorted({speaker for _, speaker, _ in digits})
    for seed, (part, number) in enumerate(SIZES.items()):
        randomness = random.Random(seed)
        folder = arguments.out / part
        (folder / "wav").mkdir(parents=True, exist_ok=True)
        scp, text = [], []
        for count in range(number):
            speaker = speakers[count % len(speakers)]
            numbers = string(randomness, follows)
            name = f"{speaker}-{part}-{count:04d}"
            samples = joined([randomness.choice(digits[part, speaker, digit]) for digit in numbers], randomness)
            path = folder / "wav" / f"{name}.wav"
            with wave.open(str(path), "wb") as sound:
                sound.setnchannels(1)
                sound.setsampwidth(2)
                sound.setframerate(RATE)
                sound.writeframes(samples.tobytes())
            scp.append(f"{name} {path}\n")
            text.append(f"{name} {' '.join(map(str, numbers))}\n")
        for file, lines in ("wav.scp", scp), ("text", text):
            (folder / file).write_text("".join(sorted(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
