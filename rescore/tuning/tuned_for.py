"""What weights were tuned for: kept with them, so that what applies them measures in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rescore.errors import UserError
from rescore.metrics import Metric, MetricOptions, Normaliser
from rescore.metrics.glm import Glm
from rescore.metrics.normalise import FLAGS, WordList

Content = TypeVar("Content", Glm, WordList)


@dataclass(frozen=True, slots=True)
class UsedFile:
    """A file that a metric reads."""

    path: str
    digest: str
    """Of its content."""

    @classmethod
    def of(cls, content: Glm | WordList | None) -> UsedFile | None:
        return cls(content.path, content.digest) if content else None

    def checked(self, content: Content) -> Content:
        """What was read there now, if it is the same.

        Raises:
            UserError: it is not.
        """
        if content.digest != self.digest:
            raise UserError(
                f"{self.path}: is not the file that the weights were tuned with, or was read by other rules then; "
                "tune again"
            )
        return content


@dataclass(frozen=True, slots=True)
class TunedFor:
    """The metric that weights were tuned for, and how it counts: what applies them then measures the same way."""

    metric: str
    """A name of `rescore.metrics.METRICS`."""
    tokenise: str | None = None
    """sacreBLEU's tokenizer, for BLEU."""
    value: float | None = None
    """The metric on the tuning lists with these weights, in percent."""
    first_pass: float | None = None
    """The metric of their first pass, in percent."""
    utterances: int | None = None
    low: float | None = None
    """A single weight is as good from here ..."""
    high: float | None = None
    """... to here."""
    normaliser: tuple[str, ...] = ()
    """What counts as the same word: the `FLAGS` of the `Normaliser` that are on, such as `case_sensitive`."""
    glm: UsedFile | None = None
    """Its global mapping file."""
    words: UsedFile | None = None
    """The words that BWER counts."""
    model: str | None = None
    """The folder of COMET's model."""

    @classmethod
    def by(cls, metric: Metric, value: float, first_pass: float, utterances: int) -> TunedFor:
        """A metric with all its options, and what it gave."""
        options = metric.options
        return cls(
            metric.name.lower(), options.tokenise, value, first_pass, utterances, normaliser=options.normaliser.flags,
            glm=UsedFile.of(options.normaliser.glm), words=UsedFile.of(options.words), model=options.model,
        )  # fmt: skip

    @property
    def options(self) -> MetricOptions:
        """What makes the same metric again.

        Raises:
            UserError: a file is absent, or another one now.
        """
        unknown = sorted(set(self.normaliser) - set(FLAGS))
        if unknown:
            raise UserError(f"weights are tuned with {unknown[0]}, which is none of {', '.join(FLAGS)}; tune again")
        glm = self.glm.checked(Glm.load(Path(self.glm.path))) if self.glm else None
        words = self.words.checked(WordList.load(Path(self.words.path))) if self.words else None
        flags = dict.fromkeys(self.normaliser, True)
        return MetricOptions(self.tokenise, Normaliser(**flags, glm=glm), self.model, words)
