"""Options that several commands share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from rescore import formats
from rescore.asked import ROADS
from rescore.cli.bridge import Offer, command, fields_of_call, lists_of_call, show
from rescore.cli.progress import advice_on_cache, progress_bar, scoring_progress
from rescore.config import DECISION, EXPANSION, RunConfig
from rescore.dataset import Dataset
from rescore.errors import OptionError, counted
from rescore.file_options import of_form
from rescore.files import ending_of, resolved, shown
from rescore.formats import check_output, checked_lists
from rescore.formats.audio import (
    Segments,
    with_audio,
    with_recordings,
)
from rescore.formats.best import check, rewritten
from rescore.formats.merging import check_several
from rescore.formats.reading import check_named
from rescore.formats.records import options_by_system
from rescore.formats.references import References
from rescore.formats.roles import given_fields, systems_of
from rescore.formats.source import ReadOptions
from rescore.formats.text import detokeniser
from rescore.formats.times import TIMED
from rescore.formats.understood import Understood
from rescore.lms import LanguageModel, load_all
from rescore.lms.base import ComputeOptions
from rescore.nbest import NbestList
from rescore.options import Declared, Suited, option, read_file, written_file
from rescore.parts import FORMATS, KINDS
from rescore.reports.details import write
from rescore.reports.markup import checked_style, write_json
from rescore.reports.overview import render_overview, with_dev
from rescore.reports.results import Results
from rescore.set_names import name_of_set
from rescore.tuning import FIRST_PASS_ALONE, Weights

__all__ = [
    "Offer",
    "advice_on_cache",
    "command",
    "progress_bar",
    "scoring_progress",
    "show",
]

log = logging.getLogger(__name__)

Times = Segments | None
"""Where utterances stand in recordings."""


def config(command: str, decides: str = "", **needs: tuple[str, ...]) -> Offer:
    """Return the fields of `RunConfig` that are options of a command.

    Args:
        command: The command, one of the roads of `rescore.asked`.
        decides: The field without which the command decides nothing; empty if it always
            decides.
        needs: What further fields need in this command.
    """
    if decides:
        needs |= dict.fromkeys((EXPANSION, DECISION), (decides,))
    road = ROADS[command]
    return Offer(RunConfig, (*road.stages, *road.fields), needs=needs)


@dataclass(frozen=True, kw_only=True)
class Lists(Declared):
    """The lists of a command, for the class of its own options."""

    common = True

    nbest: tuple[str, ...] = option(
        (), metavar="NBEST...", argument=True, required=True, reads=True, lists=True
    )


@dataclass(frozen=True, kw_only=True)
class DevLists(Declared):
    """Lists to tune on, and their references."""

    title = "Tuning"

    dev: tuple[str, ...] = option(
        (),
        "Lists with references to tune on. May be repeated.",
        metavar="NBEST",
        reads=True,
        lists=True,
        common=True,
    )
    dev_ref: tuple[str, ...] = read_file(
        (), "References of the dev lists.", needs="dev"
    )
    dev_src: str | None = read_file(None, "Source texts of the dev lists.", needs="dev")
    dev_scores: tuple[str, ...] = read_file(
        (), "File of scores of the dev lists, as --scores.", needs="dev"
    )


def _has_context(lm: str) -> bool:
    """Return whether a language model reads the lists beside a list."""
    return ":context=" in lm


def _is_timed(path: str) -> bool:
    """Return whether a file of texts has times, and so the names of recordings."""
    return ending_of(path) in TIMED


def _listening() -> list[str]:
    """Return the kinds of models that listen."""
    return [name for name, kind in KINDS.loaded() if kind.capabilities.audio]


def _listens(lm: str) -> bool:
    """Return whether a language model listens."""
    return lm.partition(":")[0] in _listening()


@dataclass(frozen=True, kw_only=True)
class InputOptions(Declared):
    """How N-best lists are read."""

    title = "Lists and references"

    ref: tuple[str, ...] = read_file(
        (),
        "References: Kaldi text, trn, lists, or one line per utterance in the order of"
        " the lists. Repeat --ref for several references per utterance.",
        common=True,
    )
    src: str | None = read_file(
        None,
        "Source texts: one line per list in their order, Kaldi text, or a table (.csv,"
        " .tsv) with id and src.",
    )
    allow_missing: bool = option(
        False,
        "Leave out utterances that have no reference, or no list, and continue if lists"
        " have no usable recording in --audio; a line says how many.",
    )
    ref_format: str | None = option(
        None,
        "Format of --ref. plain: the lines of --ref and --src have the order of the"
        " lists, also if the lists have ids.  [default: detected]",
        choices=("kaldi", "trn", "plain"),
        needs=("ref", "dev_ref", "src", "dev_src"),
    )
    format_name: str | None = option(
        None, "Format of the lists.  [default: detected]", "--format", choices=FORMATS
    )
    s2s: str = option(
        "s2s",
        "Column of the first-pass score. rank: the order of the hypotheses instead.",
        metavar="COLUMN|rank",
    )
    scores: tuple[str, ...] = read_file(
        (),
        "File of further scores: CSV, TSV or JSON Lines. A row has an id, a rank or a"
        " text, and numbers; higher is better. May be repeated.",
    )
    merge: bool = option(
        False,
        "Unite the lists of an utterance in several files, such as samples of several"
        " seeds. A list keeps each text once, with its best first-pass score.",
    )
    read_options: ReadOptions = option(ReadOptions, parts=FORMATS)
    """The options of the formats."""
    recordings: str | None = read_file(
        None,
        "File that names the recording of each utterance (Kaldi's utt2spk or segments),"
        " for context=N and --respell.  [default: each id up to its last - _ . / or :]",
        needs=("lm", "respell"),
        suits={
            "lm": Suited(_has_context, lambda: "KIND:context=N:PATH"),
            "best": Suited(_is_timed, lambda: " or ".join(TIMED)),
        },
    )
    audio: tuple[str, ...] = option(
        (),
        "Recordings of the utterances, for models that listen: Kaldi wav.scp (with"
        " segments beside it), a folder of ID.wav, .flac, .ogg or .mp3, or a NeMo"
        " manifest. May be repeated.",
        metavar="PATH",
        needs="lm",
        suits={"lm": Suited(_listens, lambda: " or ".join(_listening()))},
    )
    strict: bool = option(
        False,
        "Report an error instead of a warning for input that needs repair: bytes that"
        " are not UTF-8, carriage returns, byte order marks, duplicated hypotheses.",
        harmless=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        groups = lists_of_call()
        self.read_options.beside = [path for paths in groups for path in paths]
        self.read_options.groups = fields_of_call()
        if self.merge:
            check_several(groups, "--merge")
        has_texts = bool(self.ref or self.src or self.scores)
        check_named(self.format_name, self.read_options, has_texts)

    def _how(self) -> dict[str, Any]:
        """The arguments of every function that reads lists."""
        return {
            "format_name": self.format_name,
            "s2s": self.s2s,
            "strict": self.strict,
            "options": self.read_options,
            "merge": self.merge,
        }

    def read(
        self,
        paths: Sequence[str],
        need_references: bool = False,
        ref_option: str = "--ref",
    ) -> Dataset:
        """Return all lists.

        Args:
            paths: The files or folders.
            need_references: Whether each list needs a reference.
            ref_option: The option that a message about missing references names.

        Raises:
            UserError: Lists, or references, are absent or damaged.
        """

        lists = formats.read(
            paths,
            references=self._references(),
            need_references=need_references,
            ref_option=ref_option,
            allow_missing=self.allow_missing,
            sources=self.sources,
            scores=self.scores,
            **self._how(),
        )
        return Dataset(self.prepared(lists))

    def read_dev(self, dev: DevLists) -> Dataset:
        """Return dev lists, which have references of their own.

        Args:
            dev: The lists, with the files that belong to them.

        Raises:
            UserError: Lists, or references, are absent or damaged.
        """
        of_dev = replace(self, ref=dev.dev_ref, src=dev.dev_src, scores=dev.dev_scores)
        return of_dev.read(dev.dev, need_references=True, ref_option="--dev-ref")

    def read_output(self, path: str) -> Dataset:
        """Return N-best lists, or a 1-best text as lists of one hypothesis.

        Args:
            path: The file or folder.

        Raises:
            UserError: The output, or a reference, is absent or damaged.
        """

        return formats.read_output(path, self._references(), **self._how_outputs())

    def read_lists_or_texts(
        self, paths: Sequence[str], need_references: bool = False
    ) -> Dataset:
        """Return all lists. With --ref, a single path may also hold 1-best texts, which
        become lists of one hypothesis.

        Args:
            paths: The files or folders.
            need_references: Whether each list needs a reference.

        Raises:
            UserError: Lists, texts or references are absent or damaged.
        """
        are_lists = bool(self.scores or self.read_options.group_ids)
        if are_lists or not self.ref or len(paths) > 1:
            return self.read(paths, need_references)
        lists = formats.read_lists_or_texts(
            paths[0], self._references(), **self._how_outputs()
        )
        return Dataset(self.prepared(lists))

    def _how_outputs(self) -> dict[str, Any]:
        """The arguments of every function that reads the lists or texts of one path."""
        return self._how() | {
            "allow_missing": self.allow_missing,
            "sources": self.sources,
        }

    @property
    def has_systems(self) -> bool:
        """Whether --field names systems."""
        return bool(systems_of(given_fields(self.read_options)))

    def read_outputs(self, path: str) -> list[tuple[str, Dataset]]:
        """Return the lists of each output of a path, with its name: of a table in which
        a column names the system of each row (--field system=COLUMN), those of each
        system.

        Args:
            path: The file or folder.

        Raises:
            UserError: The output, or a reference, is absent or damaged.
        """
        if not self.has_systems:
            return [(shown(path), self.read_output(path))]
        by_system = options_by_system(path, self.read_options)
        outputs = []
        for name, options_of_system in by_system.items():
            of_system = replace(self, read_options=options_of_system)
            outputs.append((name, of_system.read_output(path)))
        return outputs or [(shown(path), self.read_output(path))]

    def iterate(self, paths: Sequence[str]) -> Iterator[NbestList]:
        """Return the lists as a stream, unless an option needs them all at once.

        Args:
            paths: The files or folders.
        """

        if self.ref or self.src or self.scores or self.allow_missing:
            return iter(self.read(paths))
        return self.prepared(self._told(paths))

    def _told(self, paths: Sequence[str]) -> Iterator[NbestList]:
        """Yield the lists, and log what was read."""
        understood = Understood(paths)
        yield from formats.iterate(paths, **self._how(), understood=understood)
        understood.tell()

    def _references(self) -> References | None:
        """The files of references, if there are any."""
        if not self.ref:
            return None

        return References(self.ref, self.ref_format)

    @property
    def sources(self) -> References | None:
        """The file of source texts, if there is one. Beside --ref, of the formats only
        `plain` is also said of --src.
        """
        if self.src is None:
            return None
        if self.ref and self.ref_format != "plain":
            return References((self.src,))
        return References((self.src,), self.ref_format)

    def prepared(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Return the lists with the recordings that the options name.

        Args:
            lists: The lists.
        """
        if self.recordings:
            lists = with_recordings(lists, Path(self.recordings))
        if self.audio:
            lists = with_audio(lists, self.audio, self.allow_missing)
        return iter(lists)


NOT_HEARD = Offer(InputOptions, without=("recordings", "audio"))
"""How a command reads lists that has no language models and writes no lists: nothing
there reads recordings.
"""
OUTPUTS = Offer(InputOptions, without=("recordings", "audio", "merge", "scores"))
"""How a command reads several outputs, each from one path."""
SYSTEMS = Offer(
    InputOptions, without=("merge", "scores"), needs={"recordings": (), "audio": ()}
)
"""How a command reads the lists of several systems, each from one path."""
ONLY_MODELS = Offer(InputOptions, without=("scores",))
"""How a command reads lists that compares language models alone."""
UNMEASURED = Offer(
    InputOptions,
    without=("ref", "ref_format", "allow_missing", "src", "recordings", "audio"),
)
"""How a command reads lists that needs neither references nor sources."""
REWRITTEN = Offer(InputOptions, needs={"recordings": (), "audio": ()})
"""How a command reads lists that always writes lists, which name their recordings."""
DECIDED = Offer(
    InputOptions,
    needs={
        "recordings": ("lm", "respell", "output", "best"),
        "audio": ("lm", "output"),
    },
)
"""How a command reads lists that may write lists."""


def _engine(text: str) -> str:
    if text.partition(":")[0] not in ("local", "ray") or text.startswith("local:"):
        raise ValueError(f"{text!r} is neither local nor ray[:ADDRESS]")
    return text


@dataclass(frozen=True, kw_only=True)
class LanguageModelOptions(Declared):
    """The language models of a command, and how they compute."""

    title = "Language models"

    lm: tuple[str, ...] = option(
        (),
        "Language model: a shipped model (for English `tta`, or `tta-large` where"
        " accuracy counts more than time), or KIND and the PATH of a model. May be"
        " repeated. Kinds:",
        metavar="KIND[:PATH]",
        describes=KINDS,
        reads=True,
        common=True,
    )
    computing: ComputeOptions = option(ComputeOptions, nested=ComputeOptions)
    cache: str | None = option(
        None,
        "Store scores in DIR, and reuse the scores of earlier runs.",
        metavar="DIR",
        needs="lm",
        harmless=True,
    )
    engine: str = option(
        "local",
        "local: score in this process. ray: score on all cores, GPUs or machines of the"
        " Ray cluster at ADDRESS; without ADDRESS, start a cluster on this machine.",
        metavar="local|ray[:ADDRESS]",
        parse=_engine,
        needs="lm",
        harmless=True,
    )
    workers: int | None = option(
        None,
        "With ray: number of workers.  [default: one per GPU or core]",
        low=1,
        needs="engine",
        needs_value=("ray",),
        harmless=True,
    )

    def load(self) -> list[LanguageModel]:
        """Return the models, here or in a cluster, which ends with the command.

        Raises:
            UserError: A model cannot be loaded.
        """
        name, _, address = self.engine.partition(":")
        if name == "local" or not self.lm:
            return load_all(self.lm, self.computing, self.cache)
        from rescore.scoring.cluster import Cluster

        cluster = Cluster(
            self.lm, self.computing, self.cache, address or None, self.workers
        )
        click.get_current_context().call_on_close(cluster.close)
        return [*cluster.models]


PLAIN = Offer(LanguageModelOptions, required=("lm",))
"""The options of commands that need a language model."""


@dataclass(frozen=True, kw_only=True)
class TunedWeights(Declared):
    """Weights that were tuned before."""

    weights: str | None = read_file(
        None,
        "Weights file from `rescore tune` or `rescore run --save-weights`.  [default:"
        " the first pass alone]",
        common=True,
    )
    force_weights: bool = option(
        False,
        "Apply weights that were tuned on scores of another model; the signature then"
        " contains `forced`.",
        needs="weights",
    )

    def load(self) -> Weights:
        """Return the weights of the file; without a file, the first pass alone."""
        if self.weights is None:
            return FIRST_PASS_ALONE
        return Weights.load(Path(self.weights))


def _of_detokeniser(language: str) -> str:
    """Return a language; raise an error before anything is read if the detokeniser is
    not installed.
    """
    detokeniser(language)
    return language


@dataclass(frozen=True, kw_only=True)
class DetokenizeOption(Declared):
    """Whether texts are written without the Moses tokenisation."""

    detokenize: str | None = option(
        None,
        "Undo Moses tokenisation in the output, for a language such as en or de.",
        metavar="LANGUAGE",
        parse=_of_detokeniser,
    )

    @property
    def plain(self) -> Callable[[str], str]:
        """A function that returns a text as it is written."""
        return detokeniser(self.detokenize) if self.detokenize else str

    def undone(self, lists: Sequence[NbestList]) -> Sequence[NbestList]:
        """Return lists whose hypotheses and references are as they are written.

        Args:
            lists: The lists.
        """
        if not self.detokenize:
            return lists
        plain = self.plain
        changed = []
        for nbest in lists:
            hypotheses = []
            for hypothesis in nbest.hypotheses:
                hypotheses.append(rewritten(hypothesis, plain(hypothesis.text)))
            references = tuple(map(plain, nbest.references))
            changed.append(replace(nbest, hypotheses=hypotheses, references=references))
        return changed


@dataclass(frozen=True, kw_only=True)
class RerankedOutputs(DetokenizeOption):
    """Where reranked lists and texts go."""

    output: tuple[str, ...] = written_file(
        (),
        "Write the reranked lists: .jsonl, .json, .csv, ..., also .gz or .xz; - is"
        " stdout. May be repeated.",
        "-o",
        "--output",
        common=True,
        may_write=check_output,
    )
    best: tuple[str, ...] = written_file(
        (),
        "Write the 1-best texts: .trn, .ctm, .srt, .vtt, .txt (plain lines), else Kaldi"
        " text. May be repeated.",
        common=True,
        may_write=check,
    )
    segments: str | None = read_file(
        None,
        "Kaldi segments file with the start and end of each utterance, for --best in"
        " .ctm, .srt or .vtt.",
        needs="best",
        suits={"best": Suited(_is_timed, lambda: " or ".join(TIMED))},
    )

    def check_plain(self, prints_texts: bool) -> None:
        """Refuse --detokenize where no text is written.

        Args:
            prints_texts: Whether texts go to stdout without --best.

        Raises:
            OptionError: No text is written.
        """
        if self.detokenize and not self.best and not prints_texts:
            raise OptionError("--detokenize needs --best FILE")

    @property
    def needs_word_times(self) -> bool:
        """Whether the times of words in the lists are written."""
        return self.segments is None and any(map(_is_timed, self.best))

    def times(self) -> Times:
        """Return the times of utterances in --segments; None without --segments.

        Raises:
            UserError: An output cannot be written.
        """
        if self.segments is None:
            return None
        times = Segments(self.segments)
        for path in self.best:
            check(path, times)
        return times

    def check_lists(
        self, lists: Iterable[NbestList], times: Times
    ) -> Iterable[NbestList]:
        """Return lists, after it is seen that the outputs can hold them, as far as this
        is known before anything is computed.

        Args:
            lists: The lists; a stream stays a stream, unless a format has to see all.
            times: The times of utterances in --segments; None without --segments.

        Raises:
            UserError: An output cannot hold them.
        """
        for path in self.output:
            lists = checked_lists(lists, path)
        if isinstance(lists, Sequence):
            for path in self.best:
                check(path, times, lists)
        return lists


class RankedLists:
    """Reranked lists on their way to a file: counts the lists that do not have the text
    that was chosen for them.
    """

    def __init__(self, ranked: Iterable[tuple[NbestList, str]]) -> None:
        """Count nothing yet.

        Args:
            ranked: Sorted lists with the texts chosen for them.
        """
        self._ranked = ranked
        self._absent: list[str] = []
        """The ids of lists without the chosen text."""

    def __iter__(self) -> Iterator[NbestList]:
        """Yield the lists."""
        for nbest, text in self._ranked:
            if nbest.hypotheses[0].text != text:
                self._absent.append(nbest.id)
            yield nbest

    def report(self, path: str) -> None:
        """Warn of the lists without the chosen text, if there are any.

        Args:
            path: The file of the lists.
        """
        if self._absent:
            log.warning(
                "%s: the chosen text of %s is none of its hypotheses (first: %s), which"
                " are written as the combined score ranks them; --best FILE has the"
                " chosen texts",
                path,
                counted(len(self._absent), "list"),
                self._absent[0],
            )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Declared):
    """The results file, and the names that it has in tables."""

    title = "Report"

    report: str | None = written_file(
        None,
        "Write the results as JSON in full precision.",
        common=True,
        may_write=of_form(".json"),
    )
    table: tuple[str, ...] = written_file(
        (),
        "Write the results as a table, like `rescore report`: .md, .tex, .csv or .txt."
        " May be repeated.",
    )
    dataset: str | None = option(
        None,
        "Name of the test set in tables.  [default: from the path]",
        metavar="NAME",
        needs=("report", "table", "html"),
    )
    system: str | None = option(
        None,
        "Name of the output in tables.  [default: the models]",
        metavar="NAME",
        needs=("report", "table", "html"),
    )

    def check(self) -> None:
        """Refuse tables of no known style, before anything is computed.

        Raises:
            OptionError: There is such a table.
        """
        for path in self.table:
            checked_style("--table", path)

    def write(self, results: Results, path: str) -> None:
        """Name the results after the options or the path of the lists, and write the
        files.

        Args:
            results: The results, which get the names.
            path: The path of the lists.
        """
        name = "stdin"
        if path != "-":
            name = name_of_set(str(resolved(Path(path))))
        results.dataset = self.dataset or name
        results.system = self.system or results.system
        if self.report:
            write_json(results, self.report)
        rows = list(with_dev([results]))
        for place in self.table:
            table = render_overview(rows, "espnet", checked_style("--table", place))
            with formats.opened(place) as file:
                file.write(table + "\n")


@dataclass(frozen=True, kw_only=True)
class DetailsOutput(Declared):
    details: str | None = written_file(
        None,
        "Write a row per utterance: reference, both texts, their errors, verdict,"
        " scores. .tsv, .csv, else JSON Lines.",
        may_write=of_form(".tsv", ".csv", ".jsonl", ".json"),
    )

    def write_details(self, rows: Callable[[], list[dict[str, Any]]]) -> None:
        """Write a file of rows, if it is asked for.

        Args:
            rows: Makes the rows, one per utterance.
        """
        if self.details:
            write(rows(), self.details)
