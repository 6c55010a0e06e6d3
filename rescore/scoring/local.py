"""Scoring in this process: N-best lists get a column of a language model's scores, as a
stream.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol, cast

from rescore.columns import TOKENS, Role
from rescore.errors import UserError
from rescore.lms import LanguageModel, Question, TokenScores, capabilities_of, origin
from rescore.lms.base import WithNeighbours, as_scored
from rescore.lms.context import ask
from rescore.nbest import Header, NbestList, in_parts

log = logging.getLogger(__name__)

# hypotheses scored together: enough to sort by length and share repeats, few enough for
# a lively bar
WINDOW = 5_000

OnProgress = Callable[[int], object]
"""Called with the number of hypotheses just done."""


def windows(lists: Iterable[WithNeighbours]) -> Iterator[list[WithNeighbours]]:
    """The lists in parts of at most `WINDOW` hypotheses, or one list, that are scored
    together.
    """
    return in_parts(lists, WINDOW, lambda placed: len(placed.nbest.hypotheses))


Scored = list[tuple[WithNeighbours, list[TokenScores]]]
"""Lists with the scores of their hypotheses."""

FOREIGN, LEAST_WORDS = 1.6, 30
"""From how many times the tokens per word of its training text on a model is warned of;
fewer words do not show it. English calls have 1.1 times as many for `tta`, French 1.9,
Malay 2.3.
"""


@dataclass
class _Tally:
    """What is reported of a model's scores once all windows are scored."""

    file: str = ""
    texts: int = 0
    words: int = 0
    tokens: int = 0
    unknown: int = 0
    several: int = 0
    """Lists with different questions to the model."""
    alike: int = 0
    """Such lists whose scores are all the same."""

    def add(
        self, nbest: NbestList, ranks: Sequence[int], scores: Sequence[TokenScores]
    ) -> None:
        """Count a list: the place of each hypothesis's question among all of a window,
        and its score.
        """
        self.file = self.file or nbest.header.place
        self.texts += len(scores)
        self.words += sum(
            len(hypothesis.text.split()) for hypothesis in nbest.hypotheses
        )
        self.tokens += sum(len(score.tokens) for score in scores)
        self.unknown += sum(len(score.unknown) for score in scores)
        if len(set(ranks)) > 1:
            self.several += 1
            self.alike += len({score.sum for score in scores}) == 1

    def report(self, lm: LanguageModel) -> None:
        if self.several and self.alike == self.several:
            log.warning(
                "%s%s: all hypotheses of a list have the same score, in each of %s"
                " lists; check that the model is for this language",
                *(self.file, lm.name, f"{self.several:,}"),
            )
        about = capabilities_of(lm)
        ends = 0 if about.pseudo else self.texts  # [EOS] is a token of causal models
        per_word, usual = (
            (self.tokens - ends) / max(self.words, LEAST_WORDS),
            about.tokens_per_word,
        )
        told = f"{self.unknown:,} of {self.tokens:,} tokens are unknown to the model"
        if usual and per_word > FOREIGN * usual:
            told = (
                f"a word has {per_word:.1f} tokens ({usual:.1f} in its training text),"
                f" and {told}"
            )
        elif 2 * self.unknown <= self.tokens:
            if 100 * self.unknown > self.tokens:
                log.info("%s%s: %s", self.file, lm.name, told)
            return
        advice = (
            "check its language, script and case, and that its training text was large"
            " enough"
        )
        log.warning("%s%s: %s; %s", self.file, lm.name, told, advice)


def score_windows(
    lm: LanguageModel,
    parts: Iterable[list[WithNeighbours]],
    progress: OnProgress = lambda done: None,
) -> Iterator[Scored]:
    """Each window with the scores of its hypotheses, as a stream.

    What is reported at the end: how many tokens the model does not know, and whether
    all its scores are the same.
    """
    tally = _Tally()
    begun: deque[tuple[list[WithNeighbours], list[list[int]]]] = deque()

    def batches() -> Iterator[list[Question]]:
        for window in parts:
            ranks: dict[Question, int] = {}  # equal questions are asked once
            places = []
            for placed in window:
                questions = ask(
                    lm,
                    placed,
                    (hypothesis.text for hypothesis in placed.nbest.hypotheses),
                )
                places.append(
                    [ranks.setdefault(question, len(ranks)) for question in questions]
                )
            begun.append((window, places))
            yield list(ranks)

    def scores_of(questions: list[Question]) -> list[TokenScores]:
        _, places = begun[-1]
        askers = Counter(chain.from_iterable(places))
        scores: dict[int, TokenScores] = {}
        for rank, score in as_scored(lm, questions):
            scores[rank] = score
            progress(askers[rank])
        return [scores[rank] for rank in range(len(questions))]

    streams = looked_at_case = capabilities_of(lm).streams
    # A streaming model gets further batches before the results of earlier batches are
    # taken.
    results = (
        cast(Streaming, lm).stream(batches()) if streams else map(scores_of, batches())
    )
    for result in results:
        window, places = begun.popleft()
        done: Scored = []
        for placed, ranks in zip(window, places, strict=True):
            scores = [result[rank] for rank in ranks]
            for hypothesis, score in zip(placed.nbest.hypotheses, scores, strict=True):
                if not score.sum < math.inf:  # NaN is not, either
                    text = hypothesis.text[:60]
                    raise UserError(
                        f"{lm.name}: the score of {text!r} is {score.sum}; the model is"
                        " damaged"
                    )
            tally.add(placed.nbest, ranks, scores)
            done.append((placed, scores))
        if streams:
            progress(sum(len(placed.nbest.hypotheses) for placed in window))
        if not looked_at_case:
            looked_at_case = True
            if all(
                hypothesis.text.isupper()
                for placed, _ in done
                for hypothesis in placed.nbest.hypotheses
            ):
                # here: few lists are in capitals
                from rescore.scoring.case import warn_of_case

                warn_of_case(lm, done)
        yield done
    if report := getattr(lm, "report", None):  # of a cache
        report()
    tally.report(lm)


class Streaming(Protocol):
    """A language model with the capability `streams`: it scores batches ahead of their
    use, as on a cluster.
    """

    def stream(
        self, batches: Iterable[Sequence[Question]]
    ) -> Iterator[list[TokenScores]]:
        """Results in the order of the batches."""
        ...


OnScores = Callable[[LanguageModel, NbestList, Sequence[TokenScores]], object]
"""Called with a model, a list, and the scores of its hypotheses."""


def add_columns(
    lms: Sequence[LanguageModel],
    lists: Iterable[list[WithNeighbours]],
    norm: str,
    counted: Sequence[LanguageModel] = (),
    progress: OnProgress = lambda done: None,
    on_scores: OnScores | None = None,
) -> Iterator[list[WithNeighbours]]:
    """Windows of lists with one more column per model, as a stream; memory is bounded
    by the windows.

    Args:
        lists: as `windows` cuts them. counted: the model, if any, whose tokens are
            counted in a column of their own.
    """
    for lm in lms:
        counts = any(lm is other for other in counted)
        lists = _with_column(
            lm, score_windows(lm, lists, progress), norm, counts, on_scores
        )
    return iter(lists)


def _with_column(
    lm: LanguageModel,
    windows: Iterable[Scored],
    norm: str,
    counts: bool,
    on_scores: OnScores | None,
) -> Iterator[list[WithNeighbours]]:
    """Copies of lists with the column of a model and, if it `counts`, a column with the
    number of tokens.

    The record of the columns' origins is made once and shared by all lists whose record
    was equal.
    """
    name = lm.name
    new = {name: origin(lm, norm)}
    if counts:
        new[TOKENS] = replace(origin(lm, "count"), role=Role.COUNT)
    before, header = Header(), Header().with_columns(new)
    for window in windows:
        done = []
        for placed, scores in window:
            nbest = placed.nbest
            if on_scores is not None:
                on_scores(lm, nbest, scores)
            if nbest.header is not before:
                before = nbest.header
                header = before.with_columns(new)
            hypotheses = []
            for hypothesis, token_scores in zip(nbest.hypotheses, scores, strict=True):
                values = {**hypothesis.scores, name: token_scores.normalised(norm)}
                if counts:
                    values[TOKENS] = float(len(token_scores.tokens))
                hypotheses.append(replace(hypothesis, scores=values))
            done.append(
                replace(
                    placed,
                    nbest=replace(nbest, hypotheses=hypotheses, header=header),
                )
            )
        yield done
