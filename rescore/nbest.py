"""N-best lists of hypotheses: scores in columns, and the record of each column."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

from rescore.columns import (
    FIRST_PASS,
    FIRST_PASS_ORIGIN,
    FORMER_FIRST_PASS,
    SUM,
    WORDS,
    Column,
    Role,
    advice,
    comes_from_expansion,
    found_columns,
    new_word_origins,
    role_of_name,
)
from rescore.errors import UserError, counted
from rescore.readings import Readings, Text

Item = TypeVar("Item")


@lru_cache(maxsize=8)
def _counter(cut_words: Callable[[str], Sequence[str]]) -> Callable[[str], float]:
    """Return a function that counts the words of a text, of each text once."""

    @lru_cache(maxsize=1 << 18)
    def number_of_words(text: str) -> float:
        return float(len(cut_words(text)))

    return number_of_words


@dataclass(slots=True)
class Hypothesis:
    """One candidate: `text` as the toolkit meant a person to read it, `scores` in
    natural log, higher is better.
    """

    text: str
    scores: dict[str, float] = field(default_factory=dict)
    origin: str = FIRST_PASS_ORIGIN
    """Who proposed it; set once, where the hypothesis is made."""
    times: tuple[tuple[float, float], ...] = ()
    """Start and end in the recording, in seconds, of each word (of Chinese, Japanese
    and Thai, of each letter: `rescore.formats.times.timed_pieces`); empty where the
    toolkit gave none.
    """
    rank: int | None = None
    """The index in the toolkit's list, from 0, if reranking changed the order: it
    decides between equal first-pass scores. None for a list in the toolkit's order.
    """
    alignment: str = ""
    """The cells that the toolkit wrote behind the score, such as the alignment with the
    source (Moses: `0-0 1-2`); empty without them.
    """
    combined: float | None = None
    """The combined score that a reranked list is sorted by; None in a list that was not
    reranked. Files rank by it, and have the first pass beside it.
    """
    alternatives: Text = field(default=(), compare=False)
    """The output of a file with the alternatives of sclite, of which `text` has one
    each until a metric chooses (`rescore.metrics.base.aligned_outputs`); empty for a
    text without alternatives, and not written.
    """


@dataclass(frozen=True, slots=True)
class Audio:
    """Where the sound of an utterance is; `rescore.formats.audio` reads it when a model
    listens.
    """

    path: str
    """Of an audio file; empty for a recording that is missing or cannot be used, which
    says nothing about a text.
    """
    start: float = 0.0
    end: float | None = None
    """The part of the file, in seconds; None for its end."""
    content: bytes | None = field(default=None, repr=False)
    """The file itself, where a list brought it."""
    name: str = field(default="", compare=False)
    """The id of the utterance, for messages."""
    optional: bool = field(default=False, compare=False)
    """Whether a warning is enough if models cannot hear it (--allow-missing)."""


NO_AUDIO = Audio("")
"""A recording that is missing or cannot be used, where --allow-missing goes on
without it.
"""


@dataclass(frozen=True, slots=True)
class Header:
    """What holds for all lists of a file, or of a stage. It is found once, when lists
    are read or handed over (`rescore/border.py`).
    """

    name: str = field(default="", compare=False)
    """The file, for messages; empty for lists of no file."""
    records: Mapping[str, Column] = field(default_factory=dict)
    """The record of each column, by the column's name, as far as it is known. A reader
    may add to it while it reads.
    """
    translates: bool = False
    """Whether a toolkit of translation wrote the lists: BLEU measures them."""
    scores_are_means: bool = False
    """Whether first-pass scores are means over tokens, as fairseq's."""
    left_out: int = field(default=0, compare=False)
    """Lists of the set that are left out, because they have no reference."""
    cut_words: Callable[[str], Sequence[str]] = field(default=str.split, compare=False)
    """Cuts a text into the words that the column `words` counts; a plan sets it to the
    normaliser of its metric.
    """
    are_references_chosen: bool = field(default=False, compare=False)
    """Whether the references had alternatives, of which those are left that are closest
    to the output.
    """

    @property
    def prefix(self) -> str:
        """The file with a colon and a blank, for messages; empty for no file."""
        return f"{self.name}: " if self.name else ""

    @property
    def systems(self) -> list[str]:
        """The names of the systems that wrote the lists together."""
        records = self.records.items()
        return [name for name, column in records if column.role is Role.SYSTEM]

    @property
    def by_systems(self) -> bool:
        """Whether several systems wrote the lists together: such lists have no first
        pass of their own.
        """
        return bool(self.systems)

    def role(self, name: str) -> Role:
        """Return what a column is: as its record says, else as its name does."""
        column = self.records.get(name)
        if column is not None:
            return column.role
        return role_of_name(name)

    def with_records(self, records: Mapping[str, Column]) -> Header:
        """Return the header with further records of columns."""
        return replace(self, records={**self.records, **records})


NO_HEADER = Header()
"""Of lists that no file and no stage has described."""


@dataclass(slots=True, repr=False)
class NbestList:
    """The hypotheses of one utterance (or source sentence), in the order of the
    file.
    """

    id: str
    hypotheses: list[Hypothesis]
    references: tuple[str, ...] = ()
    source: str | None = None
    header: Header = NO_HEADER
    """What holds for all lists of its file or stage; one object for all of them."""
    recording: str | None = None
    """What the utterance is a part of; None where its id says so
    (`rescore.lms.context`).
    """
    audio: Audio | None = None
    place: str = field(default="", compare=False)
    """The file and the line where the list begins, for messages; empty if no message
    needs them.
    """
    fields: Mapping[str, str] = field(default_factory=dict)
    """Further facts about the utterance, such as its speaker, accent or channel: what
    `--by` groups figures by.
    """

    @property
    def facts(self) -> Mapping[str, str]:
        """The fields; the name of the recording is one of them."""
        if self.recording is None:
            return self.fields
        return {"recording": self.recording, **self.fields}

    def __post_init__(self) -> None:
        """
        Raises:
            UserError: the references are one text, which would be read letter by
            letter.
        """
        if type(self.references) is tuple:  # nearly always, and quickly seen
            return
        if isinstance(self.references, str):
            raise UserError(
                f"utterance {self.id}: references is the text {self.references[:40]!r};"
                f" give a tuple of texts, such as ({self.references[:40]!r},)"
            )
        if not isinstance(self.references, Iterable):
            raise UserError(
                f"utterance {self.id}: references is {self.references!r}; give a tuple"
                " of texts, () for none"
            )
        if not isinstance(self.references, Readings):
            self.references = tuple(self.references)

    def __repr__(self) -> str:
        """One line: the rest is in the fields."""
        first = f", {self.hypotheses[0].text[:60]!r}" if self.hypotheses else ""
        return (
            f"<NbestList {self.id}:"
            f" {counted(len(self.hypotheses), 'hypothesis')}{first}>"
        )

    @property
    def title(self) -> str:
        """The file and the utterance, for messages."""
        return f"{self.header.prefix}utterance {self.id}"

    @property
    def column_names(self) -> list[str]:
        """The names of the columns that any hypothesis has, in the order of the
        file.
        """
        names: dict[str, None] = {}
        for hypothesis in self.hypotheses:
            names |= dict.fromkeys(hypothesis.scores)
        return list(names)

    def column(self, name: str) -> list[float]:
        """Return the scores of one column, in the order of the hypotheses.

        Args:
            name: The column.

        Returns:
            A score for each hypothesis. A part of the toolkit's own score is 0 where a
            hypothesis lacks it. The column `words` is counted if the list lacks it.

        Raises:
            UserError: A hypothesis has no such score, and the column is no part of the
                toolkit's own score.
        """
        if name == WORDS and WORDS not in self.hypotheses[0].scores:
            number_of_words = _counter(self.header.cut_words)
            return [number_of_words(one.text) for one in self.hypotheses]
        column = self.header.records.get(name)
        try:
            if column is not None and column.is_component:
                return [
                    hypothesis.scores.get(name, 0.0) for hypothesis in self.hypotheses
                ]
            return [hypothesis.scores[name] for hypothesis in self.hypotheses]
        except KeyError:
            present = {
                key for hypothesis in self.hypotheses for key in hypothesis.scores
            }
            where = ""
            if name in present:
                lacking = sum(name not in one.scores for one in self.hypotheses)
                where = (
                    f" in {lacking} of {counted(len(self.hypotheses), 'hypothesis')}"
                )
            raise UserError(
                f"utterance {self.id}: no score {name!r}{where}"
                f" {found_columns(name, present)}; {advice(name)}"
            ) from None

    def role(self, name: str) -> Role:
        """Return what a column is: as its record says, else as its name does."""
        return self.header.role(name)

    def columns(self, *roles: Role) -> list[str]:
        """Return the names of the columns of some roles, in the order of the file."""
        return [name for name in self.column_names if self.role(name) in roles]


def check_scores(nbest: NbestList, place: str) -> None:
    """See that a list has hypotheses, and that each score is a number.

    Args:
        nbest: The list.
        place: The place of the list, for the message.

    Raises:
        UserError: There is no hypothesis, or a score is no number, NaN or plus
            infinity.
    """
    if not nbest.hypotheses:
        raise UserError(f"{place}: no hypotheses; give each list one or more")
    for number, hypothesis in enumerate(nbest.hypotheses, 1):
        scores = hypothesis.scores
        if hypothesis.combined is not None:
            scores = {**scores, "combined": hypothesis.combined}
        for name, score in scores.items():
            try:
                usable = score < math.inf  # NaN is not, either
            except TypeError:
                raise UserError(
                    f"{place}, hypothesis {number}: score {name} is {score!r}; give a"
                    " number, natural log"
                ) from None
            if not usable:
                raise UserError(
                    f"{place}, hypothesis {number}: score {name} is {score}; decode it"
                    " again or remove it"
                )


def own_indices(nbest: NbestList) -> list[int]:
    """Return the indices of the toolkit's own hypotheses; all indices in a list that
    has none.
    """
    own = [
        index
        for index, hypothesis in enumerate(nbest.hypotheses)
        if hypothesis.origin == FIRST_PASS_ORIGIN
    ]
    return own or list(range(len(nbest.hypotheses)))


def new_word_origins_in(
    lists: Iterable[NbestList], header: Header, columns: Collection[str]
) -> list[str]:
    """Return the origins with new words that may occur in lists.

    Args:
        lists: The lists.
        header: Their header.
        columns: The names of the columns in use. If an expansion added one of them, the
            result is all origins with new words, though the expansion may have proposed
            nothing for these lists; else it is the origins of the hypotheses.
    """
    present = {hypothesis.origin for nbest in lists for hypothesis in nbest.hypotheses}
    if any(comes_from_expansion(name, header.records.get(name)) for name in columns):
        return list(new_word_origins())
    return [origin for origin in new_word_origins() if origin in present]


def columns_for(
    header: Header, columns: Iterable[str], origins: Collection[str]
) -> list[str]:
    """Return the columns; without the columns of expansions if no hypotheses with new
    words may win.

    Args:
        header: The header of the lists.
        columns: The columns.
        origins: The origins with new words that may win.
    """
    return [
        name
        for name in columns
        if origins or not comes_from_expansion(name, header.records.get(name))
    ]


def tie_order(nbest: NbestList) -> list[int]:
    """Return all indices in the order in which equals win: the toolkit's own hypotheses
    first, then the better first pass, then the toolkit's order.

    A new hypothesis has the first-pass score of the hypothesis that it came from,
    and lists are read in any order, also reranked ones, so the order of the file alone
    would decide by accident. Between hypotheses with equal first-pass scores, the order
    of the file is the toolkit's.
    """
    # `tie_key` and the rank. Sorts are stable, so the last key sorts first, and numbers
    # sort faster than tuples: deep lists are put in order often.
    hypotheses = nbest.hypotheses
    order = list(range(len(hypotheses)))
    ranks = [each.rank or 0 for each in hypotheses]
    if any(ranks):
        order.sort(key=ranks.__getitem__)
    first_pass = [each.scores.get(FIRST_PASS, -math.inf) for each in hypotheses]
    order.sort(key=first_pass.__getitem__, reverse=True)  # equals keep their order
    is_new = [each.origin != FIRST_PASS_ORIGIN for each in hypotheses]
    if any(is_new):
        order.sort(key=is_new.__getitem__)
    return order


def tie_key(hypothesis: Hypothesis) -> tuple[bool, float]:
    """Return a key by which equal hypotheses are sorted: the toolkit's own come first,
    then the better first pass.

    Args:
        hypothesis: The hypothesis.
    """
    first_pass = hypothesis.scores.get(FIRST_PASS, -math.inf)
    return hypothesis.origin != FIRST_PASS_ORIGIN, -first_pass


def ranking(nbest: NbestList, scores: Sequence[float]) -> list[int]:
    """Return all indices, the best first: the rule for order and ties. Code that picks
    the first of equals uses `tie_order`.

    The higher score comes first; equal scores are in `tie_order`.
    """
    return sorted(tie_order(nbest), key=scores.__getitem__, reverse=True)


def as_first_pass(nbest: NbestList) -> NbestList:
    """Return a reranked list as if a toolkit had written it: the combined score becomes
    the first pass, and the old first pass the column `first`. The order stays. A list
    that was not reranked is returned as it is.

    Args:
        nbest: The list.
    """
    hypotheses = []
    for hypothesis in nbest.hypotheses:
        if hypothesis.combined is None:
            return nbest
        scores = dict(hypothesis.scores)
        scores[FORMER_FIRST_PASS] = scores[FIRST_PASS]
        scores[FIRST_PASS] = hypothesis.combined
        hypotheses.append(replace(hypothesis, scores=scores, rank=None, combined=None))
    return replace(nbest, hypotheses=hypotheses)


def ranked_by(hypothesis: Hypothesis) -> tuple[float, dict[str, float]]:
    """Return the score by which a file ranks a hypothesis, and the scores beside it: in
    a reranked list the combined score, and the first pass among the others.

    Args:
        hypothesis: The hypothesis.
    """
    beside = dict(hypothesis.scores)
    if hypothesis.combined is not None:
        return hypothesis.combined, beside
    return beside.pop(FIRST_PASS), beside


def as_ranked(score: float, beside: Mapping[str, float]) -> dict[str, Any]:
    """Return the fields `scores` and `combined` of a hypothesis whose file has the
    scores that `ranked_by` returns.

    Args:
        score: The score by which the file ranks.
        beside: The scores beside it.
    """
    if FIRST_PASS in beside:
        return {"scores": dict(beside), "combined": score}
    return {"scores": {FIRST_PASS: score, **beside}, "combined": None}


def in_tie_order(nbest: NbestList) -> NbestList:
    """Return the list with its hypotheses in `tie_order`, so that the first of equals
    is the right choice.
    """
    order = tie_order(nbest)
    if order == sorted(order):
        return nbest
    return replace(nbest, hypotheses=[nbest.hypotheses[index] for index in order])


def in_parts(
    items: Iterable[Item], most: int, size: Callable[[Item], int] = lambda item: 1
) -> Iterator[list[Item]]:
    """Yield the items in parts that are worked on together.

    Args:
        items: The items.
        most: The largest size of a part of several items.
        size: The size of an item.
    """
    part: list[Item] = []
    total = 0
    for item in items:
        total += size(item)
        if part and total > most:
            yield part
            part, total = [], size(item)
        part.append(item)
    if part:
        yield part


def without_copies(
    nbest: NbestList, columns: Collection[str] = (FIRST_PASS,)
) -> NbestList:
    """Return the list with each hypothesis once: of equal texts with equal scores the
    first that wins (`tie_order`).

    Equal texts with different scores stay: they are different paths, as of subwords,
    whose probabilities add up. Double blanks, which no metric counts, make no other
    text. A list of one system whose first-pass scores are all equal is taken for
    samples, which stay: a text that was drawn twice counts twice.

    Args:
        nbest: The list.
        columns: The columns whose scores are compared: those that have a weight. Others
            say nothing.
    """
    texts = _compared_texts(nbest)
    if len(set(texts)) == len(texts) or are_samples(nbest):
        return nbest
    names = dict.fromkeys([*columns, *nbest.header.systems])
    kept: dict[tuple[object, ...], int] = {}
    for index in tie_order(nbest):
        own = nbest.hypotheses[index].scores
        scores = [own.get(name) for name in names]
        kept.setdefault((texts[index], *scores), index)
    # the toolkit's order stays: it decides between equal scores
    hypotheses = [nbest.hypotheses[index] for index in sorted(kept.values())]
    return replace(nbest, hypotheses=hypotheses)


def are_samples(nbest: NbestList) -> bool:
    """Return whether a list is taken for samples of a model: all first-pass scores are
    equal. Texts of several systems may have equal scores, too.
    """
    if nbest.header.by_systems:
        return False
    scores = {hypothesis.scores.get(FIRST_PASS) for hypothesis in nbest.hypotheses}
    return len(scores) == 1


def copies_differ(nbest: NbestList, columns: Collection[str]) -> bool:
    """Return whether equal texts have different scores.

    Args:
        nbest: The list.
        columns: The columns whose scores are compared.
    """
    texts = _compared_texts(nbest)
    number = len(set(texts))
    if number == len(texts):  # almost all lists
        return False
    distinct: set[tuple[object, ...]] = set()
    for text, hypothesis in zip(texts, nbest.hypotheses, strict=True):
        distinct.add((text, *map(hypothesis.scores.get, columns)))
    return len(distinct) > number


def _compared_texts(nbest: NbestList) -> list[str]:
    """Return the text of each hypothesis by `with_single_blanks`."""
    texts = [hypothesis.text.strip() for hypothesis in nbest.hypotheses]
    if "  " not in "\n".join(texts):  # almost all lists
        return texts
    return list(map(with_single_blanks, texts))


def with_single_blanks(text: str) -> str:
    """Return a text with one blank between two words, and none around them."""
    text = text.strip()
    if "  " not in text:  # almost all texts
        return text
    return " ".join(text.split())


def are_means(nbest: NbestList) -> bool:
    """Return whether the first-pass scores are means over tokens: each own hypothesis
    has the column `sum` beside them.

    A column `sum` that has a record comes from elsewhere and does not count. Nor does
    it if --s2s made another column the first pass.
    """
    if nbest.header.records.get(SUM) is not None:
        return False
    own = [nbest.hypotheses[index].scores for index in own_indices(nbest)]
    return all(SUM in scores and FORMER_FIRST_PASS not in scores for scores in own)


def first_of_each_header(lists: Iterable[NbestList]) -> Iterator[NbestList]:
    """Yield the first list of each header: what one header says is checked once, and a
    message names this list.

    Args:
        lists: The lists. The lists of a file share one header.
    """
    known: dict[int, Header] = {}
    for nbest in lists:
        header = nbest.header
        if id(header) not in known:
            known[id(header)] = header
            yield nbest


class SharedChange:
    """Changes the headers of a stream of lists: successive lists that share a header
    share the new one.
    """

    def __init__(self, changed: Callable[[Header], Header]) -> None:
        """Make a change.

        Args:
            changed: Returns the new header of an old one.
        """
        self._changed = changed
        self._before: Header | None = None
        self._after = NO_HEADER

    def __call__(self, header: Header) -> Header:
        """Return the new header of an old one."""
        if header is not self._before:
            self._before = header
            self._after = self._changed(header)
        return self._after


def with_header(
    lists: Iterable[NbestList], changed: Callable[[Header], Header]
) -> Iterator[NbestList]:
    """Yield lists with a changed header; lists that shared one share the new one.

    Args:
        lists: The lists.
        changed: Returns the new header of an old one.
    """
    change = SharedChange(changed)
    for nbest in lists:
        yield replace(nbest, header=change(nbest.header))


def with_left_out(lists: Iterable[NbestList], number: int) -> list[NbestList]:
    """Return lists that know that further lists of their set were left out.

    Args:
        lists: The lists that stay.
        number: The number of the others.
    """
    if number == 0:
        return list(lists)
    return list(
        with_header(
            lists, lambda header: replace(header, left_out=header.left_out + number)
        )
    )


def expansion_columns(nbest: NbestList) -> list[str]:
    """Return the names of the columns that expansions added to a list."""
    return sorted(
        name
        for name in nbest.columns(*Role)
        if comes_from_expansion(name, nbest.header.records.get(name))
    )
