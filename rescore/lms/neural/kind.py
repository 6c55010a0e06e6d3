"""Kinds of networks that are trained and read here: the declarations of a kind, and its inherited methods."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from rescore.errors import UserError
from rescore.lms.base import ComputeOptions, Kind, LanguageModel, Report, Spec
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.options import TrainingOptions
from rescore.parts import EXPERIMENTS, KINDS, resolve

if TYPE_CHECKING:
    from rescore.lms.neural.blocks import Network
    from rescore.lms.neural.passes import Network as ScoredNetwork
    from rescore.lms.neural.passes import NetworkScorer
    from rescore.lms.neural.tokenizer import Tokenizer
    from rescore.lms.training.objectives import Objective, Task
    from rescore.lms.training.options import Lesson


class NeuralKind(Kind):
    """A kind of network. A new kind implements the members declared here; training, checkpoints, scoring, the cache and
    the command line then support it."""

    uses_torch = True
    is_network = True
    family: ClassVar[str] = "transformer"
    """Kinds of the same family can start from each other's weights."""
    scaled_embeddings: ClassVar[bool] = True
    """Whether a network scales its embeddings by sqrt(d) if its config.json does not say it."""
    shape: ClassVar[tuple[str, ...]] = ()
    """Fields of `NetworkConfig` that only some kinds have, and this one has."""

    def check(self, config: NetworkConfig) -> None:
        """See that a network of this kind can be made so.

        Raises:
            UserError: it cannot.
        """
        if config.d_model % config.heads and self.family == "transformer":
            raise UserError(f"d_model {config.d_model} cannot be divided among {config.heads} heads")
        if config.sentences > 1 and not any(self.capabilities.context):
            raise UserError(f"sentences is {config.sentences}; a {self.name} reads one sentence at a time")
        for name in ("phrases", "source", "cloze", "bi_source"):
            value = getattr(config, name)
            if value and name not in self.shape:
                able = [kind for kind in KINDS.names if KINDS[kind].is_network and name in KINDS[kind].shape]
                raise UserError(f"{name} is {json.dumps(value)}; a {self.name} has none, {' or '.join(able)} may")

    def network(self, config: NetworkConfig) -> Network:
        """A network with fresh random weights."""
        raise NotImplementedError

    def objective(self, tokenizer: Tokenizer, options: Any) -> Objective:
        """The training objective on sentences.

        Args:
            options: of the class `Options`.

        Raises:
            UserError: files that the options name are missing or do not fit.
        """
        raise NotImplementedError

    @classmethod
    def training_options(cls) -> type[TrainingOptions] | None:
        """The class `Options`, and the options of the experiments that suit the kind."""
        if cls.Options is None:
            return None
        names = (name for name in EXPERIMENTS.names if EXPERIMENTS[name].suits(cls.capabilities))
        return _with_experiments(cls, *names)  # type: ignore[arg-type]  # mypy does not see that classes have hashes

    def tasks(self, lesson: Lesson) -> list[Task]:
        """The tasks of the batches in turn, repeated."""
        from rescore.lms.training.objectives import Task

        usual = Task(self.name, lesson.text, self.objective(lesson.tokenizer, lesson.options))
        return lesson.options.tasks(usual, lesson)

    def scorer(self, spec: Spec, network: ScoredNetwork) -> NetworkScorer:
        """The scorer of single sentences with a network and the options of --lm."""
        raise NotImplementedError

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        from rescore.lms.neural import scoring

        return scoring.load(spec, computing, partial(self.scorer, spec))

    def train(self, options: TrainingOptions, report: Report = lambda line: None) -> None:
        resolve("rescore.lms.training.train:train")(self, options, report=report)


@cache
def _with_experiments(kind: type[NeuralKind], *names: str) -> type[TrainingOptions]:
    """The options of a kind and of experiments, in a class; the same class at each call."""
    assert kind.Options is not None
    bases = (*(EXPERIMENTS[name] for name in reversed(names)), kind.Options)
    return dataclass(frozen=True, kw_only=True)(type("Options", bases, {"__module__": kind.__module__}))
