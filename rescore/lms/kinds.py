"""The kinds of networks: the members that a kind declares (`NeuralKind`), and T-TA,
biLM and uniLM.

This module needs no PyTorch; the networks and objectives are in the modules beside it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rescore.errors import UserError
from rescore.lms.base import (
    BEFORE,
    BOTH_SIDES,
    Capabilities,
    ComputeOptions,
    Kind,
    LanguageModel,
    Report,
    Spec,
)
from rescore.lms.config import NetworkConfig
from rescore.parts import KINDS, resolve

if TYPE_CHECKING:
    from rescore.lms.networks import Network
    from rescore.lms.options import TrainingOptions
    from rescore.lms.scorers import NetworkScorer, ScoredNetwork
    from rescore.lms.tokenizer import Tokenizer
    from rescore.lms.training.objectives import Objective, Task
    from rescore.lms.training.options import TrainingData


class NeuralKind(Kind):
    """A kind of network. A new kind implements the members declared here; training,
    checkpoints, scoring, the cache and the command line then support it.
    """

    is_network = True
    scaled_embeddings: ClassVar[bool] = True
    """Whether a network scales its embeddings by sqrt(d) if its config.json does not
    say it.
    """
    Config: ClassVar[type[NetworkConfig]] = NetworkConfig
    """The configuration of its networks, with fields of its own."""
    architecture: ClassVar[str] = ""
    """The class of its networks, as "module:class"."""
    trained_with: ClassVar[str] = ""
    """The class of its training options, as "module:class", where it is not the
    attribute `Options`; scoring does not load it.
    """
    reads_source: ClassVar[bool] = False
    """Whether its networks may have `NetworkConfig.source`."""
    version: ClassVar[str] = ""
    """A part of the fingerprint of its models. Change it when the code of the network
    or of the scorer changes: then scores in caches and weights of before are refused.
    """

    def check(self, config: NetworkConfig) -> None:
        """Check that a configuration is possible for this kind.

        Args:
            config: The configuration of a network.

        Raises:
            UserError: The configuration is not possible.
        """
        if config.d_model % config.heads:
            raise UserError(
                f"d_model {config.d_model} cannot be divided among {config.heads} heads"
            )
        reads_more = any(self.capabilities.context) or self.capabilities.source
        if config.sentences > 1 and not reads_more:
            raise UserError(
                f"sentences is {config.sentences}; kind {self.name} reads one sentence"
                " at a time"
            )
        if config.source and not self.reads_source:
            able = []
            for name, kind in KINDS.loaded():
                if kind.is_network and kind.reads_source:
                    able.append(name)
            raise UserError(
                f"source is true; a {self.name} has none, {' or '.join(able)} may"
            )

    def network(self, config: NetworkConfig) -> Network:
        """Return a network with fresh random weights.

        Args:
            config: The configuration of the network.
        """
        return cast("Network", resolve(self.architecture)(config))

    def objective(self, tokenizer: Tokenizer, options: Any) -> Objective:
        """Return the training objective on sentences.

        Args:
            tokenizer: The tokenizer of the network.
            options: Options of the class `training_options()`.
        """
        raise NotImplementedError

    @classmethod
    def training_options(cls) -> type[TrainingOptions] | None:
        """Return the class of all options of a training, and import its module."""
        return cls.Options or cast("type[TrainingOptions]", resolve(cls.trained_with))

    def tasks(self, data: TrainingData) -> list[Task]:
        """Return the tasks of the batches in turn, which are repeated.

        Args:
            data: The texts, the tokenizer and the options of the training.
        """
        from rescore.lms.training.objectives import Task

        usual = Task(self.name, data.text, self.objective(data.tokenizer, data.options))
        return data.options.tasks(usual, data)

    def scorer(self, spec: Spec, network: ScoredNetwork) -> NetworkScorer:
        """Return the scorer of single sentences.

        Args:
            spec: The value of --lm, with the options that change the scorer.
            network: The network that scores.
        """
        raise NotImplementedError

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        """Return the scorer of a model folder, with neighbours or a source as the
        options of --lm say.
        """
        from rescore.lms import own

        return own.load(spec, computing, partial(self.scorer, spec))

    def train(
        self, options: TrainingOptions, report: Report = lambda line: None
    ) -> None:
        """Train a network and write its folder."""
        resolve("rescore.lms.training.train:train")(self, options, report=report)


class TtaKind(NeuralKind):
    """The Transformer-based Text Autoencoder (Shin et al. 2020), which predicts every
    token from all others in one pass.
    """

    architecture = "rescore.lms.networks:TTA"
    scaled_embeddings = False
    capabilities = Capabilities(True, source=True, context=BOTH_SIDES, vectors=True)
    options: ClassVar[tuple[str, ...]] = ("context=", "channel")
    reads_source = True
    trained_with = "rescore.lms.training.options:TtaOptions"

    def objective(self, tokenizer: Tokenizer, options: Any) -> Objective:
        """Return LAE, with the frame predicted if `options.predict_frame`."""
        from rescore.lms.training.objectives import (
            FramedAutoencoding,
            LanguageAutoencoding,
        )

        if options.predict_frame:
            return FramedAutoencoding()
        return LanguageAutoencoding()

    def scorer(self, spec: Spec, network: ScoredNetwork) -> NetworkScorer:
        """Return the scorer of one pass."""
        from rescore.lms.scorers import NetworkScorer

        return NetworkScorer(spec.name, network)


class BilmKind(NeuralKind):
    """The masked bidirectional language model (dissertation, chapters 3 and 4): BERT's
    encoder at the T-TA's size.
    """

    architecture = "rescore.lms.networks:BiLM"
    capabilities = Capabilities(True, source=True, context=BOTH_SIDES, vectors=True)
    options: ClassVar[tuple[str, ...]] = ("intact", "context=", "channel")
    reads_source = True
    trained_with = "rescore.lms.training.options:BilmOptions"

    def objective(self, tokenizer: Tokenizer, options: Any) -> Objective:
        """Return MLM with the rate and the cap of the options."""
        from rescore.lms.training.objectives import MaskedLanguageModelling

        return MaskedLanguageModelling(tokenizer, options.mask_rate, options.mask_cap)

    def scorer(self, spec: Spec, network: ScoredNetwork) -> NetworkScorer:
        """Return the scorer of masked tokens; with `intact`, the scorer of one
        pass.
        """
        from rescore.lms.masked import masked_scorer

        return masked_scorer(spec, network)


class UnilmKind(NeuralKind):
    """The causal language model: the hidden vector at position i predicts token i + 1.

    A `backwards` kind is the same network on reversed sentences.
    """

    architecture = "rescore.lms.networks:UniLM"
    capabilities = Capabilities(context=BEFORE, vectors=True)
    options: ClassVar[tuple[str, ...]] = ("context=",)
    trained_with = "rescore.lms.training.options:ContextOptions"
    backwards: ClassVar[bool] = False
    """Whether networks read sentences from their ends."""

    def objective(self, tokenizer: Tokenizer, options: Any) -> Objective:
        """Return CLM in the direction of the kind."""
        from rescore.lms.training.objectives import (
            BackwardLanguageModelling,
            CausalLanguageModelling,
        )

        if self.backwards:
            return BackwardLanguageModelling()
        return CausalLanguageModelling()

    def scorer(self, spec: Spec, network: ScoredNetwork) -> NetworkScorer:
        """Return the scorer in the direction of the kind."""
        from rescore.lms.causal import BackwardScorer, CausalScorer

        if self.backwards:
            return BackwardScorer(spec.name, network)
        return CausalScorer(spec.name, network)


class BackwardUnilmKind(UnilmKind):
    """The uniLM on reversed sentences, which reads no neighbours."""

    capabilities = Capabilities(vectors=True)
    options: ClassVar[tuple[str, ...]] = ()
    trained_with = "rescore.lms.training.options:NeuralOptions"
    backwards = True
