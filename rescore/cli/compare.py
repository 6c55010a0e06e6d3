"""`rescore compare`: language models side by side."""

from __future__ import annotations

from dataclasses import dataclass

from rescore import comparing, formats
from rescore.cli import options
from rescore.cli.eval import TestOptions
from rescore.comparing import Varied
from rescore.config import RunConfig
from rescore.errors import OptionError
from rescore.files import shown as shortened
from rescore.options import option, written_file
from rescore.parts import STYLES
from rescore.reports.comparison import JSON, render
from rescore.reports.figures import Shown
from rescore.reports.markup import checked_style


@dataclass(frozen=True, kw_only=True)
class CompareOptions(options.Lists):
    word_bonus: bool | None = option(
        None,
        "Tune a word bonus.  [default: for all models together, not for BLEU]",
        "--word-bonus/--no-word-bonus",
    )
    token_bonus: bool | None = option(
        None,
        "Tune a token bonus.  [default: for pseudo-log-likelihoods on 500 dev lists or"
        " more, not for BLEU]",
        "--token-bonus/--no-token-bonus",
    )
    against: str | None = option(
        None,
        "The row that p-values compare with, or `above`.  [default: the first pass]",
        metavar="ROW",
    )
    vary: Varied | None = option(
        None,
        "A row for each value, such as boost=0,0.3,1.",
        metavar="OPTION=N,N...",
        parse=Varied.of_text,
    )
    style: str = option("text", "Style on stdout.", choices=(*STYLES, "json"))
    output: tuple[str, ...] = written_file(
        (),
        "Also write the table: .md, .csv, .tex, .txt, .json (full precision). May be"
        " repeated.",
        "-o",
        "--output",
    )


@options.command(
    "compare",
    dev=options.Offer(options.DevLists, required=("dev",), without=("dev_scores",)),
    inputs=options.ONLY_MODELS,
    config=options.config("compare"),
)
def command(
    own: CompareOptions,
    lms: options.LanguageModelOptions,
    dev: options.DevLists,
    config: RunConfig,
    significance: TestOptions,
    shown: Shown,
    inputs: options.InputOptions,
) -> None:
    """Compare language models on the same lists: each alone, all together, and, for
    three models or more, all but one.

    \b
    rescore compare test.json --dev dev.json --lm ngram:lm.arpa --lm tta -o t.md

    The weights of each row are tuned on --dev. A row has the metric, its gain in
    percent of the first pass (a loss is negative), a p-value against the first pass,
    and (without --cache) the number of hypotheses scored per second. The p-value of a
    row `without MODEL` is against all models. --against ROW compares each model with
    another row. With --vary, choose the value by the dev figures; --lm may be absent.
    """
    if own.vary is None and not lms.lm:
        raise OptionError("compare needs --lm KIND[:PATH] or --vary OPTION=N,N...")
    styles = {path: checked_style("--output", path, [JSON]) for path in own.output}
    if own.vary is not None:
        own.vary.check(config)
    lists = inputs.read(own.nbest, need_references=True)
    dev_lists = inputs.read_dev(dev)
    about = shortened(", ".join(own.nbest))
    with (
        options.advice_on_cache(lms.cache),
        options.scoring_progress(config, lists, dev_lists) as progress,
    ):
        comparison = comparing.compare(
            lists,
            dev_lists,
            config,
            lms.load,
            significance.make(lists),
            about,
            progress,
            against=own.against,
            vary=own.vary,
        )
    for path, style in styles.items():
        with formats.opened(path) as file:
            file.write(render(comparison, style, shown) + "\n")
    options.show(render(comparison, own.style, shown))
