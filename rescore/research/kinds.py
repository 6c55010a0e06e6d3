"""What the experiments add to the tables of parts: kinds of networks, and options of the trainings of other kinds.

This module needs no PyTorch; the networks and objectives are in the modules beside it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.lms.base import Capabilities, Spec
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import DirectedKind, NeuralKind
from rescore.lms.training.options import Experiment, MaskingOptions, NeuralOptions, TrainingData, model_folder
from rescore.options import option

if TYPE_CHECKING:
    from rescore.lms.scorers import Network
    from rescore.lms.tokenizer import Tokenizer
    from rescore.lms.training.objectives import Curriculum, Task
    from rescore.research.electra import ElectraScorer, ReplacedTokenDetection
    from rescore.research.permutation import PermutationLanguageModelling, PermutationScorer


class LstmKind(DirectedKind):
    family = "lstm"
    architecture = "rescore.research.lstm:LSTM"


class BackwardLstmKind(LstmKind):
    backwards = True


class ElectraKind(NeuralKind):
    """ELECTRA, a discriminator: says of each token of the intact sentence whether it is a replacement."""

    architecture = "rescore.research.electra:Electra"
    capabilities = Capabilities(True, vectors=True)

    @dataclass(frozen=True, kw_only=True)
    class Options(MaskingOptions):
        """A share of the tokens (`mask_rate`) is replaced."""

        title = "Replaced tokens"

        generator: str | None = option(
            None, "T-TA that samples the replacements; the new model uses its tokenizer.", metavar="NAME|DIR"
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.generator is None:
                raise UserError("electra learns from replaced tokens; give --generator tta")

        @property
        def generator_folder(self) -> Path:
            return model_folder("--generator", str(self.generator))

        @property
        def given_tokenizer(self) -> Path | None:
            if self.tokenizer is None and self.init is None:
                return self.generator_folder / "tokenizer.json"
            return self.tokenizer

        @property
        def objective(self) -> dict[str, Any]:
            folder = self.generator_folder
            digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:12]
            return super().objective | {"generator": f"{folder.resolve().name}@{digest}"}

        def shaped(self, config: NetworkConfig) -> NetworkConfig:
            config = super().shaped(config)
            longest = NetworkConfig.load(self.generator_folder / "config.json").max_positions
            if longest < config.max_positions:
                raise UserError(
                    f"--generator {self.generator}: reads at most {longest} tokens, the network that is trained "
                    f"{config.max_positions}; give --config FILE with max_positions {longest}"
                )
            return config

    def objective(self, tokenizer: Tokenizer, options: Any) -> ReplacedTokenDetection:
        from rescore.research.electra import Generator, ReplacedTokenDetection

        generator = Generator(options.generator_folder, tokenizer)
        return ReplacedTokenDetection(generator, options.mask_rate, options.mask_cap)

    def scorer(self, spec: Spec, network: Network) -> ElectraScorer:
        from rescore.research.electra import ElectraScorer

        return ElectraScorer(spec.name, network)


class PermutationKind(NeuralKind):
    """Each token is predicted from those before it in a random order of the sentence (XLNet, with T-TA layers)."""

    architecture = "rescore.research.permutation:Permutation"
    capabilities = Capabilities(vectors=True, predicts_tokens=True)
    Options = NeuralOptions

    def objective(self, tokenizer: Tokenizer, options: Any) -> PermutationLanguageModelling:
        from rescore.research.permutation import PermutationLanguageModelling

        return PermutationLanguageModelling(tokenizer)

    def scorer(self, spec: Spec, network: Network) -> PermutationScorer:
        from rescore.research.permutation import PermutationScorer

        return PermutationScorer(spec.name, network)


@dataclass(frozen=True, kw_only=True)
class HypernymOptions(Experiment):
    """Hypernym classes, for kinds that predict tokens: see `rescore.research.targets`."""

    hypernyms: str | None = option(
        None,
        "WordNet folder. The network first predicts the classes of rare nouns, later the nouns.",
        metavar="DIR",
    )

    @staticmethod
    def suits(capabilities: Capabilities) -> bool:
        return capabilities.predicts_tokens

    @property
    def objective(self) -> dict[str, Any]:
        return super().objective | {"hypernyms": self.hypernyms}

    def curriculum(self, tokenizer: Tokenizer, counts: npt.NDArray[np.int64]) -> Curriculum | None:
        if self.hypernyms is None:
            return super().curriculum(tokenizer, counts)
        from rescore.research.targets import HypernymClasses

        return HypernymClasses.read(Path(self.hypernyms), tokenizer, counts)


@dataclass(frozen=True, kw_only=True)
class OrderOptions(Experiment):
    """Sentence order, for kinds that predict a token from both sides: see `rescore.research.targets`."""

    sentence_order: str | None = option(
        None,
        "Also learn whether two consecutive lines are swapped, from the vector of [BOS] (sop) or the mean "
        "vector (srp). An empty line ends a document.",
        choices=("sop", "srp"),
    )

    @staticmethod
    def suits(capabilities: Capabilities) -> bool:
        return capabilities.predicts_tokens and capabilities.pseudo

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sentence_order is not None and self.reads_more:
            raise UserError("--sentence-order cannot be combined with --context or --pairs")

    def window(self, config: NetworkConfig) -> int:
        return 2 if self.sentence_order is not None else super().window(config)

    def tasks(self, usual: Task, data: TrainingData) -> list[Task]:
        tasks = super().tasks(usual, data)
        if self.sentence_order is not None:
            from rescore.research.targets import order_task

            tasks.append(order_task(self.sentence_order, usual, data.config, data.tokenizer))
        return tasks
