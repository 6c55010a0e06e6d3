"""CTM against STM: counts against sclite itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rescore.asr.formats.whole import measured_recordings
from rescore.metrics import list_statistics
from rescore.metrics.wer import ErrorRate
from tests.metrics.test_alignment import sclite

WORDS = ["a", "b", "c", "D", "e-f", "it's", "7"]


def counts_of(output: Path, reference: Path) -> list[int]:
    """Words of the reference, substitutions, deletions and insertions."""
    (lists,) = measured_recordings([str(output)], str(reference))
    sums = np.concatenate(list_statistics(ErrorRate(), lists)).sum(axis=0).tolist()
    return [sums[3], *sums[:3]]


def sclite_counts(output: Path, reference: Path) -> list[int]:
    command = [sclite(), "-r", reference, "stm", "-h", output, "ctm", "-o", "rsum", "stdout"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row = re.search(r"\|\s+Sum\s.*", text)
    assert row, text
    _, words, _, *errors = map(int, re.findall(r"\d+", row[0])[:6])
    return [words, *errors]


class Draw:
    """A random recording: a segment is some words, of which the output hears most."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def words(self, most: int = 8) -> list[str]:
        return [str(word) for word in self.random.choice(WORDS, self.random.integers(0, most + 1))]

    def with_alternatives(self, words: list[str], share: float) -> str:
        """A text of an STM, in which some words have alternatives."""
        return " ".join(
            f"{{ {word} / {' '.join(self.words(2)) or '@'} }}" if self.random.random() < share else word
            for word in words
        )

    def channel(self, name: str, channel: str, share: float) -> tuple[list[str], list[str]]:
        """The lines of an STM and a CTM."""
        stm, ctm = [f"{name} {channel} s0 0.000 1.000 hello"], [(0.3, "hello")]
        clock = 1.0
        for _ in range(self.random.integers(1, 7)):
            clock += float(self.random.choice([0.0, 0.0, 1.5]))
            spoken, start = self.words(), clock
            clock += 0.5 + 0.4 * len(spoken)
            text = self.with_alternatives(spoken, share)
            if self.random.random() < 0.1:
                text = "IGNORE_TIME_SEGMENT_IN_SCORING"
            stm.append(f"{name} {channel} s{self.random.integers(3)} {start:.3f} {clock:.3f} <o,f0> {text}")
            heard = [str(self.random.choice(WORDS)) if self.random.random() < 0.2 else word for word in spoken]
            heard += self.words(1)
            shift = self.random.normal(0.0, 0.3)
            for place, word in enumerate(heard):
                at = max(0.0, start + shift + 0.4 * place)
                ctm.append((at, word))
        lines = [f"{name} {channel} {at:.3f} 0.251 {word.upper()}" for at, word in sorted(ctm)]
        return stm, lines


@pytest.mark.tools
@pytest.mark.parametrize("share", [0.0, 0.15], ids=["plain", "alternatives"])
def test_counts_of_ctm_against_stm_are_sclites(share: float, tmp_path: Path) -> None:
    """Random segments, pauses, channels, ignored stretches and alternatives on both sides."""
    different = {}
    for seed in range(150):
        draw = Draw(seed)
        names = [("talk1", "A"), ("talk1", "b"), ("Talk2", "1")][: 1 + seed % 3]
        parts = [draw.channel(name, channel, share) for name, channel in names]
        output, reference = tmp_path / f"{seed}.ctm", tmp_path / f"{seed}.stm"
        reference.write_text("".join(f"{line}\n" for stm, _ in parts for line in stm))
        output.write_text("".join(f"{line}\n" for _, ctm in parts for line in ctm))
        counts = counts_of(output, reference), sclite_counts(output, reference)
        if counts[0] != counts[1]:
            different[seed] = counts
    assert not different
