"""Scoring in this process: N-best lists get a column of a language model's scores, as a
stream.

Lists are cut into windows (`windows_of_lists`), a model scores the different questions
of a window together (`score_windows`), and the scores become columns (`add_columns`).
"""

from __future__ import annotations

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol, cast

from rescore.columns import TOKENS, Role
from rescore.errors import UserError
from rescore.lms import LanguageModel, Question, TokenScores, capabilities_of, record_of
from rescore.lms.base import WithNeighbours, as_scored
from rescore.lms.cache import Cached
from rescore.lms.context import ask
from rescore.lms.foreign import has_long_words, is_unknown, per_word
from rescore.nbest import NbestList, SharedChange, in_parts

log = logging.getLogger(__name__)

WINDOW = 5_000
"""Hypotheses that are scored together: enough to sort by length and share repeats, few
enough for a lively progress bar.
"""

OnProgress = Callable[[int], object]
"""Called with the number of hypotheses just done.

An object may have a method `of_model`, which takes the name of a model and returns such
a function: models differ in speed.
"""


def progress_of(progress: OnProgress, lm: LanguageModel) -> OnProgress:
    """Return the function that counts what one model has done.

    Args:
        progress: The progress of all models.
        lm: The model.
    """
    of_model = getattr(progress, "of_model", None)
    if of_model is None:
        return progress
    return cast(OnProgress, of_model(lm.name))


def windows_of_lists(lists: Iterable[WithNeighbours]) -> Iterator[list[WithNeighbours]]:
    """Return the lists in parts that are scored together.

    Args:
        lists: The lists.

    Returns:
        An iterator over parts of at most `WINDOW` hypotheses, or of a single list.
    """
    return in_parts(lists, WINDOW, lambda placed: len(placed.nbest.hypotheses))


Scored = list[tuple[WithNeighbours, list[TokenScores]]]
"""Lists with the scores of their hypotheses."""

CASE_TEXTS = 5
"""Texts that are scored once more in lower case, where lists are in upper case."""


@dataclass
class _Tally:
    """Counts of a model's scores, which are reported once all windows are scored."""

    file: str = ""
    texts: int = 0
    words: int = 0
    tokens: int = 0
    unknown: int = 0
    several: int = 0
    """Lists with different questions to the model."""
    alike: int = 0
    """Lists with different questions whose scores are all the same."""

    def add(
        self, nbest: NbestList, ranks: Sequence[int], scores: Sequence[TokenScores]
    ) -> None:
        """Count a list: the place of each hypothesis's question among all of a window,
        and its score.
        """
        self.file = self.file or nbest.header.prefix
        self.texts += len(scores)
        for hypothesis in nbest.hypotheses:
            self.words += len(hypothesis.text.split())
        for score in scores:
            self.tokens += len(score.tokens)
            self.unknown += len(score.unknown)
        if len(set(ranks)) > 1:
            self.several += 1
            if len({score.sum for score in scores}) == 1:
                self.alike += 1

    def report(self, lm: LanguageModel) -> None:
        """Warn of a model that does not seem to be for these texts."""
        if self.several and self.alike == self.several:
            log.warning(
                "%s%s: all hypotheses of a list have the same score, in each of %s"
                " lists; check that the model is for this language",
                self.file,
                lm.name,
                f"{self.several:,}",
            )
        capabilities = capabilities_of(lm)
        usual = capabilities.tokens_per_word
        # [EOS] is a token of causal models
        ends = 0 if capabilities.pseudo else self.texts
        tokens = self.tokens - ends
        facts = f"{self.unknown:,} of {self.tokens:,} tokens are unknown to the model"
        if has_long_words(tokens, self.words, usual):
            often = per_word(tokens, self.words)
            facts = (
                f"a word has {often:.1f} tokens ({usual:.1f} in its training text),"
                f" and {facts}"
            )
        elif not is_unknown(self.unknown, self.tokens):
            if 100 * self.unknown > self.tokens:
                log.info("%s%s: %s", self.file, lm.name, facts)
            return
        log.warning(
            "%s%s: %s; check its language, script and case, and that its training text"
            " was large enough",
            self.file,
            lm.name,
            facts,
        )


@dataclass(frozen=True)
class _Window:
    """Lists and their questions to a model; equal questions are asked once."""

    lists: list[WithNeighbours]
    questions: list[Question]
    ranks: list[list[int]]
    """For each list, the places of its hypotheses' questions among `questions`."""

    @classmethod
    def of(cls, lm: LanguageModel, lists: list[WithNeighbours]) -> _Window:
        """Return lists with their questions."""
        rank_of: dict[Question, int] = {}
        ranks = []
        for placed in lists:
            texts = (hypothesis.text for hypothesis in placed.nbest.hypotheses)
            questions = ask(lm, placed, texts)
            ranks.append([rank_of.setdefault(q, len(rank_of)) for q in questions])
        return cls(lists, list(rank_of), ranks)

    def scores(self, lm: LanguageModel, progress: OnProgress) -> list[TokenScores]:
        """Return the scores of the questions. The progress is told how many hypotheses
        a question is about.
        """
        hypotheses = Counter(chain.from_iterable(self.ranks))
        scores: dict[int, TokenScores] = {}
        for rank, score in as_scored(lm, self.questions):
            scores[rank] = score
            progress(hypotheses[rank])
        return [scores[rank] for rank in range(len(self.questions))]


def score_windows(
    lm: LanguageModel,
    parts: Iterable[list[WithNeighbours]],
    progress: OnProgress = lambda done: None,
) -> Iterator[Scored]:
    """Yield each window with the scores of its hypotheses.

    At the end, warnings are logged if the model does not know many tokens, or if all
    its scores are the same.

    Args:
        lm: The model.
        parts: Windows of lists, as `windows_of_lists` cuts them.
        progress: Called with the number of hypotheses just done.

    Raises:
        UserError: A score is infinite above, or not a number.
    """
    tally = _Tally()
    begun: deque[_Window] = deque()

    def batches() -> Iterator[list[Question]]:
        """Yield the questions of each window."""
        for lists in parts:
            begun.append(_Window.of(lm, lists))
            yield begun[-1].questions

    # A streaming model gets further batches before the results of earlier batches are
    # taken.
    streams = capabilities_of(lm).streams
    if streams:
        results = cast(Streaming, lm).stream(batches())
    else:
        results = (begun[-1].scores(lm, progress) for _ in batches())
    is_first = True
    for result in results:
        window = begun.popleft()
        scored: Scored = []
        for placed, ranks in zip(window.lists, window.ranks, strict=True):
            scores = [result[rank] for rank in ranks]
            _check_scores(lm, placed.nbest, scores)
            tally.add(placed.nbest, ranks, scores)
            scored.append((placed, scores))
        if streams:
            progress(sum(len(scores) for _, scores in scored))
        elif is_first:
            _warn_of_case(lm, scored)
        is_first = False
        yield scored
    if isinstance(lm, Cached):
        lm.report()
    tally.report(lm)


def _check_scores(
    lm: LanguageModel, nbest: NbestList, scores: Sequence[TokenScores]
) -> None:
    """Raise an error if a score is infinite above, or not a number."""
    for hypothesis, score in zip(nbest.hypotheses, scores, strict=True):
        if not score.sum < math.inf:  # true of NaN, too
            raise UserError(
                f"{lm.name}: the score of {hypothesis.text[:60]!r} is {score.sum}; the"
                " model is damaged"
            )


def _warn_of_case(lm: LanguageModel, window: Scored) -> None:
    """Warn of lists in capitals, if the model knows their texts better in lower case:
    by more than a nat for each word.

    Most language models know capitals less well.
    """
    if capabilities_of(lm).source:
        return
    texts: dict[str, tuple[WithNeighbours, float]] = {}
    for placed, scores in window:
        for hypothesis, score in zip(placed.nbest.hypotheses, scores, strict=True):
            if not hypothesis.text.isupper():
                return
            texts[hypothesis.text] = (placed, score.sum)
    questions = []
    in_upper_case = 0.0
    words = 0
    for text, (placed, total) in islice(texts.items(), CASE_TEXTS):
        questions += ask(lm, placed, [text.lower()])
        in_upper_case += total
        words += len(text.split())
    gain = sum(score.sum for score in lm.score(questions)) - in_upper_case
    if gain > words:
        log.warning(
            "%s: the lists are in upper case, which the model knows less well than"
            " lower case (%.1f nats a word); give it as KIND:lower:PATH",
            lm.name,
            gain / words,
        )


class Streaming(Protocol):
    """A language model with the capability `streams`: it scores batches ahead of their
    use, as on a cluster.
    """

    def stream(
        self, batches: Iterable[Sequence[Question]]
    ) -> Iterator[list[TokenScores]]:
        """Yield the scores of each batch, in their order.

        Args:
            batches: Batches of questions, which are taken ahead.
        """
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
    """Return windows of lists with one more column per model, as a stream; memory is
    bounded by the windows.

    Args:
        lms: The models, each with a name of its own.
        lists: Windows of lists, as `windows_of_lists` cuts them.
        norm: The normalisation by length of the scores.
        counted: The models whose tokens are counted in a column of their own.
        progress: Called with the number of hypotheses that a model has just done.
        on_scores: Called with the scores of each list; None for none.
    """
    for lm in lms:
        counts = any(lm is other for other in counted)
        scored = score_windows(lm, lists, progress_of(progress, lm))
        lists = _with_column(lm, scored, norm, counts, on_scores)
    return iter(lists)


def _with_column(
    lm: LanguageModel,
    windows: Iterable[Scored],
    norm: str,
    counts: bool,
    on_scores: OnScores | None,
) -> Iterator[list[WithNeighbours]]:
    """Yield copies of lists with the column of a model and, if it `counts`, a column
    with the number of tokens.

    The record of the columns' origins is made once and shared by all lists whose record
    was equal.
    """
    name = lm.name
    new = {name: record_of(lm, norm)}
    if counts:
        new[TOKENS] = replace(record_of(lm, "count"), role=Role.COUNT)
    with_column = SharedChange(lambda header: header.with_records(new))
    for window in windows:
        done = []
        for placed, scores in window:
            nbest = placed.nbest
            if on_scores is not None:
                on_scores(lm, nbest, scores)
            hypotheses = []
            for hypothesis, token_scores in zip(nbest.hypotheses, scores, strict=True):
                values = {**hypothesis.scores, name: token_scores.normalised(norm)}
                if counts:
                    values[TOKENS] = float(len(token_scores.tokens))
                hypotheses.append(replace(hypothesis, scores=values))
            header = with_column(nbest.header)
            nbest = replace(nbest, hypotheses=hypotheses, header=header)
            done.append(replace(placed, nbest=nbest))
        yield done
