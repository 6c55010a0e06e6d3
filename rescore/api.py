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

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rescore.nbest import FIRST_PASS, NbestList

# Imports wait until a function is called: `import rescore` costs nothing, and only networks need torch.
if TYPE_CHECKING:
    from rescore.evaluation.results import Results
    from rescore.scoring import LanguageModel
    from rescore.tuning.weights import Weights


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
) -> LanguageModel:
    """A language model by its name, `KIND[:OPTION...][:PATH]`; its `score` takes plain sentences.

    Args:
        device: cpu, cuda or cuda:N; None for cuda where there is one.
        precision: float32, bf16, fp16 or int8; None for float32 on a CPU and bf16 on a GPU.
        batch_tokens: computed together; None for what suits the machine.
        cache: a folder in which scores are kept.

    Raises:
        UserError: the name is unknown, or the model's files are missing or damaged.

    Example:
        >>> scores = load("tta").score(["the clock ticked"])[0]
        >>> scores.tokens, scores.log_probs.shape
        (['the', 'clock', 'tick', '##ed'], (4,))
    """
    from rescore import scoring

    return scoring.load_all([lm], scoring.Computing(device, precision, batch_tokens), cache)[0]


def score(lists: Iterable[NbestList], *lms: str | LanguageModel, norm: str | None = None) -> list[NbestList]:
    """Copies of the lists with one more column a language model, called after it.

    Args:
        lms: names as in `load`, or models. norm: `sum`, `mean` or `length^A` over tokens; None for the one that suits
            the first pass.

    Raises:
        UserError: a model cannot be loaded, or the lists are damaged.
    """
    from rescore import scoring
    from rescore.engines import score_all
    from rescore.experiment.run import choose_norm

    every = list(lists)
    models = [lm if not isinstance(lm, str) else scoring.load(lm) for lm in lms]
    return score_all(models, every, choose_norm(norm, every))


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


def rerank(lists: Iterable[NbestList], weights: Weights) -> list[NbestList]:
    """The lists with their hypotheses sorted by the combined score, best first; equals keep their order.

    Raises:
        UserError: a column that has a weight is missing.
    """
    from rescore.decision import rerank as sort

    return [sort(nbest, weights.of) for nbest in lists]


def evaluate(lists: Sequence[NbestList], weights: Weights | None = None, metric: str | None = None) -> Results:
    """First pass, oracle and reranked figures in percent, with counts, confidence intervals and a signature.

    Args:
        weights: None for the first pass alone.

    Raises:
        UserError: a list has no reference, or lacks a column that has a weight.
    """
    from rescore import metrics
    from rescore.evaluation.evaluate import evaluate as evaluate_weights
    from rescore.tuning import FIRST_PASS_ALONE

    found = weights or FIRST_PASS_ALONE
    options = metrics.MetricOptions()
    if metric is None and found.tuned_for:
        metric, options = found.tuned_for.metric, found.tuned_for.options
    return evaluate_weights(metrics.choose_metric(metric, lists, options), lists, found)[0]
