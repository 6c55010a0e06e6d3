"""`rescore combine`: outputs of several systems as lists on which they vote."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rescore import formats
from rescore.asr.agreement import Agreement, Estimate
from rescore.asr.combine import combine
from rescore.asr.measured import closest_readings
from rescore.asr.mixture import Mixture, system_texts
from rescore.asr.outputs import (
    read_each,
    read_table_of_systems,
    with_references_in_order,
)
from rescore.asr.systems import combined, system_names
from rescore.asr.whole import Recording, are_whole, read_systems
from rescore.cli import options
from rescore.cli.bridge import is_typed, refuse_beside, typed_again
from rescore.config import GROUPS, MEASURES, RunConfig
from rescore.dataset import Dataset
from rescore.errors import OptionError, UserError, counted, takes_no
from rescore.formats.reading import options_of_lists
from rescore.formats.references import (
    References,
    TextFile,
    open_references,
    open_sources,
    with_references,
    with_sources,
)
from rescore.formats.roles import given_fields
from rescore.formats.source import InputWarnings, ReadOptions
from rescore.formats.text import duplicated
from rescore.formats.understood import tell_files
from rescore.ids import is_piece_of
from rescore.metrics import Metric
from rescore.metrics.base import text_value
from rescore.metrics.cached import remembered
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.metrics.texts import warn_of_texts
from rescore.nbest import NbestList
from rescore.options import Declared, option, written_file
from rescore.plan import Plan, resolve
from rescore.readings import Cut
from rescore.reports.groups import grouped, render
from rescore.styles import figure, text

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CombineOptions(Declared):
    """The outputs of the systems, and the file of lists."""

    common = True

    systems: tuple[str, ...] = option(
        (), metavar="SYSTEM...", argument=True, required=True, reads=True, lists=True
    )
    name: tuple[str, ...] = option(
        (),
        "Name of each system, in their order, and of its column.  [default: from its"
        " path]",
        metavar="NAME",
    )
    whole: bool = option(
        False,
        "The outputs are whole recordings; their segments may differ.  [default:"
        " detected]",
        reads_only=(
            "systems",
            "name",
            "output",
            "ref",
            "strict",
            "shape",
            "detokenize",
            MEASURES,
            GROUPS,
        ),
    )
    output: tuple[str, ...] = written_file(
        ("-",),
        "Write the lists: .jsonl, .json, .csv, ..., also .gz or .xz; - is stdout. May"
        " be repeated.",
        "-o",
        "--output",
        may_write=formats.check_output,
    )


@options.command("combine", config=options.config("combine"), inputs=options.SYSTEMS)
def command(
    own: CombineOptions,
    undo: options.DetokenizeOption,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
    """Combine the outputs of several systems into lists on which they vote.

    \b
    rescore combine dev/a.txt dev/b.json dev/c.trn --ref dev/ref -o dev.jsonl
    rescore combine test/a.txt test/b.json test/c.trn -o test.jsonl
    rescore test.jsonl --dev dev.jsonl --decide rover --best out.trn

    A system is a file of 1-best texts or N-best lists of the same utterances. It may
    also be a folder or file of whole recordings (CTM, STM, SRT, VTT, JSON of a service,
    text), which are cut into short pieces. In a single table, give --field
    system=COLUMN for each column of texts, or once for the column that names the system
    of each row. The command prints the error rate of each system, estimated without
    references. Without dev lists, the votes follow from these estimates.
    """
    plan = resolve(config)
    words = plan.metric.words or EXACT
    lists = Dataset(_lists(own, inputs, words, plan.metric.units or words))
    if not config.metrics and lists.are_translations:
        plan = resolve(config, lists)
    warn_of_texts(plan.metric, lists)
    group_table = _group_table(lists, plan)
    written = undo.undone(lists)
    for path in own.output:
        formats.write(written, path)
    tables = [_table(lists, plan.metric, words)]
    if group_table is not None:
        tables.append(group_table)
    options.show("\n\n".join(tables))
    named = [path for path in own.output if path != "-"]
    if not named:
        return
    measured = typed_again(MEASURES)
    decision = "rover" if plan.metric.words else "mbr"
    measuring = ["--decide", decision, "--folds", "5", *measured]
    if inputs.ref:
        log.info(
            "to measure each system and the vote: rescore %s",
            shlex.join([named[0], *measuring]),
        )
    elif plan.metric.words and not lists.has_references:
        _tell_how_to_tune(own, measuring, lists)


def _tell_how_to_tune(
    own: CombineOptions, measuring: Sequence[str], lists: Dataset
) -> None:
    """Tell on how many references votes can be tuned, and what to type.

    Args:
        own: The outputs of the systems.
        measuring: Options of the command that measures the votes.
        lists: The lists on which the systems vote.
    """
    typed = [*own.systems, *typed_again(None, without=("systems", "output"))]
    if any(is_piece_of(nbest.id, nbest.recording or "") for nbest in lists[:1]):
        size = "a recording (give its outputs alone)"
    else:
        size = f"{Mixture.enough} utterances"
        typed.append("--allow-missing")
    log.info(
        "without references it is not certain which votes are best; to tune them on"
        " references of %s: rescore combine %s --ref FILE -o dev.jsonl; rescore"
        " dev.jsonl %s",
        size,
        shlex.join(typed),
        shlex.join(measuring),
    )


def _group_table(lists: Dataset, plan: Plan) -> str | None:
    """Return the table of the systems' figures by group (--by); None without --by.

    Raises:
        OptionError: There are no references.
    """
    if plan.by is None:
        return None
    referred = lists.with_lists(nbest for nbest in lists if nbest.references)
    if not referred:
        raise OptionError("--by needs references; give --ref FILE")
    texts_of_system = {}
    for name in lists.header.systems:
        texts_of_system[name] = system_texts(referred, name)
    return render(grouped(plan.by, [plan.metric], referred, texts_of_system))


def _table(lists: Dataset, metric: Metric, words: Normaliser) -> str:
    """Return a table of the systems: the metric if there are references, the error rate
    that their agreement says, with its interval, and the votes. A line below says why
    all votes are equal, if they are.

    The error rate is the metric itself, or the WER for other metrics of words. For a
    metric without words, such as BLEU, agreement says nothing.

    Args:
        lists: The lists on which the systems vote.
        metric: The metric.
        words: Says which words are the same.
    """
    systems = lists.header.systems
    agreement = Agreement.of(lists, systems, words)
    votes = agreement.votes
    estimates = agreement.estimates()
    _warn_of_far_best(estimates)
    if metric.units is not None and metric.unit != "word":
        estimates = Agreement.of(lists, systems, metric.units).estimates()
    rate = "WER" if metric.units is None else metric.name
    referred = lists.with_lists(nbest for nbest in lists if nbest.references)
    counting = remembered(metric)  # systems share most of their texts
    head = [""]
    if referred:
        head.append(metric.name)
    if metric.words is not None:
        head += [f"estimated {rate}", "95 % CI"]
    rows = [[*head, "votes"]]
    for name in systems:
        row = [name]
        if referred:
            texts = system_texts(referred, name)
            row.append(figure(text_value(counting, referred, texts)))
        if metric.words is not None:
            row += _cells(estimates.get(name))
        rows.append([*row, f"{votes[name]:.2g}"])
    table = text(rows)
    if metric.words is not None and estimates:
        table += f"\n\n{UNSEEN}"
    reason = agreement.why_equal
    if metric.words is not None and reason:
        table += f"\n\nequal votes: {reason}"
    elif metric.words is not None and agreement.voter_count < FEW_VOTERS < len(systems):
        table += (
            f"\n\nthe votes are worth {agreement.voter_count:.1f} equal votes: few of"
            f" the {len(systems)} systems decide"
        )
    return table


def _cells(estimate: Estimate | None) -> list[str]:
    """Return the cells of an estimate and its interval; dashes without an estimate."""
    if estimate is None:
        return ["-", "-"]
    return [f"{estimate.rate:.1f}", f"{estimate.low:.1f}-{estimate.high:.1f}"]


UNSEEN = (
    "errors that systems share are not seen: error rates are usually higher than the"
    " estimates and their intervals"
)
"""What intervals of estimates are not."""
FEW_VOTERS = 3
"""The effective number of voters below which a line says how few systems decide."""
FAR = 2.0
"""The factor from which on the estimates of the best two systems are far apart."""


def _warn_of_far_best(estimates: Mapping[str, Estimate]) -> None:
    """Warn if one system is so much better than all others that a vote may be worse
    than its texts alone.
    """
    if not estimates:
        return
    best, second, *_ = sorted(estimates, key=lambda name: estimates[name].rate)
    if estimates[best].rate * FAR < estimates[second].rate:
        log.warning(
            "%s is estimated to be far better than all other systems; its texts alone"
            " may be better than a vote",
            best,
        )


def _lists(
    own: CombineOptions, inputs: options.InputOptions, words: Normaliser, same: Cut
) -> Iterator[NbestList]:
    """Return the lists on which the systems vote.

    Args:
        own: The outputs of the systems.
        inputs: The options of reading, and the references.
        words: Says which words are the same.
        same: Says which texts are the same: a metric may count blanks where votes are
            on words that have none.
    """
    if inputs.has_systems:
        if is_typed("s2s"):
            raise OptionError(takes_no("combine --field system=COLUMN", "--s2s"))
        beside = _Beside(own, inputs)
        systems = _named(_systems_of_tables(own, inputs, beside.options), own.name)
        return beside.referred(combined(systems, same))
    names = system_names(own.systems, own.name)
    named = inputs.format_name
    if own.whole or are_whole(own.systems, named, inputs.read_options):
        refuse_beside("whole")
        lists = _lists_of_recordings(own, inputs, names, words)
        return inputs.prepared(lists)
    beside = _Beside(own, inputs)
    return beside.referred(combined(_systems(own, inputs, names, beside), same))


def _systems(
    own: CombineOptions,
    inputs: options.InputOptions,
    names: Sequence[str],
    beside: _Beside,
) -> dict[str, list[NbestList]]:
    """Return the lists of each system, from one output each.

    Args:
        own: The outputs of the systems.
        inputs: The options of reading.
        names: The names of the systems.
        beside: The references.
    """
    systems = read_each(
        dict(zip(names, own.systems, strict=True)),
        format_name=inputs.format_name,
        s2s=inputs.s2s,
        strict=inputs.strict,
        options=beside.options,
        references=beside.references[0] if beside.references else None,
    )
    return with_references_in_order(systems, beside.references)


def _systems_of_tables(
    own: CombineOptions, inputs: options.InputOptions, options_of_lists: ReadOptions
) -> dict[str, list[NbestList]]:
    """Return the lists of each system of tables that hold several systems, by the name
    that --name gives it.

    Args:
        own: The tables.
        inputs: The options of reading.
        options_of_lists: The options of the tables.

    Raises:
        UserError: Two tables share an id.
    """
    systems: dict[str, list[NbestList]] = {}
    for path in own.systems:
        table = read_table_of_systems(
            path,
            given_fields(options_of_lists),
            format_name=inputs.format_name,
            strict=inputs.strict,
            more=options_of_lists,
        )
        for name, lists in table.items():
            systems.setdefault(name, []).extend(lists)
    _check_ids(systems)
    return _named(systems, own.name)


def _named(
    systems: dict[str, list[NbestList]], given: Sequence[str]
) -> dict[str, list[NbestList]]:
    """Return the systems of a table with the names of --name; in the order of --name,
    if it has the names of the table.

    Args:
        systems: The lists of each system, by its name in the table.
        given: The names that the user gives, or nothing.
    """
    if sorted(given) == sorted(systems):
        return {name: systems[name] for name in given}
    names = system_names(list(systems), given or list(systems))
    for old, new in zip(systems, names, strict=True):
        if old != new:
            log.info("system %s of the table is called %s (--name)", old, new)
    return dict(zip(names, systems.values(), strict=True))


def _check_ids(systems: Mapping[str, Sequence[NbestList]]) -> None:
    """Check that the tables of a set share no id.

    Raises:
        UserError: Two lines have the same id.
    """
    for lists in systems.values():
        places: dict[str, str] = {}
        for nbest in lists:
            if nbest.id in places:
                raise duplicated(nbest.id, nbest.place, places[nbest.id])
            places[nbest.id] = nbest.place


def _lists_of_recordings(
    own: CombineOptions,
    inputs: options.InputOptions,
    names: Sequence[str],
    words: Normaliser,
) -> Iterator[NbestList]:
    """Return lists of short pieces of whole recordings, with references."""
    recordings = read_systems(
        own.systems,
        inputs.strict,
        inputs.ref,
        inputs.read_options,
        detected=not own.whole,
    )
    every_name = set().union(*recordings)
    if all(len(system) == 1 for system in recordings) and len(every_name) > 1:
        (name,) = recordings[0]
        log.warning(
            "each output has one recording: they are taken for the same recording, %s",
            name,
        )
        for place, system in enumerate(recordings):
            (recording,) = system.values()
            recordings[place] = {name: recording}
    references: dict[str, Recording] = {}
    files: dict[str, str] = {}
    for file, expected in zip(inputs.ref, recordings[len(names) :], strict=True):
        for name, reference in expected.items():
            if name in files:
                raise UserError(
                    f"{file}: recording {name} has a reference in {files[name]}, too;"
                    " give a single reference of each recording"
                )
            files[name] = file
            heard = recordings[0].get(name, Recording())
            references[name] = closest_readings(reference, heard)
    systems = dict(zip(names, recordings, strict=False))
    heard_names = set().union(*systems.values())
    unheard = [name for name in references if name not in heard_names]
    if unheard:
        log.warning(
            "%s: no output for %s with a reference (first: %s)",
            files[unheard[0]],
            counted(len(unheard), "recording"),
            unheard[0],
        )
    return combine(systems, words, references or None)


class _Beside:
    """The references and source texts of outputs of utterances.

    Args:
        own: The outputs of the systems.
        inputs: The options of reading, and the files.
    """

    def __init__(self, own: CombineOptions, inputs: options.InputOptions) -> None:
        self._inputs = inputs
        self._warnings = InputWarnings(inputs.strict)
        fields = given_fields(inputs.read_options)
        self.references: list[TextFile] = []
        if inputs.ref:
            named = References(inputs.ref, inputs.ref_format)
            self.references = open_references(named, self._warnings, fields)
        self._sources: TextFile | None = None
        if inputs.sources is not None:
            self._sources = open_sources(inputs.sources, self._warnings, fields)
        self._warnings.report()
        self.options = options_of_lists(
            own.systems, inputs.read_options, [*self.references, self._sources]
        )
        """The options of the outputs."""

    def referred(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Return lists with the references, sources and recordings that the options
        give.

        Args:
            lists: The lists.
        """
        missing = self._inputs.allow_missing
        files = self.references
        if files:
            lists = with_references(list(lists), files, self._warnings, missing)
            tell_files("ref", [(file.path, file.form) for file in files])
        if self._sources is not None:
            lists = with_sources(list(lists), self._sources, self._warnings, missing)
        self._warnings.report()
        return self._inputs.prepared(lists)
