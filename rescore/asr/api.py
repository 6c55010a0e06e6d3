"""The functions of speech recognition for Python: `rescore.recombine`, `respell`, `merge`, `correct`, `confidence`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rescore import pipeline
from rescore.asr.confidence import Word, confidences
from rescore.asr.correct import Corrected, Corrector
from rescore.asr.formats.documents import Text
from rescore.asr.merge import merge as merged
from rescore.border import as_weights, checked_lists, config_of
from rescore.config import RunConfig
from rescore.errors import UserError, counted
from rescore.metrics.listed import WordList
from rescore.nbest import NbestList
from rescore.tuning import Weights, suited


def confidence(
    lists: Iterable[NbestList],
    weights: Weights | Mapping[str, float] | float,
    dev: Iterable[NbestList] = (),
    alternatives: int = 0,
) -> list[list[Word]]:
    """The words of the text that is chosen for each list, each with the probability that it is right.

    Args:
        weights: as in `rerank`. dev: lists with references and the same columns, to calibrate on; without such lists a
            confidence is the posterior as it is. alternatives: number of other words in each place, at most.

    Raises:
        UserError: a column is missing or comes from another model, or dev lists do not suit the calibration.
    """
    every, dev_lists = checked_lists("confidence", lists), checked_lists("confidence", dev)
    fitting = as_weights(weights, every)
    suited(fitting, [*every, *dev_lists])
    plan = pipeline.resolve(RunConfig(), dev_lists or every, weights=fitting)
    rule = plan.decision_with(fitting)
    texts = rule.texts(plan.metric, every, fitting.of)
    return confidences(plan.metric, every, texts, fitting, rule, dev_lists or None, alternatives).words


def recombine(lists: Iterable[NbestList], number: int) -> list[NbestList]:
    """The lists, each with up to `number` new hypotheses that combine what others have in different places.

    Raises:
        UserError: the lists are scored already.
    """
    return _expanded(checked_lists("recombine", lists), config_of(recombine=number))


def _expanded(lists: list[NbestList], config: RunConfig) -> list[NbestList]:
    return [*pipeline.expand(pipeline.resolve(config, lists, measures=False), lists)]


def respell(
    lists: Iterable[NbestList],
    number: int,
    channel: str | None = None,
    lexicon: str | Path | None = None,
    dev: Sequence[NbestList] | None = None,
    words: str | Path | None = None,
) -> list[NbestList]:
    """The lists, each with up to `number` new hypotheses in which words that occur in no text are replaced.

    Args:
        channel, lexicon: as `--channel` and `--lexicon`. dev: lists with references, to learn a channel from; may be
            `lists`. words: a file of words that are proposed, too, as `--words`.

    Raises:
        UserError: the lists are scored already; the channel, the lexicon or the words are absent or damaged.
    """
    config = config_of(words=words, respell=number, channel=channel, lexicon=str(lexicon) if lexicon else None)
    every = checked_lists("respell", lists)
    learned_from = every if dev is lists else None if dev is None else checked_lists("respell", dev)
    plan = pipeline.resolve(config, every, learned_from, measures=False)
    return [*pipeline.expand(plan, every, dev=learned_from is every)]


def correct(
    texts: Iterable[str],
    words: str | Path | Sequence[str],
    *,
    threshold: float | None = None,
    recordings: Sequence[str] | None = None,
) -> list[Corrected]:
    """Texts in which words that sound like listed terms are corrected, each with its changes.

    Args:
        texts: in the order of their recordings: whether a term occurs elsewhere in its recording counts.
        words: a file of terms, as `--words` of `rescore correct`, or its lines.
        threshold: least probability of a correction; None for the recommended one.
        recordings: the recording of each text; None if all are of the same.

    Raises:
        UserError: the list of terms is absent, empty or damaged.

    Example:
        >>> corrected = correct(["ask gold man sacks"], ["Goldman Sachs"])[0]
        >>> corrected.text, corrected.changes[0].heard
        ('ask Goldman Sachs', 'gold man sacks')
    """
    listed = WordList.load(Path(words)) if isinstance(words, (str, Path)) else words
    every = list(texts)
    if recordings is not None and len(recordings) != len(every):
        raise UserError(f"correct: {len(recordings)} recordings of {counted(len(every), 'text')}")
    names = recordings or [""] * len(every)
    pieces = [Text(str(n), name, text) for n, (text, name) in enumerate(zip(every, names, strict=True), 1)]
    return Corrector(listed, threshold).texts(pieces)


def merge(first: Iterable[NbestList], others: Mapping[str, Iterable[NbestList]]) -> list[NbestList]:
    """The lists of one system with the hypotheses of others for the same utterances; one column per system.

    Texts are the same where the metric that suits the lists says so: upper and lower case are, for WER.

    Args:
        others: the lists of each further system by the name of its column.

    Raises:
        UserError: an utterance is not in the first lists, or a name is taken.
    """
    every = checked_lists("merge", first)
    systems = {name: checked_lists("merge", lists) for name, lists in others.items()}
    return [*merged(every, systems, pipeline.resolve(RunConfig(), every).metric.words)]
