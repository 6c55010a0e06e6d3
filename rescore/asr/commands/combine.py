"""`rescore combine`: whole recordings of several recognisers as lists of short pieces."""

from __future__ import annotations

from dataclasses import dataclass

from rescore.cli import options
from rescore.config import RunConfig
from rescore.options import Declared, option


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


@options.command("combine", config=options.config(options.MEASURES))
def command(own: Systems, config: RunConfig) -> None:
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
    from rescore.asr.formats.whole import read_recordings
    from rescore.asr.merge import system_names
    from rescore.metrics.normalise import EXACT
    from rescore.plan import metrics_of

    names = system_names(own.systems, own.name, len(own.systems))
    recordings = {key: read_recordings(path, own.strict) for key, path in zip(names, own.systems, strict=True)}
    references = read_recordings(own.ref, own.strict) if own.ref else None
    normaliser = metrics_of(options.with_one_metric(options.configured(config)), [])[0].words or EXACT
    formats.write(combine(recordings, normaliser, references), own.output)
