"""`rescore combine`: outputs of several systems as lists on which they vote."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rescore.cli import options
from rescore.config import RunConfig
from rescore.options import Declared, option, written_file

if TYPE_CHECKING:
    from rescore.metrics.normalise import Normaliser
    from rescore.nbest import NbestList

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Systems(Declared):
    common = True

    systems: tuple[str, ...] = option(
        (), metavar="SYSTEM...", argument=True, required=True, reads=True
    )
    name: tuple[str, ...] = option(
        (),
        "Name of each system, in their order, and of its column.  [default: from its"
        " path]",
        metavar="NAME",
    )
    whole: bool = option(
        False,
        "Take the outputs for whole recordings, in different segments.  [default: told"
        " by their contents]",
    )
    output: str = written_file(
        "-", "Write the lists: .json, .jsonl, also .gz; - is stdout.", "-o", "--output"
    )


@options.command("combine", config=options.config("combine"))
def command(own: Systems, config: RunConfig, inputs: options.InputOptions) -> None:
    """Combine the outputs of several systems into lists on which they vote.

    \b
    rescore combine dev/a.txt dev/b.json dev/c.trn --ref dev/ref -o dev.jsonl
    rescore combine test/a.txt test/b.json test/c.trn -o test.jsonl
    rescore test.jsonl --dev dev.jsonl --decide rover --best out.trn

    A system is a file of 1-best texts or N-best lists of the same utterances, or a
    folder or file of whole recordings (CTM, STM, SRT, VTT, JSON of a service, text),
    which are cut into short pieces. One table with a column per system is read with
    --field system=COLUMN for each. Without dev lists all systems have equal votes.
    """
    from rescore import formats
    from rescore.metrics.normalise import EXACT
    from rescore.plan import resolve

    words = (
        resolve(options.with_one_metric(options.configured(config))).metric.words
        or EXACT
    )
    formats.write(_lists(own, inputs, words), own.output)
    if inputs.ref and own.output != "-":
        log.info(
            "to measure each system and the vote: rescore %s --decide rover --folds 5",
            own.output,
        )


def _lists(
    own: Systems, inputs: options.InputOptions, words: Normaliser
) -> Iterator[NbestList]:
    from rescore.asr.combine import combine
    from rescore.asr.formats.systems import read_system, read_table_of_systems
    from rescore.asr.formats.whole import (
        Recording,
        are_whole,
        closest_readings,
        read_systems,
    )
    from rescore.asr.systems import combined, system_names
    from rescore.formats.records import SYSTEM
    from rescore.pace import paced

    options, fields = (
        inputs.read_options,
        inputs.read_options.values.get("fields") or {},
    )
    how: Any = {"format_name": inputs.format_name, "strict": inputs.strict}
    if any(role.startswith(SYSTEM) for role in fields):
        systems: dict[str, list[NbestList]] = {}
        for path in own.systems:
            systems |= read_table_of_systems(path, fields, **how)
        return _referred(combined(systems, words), inputs)
    names = system_names(own.systems, own.name)
    if not (own.whole or are_whole(own.systems)):
        paths = paced(own.systems, "read %d of %d outputs")
        read = [
            read_system(path, s2s=inputs.s2s, options=options, **how) for path in paths
        ]
        return _referred(combined(dict(zip(names, read, strict=True)), words), inputs)
    recordings = read_systems([*own.systems, *inputs.ref], inputs.strict)
    first = recordings[0]
    if (
        all(len(found) == 1 for found in recordings)
        and len({name for found in recordings for name in found}) > 1
    ):
        (name,) = first
        log.warning(
            "each output has one recording: they are taken for the same recording, %s",
            name,
        )
        recordings = [
            {name: recording} for found in recordings for recording in found.values()
        ]
    references = {
        name: closest_readings(one, first.get(name, Recording()))
        for expected in recordings[len(names) :]
        for name, one in expected.items()
    }
    return combine(
        dict(zip(names, recordings, strict=False)), words, references or None
    )


def _referred(
    lists: Iterable[NbestList], inputs: options.InputOptions
) -> Iterator[NbestList]:
    """The lists with the references that the options give."""
    if not inputs.ref:
        yield from lists
        return
    from rescore.formats.references import References, with_references
    from rescore.formats.source import InputWarnings

    warnings = InputWarnings(inputs.strict)
    yield from with_references(
        list(lists),
        References(inputs.ref, inputs.ref_format),
        warnings,
        inputs.allow_missing,
    )
    warnings.report()
