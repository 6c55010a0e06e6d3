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
            help="References: Kaldi text, trn, stm, lists, or one line per utterance in the order of the lists. Repeat "
            "--ref for several references per utterance.",
        ),
        click.option(
            "--allow-missing",
            is_flag=True,
            help="Continue if utterances in --ref have no list, and print their number.",
        ),
        click.option(
            "--ref-format",
            type=click.Choice(["kaldi", "trn", "stm", "plain"]),
            help="Format of --ref.  [default: detected]",
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
            help="Column of the first-pass score. For lists without scores, rank uses the order of the hypotheses.",
        ),
        click.option(
            "--lenpen",
            type=Number(-10, 10),
            default=1.0,
            show_default=True,
            help="Length penalty that fairseq used. With --s2s sum, rescore undoes this penalty in the scores of H "
            "lines.",
        ),
        click.option(
            "--nbest-size",
            type=click.IntRange(min=1),
            metavar="N",
            help="Hypotheses per list, if the file does not mark the end of a list (NeMo beams, OpenNMT). For "
            "lattices: number of different texts to read, 100 by default.",
        ),
        click.option(
            "--acoustic-scale",
            type=Number(0, 1e6),
            metavar="A",
            help="First-pass score of Kaldi lists, SRILM lists and lattices: A times the acoustic score, plus the LM "
            "score.  [default: 1/12 for Kaldi, 1/8 for SRILM; lattices: acscale in the file, else 1]",
        ),
        click.option(
            "--symbols",
            metavar="FILE",
            help="Symbol table of Kaldi and OpenFst lattices that contain word numbers.  [default: words.txt beside "
            "the lattices]",
        ),
        click.option(
            "--field",
            type=Field(),
            multiple=True,
            metavar="ROLE=KEY",
            help="JSON, CSV, TSV: read ROLE from this key or column. ROLE is text, score, id, ref, src, or the name of "
            "a new column; score=-KEY reads costs.",
        ),
        click.option(
            "--recordings",
            metavar="FILE",
            help="Kaldi utt2spk or segments file with the recording of each utterance, for --context. A "
            "segments file also gives the utterance times that pair lists with stm references.  [default: each id up "
            "to its last - _ . / or :]",
        ),
        click.option(
            "--strict",
            is_flag=True,
            help="Report an error instead of a warning for input that needs repair: bytes that are not UTF-8, "
            "carriage returns, byte order marks, duplicated hypotheses.",
        ),
    ],
)
