"""The stages of the main job as functions: `rescore.read`, `score`, `tune`, `rerank`, `evaluate`.

    >>> import rescore
    >>> lists = [
    ...     rescore.NbestList("u1", [
    ...         rescore.Hypothesis("the old clock sticked on the wall", {"s2s": -4.0}),
    ...         rescore.Hypothesis("the old clock ticked on the wall", {"s2s": -4.5}),
    ...     ], references=("the old clock ticked on the wall",)),
    ... ]
    >>> scored = rescore.score(lists, "tta")
    >>> weights = rescore.tune(scored)
    >>> rescore.rerank(scored, weights)[0].hypotheses[0].text
    'the old clock ticked on the wall'
    >>> results = rescore.evaluate(scored, weights)
    >>> f"{results.metric} {results.first_pass:.2f} -> {results.reranked:.2f}"
    'WER 14.29 -> 0.00'

All scores are natural logs, higher is better. Whatever is the caller's to mend is a `UserError` with one line of text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

# Imports wait until a function is called: `import rescore` costs nothing, and only networks need torch.
if TYPE_CHECKING:
    from rescore.reports.results import Results
    from rescore.scoring import LanguageModel
    from rescore.scoring.base import Public
    from rescore.tuning.weights import Weights

Scorer = Callable[[Sequence[str]], Sequence[float]]
"""A function that gives each of some sentences a score, natural log, higher is better."""


def read(
    paths: str | Path | Sequence[str | Path], references: str | Path | None = None, *, s2s: str = FIRST_PASS
) -> list[NbestList]:
    """N-best lists of any known format, which is found out by looking inside.

    Args:
        paths: a file or folder, or several. references: Kaldi text, trn, or plain lines. s2s: the first-pass column.

    Raises:
        UserError: something is missing, damaged, or of no known format.

    Example:
        >>> lists = read("data/dev.json")
        >>> len(lists), len(lists[0].hypotheses)
        (117, 20)
    """
    from rescore import formats

    return formats.read([paths] if isinstance(paths, (str, Path)) else paths, references=references, s2s=s2s)


def load(
    lm: str,
    device: str | None = None,
    precision: str | None = None,
    batch_tokens: int | None = None,
    cache: str | Path | None = None,
    prompt: str | None = None,
) -> Public:
    """A language model by its name, `KIND[:OPTION...][:PATH]`; its `score` takes plain sentences, or `Question`s.

    Args:
        device: cpu, cuda or cuda:N; None for cuda where there is one.
        precision: float32, bf16, fp16 or int8; None for float32 on a CPU and bf16 on a GPU.
        batch_tokens: computed together; None for what suits the machine.
        cache: a folder in which scores are kept.
        prompt: for hf-causal, a template that ends with {text} and may have {src}; the score is that of {text}.

    Raises:
        UserError: the name is unknown, or the model's files are missing or damaged.

    Example:
        >>> scores = load("tta").score(["the clock ticked"])[0]
        >>> scores.tokens, scores.log_probs.shape
        (['the', 'clock', 'tick', '##ed'], (4,))
    """
    from rescore import scoring
    from rescore.scoring.base import Public

    return Public(scoring.load_all([lm], scoring.Computing(device, precision, batch_tokens, prompt), cache)[0])


def score(
    lists: Iterable[NbestList | Sequence[str]], *lms: str | LanguageModel | Scorer, norm: str | None = None
) -> list[NbestList]:
    """Copies of the lists with one more column a language model, called after it.

    Args:
        lists: N-best lists, or lists of texts, best first: their order is then the first pass.
        lms: names as in `load`, or models, or functions that give each of some sentences a score (natural log); a
            function's column is called after it.
        norm: `sum`, `mean` or `length^A` over tokens; None for the one that suits the first pass.

    Raises:
        UserError: a model cannot be loaded, or the lists are damaged.

    Example:
        >>> def brevity(sentences):
        ...     return [-len(sentence.split()) for sentence in sentences]
        >>> score([["a b c", "a b"]], brevity)[0].hypotheses[1].scores["brevity"]
        -2.0
    """
    from rescore import scoring
    from rescore.engines import score_all
    from rescore.experiment.run import choose_norm
    from rescore.scoring.base import Public
    from rescore.scoring.function import FunctionModel

    every = [_as_list(one, number) for number, one in enumerate(lists, 1)]
    models: list[LanguageModel] = [
        scoring.load(lm) if isinstance(lm, str) else FunctionModel(lm) if isfunction(lm) else cast("LanguageModel", lm)
        for lm in lms
    ]
    models = [lm.lm if isinstance(lm, Public) else lm for lm in models]
    return score_all(models, every, choose_norm(norm, every))


def _as_list(given: NbestList | Sequence[str], number: int) -> NbestList:
    if isinstance(given, NbestList):
        return given
    texts = [given] if isinstance(given, str) else given
    return NbestList(
        str(number), [Hypothesis(text, {FIRST_PASS: -math.log(rank)}) for rank, text in enumerate(texts, 1)]
    )


def _as_weights(given: Weights | Mapping[str, float] | float | None, lists: Sequence[NbestList]) -> Weights:
    """Weights from what a user may give: also a dictionary, or the weight of the only LM column."""
    from rescore.errors import UserError
    from rescore.nbest import score_columns
    from rescore.tuning import FIRST_PASS_ALONE, Weights

    if given is None:
        return FIRST_PASS_ALONE
    if isinstance(given, Weights):
        return given
    if isinstance(given, Mapping):
        return Weights({name: float(weight) for name, weight in given.items()}, "given")
    columns = score_columns(lists[0]) if lists else []
    if len(columns) != 1:
        raise UserError(f"one number is the weight of one LM, but the lists have {len(columns)}: {', '.join(columns)}")
    return Weights.interpolation({columns[0]: float(given)}, "given", "given")


def tune(lists: Sequence[NbestList], columns: Sequence[str] | None = None, metric: str | None = None) -> Weights:
    """The weights of LM columns that give the best value of a metric on lists with references.

    One column gets the best weight in [0, 1] of all; several are tuned together with a word bonus.

    Args:
        columns: None for all beside the first pass. metric: wer, cer, bleu, chrf or ter; None for BLEU where lists have
            a source text, else WER.

    Raises:
        UserError: a list has no reference, or there is no such column.
    """
    from rescore import metrics
    from rescore.errors import UserError
    from rescore.nbest import score_columns
    from rescore.tuning import tune as tune_weights

    names = list(columns or score_columns(lists[0]))
    if not names:
        raise UserError("no column of LM scores in these lists; add one with rescore.score")
    return tune_weights(metrics.choose_metric(metric, lists), lists, names)[0]


def rerank(lists: Iterable[NbestList], weights: Weights | Mapping[str, float] | float) -> list[NbestList]:
    """The lists with their hypotheses sorted by the combined score, best first; equals keep their order.

    Args:
        weights: as tuned, or a dictionary of columns (`{"s2s": 0.7, "tta": 0.3}`), or the weight of the only LM.

    Raises:
        UserError: a column that has a weight is missing.
    """
    from rescore.decision import rerank as sort

    every = list(lists)
    found = _as_weights(weights, every)
    return [sort(nbest, found.of) for nbest in every]


def evaluate(
    lists: Sequence[NbestList],
    weights: Weights | Mapping[str, float] | float | None = None,
    metric: str | None = None,
) -> Results:
    """First pass, oracle and reranked figures in percent, with counts, confidence intervals and a signature.

    Args:
        weights: as in `rerank`; None for the first pass alone.

    Raises:
        UserError: a list has no reference, or lacks a column that has a weight.
    """
    from rescore import metrics
    from rescore.reports.results import evaluate as evaluate_weights

    found = _as_weights(weights, lists)
    options = metrics.MetricOptions()
    if metric is None and found.tuned_for:
        metric, options = found.tuned_for.metric, found.tuned_for.options
    return evaluate_weights(metrics.choose_metric(metric, lists, options), lists, found)[0]


def wer(reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    """The word error rate as a share, as `jiwer.wer` gives it; counted as sclite does, upper and lower case alike.

    Raises:
        UserError: there are not as many hypotheses as references, or all references are empty.

    Example:
        >>> round(wer("the clock ticked", "a clock ticked"), 3)
        0.333
    """
    return _error_rate("wer", reference, hypothesis)


def cer(reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    """The character error rate as a share; see `wer`."""
    return _error_rate("cer", reference, hypothesis)


def _error_rate(name: str, reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    from rescore.errors import UserError
    from rescore.metrics import choose_metric, list_statistics, total, value

    references = [reference] if isinstance(reference, str) else list(reference)
    hypotheses = [hypothesis] if isinstance(hypothesis, str) else list(hypothesis)
    if len(references) != len(hypotheses):
        raise UserError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    lists = [
        NbestList(str(number), [Hypothesis(ours)], (theirs,))
        for number, (ours, theirs) in enumerate(zip(hypotheses, references, strict=True))
    ]
    metric = choose_metric(name, lists)
    return value(metric, total(list_statistics(metric, lists), [0] * len(lists))) / 100


def to_frame(lists: Iterable[NbestList]) -> Any:
    """A pandas (or else polars) table: a row a hypothesis, with id, rank, text, a column a score, reference, source.

    Raises:
        UserError: neither package is installed.
    """
    rows = [
        {
            "id": nbest.id,
            "rank": rank,
            "text": hypothesis.text,
            **hypothesis.scores,
            "reference": nbest.references[0] if nbest.references else None,
            "source": nbest.source,
        }
        for nbest in lists
        for rank, hypothesis in enumerate(nbest.hypotheses, 1)
    ]
    try:
        import pandas

        return pandas.DataFrame(rows)
    except ImportError:
        pass
    try:
        import polars

        return polars.DataFrame(rows)
    except ImportError:
        from rescore.errors import UserError

        raise UserError("to_frame needs pandas or polars; install one of them") from None
