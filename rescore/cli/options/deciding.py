"""Options that say what is decided: each group gives fields of `RunConfig`, where the defaults are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from rescore import parts
from rescore.cli.options.base import MAIN, BonusType, Number, OneOf, WithTable, option_group
from rescore.files import shown

if TYPE_CHECKING:
    from rescore.config import RunConfig
    from rescore.metrics import Metric
    from rescore.nbest import NbestList
    from rescore.tuning.weights import Weights


class Deciding(Protocol):
    """A group of options that decide something."""

    def fields(self) -> dict[str, Any]:
        """Fields of `RunConfig`."""
        ...


def run_config(*groups: Deciding, **more: Any) -> RunConfig:
    """What the options of a command decide together."""
    from rescore.config import RunConfig

    for group in groups:
        more |= group.fields()
    return RunConfig(**more)


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """What is measured, and what counts as the same word."""

    metric: tuple[str, ...]
    tokenize: str | None
    comet_model: str | None
    case_sensitive: bool
    split_hyphens: bool
    drop_punctuation: bool
    drop_apostrophes: bool
    drop_unknown: bool
    glm: str | None
    normalizer: tuple[str, ...]
    split: str | None
    words: str | None

    def fields(self) -> dict[str, Any]:
        from rescore import metrics
        from rescore.metrics.glm import Glm
        from rescore.metrics.normalise import WordList

        normaliser = metrics.Normaliser(
            self.case_sensitive,
            self.split_hyphens,
            self.drop_punctuation,
            self.drop_apostrophes,
            self.drop_unknown,
            Glm.load(Path(self.glm)) if self.glm else None,
            **{name.replace("-", "_"): True for name in self.normalizer},
            split_characters=self.split == "characters",
            split_mixed=self.split == "mixed",
        )
        words = WordList.load(Path(self.words)) if self.words else None
        return {
            "metrics": self.metric,
            "measuring": metrics.MetricOptions(self.tokenize, normaliser, self.comet_model, words),
        }

    def choose(self, lists: Sequence[NbestList], weights: Weights | None = None) -> Metric:
        """The first metric, as `RunConfig` chooses it."""
        return run_config(self).metric(lists, weights)

    def only(self) -> MeasureOptions:
        """Itself, where one metric at most was asked for; for commands that have no use for more."""
        if len(self.metric) > 1:
            raise click.UsageError("this command has one --metric")
        return self


metric_options = option_group(
    "measure",
    MeasureOptions,
    "What is measured",
    [
        click.option(
            "--metric",
            type=OneOf(parts.METRICS),
            multiple=True,
            help="The first is optimised, others are reported. May be repeated.  "
            "[default: bleu for lists with a source, else wer]",
        ),
        click.option(
            "--tokenize",
            type=OneOf(parts.TOKENIZERS),
            cls=WithTable,
            table=OneOf(parts.TOKENIZERS),
            help="sacreBLEU's tokenizer.  [default: none where references are tokenised already, else 13a]",
        ),
        click.option(
            "--comet-model", metavar="DIR", help="COMET: its folder, with hparams.yaml and checkpoints/model.ckpt."
        ),
        click.option("--case-sensitive", is_flag=True, help="WER, CER: a difference of case is an error."),
        click.option("--split-hyphens", is_flag=True, help="WER, CER: count compounds as their parts."),
        click.option("--drop-punctuation", is_flag=True, help="WER, CER: remove punctuation marks around words."),
        click.option("--drop-apostrophes", is_flag=True, help="WER, CER: remove apostrophes: it's equals its."),
        click.option("--drop-unknown", is_flag=True, help="WER, CER: remove <unk>."),
        click.option("--glm", metavar="FILE", help="WER, CER: apply the replacements of a global mapping file (NIST)."),
        click.option(
            "--normalizer",
            type=click.Choice(["whisper-english", "whisper-basic", "nfkc"]),
            multiple=True,
            help="WER, CER: apply Whisper's normaliser of English, or of other languages, to both sides; or Unicode's "
            "compatibility forms. May be repeated.",
        ),
        click.option(
            "--split",
            type=click.Choice(["characters", "mixed"]),
            help="WER, confidences, rover: each character is a word; mixed: of Chinese, Japanese and Thai alone.",
        ),
        click.option(
            "--words",
            metavar="FILE",
            help="BWER, UWER: the words to count, or to leave out, one per line; or `utterance word word ...` per line "
            "for a list of its own for each. --respell does not replace them, and uses them as replacements.",
        ),
    ],
)


@dataclass(frozen=True, slots=True)
class DecisionOptions:
    """How a text is chosen from each list."""

    decide: str | None
    scale: float | None

    def fields(self) -> dict[str, Any]:
        return {"decide": self.decide, "scale": self.scale}


decision_options = option_group(
    "decide",
    DecisionOptions,
    "Decision",
    [
        click.option(
            "--decide",
            type=OneOf(parts.DECISIONS),
            cls=WithTable,
            table=OneOf(parts.DECISIONS),
            help="How a text is chosen from a list.  [default: as the weights were tuned; else best]",
        ),
        click.option(
            "--scale",
            type=Number(0, 1e6, open_low=True),
            help="Scale of the posteriors exp(scale * score), where --decide needs them.  [default: tuned on --dev]",
        ),
    ],
)


@dataclass(frozen=True, slots=True)
class ExpansionOptions:
    """New hypotheses from those of a list, before it is scored."""

    recombine: int
    respell: int
    channel: str | None
    lexicon: str | None

    def fields(self) -> dict[str, Any]:
        if not self.respell and (self.channel or self.lexicon):
            raise click.UsageError("--channel and --lexicon are for --respell N")
        names = ("recombine", "respell", "channel", "lexicon")
        return {name: getattr(self, name) for name in names}


expansion_options = option_group(
    "expansion",
    ExpansionOptions,
    "New hypotheses",
    [
        click.option(
            "--recombine",
            type=click.IntRange(min=0),
            default=0,
            metavar="K",
            help="Add up to K hypotheses to each list, made of parts of the others.",
        ),
        click.option(
            "--respell",
            type=click.IntRange(min=0),
            default=0,
            metavar="N",
            help="Then add up to N hypotheses in which words that occur in no text are replaced by words of a lexicon.",
        ),
        click.option(
            "--channel",
            metavar="DIR|dev|folds|shipped",
            help="With --respell: the model of misheard words. dev: learned from the dev lists; folds: from these "
            "lists, each part from the others.  [default: dev with 500 dev lists or more, else shipped]",
        ),
        click.option(
            "--lexicon", metavar="FILE", help="With --respell: counts of words.  [default: beside the first --lm]"
        ),
    ],
)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How weights are tuned."""

    plateau: bool
    no_bagging: bool
    allow_negative: tuple[str, ...]
    condition: str | None
    components: bool

    def fields(self) -> dict[str, Any]:
        return {
            "plateau": self.plateau,
            "bagging": not self.no_bagging,
            "negative": self.allow_negative,
            "condition": self.condition,
            "components": self.components,
        }


components_option = click.option(
    "--components",
    is_flag=True,
    help="Tune the parts of the toolkit's own score, too (decoder, ctc, lm, ...), without bounds.",
)


search_options = option_group(
    "search",
    SearchOptions,
    MAIN,
    [
        click.option(
            "--plateau",
            is_flag=True,
            help="With one weight: take the middle of all that are not significantly worse than the best.",
        ),
        click.option(
            "--no-bagging",
            is_flag=True,
            help="Take the best weights on dev, without bagging (average over bootstrap samples) and "
            "significance check.",
        ),
        click.option(
            "--allow-negative",
            multiple=True,
            metavar="COLUMN",
            help="Tune an LM's weight without bounds, as for the internal LM that is subtracted; may be repeated.",
        ),
        click.option(
            "--condition",
            metavar="REGEX|column:NAME",
            help="Tune separate weights for each condition: what the expression finds in an id, or a column's value.",
        ),
        components_option,
    ],
)


@dataclass(frozen=True, slots=True)
class WeightOptions:
    """Where weights come from: dev lists, folds, or the command line."""

    dev: tuple[str, ...]
    dev_ref: tuple[str, ...]
    weight: tuple[float, ...]
    word_bonus: bool | float | None
    token_bonus: bool | float | None
    folds: int | None
    speaker: str | None

    def fields(self) -> dict[str, Any]:
        if self.dev_ref and not self.dev:
            raise click.UsageError("--dev-ref needs --dev")
        return {
            "dev": shown(", ".join(self.dev)) or None,
            "weights": self.weight,
            "word_bonus": self.word_bonus,
            "token_bonus": self.token_bonus,
            "folds": self.folds,
            "speaker": self.speaker,
        }


weight_options = option_group(
    "weights",
    WeightOptions,
    MAIN,
    [
        click.option("--dev", multiple=True, metavar="NBEST", help="Lists to tune the weight on. May be repeated."),
        click.option("--dev-ref", multiple=True, metavar="FILE", help="References of the dev lists."),
        click.option(
            "--weight",
            type=Number(-1e9, 1e9),
            multiple=True,
            metavar="NUMBER",
            help="The LM's weight in [0, 1], instead of tuning; one per --lm.",
        ),
        click.option(
            "--word-bonus",
            type=BonusType(),
            help="Added for each word of a hypothesis.  [default: tune with --dev and several --lm, else off]",
        ),
        click.option(
            "--token-bonus",
            type=BonusType(),
            help="Added for each token of the first --lm that gives pseudo-log-likelihoods.  [default: tune with such "
            "an --lm and 500 dev lists or more, else off]",
        ),
        click.option(
            "--folds",
            type=click.IntRange(min=2),
            metavar="K",
            help="K-fold cross-validation on the test lists, instead of --dev.",
        ),
        click.option(
            "--speaker",
            metavar="REGEX",
            help="Finds the speaker in an id: all utterances of a speaker are in one fold.",
        ),
    ],
)


@dataclass(frozen=True, slots=True)
class TunedWeights:
    """Weights that were tuned before."""

    weights: str | None
    force_weights: bool

    def fields(self) -> dict[str, Any]:
        return {"force_weights": self.force_weights}

    def load(self) -> Weights:
        """Those of the file; the first pass alone where none is given."""
        from rescore.tuning import FIRST_PASS_ALONE, Weights

        return Weights.load(Path(self.weights)) if self.weights else FIRST_PASS_ALONE


tuned_weights_options = option_group(
    "weights",
    TunedWeights,
    MAIN,
    [
        click.option(
            "--weights",
            metavar="FILE",
            help="A file that `rescore tune`, or `run --save-weights`, wrote.  [default: the first pass alone]",
        ),
        click.option(
            "--force-weights",
            is_flag=True,
            help="Apply weights that were tuned on scores of another model; the signature then says `forced`.",
        ),
    ],
)


def _checked_norm(ctx: click.Context, parameter: click.Parameter, norm: str | None) -> str | None:
    if norm is not None:
        from rescore.lms.base import length_power

        length_power(norm)
    return norm


norm_option = click.option(
    "--lm-norm",
    metavar="sum|mean|length^A",
    callback=_checked_norm,
    help="LM score as the sum over tokens, the mean, or the sum divided by their number to the power A.  "
    "[default: mean where first-pass scores are means, else sum]",
)
