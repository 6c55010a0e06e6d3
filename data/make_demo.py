"""Speak sentences.txt with flite, add noise, recognise with pocketsphinx, write N-best
lists (see README.md).

Everything is seeded: the same versions of the programs give the same lists. Needs
Debian's packages flite, sox, pocketsphinx and pocketsphinx-en-us, and numpy.
"""

import json
import math
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
MODEL = Path("/usr/share/pocketsphinx/model/en-us")
RATE = 16_000
VOICES = ("slt", "rms")
BEST = 20  # different hypotheses kept of each list
# paths asked of the recogniser; most repeat a text with other pauses or pronunciations
PATHS = 1000
# pocketsphinx prints scores in logarithms to the base 1.0001, shifted right by 10 bits.
NATURAL = 1024 * math.log(1.0001)


def speak(text: str, index: int, path: Path) -> np.ndarray:
    """(samples,) at 16 kHz in [-1, 1]; the voices take turns."""
    subprocess.run(
        ["flite", "-voice", VOICES[index // 2 % len(VOICES)], "-t", text, "-o", path],
        check=True,
    )
    command = [
        "sox",
        "-D",
        path,
        "-r",
        str(RATE),
        "-e",
        "signed",
        "-b",
        "16",
        "-c",
        "1",
        "-t",
        "raw",
        "-",
    ]
    raw = subprocess.run(command, check=True, capture_output=True).stdout
    return np.frombuffer(raw, dtype=np.int16) / 32768


def add_noise(speech: np.ndarray, index: int, decibels: float) -> np.ndarray:
    """White noise at a signal-to-noise ratio of `decibels`, and a quarter of a second
    of it at both ends.
    """
    speech = np.pad(speech, RATE // 4)
    level = np.sqrt(np.mean(speech**2)) / 10 ** (decibels / 20)
    noisy = speech + np.random.default_rng(index).normal(0.0, level, len(speech))
    return 0.7 * noisy / np.abs(noisy).max()


def write_wave(path: Path, audio: np.ndarray) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((audio * 32767).astype(np.int16).tobytes())


def recognise(names: list[str], work: Path) -> None:
    """Leave work/NAME.hyp for every name: a path a line, words and score."""
    (work / "names").write_text("\n".join(names) + "\n", encoding="utf-8")
    audio = [
        "-adcin",
        "yes",
        "-adchdr",
        "44",
        "-cepext",
        ".wav",
        "-cepdir",
        work,
        "-ctl",
        work / "names",
    ]
    models = [
        "-hmm",
        MODEL / "en-us",
        "-lm",
        MODEL / "en-us.lm.bin",
        "-dict",
        MODEL / "cmudict-en-us.dict",
    ]
    output = ["-nbest", str(PATHS), "-nbestdir", work, "-logfn", "/dev/null"]
    subprocess.run(["pocketsphinx_batch", *audio, *models, *output], check=True)


def hypotheses(path: Path) -> list[tuple[str, float]]:
    """Up to BEST different texts and their natural-log scores, best first; of repeats
    the best score counts.
    """
    found: dict[str, float] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text, _, score = line.strip().rpartition(" ")
        found[text] = max(int(score) * NATURAL, found.get(text, -math.inf))
    return sorted(found.items(), key=lambda item: -item[1])[:BEST]


def main(decibels: float) -> None:
    work = HERE / "work"
    work.mkdir(exist_ok=True)
    sentences = (HERE / "sentences.txt").read_text(encoding="utf-8").splitlines()
    names = [
        f"demo-{'test' if index % 2 else 'dev'}-{index // 2 + 1:03d}"
        for index in range(len(sentences))
    ]
    for index, (name, text) in enumerate(zip(names, sentences, strict=True)):
        write_wave(
            work / f"{name}.wav",
            add_noise(speak(text, index, work / "clean.wav"), index, decibels),
        )
    recognise(names, work)
    for part in ("dev", "test"):
        lists = {}
        for name, text in zip(names, sentences, strict=True):
            found = hypotheses(work / f"{name}.hyp")
            if f"-{part}-" in name and found:
                ranked = enumerate(found, 1)
                lists[name] = {"ref": text} | {
                    f"hyp_{rank}": {"score": round(score, 4), "text": words}
                    for rank, (words, score) in ranked
                }
        (HERE / f"{part}.json").write_text(
            json.dumps(lists, indent=1) + "\n", encoding="utf-8"
        )
        print(
            f"{part}.json: {len(lists)} lists,"
            f" {sum(len(entry) - 1 for entry in lists.values())} hypotheses"
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 35.0)
