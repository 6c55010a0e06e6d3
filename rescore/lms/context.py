"""What a model is asked about a list: its texts, with the source, the recording and the
neighbours that the model reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rescore.errors import UserError
from rescore.formats.audio import heard
from rescore.lms.base import LanguageModel, Question, WithNeighbours, capabilities_of
from rescore.lms.neighbours import with_neighbours
from rescore.nbest import NbestList


def ask(
    lm: LanguageModel, placed: WithNeighbours, texts: Iterable[str]
) -> list[Question]:
    """Return the questions about texts of a list, with the context that a model reads.

    Args:
        lm: The model.
        placed: The list, with at least as many neighbours as the model reads.
        texts: The texts.

    Raises:
        UserError: The model reads the source, and the list has none.
    """
    nbest = placed.nbest
    capabilities = capabilities_of(lm)
    if capabilities.source and nbest.source is None:
        raise UserError(
            f"utterance {nbest.id}: no source text, which {lm.name} reads; give a file"
            " of them as --src"
        )
    source = nbest.source if capabilities.source else None
    audio = nbest.audio if capabilities.audio else None
    most_before, most_after = capabilities.context
    first = max(0, len(placed.before) - most_before)
    before = placed.before[first:]
    after = placed.after[:most_after]
    return [Question(text, source, before, after, audio) for text in texts]


def with_needed_neighbours(
    lms: Sequence[LanguageModel], lists: Iterable[NbestList]
) -> Iterator[WithNeighbours]:
    """Return a stream of lists with as many neighbours as any of the models reads.

    If a model listens, all recordings are checked before the first list.

    Args:
        lms: The models.
        lists: The lists, in the order of speech where a model reads neighbours.

    Raises:
        UserError: The lists are not in the order of speech, or a recording is missing,
            damaged or too long.
    """
    before = 0
    after = 0
    listeners = []
    for lm in lms:
        capabilities = capabilities_of(lm)
        before = max(before, capabilities.context[0])
        after = max(after, capabilities.context[1])
        if capabilities.audio:
            listeners.append((capabilities.audio, lm.name))
    if listeners:
        longest, name = min(listeners)
        lists = heard(lists, longest, name)
    if not before and not after:
        return map(WithNeighbours, lists)
    return with_neighbours(lists, before, after)
