"""The stages of the main job as functions: `rescore.read`, `score`, `tune`, `rerank`, `evaluate`.

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
    >>> rescore.rerank(scored, weights)[0].hypotheses[0].text
    'the old clock ticked on the wall'
    >>> results = rescore.evaluate(scored, weights)
    >>> f"{results.metric} {results.first_pass:.2f} -> {results.reranked:.2f}"
    'WER 16.67 -> 0.00'

All scores are natural logs, higher is better. Whatever is the caller's to mend is a `UserError` with one line of text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rescore.errors import UserError, counted
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList, check_scores

# Imports wait until a function is called: `import rescore` costs nothing, and only networks need torch.
if TYPE_CHECKING:
    from rescore.config import RunConfig
    from rescore.lms import LanguageModel
    from rescore.lms.wrapped import Wrapped
    from rescore.metrics import Normaliser
    from rescore.reports.comparison import Comparison
    from rescore.reports.results import Results
    from rescore.tuning.weights import Weights

Scorer = Callable[[Sequence[str]], Sequence[float]]
"""A function that gives each of some sentences a score, natural log, higher is better."""


def read(
    paths: str | Path | Sequence[str | Path],
    references: str | Path | Sequence[str | Path] | None = None,
    *,
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
        paths: a file or folder, or several. references: Kaldi text, trn, or plain lines; of several files each has
            one more reference of each utterance. s2s: the first-pass column; `rank` for the order of the file.
        format: its name, as `--format` has it; None to find out. nbest_size: hypotheses per list, if no file says it.
        field: JSON, CSV, TSV: which key or column is text, score, id, ref or src, such as `{"text": "hyp"}`.
        strict: whether what is else repaired (bytes that are not UTF-8, repeated hypotheses) is an error.
        allow_missing: whether references without a list and lists without a recording are warnings, not errors.
        audio: recordings for models that listen, as `--audio`: wav.scp, a folder of ID.wav, or a NeMo manifest.

    Raises:
        UserError: something is missing, damaged, or of no known format.

    Example:
        >>> lists = read("data/dev.json")
        >>> len(lists), len(lists[0].hypotheses)
        (117, 20)
    """
    from rescore import formats
    from rescore.formats.audio import with_audio

    files = [references] if isinstance(references, (str, Path)) else list(references or ())
    lists = formats.read(
        [paths] if isinstance(paths, (str, Path)) else paths,
        references=formats.References(tuple(map(str, files))) if files else None,
        format_name=format,
        s2s=s2s,
        strict=strict,
        allow_missing=allow_missing,
        options=formats.ReadOptions(size=nbest_size, fields=dict(field or {})),
    )
    sounds = [str(audio)] if isinstance(audio, (str, Path)) else [str(path) for path in audio or ()]
    return list(with_audio(lists, sounds, allow_missing)) if sounds else lists


def load(
    lm: str,
    device: str | None = None,
    precision: str | None = None,
    batch_tokens: int | None = None,
    cache: str | Path | None = None,
    prompt: str | None = None,
) -> Wrapped:
    """A language model by its name, `KIND[:OPTION...][:PATH]`; its `score` takes plain sentences, or `Question`s.

    Args:
        device: cpu, cuda or cuda:N; None for cuda where there is one.
        precision: float32, bf16, fp16 or int8; None for float32 on a CPU and bf16 on a GPU.
        batch_tokens: computed together; None for what suits the machine. cache: a folder in which scores are kept.
        prompt: for hf-causal and server, a template that ends with {text} and may have {src}; {text} alone is scored.

    Raises:
        UserError: the name is unknown or stands for several models, or the model's files are missing or damaged.

    Example:
        >>> scores = load("tta").score(["the clock ticked"])[0]
        >>> scores.tokens, scores.log_probs.shape
        (['the', 'clock', 'tick', '##ed'], (4,))
    """
    from rescore.lms import ComputeOptions, load
    from rescore.lms.cache import Cached
    from rescore.lms.wrapped import Wrapped

    model = load(lm, ComputeOptions(device, precision, batch_tokens, prompt))
    return Wrapped(model) if cache is None else Cached(model, Path(cache))


def score(
    lists: Iterable[NbestList | Sequence[str]],
    *lms: str | LanguageModel | Scorer,
    norm: str | None = None,
    **options: Any,
) -> list[NbestList]:
    """Copies of the lists with one more column per language model, called after it.

    Of the first model of pseudo-log-likelihoods (such as a T-TA) the tokens are counted in a column, too, for `tune`.

    Args:
        lists: N-best lists, or lists of texts, best first: their order is then the first pass.
        lms: names as in `load`, and `lexical:all:DIR`, which is five models; or models; or functions that give each
            of some sentences a score (natural log), whose column is called after the function. Where a name is taken,
            as by another model of the same kind, the column is called after the model's folder, such as `tta.small`,
            where all models are given by name, as on the command line; else `tta.2`.
        norm: `sum`, `mean` or `length^A` over tokens; None for the one that suits the first pass.
        options: further fields of `rescore.RunConfig`, such as `count_tokens=True`; and options that add hypotheses,
            such as `recombine=5`, or `respell=5, channel="shipped"`.

    Raises:
        UserError: a model cannot be loaded, or the lists are damaged.

    Example:
        >>> def brevity(sentences):
        ...     return [-len(sentence.split()) for sentence in sentences]
        >>> score([["a b c", "a b"]], brevity)[0].hypotheses[1].scores["brevity"]
        -2.0
    """
    from rescore import pipeline

    every = checked_lists("score", lists, texts=True)
    config = config_of(norm=norm, lms=_names(lms), **options)
    plan = pipeline.resolve(config, every, load=lambda: as_models(lms), specs=specs_of(lms), measures=False)
    return list(pipeline.score(plan, pipeline.expand(plan, every)))


def _names(lms: Sequence[str | LanguageModel | Scorer]) -> tuple[str, ...]:
    """The names of models, where all were given by name."""
    names = tuple(lm for lm in lms if isinstance(lm, str))
    return names if len(names) == len(lms) else ()


def as_models(given: Iterable[str | LanguageModel | Scorer]) -> list[LanguageModel]:
    from rescore.lms import each, load

    return [
        model
        for item in given
        for model in ([load(spec) for spec in each([item])] if isinstance(item, str) else [_as_model(item)])
    ]


def specs_of(given: Iterable[str | LanguageModel | Scorer]) -> list[str | None]:
    """The name of each model of `as_models`; None where it was given as a model or a function."""
    from rescore.lms import each

    return [spec for item in given for spec in (each([item]) if isinstance(item, str) else [None])]


def _as_model(given: LanguageModel | Scorer) -> LanguageModel:
    from rescore.lms.function import FunctionModel

    if hasattr(given, "score") and hasattr(given, "fingerprint"):
        return cast("LanguageModel", given)
    if callable(given):
        return FunctionModel(given)
    raise UserError(f"expected a model's name, a model or a function of sentences, found {type(given).__name__}")


def checked_lists(function: str, lists: Iterable[Any], texts: bool = False) -> list[NbestList]:
    """The lists, if they are N-best lists as files may have them; with `texts` they may be lists of texts.

    Raises:
        UserError: they are something else, a list has no hypotheses, or a score is no number.
    """
    wanted = f"rescore.{function}: expected N-best lists (rescore.read makes them from files)"
    if isinstance(lists, (str, Path, NbestList, Mapping)) or hasattr(lists, "iloc") or not isinstance(lists, Iterable):
        raise UserError(f"{wanted}, found one {type(lists).__name__}")
    every = []
    for number, item in enumerate(lists, 1):
        if texts and isinstance(item, Sequence) and not isinstance(item, str) and all(isinstance(t, str) for t in item):
            ranked = [Hypothesis(text, {FIRST_PASS: -math.log(rank)}) for rank, text in enumerate(item, 1)]
            item = NbestList(str(number), ranked)
        if not isinstance(item, NbestList):
            raise UserError(f"{wanted}, found a {type(item).__name__} in place {number}")
        if wrong := next((each for each in item.hypotheses if not isinstance(each, Hypothesis)), None):
            raise UserError(
                f"rescore.{function}: utterance {item.id} has a {type(wrong).__name__} as hypothesis; make a "
                'rescore.Hypothesis("text", {"s2s": score}) of each'
            )
        check_scores(item, f"rescore.{function}: utterance {item.id}")
        every.append(replace(item) if isinstance(item.references, str) else item)  # which refuses them
    return every


def as_weights(given: Weights | Mapping[str, float] | float | None, lists: Sequence[NbestList]) -> Weights:
    """Weights from what a user may give: also a dictionary, or the weight of the only LM column."""
    from rescore.tuning import FIRST_PASS_ALONE, Weights
    from rescore.tuning.folds import model_columns

    if given is None:
        return FIRST_PASS_ALONE
    if isinstance(given, Weights):
        return given
    if isinstance(given, Mapping):
        numbers = {name: float(weight) if isinstance(weight, Real) else weight for name, weight in given.items()}
        return Weights(numbers, "given")
    if not isinstance(given, Real):
        raise UserError(
            f"weights are a {type(given).__name__}; give rescore.Weights (rescore.load_weights reads a file), a "
            "dictionary of columns, or one number"
        )
    columns = model_columns(lists[0]) if lists else []
    if len(columns) != 1:
        raise UserError(f"one number is the weight of one LM, but the lists have {len(columns)}: {', '.join(columns)}")
    return Weights.interpolation({columns[0]: float(given)}, "given", "given")


def config_of(
    metric: str | None = None,
    decision: str | None = None,
    words: str | Path | None = None,
    normaliser: Normaliser | None = None,
    **others: Any,
) -> RunConfig:
    """The settings of a call: fields of `RunConfig`, and options of expansions; `rescore.plan.resolve` decides the
    rest."""
    from rescore.config import RunConfig
    from rescore.metrics import MetricOptions, Normaliser
    from rescore.metrics.listed import WordList
    from rescore.options import OptionValues, flattened
    from rescore.parts import did_you_mean

    own = [field.name for field in fields(RunConfig)]
    further = {name: others.pop(name) for name in [*others] if name not in own}
    known = [entry.name for entry in flattened(RunConfig.declared()) if further]
    if unknown := next((name for name in further if name not in known), None):
        raise UserError(f"{unknown} is not an option{did_you_mean(unknown, known)}; rescore.RunConfig lists them")
    if further:
        others["expanding"] = OptionValues(**further)
    listed = WordList.load(Path(words)) if words is not None else None
    measuring = MetricOptions(normaliser=normaliser or Normaliser(), words=listed)
    return RunConfig(metrics=(metric,) if metric else (), decide=decision, measuring=measuring, **others)


def tune(
    lists: Iterable[NbestList],
    columns: Sequence[str] | None = None,
    metric: str | None = None,
    decision: str | None = None,
    *,
    words: str | Path | None = None,
    normaliser: Normaliser | None = None,
    **options: Any,
) -> Weights:
    """The weights of LM columns that give the best value of a metric on lists with references.

    One column gets the best weight in [0, 1] of all; several are tuned together with a word bonus. On 500 lists or more
    with a column of pseudo-log-likelihoods a bonus for each token is tuned as well. For BLEU there are no bonuses.

    Args:
        columns: None for those that `score` added; else all beside the first pass. metric: wer, cer, bleu, chrf or ter;
            None for BLEU where lists have a source text, else WER.
        decision: best, mbr or rover: what the weights (and the scale of posteriors) are tuned for.
        words: a file of words, as `--words`: what the metrics bwer and uwer count, and what `boost=NUMBER` boosts.
        normaliser: what counts as the same word, such as `rescore.Normaliser(split_hyphens=True)`; the weights keep it.
        options: further fields of `rescore.RunConfig`, such as `components=True`.

    Raises:
        UserError: there are no lists, one has no reference, or there is no such column.
    """
    from rescore import pipeline

    if isinstance(columns, str):
        raise UserError(f"columns is the text {columns!r}; give a list of names, such as [{columns!r}]")
    config = config_of(metric, decision, words, normaliser, columns=tuple(columns or ()), **options)
    every = checked_lists("tune", lists)
    plan = pipeline.resolve(config, dev=every)
    return pipeline.tune(plan, [*pipeline.expand(plan, every, dev=True)])


def rerank(lists: Iterable[NbestList], weights: Weights | Mapping[str, float] | float) -> list[NbestList]:
    """The lists with their hypotheses sorted by the combined score, best first; equals keep their order.

    Args:
        weights: as tuned, or a dictionary of columns (`{"s2s": 0.7, "tta": 0.3}`), or the weight of the only LM.

    Raises:
        UserError: a column that has a weight is missing.
    """
    from rescore import pipeline

    every = checked_lists("rerank", lists)
    return [nbest for nbest, _ in pipeline.rerank(every, as_weights(weights, every), pipeline.RunConfig(), texts=False)]


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
) -> Results:
    """First pass, oracle and reranked figures in percent, with counts, confidence intervals and a signature.

    Args:
        weights: as in `rerank`; None for the first pass alone. metric, decision: None for those that the weights were
            tuned for. scale: of the posteriors exp(scale * score), where the decision needs them and nothing is tuned.
        words, normaliser: as in `tune`; None for those that the weights were tuned with.

    Raises:
        UserError: there are no lists, one has no reference, or lacks a column that has a weight.
    """
    from rescore import pipeline

    every = checked_lists("evaluate", lists)
    config = config_of(metric, decision, words, normaliser, scale=scale)
    return pipeline.apply(every, as_weights(weights, every), config).results


def compare(
    lists: Iterable[NbestList],
    dev: Iterable[NbestList],
    *lms: str | LanguageModel | Scorer,
    metric: str | None = None,
    norm: str | None = None,
    decision: str | None = None,
    words: str | Path | None = None,
    normaliser: Normaliser | None = None,
    **options: Any,
) -> Comparison:
    """Language models side by side: each tuned on `dev` and measured on `lists`, and all of them together.

    Args:
        lms, norm: as in `score`. metric, decision, words, normaliser, options: as in `tune`.

    Raises:
        UserError: a model cannot be loaded, or a list has no reference.
    """
    from rescore import comparing

    sets = checked_lists("compare", lists), checked_lists("compare", dev)
    config = config_of(metric, decision, words, normaliser, norm=norm, lms=_names(lms), **options)
    return comparing.compare(*sets, config, lambda: as_models(lms), specs=specs_of(lms))


def wer(reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    """The word error rate in percent, as in `evaluate`; counted as sclite does, upper and lower case alike.

    Raises:
        UserError: there are not as many hypotheses as references, or all references are empty.
    """
    return _error_rate("wer", reference, hypothesis)


def cer(reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    """The character error rate in percent; see `wer`."""
    return _error_rate("cer", reference, hypothesis)


def _error_rate(name: str, reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    from rescore.metrics import choose_metric, list_statistics, total, value

    references = [reference] if isinstance(reference, str) else list(reference)
    hypotheses = [hypothesis] if isinstance(hypothesis, str) else list(hypothesis)
    if len(references) != len(hypotheses):
        raise UserError(f"{counted(len(hypotheses), 'hypothesis')} for {counted(len(references), 'reference')}")
    pairs = enumerate(zip(hypotheses, references, strict=True))
    lists = [NbestList(str(number), [Hypothesis(text)], (expected,)) for number, (text, expected) in pairs]
    metric = choose_metric(name, lists)
    return value(metric, total(list_statistics(metric, lists), [0] * len(lists)))


def to_frame(lists: Iterable[NbestList]) -> Any:
    """A pandas (or else polars) table, one row per hypothesis: id, rank, text, scores, reference, source.

    Raises:
        UserError: neither package is installed.
    """
    from rescore.reports.markup import as_frame

    rows = [
        {"id": nbest.id, "rank": rank, "text": hypothesis.text, **hypothesis.scores}
        | {"reference": nbest.references[0] if nbest.references else None, "source": nbest.source}
        for nbest in checked_lists("to_frame", lists)
        for rank, hypothesis in enumerate(nbest.hypotheses, 1)
    ]
    return as_frame(rows)
