"""Training options of networks: options of all kinds, and options that several kinds
share, with their effects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rescore.errors import OptionError, UserError, takes_no
from rescore.keys import digest_of_file
from rescore.lms.backends import parse, shipped
from rescore.lms.base import Kind
from rescore.lms.config import NAMED, NetworkConfig
from rescore.lms.options import PairOptions, TextOptions, TokenizerOptions
from rescore.options import Declared, OptionValues, flattened, option
from rescore.parts import KINDS, LESSONS

if TYPE_CHECKING:
    from rescore.lms.tokenizer import Tokenizer
    from rescore.lms.training.corpus import Corpus
    from rescore.lms.training.objectives import Task

STEPS = 100_000
"""Updates of a training from the start."""
MINUTES = 15.0
"""Minutes of a training from a model's weights."""
RATE = 1e-3
"""Learning rate of a training from the start."""
ADAPTING_RATE = 3e-4
"""Learning rate of a training from a model's weights."""
DECAY = 0.2
"""Share of a training from the start in which the learning rate falls."""


@dataclass(frozen=True, kw_only=True)
class NeuralOptions(TextOptions, TokenizerOptions):
    """How a network is trained. Either `steps` or `minutes` says for how long.

    The learning rate is constant between warm-up and decay, so that training can be
    stopped, prolonged and ended at any time (Hägele et al. 2024: a decay over the last
    fifth is as good as a cosine).

    Shared code calls the methods; a class with further options extends the methods that
    these options change.
    """

    title: ClassVar[str] = "Networks"

    config: str = option(
        "base",
        "Size of the network: base, small, released (base as in the T-TA authors'"
        " code), or a config.json.",
        metavar="NAME|FILE",
        reads=True,
        common=True,
    )
    size: int | None = option(
        None,
        "Number of WordPieces of a new tokenizer.  [default: from --config]",
        metavar="N",
        low=6,
        high=10_000_000,
    )
    steps: int | None = option(
        None,
        f"Number of updates; 0 writes a random model.  [default: {STEPS:,}, unless"
        " --minutes or --init is given]",
        low=0,
        common=True,
    )
    minutes: float | None = option(
        None,
        "Training time in minutes, instead of --steps.  [default with --init:"
        f" {MINUTES:g}]",
        low=0.001,
        high=10_000_000,
        common=True,
    )
    init: str | None = option(
        None,
        "Adapt a model: NAME of a shipped model, such as tta, or DIR. Training starts"
        " from its weights and tokenizer, stops when the validation loss rises, and"
        " keeps the weights with the lowest validation loss.",
        metavar="NAME|DIR",
        common=True,
    )
    resume: bool = option(
        False,
        "Continue from the last checkpoint in --out.",
        common=True,
        harmless=True,
    )
    batch_tokens: int = option(4096, "Tokens per batch, including padding.", low=8)
    batch_sentences: int | None = option(
        None,
        "Sentences per batch, at most.  [default: no limit]",
        metavar="N",
        low=1,
    )
    optimizer: str | None = option(
        None,
        "muon: Muon for the matrices of the layers, AdamW for the rest; adamw: AdamW"
        " for all parameters.  [default: muon; adamw if PyTorch has no Muon]",
        choices=("muon", "adamw"),
    )
    learning_rate: float | None = option(
        None,
        f"Learning rate after warm-up.  [default: {RATE:g}; with --init"
        f" {ADAPTING_RATE:g}]",
        low=0,
        high=10,
    )
    warmup: float = option(
        0.02, "Share of the training in which the learning rate rises.", low=0, high=1
    )
    decay: float | None = option(
        None,
        "Share of the training, at its end, in which the learning rate falls to 0. "
        f" [default: {DECAY:g}; with --init the whole training after the warm-up]",
        low=0,
        high=1,
    )
    dropout: float = option(0.1, "Dropout probability.", low=0, high=0.99)
    weight_decay: float = option(0.01, "Weight decay of the optimizer.", low=0, high=10)
    held_out: int | None = option(
        None,
        "Number of sentences kept for validation.  [default: a twentieth of the text,"
        " at most 2000]",
        low=1,
        common=True,
    )
    seed: int = option(0, "Random seed.", low=0, high=2**63 - 1)
    precision: str = option(
        "auto",
        "Number format of the training.",
        choices=("auto", "bfloat16", "float32"),
    )
    lessons: OptionValues = option(OptionValues, group="Lessons", parts=LESSONS)
    """The options of lessons; a lesson is given by one of them."""
    device: str | None = option(
        None,
        "cpu, cuda or cuda:N.  [default: cuda if available]",
        metavar="NAME",
        common=True,
        harmless=True,
    )

    def __post_init__(self) -> None:
        """Set the defaults that depend on other options, and check the options
        together.
        """
        super().__post_init__()
        adapting = self.init is not None
        if self.learning_rate is None:
            self._set("learning_rate", ADAPTING_RATE if adapting else RATE)
        rest = 1 - self.warmup
        if self.decay is None:
            self._set("decay", rest if adapting else DECAY)
        assert self.decay is not None
        if self.decay > rest:
            raise UserError(
                f"--warmup {self.warmup:g} and --decay {self.decay:g} are more than the"
                " whole training"
            )
        self._check_exclusions()
        if self.steps is None and self.minutes is None:
            if adapting:
                self._set("minutes", MINUTES)
            else:
                self._set("steps", STEPS)

    def _set(self, name: str, value: float) -> None:
        """Set the default of an option, while the options are made."""
        object.__setattr__(self, name, value)

    def _check_exclusions(self) -> None:
        """Raise an error if options exclude each other."""
        if self.steps is not None and self.minutes is not None:
            raise UserError("--steps and --minutes exclude each other")
        if (self.tokenizer or self.init) and self.size:
            raise UserError(
                "--size is for a new tokenizer; leave out --tokenizer and --init"
            )
        if self.tokenizer is not None and self.init is not None:
            raise UserError(
                "--tokenizer and --init exclude each other: a model's weights belong to"
                " its tokenizer"
            )

    @property
    def start(self) -> Path | None:
        """The folder of the model to start from; None for a training from the start."""
        return None if self.init is None else model_folder("--init", self.init)

    @property
    def texts(self) -> tuple[Path, ...]:
        """The texts for sentences, lexicon and tokenizer, which are read one after
        another.
        """
        return self.text

    @property
    def translations(self) -> tuple[Path, Path] | None:
        """The files of sentences and their translations; None if there are none."""
        return None

    @property
    def contents(self) -> dict[str, Any]:
        """What options that name models, and options of a new tokenizer, come to: a
        saved state is valid only for the same values, as for those of all other
        options that are not harmless.
        """
        from rescore.lms.tokenizer import Tokenizer

        contents: dict[str, Any] = {"init": None, "size": None, "normalize": None}
        tokenizer = self.tokenizer
        if self.start is not None:
            contents["init"] = digest_of_file(self.start / "model.safetensors")
            tokenizer = self.start / "tokenizer.json"
        if tokenizer is not None:
            contents["tokenizer"] = Tokenizer.load(tokenizer).fingerprint
            return contents
        contents["size"] = self.size_of_tokenizer
        contents["normalize"] = self.normalisation
        return contents

    @property
    def of_objective(self) -> dict[str, Any]:
        """The defaults of the options of lessons, by name."""
        lessons = [entry for entry in self.declared() if entry.name == "lessons"]
        return {entry.name: entry.default for entry in flattened(lessons)}

    @property
    def size_of_tokenizer(self) -> int:
        """The number of tokens of a new tokenizer."""
        return self.size or self.named_config.vocab_size

    @property
    def named_config(self) -> NetworkConfig:
        """The configuration that `config` names."""
        if self.config in NAMED:
            return NAMED[self.config]()
        if not Path(self.config).is_file():
            raise UserError(
                f"--config {self.config}: neither a file nor one of {', '.join(NAMED)}"
            )
        return NetworkConfig.load(Path(self.config))

    def sized(self, kind: Kind, tokenizer: Tokenizer) -> NetworkConfig:
        """Return the configuration of the network, with the additions of options and
        lessons.

        It is a named size with the tokenizer's vocabulary, or the configuration of the
        model to start from.

        Args:
            kind: The kind of the network.
            tokenizer: The tokenizer.

        Raises:
            UserError: The configuration is not valid, or the options do not fit it.
        """
        if self.start is None:
            named = self.named_config
            config = named.of_kind(kind.name, vocab_size=tokenizer.vocab_size)
        else:
            started = NetworkConfig.load(self.start / "config.json")
            config = started.of_kind(kind.name)
        config = self.shaped(config)
        for lesson in lessons_of(self.lessons, kind):
            config = lesson.shaped(config)
        return config

    def shaped(self, config: NetworkConfig) -> NetworkConfig:
        """Return a configuration with the additions of the options.

        Args:
            config: The configuration of the network without them.
        """
        return config

    def window(self, config: NetworkConfig) -> int:
        """Return how many consecutive sentences are held out, or trained on, together.

        Args:
            config: The configuration of the network.
        """
        return 1

    def tasks(self, usual: Task, data: TrainingData) -> list[Task]:
        """Return the tasks of the batches in turn.

        Args:
            usual: The kind's own task.
            data: What tasks are made of.
        """
        return [usual]


def model_folder(flag: str, name: str) -> Path:
    """Return the folder of a model that an option names.

    Args:
        flag: The option, for messages.
        name: A folder, `[KIND:]DIR` or the name of a shipped model, as in --lm.

    Raises:
        UserError: There is no such folder.
    """
    if Path(name).is_dir():
        return Path(name)
    try:
        spec = parse(name)
    except UserError:
        spec = None
    if spec is None or spec.options or not spec.path.is_dir():
        raise UserError(
            f"{flag} {name}: no such folder; give one, or a shipped model:"
            f" {', '.join(shipped())}"
        )
    return spec.path


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The inputs from which tasks are made."""

    tokenizer: Tokenizer
    options: NeuralOptions
    config: NetworkConfig
    text: Corpus
    pairs: Corpus | None = None


class Lesson:
    """Changes the training of a network. Each method returns what it is given, unless a
    subclass changes it.
    """

    Options: ClassVar[type[Declared]]
    """The options. The lesson is given if an option without `needs` is set."""

    def __init__(self, options: Any) -> None:
        """Make a lesson.

        Args:
            options: Options of the class `Options`.
        """
        self.options = options

    @classmethod
    def suits(cls, kind: Kind) -> bool:
        """Return whether networks of a kind can have the lesson.

        Args:
            kind: The kind.
        """
        return True

    def check(self, training: NeuralOptions) -> None:
        """Check, before a text is read, that the lesson excludes no other option of the
        training.

        Args:
            training: All options of the training.

        Raises:
            UserError: The training has such an option.
        """

    def shaped(self, config: NetworkConfig) -> NetworkConfig:
        """Return the configuration of the network that is trained.

        Args:
            config: The configuration without the lesson.
        """
        return config

    def window(self, config: NetworkConfig, usual: int) -> int:
        """Return how many consecutive sentences are held out, or trained on, together.

        Args:
            config: The configuration of the network.
            usual: The number without the lesson.
        """
        return usual

    def tasks(self, tasks: list[Task], data: TrainingData) -> list[Task]:
        """Return the tasks of the batches in turn.

        Args:
            tasks: The tasks without the lesson; the first is the kind's own.
            data: What tasks are made of.
        """
        return tasks


def lessons_of(values: OptionValues, kind: Kind) -> list[Lesson]:
    """Return the lessons that options ask for, in the order of the table.

    Args:
        values: The options of lessons that are set.
        kind: The kind of the network.

    Raises:
        UserError: A lesson does not suit the kind.
    """
    lessons: list[Lesson] = []
    if not values.values:
        return lessons
    for _, part in LESSONS.loaded():
        flag = _flag_of(part, values)
        if flag is None:
            continue
        if not part.suits(kind):
            others = f"--lm {' or '.join(_suited(part))}"
            raise OptionError(takes_no(f"train --lm {kind.name}", flag, [others]))
        lessons.append(part(values.of(part.Options)))
    return lessons


def _flag_of(lesson: type[Lesson], values: OptionValues) -> str | None:
    """Return the flag of the first option that gives a lesson; None if there is
    none.
    """
    for entry in lesson.Options.declared():
        if entry.name in values.values and not entry.about.needs:
            return entry.about.flag(entry.name)
    return None


def _suited(lesson: type[Lesson]) -> list[str]:
    """Return the names of the kinds that a lesson suits."""
    names = []
    for name, kind in KINDS.loaded():
        if kind.is_network and lesson.suits(kind(name)):
            names.append(name)
    return names


@dataclass(frozen=True, kw_only=True)
class MaskingOptions(NeuralOptions):
    """Options of kinds that change a share of a sentence's tokens, and learn from
    these.
    """

    mask_rate: float = option(
        0.15,
        "Share of the tokens of a sentence that training masks or replaces; at least"
        " one token.",
        low=1e-6,
        high=0.99,
    )
    mask_cap: int | None = option(
        None,
        "Mask at most N tokens per sentence, such as 4.  [default: no limit]",
        metavar="N",
        low=1,
    )


@dataclass(frozen=True, kw_only=True)
class ContextOptions(NeuralOptions):
    """Options of kinds that learn to read neighbours: every second batch is of windows
    of consecutive sentences.
    """

    context: int = option(
        0,
        "Also learn to read N neighbouring lines on each side (causal networks: N"
        " previous lines). An empty line ends a document.",
        metavar="N",
        low=0,
    )

    def shaped(self, config: NetworkConfig) -> NetworkConfig:
        """Return a configuration with the neighbours."""
        config = super().shaped(config)
        if not self.context:
            return config
        wanted = config.with_neighbours(self.context)
        if config.sentences not in (1, wanted.sentences):
            raise UserError(
                f"--context {self.context}: the model reads {config.neighbours[0]}"
                " neighbours on a side"
            )
        return wanted

    def window(self, config: NetworkConfig) -> int:
        """Return the number of sentences that the network reads together."""
        return config.sentences if self.context else super().window(config)

    def tasks(self, usual: Task, data: TrainingData) -> list[Task]:
        """Return the tasks with one more for windows."""
        from rescore.lms.training.objectives import ContextObjective, Task

        tasks = super().tasks(usual, data)
        if self.context:
            tokenizer = data.tokenizer
            windows = data.text.windows([tokenizer.eos, tokenizer.bos])
            objective = ContextObjective(usual.objective, tokenizer)
            tasks.append(Task("context", windows, objective))
        return tasks


@dataclass(frozen=True, kw_only=True)
class NeuralPairOptions(NeuralOptions, PairOptions):
    """Options of networks that learn from pairs. Without a text, the second side of the
    pairs is the text.
    """

    @property
    def texts(self) -> tuple[Path, ...]:
        """The texts; without a text, the second side of the pairs."""
        if self.text or self.pairs is None:
            return self.text
        return (self.pairs[1],)

    @property
    def translations(self) -> tuple[Path, Path] | None:
        """The files of the pairs; None if there are none."""
        return self.pairs


@dataclass(frozen=True, kw_only=True)
class SourceOptions(NeuralPairOptions):
    """Options of kinds that learn from pairs to read the source before a translation.
    With a text, every second batch is from the text.
    """

    def shaped(self, config: NetworkConfig) -> NetworkConfig:
        """Return a configuration with the source, if there are pairs."""
        config = super().shaped(config)
        if self.pairs is None:
            if config.source:
                raise UserError(
                    f"{self.start or self.config}: reads a source; give --pairs SOURCE"
                    " TARGET"
                )
            return config
        if config.sentences > 1 and not config.source:
            raise UserError(
                "--context and --pairs exclude each other: a network reads either"
                " neighbours or a source"
            )
        return replace(config, sentences=2, source=True)

    def tasks(self, usual: Task, data: TrainingData) -> list[Task]:
        """Return the tasks with one more for pairs; without a text, only this task."""
        from rescore.lms.training.objectives import SourceObjective, Task

        tasks = super().tasks(usual, data)
        if data.pairs is None:
            return tasks
        objective = SourceObjective(usual.objective, data.tokenizer)
        tasks.append(Task("pairs", data.pairs, objective))
        if self.text:
            return tasks
        return tasks[1:]


@dataclass(frozen=True, kw_only=True)
class TtaOptions(SourceOptions, ContextOptions):
    """Options of a T-TA."""

    predict_frame: bool = option(
        False, "Predict [BOS] and [EOS], too, as the T-TA authors' code does."
    )

    @property
    def of_objective(self) -> dict[str, Any]:
        """The defaults of the options of the objective, by name."""
        return {**super().of_objective, "predict_frame": False}


@dataclass(frozen=True, kw_only=True)
class BilmOptions(MaskingOptions, SourceOptions, ContextOptions):
    """Options of a biLM."""
