"""What will be done: `resolve` decides every default of an experiment, once, for every
road.

    config  what was asked (`rescore.config.RunConfig`): None means "what suits"
    plan    what will be done (`Plan`): nothing is open, and `Plan.reasons` says why

`rescore run`, the stages, `compare`, recipes, Python, `Rescorer` and the service make a
plan and execute it with the stages of `rescore.pipeline`. A stage asks the plan, and
neither the config, nor a model's class, nor a column's name.

    config = RunConfig(lms=("tta",), dev="dev.json")
    plan = resolve(config, lists, dev)
    print(*plan.reasons, sep="\\n")
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rescore.config import TUNING, WEIGHTS, RunConfig
from rescore.decision import DECISIONS, Decision
from rescore.errors import UserError
from rescore.lms import (
    LanguageModel,
    each,
    is_pseudo,
    load_all,
    origin,
    with_own_columns,
)
from rescore.metrics import METRICS, Metric, Normaliser, choose_metric, default_metric
from rescore.nbest import (
    LISTED,
    TOKENS,
    WORDS,
    NbestList,
    Role,
)
from rescore.tuning import FIRST_PASS_ALONE, TuningOptions, Weights
from rescore.tuning.folds import (
    LARGE_SET,
    added_columns,
    choose_columns,
    suits_word_bonus,
)

if TYPE_CHECKING:
    from rescore.expansion import Expansion
    from rescore.metrics.folds import Folds
    from rescore.metrics.listed import WordList

log = logging.getLogger(__name__)

HAVE_SOURCES = "the lists have source texts (src); for WER give --metric wer"
"""Why BLEU measures lists that no translation toolkit wrote: the reason that users are
told without --verbose.
"""
Load = Callable[[], Sequence[LanguageModel]]
"""Loads the language models of an experiment."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One decision of a plan, as `--verbose` prints it."""

    subject: str
    """The thing decided about, such as `metric`."""
    decision: str
    why: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.decision} ({self.why})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All decisions about one experiment. The stages of `rescore.pipeline` execute
    it.
    """

    models: tuple[LanguageModel, ...] = ()
    """The language models. Each has a name, and so a column, of its own."""
    norm: str = "sum"
    """How token scores become the score of a hypothesis: `sum`, `mean` or
    `length^A`.
    """
    counted: tuple[LanguageModel, ...] = ()
    """The model whose tokens are counted in the column `tokens`, or no model."""
    expansions: tuple[Expansion, ...] = ()
    """Add new hypotheses to lists before they are scored, one after another."""
    words: Normaliser = field(default_factory=Normaliser)
    """Cuts texts into the words that have a bonus: as the metric that the weights are
    tuned for.
    """
    listed: WordList | None = None
    """The words whose number in a hypothesis becomes a column."""
    metrics: tuple[Metric, ...] = ()
    """The first metric is the objective of tuning; all are reported. Empty if nothing
    is decided or measured.
    """
    decision: Decision = field(default_factory=Decision)
    """How a text is chosen from a list. The scale of posteriors is absent if it is
    tuned.
    """
    columns: tuple[str, ...] = ()
    """The columns whose weights are tuned, in the order in which they were named."""
    tuning: TuningOptions = field(default_factory=TuningOptions)
    """How these weights are tuned."""
    tuned_on: str = ""
    """The name of the lists on which weights are tuned; empty if nothing is tuned."""
    folds: tuple[Folds, ...] = ()
    """None, or one: how the lists are cut into parts, each of which is decided with
    weights of the others.
    """
    weights: Weights = FIRST_PASS_ALONE
    """The weights that decide if nothing is tuned."""
    force_weights: bool = False
    """Whether weights are applied that were tuned on scores of another model."""
    measured_in_vain: tuple[str, ...] = ()
    """Metrics that were asked for explicitly; a warning names them if the lists have no
    references.
    """
    reasons: tuple[Reason, ...] = ()
    """Why: one line for each decision."""

    @property
    def metric(self) -> Metric:
        """The objective of tuning, and the first metric of reports."""
        return self.metrics[0]

    @property
    def model_columns(self) -> list[str]:
        """The columns of the models' scores."""
        return [lm.name for lm in self.models]

    def decision_with(self, weights: Weights) -> Decision:
        """The decision under weights: the weights bring the scale of posteriors if the
        plan has none.
        """
        return self.decision.completed_by(weights.decision)


def check(config: RunConfig) -> RunConfig:
    """The config, if a whole run can be made of it; called before anything is read or
    scored.

    Raises:
        UserError: two decisions contradict each other, or one lacks another.
    """
    if config.dev is not None and config.weights:
        raise UserError(
            "--dev and --weight exclude each other: --dev tunes the weights that"
            " --weight sets"
        )
    if config.folds and (config.dev is not None or config.weights):
        raise UserError(
            "--folds tunes on the test lists themselves; leave out --dev and --weight"
        )
    if config.expands:
        # here, and below: most runs expand nothing
        from rescore.expansion import configured

        config = configured(config)
    decision_of(config)
    for name, title, about, _, default in () if config.tunes else RunConfig.declared():
        value = getattr(config, name)
        if title == TUNING and value != default:
            raise UserError(
                f"{about.flag(name)} is about tuning; give --dev or --folds"
            )
        if title == WEIGHTS and value is True:
            raise UserError(
                f"{about.flag(name)} tune needs --dev lists to tune on; or give NUMBER"
            )
    for name, bonus in (
        ("--word-bonus", config.word_bonus),
        ("--token-bonus", config.token_bonus),
    ):
        if config.tunes and not isinstance(bonus, bool | None):
            raise UserError(
                f"{name} NUMBER needs --weight; --dev and --folds tune this bonus"
            )
    if not config.tunes and config.lms:
        from rescore.given import given_weights

        given_weights(config, each(config.lms))
    return config


def resolve(
    config: RunConfig,
    lists: Sequence[NbestList] = (),
    dev: Sequence[NbestList] | None = None,
    load: Load | None = None,
    specs: Sequence[str | None] = (),
    weights: Weights | None = None,
    measures: bool = True,
) -> Plan:
    """Decide everything that `config` leaves open.

    Args:
        lists: the lists of the experiment, or the first lists of a stream. dev: the dev
            lists, if there are any.
        load: loads the models; None if `config.lms` names them. specs: the name of each
            loaded model, None for a model without a name. weights: weights that were
            tuned before; None to tune weights or to take the config's.
        measures: whether texts are decided or measured; a plan for scores alone has no
            metrics.

    Raises:
        UserError: what `config` says cannot be done with these lists.
    """
    plan = _Resolver(config, lists, dev, weights).plan(load, specs, measures)
    for reason in plan.reasons:
        log.log(
            logging.INFO if reason.why == HAVE_SOURCES else logging.DEBUG, "%s", reason
        )
    return plan


class _Resolver:
    """Makes one plan; `reasons` grows with each decision."""

    def __init__(
        self,
        config: RunConfig,
        lists: Sequence[NbestList],
        dev: Sequence[NbestList] | None,
        weights: Weights | None,
    ) -> None:
        self._config, self._lists, self._dev, self._tuned = config, lists, dev, weights
        self._basis = dev if dev else lists  # what weights are tuned on
        self._boosts = weights is not None and weights.boosts
        self._tunes = dev is not None or config.folds is not None
        self._heads = [known[0] for known in (lists, dev or ()) if known]
        self._reasons: list[Reason] = []
        self._boost: bool | float = False

    def _decide(self, subject: str, decision: object, why: str) -> None:
        self._reasons.append(Reason(subject, str(decision), why))

    def plan(
        self, load: Load | None, specs: Sequence[str | None], measures: bool
    ) -> Plan:
        """The whole plan: what is cheap to refuse comes first, then the models are
        loaded.
        """
        config = self._config
        metrics = self.metrics() if measures else ()
        decision = self._decision() if measures else Decision()
        components = self._components()
        if measures and (boost := self._boosted()):
            self._boost = boost
            why = "--boost" if config.boost else "hypotheses have new words"
            self._decide("boost", "tuned" if boost is True else f"{boost:g}", why)
        words, listed = self._words(metrics), config.measuring.words
        if measures and not (self._boosts or self._boost is not False):
            listed = None
        elif measures and listed is None:
            # here: most runs have no list of words
            from rescore.metrics.listed import check_counting

            check_counting(self._heads, words)
        expansions = tuple(
            part.made(options, config, self._dev) for _, part, options in _asked(config)
        )
        for expansion in expansions if components else ():
            expansion.check_components(self._basis[0], components)
        # No warning about the first metric where tuning or the decision uses it: there
        # it is not in vain.
        used = self._tunes or decision.name != "best"
        loaded = list(load() if load else load_all(config.lms) if config.lms else ())
        norm = self._norm(loaded)
        models = self._models(loaded, norm, specs)
        plan = Plan(
            models=tuple(models),
            norm=norm,
            counted=self._counted(models),
            expansions=expansions,
            words=words,
            listed=listed,
            metrics=metrics,
            decision=decision,
            force_weights=config.force_weights,
            measured_in_vain=config.metrics[1:] if used else config.metrics,
        )
        if not measures:
            return replace(plan, reasons=tuple(self._reasons))
        if self._tunes:
            plan = self._to_tune(plan, components)
        elif self._tuned is not None:
            plan = replace(plan, weights=self._tuned)
            self._decide("weights", self._tuned.tuned, "as tuned before")
        else:
            plan = replace(plan, weights=self._given(plan))
        return replace(plan, reasons=tuple(self._reasons))

    def _to_tune(self, plan: Plan, components: Sequence[str]) -> Plan:
        """The plan with the columns to tune, and how."""
        config = self._config
        columns = list(dict.fromkeys([*self._columns(plan), *components]))
        if components:
            self._decide(
                "components",
                ", ".join(components),
                "--components: parts of the toolkit's score",
            )
        folds = None
        if config.folds:
            from rescore.metrics.folds import split  # here: most runs have no folds

            folds = split(
                [nbest.id for nbest in self._lists], config.folds, config.speaker
            )
        if folds or len(columns) > 1 or plan.expansions or plan.decision.name != "best":
            # here: the texts of most runs are compared once
            from rescore.metrics.cached import remembered

            plan = replace(plan, metrics=tuple(map(remembered, plan.metrics)))
        name = config.dev or "dev"
        if folds:
            name = f"{folds.number} folds by {folds.unit}"
        self._decide("weights", f"tuned on {name}", f"{len(self._basis):,} lists")
        self._decide("columns", ", ".join(columns) or "none", "their weights are tuned")
        return replace(
            plan,
            columns=tuple(columns),
            tuning=self._tuning(plan, columns, components),
            tuned_on=name,
            folds=(folds,) if folds else (),
        )

    def metrics(self) -> tuple[Metric, ...]:
        """The objective of tuning, and the further metrics of reports."""
        config, tuned = self._config, self._tuned.tuned_for if self._tuned else None
        measuring, asked = config.measuring, list(map(METRICS.check, config.metrics))
        if tuned is not None and (
            not asked or tuned.metric in asked
        ):  # in any place: `run` has options for all metrics
            measuring = tuned.options.merged_with(config.measuring)
        known = [*self._lists, *(self._dev or ())]
        name = (
            config.metrics[0]
            if config.metrics
            else tuned.metric
            if tuned
            else default_metric(known)
        )
        if self._dev and any(nbest.references for nbest in self._lists):
            # dev lists may have words that test lists lack
            choose_metric(name, self._lists, measuring)
        metric = choose_metric(name, self._basis, measuring)
        if metric.learned and self._tunes:
            name = metric.name.lower()
            raise UserError(
                f"--metric {name}: tune for bleu or chrf, and report {name} with a"
                " second --metric"
            )
        why = f"the lists are {'' if metric.name == 'BLEU' else 'no '}translations"
        if config.metrics:
            why = "--metric"
        elif tuned:
            why = "the weights were tuned for it"
        elif metric.name == "BLEU" and not any(
            nbest.header.translates for nbest in known
        ):
            why = HAVE_SOURCES
        self._decide("metric", metric.name, why)
        names = dict.fromkeys(asked)
        names.pop(metric.name.lower(), None)
        if not config.metrics and metric.companion:
            names = dict.fromkeys([metric.companion])
            self._decide(
                "further metric",
                metric.companion,
                f"tuning for {metric.name} flatters {metric.name}",
            )
        others = [
            choose_metric(other, self._lists or self._basis, measuring)
            for other in names
        ]
        told = any(hasattr(one.options, "words") for one in (metric, *others))
        if (
            measuring.words
            and metric.words
            and (self._boosts or self._boosted() or not told)
        ):
            wanted = [
                name
                for name in ("bwer", "uwer")
                if name not in (metric.name.lower(), *names)
            ]
            try:
                others += [
                    choose_metric(name, self._lists or self._basis, measuring)
                    for name in wanted
                ]
                self._decide(
                    "further metrics",
                    "bwer, uwer",
                    "words are listed: what they cost other words",
                )
            except UserError as error:  # the words may be right for other lists
                log.warning("%s, so figures of listed words are absent", error)
        return metric, *others

    def _words(self, metrics: Sequence[Metric]) -> Normaliser:
        """Cuts texts as the metric that the weights were tuned for, else as the
        objective.
        """
        about = self._tuned.tuned_for if self._tuned else None
        if about and metrics and about.metric != metrics[0].name.lower():
            metrics = [choose_metric(about.metric, (), about.options)]
        return (metrics[0].words if metrics else None) or Normaliser()

    def _decision(self) -> Decision:
        """The decision that was asked for; else the decision that the weights were
        tuned for; else the best score.
        """
        decision = decision_of(self._config, self._tuned or FIRST_PASS_ALONE)
        if decision.needs_scale and not self._tunes and self._lists:
            if not self._lists[0].header.systems:
                name = f"--decide {decision.name}"
                raise UserError(
                    f"{name} needs a scale: --scale NUMBER, --weights of rescore tune"
                    f" {name}, or run --dev DEV"
                )
            decision = replace(decision, scale=1.0)
        why = (
            "--decide"
            if self._config.decide
            else "the weights were tuned for it"
            if self._tuned
            else "the default"
        )
        scale = "" if decision.scale is None else f" with scale {decision.scale:g}"
        self._decide(
            "decision",
            decision.name + (" with a tuned scale" if decision.needs_scale else scale),
            why,
        )
        return decision

    def _components(self) -> list[str]:
        """The columns of the toolkit's own parts whose weights are tuned."""
        if not self._config.components:
            return []
        columns = self._basis[0].columns(Role.COMPONENT) if self._basis else []
        if not columns:
            raise UserError(
                "--components: the lists have no parts of the first-pass score; of"
                " ESPnet2 these are in {n}best_recog/scores, of Kaldi and SRILM the"
                " acoustic and the LM score"
            )
        return columns

    def _norm(self, models: Sequence[LanguageModel]) -> str:
        """The normalisation of the config; else of the weights' columns; else of the
        first pass.
        """
        if self._config.lm_norm:
            self._decide("normalisation", self._config.lm_norm, "--lm-norm")
            return self._config.lm_norm
        fingerprints = {lm.fingerprint for lm in models}
        for column in self._tuned.columns.values() if self._tuned else ():
            if column.fingerprint in fingerprints:
                self._decide(
                    "normalisation",
                    column.norm,
                    "the weights were tuned on such scores",
                )
                return column.norm
        lists = self._lists or self._dev or ()
        means = bool(lists) and lists[0].header.means
        if models:
            self._decide(
                "normalisation",
                "mean" if means else "sum",
                f"first-pass scores are {'means' if means else 'sums'}",
            )
        return "mean" if means else "sum"

    def _models(
        self, loaded: Sequence[LanguageModel], norm: str, specs: Sequence[str | None]
    ) -> list[LanguageModel]:
        """The models, each with its column."""
        names = specs or each(self._config.lms)
        if len(names) != len(loaded):
            names = [None] * len(loaded)
        given = [name for name in names if name is not None]
        models = with_own_columns(
            loaded, norm, self._heads, given if len(given) == len(loaded) else ()
        )
        if self._config.lms or specs:
            for lm in models:
                self._decide(lm.name, lm.model, "all hypotheses")
        return models

    def _counted(self, models: Sequence[LanguageModel]) -> tuple[LanguageModel, ...]:
        """The model whose tokens are counted, for a bonus: the first model of
        pseudo-log-likelihoods.

        If a count is asked for and no model gives pseudo-log-likelihoods, the first
        model. If the lists have a count and no other count is asked for, none.
        """
        config = self._config
        pseudo = [lm for lm in models if is_pseudo(lm.model)]
        wanted = config.count_tokens
        if wanted is None and config.token_bonus is not None:
            wanted = bool(config.token_bonus)
        known = self._tuned.columns.get(TOKENS) if self._tuned else None
        if wanted is None and known is not None:
            counted = [lm for lm in models if lm.fingerprint == known.fingerprint]
            why = "the weights were tuned with its tokens"
        elif wanted is None:
            counted = (
                []
                if any(TOKENS in nbest.header.columns for nbest in self._heads[:1])
                else pseudo
            )
            why = "pseudo-log-likelihoods say little about length"
        else:
            counted = (pseudo or list(models)) if wanted else []
            why = "asked for"
        if counted:
            self._decide("tokens", f"counted by {counted[0].name}", why)
        return tuple(counted[:1])

    def _columns(self, plan: Plan) -> list[str]:
        """The columns of models whose weights are tuned: of the plan, else of the
        lists.
        """
        if plan.models:
            return plan.model_columns
        if not self._basis:
            return []
        counts = self._counts()
        columns = [
            name
            for name in choose_columns(self._basis, self._config.columns)
            if name not in counts
        ]
        # `run` may tune bonuses
        nothing = not (columns or counts or self._config.components or self._lists)
        if nothing and plan.decision.name == "best":
            from rescore.given import no_columns

            raise UserError(no_columns(self._config.dev or "the lists", self._basis))
        return columns

    def _tuning(
        self, plan: Plan, columns: Sequence[str], components: Sequence[str]
    ) -> TuningOptions:
        """How weights of columns are tuned."""
        config = self._config
        new = self._new_columns()
        free = [name for name in columns if name in components]
        for name in free:
            self._decide(name, "a weight without bounds", "component")
        listed = [LISTED] if self._boost is True else []
        bonuses = tuple(
            dict.fromkeys(
                [*self._length_bonuses(plan, columns), *new, *listed, *self._counts()]
            )
        )
        negative = tuple(dict.fromkeys([*config.negative, *free]))
        return TuningOptions(
            bonuses=bonuses,
            bagging=config.bagging,
            negative=negative,
            decide=plan.decision,
            folds=config.folds,
            speaker=config.speaker,
            boost=0.0 if self._boost is True else float(self._boost),
        )

    def _counts(self) -> list[str]:
        """The counts and channels that --column names: the weight of a count is a
        bonus, without bounds.
        """
        asked = self._config.columns if self._basis else ()
        return [
            name
            for name in asked
            if self._basis[0].role(name) in (Role.COUNT, Role.CHANNEL)
        ]

    def _new_columns(self) -> list[str]:
        """The columns whose weights are bonuses: those that expansions will add, or the
        lists have.
        """
        added = [name for _, part, _ in _asked(self._config) for name in part.adds]
        return added or added_columns(self._basis[:1])

    def _boosted(self) -> bool | float:
        """Whether a bonus for each listed word is tuned, or the bonus that is given."""
        boost, counted = (
            self._config.boost,
            any(LISTED in nbest.hypotheses[0].scores for nbest in self._heads),
        )
        if boost is None:
            return bool(self._new_columns()) and (
                counted or self._config.measuring.words is not None
            )
        if boost is not False and not counted and self._config.measuring.words is None:
            raise UserError(
                "--boost needs the listed words; give --words FILE, or lists of"
                " `rescore score --words FILE`"
            )
        return boost or False

    def _length_bonuses(self, plan: Plan, columns: Sequence[str]) -> list[str]:
        """The bonuses for each word and each token, as asked for or as they suit the
        columns and the metric.
        """
        config, bonuses = self._config, []
        words = (
            suits_word_bonus(columns, plan.metric)
            if config.word_bonus is None
            else bool(config.word_bonus)
        )
        why = "several columns" if words else "one column"
        if config.word_bonus is not None:
            why = "--word-bonus"
        elif plan.metric.punishes_brevity:
            why = f"{plan.metric.name} has a brevity penalty"
        self._decide("word bonus", "tuned" if words else "off", why)
        if words:
            bonuses.append(WORDS)
        tokens, why = self._token_bonus(plan, columns)
        self._decide("token bonus", "tuned" if tokens else "off", why)
        if tokens:
            bonuses.append(TOKENS)
        return bonuses

    def _token_bonus(self, plan: Plan, columns: Sequence[str]) -> tuple[bool, str]:
        """Whether a bonus for each token is tuned, and why.

        By default it is on `LARGE_SET` lists or more, with their tokens counted, beside
        a column of pseudo-log-likelihoods: these say little about how long a sentence
        should be. Not for BLEU.
        """
        if self._config.token_bonus is not None:
            return bool(self._config.token_bonus), "--token-bonus"
        if plan.metric.punishes_brevity:
            return False, f"{plan.metric.name} has a brevity penalty"
        head = self._basis[0] if self._basis else None
        known = (
            {name: column.model for name, column in head.header.columns.items()}
            if head
            else {}
        )
        known |= {lm.name: lm.model for lm in plan.models}
        if not any(is_pseudo(known[name]) for name in columns if name in known):
            return False, "no pseudo-log-likelihoods"
        if not plan.counted and not (head and TOKENS in head.hypotheses[0].scores):
            return False, "no column of token counts"
        large = len(self._basis) >= LARGE_SET
        return (
            large,
            f"{LARGE_SET} lists or more" if large else f"fewer than {LARGE_SET} lists",
        )

    def _given(self, plan: Plan) -> Weights:
        """The weights where nothing is tuned: as given, else the weight that the
        model's card recommends.
        """
        from rescore.given import given_weights

        columns = plan.model_columns or (
            choose_columns(self._lists, self._config.columns)
            if self._config.weights
            else []
        )
        weights = given_weights(self._config, columns)
        weights = replace(
            weights, columns={lm.name: origin(lm, plan.norm) for lm in plan.models}
        )
        self._decide("weights", weights.tuned, "neither --dev nor --folds")
        return weights


def _asked(config: RunConfig) -> list[tuple[str, type[Expansion], Any]]:
    """The expansions that a config asks for (`rescore.expansion.asked`)."""
    if not config.expands:
        return []
    from rescore.expansion import asked

    return asked(config)


def decision_of(config: RunConfig, weights: Weights = FIRST_PASS_ALONE) -> Decision:
    """Return the decision that was asked for; what it leaves open is as the weights
    were tuned.

    Raises:
        UserError: A scale or an option is given that the decision does not take.
    """
    name = weights.decision.name
    if config.decide is not None:
        name = DECISIONS.check(config.decide)
    rule = DECISIONS[name]
    if config.scale is not None and not rule.needs_scale:
        able = [other for other, each in DECISIONS.loaded() if each.needs_scale]
        raise UserError(f"--scale needs --decide {' or '.join(able)}")
    own = [entry.name for entry in rule.Options.declared()]
    for option in config.deciding.values:
        if option not in own:
            raise UserError(_needs_decision(option))
    settings = config.deciding.as_json(rule.Options)
    return Decision(name, config.scale, settings).completed_by(weights.decision)


def _needs_decision(option: str) -> str:
    """Return the message about an option of other decisions."""
    able = []
    flag = option
    for name, rule in DECISIONS.loaded():
        for entry in rule.Options.declared():
            if entry.name == option:
                able.append(name)
                flag = entry.about.flag(option)
    return f"{flag} needs --decide {' or '.join(able)}"
