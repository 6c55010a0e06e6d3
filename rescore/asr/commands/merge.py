"""`rescore merge`: lists of several recognisers as one."""

from __future__ import annotations

from dataclasses import dataclass

from rescore.cli import options
from rescore.config import RunConfig
from rescore.options import option


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


@options.command("merge", config=options.config(options.MEASURES))
def command(own: Merged, config: RunConfig, inputs: options.InputOptions) -> None:
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
