"""1-best outputs: a single text for each utterance, which stands in a file of texts,
and needs references beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.alternatives import best_of
from rescore.formats.fields import with_fields
from rescore.formats.references import (
    TextFile,
    check_left_out,
    marks_left,
    together_of,
    with_known_references,
)
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import Marks, strip_markup
from rescore.nbest import Header, Hypothesis, NbestList, with_left_out


class _Text:
    """The format `text`: 1-best texts, which need references beside them."""

    def sniff(self, source: Source) -> bool:
        """Return False: no N-best list has this format."""
        return False

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Raise an error that says where this format is of use."""
        raise UserError(
            f"{source.name}: 1-best texts, a single text for each utterance (--format"
            f" text); to measure them: rescore eval {source.name} --ref FILE"
        )


BEST = _Text()


def read_best(
    source: Source, files: Sequence[TextFile], allow_missing: bool = False
) -> list[NbestList]:
    """Return 1-best texts with their references, as lists of one hypothesis.

    Both are trn, or Kaldi text with the same ids, or plain with the same number of
    lines.

    Args:
        source: The 1-best texts.
        files: The references.
        allow_missing: Whether references of utterances without a text are only
            reported; otherwise they are an error.

    Raises:
        UserError: Texts and references do not belong together.
    """
    first = files[0]
    output = open_output(source, first)
    hypotheses = output.texts_of_output(first)
    ours = output.side_of(hypotheses)
    paired_files = [file.beside(ours, allow_missing) for file in files]
    absent = check_left_out(
        paired_files, f"text in {output.path}", "an output", allow_missing
    )
    every = best_lists(hypotheses)
    kept = marks_left(every) if first.of_lists else Marks.NONE
    references = together_of(paired_files, kept)
    header = Header(translates=first.of_translations)
    every = [replace(nbest, header=header) for nbest in every]
    lists = []
    for nbest in with_known_references(every, references, first.path):
        expected = references[nbest.id]
        if output.by_id is not None:
            (text,) = hypotheses[nbest.id]
            marked = strip_markup(text, Marks.ENTITIES)
            nbest.hypotheses = [best_of(marked, expected, escaped=True)]
        lists.append(replace(nbest, references=expected))
    lists = with_fields(lists, [file.fields for file in paired_files])
    return with_left_out(lists, absent)


def open_output(source: Source, references: TextFile | None) -> TextFile:
    """Return a file of 1-best texts; what the user says of the lines of references
    holds for its lines, too.

    Args:
        source: The file.
        references: The references of the texts, if there are any.
    """
    named = None if references is None else references.format
    if named not in ("kaldi", "plain"):
        named = None
    return TextFile(source, output=True, lines_as=named)


def best_lists(texts: Mapping[str, tuple[str, ...]]) -> list[NbestList]:
    """Return 1-best texts as lists of one hypothesis.

    Args:
        texts: One text for each id.
    """
    lists = []
    for name, (text,) in texts.items():
        best = Hypothesis(strip_markup(text), {FIRST_PASS: 0.0})
        lists.append(NbestList(name, [best]))
    return lists
