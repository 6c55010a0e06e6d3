"""The kind of ELECTRA's discriminators and the options of its training;
`rescore.research.electra` has the network. This module needs no PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rescore.errors import UserError
from rescore.files import sha256
from rescore.lms.base import Capabilities, Spec
from rescore.lms.config import NetworkConfig
from rescore.lms.kinds import NeuralKind
from rescore.lms.training.options import MaskingOptions, model_folder
from rescore.options import DIGITS, option, read_file

if TYPE_CHECKING:
    from rescore.lms.scorers import ScoredNetwork
    from rescore.lms.tokenizer import Tokenizer
    from rescore.research.electra import ElectraScorer, ReplacedTokenDetection


@dataclass(frozen=True, kw_only=True)
class ElectraOptions(MaskingOptions):
    """Options of a discriminator; `mask_rate` is the share of the replaced tokens."""

    title = "Replaced tokens"

    generator: str | None = option(
        None,
        "T-TA that samples the replacements: NAME of a shipped model, such as tta, or"
        " DIR. The new model has its tokenizer.",
        metavar="NAME|DIR",
    )
    confusions: str | None = read_file(
        None,
        "N-best lists: a token is replaced by tokens that other hypotheses of a list"
        " have in its place; with --generator, in half of the cases.",
        metavar="LISTS",
    )

    def __post_init__(self) -> None:
        if self.generator is None and self.confusions is None:
            raise UserError(
                "an electra learns from replaced tokens; give --generator tta,"
                " --confusions LISTS, or both"
            )
        if self.generator is not None and self.size is not None:
            raise UserError("the tokenizer is the generator's; leave out --size")
        if self.tokenizer is None and self.init is None and self.generator_folder:
            file = self.generator_folder / "tokenizer.json"
            object.__setattr__(self, "tokenizer", file)  # the class is frozen
        super().__post_init__()

    @property
    def generator_folder(self) -> Path | None:
        """The folder of the generator."""
        if self.generator is None:
            return None
        return model_folder("--generator", self.generator)

    @property
    def contents(self) -> dict[str, Any]:
        sources: dict[str, str | None] = {"generator": None, "confusions": None}
        if self.generator_folder:
            weights = self.generator_folder / "model.safetensors"
            sources["generator"] = _named(weights, self.generator_folder.name)
        if self.confusions is not None:
            lists = Path(self.confusions)
            sources["confusions"] = _named(lists, lists.name)
        return super().contents | sources

    def shaped(self, config: NetworkConfig) -> NetworkConfig:
        config = super().shaped(config)
        if self.generator_folder:
            generator = NetworkConfig.load(self.generator_folder / "config.json")
            if generator.max_positions < config.max_positions:
                raise UserError(
                    f"--generator {self.generator}: reads at most"
                    f" {generator.max_positions} tokens, the new network"
                    f" {config.max_positions}; give --config FILE with max_positions"
                    f" {generator.max_positions}"
                )
        return config


def _named(path: Path, name: str) -> str:
    """Return a name with the digest of a file; the name alone where there is no
    file.
    """
    if not path.is_file():
        return name
    return f"{name}@{sha256(path).hex()[:DIGITS]}"


class ElectraKind(NeuralKind):
    """A discriminator (Clark et al. 2020): tells of each token of the intact sentence
    whether it is a replacement.
    """

    architecture = "rescore.research.electra:Electra"
    capabilities = Capabilities(pseudo=True, predicts=False, vectors=True)
    Options = ElectraOptions

    def check(self, config: NetworkConfig) -> None:
        super().check(config)
        if config.output_bias:
            raise UserError(
                "output_bias is true; an electra has biases of two labels, not of"
                " words: set it to false"
            )

    def objective(self, tokenizer: Tokenizer, options: Any) -> ReplacedTokenDetection:
        from rescore.lms.training.objectives import MaskedLanguageModelling
        from rescore.research.electra import (
            Confusions,
            ReplacedTokenDetection,
            SampledTokens,
        )

        positions = MaskedLanguageModelling(
            tokenizer, options.mask_rate, options.mask_cap
        )
        generator = None
        if options.generator_folder:
            generator = SampledTokens(options.generator_folder, tokenizer)
        confusions = None
        if options.confusions is not None:
            confusions = Confusions.read(options.confusions, tokenizer)
        return ReplacedTokenDetection(positions, generator, confusions)

    def scorer(self, spec: Spec, network: ScoredNetwork) -> ElectraScorer:
        from rescore.research.electra import ElectraScorer

        return ElectraScorer(spec.name, network)
