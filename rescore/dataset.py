"""A set of N-best lists of one file or caller.

What holds for all lists of a set (columns, systems, sums or means) is asked here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from rescore.columns import FIRST_PASS, FROM_FILE, Role
from rescore.correlations import spearman, varies
from rescore.nbest import NO_HEADER, Header, NbestList

LANGUAGE_MODELS = {"lm", "nnlm", "rnnlm", "ngram"}
"""What toolkits call the scores of language models in their names of components."""
FEWEST = 20
"""Lists that are enough to say how much scores differ within a list."""
SUMS_FALL = -0.2
"""Correlation with the length of texts above which scores are hardly sums."""
ERRORS = 2.0
"""Standard errors by which a correlation has to be above `SUMS_FALL`."""
ROUNDING = 1e-4
"""By which scores in a file may differ from the exact log of a rank."""


class Dataset(list[NbestList]):
    """The lists of a file, of several files, or of a caller in Python."""

    @classmethod
    def of(cls, lists: Iterable[NbestList]) -> Dataset:
        """Return lists as a set. A set is returned as it is."""
        return lists if isinstance(lists, cls) else cls(lists)

    @property
    def header(self) -> Header:
        """What the first list knows about its file; the other lists have the same
        columns, or tuning and reports name the list that lacks one.
        """
        return self[0].header if self else NO_HEADER

    @property
    def score_names(self) -> list[str]:
        """The names of the scores of hypotheses, in the order of the file."""
        return list(self[0].hypotheses[0].scores) if self else []

    @property
    def model_columns(self) -> list[str]:
        """The columns that language models gave, as far as the lists record it; else
        all columns of the role of models.

        If a user gives a single number as weight (`border.as_weights`), it is the
        weight of these columns.
        """
        columns = self.columns(Role.LM)
        own = self.own_columns
        of_models = [name for name in columns if name not in own]
        return of_models or columns

    @property
    def own_columns(self) -> list[str]:
        """The columns of scores that the file itself has: no record says that a
        language model of this package or a toolkit gave them.
        """
        records = self.header.records
        own = []
        for name in self.columns(Role.LM):
            if records.get(name, FROM_FILE) == FROM_FILE:
                own.append(name)
        return own

    @property
    def is_order_only(self) -> bool:
        """Whether the first pass is the order of the lists: minus the natural log of
        the rank, as for lists without scores. Lists of one hypothesis do not count.
        """
        several = [scores for scores in self._first_pass() if len(scores) > 1]
        for scores in several:
            ranks = -np.log(np.arange(1, len(scores) + 1))
            if not np.allclose(np.sort(scores)[::-1], ranks, atol=ROUNDING):
                return False
        return bool(several)

    @property
    def first_pass_lm(self) -> str:
        """The name of the component of the first pass that is a language model's score,
        such as ESPnet's `lm`; empty if no component is known to be such a score.
        """
        for name in self.columns(Role.COMPONENT):
            parts = re.split(r"[^a-z]+", name.lower())
            if not LANGUAGE_MODELS.isdisjoint(parts):
                return name
        return ""

    @property
    def spread(self) -> float | None:
        """The standard deviation of first-pass scores within a list, in nats, as the
        mean over lists; None for fewer than `FEWEST` lists of several hypotheses.
        """
        deviations = []
        for scores in self._first_pass():
            finite = scores[np.isfinite(scores)]
            if len(finite) > 1:
                deviations.append(finite.std())
        return float(np.mean(deviations)) if len(deviations) >= FEWEST else None

    @property
    def look_like_means(self) -> bool:
        """Whether first-pass scores look like means over tokens: they do not fall with
        the length of the text, as sums of log-probabilities do.

        Spearman's correlation of the medians of lists decides. It has to be above
        `SUMS_FALL` by `ERRORS` standard errors, so that few lists need a clear rise.
        False for fewer than `FEWEST` lists with scores, for ranks, and for lists of
        several systems.
        """
        if self.header.systems or self.is_order_only:
            return False
        scores = []
        lengths = []
        for nbest, own in zip(self, self._first_pass(), strict=True):
            finite = own[np.isfinite(own)]
            if len(finite):
                scores.append(np.median(finite))
                lengths.append(np.mean([len(one.text) for one in nbest.hypotheses]))
        columns = np.array(scores), np.array(lengths)
        if len(scores) < FEWEST or not all(map(varies, columns)):
            return False
        correlation = spearman(*columns)
        return correlation - ERRORS / math.sqrt(len(scores) - 1) > SUMS_FALL

    def _first_pass(self) -> Iterator[npt.NDArray[np.float64]]:
        """Yield the first-pass scores of each list, as far as hypotheses have one."""
        for nbest in self:
            scores = []
            for hypothesis in nbest.hypotheses:
                if FIRST_PASS in hypothesis.scores:
                    scores.append(hypothesis.scores[FIRST_PASS])
            yield np.array(scores, dtype=np.float64)

    def columns(self, *roles: Role) -> list[str]:
        """Return the names of the columns of some roles, in the order of the file."""
        return self[0].columns(*roles) if self else []
