"""Language models, or the outputs of systems, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import IO, Any

from rescore import decision
from rescore.errors import UserError, counted
from rescore.metrics import Metric, list_statistics, total, value
from rescore.metrics.base import is_better, warn_of_unspaced
from rescore.metrics.significance import BY_SPEAKER, PairedTest, ScoredText, confidence_interval
from rescore.nbest import COUNTS, FIRST_PASS, NbestList
from rescore.parts import STYLES
from rescore.reports.results import FIRST, ORACLE, SHORT, choose, figure_of, measured, oracle_places, sign, summed
from rescore.styles import as_frame, as_json, html, latex_note, mark_best, marked_worse, p_value, signature_lines, text
from rescore.tuning.weights import FIRST_PASS_ALONE, Weights, bonus_phrases

JSON = "json"
"""Beside `STYLES`: all figures, in full precision."""


@dataclass(slots=True)
class Row:
    """One model, or several together."""

    name: str
    weights: dict[str, float]
    dev: float
    """The metric on dev, in percent."""
    value: float
    """The metric on test, in percent."""
    gain: float
    """The improvement of the first pass on test, in percent of it; a loss is negative, for every metric."""
    p_value: float
    """Two-sided, against the row `against`."""
    speed: float | None
    """Hypotheses scored a second; None where scores were looked up."""
    signature: str
    others: dict[str, float] = field(default_factory=dict)
    """Further metrics on test, in percent, by name."""
    against: str = FIRST
    """The name of the row that the p-value compares with: the first pass, or all models where one is left out."""
    excluded: tuple[str, ...] = ()
    """Origins of hypotheses that may not win."""


@dataclass(slots=True)
class Comparison:
    """Language models on the same lists."""

    metric: str
    higher_is_better: bool
    source: str
    """Path or name of the test lists."""
    dev_source: str
    """Path or name of the dev lists."""
    utterances: int
    """Test lists."""
    hypotheses: int
    """Hypotheses in them."""
    oracle: float
    """The metric of the best hypothesis of each test list, in percent."""
    dev_oracle: float
    first_pass: float
    """The metric of the first pass on test, in percent."""
    dev_first_pass: float
    signature: str
    """Of the first pass."""
    others: dict[str, float] = field(default_factory=dict)
    """Further metrics of the first pass on test, in percent, by name."""
    rows: list[Row] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the table's rows."""
        return [ORACLE, FIRST, *(row.name for row in self.rows)]

    def _repr_html_(self) -> str:
        """For notebooks."""
        return f"{html(_cells(self))}<p>{escape(_about(self))}</p>"

    def to_frame(self) -> Any:
        """A DataFrame of the table, with unrounded figures: a row for each model, after oracle and first pass.

        Raises:
            UserError: neither pandas nor polars is installed.
        """
        head = ["name", *_head(self)[1:]]
        return as_frame([dict(zip(head, figures, strict=True)) for figures in _figures(self)])


@dataclass(frozen=True, slots=True)
class Entry:
    """What is compared: one model, or several together, with weights tuned on dev."""

    name: str
    lists: Sequence[NbestList]
    """The test lists with the columns that have a weight."""
    weights: Weights
    dev: float
    """The metric on dev, in percent."""
    speed: float | None
    """Hypotheses scored a second; None where scores were looked up."""
    ablation: bool = False
    """Whether something is left out of all together: the row is compared with that, and no other row with it."""


def compare(
    metric: Metric,
    lists: Sequence[NbestList],
    dev: Sequence[NbestList],
    entries: Iterable[Entry],
    test: PairedTest,
    sources: tuple[str, str] = ("test", "dev"),
    also: Sequence[Metric] = (),
) -> Comparison:
    """The figures of entries on the same lists, each with a p-value against the first pass.

    The p-value of an ablation is against the entry before the ablations: all models together.

    Args:
        sources: names of test and dev lists. also: further metrics to report.
    """
    warn_of_unspaced(metric, lists)
    test.warn_of_few(metric, lists)
    first, first_pass, best = _baseline(metric, lists)
    _, dev_first_pass, dev_best = _baseline(metric, dev)
    result = Comparison(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        source=sources[0],
        dev_source=sources[1],
        utterances=len(lists),
        hypotheses=sum(len(nbest.hypotheses) for nbest in lists),
        oracle=best,
        dev_oracle=dev_best,
        first_pass=first_pass,
        dev_first_pass=dev_first_pass,
        signature=str(sign(metric, lists, FIRST_PASS_ALONE, test=test)),
        others={each.name: figure_of(each, lists, [chosen.text for chosen in first]) for each in also},
    )
    together, name = first, FIRST
    sign_of_gain = 1 if metric.higher_is_better else -1
    for entry in entries:
        texts = entry.weights.decision.texts(metric, entry.lists, entry.weights.of)
        chosen = measured(metric, entry.lists, texts)
        reranked = value(metric, summed(chosen))
        row = Row(
            name=entry.name,
            weights=entry.weights.weights,
            dev=entry.dev,
            value=reranked,
            gain=100 * sign_of_gain * (reranked / result.first_pass - 1) if result.first_pass else 0.0,
            p_value=test.p_value(metric, entry.lists, together if entry.ablation else first, chosen),
            speed=entry.speed,
            signature=str(sign(metric, entry.lists, entry.weights, test=test)),
            others={each.name: figure_of(each, entry.lists, texts) for each in also},
            against=name if entry.ablation else FIRST,
            excluded=entry.weights.exclusions,
        )
        result.rows.append(row)
        if not entry.ablation:
            together, name = chosen, entry.name
    return result


def _baseline(metric: Metric, lists: Sequence[NbestList]) -> tuple[list[ScoredText], float, float]:
    """The hypotheses that the first pass likes best, their figure, and the oracle."""
    statistics = list_statistics(metric, lists)
    first = choose(lists, statistics, decision.best(lists, FIRST_PASS_ALONE.weights))
    best = total(statistics, oracle_places(metric, lists, statistics))
    return first, value(metric, summed(first)), value(metric, best)


def render(comparison: Comparison, style: str, names: Mapping[str, str] | None = None) -> str:
    """The whole comparison in one of `STYLES`, or `json`.

    Text and Markdown have the signature of every row below the table; a note under a LaTeX table says what p compares.

    Args:
        names: other names of rows.
    """
    names = names or {}
    comparison = replace(comparison, rows=[replace(row, name=names.get(row.name, row.name)) for row in comparison.rows])
    if style == JSON:
        return as_json(comparison)
    cells = _cells(comparison, marked=style != "csv")
    for first_row in cells[1:3]:
        first_row[0] = names.get(first_row[0], first_row[0])
    table = STYLES[style](cells)
    about = _about(comparison)
    if style == "csv":
        return table
    if style == "latex":
        return f"{table}\n{latex_note(about.partition('; ')[2])}"
    signatures = signature_lines([(row.name, row.signature) for row in comparison.rows], style)
    if style == "markdown":
        return "\n".join([table, "", f"{about}.", "", *signatures])
    return "\n".join([table, "", about, *signatures])


def _about(comparison: Comparison) -> str:
    ablations = any(row.against != FIRST for row in comparison.rows)
    return (
        f"{comparison.source}: {counted(comparison.utterances, 'utterance')}, "
        f"{counted(comparison.hypotheses, 'hypothesis')}; weights tuned on {comparison.dev_source}; "
        f"p against the first pass{', of rows without a model against all models' if ablations else ''}"
    )


def _head(comparison: Comparison) -> list[str]:
    return ["", "weight", f"dev {comparison.metric}", comparison.metric, *comparison.others, "gain %", "p", "hyp/s"]


def _weights(row: Row) -> str:
    weights = [f"{weight:.3f}" for name, weight in row.weights.items() if name not in (FIRST_PASS, *COUNTS)]
    return ", ".join([*weights, *bonus_phrases(row.weights, "+.2f", row.excluded)])


def _figures(comparison: Comparison) -> list[list[Any]]:
    """The unrounded table, without its head: None where a row has no figure."""
    none = [None] * len(comparison.others)
    rows: list[list[Any]] = [
        [ORACLE, "", comparison.dev_oracle, comparison.oracle, *none, None, None, None],
        [FIRST, "", comparison.dev_first_pass, comparison.first_pass, *comparison.others.values(), None, None, None],
    ]
    for row in comparison.rows:
        others = (row.others[name] for name in comparison.others)
        rows.append([row.name, _weights(row), row.dev, row.value, *others, row.gain, row.p_value, row.speed])
    return rows


def _cells(comparison: Comparison, marked: bool = True) -> list[list[str]]:
    """The rows of the table; `marked`: a gain says that it is a loss."""
    rows = [_head(comparison)]
    for name, weights, *figures, gain, p, speed in _figures(comparison):
        is_worse = is_better(comparison.first_pass, figures[1], comparison.higher_is_better)
        change = "" if gain is None else marked_worse(f"{gain:+.1f}", marked and is_worse)
        values = ("" if figure is None else f"{figure:.2f}" for figure in figures)
        rows.append([name, weights, *values, change, p_value(p), "" if speed is None else f"{speed:,.0f}"])
    mark_best(rows[3:], 3, comparison.higher_is_better)
    return rows


@dataclass(slots=True)
class System:
    """One output."""

    name: str
    """Its file."""
    value: float
    """The metric, in percent."""
    counts: dict[str, int | float]
    """What the value was computed from."""
    utterances: int
    low: float
    """Lower end of the 95 % confidence interval (bootstrap over utterances, or speakers), in percent."""
    high: float
    """Upper end, in percent."""
    oracle: float | None = None
    """The metric of the best hypothesis of each list, in percent; None where lists have one hypothesis."""
    p_value: float | None = None
    """Two-sided, against the first output."""


@dataclass(slots=True)
class Systems:
    """Outputs under one metric."""

    metric: str
    signature: str
    test: str | None = None
    """The significance test and its settings; of a single output what intervals draw, None for utterances."""
    systems: list[System] = field(default_factory=list)


def compare_outputs(
    outputs: Sequence[tuple[str, Sequence[NbestList]]], metric: Metric, test: PairedTest | None = None
) -> Systems:
    """The figures of several outputs for the same utterances, each with a p-value against the first.

    Raises:
        UserError: an output lacks an utterance that the first has, or has one more, or has another reference of one.
    """
    test = test or PairedTest()
    several = len(outputs) > 1
    warn_of_unspaced(metric, outputs[0][1])
    # Nobody knows how a text was chosen: weights are those of lists alone.
    chosen_here = all(any(len(nbest.hypotheses) > 1 for nbest in lists) for _, lists in outputs)
    weights = FIRST_PASS_ALONE if chosen_here else Weights({}, "", tuned="")
    used = test.signature if several else BY_SPEAKER if test.by_speaker else None
    signature = replace(sign(metric, outputs[0][1], weights), test=used)
    systems = Systems(metric.name, str(signature), used)
    base: dict[str, ScoredText] = {}
    references: dict[str, tuple[str, ...]] = {}
    for name, lists in outputs:
        statistics = list_statistics(metric, lists)
        first = decision.best(lists, {FIRST_PASS: 1.0})
        chosen = dict(zip((nbest.id for nbest in lists), choose(lists, statistics, first), strict=True))
        if base and base.keys() != chosen.keys():
            differing = sorted(base.keys() ^ chosen.keys())[0]
            raise UserError(
                f"{name}: utterance {differing} is in one of {outputs[0][0]} and {name} only; compare the same set"
            )
        references |= {nbest.id: nbest.references for nbest in lists if not base}
        for nbest in lists:
            if nbest.references != references[nbest.id]:
                raise UserError(
                    f"{name}: utterance {nbest.id} has another reference than in {outputs[0][0]}; "
                    "compare outputs for the same references, such as one --ref FILE"
                )
        sums = total(statistics, first)
        low, high = confidence_interval(
            metric, test.by_unit(lists, [chosen_text.counts for chosen_text in chosen.values()])
        )
        system = System(name, value(metric, sums), metric.details(sums), len(lists), low, high)
        if any(len(nbest.hypotheses) > 1 for nbest in lists):
            system.oracle = value(metric, total(statistics, oracle_places(metric, lists, statistics)))
        if base:
            same_order = [chosen[key] for key in base]
            system.p_value = test.p_value(metric, outputs[0][1], list(base.values()), same_order)
        base = base or chosen
        systems.systems.append(system)
    if several or test.by_speaker:
        test.warn_of_few(metric, outputs[0][1])
    return systems


def write(systems: Sequence[Systems], file: IO[str]) -> None:
    """Write one JSON object; of several metrics a list of them."""
    file.write(as_json(systems[0] if len(systems) == 1 else systems) + "\n")


def render_systems(systems: Systems) -> str:
    """A row an output, then the signature."""
    names = list(systems.systems[0].counts)
    oracle = any(system.oracle is not None for system in systems.systems)
    several = len(systems.systems) > 1
    head = [
        "",
        systems.metric,
        "95 % CI",
        *(["oracle"] if oracle else []),
        *(SHORT.get(name, name) for name in names),
        "utterances",
    ]
    rows = [[*head, *(["p"] if several else [])]]
    for system in systems.systems:
        row = [system.name, f"{system.value:.2f}", f"{system.low:.2f}-{system.high:.2f}"]
        if oracle:
            row.append("" if system.oracle is None else f"{system.oracle:.2f}")
        row += [*(f"{system.counts[name]:,}" for name in names), f"{system.utterances:,}"]
        if several:
            row.append(p_value(system.p_value))
        rows.append(row)
    return f"{text(rows)}\n{systems.signature}"
