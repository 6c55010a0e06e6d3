"""Proposals: a model writes texts that join each list.

An instruction model behind a server reads the list and corrects it; a speech model reads the recording.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from rapidfuzz.distance import Levenshtein

from rescore.asr.channel import ALIKE
from rescore.asr.recombine import refuse_scored
from rescore.errors import UserError, counted
from rescore.formats.source import read_lines
from rescore.large.client import RefusedError
from rescore.large.server import NonsenseError, connect, served_model
from rescore.lms import LanguageModel, Question, TokenScores, load, parse
from rescore.lms.base import in_order, kind_of
from rescore.lms.cache import Cached
from rescore.nbest import (
    EDITS,
    FIRST_PASS,
    NO_AUDIO,
    Column,
    Hypothesis,
    NbestList,
    Origin,
    Role,
    first_pass_indices,
    ranking,
)

if TYPE_CHECKING:
    from rescore.large.speech import ListeningModel

log = logging.getLogger(__name__)

SHOWN = 10
"""Hypotheses of a list that the model reads: the best by the first pass."""
MAX_LENGTH = 2
"""Largest length of a proposal, as a multiple of the list's longest hypothesis."""
SELECTION = 2
"""Raised when the choice of an answer's lines changes: signatures contain it."""
WINDOW = 100
"""Number of lists in a request batch."""
ROOM = 16
"""Tokens that an answer's line may have beside a token for each two bytes of the longest hypothesis."""

RULES = """\
Change as little as possible: keep every word that may be right. Keep to the hypotheses in upper and lower case, in \
punctuation and in how numbers are written. Write no numbering and no comments. If the first hypothesis has no error, \
repeat it."""

SPEECH = f"""\
A speech recogniser wrote these hypotheses for an utterance, the most probable first:

{{list}}

Some of their words may be misrecognised. Write at most {{number}} corrected transcripts of the utterance, the most \
probable first, each on a line of its own. {RULES}
"""

TRANSLATION = f"""\
A system for machine translation wrote these hypotheses for a sentence, the most probable first.

Sentence: {{src}}

{{list}}

Write at most {{number}} corrected translations of the sentence, the best first, each on a line of its own. {RULES}
"""
"""For lists with a source."""

PLACES = re.compile(r"\{(list|number|src)\}")
BEFORE_LINE = re.compile(r"(?:[-*\u2022]|\d{1,2}[.):])\s+")
"""The number or mark that begins a line of a listing."""
APOSTROPHES = "'\u2019"


class Dropped(StrEnum):
    """Why a line of an answer is no hypothesis."""

    EMPTY = "empty"
    LONG = "too long"
    KNOWN = "in the list already"
    NONSENSE = "unlike every hypothesis"
    MANY = "more than asked for"


class Writer:
    """The instruction model: it reads hypotheses, one a line, and writes corrections.

    It answers as a `LanguageModel` does, with its whole answer as a token without a score: so `Cached` keeps answers.
    """

    name = model = "propose"
    precision = "unknown"

    def __init__(self, spec: str, number: int, prompt: Path | None = None) -> None:
        """
        Args:
            spec: `server:URL#MODEL`. number: of corrections to ask for. prompt: a file; None for the usual prompts.

        Raises:
            UserError: `spec` names no served model, or the prompt cannot be used.
        """
        self._number = number
        self._templates = [SPEECH, TRANSLATION] if prompt is None else [_template(prompt)]
        server = parse(spec)
        odd = [option for option in server.options if not option.startswith(("parallel=", "timeout="))]
        if not kind_of(server.kind).remote or odd:
            raise UserError(f"--lm {spec}: give server:[parallel=N:][timeout=N:]URL#MODEL, hf-ctc:DIR or hf-speech:DIR")
        self._client, model = connect(server)
        self._served, revision = served_model(self._client, model)
        # The address, too: servers say no more of a model than its name, and two models may share it.
        told = [self._served, revision, self._client.url, number, self._templates]
        self.fingerprint = hashlib.sha256(json.dumps(told).encode()).hexdigest()

    @property
    def norm(self) -> str:
        """Twelve hexadecimal digits that say which prompt this is, for signatures."""
        return f"prompt:{hashlib.sha256(json.dumps(self._templates).encode()).hexdigest()[:12]}"

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One answer per question, in their order."""
        return in_order(self.as_scored(questions))

    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with their answers, as the server gives them.

        Raises:
            UserError: a request failed, again and again; all that was answered has been given.
        """
        for place, answer in self._client.in_parallel(questions, self._ask):
            yield place, TokenScores([answer], np.zeros(0))

    def _ask(self, question: Question) -> str:
        lines = question.text.split("\n")
        room = self._number * (max(len(line.encode()) for line in lines) // 2 + ROOM)
        messages = [{"role": "user", "content": self._prompt(lines, question.source)}]
        body = {"model": self._served, "messages": messages, "max_tokens": room, "temperature": 0}
        try:
            answer = self._client.post("/v1/chat/completions", body)
        except RefusedError as error:
            raise RefusedError(f"{error}, for the list of {lines[0][:60]!r}") from None
        try:
            choice = answer["choices"][0]
            text: str = choice["message"]["content"] or ""
            # Of an answer that was cut, the last line is not whole.
            return text.rpartition("\n")[0] if choice.get("finish_reason") == "length" else text.strip()
        except (LookupError, TypeError, AttributeError):
            raise NonsenseError(
                f"{self._client.url}: the answer to the list of {lines[0][:60]!r} is no chat completion"
            ) from None

    def _prompt(self, lines: Sequence[str], source: str | None) -> str:
        template = self._templates[0 if source is None else -1]
        if source is None and "{src}" in template:
            raise UserError(
                f"--propose-prompt: {{src}}, but the list of {lines[0][:60]!r} has no source; give lists with sources"
            )
        shown = "\n".join(f"{place}. {line}" for place, line in enumerate(lines, 1))
        values = {"list": shown, "number": str(self._number), "src": source or ""}
        return PLACES.sub(lambda place: values[place[1]], template)


class Listener:
    """A speech model that writes what it hears in the recording; it answers as `Writer` does."""

    name = model = "propose"
    norm = "heard"

    def __init__(self, spec: str, number: int) -> None:
        """
        Args:
            spec: such as `hf-ctc:DIR`. number: of texts to write.

        Raises:
            UserError: as `load`.
        """
        self._number, self._model = number, cast("ListeningModel", load(spec))
        self.precision = self._model.precision
        self.fingerprint = hashlib.sha256(json.dumps([self._model.fingerprint, number]).encode()).hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One answer per question, in their order; an empty answer where the recording is `NO_AUDIO`.

        Raises:
            UserError: a recording cannot be used.
        """
        answers = []
        for question in questions:
            assert question.audio is not None
            texts = [] if question.audio == NO_AUDIO else self._model.transcripts(question.audio, self._number)
            answers.append(TokenScores(["\n".join(texts)], np.zeros(0)))
        return answers


def _template(path: Path) -> str:
    text = "\n".join(read_lines(path, empty=True))
    if "{list}" not in text:
        raise UserError(f"{path}: expected a prompt with {{list}} in the place of the hypotheses")
    return text


@dataclass(slots=True)
class Tally:
    """Counts of the lists and proposals of a stream."""

    lists: int = 0
    expanded: int = 0
    """Lists with a proposal."""
    proposals: int = 0
    dropped: Counter[Dropped] = field(default_factory=Counter)

    def __str__(self) -> str:
        share = 100 * self.expanded / self.lists if self.lists else 0.0
        proposals = counted(self.proposals, "proposal")
        text = f"{proposals} in {self.expanded:,} of {counted(self.lists, 'list')} ({share:.0f} %)"
        reasons = [f"{number:,} {reason}" for reason in Dropped if (number := self.dropped[reason])]
        return text + (f"; dropped: {', '.join(reasons)}" if reasons else "")


class Proposing:
    """The proposals of an experiment: adds up to `number` hypotheses to each list of a stream."""

    def __init__(self, spec: str, number: int, prompt: str | None = None, cache: str | None = None) -> None:
        """
        Args:
            spec, number, prompt: see `Writer` and `Listener`. cache: a folder in which answers are kept.

        Raises:
            UserError: as `Writer` and `Listener`; the model writes nothing.
        """
        try:
            self._listens = kind_of(parse(spec).kind).capabilities.writes
            if self._listens and prompt:
                raise UserError(f"--lm {spec}: a model that listens has no prompt; leave out --propose-prompt")
            writer = Listener(spec, number) if self._listens else Writer(spec, number, Path(prompt) if prompt else None)
        except UserError as error:
            raise UserError(str(error).replace("--lm ", "--propose ", 1)) from None
        self._number = number
        self._writer: LanguageModel = Cached(writer, Path(cache)) if cache else writer
        self._column = Column(
            f"propose:{number}:v{SELECTION}", writer.fingerprint, writer.norm, writer.precision, Role.COUNT
        )

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Copies of the lists with new hypotheses behind the old hypotheses; at the end, a line gives the counts.

        Raises:
            UserError: a list has scores of models, which the new hypotheses would lack; the server fails.
        """
        stream, tally = iter(lists), Tally()
        before, columns = None, {}
        while window := list(islice(stream, WINDOW)):
            for nbest in window:
                refuse_scored(nbest, "propose corrections of")
                if self._listens and nbest.audio is None:
                    raise UserError(f"utterance {nbest.id}: no recording, which --propose listens to; give --audio")
            questions = [
                Question("\n".join(_shown(nbest)), nbest.source, audio=nbest.audio if self._listens else None)
                for nbest in window
            ]
            unique = [question for question in dict.fromkeys(questions) if question.text]
            answers = dict(zip(unique, self._writer.score(unique), strict=True))
            for nbest, question in zip(window, questions, strict=True):
                answer = answers[question].tokens[0] if question.text else None
                if nbest.provenance is not before:
                    before, columns = nbest.provenance, {**nbest.provenance, EDITS: self._column}
                yield replace(self._expanded(nbest, answer, tally), provenance=columns)
        log.info("%s", tally)

    def _expanded(self, nbest: NbestList, answer: str | None, tally: Tally) -> NbestList:
        """A copy of a list with the proposals of an answer; None stands for a list without text to correct."""
        texts, dropped = list[str](), Counter[Dropped]()
        if answer is not None:
            texts, dropped = corrections(answer, [hypothesis.text for hypothesis in nbest.hypotheses], self._number)
        originals = [nbest.hypotheses[place] for place in first_pass_indices(nbest)]
        new = []
        for text in texts:
            original, edits = nearest(text, originals)
            new.append(Hypothesis(text, original.scores | {EDITS: float(edits)}, Origin.PROPOSED))
        tally.lists += 1
        tally.expanded += bool(new)
        tally.proposals += len(new)
        tally.dropped += dropped
        old = [replace(hypothesis, scores={EDITS: 0.0} | hypothesis.scores) for hypothesis in nbest.hypotheses]
        return replace(nbest, hypotheses=[*old, *new])


def _shown(nbest: NbestList) -> list[str]:
    """The different texts of systems, the best first, without texts made from other hypotheses."""
    systems = (Origin.FIRST_PASS, Origin.MERGED)
    ranked = [nbest.hypotheses[place] for place in ranking(nbest, nbest.column(FIRST_PASS))]
    texts = [" ".join(hypothesis.text.split()) for hypothesis in ranked if hypothesis.origin in systems]
    return list(dict.fromkeys(filter(None, texts)))[:SHOWN]


def nearest(text: str, originals: Sequence[Hypothesis]) -> tuple[Hypothesis, int]:
    """The original with the fewest word edits to a text, of these the best by the first pass; and the edits."""
    words = text.lower().split()
    edits = [Levenshtein.distance(original.text.lower().split(), words) for original in originals]
    place = min(range(len(originals)), key=lambda place: (edits[place], -originals[place].scores[FIRST_PASS]))
    return originals[place], edits[place]


def corrections(answer: str, hypotheses: Sequence[str], number: int) -> tuple[list[str], Counter[Dropped]]:
    """The lines of an answer that become hypotheses, at most `number`, and the reasons for dropping others.

    Args:
        hypotheses: the texts of the list.
    """
    kept: list[str] = []
    dropped: Counter[Dropped] = Counter()
    known = {_plain(text) for text in hypotheses}
    said = answer.rpartition("</think>")[2].partition("<think>")[0]  # without the model's reasoning
    for line in [line for line in said.splitlines() if line.strip()] or [""]:
        text = styled(_without_mark(line.strip(), hypotheses), hypotheses)
        fault = _fault(text, hypotheses)
        if fault is None and _plain(text) in known:
            fault = Dropped.KNOWN
        elif fault is None and len(kept) == number:
            fault = Dropped.MANY
        if fault is None:
            kept.append(text)
            known.add(_plain(text))
        else:
            dropped[fault] += 1
    return kept, dropped


def _without_mark(line: str, hypotheses: Sequence[str]) -> str:
    """A line of a listing without its number or mark; a mark that a hypothesis begins with is kept as text, once."""
    own = {mark[0].strip() for text in hypotheses if (mark := BEFORE_LINE.match(text.strip()))}
    mark = BEFORE_LINE.match(line)
    if mark is None:
        return line
    rest = line[mark.end() :]
    second = BEFORE_LINE.match(rest)
    numbered = mark[0].strip() not in own or (second is not None and second[0].strip() in own)
    return rest if numbered else line


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _fault(text: str, hypotheses: Sequence[str]) -> Dropped | None:
    """The reason why a text cannot be a hypothesis, or None."""
    if not text:
        return Dropped.EMPTY
    if len(text) > MAX_LENGTH * max(map(len, hypotheses)):
        return Dropped.LONG
    odd = any(letter == "\ufffd" or unicodedata.category(letter) in ("Cc", "Cn", "Co", "Cs") for letter in text)
    distances = (Levenshtein.normalized_distance(text.lower(), hypothesis.lower()) for hypothesis in hypotheses)
    return Dropped.NONSENSE if odd or min(distances) > ALIKE else None


def styled(text: str, hypotheses: Sequence[str]) -> str:
    """A text in the case of the hypotheses, without punctuation around words that no hypothesis has."""
    shown = "".join(hypotheses)
    marks = {letter for letter in text if unicodedata.category(letter).startswith("P")}
    strange = "".join(marks - {*shown, *APOSTROPHES})
    text = " ".join(filter(None, (word.strip(strange) for word in text.split())))
    return text.upper() if shown.isupper() else text.lower() if shown.islower() else text
