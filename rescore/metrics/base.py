"""The interface of metrics: sufficient statistics per hypothesis, computed once and
summed for every question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.metrics.normalise import UNSPACED, Normaliser
from rescore.nbest import NbestList
from rescore.options import Declared, NoOptions, OptionValues, settings_of

log = logging.getLogger(__name__)

Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


Places = npt.NDArray[np.intp]
PairLosses = Callable[[Places, Places], Values]
"""The (choices, references) losses of some of a list's texts, named by their places,
beside others as references.
"""


class Input(NamedTuple):
    """The input of a metric that reads more than the text of a hypothesis
    (`Metric.reads`).
    """

    about: str
    """The source of the hypothesis, or the id of its utterance."""
    text: str


class Metric:
    """Values are percentages. Statistics add up: the statistics of a set are the sum
    over its sentences.
    """

    name: str
    """As tables show it: WER, BLEU."""
    higher_is_better: bool = True
    unit: str
    """The unit of errors or matches: word, character, n-gram, edit."""
    options: Any
    """The options of this metric, of the class `Options`: `choose` makes the same
    metric of them again.
    """
    Options: ClassVar[type[Declared]] = NoOptions
    """The options of the metric: the command line, weights files and `MetricOptions`
    have them.
    """
    reads: str = ""
    """What the metric reads beside a text, `source` or `utterance`; hypotheses are then
    given as `Input`s.
    """
    learned: ClassVar[bool] = False
    """Whether it is a trained model, which overestimates texts that were chosen by it
    (arXiv 2411.03524). Weights are not tuned for it.
    """
    companion: ClassVar[str] = ""
    """The further metric that is reported by default; empty for none. Tuning for a
    metric flatters this metric.
    """
    words: Normaliser | None = None
    """The normaliser that cuts texts into words; None for a metric without a word
    alignment.
    """
    pair_losses: Callable[[Sequence[Any]], PairLosses] | None = None
    """Compares texts with each other (`losses`); None if the metric has no short
    cut.
    """
    least_losses: Callable[[Sequence[Any]], PairLosses] | None = None
    """The same for numbers that no loss is below, if they are faster than
    `pair_losses`.
    """
    punishes_brevity: ClassVar[bool] = False
    """Whether short texts are punished by the length of the whole set, as BLEU's
    brevity penalty does.
    """

    def __init__(self, options: Any = None, **values: Any) -> None:
        """Make a metric.

        Args:
            options: Options of the class `Options`; None for the defaults.
            values: Values of options by name, where `options` is None.
        """
        self.options = options if options is not None else self.Options(**values)

    @classmethod
    def choose(cls, options: Any, references: Sequence[str]) -> Metric:
        """Return the metric for the references that it will see.

        Args:
            options: Options of the class `Options`.
            references: The references; empty if they are not known.

        Raises:
            UserError: The options or the references do not fit the metric.
        """
        return cls(options)

    @property
    def settings(self) -> dict[str, str]:
        """How the metric counts, for the signature: by default its options."""
        return settings_of(self.options)

    @property
    def versions(self) -> dict[str, str]:
        """Of the programs that the figures depend on."""
        return {}

    @property
    def for_reports(self) -> Self:
        """The metric whose `statistics` give the figures of reports.

        A metric whose signature names a library returns a metric here that calls the
        library, where it counts all hypotheses of lists in a faster way that gives the
        same statistics. Other metrics return themselves.
        """
        return self

    def statistics(
        self, hypotheses: Sequence[Any], references: Sequence[Sequence[str]]
    ) -> Counts:
        """(n, k) counts of n hypotheses, texts or `Input`s, each with one or more
        references.
        """
        raise NotImplementedError

    def values(self, sums: Counts) -> Values:
        """(m, k) summed statistics -> (m,) percentages of the m sets."""
        raise NotImplementedError

    def sentence_values(self, statistics: Counts) -> Values:
        """(n, k) -> (n,) percentages of single sentences, smoothed where necessary; the
        oracle chooses by these.
        """
        return self.values(statistics)

    def losses(self, statistics: Counts) -> Values:
        """(n, k) -> (n,) the loss of each sentence for minimum Bayes risk; 0 for a
        perfect sentence.
        """
        return 100.0 - self.sentence_values(statistics)

    def details(self, sums: Counts) -> dict[str, int | float]:
        """(k,) -> the counts that belong beside the value in a report."""
        return {}


class MetricOptions(OptionValues):
    """The options of metrics that are set, such as
    `MetricOptions(normaliser=Normaliser(nfkc=True), words=names)`.
    """

    @property
    def words(self) -> Any:
        """The list of words (`rescore.metrics.listed`) that BWER counts, and UWER does
        not; None without a list.
        """
        return self.values.get("words")

    def merged_with(self, options: MetricOptions) -> MetricOptions:
        """`options`, with the values of this object for options that are not set."""
        both = self.entries | options.entries
        ours = self.values.get("normaliser")
        theirs = options.values.get("normaliser")
        if ours and theirs:
            both["normaliser"] = ours.merged_with(theirs)
        return MetricOptions(**both)


def list_statistics(metric: Metric, lists: Sequence[NbestList]) -> list[Counts]:
    """The statistics of all hypotheses: one (hypotheses, k) array per list.

    Raises:
        UserError: a list has no reference, or all references are empty.
    """
    for nbest in lists:
        if not nbest.references:
            raise UserError(
                f"utterance {nbest.id}: no reference; give a file with all of them as"
                " --ref"
            )
    if not any(reference.strip() for nbest in lists for reference in nbest.references):
        raise UserError("all references are empty; error rates cannot be computed")
    remembered = getattr(metric, "statistics_of_lists", None)
    return (
        list(remembered(lists, _list_statistics))
        if remembered
        else _list_statistics(metric, lists)
    )


def _list_statistics(metric: Metric, lists: Sequence[NbestList]) -> list[Counts]:
    # Lists repeat hypotheses (with other scores); each text is compared once.
    where: dict[tuple[str | Input, tuple[str, ...]], int] = {}
    places = []
    for nbest in lists:
        keys = (
            (metric_input(metric, nbest, hypothesis.text), nbest.references)
            for hypothesis in nbest.hypotheses
        )
        places.append([where.setdefault(key, len(where)) for key in keys])
    rows = metric.statistics(
        [text for text, _ in where], [references for _, references in where]
    )
    return [rows[of_list] for of_list in places]


def metric_input(metric: Metric, nbest: NbestList, text: str) -> str | Input:
    """The input of a metric for a hypothesis: its text, with the source or the
    utterance if the metric reads these.

    Raises:
        UserError: the metric reads the source, and the list has none.
    """
    if not metric.reads:
        return text
    about = nbest.source if metric.reads == "source" else nbest.id
    if about is None:
        raise UserError(
            f"utterance {nbest.id}: no source; {metric.name} compares with it"
        )
    return Input(about, text)


def text_statistics(
    metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]
) -> Counts:
    """(lists, k) the statistics of the text that is chosen from each list."""
    shown = [
        metric_input(metric, nbest, text)
        for nbest, text in zip(lists, texts, strict=True)
    ]
    return metric.statistics(shown, [nbest.references for nbest in lists])


def text_value(
    metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]
) -> float:
    """The metric's value where these texts are chosen, in percent."""
    rows = text_statistics(metric.for_reports, lists, texts)
    return value(metric, rows.sum(axis=0))


def settings_on(metric: Metric, lists: Sequence[NbestList]) -> dict[str, str]:
    """How the metric counts on lists, for the signature: as sacreBLEU says it, with the
    number of references.
    """
    numbers = {len(nbest.references) for nbest in lists if nbest.references}
    settings = metric.settings
    if "nrefs" not in settings or not numbers:
        return settings
    return settings | {"nrefs": str(min(numbers)) if len(numbers) == 1 else "var"}


UNSPACED_WORD = 5
"""Text with at least this many Chinese, Japanese or Thai letters per word has no blanks
between words.
"""


def warn_of_unspaced(metric: Metric, lists: Sequence[NbestList]) -> None:
    """Say that word errors of texts without blanks between words are errors of whole
    sentences.
    """
    if (
        metric.words is None
        or metric.unit == "character"
        or metric.words.unit != "space"
    ):
        return
    texts = [text for nbest in lists[:100] for text in nbest.references]
    letters = sum(len(UNSPACED.findall(text)) for text in texts)
    if letters > sum(map(len, texts)) / 2 and letters >= UNSPACED_WORD * sum(
        len(text.split()) for text in texts
    ):
        log.warning(
            "%s counts words between spaces, but these texts have no spaces between"
            " words; give --metric cer, --metric mer, or --split-characters",
            metric.name,
        )


def total(statistics: Sequence[Counts], choice: Sequence[int]) -> Counts:
    """(k,) the statistics of a set with one hypothesis chosen from each list."""
    return np.sum(
        [rows[index] for rows, index in zip(statistics, choice, strict=True)],
        axis=0,
        dtype=np.int64,
    )


def value(metric: Metric, sums: Counts) -> float:
    """The percentage of one set."""
    return float(metric.values(sums[None])[0])


def is_better(figure: float, other: float, higher_is_better: bool) -> bool:
    """Whether a figure of a metric is better than another."""
    return figure > other if higher_is_better else figure < other


def oracle(metric: Metric, statistics: Sequence[Counts]) -> list[int]:
    """The best hypothesis of each list by its sentence value; the first of equals."""
    best = np.argmax if metric.higher_is_better else np.argmin
    return [int(best(metric.sentence_values(rows))) for rows in statistics]
