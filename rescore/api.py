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
from typing import TYPE_CHECKING, Any, cast

from rescore.columns import FIRST_PASS
from rescore.errors import UserError, counted
from rescore.nbest import Hypothesis, NbestList

# Imports wait until a function is called: `import rescore` costs nothing, and only
# networks need torch.
if TYPE_CHECKING:
    from rescore.border import Scorer
    from rescore.lms import LanguageModel
    from rescore.lms.base import Wrapped
    from rescore.metrics import Normaliser
    from rescore.reports.comparison import Comparison
    from rescore.reports.results import Results
    from rescore.tuning.curves import CurveStep
    from rescore.tuning.weights import Weights


def read(
    paths: str | Path | Sequence[str | Path],
    references: str | Path | Sequence[str | Path] | None = None,
    *,
    sources: str | Path | None = None,
    s2s: str = FIRST_PASS,
    format: str | None = None,  # noqa: A002 (as --format)
    field: Mapping[str, str | Sequence[str]] | None = None,
    nbest_size: int | None = None,
    strict: bool = False,
    allow_missing: bool = False,
    audio: str | Path | Sequence[str | Path] | None = None,
    merge: bool = False,
    scores: str | Path | Sequence[str | Path] | None = None,
    shape: str | Path | None = None,
) -> list[NbestList]:
    """Return the N-best lists of files of any known format.

    Args:
        paths: A file or folder, or several.
        references: Kaldi text, trn, or plain lines; of several files each has one more
            reference of each utterance.
        sources: A file of source texts, as `--src`.
        s2s: The first-pass column; `rank` for the order of the file.
        format: The name of the format, as `--format` has it; None to detect it.
        field: JSON, CSV, TSV: which key or column is text, score, id, ref or src, such
            as `{"text": "hyp"}`; several columns of texts are `["h1", "h2"]` or `h*`.
        nbest_size: Hypotheses per list, if no file says it.
        strict: Whether faults that are else repaired (bytes that are not UTF-8,
            repeated hypotheses) are errors.
        allow_missing: Whether references without a list, and lists without a reference
            or recording, are warnings, not errors; without a reference they are left
            out.
        audio: Recordings for models that listen, as `--audio`: wav.scp, a folder of
            ID.wav, or a NeMo manifest.
        merge: Whether lists of several files with one id are one list, as `--merge`.
        scores: Files with further columns of scores, as `--scores`: an id, a rank or
            the text of each hypothesis, and numbers. `s2s` may name such a column.
        shape: A TOML file that says where JSON of a service has its texts, as
            `--shape`.

    Returns:
        The lists, in the order of the files. Scores are natural logs.

    Raises:
        UserError: Something is missing, damaged, or of no known format.

    Example:
        >>> lists = read("data/dev.json")
        >>> len(lists), len(lists[0].hypotheses)
        (117, 20)
    """
    from rescore import formats
    from rescore.formats.audio import with_audio
    from rescore.formats.merging import check_several
    from rescore.formats.reading import check_named
    from rescore.formats.shapes import read_shape

    for name, value in (
        ("sources", sources),
        ("s2s", s2s),
        ("format", format),
        ("shape", shape),
    ):
        if not isinstance(value, str | Path | None):
            raise UserError(f"rescore.read: {name} is {value!r:.60}; give a text")
    if not isinstance(field, Mapping | None):
        raise UserError(f"rescore.read: field is {field!r:.60}; give a dictionary")
    inputs = _several(paths)
    if not inputs:
        raise UserError("rescore.read: no path; give one or several")
    fields: dict[str, str | tuple[str, ...]] = {}
    for role, keys in (field or {}).items():
        own = [keys] if isinstance(keys, str) else keys
        if not (own and isinstance(own, list | tuple) and all(map(_is_text, own))):
            raise UserError(
                f"rescore.read: field {role!r} is {keys!r:.60}; give a text"
            )
        fields[role] = tuple(own) if len(own) > 1 else own[0]
    options = formats.ReadOptions(
        size=nbest_size,
        fields=fields or None,
        shape=read_shape(str(shape)) if shape is not None else None,
    )
    options.in_python = True
    check_named(format, options, bool(references or sources or scores))
    files = tuple(map(str, _several(references)))
    if merge:
        check_several([inputs], "merge")
    lists = formats.read(
        inputs,
        references=formats.References(files) if files else None,
        format_name=format,
        sources=sources,
        s2s=s2s,
        strict=strict,
        allow_missing=allow_missing,
        options=options,
        merge=merge,
        scores=_several(scores),
    )
    if audio:
        recordings = list(map(str, _several(audio)))
        return list(with_audio(lists, recordings, allow_missing))
    return list(lists)


def _is_text(value: object) -> bool:
    """Return whether a value is a text that is not empty."""
    return isinstance(value, str) and value != ""


def _several(paths: str | Path | Sequence[str | Path] | None) -> Sequence[str | Path]:
    """Return paths that were given as one path, as several, or not at all."""
    if paths is None:
        return ()
    if isinstance(paths, str | Path):
        return (paths,)
    if not isinstance(paths, Sequence):
        raise UserError(f"rescore.read: {paths!r:.60} is no path; give one or several")
    for path in paths:
        if not isinstance(path, str | Path):
            raise UserError(f"rescore.read: {path!r:.60} is no path; give a text")
    return paths


def load(
    lm: str,
    device: str | None = None,
    precision: str | None = None,
    batch_tokens: int | None = None,
    cache: str | Path | None = None,
    prompt: str | None = None,
) -> Wrapped:
    """Return a language model by its name, `KIND[:OPTION...][:PATH]`.

    Args:
        lm: The name.
        device: cpu, cuda or cuda:N; None for cuda where there is one.
        precision: float32, bf16, fp16 or int8; None for float32 on a CPU and bf16 on a
            GPU.
        batch_tokens: Number of tokens that are computed together; None for a number
            that suits the machine.
        cache: A folder in which scores are kept.
        prompt: For hf-causal and server, a template that ends with {text} and may have
            {src}; {text} alone is scored.

    Returns:
        The model. Its `score` takes plain sentences or `Question`s and returns the
        natural log of each token.

    Raises:
        UserError: The name is unknown or stands for several models, or the model's
            files are missing or damaged.

    Example:
        >>> scores = load("tta").score(["the clock ticked"])[0]
        >>> scores.tokens, scores.log_probs.shape
        (['the', 'clock', 'tick', '##ed'], (4,))
    """
    from rescore import border
    from rescore.lms.base import Wrapped

    model = border.loaded(
        lm,
        cache,
        device=device,
        precision=precision,
        batch_tokens=batch_tokens,
        prompt=prompt,
    )
    return Wrapped(model) if cache is None else cast("Wrapped", model)


def score(
    lists: Iterable[NbestList | Sequence[str]],
    *lms: str | LanguageModel | Scorer,
    lm_norm: str | None = None,
    **options: Any,
) -> list[NbestList]:
    """Return copies of the lists with one more column per language model.

    A column is called after its model. Where the name is taken, as by another model of
    the same kind, it is called after the model's folder, such as `tta.mine`, if all
    models are given by name; else `tta.2`. A further column counts the tokens of the
    first model of pseudo-log-likelihoods (such as a T-TA), for `tune`.

    Args:
        lists: N-best lists, or lists of texts, best first: their order is then the
            first pass.
        lms: Names as in `load`, and `lexical:all:DIR`, which is five models; or models;
            or functions that give each of some sentences a score (natural log), whose
            column is called after the function.
        lm_norm: `sum`, `mean` or `length^A` over tokens; None for the norm that suits
            the first pass.
        options: Further fields of `rescore.RunConfig`, such as `count_tokens=True`;
            options that add hypotheses, such as `recombine=5`, or `respell=5,
            channel="shipped"`; and options of `load` for models that are given by
            name, such as `cache="kept"`.

    Raises:
        UserError: A model cannot be loaded, or the lists are damaged.

    Example:
        >>> def brevity(sentences):
        ...     return [-len(sentence.split()) for sentence in sentences]
        >>> score([["a b c", "a b"]], brevity)[0].hypotheses[1].scores["brevity"]
        -2.0
    """
    from rescore import border, pipeline

    every = border.checked_lists("score", lists, texts=True)
    loading = border.loading_of(lms, options)
    config = border.checked_config(
        "score", lm_norm=lm_norm, lms=border.names_of(lms), **options
    )
    plan = pipeline.resolve(
        config,
        every,
        load=lambda: border.as_models(lms, loading),
        specs=border.specs_of(lms),
        measures=False,
    )
    return list(pipeline.score(plan, pipeline.expand(plan, every)))


def tune(
    lists: Iterable[NbestList],
    columns: Sequence[str] | None = None,
    metric: str | None = None,
    decision: str | None = None,
    **options: Any,
) -> Weights:
    """Return the weights of columns that give the best value of a metric on lists with
    references, for one decision.

    One column gets the best weight in [0, 1]; several columns are tuned together with a
    word bonus. On 500 lists or more with a column of pseudo-log-likelihoods a bonus for
    each token is tuned as well. For BLEU there are no bonuses.

    Args:
        lists: Scored lists with references.
        columns: The columns; None for the columns that `score` added, else all beside
            the first pass.
        metric: A name of `rescore.metrics.METRICS`; None for BLEU where lists have a
            source text, else WER.
        decision: best, mbr or rover: what the weights, and the scale of posteriors, are
            tuned for.
        options: `words`, a file of words as `--words`; `normaliser`, what counts as the
            same word, such as `rescore.Normaliser(split_hyphens=True)`, which the
            weights keep; and further fields of `rescore.RunConfig`, such as
            `components=True`.

    Raises:
        UserError: There is no list; a list has no reference, or lacks a column.
    """
    from rescore import border, pipeline
    from rescore.dataset import Dataset
    from rescore.metrics.texts import warn_of_texts

    config = border.checked_config("tune", metric, decision, columns=columns, **options)
    every = border.checked_lists("tune", lists)
    made = pipeline.resolve(config, dev=every)
    warn_of_texts(made.metric, every)
    return pipeline.tune(made, Dataset(pipeline.expand(made, every, dev=True)))


def rerank(
    lists: Iterable[NbestList], weights: Weights | Mapping[str, float] | float
) -> list[NbestList]:
    """Return the lists with their hypotheses sorted by the combined score, best first;
    equals keep their order.

    `texts` returns the texts that a decision chooses, such as minimum Bayes risk.

    Args:
        lists: The scored lists.
        weights: As tuned, or a dictionary of columns (`{"s2s": 0.7, "tta": 0.3}`), or
            the weight of the only LM.

    Raises:
        UserError: A column that has a weight is missing.
    """
    return [nbest for nbest, _ in _decided("rerank", lists, weights, texts=False)]


def texts(
    lists: Iterable[NbestList], weights: Weights | Mapping[str, float] | float
) -> list[str]:
    """Return the text chosen from each list, by the decision that the weights were
    tuned for.

    Args:
        lists: The scored lists.
        weights: As in `rerank`.

    Raises:
        UserError: A column that has a weight is missing.
    """
    return [text for _, text in _decided("texts", lists, weights, texts=True)]


def _decided(
    name: str, lists: Iterable[NbestList], weights: Any, texts: bool
) -> Iterator[tuple[NbestList, str]]:
    """Yield the sorted lists with the chosen texts, for the function of a name."""
    from rescore import border, pipeline

    every = border.checked_lists(name, lists)
    return pipeline.rerank(
        every, border.as_weights(weights, every), pipeline.RunConfig(), texts
    )


def load_weights(path: str | Path) -> Weights:
    """Return the weights in a file that `rescore tune` or `save_weights` wrote.

    Args:
        path: The file.

    Raises:
        UserError: The file is absent, or holds no weights.
    """
    from rescore.tuning import Weights

    return Weights.load(Path(path))


def save_weights(weights: Weights, path: str | Path) -> None:
    """Write weights to a file.

    Args:
        weights: The weights.
        path: The file.

    Raises:
        UserError: The file cannot be written.
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
    """Return first pass, oracle and reranked figures in percent, with counts,
    confidence intervals and a signature.

    Args:
        lists: Scored lists with references.
        weights: As in `rerank`; None for the first pass alone.
        metric: The metric; None for the metric that the weights were tuned for.
        decision: The decision; None for the decision that the weights were tuned for.
        scale: Scale of the posteriors exp(scale * score), where the decision needs them
            and nothing is tuned.
        words: A file of words as `--words`; None for the words of the weights.
        normaliser: What counts as the same word; None for the normaliser of the
            weights.
        options: Further options of metrics and decisions, such as `tokenise="zh"`, and
            `by="speaker"` for figures of groups.

    Raises:
        UserError: There are no lists, a list has no reference, or lacks a column that
            has a weight.
    """
    from rescore import border, pipeline

    every = border.checked_lists("evaluate", lists)
    config = border.checked_config(
        "evaluate", metric, decision, words, normaliser, scale=scale, **options
    )
    return pipeline.apply(every, border.as_weights(weights, every), config).results


def curve(
    lists: Iterable[NbestList],
    weights: Weights | Mapping[str, float] | float | None = None,
    metric: str | None = None,
    normaliser: Normaliser | None = None,
    **options: Any,
) -> list[CurveStep]:
    """Return the metric as a function of the weight lambda of each language model: all
    its steps, which are exact, as `rescore tune --curve` writes them.

    Between `low` and `high` of a step the best scores choose the same texts, so the
    metric does not change. All other weights keep their proportions: of one model, the
    first pass has the weight 1 - lambda.

    Args:
        lists: Scored lists with references.
        weights: The proportions of all weights, as in `rerank`; None for equal weights
            of all models that `score` added.
        metric: The metric, as in `tune`.
        normaliser: What counts as the same word, as in `tune`.
        options: Further options of the metric, as in `tune`.

    Returns:
        Steps with `column`, `low`, `high` (weights from 0 to 1) and `value` (percent),
        column by column, from 0 to 1.

    Raises:
        UserError: There is no list; a list has no reference, or lacks a column.
    """
    from rescore import border, pipeline
    from rescore.tuning.curves import weight_curve

    config = border.checked_config("curve", metric, normaliser=normaliser, **options)
    every = border.checked_lists("curve", lists)
    if weights is None:
        columns = every.model_columns
        if not columns:
            raise UserError("curve: the lists have no scores of a language model")
        weights = dict.fromkeys((FIRST_PASS, *columns), 1 / (1 + len(columns)))
    made = pipeline.resolve(config, every)
    return weight_curve(made.metric, every, border.as_weights(weights, every))


def compare(
    lists: Iterable[NbestList],
    dev: Iterable[NbestList],
    *lms: str | LanguageModel | Scorer,
    metric: str | None = None,
    lm_norm: str | None = None,
    decision: str | None = None,
    words: str | Path | None = None,
    normaliser: Normaliser | None = None,
    against: str | None = None,
    vary: tuple[str, Sequence[float]] | None = None,
    **options: Any,
) -> Comparison:
    """Return language models side by side: each tuned on `dev` and measured on `lists`,
    and all of them together.

    Args:
        lists: Test lists with references.
        dev: Dev lists with references.
        lms: The models, as in `score`.
        metric: The metric, as in `tune`.
        lm_norm: How token scores are combined, as in `score`.
        decision: How a text is chosen, as in `tune`.
        words: A file of words, as in `tune`.
        normaliser: What counts as the same word, as in `tune`.
        against: The row that p-values compare with, such as the name of a model, or
            `above` for the row above each; None for the first pass.
        vary: An option that is a number and its values, such as `("boost", [0, 0.3])`:
            a row for each value, with all models together.
        options: Further options, as in `tune`, and options of `load`, as in `score`.

    Raises:
        UserError: A model cannot be loaded, a list has no reference, or there is no
            such row.
    """
    from rescore import border, comparing

    sets = border.checked_lists("compare", lists), border.checked_lists("compare", dev)
    loading = border.loading_of(lms, options)
    config = border.checked_config(
        "compare",
        metric,
        decision,
        words,
        normaliser,
        lm_norm=lm_norm,
        lms=border.names_of(lms),
        **options,
    )
    varied = None
    if vary is not None:
        varied = comparing.Varied(vary[0], tuple(vary[1]))
        varied.check(config)
    return comparing.compare(
        *sets,
        config,
        lambda: border.as_models(lms, loading),
        specs=border.specs_of(lms),
        against=against,
        vary=varied,
    )


def wer(reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    """Return the word error rate in percent, as in `evaluate`; counted as sclite does,
    upper and lower case alike.

    Args:
        reference: A reference, or several.
        hypothesis: A hypothesis for each reference.

    Raises:
        UserError: There are not as many hypotheses as references, or all references are
            empty.
    """
    return _error_rate("wer", reference, hypothesis)


def cer(reference: str | Sequence[str], hypothesis: str | Sequence[str]) -> float:
    """Return the character error rate in percent; arguments are those of `wer`."""
    return _error_rate("cer", reference, hypothesis)


def _error_rate(
    name: str, reference: str | Sequence[str], hypothesis: str | Sequence[str]
) -> float:
    from rescore.border import checked_texts
    from rescore.dataset import Dataset
    from rescore.metrics import choose_metric, list_statistics, total, value
    from rescore.metrics.base import check_measurable

    given = []
    for what, texts in (("reference", reference), ("hypothesis", hypothesis)):
        if isinstance(texts, str):
            given.append([texts])
        else:
            given.append(checked_texts(name, what, texts))
    references, hypotheses = given
    if len(references) != len(hypotheses):
        raise UserError(
            f"{counted(len(hypotheses), 'hypothesis')} for"
            f" {counted(len(references), 'reference')}"
        )
    if not references:
        raise UserError(f"{name}: no reference; give one or several")
    pairs = enumerate(zip(hypotheses, references, strict=True))
    lists = Dataset(
        NbestList(str(number), [Hypothesis(text)], (expected,))
        for number, (text, expected) in pairs
    )
    metric = choose_metric(name, lists).for_reports
    check_measurable(metric, lists, "there is no error rate")
    return value(metric, total(list_statistics(metric, lists), [0] * len(lists)))


def spread(lists: Iterable[NbestList]) -> float | None:
    """Return how much the first-pass scores of a list differ: the standard deviation of
    each list, then the mean over the lists.

    A model's card has this number of the lists that its weight was tuned on, as
    `weight_spread`.

    Args:
        lists: The lists.

    Returns:
        The mean in nats; None if fewer than 20 lists have several hypotheses.

    Raises:
        UserError: The lists are damaged.

    Example:
        >>> f"{spread(read('data/dev.json')):.2f}"
        '11.61'
    """
    from rescore import border

    return border.checked_lists("spread", lists).spread


def to_frame(lists: Iterable[NbestList]) -> Any:
    """Return a pandas (or else polars) table, one row per hypothesis: id, rank, text,
    scores, reference, source.

    Args:
        lists: The lists.

    Raises:
        UserError: Neither package is installed.
    """
    from rescore import border
    from rescore.reports.markup import as_frame

    rows = []
    for nbest in border.checked_lists("to_frame", lists):
        reference = nbest.references[0] if nbest.references else None
        for rank, hypothesis in enumerate(nbest.hypotheses, 1):
            row = {"id": nbest.id, "rank": rank, "text": hypothesis.text}
            row |= hypothesis.scores
            rows.append(row | {"reference": reference, "source": nbest.source})
    return as_frame(rows)
