"""Several files of one model's lists: parts of a decode with the same ids, or samples
of other seeds. `--merge` unites the hypotheses of an id over files, and `--group-ids`
the lists of a file whose ids share a part.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from rescore.dataset import Dataset, united
from rescore.errors import OptionError, UserError, counted
from rescore.formats.id_groups import groups_of_ids
from rescore.ids import is_part_of_path, plain_id
from rescore.nbest import Header, Hypothesis, NbestList, tie_key

log = logging.getLogger(__name__)

Fact = TypeVar("Fact")


def check_several(groups: Iterable[Sequence[str | Path]], option: str) -> None:
    """See that some lists stand in several files, which can be merged.

    Args:
        groups: The paths that are read together, for each set of lists.
        option: The option, as the user knows it.

    Raises:
        OptionError: Each set is a single file.
    """
    for paths in groups:
        if len(paths) > 1 or any(Path(path).is_dir() for path in paths):
            return
    raise OptionError(f"{option} needs several files of lists")


def merged(lists: Iterable[NbestList]) -> Iterator[NbestList]:
    """Yield each utterance once, with the hypotheses of all its lists, in the order in
    which the utterances appear first. All lists are read before the first is yielded.

    Args:
        lists: The lists of several files; lists with one id are of different files.

    Raises:
        UserError: Lists with one id contradict each other.
    """
    known: dict[str, NbestList] = {}
    lists_of_id: dict[str, int] = {}
    dropped = 0
    for nbest in lists:
        first = known.get(nbest.id)
        lists_of_id[nbest.id] = lists_of_id.get(nbest.id, 0) + 1
        if first is None:
            known[nbest.id] = nbest
            continue
        both = _united(first, nbest, _once)
        before = len(first.hypotheses) + len(nbest.hypotheses)
        dropped += before - len(both.hypotheses)
        known[nbest.id] = both
    _warn_of_alike(known)
    numbers = [number for number in lists_of_id.values() if number > 1]
    log.info(
        "--merge unites %s of %s, and drops %s",
        counted(sum(numbers), "list"),
        counted(len(numbers), "utterance"),
        counted(dropped, "equal text"),
    )
    yield from known.values()


def grouped(lists: Iterable[NbestList], pattern: str) -> Iterator[NbestList]:
    """Yield one list for all lists whose ids share a part, such as the samples of a
    question, with this part as its id. Groups have the order of their first lists, and
    hypotheses the order of their lists. All lists are read before the first is yielded.

    Equal texts stay: each is a sample.

    Args:
        lists: The lists.
        pattern: A regular expression of RE2, whose first group is the part.

    Raises:
        UserError: The expression is invalid, has no group, or does not match an id; or
            lists of a group contradict each other.
    """
    every = list(lists)
    ids = [nbest.id for nbest in every]
    parts = groups_of_ids(ids, pattern, f"--group-ids {pattern}", needs_group=True)
    groups: dict[str, NbestList] = {}
    for part, nbest in zip(parts, every, strict=True):
        if part in groups:
            groups[part] = _united(groups[part], nbest, _without_ranks)
        else:
            groups[part] = replace(nbest, id=part)
    log.info(
        "--group-ids unites %s to %s of %s%s",
        counted(len(every), "list"),
        counted(len(groups), "list"),
        _sizes(groups.values()),
        ", samples with equal scores" if Dataset(groups.values()).are_samples else "",
    )
    yield from groups.values()


def _sizes(lists: Iterable[NbestList]) -> str:
    """Return how many hypotheses lists have, such as `4 to 5 hypotheses`."""
    sizes = [len(nbest.hypotheses) for nbest in lists]
    least, most = min(sizes), max(sizes)
    if least == most:
        return counted(most, "hypothesis")
    return f"{least} to {counted(most, 'hypothesis')}"


def _warn_of_alike(ids: Iterable[str]) -> None:
    """Warn of ids that stay two utterances, and that are matched where references are
    read. Of one file they are two utterances, so they are not united here.
    """
    alike: dict[str, list[str]] = {}
    for name in ids:
        alike.setdefault(plain_id(name), []).append(name)
    pairs = []
    for names in alike.values():
        for first, second in pairwise(names):
            if is_part_of_path(first, second):
                pairs.append((first, second))
    if pairs:
        first, second = pairs[0]
        log.warning(
            "--merge: %s differ in leading zeros, folder or ending alone, and are not"
            " united (first: %s and %s); give the files the same ids if they are the"
            " same utterances",
            f"{counted(len(pairs), 'pair')} of ids",
            first,
            second,
        )


def _united(
    first: NbestList,
    other: NbestList,
    kept: Callable[[Sequence[Hypothesis]], list[Hypothesis]],
) -> NbestList:
    """Return one list of two lists of an utterance.

    Args:
        first: A list.
        other: The other list.
        kept: Returns the hypotheses that stay.

    Raises:
        UserError: The lists contradict each other.
    """
    hypotheses = kept([*first.hypotheses, *other.hypotheses])
    fields = {**other.fields, **first.fields}
    for name, value in other.fields.items():
        if fields[name] != value:  # it says nothing of the utterance
            del fields[name]
    return replace(
        first,
        hypotheses=hypotheses,
        references=_agreed(first, other, "references", (), first.references),
        source=_agreed(first, other, "source", None, first.source),
        header=_header(first, other),
        recording=_agreed(first, other, "recording", None, first.recording),
        audio=first.audio or other.audio,
        fields=fields,
    )


def _once(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return each text once: the hypothesis with the best first pass, and of equals the
    first.
    """
    best: dict[str, Hypothesis] = {}
    for hypothesis in hypotheses:
        known = best.setdefault(hypothesis.text, hypothesis)
        if tie_key(hypothesis) < tie_key(known):
            best[hypothesis.text] = hypothesis
    return _without_ranks(best.values())


def _without_ranks(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Return hypotheses without ranks, which are places in the list of one file."""
    return [replace(hypothesis, rank=None) for hypothesis in hypotheses]


def _agreed(
    first: NbestList, other: NbestList, what: str, nothing: Fact, known: Fact
) -> Fact:
    """Return a fact that two lists of an utterance have, or one of them.

    Args:
        first: A list.
        other: The other list.
        what: The attribute of a list.
        nothing: The value without the fact.
        known: The value of the first list.

    Raises:
        UserError: The lists have different values.
    """
    new: Fact = getattr(other, what)
    if new in (nothing, known):
        return known
    if known == nothing:
        return new
    raise UserError(
        f"{_place(other)}: utterance {other.id}: {what} {_shown(new)}, but"
        f" {_shown(known)} in {_place(first)}; merge files of the same utterances"
    )


def _header(first: NbestList, other: NbestList) -> Header:
    """Return what is known of the columns of two lists.

    Raises:
        UserError: They have scores of different kinds.
    """
    header, new = first.header, other.header
    if header == new:
        return header
    if header.scores_are_means != new.scores_are_means:
        raise UserError(
            f"{_place(other)}: utterance {other.id}: first-pass scores are means in one"
            f" file and sums in the other ({_place(first)}); merge files of one model"
        )
    for name, column in new.records.items():
        known = header.records.get(name, column)
        if known != column:
            raise UserError(
                f"{_place(other)}: column {name} comes from {column.short}, but from"
                f" {known.short} in {_place(first)}; merge files of one model"
            )
    return united([header, new])


def _place(nbest: NbestList) -> str:
    """Return the file of a list, with the line if it is known."""
    return (nbest.place or nbest.header.name)[-80:]


def _shown(value: object) -> str:
    """Return a value for a message."""
    if isinstance(value, tuple):
        value = value[0]
    return repr(value)[:60]
