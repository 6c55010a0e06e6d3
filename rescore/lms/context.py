"""What a model is asked about a list: its texts, with the source, the recording and the
neighbours that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rescore.errors import UserError
from rescore.lms.base import LanguageModel, Question, WithNeighbours, capabilities_of
from rescore.nbest import NbestList


def ask(
    lm: LanguageModel, placed: WithNeighbours, texts: Iterable[str]
) -> list[Question]:
    """The questions about texts of a list, with the context that the model reads."""
    nbest, capabilities = placed.nbest, capabilities_of(lm)
    before, after = capabilities.context
    source = nbest.source if capabilities.source else None
    if source is None and capabilities.source:
        raise UserError(
            f"utterance {nbest.id}: no source text, which {lm.name} reads; give a file"
            " of them as --src"
        )
    audio = nbest.audio if capabilities.audio else None
    before_text, after_text = (
        placed.before[len(placed.before) - before :] if before else (),
        placed.after[:after],
    )
    return [Question(text, source, before_text, after_text, audio) for text in texts]


def in_place(
    lms: Sequence[LanguageModel], lists: Iterable[NbestList]
) -> Iterator[WithNeighbours]:
    """The lists with as many neighbours as one of the models reads, as a stream; models
    that listen can hear all.
    """
    if longest := [
        (capabilities_of(lm).audio, lm.name) for lm in lms if capabilities_of(lm).audio
    ]:
        from rescore.formats.audio import heard

        lists = heard(lists, *min(longest))
    sizes = [capabilities_of(lm).context for lm in lms]
    before, after = (max(numbers) for numbers in zip((0, 0), *sizes, strict=True))
    if not before and not after:
        return map(WithNeighbours, lists)
    from rescore.lms.neighbours import with_neighbours

    return with_neighbours(lists, before, after)
