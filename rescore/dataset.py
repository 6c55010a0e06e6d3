"""A set of N-best lists of one file, of several files, or of a caller.

What holds for all lists of a set (columns, systems, sums or means) is asked here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from rescore.columns import FIRST_PASS, FROM_FILE, Column, Role
from rescore.content import content_digest, content_key, hash_of_set
from rescore.correlations import spearman, varies
from rescore.nbest import (
    NO_HEADER,
    Header,
    NbestList,
    are_samples,
    first_of_each_header,
)

LANGUAGE_MODELS = {"lm", "nnlm", "rnnlm", "ngram"}
"""What toolkits call the scores of language models in their names of components."""
FEWEST = 20
"""Lists that are enough to say how much scores differ within a list."""
SUMS_FALL = -0.2
"""Correlation with the length of texts above which scores are hardly sums."""
STANDARD_ERRORS = 2.0
"""Standard errors by which a correlation has to be above `SUMS_FALL`."""
ROUNDING = 1e-4
"""By which scores in a file may differ from the exact log of a rank."""


def united(headers: Sequence[Header]) -> Header:
    """Return what holds for a set whose lists have these headers.

    A column has its record in any of the files. If two files have different records of
    a column, the first record stands here, and the column cannot have a weight
    (`rescore.signature.column_records`). Lists are translations if a toolkit of
    translation wrote some of them. Their scores are means if all of them are means.

    Args:
        headers: The headers, in the order of the files. Messages name the first file.
            If lists were left out, each header has the number of the whole set.

    Returns:
        The header itself, if there is only one.
    """
    if not headers:
        return NO_HEADER
    first, *others = headers
    if not others:
        return first
    records: dict[str, Column] = {}
    for header in headers:
        for name, column in header.records.items():
            records.setdefault(name, column)
    return replace(
        first,
        records=records,
        translates=any(header.translates for header in headers),
        scores_are_means=all(header.scores_are_means for header in headers),
        left_out=max(header.left_out for header in headers),
    )


class Dataset(Sequence[NbestList]):
    """The lists of a file, of several files, or of a caller in Python.

    A set does not change. What holds for all of its lists is found once, when the set
    is made: its `header`. Each list keeps the header of its own file.
    """

    header: Header
    """What holds for all lists (`united`). The lists have the columns of the first
    list, or tuning and reports name the list that lacks one.
    """

    def __init__(
        self, lists: Iterable[NbestList] = (), header: Header | None = None
    ) -> None:
        """Make a set.

        Args:
            lists: The lists.
            header: What holds for all of them; None to find it in the lists.
        """
        self._lists = list(lists)
        if header is None:
            firsts = first_of_each_header(self._lists)
            header = united([nbest.header for nbest in firsts])
        self.header = header
        self._whole: tuple[Dataset, list[int]] | None = None

    @classmethod
    def of(cls, lists: Iterable[NbestList]) -> Dataset:
        """Return lists as a set. A set is returned as it is."""
        return lists if isinstance(lists, cls) else cls(lists)

    def with_lists(self, lists: Iterable[NbestList]) -> Dataset:
        """Return some of the lists, or the lists with other hypotheses, as a set for
        which the same holds.

        Args:
            lists: The lists.
        """
        return Dataset(lists, self.header)

    def part(self, places: Iterable[int]) -> Dataset:
        """Return the lists at some places, as a set that takes its `content_keys` and
        the digests of its `content_hash` from this set.

        Args:
            places: The places of the lists, from 0.
        """
        chosen = list(places)
        part = self.with_lists(self._lists[place] for place in chosen)
        part._whole = self, chosen
        return part

    def __len__(self) -> int:
        return len(self._lists)

    def __iter__(self) -> Iterator[NbestList]:
        return iter(self._lists)

    @overload
    def __getitem__(self, place: int) -> NbestList: ...

    @overload
    def __getitem__(self, place: slice) -> Dataset: ...

    def __getitem__(self, place: int | slice) -> NbestList | Dataset:
        if isinstance(place, slice):
            return self.with_lists(self._lists[place])
        return self._lists[place]

    def __eq__(self, other: object) -> bool:
        """Whether two sets, or a set and a list, have the same lists."""
        if not isinstance(other, Dataset | list):
            return NotImplemented
        return self._lists == list(other)

    __hash__ = None  # type: ignore[assignment]  # lists have no hash either

    def __repr__(self) -> str:
        return f"Dataset({self._lists!r})"

    @cached_property
    def content_keys(self) -> list[str]:
        """The key of each list (`rescore.content.content_key`), by which lists have an
        order that depends neither on ids nor on the file.
        """
        if self._whole is None:
            return list(map(content_key, self._lists))
        whole, places = self._whole
        return [whole.content_keys[place] for place in places]

    @property
    def content_hash(self) -> str:
        """Which lists these are: `rescore.content.content_hash` without further
        columns.
        """
        return hash_of_set(self._content_digests)

    @cached_property
    def _content_digests(self) -> list[str]:
        """The digest of each list (`rescore.content.content_digest`)."""
        if self._whole is None:
            return list(map(content_digest, self._lists))
        whole, places = self._whole
        return [whole._content_digests[place] for place in places]

    @cached_property
    def has_references(self) -> bool:
        """Whether a list has a reference."""
        return any(nbest.references for nbest in self._lists)

    @cached_property
    def have_choices(self) -> bool:
        """Whether a list has several hypotheses."""
        return any(len(nbest.hypotheses) > 1 for nbest in self._lists)

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

    @cached_property
    def are_translations(self) -> bool:
        """Whether the lists are translations: a toolkit of translation wrote some of
        them, or one has a source text that is not empty.
        """
        return self.header.translates or any(nbest.source for nbest in self._lists)

    @property
    def are_samples(self) -> bool:
        """Whether the lists are taken for samples, which have no order: each list is
        (`rescore.nbest.are_samples`). Lists of one hypothesis do not count.
        """
        several = [nbest for nbest in self if len(nbest.hypotheses) > 1]
        return bool(several) and all(map(are_samples, several))

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
        `SUMS_FALL` by `STANDARD_ERRORS`, so that few lists need a clear rise.
        False for fewer than `FEWEST` lists with scores, for ranks, and for lists of
        several systems.
        """
        if self.header.by_systems or self.is_order_only:
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
        return correlation - STANDARD_ERRORS / math.sqrt(len(scores) - 1) > SUMS_FALL

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
        if not self:
            return []
        names = self[0].column_names
        return [name for name in names if self.header.role(name) in roles]


NO_LISTS = Dataset()
"""A set without lists."""
