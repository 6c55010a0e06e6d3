"""A set of N-best lists of one origin.

What holds for all lists of a set (columns, systems, sums or means) is asked here. No
other code looks into the first list of a set.
"""

from __future__ import annotations

from collections.abc import Iterable

from rescore.columns import FROM_FILE, Role
from rescore.nbest import NO_HEADER, Header, NbestList


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
    def scores(self) -> list[str]:
        """The names of the scores of hypotheses, in the order of the file."""
        return list(self[0].hypotheses[0].scores) if self else []

    @property
    def model_columns(self) -> list[str]:
        """The columns that language models gave, as far as the lists record it; else
        all beside the first pass.

        A toolkit's own features are not tuned beside a language model that was added.
        """
        columns = self.columns(Role.LM)
        records = self.header.records
        of_models = []
        for name in columns:
            if name in records and records[name] != FROM_FILE:
                of_models.append(name)
        return of_models or columns

    def columns(self, *roles: Role) -> list[str]:
        """Return the names of the columns of some roles, in the order of the file."""
        return self[0].columns(*roles) if self else []
