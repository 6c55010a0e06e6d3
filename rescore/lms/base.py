"""Language models as the rest of the package sees them: questions, scores,
capabilities, and their kinds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.nbest import Audio, Column, NbestList, Role
from rescore.options import Declared, option
from rescore.parts import KINDS

if TYPE_CHECKING:
    from rescore.lms.options import TrainingOptions

Values = npt.NDArray[np.float64]
Asked = TypeVar("Asked", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Question:
    """What a model is asked: a text, with what else the model reads
    (`Capabilities`).
    """

    text: str
    """What is scored."""
    source: str | None = None
    """What the text is a translation of."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """What was said in the utterances before and after this one, in the order of
    speech.
    """
    audio: Audio | None = None
    """The recording that the text may be a transcript of."""

    def pair(self, channel: bool) -> tuple[str, str]:
        """What is given and what is predicted: source and text; for a `channel` model,
        text and source.
        """
        if self.source is None:
            raise UserError(
                "this model reads the source beside the hypothesis; give lists with"
                " sources"
            )
        return (self.text, self.source) if channel else (self.source, self.text)


@dataclass(frozen=True, slots=True)
class WithNeighbours:
    """A list in its recording."""

    nbest: NbestList
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """The 1-best of the lists before and after it, as many as the model reads that
    reads most of them.
    """


def without_context(texts: Iterable[str]) -> list[Question]:
    """Questions about sentences without source or neighbours."""
    return [Question(text) for text in texts]


class TokenScores:
    """A sentence's tokens and their log-probabilities, natural log."""

    __slots__ = ("log_probs", "sum", "tokens", "unknown")

    def __init__(
        self,
        tokens: list[str],
        log_probs: Values,
        unknown: tuple[int, ...] = (),
        total: float | None = None,
    ) -> None:
        """
        Args:
            log_probs: (tokens,).
            unknown: which tokens the model does not know (out of vocabulary).
            total: the sum, where it is not the sum of `log_probs`.
        """
        self.tokens, self.log_probs, self.unknown = (
            tokens,
            np.asarray(log_probs),
            unknown,
        )
        self.sum = float(self.log_probs.sum()) if total is None else total

    def __repr__(self) -> str:
        """One line; the rest is in `tokens` and `log_probs`."""
        return f"<TokenScores {self.sum:.4f}: {' '.join(self.tokens)[:60]!r}>"

    @property
    def mean(self) -> float:
        """Per token; 0 for a sentence without tokens."""
        return self.normalised("mean")

    def normalised(self, norm: str) -> float:
        """The sum, the mean, or for `length^A` the sum divided by the number of tokens
        to the power A.
        """
        return self.sum / max(len(self.tokens), 1) ** length_power(norm)


def length_power(norm: str) -> float:
    """0 for `sum`, 1 for `mean`, A for `length^A`."""
    if norm in ("sum", "mean"):
        return float(norm == "mean")
    try:
        power = (
            float(norm.removeprefix("length^"))
            if norm.startswith("length^")
            else math.nan
        )
    except ValueError:
        power = math.nan
    if not abs(power) <= 10:
        raise UserError(
            f"--lm-norm {norm}: expected sum, mean or length^NUMBER, the number between"
            " -10 and 10"
        )
    return power


@dataclass(frozen=True, slots=True)
class ComputeOptions(Declared):
    """Where and how a network computes, and in what frame; None for what suits."""

    device: str | None = option(
        None, "cpu, cuda or cuda:N.  [default: cuda if available]", metavar="NAME"
    )
    precision: str | None = option(
        None,
        "Number format of networks; int8 needs a CPU, fp16 a GPU.  [default: float32 on"
        " a CPU, bf16 on a GPU]",
        choices=("float32", "bf16", "fp16", "int8"),
    )
    batch_tokens: int | None = option(
        None,
        "Tokens per batch of a network.  [default: chosen to fit cache or GPU memory]",
        low=1,
    )
    prompt: str | None = option(
        None,
        "hf-causal, server: input of the model, such as 'German: {src}\\nEnglish:"
        " {text}'. Only {text} is scored.",
        metavar="TEMPLATE",
    )


DEFAULT = ComputeOptions()
BEFORE, BOTH_SIDES = (99, 0), (99, 99)
"""The most neighbours that a kind of model can read: before the text, or on both
sides.
"""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a language model does; of a kind, what a model of that kind can do."""

    pseudo: bool = False
    """Scores are pseudo-log-likelihoods."""
    source: bool = False
    """It reads the source of a translation beside the text."""
    audio: float = 0.0
    """Seconds of the longest recording that it hears; 0 if it does not listen."""
    context: tuple[int, int] = (0, 0)
    """The number of neighbours that it reads before and after the text
    (`rescore.lms.context` gives it these).
    """
    vectors: bool = False
    """It is a `NetworkScorer` of single sentences, whose hidden vectors can be read."""
    predicts: bool = True
    """Scores are log-probabilities of tokens, so that they have a perplexity."""
    intact: bool = False
    """It reads each token while it predicts it: its scores are for comparison, not for
    a combination of models.
    """
    cached: bool = False
    """It looks up earlier scores, so its speed says nothing."""
    tokens_per_word: float = 0.0
    """Of its training text; 0 if its card does not say it."""
    streams: bool = False
    """It is a `Streaming` model, which scores batches ahead of their use
    (`rescore.scoring.local`).
    """


class LanguageModel(Protocol):
    """A back-end. The score of a text does not depend on the other texts that it is
    scored with.

    A model that reads more than the text has one more attribute, `capabilities`; see
    `capabilities_of`.
    """

    name: str
    """The column its scores go into."""

    @property
    def model(self) -> str:
        """The back-end and its options, such as `bilm:intact`."""
        ...

    @property
    def precision(self) -> str:
        """The arithmetic: float32, bf16, fp16 or int8."""
        ...

    @property
    def fingerprint(self) -> str:
        """Content hash of weights, tokenizer and settings, in hexadecimal; never of the
        name, the place or a cache.
        """
        ...

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order."""
        ...


class Streamed(ABC):
    """A language model that gives its scores as they are computed."""

    @abstractmethod
    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """The places of questions and their scores, in any order; an error comes after
        the scores before it.
        """

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order."""
        scores = dict(self.as_scored(questions))
        return [scores[place] for place in range(len(questions))]


def as_scored(
    lm: LanguageModel, questions: Sequence[Question]
) -> Iterator[tuple[int, TokenScores]]:
    """The places of questions and their scores: as they come from a `Streamed` model,
    all at once from another.
    """
    return (
        lm.as_scored(questions)
        if isinstance(lm, Streamed)
        else enumerate(lm.score(questions))
    )


def places_of(questions: Iterable[Asked]) -> dict[Asked, list[int]]:
    """Each different question with all its places, for models that score equal
    questions once.
    """
    places: dict[Asked, list[int]] = {}
    for place, question in enumerate(questions):
        places.setdefault(question, []).append(place)
    return places


def capabilities_of(lm: LanguageModel) -> Capabilities:
    """What a model does. The only place that knows models without `capabilities`:
    users' own, which may say `reads_source = True`, and `context = (N, M)` for N
    neighbours before and M after the text.
    """
    declared: Capabilities | None = getattr(lm, "capabilities", None)
    if declared is not None:
        return declared
    return Capabilities(
        source=getattr(lm, "reads_source", False),
        context=getattr(lm, "context", (0, 0)),
    )


def origin(lm: LanguageModel, norm: str) -> Column:
    """What is recorded about a column of a model's scores."""
    return Column(lm.model, lm.fingerprint, norm, lm.precision, Role.LM)


@dataclass(frozen=True, slots=True)
class Spec:
    """What --lm names: `KIND[:OPTION...][:PATH]`."""

    kind: str
    options: tuple[str, ...]
    path: Path
    place: str = ""
    """What stands behind the options, such as the path or the address of the model;
    empty for a shipped model.
    """

    @property
    def name(self) -> str:
        """The name of its column of scores."""
        return ":".join([self.kind, *self.options])

    @property
    def context(self) -> int:
        """How many neighbours on a side the option `context=N` asks for."""
        return self.number("context", 0)

    def number(self, option: str, usual: int, least: int = 1, most: int = 99) -> int:
        """The number that `option=N` asks for, or the usual one."""
        values = [
            text.partition("=")[2]
            for text in self.options
            if text.startswith(f"{option}=")
        ]
        if not values:
            return usual
        if not (
            len(values[-1]) <= len(str(most))
            and values[-1].isdecimal()
            and least <= int(values[-1]) <= most
        ):
            raise UserError(
                f"--lm {self.name}: {option}={values[-1]}; expected a number from"
                f" {least} to {most}"
            )
        return int(values[-1])


Report = Callable[[str], None]
"""Called with a line about the progress of a training."""


class Kind:
    """A kind of language model: how --lm names its models, what they can do, and how
    they are trained.

    A module of a kind imports PyTorch only in functions, so that commands that ask what
    the kind is need none of it.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    options: ClassVar[tuple[str, ...]] = ()
    """How else than usually it can score; a case (`rescore.lms.context`) can be named
    with every kind.
    """
    readings: ClassVar[tuple[str, ...]] = ()
    """The options of each model that KIND:all stands for, joined by colons; empty where
    `all` is no option.
    """
    holds: ClassVar[str] = ""
    """Regular expression for the names of its files, or of the architectures in
    config.json, to tell a path's kind.
    """
    place: ClassVar[str] = "PATH"
    """What stands behind the options, for messages."""
    prompted: ClassVar[bool] = False
    """Whether its models read a template (`ComputeOptions.prompt`)."""
    is_network: ClassVar[bool] = False
    """Whether it is a `NeuralKind`, whose models a `NetworkConfig` describes."""
    Options: ClassVar[type[TrainingOptions] | None] = None
    """The kind's own options of a training; None for a kind that is not trained
    here.
    """

    def __init__(self, name: str) -> None:
        """name: the name of the kind in `KINDS`."""
        self.name = name

    def is_pseudo(self, options: Sequence[str]) -> bool:
        """Whether scores with these options are pseudo-log-likelihoods."""
        return self.capabilities.pseudo

    @classmethod
    def training_options(cls) -> type[TrainingOptions] | None:
        """The class of all options of a training; None for a kind that is not trained
        here.
        """
        return cls.Options

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        """The model that --lm names."""
        raise NotImplementedError

    def train(
        self, options: TrainingOptions, report: Report = lambda line: None
    ) -> None:
        """Train a model and write its folder.

        Args:
            options: of the class `Options`.
        """
        raise NotImplementedError


def kind_of(name: str) -> Kind:
    """The kind of this name."""
    kind: Kind = KINDS[name](KINDS.check(name))
    return kind
