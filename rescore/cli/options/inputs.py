"""How N-best lists and references are read: options of every command that reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescore import parts
from rescore.cli.options.base import Field, Number, OneOf, option_group

if TYPE_CHECKING:
    from rescore.formats import ReadOptions
    from rescore.formats.references import References
    from rescore.nbest import NbestList


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How N-best lists are read."""

    ref: tuple[str, ...] = ()
    ref_format: str | None = None
    format_name: str | None = None
    s2s: str = "s2s"
    lenpen: float = 1.0
    nbest_size: int | None = None
    acoustic_scale: float | None = None
    field: tuple[tuple[str, str], ...] = ()
    symbols: str | None = None
    recordings: str | None = None
    strict: bool = False
    allow_missing: bool = False

    def read(self, paths: Sequence[str], need_references: bool = False, ref_option: str = "--ref") -> list[NbestList]:
        """All lists; `ref_option` is named where references are missing."""
        from rescore import formats

        lists = formats.read(
            paths,
            references=self.references(),
            need_references=need_references,
            ref_option=ref_option,
            allow_missing=self.allow_missing,
            **self._how(),
        )
        return list(self._prepared(lists))

    @staticmethod
    def check(paths: Sequence[str]) -> None:
        """Report a file that is not there before anything else: a typing error is the most frequent one.

        Raises:
            UserError: there is none, and the path is neither standard input, nor an address, nor a pattern.
        """
        from rescore.errors import UserError

        for path in paths:
            if path != "-" and "://" not in path and not set(path) & set("*?[") and not Path(path).exists():
                raise UserError(f"{path}: no such file or folder")

    def _prepared(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """With their recordings, where these are given."""
        if self.recordings:
            from rescore.formats.references import with_recordings

            lists = with_recordings(lists, Path(self.recordings))
        return iter(lists)

    def references(self) -> References | None:
        """The files of references, if there are any."""
        from rescore.formats.references import References

        return References(self.ref, self.ref_format, self.recordings) if self.ref else None

    @property
    def read_options(self) -> ReadOptions:
        """The options of single formats."""
        from rescore.formats import ReadOptions

        return ReadOptions(self.lenpen, self.nbest_size, self.acoustic_scale, dict(self.field), self.symbols)

    def _how(self) -> dict[str, Any]:
        return {
            "format_name": self.format_name,
            "s2s": self.s2s,
            "strict": self.strict,
            "options": self.read_options,
        }

    def read_dev(self, paths: Sequence[str], ref: Sequence[str]) -> list[NbestList]:
        """Dev lists, which have references of their own."""
        return replace(self, ref=tuple(ref)).read(paths, need_references=True, ref_option="--dev-ref")

    def iterate(self, paths: Sequence[str], skip: bool = False) -> Iterator[NbestList]:
        """The lists as a stream, which --ref does not allow; `skip` goes on after a line that cannot be read."""
        from rescore import formats

        if self.ref:
            return iter(self.read(paths))
        how = self._how()
        return self._prepared(formats.iterate(paths, **how | {"options": replace(how["options"], skip=skip)}))

    def count(self, paths: Sequence[str]) -> int | None:
        """How many hypotheses a stream will have, for its bar: the files are read once more, if somebody looks."""
        from rescore import formats
        from rescore.errors import UserError

        known = [Path(path).is_file() or Path(path).is_dir() for path in paths]
        if not sys.stderr.isatty() or not all(known):
            return None  # what cannot be read twice is not counted
        try:
            return sum(len(nbest.hypotheses) for nbest in formats.iterate(paths, **self._how(), quiet=True))
        except UserError:
            return None  # what is to be read reports it, or skips the line

    def read_output(self, path: str) -> list[NbestList]:
        """N-best lists, or a 1-best text."""
        from rescore import formats

        return formats.read_output(path, self.references(), allow_missing=self.allow_missing, **self._how())


input_options = option_group(
    "inputs",
    InputOptions,
    "Lists and references",
    [
        click.option(
            "--ref",
            multiple=True,
            metavar="FILE",
            help="References: Kaldi text, trn, stm, lists, or one line per utterance in order; may be "
            "repeated, for several references of each utterance.",
        ),
        click.option(
            "--allow-missing",
            is_flag=True,
            help="Continue where --ref has utterances without a list, and print how many.",
        ),
        click.option(
            "--ref-format",
            type=click.Choice(["kaldi", "trn", "stm", "plain"]),
            help="[default: detected]",
        ),
        click.option(
            "--format",
            "format_name",
            type=OneOf(parts.FORMATS),
            help="Format of the lists.  [default: detected]",
        ),
        click.option(
            "--s2s",
            default="s2s",
            show_default=True,
            metavar="COLUMN|rank",
            help="The first-pass score; rank is the order of the file, for lists without one.",
        ),
        click.option(
            "--lenpen",
            type=Number(-10, 10),
            default=1.0,
            show_default=True,
            help="fairseq's length penalty, to recover sums (--s2s sum) from H scores.",
        ),
        click.option(
            "--nbest-size",
            type=click.IntRange(min=1),
            metavar="N",
            help="Hypotheses per list, where the file does not say: NeMo beams, OpenNMT; of lattices, the N best "
            "different texts (100 by default).",
        ),
        click.option(
            "--acoustic-scale",
            type=Number(0, 1e6),
            metavar="A",
            help="First pass of Kaldi and SRILM lists and of lattices: A times the acoustic score plus the LM's.  "
            "[default: 1/12 for Kaldi, 1/8 for SRILM; lattices: 1, or acscale in the file]",
        ),
        click.option(
            "--symbols",
            metavar="FILE",
            help="Symbol table of Kaldi and OpenFst lattices whose words are numbers.  "
            "[default: words.txt beside them]",
        ),
        click.option(
            "--field",
            type=Field(),
            multiple=True,
            metavar="ROLE=KEY",
            help="JSON, CSV, TSV: which key or column is text, score, id, ref, src, or a column of that name; "
            "score=-KEY for costs.",
        ),
        click.option(
            "--recordings",
            metavar="FILE",
            help="For --context: the recording of each utterance, as in Kaldi's utt2spk or segments; segments also "
            "pair the lines of an stm with lists, by time.  "
            "[default: ids up to their last - _ . / or :]",
        ),
        click.option(
            "--strict",
            is_flag=True,
            help="Refuse what is otherwise repaired and reported: bytes that are not UTF-8, carriage returns, "
            "byte order marks, duplicated hypotheses.",
        ),
    ],
)
