"""Whether a lower perplexity means fewer errors: across models, and across sentences.

The T-TA paper (section B.3, Table 7) and Shin's dissertation (Table 4.7) put the word
error rate after reranking beside the mean and the median perplexity of the reference
sentences, and find that the median agrees better with the error rates. They also find
that a T-TA's perplexity is high for short sentences. This report gives the three
correlations: of models, of a first pass with its errors, and of references with their
lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rescore.columns import Column
from rescore.content import content_key
from rescore.correlations import pearson, spearman
from rescore.dataset import Dataset
from rescore.deciding import first_pass
from rescore.errors import UserError, counted
from rescore.files import parsed, read_json
from rescore.lms import LanguageModel, TokenScores
from rescore.metrics import Metric
from rescore.metrics.significance import SEED
from rescore.nbest import Hypothesis, NbestList
from rescore.reports import files
from rescore.reports.comparison import Comparison
from rescore.reports.figures import FIRST, Figures
from rescore.reports.perplexity import Perplexity, TextScore
from rescore.reports.perplexity import measure as measure_text
from rescore.reports.results import Results
from rescore.research.chart import Chart, Series
from rescore.research.similarity import TRIALS, interval
from rescore.signature import FINGERPRINT_DIGITS, parse
from rescore.styles import figure

FEWEST_MODELS = 3
"""Models from which on error rates and perplexities are correlated."""
KINDS_OF_PERPLEXITY = ("corpus", "mean", "median")
"""Of the whole text, and the mean and the median over sentences."""
COUNT = "count"
"""The norm of a column with numbers of tokens."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """The perplexity of a model, and the errors of sentences that it finds unlikely."""

    lm: str
    fingerprint: str
    """The model's content hash."""
    pseudo: bool
    """Whether the perplexity is a pseudo-perplexity."""
    error_rate: float | None
    """The error rate after reranking with the model, in percent; None if no results
    file has it.
    """
    perplexity: Perplexity
    """Of the references, per token."""
    with_errors: float
    """Spearman's correlation, over utterances, of the perplexity per token and the
    error rate of the first pass.
    """
    with_errors_interval: tuple[float, float]
    """95 % confidence interval by bootstrap over utterances."""
    with_length: float
    """Spearman's correlation, over references, of the perplexity per token and the
    number of words.
    """
    signature: str


@dataclass(frozen=True, slots=True)
class CorrelationReport:
    """Perplexities beside error rates."""

    metric: str
    """Name of the error rate."""
    utterances: int
    first_pass: float
    """The error rate of the first pass, in percent."""
    models: list[ModelFigures]
    pearson: dict[str, float]
    """Pearson's correlation, over models, of the error rate and each kind of
    perplexity; empty for fewer than three models with an error rate.
    """
    spearman: dict[str, float]
    """The same of ranks."""
    baseline: str = FIRST
    """The first pass as tables name it."""

    def cells(self) -> list[list[str]]:
        """Return a row for each model, then the correlations over models."""
        head = ["", self.metric, "PPL/token", "mean", "median"]
        head += ["r with errors", "95 % CI", "r with length"]
        rows = [head, [self.baseline, figure(self.first_pass), *[""] * 6]]
        for model in self.models:
            row = [model.lm]
            row.append(figure(model.error_rate))
            for kind in KINDS_OF_PERPLEXITY:
                row.append(f"{getattr(model.perplexity, kind):,.2f}")
            row.append(figure(model.with_errors, 3))
            low, high = (figure(end, 3) for end in model.with_errors_interval)
            row.append(f"{low} to {high}")
            row.append(figure(model.with_length, 3))
            rows.append(row)
        for name, values in (("Pearson", self.pearson), ("Spearman", self.spearman)):
            if values:
                figures = [figure(values[kind], 3) for kind in KINDS_OF_PERPLEXITY]
                rows.append([f"{name}, models", "", *figures, "", "", ""])
        return rows

    def notes(self) -> list[str]:
        """Return what the figures are, and the signatures."""
        lines = [
            f"{counted(self.utterances, 'utterance')}; perplexity of the references per"
            " token; r with errors: Spearman's correlation of the first pass's"
            f" perplexity and {self.metric}; r with length: Spearman's correlation of a"
            " reference's perplexity and its number of words"
        ]
        known = [model for model in self.models if model.error_rate is not None]
        if self.pearson:
            lines.append(
                f"last rows: correlation of {self.metric} and perplexity over"
                f" {counted(len(known), 'model')}"
            )
        elif known:
            lines.append(
                f"{counted(len(known), 'model')} with a {self.metric}: too few for a"
                f" correlation over models, which needs {FEWEST_MODELS}"
            )
        pseudo = [model.lm for model in self.models if model.pseudo]
        if pseudo:
            lines.append(
                f"{', '.join(pseudo)}: pseudo-perplexity, which is lower than the"
                " perplexity of an equally good causal model"
            )
        return [*lines, *(model.signature for model in self.models)]

    def charts(self) -> list[Chart]:
        """Return the error rate of models over the mean and the median perplexity."""
        charts = []
        for kind in ("mean", "median"):
            series = []
            for model in self.models:
                if model.error_rate is not None:
                    point = getattr(model.perplexity, kind), model.error_rate
                    series.append(Series(model.lm, [point]))
            title = f"{self.metric} and {kind} perplexity"
            label = f"{kind} perplexity per token"
            rate = f"{self.metric} in percent"
            charts.append(Chart(title, label, rate, series, x_log=True, lines=False))
        return charts


def measure(
    lms: Sequence[LanguageModel],
    lists: Dataset,
    metric: Metric,
    error_rates: Mapping[str, float],
    progress: Callable[[int], object] = lambda number: None,
) -> CorrelationReport:
    """Return the correlations of models' perplexities with error rates.

    Args:
        lms: The models.
        lists: Lists with references. Of several references the first counts.
        metric: The error rate.
        error_rates: The error rate after reranking with each model, in percent, by the
            first digits of the model's fingerprint, as `read_error_rates` returns it.
        progress: Called with the number of sentences that were scored since the last
            call.

    Raises:
        UserError: The metric is no error rate.
    """
    if metric.words is None:
        raise UserError(
            f"correlate: {metric.name} is no error rate; give --metric wer or cer"
        )
    # intervals draw by this order
    lists = lists.with_lists(sorted(lists, key=content_key))
    figures = Figures(metric, lists)
    firsts = first_pass(lists).texts
    measured = figures.of(firsts)
    counts = np.stack([text.counts for text in measured])
    errors = np.asarray(metric.sentence_values(counts), dtype=np.float64)
    references = [nbest.references[0] for nbest in lists]
    lengths = np.array([len(metric.words(text)) for text in references], np.float64)
    models = []
    for lm in lms:
        _, first_scores = measure_text(lm, _with_texts(lists, firsts), progress)
        text, scores = measure_text(lm, _with_texts(lists, references), progress)
        rate = error_rates.get(lm.fingerprint[:FINGERPRINT_DIGITS])
        models.append(_figures(text, rate, first_scores, errors, scores, lengths))
    known = [model for model in models if model.error_rate is not None]
    return CorrelationReport(
        metric=metric.name,
        utterances=len(lists),
        first_pass=figures.value(measured),
        models=models,
        pearson=_over_models(known, pearson),
        spearman=_over_models(known, spearman),
        baseline=figures.baseline,
    )


def read_error_rates(
    paths: Iterable[str], metric: str, utterances: int
) -> dict[str, float]:
    """Return the error rate of each language model in results files.

    Args:
        paths: Files of `rescore compare -o FILE.json`, of which the rows of single
            models count, and of `rescore run --report FILE`.
        metric: Name of the error rate.
        utterances: Number of lists that the results are of.

    Returns:
        The error rate after reranking, in percent, by the first digits of the model's
        fingerprint.

    Raises:
        UserError: A file cannot be read, is of other lists, has another metric, or has
            no row of a single model.
    """
    rates: dict[str, float] = {}
    for path in paths:
        values = read_json(Path(path))
        keys = values if isinstance(values, dict) else {}
        own: dict[str, float] = {}
        number = utterances
        if files.is_results(keys):
            results = files.read(Path(path))
            number = results.utterances
            own = _rates_of_run(results, metric)
        elif "rows" in keys:
            comparison = parsed(values, Comparison, path)
            number = comparison.utterances
            own = _rates_of_comparison(comparison, metric)
        if number != utterances:
            raise UserError(
                f"{path}: is of {counted(number, 'utterance')}, and the lists have"
                f" {utterances:,}; give the results of the same lists"
            )
        if not own:
            raise UserError(
                f"{path}: has no {metric} of a single language model; give a file of"
                " `rescore compare -o FILE.json` or `rescore run --report FILE`"
            )
        rates |= own
    return rates


def _rates_of_comparison(comparison: Comparison, metric: str) -> dict[str, float]:
    """The error rates of the rows of single models."""
    rates: dict[str, float] = {}
    if comparison.metric != metric:
        return rates
    for row in comparison.rows:
        columns = parse(row.signature).columns
        model = _single_model(columns.values())
        if row.name in columns and model:
            rates[model] = row.value
    return rates


def _rates_of_run(results: Results, metric: str) -> dict[str, float]:
    """The error rate of a run with a single model."""
    model = _single_model(results.columns.values())
    for measured in results.metrics:
        if measured.metric == metric and model:
            return {model: measured.reranked}
    return {}


def _single_model(columns: Iterable[Column]) -> str:
    """The first digits of the fingerprint of the only model; empty for other numbers.

    The column with the number of tokens is another model's, perhaps.
    """
    scores = [column for column in columns if column.norm != COUNT]
    models = {column.fingerprint[:FINGERPRINT_DIGITS] for column in scores}
    models.discard("")
    return models.pop() if len(models) == 1 else ""


def _with_texts(lists: Dataset, texts: Sequence[str]) -> list[NbestList]:
    """The lists with one hypothesis each: a text."""
    pairs = zip(lists, texts, strict=True)
    return [replace(nbest, hypotheses=[Hypothesis(text)]) for nbest, text in pairs]


def _figures(
    text: TextScore,
    error_rate: float | None,
    first_scores: Sequence[TokenScores],
    errors: Floats,
    scores: Sequence[TokenScores],
    lengths: Floats,
) -> ModelFigures:
    """The figures of one model.

    Args:
        text: The scores of the references together.
        error_rate: The error rate after reranking, in percent.
        first_scores: The scores of the first pass of each utterance.
        errors: The error rate of each first pass, shape (utterances,).
        scores: The scores of each reference.
        lengths: The number of words of each reference, shape (utterances,).
    """
    unlikely = _negative_means(first_scores)
    draws = np.random.default_rng(SEED).integers(
        0, len(unlikely), (TRIALS, len(unlikely))
    )
    trials = [spearman(unlikely[draw], errors[draw]) for draw in draws]
    low, high = interval(trials)
    return ModelFigures(
        lm=text.lm,
        fingerprint=text.fingerprint,
        pseudo=text.pseudo,
        error_rate=error_rate,
        perplexity=text.by_token,
        with_errors=spearman(unlikely, errors),
        with_errors_interval=(low / 100, high / 100),
        with_length=spearman(_negative_means(scores), lengths),
        signature=text.signature,
    )


def _negative_means(scores: Sequence[TokenScores]) -> Floats:
    """The natural log of the perplexity of each sentence, which has the same ranks."""
    return np.array([-result.mean for result in scores], dtype=np.float64)


def _over_models(
    models: Sequence[ModelFigures], correlation: Callable[[Floats, Floats], float]
) -> dict[str, float]:
    """The correlation of error rates with each kind of perplexity."""
    if len(models) < FEWEST_MODELS:
        return {}
    rates = np.array([model.error_rate for model in models], dtype=np.float64)
    correlations = {}
    for kind in KINDS_OF_PERPLEXITY:
        values = [getattr(model.perplexity, kind) for model in models]
        if all(map(math.isfinite, values)):
            correlations[kind] = correlation(np.array(values), rates)
        else:
            correlations[kind] = math.nan
    return correlations
