"""How fast a language model scores."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from rescore.errors import counted
from rescore.lms import LanguageModel, without_context
from rescore.nbest import NbestList
from rescore.parts import EMBEDDER, resolve
from rescore.scoring import OnProgress
from rescore.styles import as_json, save_plot, text
from rescore.version import VERSION

SENTENCES = 5


@dataclass(frozen=True, slots=True)
class ByLength:
    """The time of a single sentence with this number of words."""

    words: int
    milliseconds: float
    """Median; lower is better."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Of one model."""

    lm: str
    fingerprint: str
    """The model's content hash."""
    hypotheses: int
    """How many were scored, or got vectors."""
    seconds: float
    """For all of them, tokenising included; the fastest of several runs."""
    by_length: list[ByLength]

    @property
    def rate(self) -> float:
        """Hypotheses a second; higher is better."""
        return self.hypotheses / self.seconds


def measure(
    lm: LanguageModel,
    texts: Sequence[str],
    lengths: Sequence[int],
    repeats: int,
    progress: OnProgress = lambda done: None,
    vectors: bool = False,
) -> Speed:
    """Score texts together, and sentences of given numbers of words one at a time.

    Scores before the measurement warm up. Of several runs over the texts, the fastest counts; for sentences, cut out of
    the texts, the median counts.

    Args:
        progress: called with 1 after each of `repeats` and each of `lengths`.
        vectors: compute their vectors instead of their scores: hidden vectors that predict the tokens, and their mean.

    Raises:
        UserError: a model without vectors is asked for them.
    """
    work = resolve(EMBEDDER)([lm]).sentences if vectors else lambda sentences: lm.score(without_context(sentences))
    work(texts[:100])
    runs: list[float] = []
    for _ in range(repeats):
        runs.append(_seconds(work, texts))
        progress(1)
    words = " ".join(texts).split()
    by_length = []
    for length in lengths:
        starts = range(0, min(SENTENCES * length, len(words) - length + 1), length)
        times = [_seconds(work, [" ".join(words[start : start + length])]) for start in starts for _ in range(repeats)]
        if times:
            by_length.append(ByLength(length, 1000 * statistics.median(times)))
        progress(1)
    return Speed(
        lm=lm.name,
        fingerprint=lm.fingerprint,
        hypotheses=len(texts),
        seconds=min(runs),
        by_length=by_length,
    )


def sample(lists: Sequence[NbestList], number: int) -> list[str]:
    """At most `number` hypotheses of whole lists, evenly spread."""
    step = max(1, sum(len(nbest.hypotheses) for nbest in lists) // number)
    return [hypothesis.text for nbest in lists[::step] for hypothesis in nbest.hypotheses][:number]


def described(texts: Sequence[str]) -> str:
    """How many they are, and how long."""
    words = sum(len(text.split()) for text in texts) / len(texts)
    return f"{counted(len(texts), 'hypothesis')} of {words:.1f} words"


def machine() -> str:
    """A description of the machine."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"{counted(torch.get_num_threads(), 'thread')} of a CPU with {torch.backends.cpu.get_cpu_capability()}"


def _seconds(work: Callable[[Sequence[str]], object], texts: Sequence[str]) -> float:
    began = time.perf_counter()
    work(texts)
    return time.perf_counter() - began


def render(speeds: Sequence[Speed], about: str) -> str:
    """A table of all models, and one of milliseconds by length."""
    rows = [["", "hyp/s"]]
    for speed in speeds:
        rows.append([speed.lm, f"{speed.rate:,.0f}"])
    lengths = sorted({point.words for speed in speeds for point in speed.by_length})
    by_length = [["words", *(speed.lm for speed in speeds)]]
    for words in lengths:
        columns = [{point.words: point.milliseconds for point in speed.by_length} for speed in speeds]
        by_length.append([str(words), *(f"{times[words]:.2f}" if words in times else "" for times in columns)])
    tables = [about, "", text(rows)]
    if lengths:
        tables += ["", "milliseconds a sentence, one at a time", "", text(by_length)]
    return "\n".join(tables)


def plot(speeds: Sequence[Speed], path: Path) -> None:
    """Draw milliseconds against words, as PNG.

    Raises:
        UserError: matplotlib is not installed, or the file cannot be written.
    """

    def by_length(axes: Any) -> None:
        for speed in speeds:
            words = [point.words for point in speed.by_length]
            axes.plot(words, [point.milliseconds for point in speed.by_length], marker="o", label=speed.lm)
        axes.set_yscale("log")

    save_plot(path, "words in the sentence", "milliseconds", by_length)


def write(speeds: Sequence[Speed], about: str, file: IO[str]) -> None:
    """All figures in full precision, as JSON."""
    models = [asdict(speed) | {"rate": speed.rate} for speed in speeds]
    file.write(as_json({"about": about, "rescore": VERSION, "models": models}) + "\n")
