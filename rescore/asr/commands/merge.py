"""`rescore merge` and `rescore combine`: lists of several recognisers as one."""

from __future__ import annotations

from dataclasses import dataclass

from rescore.cli import options
from rescore.config import RunConfig
from rescore.options import Declared, option


@dataclass(frozen=True, kw_only=True)
class Merged(options.Lists):
    name: tuple[str, ...] = option(
        (), "Name of the second, third, ... system, and of its columns.  [default: from its path]", metavar="NAME"
    )
    output: str = option(
        "-",
        "Write the merged lists: .json, .jsonl, also .gz; - is stdout.",
        "-o",
        "--output",
        metavar="FILE",
        writes="stdout",
    )


@options.command("merge", config=options.config("merge"))
def merge_command(own: Merged, config: RunConfig, inputs: options.InputOptions) -> None:
    """Merge the N-best lists of several systems for the same utterances.

    \b
    rescore merge a/dev b/dev --name b -o dev.jsonl
    rescore merge a/test b/test --name b -o test.jsonl
    rescore test.jsonl --dev dev.jsonl --components --decide rover

    The first system stays the first pass. Each further system gets two columns: its scores, and a mark on hypotheses
    that it did not propose. --components tunes the weights of these columns, with or without --lm. `rescore run --with`
    merges, scores, tunes and reranks in one command. For whole recordings in different segmentations, see `rescore
    combine`.
    """
    from rescore import formats
    from rescore.asr.merge import merge, system_names
    from rescore.plan import metrics_of

    names = system_names(own.nbest, own.name, len(own.nbest) - 1)
    first = inputs.read(own.nbest[:1])
    words = metrics_of(options.with_one_metric(options.configured(config)), first)[0].words
    others = {name: inputs.read_alone(path) for name, path in zip(names, own.nbest[1:], strict=True)}
    formats.write(merge(first, others, words), own.output)


@dataclass(frozen=True, kw_only=True)
class Systems(Declared):
    common = True

    systems: tuple[str, ...] = option((), metavar="SYSTEM...", argument=True, required=True, reads=True)
    name: tuple[str, ...] = option(
        (), "Name of each system, in their order, and of its column.  [default: from its path]", metavar="NAME"
    )
    ref: str | None = option(
        None,
        "References of the whole recordings, in any format of a system. They are cut at the same places, for tuning.",
        metavar="PATH",
        reads=True,
    )
    output: str = option(
        "-", "Write the lists: .json, .jsonl, also .gz; - is stdout.", "-o", "--output", metavar="FILE", writes="stdout"
    )
    strict: bool = option(False, "Stop at oddities of inputs instead of reporting them.")


@options.command("combine", config=options.config("combine"))
def combine_command(own: Systems, config: RunConfig) -> None:
    """Combine outputs of several recognisers for the same whole recordings, each in its own segmentation.

    \b
    rescore combine dev/a dev/b dev/c --ref dev/ref -o dev.jsonl
    rescore combine test/a test/b test/c -o test.jsonl
    rescore tune dev.jsonl --decide rover -o votes.json
    rescore rerank test.jsonl --weights votes.json --decide rover --best out.ctm

    A system is a folder with a file per recording, or one file: CTM, STM, SRT, VTT, JSON of Whisper, Azure, Google,
    AWS or Vosk, or plain text. Systems with and without times may be mixed. The result are lists of short pieces with
    one hypothesis per system. Without references, the vote is equal: rescore rerank --decide rover --scale 1.
    """
    from rescore import formats
    from rescore.asr.combine import combine
    from rescore.asr.formats.whole import Recording, closest_readings, read_systems
    from rescore.asr.merge import system_names
    from rescore.metrics.normalise import EXACT
    from rescore.plan import metrics_of

    names = system_names(own.systems, own.name, len(own.systems))
    read = read_systems([*own.systems, *([own.ref] if own.ref else [])], own.strict)
    recordings = dict(zip(names, read, strict=False))
    expected = read[-1] if own.ref else {}
    first = recordings[names[0]]
    references = {name: closest_readings(one, first.get(name, Recording())) for name, one in expected.items()} or None
    normaliser = metrics_of(options.with_one_metric(options.configured(config)), [])[0].words or EXACT
    formats.write(combine(recordings, normaliser, references), own.output)
