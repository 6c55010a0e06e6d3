"""`rescore analyse`: where reranking changed things."""

from __future__ import annotations

from dataclasses import dataclass

from rescore.cli import options
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.errors import OptionError
from rescore.file_options import of_form
from rescore.metrics.listed import LISTED
from rescore.metrics.texts import warn_of_texts
from rescore.option_readers import reads
from rescore.options import written_file
from rescore.parts import METRICS
from rescore.pipeline import decide_all, expand, measure
from rescore.plan import resolve
from rescore.reports import analysis
from rescore.reports.markup import write_json
from rescore.tuning import Weights, suited


@dataclass(frozen=True, kw_only=True)
class AnalyseOptions(options.Lists, options.DetailsOutput):
    output: str | None = written_file(
        None,
        "Write the whole analysis as JSON.",
        "-o",
        "--output",
        may_write=of_form(".json"),
    )


@options.command("analyse", config=options.config("analyse"), inputs=options.NOT_HEARD)
def command(
    own: AnalyseOptions,
    weights: options.TunedWeights,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
    """Show whether rescoring helps and where it differs from the first pass. The lists
    need references.

    \b
    rescore score test.json --lm tta -o test.tta.jsonl
    rescore analyse test.tta.jsonl --weights weights.json
    rescore analyse output.trn --ref ref.trn

    The analysis has the number of changed choices that were better and worse, the
    oracle by list depth, the words that reranking most often corrected and broke, and
    the most frequent errors that are left. It ends with the significance of the gain,
    the possible gain from a perfect language model, and the next step.

    For 1-best texts with --ref (Kaldi text, trn, plain lines) it has the most frequent
    errors and the utterances with the most errors.
    """
    lists = inputs.read_lists_or_texts(own.nbest, need_references=True)
    loaded = suited(weights.load(), lists, weights.force_weights)
    if "words" in config.measuring.values:
        _check_words_are_read(config, loaded)
    plan = resolve(config, lists, weights=loaded)
    warn_of_texts(plan.metric, lists)
    expanded = Dataset(expand(plan, lists))
    decided = decide_all(plan, loaded, expanded)
    result = analysis.analyse(plan.metric, decided, plan.test)
    own.write_details(lambda: measure(plan, decided).details())
    if own.output:
        write_json(result, own.output)
    options.show(analysis.render(result))


def _check_words_are_read(config: RunConfig, weights: Weights) -> None:
    """See that the metric, or a bonus for listed words, reads --words.

    Args:
        config: What was asked.
        weights: The weights that decide.

    Raises:
        OptionError: Nothing reads it.
    """
    if weights.weighs(LISTED):
        return
    if any(reads(METRICS[name], "words") for name in config.metrics):
        return
    raise OptionError(
        "--words is for --metric bwer and its like, or for weights with a bonus for"
        " listed words; leave it out"
    )
