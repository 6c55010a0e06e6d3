"""What is asked of an experiment: a field for each choice. `rescore.plan` makes the
choices that are left open.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rescore.lms.base import length_power
from rescore.metrics import MetricOptions
from rescore.options import Declared, Field, OptionValues, flattened, option
from rescore.parts import DECISIONS, EXPANSIONS, FEATURES, METRICS

Bonus = bool | float | None
"""True to tune a bonus, False for no bonus, or the score to add for each word or token;
None: the plan decides.
"""

MODELS, WEIGHTS, TUNING = "Language models", "Weights", "Tuning"
FEATURE = "Features"
EXPANSION = "New hypotheses"
DECISION, SYSTEMS, MEASURES = "Decision", "Several systems", "What is measured"
SIGNIFICANCE, GROUPS = "Significance", "Groups of utterances"
"""Groups of options, as the help names them."""


def _bonus(text: str) -> bool | float:
    if text in ("off", "tune"):
        return text == "tune"
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither tune nor off nor a number") from None


def bonus_option(help: str, **about: Any) -> Any:  # noqa: A002 (as click calls it)
    """Return a field of type `Bonus` that is an option: tune, off or a number.

    Args:
        help: One sentence for the help.
        about: Further fields of `rescore.options.Option`.
    """
    return option(None, help, metavar="tune|off|NUMBER", parse=_bonus, **about)


def _norm(text: str) -> str:
    length_power(text)  # raises an error if there is no such norm
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig(Declared):
    """What was asked for: one field per choice. None, or an empty value, leaves the
    choice to `rescore.plan`.

    A field that is an option of the command line says more about the option:

        common      the short help has the option
        parts       the field holds the values of the options of all parts of a table
        needs       the options without which the option is refused
        describes   the table whose parts the help lists
        harmless    the option cannot change a figure, so no signature has it
    """

    lms: tuple[str, ...] = ()
    """The language models as --lm names them; empty if the models are given as
    objects.
    """
    lm_norm: str | None = option(
        None,
        "LM score of a hypothesis: the sum over tokens, the mean, or the sum divided by"
        " the number of tokens to the power A.  [default: mean if first-pass scores are"
        " means, else sum]",
        group=MODELS,
        needs="lm",
        metavar="sum|mean|length^A",
        parse=_norm,
    )
    force_weights: bool = False
    """Whether weights that were tuned on scores of another model are applied; the
    signature then contains `forced`.
    """
    count_tokens: bool | None = None
    """Whether the number of a model's tokens becomes a column."""

    dev: str | None = None
    """The name of the dev lists on which weights are tuned."""
    weights: tuple[float, ...] = option(
        (),
        "Weight of the LM in [0, 1], instead of tuning. Give one --weight per --lm.",
        "--weight",
        group=WEIGHTS,
        metavar="NUMBER",
        low=0,
        high=1,
        common=True,
    )
    word_bonus: Bonus = bonus_option(
        "Score added for each word of a hypothesis.  [default: tune with --dev and"
        " several columns, else off; off for BLEU]",
        group=WEIGHTS,
    )
    token_bonus: Bonus = bonus_option(
        "Score added for each token of a hypothesis, counted by the first --lm with"
        " pseudo-log-likelihoods (tta, bilm, hf-masked).  [default: tune with"
        " such an --lm and 500 dev lists or more; off for BLEU]",
        group=WEIGHTS,
    )
    boost: Bonus = bonus_option(
        "Score added for each word of --words in a hypothesis. Give NUMBER if dev lists"
        " have few of these words.  [default: tune if an option adds hypotheses with"
        " new words, else off]",
        group=WEIGHTS,
    )
    weighing: OptionValues = option(OptionValues, group=FEATURE, parts=FEATURES)
    """The options of the features."""
    folds: int | None = option(
        None,
        "Tune by K-fold cross-validation on the test lists, instead of on --dev.",
        group=WEIGHTS,
        metavar="K",
        low=2,
        common=True,
    )
    speaker: str | None = option(
        None,
        "Speaker of each utterance, for --by-speaker and --folds: all utterances of a"
        " speaker are in one fold. FIELD: a field of the lists, such as document."
        " REGEX: finds the speaker in an id.",
        group=WEIGHTS,
        metavar="FIELD|REGEX",
        needs=("folds", "by_speaker"),
    )
    columns: tuple[str, ...] = ()
    """The scored columns whose weights are tuned; empty for the columns of language
    models.
    """
    bagging: bool = option(
        True,
        "Do not average weights over bootstrap samples, and do not test whether their"
        " gain is significant: take the best weights on dev.",
        "--no-bagging",
        group=TUNING,
    )
    """Whether weights are averaged over bootstrap samples and their gain is tested;
    --no-bagging makes it False.
    """
    negative: tuple[str, ...] = option(
        (),
        "Allow a negative weight for this LM, for example to subtract an internal LM."
        " May be repeated.",
        "--allow-negative",
        group=TUNING,
        metavar="COLUMN",
    )
    components: bool = option(
        False,
        "Also tune the weights of the toolkit's own scores (decoder, ctc, lm, ...),"
        " which may be negative.",
        group=TUNING,
    )

    expanding: OptionValues = option(OptionValues, group=EXPANSION, parts=EXPANSIONS)
    """The options of the expansions; an expansion is asked for by one of them."""

    decide: str | None = option(
        None,
        "How the output text is chosen from a list.  [default: the decision that the"
        " weights were tuned for, else best]",
        group=DECISION,
        choices=DECISIONS,
        describes=DECISIONS,
        common=True,
    )
    scale: float | None = option(
        None,
        "Scale of the posteriors exp(scale * score), used by mbr and rover. With 0 all"
        " hypotheses count equally, as for samples.  [default: tuned on --dev]",
        group=DECISION,
        low=0.0,
        high=1e6,
    )
    deciding: OptionValues = option(OptionValues, group=DECISION, parts=DECISIONS)
    """The options of the decisions."""

    metrics: tuple[str, ...] = option(
        (),
        "Metric to report; by default bleu and chrf for lists with a source text and"
        " lists of translation toolkits, else wer. May be repeated; weights are tuned"
        " for the first --metric.",
        "--metric",
        group=MEASURES,
        choices=METRICS,
        common=True,
    )
    measuring: MetricOptions = option(MetricOptions, group=MEASURES, parts=METRICS)
    """The options of the metrics."""
    by_speaker: bool = option(
        False,
        "Tests exchange, and intervals draw, whole speakers instead of utterances.",
        group=SIGNIFICANCE,
    )
    by: str | None = option(
        None,
        "Also print the figures of each group of utterances, and their mean. FIELD: a"
        " field of the lists, such as accent; or speaker. FILE: an id and its group in"
        " each line. REGEX: its first group is cut from the id, such as '^(.+?)-'.",
        metavar="FIELD|FILE|REGEX",
        common=True,
        group=GROUPS,
        harmless=True,
        once=True,
    )

    checked_for: str = field(default="", init=False, compare=False, repr=False)
    """The road on which `rescore.asked` found nothing to refuse; empty for a config
    that nobody checked, or that `replace` made of another.
    """

    @property
    def tunes(self) -> bool:
        """Whether anything is tuned."""
        return self.dev is not None or self.folds is not None

    @property
    def expands(self) -> bool:
        """Whether lists get new hypotheses, so that their number is not known before
        they are expanded.
        """
        return any(self.expanding.values.values())


def flattened_options() -> dict[str, Field]:
    """Return all options of an experiment by name, with those of parts."""
    return {entry.name: entry for entry in flattened(RunConfig.declared())}


def table_of(name: str) -> str | None:
    """Return the field of `RunConfig` that holds an option of a part; None if the
    option is a field of its own.

    Args:
        name: The name of the option.
    """
    for entry in RunConfig.declared():
        of_parts = flattened([entry]) if entry.about.parts else ()
        if any(inner.name == name for inner in of_parts):
            return entry.name
    return None


def with_option(config: RunConfig, name: str, value: object) -> RunConfig:
    """Return what was asked, with another value of an option.

    Args:
        config: What was asked.
        name: A field of `RunConfig`, or an option of a part.
        value: The value.
    """
    changed: dict[str, Any] = {name: value}
    table = table_of(name)
    if table is not None:
        before: OptionValues = getattr(config, table)
        changed = {table: type(before)(**{**before.entries, name: value})}
    return replace(config, **changed)
