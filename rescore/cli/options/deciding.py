"""Options that say what is decided: each group gives fields of `RunConfig`, where the defaults are."""

from __future__ import annotations

import logging
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


log = logging.getLogger(__name__)


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
    config = RunConfig(**more)
    weighs = config.metrics or any(isinstance(group, ExpansionOptions) for group in groups)
    tuned = not config.metrics and any(isinstance(group, TunedWeights) for group in groups)  # perhaps for such a metric
    used = config.respell or tuned or any(name in LISTED_METRICS for name in config.metrics)
    if config.measuring.words and weighs and not used:
        log.warning(
            "--words changes nothing here: it is for --respell N and for --metric %s", " or ".join(LISTED_METRICS)
        )
    return config


LISTED_METRICS = ("bwer", "uwer")
"""Metrics that tell the words of --words from others."""


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
            help="Metric to report; tuning optimises the first --metric. May be repeated.  [default: bleu for "
            "lists with a source text, else wer]",
        ),
        click.option(
            "--tokenize",
            type=OneOf(parts.TOKENIZERS),
            cls=WithTable,
            table=OneOf(parts.TOKENIZERS),
            help="sacreBLEU tokenizer.  [default: none if the references are tokenised, else 13a]",
        ),
        click.option(
            "--comet-model",
            metavar="DIR",
            help="Folder of the COMET model, with hparams.yaml and checkpoints/model.ckpt.",
        ),
        click.option("--case-sensitive", is_flag=True, help="WER, CER: count a difference in case as an error."),
        click.option("--split-hyphens", is_flag=True, help="WER, CER: split compounds at hyphens."),
        click.option("--drop-punctuation", is_flag=True, help="WER, CER: remove punctuation marks around words."),
        click.option("--drop-apostrophes", is_flag=True, help="WER, CER: remove apostrophes (it's becomes its)."),
        click.option("--drop-unknown", is_flag=True, help="WER, CER: remove <unk>."),
        click.option("--glm", metavar="FILE", help="WER, CER: apply a NIST global mapping file (GLM)."),
        click.option(
            "--normalizer",
            type=click.Choice(["whisper-english", "whisper-basic", "nfkc"]),
            multiple=True,
            help="WER, CER: normalise hypotheses and references with Whisper's normaliser for English, Whisper's basic "
            "normaliser for other languages, or Unicode NFKC. May be repeated.",
        ),
        click.option(
            "--split",
            type=click.Choice(["characters", "mixed"]),
            help="Words in WER, confidences and rover. characters: each character is a word; mixed: each Chinese, "
            "Japanese or Thai character is a word.",
        ),
        click.option(
            "--words",
            metavar="FILE",
            help="Your own words, such as names, one per line; or one line `utterance word word ...` per utterance. "
            "BWER is the error rate of these words, UWER of all other words. --respell keeps these words and "
            "proposes them as replacements.",
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
            help="How the output text is chosen from a list.  [default: the decision that the weights were tuned for, "
            "else best]",
        ),
        click.option(
            "--scale",
            type=Number(0, 1e6, open_low=True),
            help="Scale of the posteriors exp(scale * score), used by mbr and rover.  [default: tuned on --dev]",
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
    propose: str | None
    max_new: int | None
    propose_prompt: str | None

    def fields(self) -> dict[str, Any]:
        if not self.respell and (self.channel or self.lexicon):
            raise click.UsageError("--channel and --lexicon are for --respell N")
        if not self.propose and (self.max_new or self.propose_prompt):
            raise click.UsageError("--max-new and --propose-prompt are for --propose server:URL#MODEL")
        names = ("recombine", "respell", "channel", "lexicon", "propose", "propose_prompt")
        number = {"max_new": self.max_new} if self.max_new else {}
        return {name: getattr(self, name) for name in names} | number


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
            help="Add up to K hypotheses to each list, combined from parts of its hypotheses.",
        ),
        click.option(
            "--respell",
            type=click.IntRange(min=0),
            default=0,
            metavar="N",
            help="Add up to N hypotheses to each list, after --recombine: words outside the lexicon are replaced by "
            "words of the lexicon.",
        ),
        click.option(
            "--channel",
            metavar="DIR|dev|folds|shipped",
            help="With --respell: model of misheard words. DIR: a trained model; dev: learned from the dev lists; "
            "folds: learned from these lists by cross-validation; shipped: part of rescore.  [default: dev with "
            "500 dev lists or more, else shipped]",
        ),
        click.option(
            "--lexicon",
            metavar="FILE",
            help="With --respell: file of words with counts.  [default: in the folder of the first --lm]",
        ),
        click.option(
            "--propose",
            metavar="server:URL#MODEL",
            help="Add corrections of each list as hypotheses, after --recombine. An instruction model on a chat "
            "completions server writes the corrections.",
        ),
        click.option(
            "--max-new",
            type=click.IntRange(1, 99),
            metavar="N",
            help="With --propose: maximum number of corrections per list.  [default: 3]",
        ),
        click.option(
            "--propose-prompt",
            metavar="FILE",
            help="With --propose: prompt template. {list} is required; {number} and {src} are optional.  [default: "
            "built-in prompts for speech and translation]",
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
    help="Also tune the weights of the toolkit's own scores (decoder, ctc, lm, ...), without bounds.",
)


search_options = option_group(
    "search",
    SearchOptions,
    MAIN,
    [
        click.option(
            "--plateau",
            is_flag=True,
            help="With one weight: use the middle of all weights that are not significantly worse than the best.",
        ),
        click.option(
            "--no-bagging",
            is_flag=True,
            help="Use the best weights on dev as they are: no averaging over bootstrap samples, no significance check.",
        ),
        click.option(
            "--allow-negative",
            multiple=True,
            metavar="COLUMN",
            help="Tune the weight of this LM without bounds, for example to subtract an internal LM. May be repeated.",
        ),
        click.option(
            "--condition",
            metavar="REGEX|column:NAME",
            help="Tune separate weights for each condition. The condition of a list is the match of REGEX in its id, "
            "or its value in the column NAME.",
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
        click.option(
            "--dev",
            multiple=True,
            metavar="NBEST",
            help="Lists with references to tune the weights on. May be repeated.",
        ),
        click.option("--dev-ref", multiple=True, metavar="FILE", help="References of the dev lists."),
        click.option(
            "--weight",
            type=Number(-1e9, 1e9),
            multiple=True,
            metavar="NUMBER",
            help="Weight of the LM in [0, 1], instead of tuning. Give one --weight per --lm.",
        ),
        click.option(
            "--word-bonus",
            type=BonusType(),
            help="Score added for each word of a hypothesis.  [default: tune with --dev and several --lm, else "
            "off; off for BLEU]",
        ),
        click.option(
            "--token-bonus",
            type=BonusType(),
            help="Score added for each token of a hypothesis. Tokens are counted with the tokenizer of the first --lm "
            "that gives pseudo-log-likelihoods.  [default: tune with a pseudo-log-likelihood --lm and 500 dev lists "
            "or more, else off; off for BLEU]",
        ),
        click.option(
            "--folds",
            type=click.IntRange(min=2),
            metavar="K",
            help="Tune by K-fold cross-validation on the test lists, instead of on --dev.",
        ),
        click.option(
            "--speaker",
            metavar="REGEX",
            help="Regular expression that finds the speaker in an utterance id. All utterances of a speaker are in one "
            "fold.",
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
            help="Weights file from `rescore tune` or `rescore run --save-weights`.  [default: the first pass alone]",
        ),
        click.option(
            "--force-weights",
            is_flag=True,
            help="Apply weights that were tuned on scores of another model; the signature then contains `forced`.",
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
    help="LM score of a hypothesis: the sum over tokens, the mean, or the sum divided by the number of tokens to the "
    "power A.  [default: mean if first-pass scores are means, else sum]",
)
