"""Join recordings of digits into strings of three to seven.

python strings.py recordings.tar.xz data

Each of train, dev and test gets wav/ID.wav, the words in `text`, and their times in
`words.ctm`. Recordings 0 to 4 of each digit and speaker are the test set, 5 to 9 the
dev set, all others are for training. A string has one speaker. The digits follow each
other as a random bigram model says, so that a language model has something to learn.
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
"""The number of strings in each set."""
PAUSE = 0.08
"""Longest pause between digits, in seconds."""

Samples = npt.NDArray[np.int16]
Digits = dict[tuple[str, str, int], list[Samples]]
"""The recordings of each set, speaker and digit."""


def read(archive: Path) -> Digits:
    """Return the recordings of an archive of DIGIT_SPEAKER_NUMBER.wav."""
    recordings: dict[str, Samples] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member)
            if file is None:
                continue
            with wave.open(io.BytesIO(file.read())) as sound:
                assert sound.getframerate() == RATE
                assert sound.getnchannels() == 1
                frames = sound.readframes(sound.getnframes())
            recordings[Path(member.name).stem] = np.frombuffer(frames, np.int16)
    digits: Digits = defaultdict(list)
    for name in sorted(recordings):
        digit, speaker, number = name.split("_")
        digits[set_of(int(number)), speaker, int(digit)].append(recordings[name])
    return digits


def set_of(number: int) -> str:
    """Return the set that a recording of this number belongs to."""
    if number < 5:
        return "test"
    return "dev" if number < 10 else "train"


def string(randomness: random.Random, follows: npt.NDArray[np.float64]) -> list[int]:
    """Return three to seven digits.

    Args:
        randomness: Decides the digits.
        follows: p(digit | previous digit), (10, 10).
    """
    digits = [randomness.randrange(10)]
    for _ in range(randomness.randint(2, 6)):
        digits += randomness.choices(range(10), follows[digits[-1]])
    return digits


def joined(
    recordings: Sequence[Samples], randomness: random.Random
) -> tuple[Samples, list[tuple[float, float]]]:
    """Return the samples of a string, and start and duration of each digit in
    seconds.
    """
    parts: list[Samples] = []
    times = []
    length = 0
    for recording in recordings:
        pause = int(randomness.uniform(0, PAUSE) * RATE)
        parts += [np.zeros(pause, np.int16), recording]
        times.append(((length + pause) / RATE, len(recording) / RATE))
        length += pause + len(recording)
    return np.concatenate(parts), times


def write_sound(path: Path, samples: Samples) -> None:
    """Write a WAV file."""
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(samples.tobytes())


def write_set(
    folder: Path,
    part: str,
    digits: Digits,
    follows: npt.NDArray[np.float64],
    randomness: random.Random,
) -> None:
    """Write the strings of a set."""
    (folder / "wav").mkdir(parents=True, exist_ok=True)
    speakers = sorted({speaker for _, speaker, _ in digits})
    texts = {}
    times = {}
    for count in range(SIZES[part]):
        speaker = speakers[count % len(speakers)]
        name = f"{speaker}-{part}-{count:04d}"
        numbers = string(randomness, follows)
        chosen = [randomness.choice(digits[part, speaker, one]) for one in numbers]
        samples, spans = joined(chosen, randomness)
        write_sound(folder / "wav" / f"{name}.wav", samples)
        texts[name] = f"{name} {' '.join(map(str, numbers))}\n"
        times[name] = "".join(
            f"{name} 1 {start:.3f} {duration:.3f} {digit}\n"
            for digit, (start, duration) in zip(numbers, spans, strict=True)
        )
    for file, lines in (("text", texts), ("words.ctm", times)):
        content = "".join(lines[name] for name in sorted(lines))
        (folder / file).write_text(content, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Join digits into strings.")
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    digits = read(arguments.archive)
    follows = np.random.default_rng(1).dirichlet(np.full(10, 0.25), size=10)
    for seed, part in enumerate(SIZES):
        folder = arguments.out / part
        write_set(folder, part, digits, follows, random.Random(seed))


if __name__ == "__main__":
    main()
