"""Kinds of networks that are trained and read here: the declarations of a kind, and its inherited methods."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rescore.errors import UserError
from rescore.lms.base import ComputeOptions, Kind, LanguageModel, Report, Spec
from rescore.lms.neural.config import NetworkConfig
from rescore.lms.options import TrainingOptions
from rescore.parts import KINDS, resolve

if TYPE_CHECKING:
    from rescore.lms.neural.blocks import Network
    from rescore.lms.neural.options import Lesson
    from rescore.lms.neural.passes import Network as ScoredNetwork
    from rescore.lms.neural.passes import NetworkScorer
    from rescore.lms.neural.tokenizer import Tokenizer
    from rescore.lms.neural.training.objectives import Objective, Task


class NeuralKind(Kind):
    """A kind of network. A new kind implements the members declared here; training, checkpoints, scoring, the cache and
    the command line then support it."""

    uses_torch = True
    is_network = True
    family: ClassVar[str] = "transformer"
    """Kinds of the same family can start from each other's weights."""
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

    def tasks(self, lesson: Lesson) -> list[Task]:
        """The tasks of the batches in turn, repeated."""
        from rescore.lms.neural.training.objectives import Task

        usual = Task(self.name, lesson.text, self.objective(lesson.tokenizer, lesson.options))
        return lesson.options.tasks(usual, lesson)

    def scorer(self, spec: Spec, network: ScoredNetwork) -> NetworkScorer:
        """The scorer of single sentences with a network and the options of --lm."""
        raise NotImplementedError

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        from rescore.lms.neural import scoring

        return scoring.load(spec, computing, partial(self.scorer, spec))

    def train(self, options: TrainingOptions, report: Report = lambda line: None) -> None:
        resolve("rescore.lms.neural.training.train:train")(self, options, report=report)
