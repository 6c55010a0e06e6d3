"""The main job, and its stages, for every road: commands, recipes and Python.

    lists -> expand -> score -> tune (on dev lists) -> evaluate, rerank

Each stage can be called alone; what lies between them are lists that say where their columns come from, so that the
same experiment has the same figures by `run` and by stages. What nobody says is decided by `RunConfig`.

    from rescore import formats, pipeline

    config = pipeline.RunConfig(lms=("tta",), dev="dev.json")
    outcome = pipeline.run(formats.read(["test.json"]), config, formats.read(["dev.json"]))
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from rescore import decision
from rescore.config import RunConfig
from rescore.decision import Decision
from rescore.engines import OnProgress, OnScores, add_columns, windows
from rescore.engines.shards import Shards
from rescore.errors import UserError
from rescore.expansion import Respelling, recombine
from rescore.expansion.respell import find_lexicon
from rescore.lms import LanguageModel, column_name, each, load_all, origin, parse, with_own_columns
from rescore.lms.cache import Cached
from rescore.lms.context import in_place
from rescore.lms.lexicon import SUSPICIOUS, share_seen
from rescore.metrics import Metric
from rescore.metrics.base import remembered
from rescore.metrics.significance import PairedTest, split
from rescore.nbest import FIRST_PASS, TOKENS, NbestList, without_copies
from rescore.reports import comparison
from rescore.reports.results import Dev, Results, system_name
from rescore.reports.results import evaluate as evaluate_weights
from rescore.tuning import Tuned, Weights, suited, tuned_in_folds
from rescore.tuning import tune as tune_weights
from rescore.tuning.folds import choose_columns, warn_of_overlap, warn_of_scales, warn_of_single

__all__ = ["Outcome", "RunConfig", "compare", "evaluate", "expand", "rerank", "run", "score", "tune"]

log = logging.getLogger(__name__)

CHUNK = 1_000
"""Lists that are reranked together: bounds memory."""


@dataclass(slots=True)
class Outcome:
    """All that a run made."""

    lists: list[NbestList]
    """The test lists with their new columns."""
    texts: list[str]
    """The text chosen for each."""
    weights: Weights
    results: Results
    metric: Metric
    """What was tuned for."""
    lms: Sequence[LanguageModel] = ()
    dev: list[NbestList] | None = None
    """The lists that weights were tuned on, with their new columns."""
    decision: Decision = field(default_factory=Decision)
    """How a text was chosen from each list."""
    folded: Sequence[Weights] = ()
    """The weights that each list was decided with, where the lists were cut into folds."""

    def ranked(self) -> Iterator[tuple[NbestList, str]]:
        """Each list, sorted by the combined score that it was decided with, and the text chosen for it."""
        each = self.folded or [self.weights] * len(self.lists)
        for nbest, text, weights in zip(self.lists, self.texts, each, strict=True):
            yield decision.rerank(nbest, weights.of), text


def run(
    lists: Sequence[NbestList],
    config: RunConfig,
    dev: Sequence[NbestList] | None = None,
    load: Callable[[], Sequence[LanguageModel]] | None = None,
    progress: OnProgress = lambda done: None,
) -> Outcome:
    """Score lists, tune on `dev` (or in folds, or take the weights that `config` gives), decide, and evaluate.

    Args:
        load: gives the models, where these are not made of their names in `config`. progress: see `OnProgress`.

    Raises:
        UserError: what `config` says cannot be done with these lists.
    """
    config = (replace(config, dev="dev") if dev is not None and config.dev is None else config).checked()
    if dev is not None:
        warn_of_overlap(lists, dev)
        warn_of_scales(lists, dev)
    parts = split([nbest.id for nbest in lists], config.folds, config.speaker) if config.folds else None
    config, clock = config.for_lists(lists), _Clock()
    if any(nbest.references for nbest in lists):
        config.metric(lists)  # whether it can be measured there: dev lists may have words that test lists lack
    metric, others = remembered(config.metric(dev or lists)), config.others(lists)
    lms = models_for(config, load, lists, dev or [])
    warn_of_seen(config.lms, lists)
    columns = [column_name(lm, str(config.norm)) for lm in lms]
    with clock.measure("scoring"):
        expansion = Expansion(config, dev)
        scored = list(score(expansion(lists), lms, config, progress))
        tuned_on = scored if parts else None
        if dev is not None:
            tuned_on = list(score(expansion(dev), lms, config, progress))
    if lms:
        warn_of_single(scored)
    if not lms and (config.tunes or config.weights):
        columns = choose_columns(scored)  # as `tune` does
    texts, folded = None, list[Weights]()
    with clock.measure("tuning"):
        if tuned_on is None:
            weights = config.given_weights(columns)
            if weights.tuned == "card":
                recommended = weights.weights[columns[0]]
                log.info("weight %g, from the model card of %s", recommended, config.lms[0])
        else:
            if parts:
                every = [*columns, *config.component_columns(scored)]
                texts, each = tuned_in_folds(parts, metric, scored, every, config.tuning(scored, every, metric))
                folded = [each[fold] for fold in parts.fold]
                config = replace(config, dev=f"{parts.number} folds by {parts.unit}")
            weights, _ = tune(tuned_on, config, columns, metric)
            if parts:
                weights = replace(
                    weights, tuned=parts.signature(scored), fold_weights=tuple(fold.of_fold for fold in each)
                )
    with clock.measure("evaluation"):
        results, texts = evaluate(scored, weights, config, texts, [metric, *others])
    results.stages, results.seconds = clock.seconds, sum(clock.seconds.values())
    return Outcome(scored, texts, weights, results, metric, lms, tuned_on, config.decision(weights), folded)


def models_for(
    config: RunConfig,
    load: Callable[[], Sequence[LanguageModel]] | None,
    *sets: Sequence[NbestList],
    specs: Sequence[str | None] = (),
) -> list[LanguageModel]:
    """The models, each with a column that no other one has in these sets.

    Args:
        specs: how each model was named, where `config` does not say it.
    """
    config = config if config.norm else config.for_lists([nbest for lists in sets for nbest in lists[:1]])
    heads = [lists[0] for lists in sets if lists]
    models = with_own_columns(load() if load else load_all(config.lms), str(config.norm), heads, config.lms)
    return config.with_selections(models, heads, specs or each(config.lms))


def warn_of_seen(specs: Sequence[str], lists: Sequence[NbestList]) -> None:
    """Say so where a model was trained on the references that it is measured on."""
    references = [reference for nbest in lists for reference in nbest.references]
    for spec in specs:
        if references and (share := share_seen(parse(spec).path, references)) > SUSPICIOUS:
            log.warning(
                "--lm %s: the training text of this model contains %.0f %% of the references; the figures on these "
                "lists are too good",
                spec,
                100 * share,
            )


def warn_of_twice(lists: Iterable[NbestList], decide: Decision) -> bool:
    """Warn where a decision by posteriors adds those of one text with different scores; returns whether there is such a
    list."""
    if not decide.takes_scale:
        return False
    for nbest in lists:
        texts = [hypothesis.text for hypothesis in without_copies(nbest).hypotheses]
        if len(set(texts)) < len(texts):
            log.warning(
                "lists have a text twice with different scores (first: %s); %s counts both", nbest.id, decide.name
            )
            return True
    return False


class Expansion:
    """Adds the new hypotheses that were asked for; made once for all lists of an experiment, so that a channel is
    learned once."""

    def __init__(self, config: RunConfig, dev: Sequence[NbestList] | None = None) -> None:
        """
        Args:
            dev: what a channel may be learned from.
        """
        self._number, self._dev, self._respelling, self._proposing = config.recombine, dev, None, None
        if config.propose:
            from rescore.expansion.propose import Proposing  # here: most runs ask no server

            self._proposing = Proposing(config.propose, config.max_new, config.propose_prompt, config.cache)
        if config.respell:
            lexicon = find_lexicon(config.lexicon, config.lms, config.measuring.words)
            self._respelling = Respelling(config.respell, lexicon, config.channel, dev)

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """The lists with new hypotheses, as a stream; the dev lists themselves with channels of folds."""
        own = lists is self._dev
        if self._number:
            lists = (recombine(nbest, self._number) for nbest in lists)
        if self._proposing:
            lists = self._proposing(lists)
        return self._respelling(lists, own) if self._respelling else iter(lists)


def expand(
    lists: Iterable[NbestList], config: RunConfig, dev: Sequence[NbestList] | None = None
) -> Iterator[NbestList]:
    """The lists with the new hypotheses that were asked for, as a stream.

    Args:
        dev: what a channel may be learned from; if these are the lists themselves, in folds.
    """
    return Expansion(config, dev)(lists)


def score(
    lists: Iterable[NbestList],
    lms: Sequence[LanguageModel],
    config: RunConfig,
    progress: OnProgress = lambda done: None,
    on_scores: OnScores | None = None,
    waits: Callable[[], bool] = lambda: False,
) -> Iterator[NbestList]:
    """Copies of the lists with one more column per model, and the number of tokens (`RunConfig.counted`); a stream.

    Args:
        on_scores: is given the scores of the tokens of each list. waits: see `windows`.
    """
    head, lists = with_head(lists)
    norm, counted = str(config.for_lists(head).norm), config.counted(lms, head)
    placed = windows(in_place(lms, lists), waits)
    for window in add_columns(lms, placed, norm, counted, progress, on_scores):
        yield from (placed.nbest for placed in window)


def score_in_parts(
    lists: Iterable[NbestList],
    lms: Sequence[LanguageModel],
    config: RunConfig,
    output: str,
    progress: OnProgress = lambda done: None,
) -> None:
    """`score`, written to a file in parts, so that what is interrupted goes on where it was."""
    head, lists = with_head(lists)
    norm, counted = str(config.for_lists(head).norm), config.counted(lms, head)
    made_by = [f"{lm.name} {origin(lm, norm).short} {lm.fingerprint}" for lm in lms]
    shards = Shards(output, [*made_by, norm, counted.name if counted else "none"])
    missing = shards.missing(windows(in_place(lms, lists)), progress)
    shards.write(add_columns(lms, missing, norm, counted, progress))


def with_head(lists: Iterable[NbestList]) -> tuple[list[NbestList], Iterator[NbestList]]:
    """The first list of a stream, by which defaults are chosen (none where there is none), and the whole stream."""
    stream = iter(lists)
    head = list(islice(stream, 1))
    return head, chain(head, stream)


def tune(
    lists: Sequence[NbestList],
    config: RunConfig,
    columns: Sequence[str] | None = None,
    metric: Metric | None = None,
) -> tuple[Weights, Tuned]:
    """The weights that are best on lists, for one decision.

    Args:
        columns: of language models. metric: both as `config` chooses them.

    Raises:
        UserError: there is no list, or no column; a list has no reference, or lacks a column.
    """
    if not lists:
        raise UserError("no lists to tune on")
    if columns is None:
        columns = choose_columns(lists, config.columns, config.nth)
        if not (columns or config.components) and config.decision().name == "best":
            raise UserError(_no_columns(config.dev or "the lists", lists))
    columns = list(dict.fromkeys([*columns, *config.component_columns(lists)]))
    metric = metric or config.metric(lists)
    options = config.tuning(lists, columns, metric)
    return tune_weights(metric, lists, columns, config.dev or "dev", options)


def _no_columns(name: str, lists: Sequence[NbestList]) -> str:
    """What to do about lists without a language model's column: perhaps they have scores of the toolkit's own."""
    there = [column for column in lists[0].hypotheses[0].scores if column not in (FIRST_PASS, TOKENS)]
    own = f", or tune toolkit scores with --components, or --column {there[0]} ({', '.join(there)})" if there else ""
    return f"{name}: no column of LM scores; add one with `rescore score`{own}"


def evaluate(
    lists: Sequence[NbestList],
    weights: Weights,
    config: RunConfig,
    texts: list[str] | None = None,
    metrics: Sequence[Metric] = (),
) -> tuple[Results, list[str]]:
    """The figures of lists under weights, and the text chosen for each.

    Args:
        texts: what was chosen already, in folds. metrics: as `config` chooses them; the first is the main one.

    Raises:
        UserError: there is no list, or one lacks a column that has a weight.
    """
    if not lists:
        raise UserError("no lists to evaluate")
    weights = suited(weights, lists, config.force_weights)
    metric, *others = metrics or [config.metric(lists, weights), *config.others(lists, weights)]
    decide = config.decision(weights)
    warn_of_twice(lists, decide)
    used = config.tunes or decide.name != "best"  # the first metric is what was tuned for, or what is expected
    if (unused := config.metrics[used:]) and not any(nbest.references for nbest in lists):
        log.warning(
            "--metric %s: the lists have no references, so nothing is measured; give --ref FILE", ", ".join(unused)
        )
    in_folds = texts is not None
    results, texts = evaluate_weights(metric, lists, weights, decide, texts, others)
    results.system = system_name(weights, results.columns, decide.name)
    results.dev = Dev.of(weights, results.main if in_folds else None)
    return results, texts


def apply(lists: Iterable[NbestList], weights: Weights, config: RunConfig) -> Outcome:
    """Decide lists with weights that were tuned before, and evaluate the texts.

    Raises:
        UserError: as `rerank` and `evaluate`.
    """
    decided = list(_expand_to_decide(lists, config))
    results, texts = evaluate(decided, weights, config)
    metric = config.metric(decided, weights)
    return Outcome(decided, texts, weights, results, metric, decision=config.decision(weights))


def _expand_to_decide(lists: Iterable[NbestList], config: RunConfig) -> Iterator[NbestList]:
    if config.channel == "folds":
        raise UserError(
            "--channel folds learns from the references of these lists, which rerank must not use; give a folder"
        )
    return expand(lists, config)


def rerank(
    lists: Iterable[NbestList],
    weights: Weights,
    config: RunConfig,
    texts: bool = True,
    waits: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[NbestList, str]]:
    """Each list, sorted by the combined score, with the text chosen for it; a stream.

    Args:
        texts: whether they are wanted; else the first hypothesis stands there. waits: whether the next list has yet to
            come: then those that are there are answered now.

    Raises:
        UserError: new hypotheses would be made by what was learned from these lists' own references; weights were
            tuned on scores of another model.
    """
    lists = _expand_to_decide(lists, config)
    decide, metric, warned = config.decision(weights), None, False
    for chunk in _chunks(lists, waits):
        suited(weights, chunk, config.force_weights)
        warned = warned or (texts and warn_of_twice(chunk, decide))
        ranked = [decision.rerank(nbest, weights.of) for nbest in chunk]
        if not texts:
            yield from ((nbest, nbest.hypotheses[0].text) for nbest in ranked)
            continue
        metric = metric or config.metric(chunk, weights)  # once: it must not change within a set
        yield from zip(ranked, decide.texts(metric, chunk, weights.of), strict=True)


def _chunks(lists: Iterable[NbestList], waits: Callable[[], bool]) -> Iterator[list[NbestList]]:
    """At most `CHUNK` lists; fewer where the next one has yet to come."""
    chunk: list[NbestList] = []
    for nbest in lists:
        chunk.append(nbest)
        if len(chunk) == CHUNK or waits():
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def compare(
    lists: Sequence[NbestList],
    dev: Sequence[NbestList],
    config: RunConfig,
    load: Callable[[], Sequence[LanguageModel]] | None = None,
    test: PairedTest | None = None,
    source: str = "test",
    progress: OnProgress = lambda done: None,
    leave_out: bool = False,
    specs: Sequence[str | None] = (),
) -> comparison.Comparison:
    """Score both sets with every model, tune each on `dev`, and all together, and compare them on `lists`.

    The last entry, where there are several models, combines all but the intact readings of masked ones (which are there
    to be looked at).

    Args:
        leave_out: whether all but one follow, for each one. specs: as in `models_for`.
    """
    config = config.for_lists(lists)
    warn_of_overlap(lists, dev)
    metric, test = remembered(config.metric(dev)), test or PairedTest()
    lms = models_for(config, load, lists, dev, specs=specs)
    warn_of_seen(config.lms, lists)
    expansion = Expansion(config, dev)
    lists, dev = list(expansion(lists)), list(expansion(dev))
    others = [remembered(system) for system in config.others(lists)]
    entries = _entries(lists, dev, lms, config, metric, progress, leave_out)
    return comparison.compare(metric, lists, dev, entries, test, (source, config.dev or "dev"), others)


def _entries(
    lists: Sequence[NbestList],
    dev: Sequence[NbestList],
    lms: Sequence[LanguageModel],
    config: RunConfig,
    metric: Metric,
    progress: OnProgress,
    leave_out: bool,
) -> Iterator[comparison.Entry]:
    """Without a model (for decisions other than the best score), each model alone, and all together, tuned; one after
    another, as columns are added."""

    def entry(
        some: Sequence[LanguageModel], speed: float | None = None, missing: LanguageModel | None = None
    ) -> comparison.Entry:
        weights, tuned = tune(dev, config, [column_name(lm, str(config.norm)) for lm in some], metric)
        name = " + ".join(lm.name for lm in some) if missing is None else f"without {missing.name}"
        return comparison.Entry(name or str(config.decide), lists, weights, tuned.value, speed, missing is not None)

    if config.decision().name != "best":
        yield entry([])
    for lm in lms:
        began = time.perf_counter()
        lists, dev = ([*score(some, [lm], config, progress)] for some in (lists, dev))
        seconds = time.perf_counter() - began
        column = column_name(lm, str(config.norm))
        number = sum(not math.isinf(score) for nbest in [*lists, *dev] for score in nbest.column(column))
        yield entry([lm], None if isinstance(lm, Cached) else number / seconds)
    together = [lm for lm in lms if "intact" not in lm.name.split(":")]
    if len(together) > 1:
        yield entry(together)
        for missing in together if leave_out else ():
            yield entry([lm for lm in together if lm is not missing], missing=missing)


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began
