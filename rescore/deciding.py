"""The stage `decide`: weights choose one text for each list, before anything is
measured. It needs no references.

Every road chooses its texts here: `run`, `rerank`, `compare`, folds, Python and the
service. Copies of a hypothesis, the order of equals and hypotheses that may not win are
the concern of `rescore.decision`, which this stage calls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat

from rescore.dataset import Dataset
from rescore.decision import Choice, sorted_by_score
from rescore.formats.first_pass import is_by_order
from rescore.metrics import Metric
from rescore.nbest import NbestList, copies_differ
from rescore.tuning import FIRST_PASS_ALONE, Weights, suited
from rescore.tuning.folds import InFolds

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decided:
    """Lists, and the text that was chosen for each."""

    lists: Dataset
    weights: Weights
    """The weights of all lists, with their decision. They decided, unless the lists
    were cut into folds: then the weights of each fold decided, each with its decision
    (`in_folds`).
    """
    texts: list[str]
    in_folds: InFolds | None = None
    """The weights that decided each fold, if the lists were cut into folds."""

    @property
    def first_pass_texts(self) -> list[str]:
        """The text of each list with the best first-pass score."""
        return first_pass(self.lists).texts

    def sorted_lists(self) -> Iterator[tuple[NbestList, str]]:
        """Yield each list, sorted by the combined score that it was decided with, and
        the text that was chosen for it: the text of the first hypothesis, or a new text
        that no hypothesis has (rover).
        """
        deciding_weights: Iterable[Weights] = repeat(self.weights, len(self.lists))
        if self.in_folds is not None:
            deciding_weights = self.in_folds.of_lists()
        for nbest, text, weights in zip(
            self.lists, self.texts, deciding_weights, strict=True
        ):
            yield sorted_by_score(nbest, weights, text), text


class RepeatedTexts:
    """Warns where a decision adds the posteriors of equal texts that have different
    scores; once for all parts of a stream. Ranks are not such scores.
    """

    def __init__(self) -> None:
        self._told = False

    def warn(self, lists: Iterable[NbestList], choice: Choice) -> None:
        """Warn if a list has such texts.

        Args:
            lists: The lists.
            choice: What decides.
        """
        if self._told or not choice.decision.uses_posteriors:
            return
        for nbest in lists:
            if _has_repeated_texts(nbest, choice):
                self._told = True
                log.warning(
                    "%slists contain equal texts with different scores (first:"
                    " utterance %s); %s adds their probabilities",
                    nbest.header.prefix,
                    nbest.id,
                    choice.decision.name,
                )
                return


def _has_repeated_texts(nbest: NbestList, choice: Choice) -> bool:
    """Return whether a list has one text with different scores that count."""
    if nbest.header.by_systems:  # each text counts for its system
        return False
    if choice.decision.scale == 0 or is_by_order(nbest):
        return False  # there are no scores, or none that counts
    return copies_differ(nbest, choice.weighted)


def decide(
    metric: Metric | None,
    lists: Dataset,
    weights: Weights,
    in_folds: InFolds | None = None,
    force: bool = False,
    texts: list[str] | None = None,
    repeated: RepeatedTexts | None = None,
) -> Decided:
    """Return lists with the text chosen for each.

    Args:
        metric: The metric whose expected loss counts, where the decision needs one.
        lists: Lists with the columns that have a weight.
        weights: The weights, with their decision.
        in_folds: The weights of each fold, if the lists were cut into folds; these then
            decide, each with its own decision.
        force: Whether weights of another model are applied, too.
        texts: The text that is chosen from each list, if it is known already; in folds,
            by the weights of each fold.
        repeated: Warns of equal texts with different scores; None for lists that are no
            part of a stream.

    Raises:
        UserError: A list lacks a column that has a weight, or the weights were tuned on
            scores of another model.
    """
    suitable = suited(weights, lists, force or weights.tuning.forced)
    (repeated or RepeatedTexts()).warn(lists, suitable)
    if texts is None:
        texts = _texts(metric, lists, in_folds or suitable)
    return Decided(lists, suitable, texts, in_folds)


def _texts(
    metric: Metric | None, lists: Dataset, deciding: Weights | InFolds
) -> list[str]:
    """Return the text of each list; the lists of one fold are decided together."""
    return deciding.texts(metric, lists)


def first_pass(lists: Dataset) -> Decided:
    """Return lists, and for each list the text with the best first-pass score: the
    baseline of all tables.
    """
    return decide(None, lists, FIRST_PASS_ALONE)


def decide_parts(
    metric: Metric | None,
    parts: Iterable[Dataset],
    weights: Weights,
    force: bool = False,
) -> Iterator[Decided]:
    """Yield what `decide` returns for each part of a stream of lists. A warning about
    the lists is printed once.
    """
    repeated = RepeatedTexts()
    for lists in parts:
        yield decide(metric, lists, weights, force=force, repeated=repeated)
