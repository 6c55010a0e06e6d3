"""What is to be decided about an experiment, and what is decided where nobody says it: in one place, for every road."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rescore.decision import DECISIONS, Decision
from rescore.errors import UserError
from rescore.lms import (
    LanguageModel,
    capabilities_of,
    column_name,
    each,
    is_pseudo,
    origin,
    parse,
    recommended_weight,
)
from rescore.lms.base import Wrapped
from rescore.metrics import METRICS, Metric, MetricOptions, choose_metric
from rescore.nbest import (
    FIRST_PASS,
    TOKENS,
    WORDS,
    Column,
    NbestList,
    Role,
    component_columns,
    ranked_by_means,
    score_columns,
)
from rescore.tuning import FIRST_PASS_ALONE, TuningOptions, Weights
from rescore.tuning.folds import respelling_columns, suits_token_bonus, suits_word_bonus
from rescore.tuning.weights import check_condition, misfit

Bonus = bool | float | None
"""True to tune one, False for none, or the number to add for each; None for what suits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One field per decision; None (or nothing) leaves it to the methods below, which say what the default is."""

    lms: tuple[str, ...] = ()
    """The language models as --lm names them, where they have such names."""
    recombine: int = 0
    """How many hypotheses are added to each list that combine what others have in different places."""
    respell: int = 0
    """How many hypotheses are added to each list, after that, with other words where it has some that no text has."""
    channel: str | None = None
    """For this a channel's folder, or a name of `CHANNELS`; None for what suits (`rescore.expansion.Respelling`)."""
    lexicon: str | None = None
    """A lexicon's file; None for that beside the first LM that has one, else the shipped T-TA's."""
    propose: str | None = None
    """The instruction model that reads each list, after recombination, and proposes hypotheses: `server:URL#MODEL`."""
    max_new: int = 3
    """How many hypotheses it may propose for each list."""
    propose_prompt: str | None = None
    """The file with its prompt; None for that of `rescore.expansion.propose`."""
    cache: str | None = None
    """The folder in which its answers are kept."""
    norm: str | None = None
    """LM scores: `sum`, `mean` or `length^A` over tokens."""
    count_tokens: bool | None = None
    """Whether a column has the number of a model's tokens."""

    metrics: tuple[str, ...] = ()
    """The first is tuned for; the others are reported, too."""
    measuring: MetricOptions = field(default_factory=MetricOptions)
    """How they count. Its list of words is of those that respelling takes for known, and proposes, too."""
    decide: str | None = None
    """How a text is chosen from a list, a name of `DECISIONS`."""
    scale: float | None = None
    """Of the posteriors exp(scale * score), where the decision needs them."""

    weights: tuple[float, ...] = ()
    """Given, not tuned: one per language model."""
    cascade: Weights | None = None
    """By which a model with the option `top=N` chooses the hypotheses that it scores; None for `with_selections`."""
    force_weights: bool = False
    """Whether weights are applied that were tuned on scores of another model."""
    dev: str | None = None
    """The name of the dev lists that weights are tuned on."""
    folds: int | None = None
    """Without dev lists: into how many parts the test lists are cut, each decided with weights of the others."""
    speaker: str | None = None
    """Where an id has its speaker, whom a fold keeps whole."""
    word_bonus: Bonus = None
    token_bonus: Bonus = None
    columns: tuple[str, ...] = ()
    """What is tuned, where the lists are scored already; nothing for the columns of language models."""
    components: bool = False
    """Whether the parts of the toolkit's own score (decoder, ctc, lm, ...) are tuned, too, without bounds."""
    nth: int | None = None
    """Of these the Nth alone, from 1."""
    plateau: bool = False
    """As `bagging`, `negative` and `condition`: see `TuningOptions`."""
    bagging: bool = True
    negative: tuple[str, ...] = ()
    condition: str | None = None

    @property
    def tunes(self) -> bool:
        """Whether anything is tuned."""
        return self.dev is not None or self.folds is not None

    @property
    def expands(self) -> bool:
        """Whether lists get new hypotheses, so that their number is not known before."""
        return bool(self.recombine or self.respell or self.propose)

    def checked(self) -> RunConfig:
        """Itself, if a whole run can be made of it: looked at before anything is read or scored.

        Raises:
            UserError: two decisions contradict each other, or one lacks another.
        """
        if self.dev is not None and self.weights:
            raise UserError("--dev and --weight exclude each other: --dev tunes the weights that --weight sets")
        if self.folds and (self.dev is not None or self.weights):
            raise UserError("--folds tunes on the test lists themselves; leave out --dev and --weight")
        for option, asked in (("--respell", self.respell), ("--propose", self.propose)):
            if asked and not self.tunes:
                raise UserError(f"{option} needs --dev lists (or --folds): the weights of its columns are tuned")
            if asked and self.plateau:
                raise UserError(f"--plateau cannot be combined with {option}")
        decision = self.decision()
        if decision.needs_scale and not self.tunes:
            raise UserError(
                f"--decide {decision.name} needs --dev lists to tune the scale of posteriors on, or --scale"
            )
        if (self.plateau or not self.bagging or self.condition or self.negative or self.components) and not self.tunes:
            raise UserError(
                "--plateau, --no-bagging, --allow-negative, --condition, --components are about tuning; "
                "give --dev or --folds"
            )
        check_condition(self.condition)
        for option, bonus in (("--word-bonus", self.word_bonus), ("--token-bonus", self.token_bonus)):
            if bonus is True and not self.tunes:
                raise UserError(f"{option} tune needs --dev lists to tune on")
            if self.tunes and bonus is not None and not isinstance(bonus, bool):
                raise UserError(f"{option} NUMBER needs --weight; --dev and --folds tune this bonus")
        if not self.tunes and (internal := [spec for spec in each(self.lms) if parse(spec).internal]):
            raise UserError(f"--lm {internal[0]}: the weight of an internal LM is tuned; give --dev or --folds")
        if not self.tunes and self.lms:
            self.given_weights(each(self.lms))
        return self

    def for_lists(self, lists: Sequence[NbestList]) -> RunConfig:
        """With the norm that suits the first pass of lists: mean where its scores are means over tokens, else sum."""
        return replace(self, norm=self.norm or ("mean" if ranked_by_means(lists) else "sum"))

    def with_selections(
        self,
        lms: Sequence[LanguageModel],
        heads: Sequence[NbestList] = (),
        specs: Sequence[str | None] = (),
        tuned: Mapping[str, Column] | None = None,
    ) -> list[LanguageModel]:
        """The models; those that score the best hypotheses only know by which weights these are chosen.

        These are the weights of `cascade`, else the mean of the interpolations that the cards of the models before
        recommend; before the first model, the first pass alone.

        Args:
            heads: a list of each set that will be scored. specs: how each model was named, None where it was not.
            tuned: the columns that weights were tuned on, whose selections are used again.

        Raises:
            UserError: a model before has no card, or a list has scores of a model that is not among them.
        """
        names = list(specs) if len(specs) == len(lms) else [None] * len(lms)
        result: list[LanguageModel] = []
        for lm in lms:
            if isinstance(lm, Wrapped) and lm.capabilities.selection is not None:
                known = (tuned or {}).get(column_name(lm, str(self.norm)))
                again = known.selection if known else None
                weights = again.weights if again else self._selecting(lm, result, heads, names)
                lm = lm.selecting(weights)
            result.append(lm)
        return result

    def _selecting(
        self,
        lm: LanguageModel,
        before: Sequence[LanguageModel],
        heads: Sequence[NbestList],
        names: Sequence[str | None],
    ) -> dict[str, float]:
        """The weights by which hypotheses are chosen that `lm` scores."""
        if self.cascade is not None:
            if self.cascade.condition is not None:
                raise UserError("--cascade: weights by condition cannot choose hypotheses; tune without --condition")
            columns = {column_name(other, str(self.norm)): origin(other, str(self.norm)) for other in before}
            for recorded in [nbest.provenance for nbest in heads] or [{}]:
                if (fault := misfit(self.cascade, {**recorded, **columns})) and not self.force_weights:
                    raise UserError(f"--cascade: {fault}")
            return self.cascade.weights
        cards: dict[str, float] = {}
        for other, name in zip(before, names, strict=False):
            if capabilities_of(other).internal:
                continue
            if name is None:
                raise UserError(f"{lm.name}: {other.name} has no weight to choose hypotheses with; give `cascade`")
            try:
                cards[column_name(other, str(self.norm))] = recommended_weight(name)
            except UserError as error:
                raise UserError(f"--lm {lm.name}: {error}, or --cascade FILE with tuned weights") from None
        for nbest in heads:
            own = {column_name(other, str(self.norm)) for other in (*before, lm)}
            if foreign := [name for name in score_columns(nbest) if name in nbest.provenance and name not in own]:
                raise UserError(
                    f"--lm {lm.name}: the lists already have scores of {foreign[0]}; give the model of these scores "
                    f"as --lm before {lm.name}, or give --cascade FILE with weights that choose the hypotheses"
                )
        shares = {name: weight / len(cards) for name, weight in cards.items()}
        return {FIRST_PASS: 1 - math.fsum(shares.values()), **shares}

    def counted(self, lms: Sequence[LanguageModel], lists: Sequence[NbestList]) -> LanguageModel | None:
        """The model whose tokens are counted, for a bonus: the first one of pseudo-log-likelihoods, if there is any.

        If a count is asked for, and there is none of these, the first model; if lists have a count, and no other one
        is asked for, none.
        """
        lms = [lm for lm in lms if capabilities_of(lm).selection is None]  # which score all hypotheses
        pseudo = next((lm for lm in lms if is_pseudo(lm.model)), None)
        asked = self.count_tokens
        if asked is None and self.token_bonus is not None:
            asked = bool(self.token_bonus)
        if asked is None:
            return None if lists and TOKENS in lists[0].provenance else pseudo
        return (pseudo or next(iter(lms), None)) if asked else None

    def decision(self, weights: Weights = FIRST_PASS_ALONE) -> Decision:
        """That asked for; of what is not, that for which the weights were tuned; else the best score.

        Raises:
            UserError: a scale is given, and the decision needs none.
        """
        name = weights.decision.name if self.decide is None else DECISIONS.check(self.decide)
        if self.scale is not None:
            if not DECISIONS[name].needs_scale:
                able = [name for name in DECISIONS.names if DECISIONS[name].needs_scale]
                raise UserError(f"--scale needs --decide {' or '.join(able)}")
            return Decision(name, self.scale)
        return weights.decision if name == weights.decision.name else Decision(name)

    def without_scale(self) -> RunConfig:
        """Itself, with no scale of posteriors."""
        return replace(self, scale=None)

    def metric(self, lists: Sequence[NbestList], weights: Weights | None = None) -> Metric:
        """The first metric asked for; else that for which weights were tuned; else BLEU for translations, and WER."""
        tuned = weights.tuned_for if weights else None
        name = self.metrics[0] if self.metrics else tuned.metric if tuned else None
        return choose_metric(name, lists, self._measuring(weights))

    def others(self, lists: Sequence[NbestList], weights: Weights | None = None) -> list[Metric]:
        """The further metrics asked for; where none is named, chrF beside BLEU.

        What is tuned for a metric, or minimises the risk under it, flatters that metric (arXiv 2411.03524).
        """
        names = dict.fromkeys(map(METRICS.check, self.metrics[1:]))
        if not self.metrics and self.metric(lists, weights).name == "BLEU":
            names = {"chrf": None}
        return [choose_metric(name, lists, self._measuring(weights)) for name in names]

    def _measuring(self, weights: Weights | None) -> MetricOptions:
        """How the metrics count: as the weights were tuned, if it is for the same metric, and as is asked for."""
        tuned = weights.tuned_for if weights else None
        if tuned is None or (self.metrics and METRICS.check(self.metrics[0]) != tuned.metric):
            return self.measuring
        return tuned.options.merged_with(self.measuring)

    def tuning(self, lists: Sequence[NbestList], columns: Sequence[str], metric: Metric | None = None) -> TuningOptions:
        """How weights of columns are tuned on lists.

        Args:
            metric: that they are tuned for; None for the one that `metric` chooses.
        """
        metric = metric or self.metric(lists)
        words = suits_word_bonus(columns, metric) if self.word_bonus is None else bool(self.word_bonus)
        tokens = suits_token_bonus(lists, columns, metric) if self.token_bonus is None else bool(self.token_bonus)
        bonuses = (*([WORDS] if words else []), *([TOKENS] if tokens else []), *respelling_columns(lists))
        internal = [name for name in columns if lists[0].role(name) is Role.INTERNAL_LM]
        free = [name for name in (*self.component_columns(lists), *internal) if name in columns]
        negative = tuple(dict.fromkeys([*self.negative, *free]))
        return TuningOptions(
            bonuses, self.plateau, self.bagging, negative, self.condition, self.decision(), self.folds, self.speaker
        )

    def component_columns(self, lists: Sequence[NbestList]) -> list[str]:
        """The columns of the toolkit's own parts that are tuned.

        Raises:
            UserError: they are asked for, and the lists have none.
        """
        columns = component_columns(lists[0]) if self.components and lists else []
        if self.components and not columns:
            raise UserError(
                "--components: the lists have no parts of the first-pass score; of ESPnet2 these are in "
                "{n}best_recog/scores, of Kaldi and SRILM the acoustic and the LM score"
            )
        return columns

    def given_weights(self, columns: Sequence[str]) -> Weights:
        """The weights where nothing is tuned: as given, else the one that the model's card recommends.

        Raises:
            UserError: there are more or fewer weights than models, one is out of range, or the card has none.
        """
        bonuses = {WORDS: float(self.word_bonus or 0), TOKENS: float(self.token_bonus or 0)}
        if not (columns or self.weights):
            return Weights.interpolation({}, "first pass", "given", bonuses)
        numbers, origin, tuned = list(self.weights), "given", "given"
        if not numbers:
            if len(columns) > 1:
                raise UserError("several --lm need --dev lists to tune on, or one --weight per --lm")
            if not self.lms:
                raise UserError(f"{columns[0]}: neither dev lists nor a weight; give one of them")
            numbers, origin = [recommended_weight(self.lms[0])], "recommended by the model card"
            tuned = "card"
        if len(numbers) != len(columns):
            raise UserError(f"{len(columns)} --lm, but {len(numbers)} --weight; give one --weight per --lm")
        return Weights.interpolation(dict(zip(columns, numbers, strict=True)), origin, tuned, bonuses)
