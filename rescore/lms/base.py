"""Language models as the rest of the package sees them.

A model gets questions (`Question`) and returns the scores of their tokens
(`TokenScores`). `Capabilities` say what a model reads, and a `Kind` says how the models
of a kind are named, loaded and trained. Scores are natural logs.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.columns import NORM_SUM, Column, Role
from rescore.errors import UserError
from rescore.nbest import Audio, NbestList
from rescore.options import Declared, Suited, option
from rescore.parts import KINDS

if TYPE_CHECKING:
    from rescore.lms.options import TrainingOptions

Values = npt.NDArray[np.float64]
Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Question:
    """A text to score, with what else a model may read (`Capabilities`)."""

    text: str
    """The text that is scored."""
    source: str | None = None
    """The text that `text` is a translation of."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """The texts of the utterances before and after this utterance, in the order of
    speech.
    """
    audio: Audio | None = None
    """The recording that the text may be a transcript of."""

    def pair(self, channel: bool) -> tuple[str, str]:
        """Return the text that is given and the text that is predicted.

        Args:
            channel: Whether the model is a channel model, which predicts the source.

        Returns:
            Source and text; for a channel model, text and source.

        Raises:
            UserError: The question has no source.
        """
        if self.source is None:
            raise UserError(
                "this model reads the source beside the hypothesis; give lists with"
                " sources"
            )
        if channel:
            return self.text, self.source
        return self.source, self.text


@dataclass(frozen=True, slots=True)
class WithNeighbours:
    """A list and the texts around it in its recording."""

    nbest: NbestList
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """The 1-best texts of the lists before and after it. Their number is the largest
    that any of the models reads.
    """


def without_context(texts: Iterable[str]) -> list[Question]:
    """Return questions about sentences without source or neighbours.

    Args:
        texts: The sentences.
    """
    return [Question(text) for text in texts]


class TokenScores:
    """The tokens of a sentence and their log-probabilities, natural log."""

    __slots__ = ("log_probs", "sum", "tokens", "unknown")

    def __init__(
        self,
        tokens: list[str],
        log_probs: Values,
        unknown: tuple[int, ...] = (),
        total: float | None = None,
    ) -> None:
        """Make the scores of a sentence.

        Args:
            tokens: The tokens.
            log_probs: Log-probabilities of shape (tokens,).
            unknown: The places of the tokens that the model does not know (out of
                vocabulary).
            total: The score of the sentence; None for the sum of `log_probs`.
        """
        self.tokens = tokens
        self.log_probs = np.asarray(log_probs)
        self.unknown = unknown
        self.sum = float(self.log_probs.sum()) if total is None else total

    def __repr__(self) -> str:
        """Return the sum and the beginning of the sentence, on one line."""
        return f"<TokenScores {self.sum:.4f}: {' '.join(self.tokens)[:60]!r}>"

    @property
    def mean(self) -> float:
        """The score per token; 0 for a sentence without tokens."""
        return self.normalised("mean")

    def normalised(self, norm: str) -> float:
        """Return the score, normalised by the number of tokens.

        Args:
            norm: `sum`; `mean`; or `length^A`, the sum divided by the number of tokens
                to the power A.

        Raises:
            UserError: `norm` is something else.
        """
        return self.sum / max(len(self.tokens), 1) ** length_power(norm)


LONGEST_POWER = 10.0
"""The largest power of `length^A`, of either sign."""


def length_power(norm: str) -> float:
    """Return the power of the length by which a normalisation divides a score.

    Args:
        norm: `sum`, `mean` or `length^A`.

    Returns:
        0 for `sum`, 1 for `mean`, A for `length^A`.

    Raises:
        UserError: `norm` is something else, or A is out of range.
    """
    if norm == NORM_SUM:
        return 0.0
    if norm == "mean":
        return 1.0
    prefix, _, number = norm.partition("length^")
    try:
        power = math.nan if prefix else float(number)
    except ValueError:
        power = math.nan
    if not abs(power) <= LONGEST_POWER:  # true of NaN, too
        raise UserError(
            f"{norm!r} is neither sum nor mean nor length^NUMBER, the number between"
            " -10 and 10"
        )
    return power


def _prompted_kinds() -> list[str]:
    """Return the kinds whose models read a template."""
    return [name for name, kind in KINDS.loaded() if kind.prompted]


_DEVICE = re.compile(r"(cpu|cuda|mps|xpu|hpu|npu|mtia|xla)(:\d+)?")


def _device(name: str) -> str:
    if not _DEVICE.fullmatch(name):
        raise ValueError(f"{name!r} is neither cpu nor cuda nor cuda:N")
    return name


def _computes(name: str) -> bool:
    """Return whether the models of --lm NAME are networks."""
    kind = name.partition(":")[0]
    return kind not in KINDS or KINDS[kind].computes


@dataclass(frozen=True, slots=True)
class ComputeOptions(Declared):
    """Where and how a network computes. None stands for a default that depends on the
    machine and the model.
    """

    device: str | None = option(
        None,
        "cpu, cuda or cuda:N.  [default: cuda if available]",
        metavar="NAME",
        parse=_device,
        needs="lm",
        harmless=True,
    )
    precision: str | None = option(
        None,
        "Number format of networks; int8 needs a CPU, fp16 a GPU.  [default: float32 on"
        " a CPU, bf16 on a GPU]",
        choices=("float32", "bf16", "fp16", "int8"),
        needs="lm",
        suits={"lm": Suited(_computes, lambda: "of a network, such as tta")},
    )
    batch_tokens: int | None = option(
        None,
        "Tokens per batch of a network.  [default: chosen to fit cache or GPU memory]",
        low=1,
        needs="lm",
        harmless=True,
    )
    prompt: str | None = option(
        None,
        "hf-causal, server: input of the model, such as 'German: {src}\\nEnglish:"
        " {text}'. Only {text} is scored.",
        metavar="TEMPLATE",
        needs="lm",
        needs_value=_prompted_kinds,
    )


DEFAULT = ComputeOptions()
BEFORE = (99, 0)
"""The most neighbours, before and after a text, that a causal model can read."""
BOTH_SIDES = (99, 99)
"""The most neighbours, before and after a text, that a bidirectional model can read."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a language model does; for a kind, what its models can do."""

    pseudo: bool = False
    """Whether scores are pseudo-log-likelihoods."""
    source: bool = False
    """Whether the model reads the source of a translation beside the text."""
    audio: float = 0.0
    """Seconds of the longest recording that the model hears; 0 if it does not
    listen.
    """
    context: tuple[int, int] = (0, 0)
    """The number of neighbours that the model reads before and after the text
    (`rescore.lms.context` puts them into questions).
    """
    vectors: bool = False
    """Whether the model is a `NetworkScorer` of single sentences, whose hidden vectors
    can be read.
    """
    predicts: bool = True
    """Whether scores are log-probabilities of tokens, so that they have a
    perplexity.
    """
    intact: bool = False
    """Whether the model reads each token while it predicts it. Its scores are for
    comparison, not for a combination of models.
    """
    cached: bool = False
    """Whether the model looks up earlier scores, so that its speed says nothing."""
    tokens_per_word: float = 0.0
    """Tokens per word of the training text; 0 if the model's card does not say it."""
    streams: bool = False
    """Whether the model is a `Streaming` model, which scores batches ahead of their use
    (`rescore.scoring.local`).
    """
    by_words: bool = False
    """Whether the words of a text count as its tokens, because the model knows no
    tokens: a mean is then over words.
    """


class LanguageModel(Protocol):
    """A back-end. The score of a text does not depend on the other texts that it is
    scored with.

    A model that reads more than the text has one more attribute, `capabilities`; see
    `capabilities_of`.
    """

    name: str
    """The name of its column of scores."""

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
        """Return the scores of each question, in their order.

        Args:
            questions: The questions.
        """
        ...


class Streamed(ABC):
    """A language model that yields scores as they are computed."""

    @abstractmethod
    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Yield the place of each question and its scores, in any order.

        An error is raised after the scores before it are yielded.

        Args:
            questions: The questions.
        """

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """Return the scores of each question, in their order.

        Args:
            questions: The questions.
        """
        scores = dict(self.as_scored(questions))
        return [scores[place] for place in range(len(questions))]


def as_scored(
    lm: LanguageModel, questions: Sequence[Question]
) -> Iterator[tuple[int, TokenScores]]:
    """Return an iterator over the places of questions and their scores.

    Args:
        lm: The model. A `Streamed` model gives each score when it is computed, another
            model all scores at once.
        questions: The questions.
    """
    if isinstance(lm, Streamed):
        return lm.as_scored(questions)
    return enumerate(lm.score(questions))


class Wrapped(Streamed):
    """A language model around another model: it is like the other in all that arguments
    or a subclass do not change.

    It also takes plain sentences.
    """

    def __init__(
        self, lm: LanguageModel, model: str | None = None, **changed: Any
    ) -> None:
        """Wrap a model.

        Args:
            lm: The other model.
            model: The back-end and its options; None if the other model has the same.
            changed: Capabilities that differ from the other model, by name.
        """
        self.name = lm.name
        self.model = model or lm.model
        self.capabilities = replace(capabilities_of(lm), vectors=False, **changed)
        self._lm = lm

    def __repr__(self) -> str:
        """Return the name, the fingerprint and the precision, as signatures show
        them.
        """
        return f"<LanguageModel {self.name}: {self.fingerprint[:12]}, {self.precision}>"

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the other model."""
        return self._lm.fingerprint

    @property
    def precision(self) -> str:
        """The precision of the other model."""
        return self._lm.precision

    def score(self, questions: Sequence[str | Question]) -> list[TokenScores]:
        """Return the scores of each sentence or question, in their order.

        Args:
            questions: Sentences, or questions.
        """
        whole = []
        for question in questions:
            whole.append(Question(question) if isinstance(question, str) else question)
        return super().score(whole)

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Return places and scores in the order of the other model."""
        return as_scored(self._lm, questions)


def places_of(questions: Iterable[Item]) -> dict[Item, list[int]]:
    """Return each different question with all its places.

    Models use it to score equal questions once.

    Args:
        questions: Questions, or what else is scored.
    """
    places: dict[Item, list[int]] = {}
    for place, question in enumerate(questions):
        places.setdefault(question, []).append(place)
    return places


def capabilities_of(lm: LanguageModel) -> Capabilities:
    """Return what a model does.

    This is the only function that knows models without `capabilities`. They are users'
    own models, which may have `reads_source = True`, and `context = (N, M)` for N
    neighbours before and M after the text.

    Args:
        lm: The model.
    """
    declared: Capabilities | None = getattr(lm, "capabilities", None)
    if declared is not None:
        return declared
    return Capabilities(
        source=getattr(lm, "reads_source", False),
        context=getattr(lm, "context", (0, 0)),
    )


def record_of(lm: LanguageModel, norm: str) -> Column:
    """Return what is recorded about a column of a model's scores.

    Args:
        lm: The model.
        norm: The normalisation by length, as in `TokenScores.normalised`.
    """
    return Column(lm.model, lm.fingerprint, norm, lm.precision, Role.LM)


@dataclass(frozen=True, slots=True)
class Spec:
    """The value of --lm in its parts: `KIND[:OPTION...][:PATH]`."""

    kind: str
    options: tuple[str, ...]
    path: Path
    place: str = ""
    """The text behind the options, such as the path or the address of the model; empty
    for a shipped model.
    """

    @property
    def name(self) -> str:
        """The name of the model's column of scores."""
        return ":".join([self.kind, *self.options])

    @property
    def context(self) -> int:
        """The number of neighbours on a side, from the option `context=N`."""
        return self.number("context", 0)

    def number(self, option: str, usual: int, least: int = 1, most: int = 99) -> int:
        """Return the number of the option `option=N`.

        Args:
            option: The name of the option. If it is given twice, the last number holds.
            usual: The number where the option is not given.
            least: The least number that is allowed.
            most: The greatest number that is allowed.

        Raises:
            UserError: The option has no such number.
        """
        value = None
        for text in self.options:
            name, equals, number = text.partition("=")
            if name == option and equals:
                value = number
        if value is None:
            return usual
        # the length is looked at first: int() refuses thousands of digits
        is_number = value.isdecimal() and len(value) <= len(str(most))
        if not is_number or not least <= int(value) <= most:
            raise UserError(
                f"--lm {self.name}: {option}={value}; expected a number from"
                f" {least} to {most}"
            )
        return int(value)


Report = Callable[[str], None]
"""Called with a line about the progress of a training."""


class Kind:
    """A kind of language model: how --lm names its models, what they can do, and how
    they are trained.

    A module of a kind imports PyTorch only in functions, so that commands that ask what
    the kind is need none of it.
    """

    capabilities: ClassVar[Capabilities] = Capabilities()
    """What models of the kind can do."""
    options: ClassVar[tuple[str, ...]] = ()
    """The options of --lm that change how a model scores. The options of cases
    (`rescore.lms.backends`) are allowed with every kind.
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
    """What stands behind the options, for messages; empty for a kind whose models read
    no file, so that --lm names them without a path.
    """
    prompted: ClassVar[bool] = False
    """Whether its models read a template (`ComputeOptions.prompt`)."""
    computes: ClassVar[bool] = True
    """Whether its models are networks, which `ComputeOptions.precision` is for."""
    is_network: ClassVar[bool] = False
    """Whether it is a `NeuralKind`, whose models a `NetworkConfig` describes."""
    Options: ClassVar[type[TrainingOptions] | None] = None
    """The kind's own options of a training; None for a kind that is not trained
    here.
    """

    def __init__(self, name: str) -> None:
        """Make the kind.

        Args:
            name: The name of the kind in `KINDS`.
        """
        self.name = name

    def is_pseudo(self, options: Sequence[str]) -> bool:
        """Return whether scores are pseudo-log-likelihoods.

        Args:
            options: The options of --lm.
        """
        return self.capabilities.pseudo

    @classmethod
    def training_options(cls) -> type[TrainingOptions] | None:
        """Return the class of all options of a training; None for a kind that is not
        trained here.
        """
        return cls.Options

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        """Return the model that --lm names.

        Args:
            spec: The value of --lm.
            computing: Where and how the model computes.
        """
        raise NotImplementedError

    def train(
        self, options: TrainingOptions, report: Report = lambda line: None
    ) -> None:
        """Train a model and write its folder.

        Args:
            options: Options of the class `Options`.
            report: Called with each line about the progress.
        """
        raise NotImplementedError


def kind_of(name: str) -> Kind:
    """Return the kind of a name.

    Args:
        name: A name in `KINDS`.

    Raises:
        UserError: No kind has this name.
    """
    kind: Kind = KINDS[name](KINDS.check(name))
    return kind
