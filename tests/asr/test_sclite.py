"""CTM against STM, and trn with alternatives: counts against sclite itself."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rescore import formats
from rescore.asr.measured import measured_recordings
from rescore.metrics import list_statistics
from rescore.metrics.wer import ErrorRate
from tests.metrics.test_alignment import sclite

SCLITE = {
    "drawn": [
        [31, 9, 1, 4],
        [16, 2, 0, 4],
        [59, 2, 4, 12],
        [24, 4, 1, 1],
        [38, 5, 2, 6],
        [32, 2, 2, 6],
    ],
    "drawn_trn": [
        [34, 5, 0, 1],
        [28, 0, 0, 0],
        [28, 3, 0, 0],
        [30, 4, 1, 0],
        [41, 3, 0, 0],
        [40, 4, 2, 1],
    ],
}
WORDS = ["a", "b", "c", "D", "e-f", "it's", "7"]


def counts_of(output: Path, reference: Path) -> list[int]:
    """Words of the reference, substitutions, deletions and insertions."""
    if output.suffix == ".trn":
        lists = formats.read_output(str(output), str(reference))
    else:
        (lists,) = measured_recordings([str(output)], str(reference))
    sums = np.concatenate(list_statistics(ErrorRate(), lists)).sum(axis=0).tolist()
    return [sums[3], *sums[:3]]


def sclite_counts(output: Path, reference: Path) -> list[int]:
    kinds = [path.suffix[1:] for path in (reference, output)]
    command = [
        sclite(),
        "-r",
        reference,
        kinds[0],
        "-h",
        output,
        kinds[1],
        "-i",
        "rm",
        "-o",
        "rsum",
        "stdout",
    ]
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
        return [
            str(word)
            for word in self.random.choice(WORDS, self.random.integers(0, most + 1))
        ]

    def with_alternatives(self, words: list[str], share: float) -> str:
        """A text of an STM, in which some words have alternatives."""
        return " ".join(
            (
                f"{{ {word} / {' '.join(self.words(2)) or '@'} }}"
                if self.random.random() < share
                else word
            )
            for word in words
        )

    def channel(
        self, name: str, channel: str, share: float
    ) -> tuple[list[str], list[str]]:
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
            stm.append(
                f"{name} {channel} s{self.random.integers(3)} {start:.3f} {clock:.3f}"
                f" <o,f0> {text}"
            )
            heard = [
                str(self.random.choice(WORDS)) if self.random.random() < 0.2 else word
                for word in spoken
            ]
            heard += self.words(1)
            shift = self.random.normal(0.0, 0.3)
            for place, word in enumerate(heard):
                at = max(0.0, start + shift + 0.4 * place)
                ctm.append((at, word))
        lines = []
        for at, word in sorted(ctm):
            if self.random.random() < share:
                # sclite loses words behind an empty alternative that is not the last
                texts = [[word], self.words(2)]
                if texts[1]:
                    self.random.shuffle(texts)
                parts = [
                    [
                        f"{name} {channel} {at + 0.1 * rank:.3f} 0.101 {each}"
                        for rank, each in enumerate(text)
                    ]
                    for text in texts
                ]
                mark = f"{name} {channel} * * <ALT"
                lines += [
                    f"{mark}_BEGIN>",
                    *parts[0],
                    f"{mark}>",
                    *parts[1],
                    f"{mark}_END>",
                ]
            else:
                lines.append(f"{name} {channel} {at:.3f} 0.251 {word.upper()}")
        return stm, lines


def drawn(seed: int, share: float, folder: Path) -> tuple[Path, Path]:
    """A random CTM and STM: segments, pauses, channels, ignored stretches, and
    alternatives on both sides.
    """
    draw = Draw(seed)
    names = [("talk1", "A"), ("talk1", "b"), ("Talk2", "1")][: 1 + seed % 3]
    parts = [draw.channel(name, channel, share) for name, channel in names]
    output, reference = folder / f"{seed}.ctm", folder / f"{seed}.stm"
    reference.write_text("".join(f"{line}\n" for stm, _ in parts for line in stm))
    output.write_text("".join(f"{line}\n" for _, ctm in parts for line in ctm))
    return output, reference


def drawn_trn(seed: int, share: float, folder: Path) -> tuple[Path, Path]:
    """A random output and reference in trn, with alternatives on both sides."""
    draw = Draw(seed)
    references, outputs = [], []
    for number in range(6):
        spoken = ["a", *draw.words()]
        heard = [
            str(draw.random.choice(WORDS)) if draw.random.random() < 0.2 else word
            for word in spoken
        ]
        references.append(f"{draw.with_alternatives(spoken, share)} (s-{number})\n")
        outputs.append(f"{draw.with_alternatives(heard, share)} (S-{number})\n")
    output, reference = folder / f"{seed}.trn", folder / f"{seed}.ref.trn"
    output.write_text("".join(outputs))
    reference.write_text("".join(references))
    return output, reference


KINDS = pytest.mark.parametrize("files", [drawn, drawn_trn], ids=["ctm", "trn"])


@pytest.mark.tools
@pytest.mark.parametrize("share", [0.0, 0.15], ids=["plain", "alternatives"])
@KINDS
def test_counts_are_sclites(
    files: Callable[..., tuple[Path, Path]], share: float, tmp_path: Path
) -> None:
    different = {}
    for seed in range(150):
        pair = files(seed, share, tmp_path)
        counts = counts_of(*pair), sclite_counts(*pair)
        if counts[0] != counts[1]:
            different[seed] = counts
    assert not different


@KINDS
def test_counts_that_sclite_gave(
    files: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    """Words, substitutions, deletions and insertions of the first pairs, as sclite
    2.4.10 counts them.
    """
    expected = SCLITE[files.__name__]
    assert [
        counts_of(*files(seed, 0.15, tmp_path)) for seed in range(len(expected))
    ] == expected
