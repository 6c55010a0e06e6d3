"""Word error rates of recordings with several speakers, as meeteval counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from types import ModuleType
from typing import Any

import numpy as np

from rescore.asr.sessions import is_session, segments_of
from rescore.errors import UserError, installed_by
from rescore.metrics.base import SESSION, Counts
from rescore.metrics.normalise import NormalisedWords
from rescore.metrics.wer import ErrorRate
from rescore.options import option, settings_of


@cache
def _meeteval() -> ModuleType:
    """Return the package meeteval.

    Raises:
        UserError: It is not installed.
    """
    try:
        import meeteval
    except ImportError:
        raise UserError(
            "--metric cpwer and tcpwer need the package meeteval;"
            f" {installed_by('meeteval')}"
        ) from None
    return meeteval


class SpeakersErrorRate(ErrorRate):
    """The word error rate with the best assignment of the output's speakers to the
    reference's speakers (concatenated minimum-permutation, cpWER).

    The words of a speaker are joined in the order of their segments. An utterance is a
    recording.
    """

    name = "cpWER"
    reads = SESSION
    pair_losses = None  # type: ignore[assignment]
    least_losses = None  # type: ignore[assignment]

    @dataclass(frozen=True, kw_only=True)
    class Options(NormalisedWords):
        pass

    @classmethod
    def choose(cls, options: Any, references: Sequence[str]) -> SpeakersErrorRate:
        """Return the metric.

        Args:
            options: Options of the class `Options`.
            references: The references.

        Raises:
            UserError: A reference has no speakers.
        """
        metric = cls(options)
        if metric.words.open_asr:
            raise UserError(
                f"--open-asr: meeteval counts {metric.name}; leave the option out"
            )
        if not all(map(is_session, references)):
            raise UserError(
                f"--metric {metric.name.lower()}: no speakers in the references; only"
                " `rescore eval OUTPUT --ref REF` reads SegLST, STM, CTM and RTTM"
            )
        return metric

    @property
    def settings(self) -> dict[str, str]:
        own = settings_of(self.options, without=NormalisedWords)
        return self.words.settings | {"tok": self.words.unit} | own

    @property
    def versions(self) -> dict[str, str]:
        _meeteval()
        return {"meeteval": version("meeteval")}

    def said(self, text: str) -> str:
        return "\n".join(segment.text for segment in segments_of(text))

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        rows = []
        for reference, hypothesis in zip(references, hypotheses, strict=True):
            errors = self._errors_of(self._seglst(reference), self._seglst(hypothesis))
            counts = [errors.substitutions, errors.deletions, errors.insertions]
            rows.append([*counts, errors.length])
        return np.array(rows, dtype=np.int64).reshape(-1, 4)

    def _seglst(self, text: str) -> Any:
        """Return a session as meeteval has it, with the words of the normaliser."""
        entries = []
        for segment in segments_of(text):
            entry: dict[str, Any] = {
                "session_id": "session",
                "speaker": segment.speaker,
                "words": " ".join(self.words(segment.text)),
            }
            if segment.span is not None:
                entry["start_time"], entry["end_time"] = segment.span
            entries.append(entry)
        return _meeteval().io.SegLST(entries)

    def _errors_of(self, reference: Any, hypothesis: Any) -> Any:
        """Return meeteval's counts of a session."""
        return _meeteval().wer.cp_word_error_rate(reference, hypothesis)


class TimedSpeakersErrorRate(SpeakersErrorRate):
    """cpWER in which words match only if their times are close (tcpWER)."""

    name = "tcpWER"

    @dataclass(frozen=True, kw_only=True)
    class Options(SpeakersErrorRate.Options):
        collar: float = option(
            5.0,
            "tcpWER: seconds by which the times of equal words may differ.",
            low=0,
            metavar="SECONDS",
        )

    @classmethod
    def choose(cls, options: Any, references: Sequence[str]) -> SpeakersErrorRate:
        """Return the metric.

        Args:
            options: Options of the class `Options`.
            references: The references.

        Raises:
            UserError: A reference has no speakers or no times.
        """
        for text in references:
            if is_session(text):
                _check_times(text, "references")
        return super().choose(options, references)

    def _errors_of(self, reference: Any, hypothesis: Any) -> Any:
        count = _meeteval().wer.time_constrained_minimum_permutation_word_error_rate
        return count(reference, hypothesis, collar=self.options.collar)

    def _count(self, references: list[str], hypotheses: list[str]) -> Counts:
        for text in hypotheses:
            _check_times(text, "output")
        return super()._count(references, hypotheses)


def _check_times(text: str, what: str) -> None:
    """Raise an error if a segment of a session has no times."""
    for segment in segments_of(text):
        if segment.span is None:
            raise UserError(
                f"--metric tcpwer: a segment of speaker {segment.speaker} in the {what}"
                " has no start_time and end_time; give --metric cpwer"
            )
