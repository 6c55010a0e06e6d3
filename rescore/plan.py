"""What will be done: `resolve` decides every default of an experiment, once, for every
road.

    config  what was asked (`rescore.config.RunConfig`): None means "the plan decides"
    plan    what will be done (`Plan`): nothing is open, and `Plan.reasons` says why

`rescore run`, the stages, `compare`, recipes, Python, `Rescorer` and the service make a
plan and execute it with the stages of `rescore.pipeline`. A stage asks only the plan.

    config = RunConfig(lms=("tta",), dev="dev.json")
    plan = resolve(config, lists, dev)
    print(*plan.reasons, sep="\\n")
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from rescore.asked import ANY, check_decision, check_metric_options, checked_once
from rescore.columns import NORM_SUM
from rescore.config import RunConfig
from rescore.dataset import NO_LISTS, Dataset
from rescore.decision import Decision
from rescore.errors import UserError
from rescore.expansion import Expansion, asked_expansions
from rescore.features import (
    Reason,
    Situation,
    WeightedColumn,
    WeightKind,
    all_features,
)
from rescore.given import (
    check_card_suits,
    decision_of,
    given_weights,
    no_columns,
)
from rescore.lms import (
    LanguageModel,
    load_all,
    record_of,
    single_specs,
    tell_paths,
    with_own_columns,
)
from rescore.metrics import (
    DEFAULTS,
    METRICS,
    Metric,
    MetricOptions,
    Normaliser,
    choose_metric,
    default_metric,
)
from rescore.metrics.cached import remembered
from rescore.metrics.folds import Folds, split, warn_of_folds
from rescore.metrics.significance import PairedTest, by_speakers
from rescore.nbest import Header, NbestList
from rescore.parts import FEATURES
from rescore.reports.groups import labels
from rescore.tuning import FIRST_PASS_ALONE, TunedBy, Tuning, TuningOptions, Weights
from rescore.tuning.lists import choose_columns, tell_order

log = logging.getLogger(__name__)

Load = Callable[[], Sequence[LanguageModel]]
"""Loads the language models of an experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All choices about one experiment. The stages of `rescore.pipeline` execute
    it.
    """

    models: tuple[LanguageModel, ...] = ()
    """The language models. Each has a name, and so a column, of its own."""
    norm: str = NORM_SUM
    """How token scores become the score of a hypothesis: `sum`, `mean` or
    `length^A`.
    """
    counted: tuple[LanguageModel, ...] = ()
    """The model whose tokens are counted in the column `tokens`, or no model."""
    expansions: tuple[Expansion, ...] = ()
    """Add new hypotheses, and columns of features, to lists before they are scored, one
    after another.
    """
    cut_words: Normaliser = field(default_factory=Normaliser)
    """Cuts texts into the words that have a bonus: as the metric that the weights are
    tuned for.
    """
    metrics: tuple[Metric, ...] = ()
    """The first metric is the objective of tuning; all are reported. Empty if nothing
    is decided or measured.
    """
    decision: Decision = field(default_factory=Decision)
    """How a text is chosen from a list. The scale of posteriors is absent if it is
    tuned.
    """
    tuned_columns: tuple[str, ...] = ()
    """The names of the columns of scores whose weights are tuned, in the order in which
    they were named; `tuning` has the counts.
    """
    tuning: TuningOptions = field(default_factory=TuningOptions)
    """How these weights are tuned."""
    told_bonuses: tuple[WeightedColumn, ...] = ()
    """Tuned bonuses; if one of them is tuned to 0, a warning says it."""
    tuned_by_default: tuple[str, ...] = ()
    """The names of columns whose weights are tuned though the user does not ask for
    them.
    """
    tuning_set: str = ""
    """The name of the lists on which weights are tuned; empty if nothing is tuned."""
    folds: Folds | None = None
    """How the lists are cut into parts, each of which is decided with weights of the
    others; None for lists that are not cut.
    """
    weights: Weights = FIRST_PASS_ALONE
    """The weights that decide if nothing is tuned."""
    force_weights: bool = False
    """Whether weights are applied that were tuned on scores of another model."""
    test: PairedTest | None = None
    """What tests exchange and intervals draw; None for single utterances."""
    by: str | None = None
    """What the figures of groups are grouped by; None for no groups."""
    only_reported: tuple[str, ...] = ()
    """The metrics of --metric that are only reported: weights are not tuned for them,
    and the decision does not need them. A warning names them if the lists have no
    references.
    """
    reasons: tuple[Reason, ...] = ()
    """Why: one line for each choice."""

    @property
    def metric(self) -> Metric:
        """The objective of tuning, and the first metric of reports."""
        return self.metrics[0]

    @property
    def has_weights_to_tune(self) -> bool:
        """Whether tuning decides anything beside the first pass of one system."""
        is_open = self.decision.uses_posteriors and self.decision.scale is None
        return bool(self.tuned_columns or self.tuning.bonuses or is_open)

    @property
    def model_columns(self) -> list[str]:
        """The columns of the models' scores."""
        return [lm.name for lm in self.models]

    def applied(self, weights: Weights) -> Weights:
        """Return weights with the decision of the plan; the weights bring the scale of
        posteriors if the plan has none.
        """
        decision = self.decision.completed_by(weights.decision)
        if decision == weights.decision:
            return weights
        return replace(weights, decision=decision)


def resolve(
    config: RunConfig,
    lists: Iterable[NbestList] = NO_LISTS,
    dev: Iterable[NbestList] | None = None,
    load: Load | None = None,
    specs: Sequence[str | None] = (),
    weights: Weights | None = None,
    measures: bool = True,
    requests: Header | None = None,
) -> Plan:
    """Decide everything that `config` leaves open.

    Args:
        config: What was asked.
        lists: The lists of the experiment, or the first lists of a stream.
        dev: The dev lists, if there are any.
        load: Loads the models; None if `config.lms` names them.
        specs: For each loaded model the name that --lm would have; None for a model
            without such a name.
        weights: Weights that were tuned before; None to tune weights or to take the
            weights of the config.
        measures: Whether texts are decided or measured; a plan for scores alone has no
            metrics.
        requests: What holds for the lists of requests, which are still to come and may
            have another default metric; None for an experiment.

    Raises:
        UserError: What `config` says cannot be done with these lists.
    """
    config = checked_once(ANY, config)
    every = Dataset.of(lists) if requests is None else Dataset((), requests)
    dev_lists = None if dev is None else Dataset.of(dev)
    of_requests = requests is not None
    resolver = _Resolver(config, every, dev_lists, weights, measures, of_requests)
    plan = resolver.plan(load, specs)
    for reason in plan.reasons:
        level = logging.INFO if reason.shown else logging.DEBUG
        log.log(level, "%s", reason)
    return plan


def _without_scale(decision: Decision, lists: Dataset) -> UserError:
    """Return the error about a decision whose scale is neither given nor tuned."""
    name = f"--decide {decision.name}"
    of_samples = ""
    if lists.are_samples:
        of_samples = "--scale 0 for samples with equal scores, "
    return UserError(
        f"{name} needs a scale: {of_samples}--scale NUMBER, --weights of rescore tune"
        f" {name}, or run --dev DEV"
    )


class _Resolver:
    """Makes one plan, step by step; each step notes its reason.

    A step refuses what the lists, or weights of an earlier tuning, do not suit. What
    needs neither is refused before (`rescore.asked`), but for a few options of
    features.
    """

    def __init__(
        self,
        config: RunConfig,
        lists: Dataset,
        dev: Dataset | None,
        weights: Weights | None,
        measures: bool,
        of_requests: bool,
    ) -> None:
        self._config = config
        self._features = all_features()
        self._at = Situation(
            config=config,
            lists=lists,
            dev=dev,
            former_weights=weights,
            measures=measures,
            of_requests=of_requests,
        )

    def plan(self, load: Load | None, specs: Sequence[str | None]) -> Plan:
        """Return the whole plan: what is cheap to refuse comes first, then the models
        are loaded.
        """
        at = self._at
        metrics: tuple[Metric, ...] = ()
        decision = Decision()
        if at.measures:
            metrics = self._metrics()
            decision = self._decision(metrics)
        cut_words = self._cut_words(metrics)
        expansions = self._expansions(cut_words)
        loaded = self._loaded(load)
        norm = self._norm(loaded)
        at.models = self._named_models(loaded, norm, specs)
        at.counted = self._counted()
        plan = Plan(
            models=at.models,
            norm=norm,
            counted=at.counted,
            expansions=expansions,
            cut_words=cut_words,
            metrics=metrics,
            decision=decision,
            force_weights=self._config.force_weights,
            test=self._test(),
            by=self._by(),
            only_reported=self._only_reported(decision),
        )
        if at.measures:
            plan = self._with_weights(plan)
        return replace(plan, reasons=tuple(at.reasons))

    def _test(self) -> PairedTest | None:
        """Return the test by speaker, if it is asked for.

        Raises:
            UserError: An id has no speaker, or there are no references.
        """
        if not self._config.by_speaker:
            return None
        self._check_references("--by-speaker")
        all_lists = [*self._at.lists, *(self._at.dev or ())]
        return by_speakers(all_lists, self._config.speaker)

    def _by(self) -> str | None:
        """Return what the figures of groups are grouped by.

        Raises:
            UserError: The lists have no such groups, or no references.
        """
        by = self._config.by
        if by is not None and self._at.lists:
            self._check_references("--by")
            labels(by, self._at.lists)  # raises if there are no such groups
        return by

    def _check_references(self, option: str) -> None:
        """See that lists have references where an option needs them. That --ref is
        absent says nothing: lists may hold references.

        Args:
            option: The option.

        Raises:
            UserError: No list has a reference.
        """
        lists = self._at.lists
        if lists and not lists.has_references:
            raise UserError(
                f"{option}: the lists have no references, so nothing is measured; give"
                " --ref FILE"
            )

    def _metrics(self) -> tuple[Metric, ...]:
        """Return all metrics, and give the situation the options and the objective."""
        at = self._at
        named_metrics = list(map(METRICS.check, self._config.metrics))
        at.measuring = self._measuring(named_metrics)
        metric = at.metric = self._objective()
        names = dict.fromkeys(named_metrics)
        names.pop(metric.name.lower(), None)
        if not named_metrics and metric.companion:
            names = dict.fromkeys([metric.companion])
            why = f"tuning for {metric.name} flatters {metric.name}"
            at.note("further metric", metric.companion, why)
        others = list(map(self._reported, names))
        others += self._metrics_of_features([metric, *others])
        if not named_metrics:
            self._check_default([metric, *others])
        return metric, *others

    def _check_default(self, metrics: Sequence[Metric]) -> None:
        """See that the metrics of these lists, or a feature, read each option of
        metrics. The options of metrics that --metric names are checked before.

        Raises:
            OptionError: Nothing reads an option.
        """
        read = [metric.name.lower() for metric in metrics]
        if self._at.of_requests:
            for name in DEFAULTS:
                read += filter(None, [name, METRICS[name].companion])
        measured = " and ".join(dict.fromkeys(read))
        check_metric_options(self._config, read, f"; measured is {measured}")

    @property
    def _tuned_for(self) -> Tuning | None:
        """The record of the former weights, which names the metric that they were tuned
        for; None if they name no metric.
        """
        weights = self._at.former_weights
        if weights is None or weights.tuning.metric is None:
            return None
        return weights.tuning

    def _measuring(self, named_metrics: Sequence[str]) -> MetricOptions:
        """Return the options of metrics: of the metric that the weights were tuned for,
        in whatever place it is reported, and of the config.
        """
        measuring = self._config.measuring
        tuned_for = self._tuned_for
        if tuned_for is None:
            return measuring
        if named_metrics and tuned_for.metric not in named_metrics:
            return measuring
        return tuned_for.metric_options.merged_with(measuring)

    def _objective(self) -> Metric:
        """Return the metric that is tuned for and reported first.

        Raises:
            UserError: The metric does not suit the lists, or cannot be tuned for.
        """
        at = self._at
        known = Dataset(chain(at.lists, at.dev)) if at.dev else at.lists
        tuned_for = self._tuned_for
        if self._config.metrics:
            name = self._config.metrics[0]
        elif tuned_for and tuned_for.metric:
            name = tuned_for.metric
        else:
            name = default_metric(known)
        if at.dev and at.lists.has_references:
            # raises an error about test lists: dev lists may have words that they lack
            choose_metric(name, at.lists, at.measuring)
        metric = choose_metric(name, at.tuning_lists, at.measuring)
        at.reasons.append(self._reason_of_metric(metric, known))
        return metric

    def _reason_of_metric(self, metric: Metric, known: Dataset) -> Reason:
        """Return why a metric is the objective."""
        shown = False
        if self._config.metrics:
            why = "--metric"
        elif self._tuned_for:
            why = "the weights were tuned for it"
        elif metric.name != "BLEU":
            why = "the lists are no translations"
        elif known.header.translates:
            why = "the lists are translations"
        else:
            # no toolkit of translation wrote the lists
            why = "the lists have source texts (src); for WER give --metric wer"
            shown = True
        return Reason("metric", metric.name, why, shown)

    def _reported(self, name: str) -> Metric:
        """Return a further metric of reports."""
        return choose_metric(name, self._at.reported_lists, self._at.measuring)

    def _metrics_of_features(self, metrics: Sequence[Metric]) -> list[Metric]:
        """Return the further metrics that features ask for.

        Args:
            metrics: The metrics that are reported already.
        """
        at = self._at
        further: list[Metric] = []
        known = {metric.name.lower() for metric in metrics}
        for name, feature in self._features.items():
            names = feature.further_metrics(at, metrics)
            wanted = [metric for metric in names if metric not in known]
            try:
                further += list(map(self._reported, wanted))
            except UserError as error:  # the options may be right for other lists
                log.warning(
                    "%s; the figures are without %s", error, " and ".join(wanted)
                )
                continue
            if names:
                at.note("further metrics", ", ".join(names), FEATURES.about(name))
        return further

    def _cut_words(self, metrics: Sequence[Metric]) -> Normaliser:
        """Return what cuts texts into words: as the metric that the weights were tuned
        for, else as the objective.
        """
        tuned_for = self._tuned_for
        if tuned_for and metrics and tuned_for.metric != metrics[0].name.lower():
            metrics = [
                choose_metric(tuned_for.metric, NO_LISTS, tuned_for.metric_options)
            ]
        return (metrics[0].words if metrics else None) or Normaliser()

    def _decision(self, metrics: Sequence[Metric]) -> Decision:
        """Return the decision that was asked for; else the decision that the weights
        were tuned for; else the best score.

        Args:
            metrics: The metrics of the texts that it chooses.

        Raises:
            UserError: The decision does not suit a metric, or lacks a scale.
        """
        at = self._at
        decision = decision_of(self._config, at.former_weights or FIRST_PASS_ALONE)
        if self._config.decide is None:
            check_decision(self._config, decision.name)  # weights may have chosen it
        for metric in metrics:
            if misfit := decision.rule.misfit(metric):
                raise UserError(misfit)
        if decision.lacks_scale and not at.tunes and at.decides_lists:
            if not at.lists.header.by_systems:
                raise _without_scale(decision, at.lists)
            decision = replace(decision, scale=1.0)
        how = decision.name
        if decision.lacks_scale:
            how += " with a tuned scale"
        elif decision.scale is not None:
            how += f" with scale {decision.scale:g}"
        if self._config.decide:
            why = "--decide"
        else:
            why = (
                "the weights were tuned for it" if at.former_weights else "the default"
            )
        at.note("decision", how, why)
        is_open = self._config.scale is None and at.former_weights is None
        if is_open and not at.of_requests:
            tell_order(decision, at.lists)
        return decision

    def _expansions(self, cut_words: Normaliser) -> tuple[Expansion, ...]:
        """Return what adds hypotheses and columns before lists are scored."""
        at = self._at
        expansions = [
            part.made(options, self._config, at.dev)
            for _, part, options in asked_expansions(self._config)
        ]
        for feature in self._features.values():
            feature.check_lists(at, expansions)
        for feature in self._features.values():
            expansion = feature.expansion(at, cut_words)
            if expansion is not None:
                expansions.append(expansion)
        return tuple(expansions)

    def _loaded(self, load: Load | None) -> Sequence[LanguageModel]:
        """Return the language models, loaded."""
        if load:
            return load()
        if self._config.lms:
            return load_all(self._config.lms)
        return ()

    def _named_models(
        self,
        loaded: Sequence[LanguageModel],
        norm: str,
        specs: Sequence[str | None],
    ) -> tuple[LanguageModel, ...]:
        """Return the models, each with a name, and so a column, of its own."""
        at = self._at
        names = specs or single_specs(self._config.lms)
        given = [name for name in names if name is not None]
        all_named = len(given) == len(names) == len(loaded)
        models = with_own_columns(loaded, norm, at.all_sets, given if all_named else ())
        if self._config.lms or specs:
            for lm in models:
                at.note(lm.name, lm.model, "all hypotheses")
        if all_named:
            tell_paths(models, given)
        return tuple(models)

    def _norm(self, models: Sequence[LanguageModel]) -> str:
        """Return the normalisation of the config; else of the weights' columns; else of
        the first pass.
        """
        at = self._at
        if self._config.lm_norm:
            at.note("normalisation", self._config.lm_norm, "--lm-norm")
            return self._config.lm_norm
        fingerprints = {lm.fingerprint for lm in models}
        former = at.former_weights or FIRST_PASS_ALONE
        for column in former.tuning.columns.values():
            if column.fingerprint in fingerprints:
                why = "the weights were tuned on such scores"
                at.note("normalisation", column.norm, why)
                return column.norm
        means = at.reported_lists.header.scores_are_means
        norm = "mean" if means else NORM_SUM
        if models:
            why = f"first-pass scores are {'means' if means else 'sums'}"
            at.note("normalisation", norm, why)
            if not means and at.reported_lists.look_like_means:
                log.warning(
                    "%sfirst-pass scores do not fall with the length of texts, so they"
                    " look like means over tokens, not sums: try --lm-norm mean",
                    at.reported_lists.header.prefix,
                )
        return norm

    def _counted(self) -> tuple[LanguageModel, ...]:
        """Return the model whose tokens are counted, or no model."""
        for feature in self._features.values():
            counted = feature.counted(self._at)
            if counted:
                return tuple(counted)
        return ()

    def _only_reported(self, decision: Decision) -> tuple[str, ...]:
        """Return the metrics of --metric that are only reported. The first is not among
        them if weights are tuned for it or the decision needs it.
        """
        used = self._at.tunes or not decision.is_best
        return self._config.metrics[1:] if used else self._config.metrics

    def _with_weights(self, plan: Plan) -> Plan:
        """Return the plan with its weights, or with how they are tuned."""
        at = self._at
        if at.tunes:
            return self._to_tune(plan)
        weights = at.former_weights
        if weights is None:
            weights = self._given(plan)
        else:
            at.note("weights", weights.tuning, "as tuned before")
        for feature in self._features.values():
            weights = feature.completed(at, weights, plan.cut_words)
        return replace(plan, weights=weights)

    def _to_tune(self, plan: Plan) -> Plan:
        """Return the plan with the columns to tune, and how.

        Raises:
            UserError: `rescore tune` gets lists without anything to tune.
        """
        at = self._at
        folds = self._folds()
        name = self._config.dev or "dev"
        if folds:
            name = f"{folds.number} folds by {folds.unit}"
        at.note("weights", f"tuned on {name}", f"{len(at.tuning_lists):,} lists")
        columns = self._weigh()
        by_score = plan.decision.is_best
        if by_score:
            self._check_weighted()
        if folds or len(columns) > 1 or plan.expansions or not by_score:
            # the same texts are measured again and again
            plan = replace(plan, metrics=tuple(map(remembered, plan.metrics)))
        return replace(
            plan,
            tuned_columns=columns,
            tuning=self._tuning(plan.decision),
            told_bonuses=tuple(column for column in at.weighted if column.option),
            tuned_by_default=tuple(
                column.name for column in at.weighted if column.by_default
            ),
            tuning_set=name,
            folds=folds,
        )

    def _check_weighted(self) -> None:
        """See that there is something to tune for the best score: scores or bonuses.

        It is checked without test lists, so only in `rescore tune`: a run without a
        column to tune still decides by the first pass.

        Raises:
            UserError: The lists have no column to tune.
        """
        at = self._at
        if at.weighted or self._config.columns or at.lists:
            return
        if at.tuning_lists.header.by_systems:  # their first pass is tuned
            return
        if at.tuning_lists:
            raise UserError(
                no_columns(self._config.dev or "the lists", at.tuning_lists)
            )

    def _folds(self) -> Folds | None:
        """Return how the lists are cut into folds; None for lists that are not cut."""
        config = self._config
        if not config.folds:
            return None
        lists = self._at.lists
        folds = split(lists, config.folds, config.speaker)
        warn_of_folds(lists, folds, config.speaker)
        return folds

    def _weigh(self) -> tuple[str, ...]:
        """Ask each feature what it weighs, and return the columns of scores."""
        at = self._at
        columns_at = len(at.reasons)
        for feature in self._features.values():
            at.weighted += tuple(feature.weighted(at))
        is_alone = not (at.weighted or self._config.columns or at.lists)
        if is_alone and not self._config.folds:
            for feature in self._features.values():
                at.weighted += tuple(feature.weighted_alone(at))
        at.note_unweighted(self._features, [one.name for one in at.weighted])
        columns = tuple(dict.fromkeys(at.score_columns))
        column_names = ", ".join(columns) or "none"
        # the columns come before the reasons of the features
        reason = Reason("columns", column_names, "their weights are tuned")
        at.reasons.insert(columns_at, reason)
        return columns

    def _tuning(self, decision: Decision) -> TuningOptions:
        """Return how the weights of the columns are tuned."""
        config = self._config
        bonuses: list[str] = []
        given: dict[str, float] = {}
        free: list[str] = []
        for column in self._at.weighted:
            if column.fixed is not None:
                given[column.name] = column.fixed
            elif column.kind is WeightKind.BONUS:
                bonuses.append(column.name)
            elif column.kind is WeightKind.SIGNED:
                free.append(column.name)
        return TuningOptions(
            bonuses=tuple(dict.fromkeys(bonuses)),
            bagging=config.bagging,
            negative=tuple(dict.fromkeys([*config.negative, *free])),
            decision=decision,
            folds=config.folds,
            speaker=config.speaker,
            given=given,
        )

    def _given(self, plan: Plan) -> Weights:
        """Return the weights where nothing is tuned: as given, else the weight that the
        model's card recommends.
        """
        columns = plan.model_columns
        if not columns and self._config.weights:
            columns = choose_columns(self._at.lists, self._config.columns)
        weights = given_weights(self._config, columns)
        if weights.tuning.by is TunedBy.CARD:
            check_card_suits(self._config, self._at.lists)
        self._at.note("weights", weights.tuning, "neither --dev nor --folds")
        if columns:
            self._at.note_unweighted(self._features, columns)
        records = {lm.name: record_of(lm, plan.norm) for lm in plan.models}
        return replace(weights, tuning=replace(weights.tuning, columns=records))
