"""The stages of the main job as functions: `rescore.read`, `score`, `tune`, `rerank`,
`evaluate`.

    >>> import rescore
    >>> lists = [
    ...     rescore.NbestList("u1", [
    ...         rescore.Hypothesis("the old clock sticked on the wall", {"s2s": -4.0}),
    ...         rescore.Hypothesis("the old clock ticked on the wall", {"s2s": -4.5}),
    ...     ], references=("the old clock ticked on the wall",)),
    ...     rescore.NbestList("u2", [
    ...         rescore.Hypothesis("she red the letter again", {"s2s": -3.0}),
    ...         rescore.Hypothesis("she read the letter again", {"s2s": -3.5}),
    ...     ], references=("she read the letter again",)),
    ... ]
    >>> scored = rescore.score(lists, "tta")
    >>> weights = rescore.tune(scored)
    >>> rescore.texts(scored, weights)[0]
    'the old clock ticked on the wall'
    >>> results = rescore.evaluate(scored, weights)
    >>> f"{results.metric} {results.first_pass:.2f} -> {results.reranked:.2f}"
    'WER 16.67 -> 0.00'

All scores are natural logs, higher is better. An error that the caller can mend is a
`UserError` with one line of text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rescore.errors import UserError, counted
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

# Imports wait until a function is called: `import rescore` costs nothing, and only
# networks need torch.
if TYPE_CHECKING:
    from rescore.border import Scorer
    from rescore.lms import LanguageModel
    from rescore.lms.base import Wrapped
    from rescore.metrics import Normaliser
    from rescore.reports.comparison import Comparison
    from rescore.reports.results import Results
    from rescore.tuning.weights import Weights


def read(
    paths: str | Path | Sequence[str | Path],
    references: str | Path | Sequence[str | Path] | None = None,
    *,
    sources: str | Path | None = None,
    s2s: str = FIRST_PASS,
    format: str | None = None,  # noqa: A002 (as --format)
    field: Mapping[str, str] | None = None,
    nbest_size: int | None = None,
    strict: bool = False,
    allow_missing: bool = False,
    audio: str | Path | Sequence[str | Path] | None = None,
) -> list[NbestList]:
    """N-best lists of any known format, which is found out by looking inside.

    Args:
        paths: a file or folder, or several. sources: a file of source texts, as
            `--src`.
        references: Kaldi text, trn, or plain lines; of several files each has one more
            reference of each utterance. s2s: the first-pass column; `rank` for the
            order of the file.
        format: its name, as `--format` has it; None to find out. nbest_size: hypotheses
            per list, if no file says it.
        field: JSON, CSV, TSV: which key or column is text, score, id, ref or src, such
            as `{"text": "hyp"}`.
        strict: whether what is else repaired (bytes that are not UTF-8, repeated
            hypotheses) is an error.
        allow_missing: whether references without a list and lists without a recording
            are warnings, not errors.
        audio: recordings for models that listen, as `--audio`: wav.scp, a folder of
            ID.wav, or a NeMo manifest.

    Raises:
        UserError: something is missing, damaged, or of no known format.

    Example:
        >>> lists = read("data/dev.json")
        >>> len(lists), len(lists[0].hypotheses)
        (117, 20)
    """
    from rescore import formats
    from rescore.formats.audio import with_audio

    files = (
        [references] if isinstance(references, (str, Path)) else list(references or ())
    )
    lists = formats.read(
        [paths] if isinstance(paths, (str, Path)) else paths,
        references=formats.References(tuple(map(str, files))) if files else None,
        format_name=format,
        sources=sources,
        s2s=s2s,
        strict=strict,
        allow_missing=allow_missing,
        options=formats.ReadOptions(size=nbest_size, fields=dict(field or {})),
    )
    sounds = (
        [str(audio)]
        if isinstance(audio, (str, Path))
        else [str(path) for path in audio or ()]
    )
    return list(with_audio(lists, sounds, allow_missing)) if sounds else lists


def load(
    lm: str,
    device: str | None = None,
    precision: str | None = None,
    batch_tokens: int | None = None,
    cache: str | Path | None = None,
    prompt: str | None = None,
) -> Wrapped:
    """A language model by its name, `KIND[:OPTION...][:PATH]`; its `score` takes plain
    sentences, or `Question`s.

    Args:
        device: cpu, cuda or cuda:N; None for cuda where there is one.
        precision: float32, bf16, fp16 or int8; None for float32 on a CPU and bf16 on a
            GPU.
        batch_tokens: computed together; None for what suits the machine. cache: a
            folder in which scores are kept.
        prompt: for hf-causal and server, a template that ends with {text} and may have
            {src}; {text} alone is scored.

    Raises:
        UserError: the name is unknown or stands for several models, or the model's
        files are missing or damaged.

    Example:
        >>> scores = load("tta").score(["the clock ticked"])[0]
        >>> scores.tokens, scores.log_probs.shape
        (['the', 'clock', 'tick', '##ed'], (4,))
    """
    from rescore.lms import ComputeOptions, load
    from rescore.lms.base import Wrapped
    from rescore.lms.cache import Cached

    model = load(lm, ComputeOptions(device, precision, batch_tokens, prompt))
    return Wrapped(model) if cache is None else Cached(model, Path(cache))


def score(
    lists: Iterable[NbestList | Sequence[str]],
    *lms: str | LanguageModel | Scorer,
    lm_norm: str | None = None,
    **options: Any,
) -> list[NbestList]:
    """Copies of the lists with one more column per language model, called after it.

    Of the first model of pseudo-log-likelihoods (such as a T-TA) the tokens are counted
    in a column, too, for `tune`.

    Args:
        lists: N-best lists, or lists of texts, best first: their order is then the
            first pass.
        lms: names as in `load`, and `lexical:all:DIR`, which is five models; or models;
            or functions that give each of some sentences a score (natural log), whose
            column is called after the function. Where a name is taken, as by another
            model of the same kind, the column is called after the model's folder, such
            as `tta.small`, where all models are given by name, as on the command line;
            else `tta.2`.
        lm_norm: `sum`, `mean` or `length^A` over tokens; None for the one that suits
            the first pass.
        options: further fields of `rescore.RunConfig`, such as `count_tokens=True`; and
            options that add hypotheses, such as `recombine=5`, or `respell=5,
            channel="shipped"`.

    Raises:
        UserError: a model cannot be loaded, or the lists are damaged.

    Example:
        >>> def brevity(sentences):
        ...     return [-len(sentence.split()) for sentence in sentences]
        >>> score([["a b c", "a b"]], brevity)[0].hypotheses[1].scores["brevity"]
        -2.0
    """
    from rescore import border, pipeline

    every = border.checked_lists("score", lists, texts=True)
    config = border.config_of(
        "score", lm_norm=lm_norm, lms=border.names_of(lms), **options
    )
    plan = pipeline.resolve(
        config,
        every,
        load=lambda: border.as_models(lms),
        specs=border.specs_of(lms),
        measures=False,
    )
    return list(pipeline.score(plan, pipeline.expand(plan, every)))


def rerank(
    lists: Iterable[NbestList], weights: Weights | Mapping[str, float] | float
) -> list[NbestList]:
    """The lists with their hypotheses sorted by the combined score, best first; equals
    keep their order. `texts` has the texts that minimum Bayes risk or a vote chooses.

    Args:
        weights: as tuned, or a dictionary of columns (`{"s2s": 0.7, "tta": 0.3}`), or
            the weight of the only LM.

    Raises:
        UserError: a column that has a weight is missing.
    """
    return [nbest for nbest, _ in _decided("rerank", lists, weights, texts=False)]


def texts(
    lists: Iterable[NbestList], weights: Weights | Mapping[str, float] | float
) -> list[str]:
    """The text chosen from each list, by the decision that the weights were tuned for;
    arguments as of `rerank`.
    """
    return [text for _, text in _decided("texts", lists, weights, texts=True)]


def _decided(
    name: str, lists: Iterable[NbestList], weights: Any, texts: bool
) -> Iterator[tuple[NbestList, str]]:
    from rescore import border, pipeline

    every = border.checked_lists(name, lists)
    return pipeline.rerank(
        every, border.as_weights(weights, every), pipeline.RunConfig(), texts
    )


def load_weights(path: str | Path) -> Weights:
    """The weights in a file that `rescore tune` or `save_weights` wrote.

    Raises:
        UserError: the file is absent, or holds no weights.
    """
    from rescore.tuning import Weights

    return Weights.load(Path(path))


def save_weights(weights: Weights, path: str | Path) -> None:
    """Write weights to a file.

    Raises:
        UserError: the file cannot be written.
    """
    weights.save(Path(path))


def evaluate(
    lists: Iterable[NbestList],
    weights: Weights | Mapping[str, float] | float | None = None,
    metric: str | None = None,
    decision: str | None = None,
    scale: float | None = None,
    *,
    words: str | Path | None = None,
    normaliser: Normaliser | None = None,
    **options: Any,
) -> Results:
    """First pass, oracle and reranked figures in percent, with counts, confidence
    intervals and a signature.

    Args:
        weights: as in `rerank`; None for the first pass alone. metric, decision: None
            for those that the weights were tuned for. scale: of the posteriors
            exp(scale * score), where the decision needs them and nothing is tuned.
        words, normaliser: as in `tune`; None for those that the weights were tuned
            with. options: further options of metrics and decisions, such as
            `tokenise="zh"`.

    Raises:
        UserError: there are no lists, one has no reference, or lacks a column that has
        a weight.
    """
    from rescore import border, pipeline

    every = border.checked_lists("evaluate", lists)
    config = border.config_of(
        "evaluate", metric, decision, words, normaliser, scale=scale, **options
    )
    return pipeline.apply(every, border.as_weights(weights, every), config).results


def compare(
    lists: Iterable[NbestList],
    dev: Iterable[NbestList],
    *lms: str | LanguageModel | Scorer,
    metric: str | None = None,
    lm_norm: str | None = None,
    decision: str | None = None,
    words: str | Path | None = None,
    normaliser: Normaliser | None = None,
    **options: Any,
) -> Comparison:
    """Language models side by side: each tuned on `dev` and measured on `lists`, and
    all of them together.

    Args:
        lms, lm_norm: as in `score`. metric, decision, words, normaliser, options: as in
            `tune`.

    Raises:
        UserError: a model cannot be loaded, or a list has no reference.
    """
    from rescore import border, comparing

    sets = border.checked_lists("compare", lists), border.checked_lists("compare", dev)
    config = border.config_of(
        "compare",
        metric,
        decision,
        words,
        normaliser,
        lm_norm=lm_norm,
        lms=border.names_of(lms),
        **options,
    )
    return comparing.compare(
        *sets, config, lambda: border.as_models(lms), specs=border.specs_of(lms)
    )


def wer(reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    """The word error rate in percent, as in `evaluate`; counted as sclite does, upper
    and lower case alike.

    Raises:
        UserError: there are not as many hypotheses as references, or all references are
        empty.
    """
    return _error_rate("wer", reference, hypothesis)


def cer(reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    """The character error rate in percent; see `wer`."""
    return _error_rate("cer", reference, hypothesis)


def _error_rate(
    name: str, reference: str | Sequence[str], hypothesis: str | Sequence[str]
) -> float:
    from rescore.metrics import choose_metric, list_statistics, total, value

    references = [reference] if isinstance(reference, str) else list(reference)
    hypotheses = [hypothesis] if isinstance(hypothesis, str) else list(hypothesis)
    if len(references) != len(hypotheses):
        raise UserError(
            f"{counted(len(hypotheses), 'hypothesis')} for"
            f" {counted(len(references), 'reference')}"
        )
    pairs = enumerate(zip(hypotheses, references, strict=True))
    lists = [
        NbestList(str(number), [Hypothesis(text)], (expected,))
        for number, (text, expected) in pairs
    ]
    metric = choose_metric(name, lists).for_reports
    return value(metric, total(list_statistics(metric, lists), [0] * len(lists)))


def to_frame(lists: Iterable[NbestList]) -> Any:
    """A pandas (or else polars) table, one row per hypothesis: id, rank, text, scores,
    reference, source.

    Raises:
        UserError: neither package is installed.
    """
    from rescore import border
    from rescore.reports.markup import as_frame

    rows = [
        {"id": nbest.id, "rank": rank, "text": hypothesis.text, **hypothesis.scores}
        | {
            "reference": nbest.references[0] if nbest.references else None,
            "source": nbest.source,
        }
        for nbest in border.checked_lists("to_frame", lists)
        for rank, hypothesis in enumerate(nbest.hypotheses, 1)
    ]
    return as_frame(rows)
