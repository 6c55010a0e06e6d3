"""How N-best lists and references are read: options of every command that reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rescore.formats.source import ReadOptions
from rescore.options import Declared, option
from rescore.parts import FORMATS

if TYPE_CHECKING:
    from rescore.formats.references import References
    from rescore.nbest import NbestList


@dataclass(frozen=True, kw_only=True)
class Lists(Declared):
    """The lists of a command, for the class of its own options."""

    common = True

    nbest: tuple[str, ...] = option((), metavar="NBEST...", argument=True, required=True, reads=True)


@dataclass(frozen=True, kw_only=True)
class DevLists(Declared):
    """Lists to tune on, and their references."""

    title = "Tuning"

    dev: tuple[str, ...] = option(
        (), "Lists with references to tune on. May be repeated.", metavar="NBEST", reads=True, common=True
    )
    dev_ref: tuple[str, ...] = option((), "References of the dev lists.", metavar="FILE", reads=True, needs="dev")


@dataclass(frozen=True, kw_only=True)
class InputOptions(Declared):
    """How N-best lists are read."""

    title = "Lists and references"

    ref: tuple[str, ...] = option(
        (),
        "References: Kaldi text, trn, lists, or one line per utterance in the order of the lists. Repeat --ref "
        "for several references per utterance.",
        metavar="FILE",
        reads=True,
        common=True,
    )
    allow_missing: bool = option(
        False, "Continue if utterances in --ref have no list, or lists no usable recording in --audio, and say so."
    )
    ref_format: str | None = option(None, "Format of --ref.  [default: detected]", choices=("kaldi", "trn", "plain"))
    format_name: str | None = option(None, "Format of the lists.  [default: detected]", "--format", choices=FORMATS)
    s2s: str = option(
        "s2s",
        "Column of the first-pass score. rank: no column, the order of the hypotheses.",
        metavar="COLUMN|rank",
    )
    read_options: ReadOptions = option(ReadOptions, parts=FORMATS)
    """The options of the formats."""
    recordings: str | None = option(
        None,
        "File that names the recording of each utterance (Kaldi's utt2spk or segments), for context=N.  [default: each "
        "id up to its last - _ . / or :]",
        metavar="FILE",
        reads=True,
    )
    audio: tuple[str, ...] = option(
        (),
        "Recordings of the utterances, for models that listen: Kaldi wav.scp (with segments beside it), a folder of "
        "ID.wav, .flac, .ogg or .mp3, or a NeMo manifest. May be repeated.",
        metavar="PATH",
    )
    strict: bool = option(
        False,
        "Report an error instead of a warning for input that needs repair: bytes that are not UTF-8, carriage returns, "
        "byte order marks, duplicated hypotheses.",
    )

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

    def read_alone(self, path: str) -> list[NbestList]:
        """The lists of a further system, without references."""
        return replace(self, ref=()).read([path])

    def _prepared(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """With their recordings, where these are given."""
        if self.recordings:
            from rescore.formats.audio import with_recordings

            lists = with_recordings(lists, Path(self.recordings))
        if self.audio:
            from rescore.formats.audio import with_audio

            lists = with_audio(lists, self.audio, self.allow_missing)
        return iter(lists)

    def references(self) -> References | None:
        """The files of references, if there are any."""
        if not self.ref:
            return None
        from rescore.formats.references import References

        return References(self.ref, self.ref_format)

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

    def iterate(self, paths: Sequence[str]) -> Iterator[NbestList]:
        """The lists as a stream, which --ref does not allow."""
        from rescore import formats

        if self.ref:
            return iter(self.read(paths))
        return self._prepared(formats.iterate(paths, **self._how()))

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
            return None  # what is to be read reports it

    def read_output(self, path: str) -> list[NbestList]:
        """N-best lists, or a 1-best text."""
        from rescore import formats

        return formats.read_output(path, self.references(), allow_missing=self.allow_missing, **self._how())
