"""The kind `lexical`: translation models of single words (Brown et al. 1993)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.lms.base import Capabilities, ComputeOptions, Kind, Report, Spec
from rescore.lms.options import PairOptions, TokenizerOptions, TrainingOptions
from rescore.options import option

if TYPE_CHECKING:
    from rescore.mt.lexical.model import LexicalLM


class LexicalKind(Kind):
    """p(target | source) or p(source | target), word by word; estimated by EM."""

    capabilities = Capabilities(source=True)
    computes = False
    options = ("channel", "coverage", "length")
    readings = ("", "channel", "coverage", "channel:coverage", "length")

    @dataclass(frozen=True, kw_only=True)
    class Options(TokenizerOptions, PairOptions):
        title = "Lexical translation models"
        usual_normalisation = "folded"

        alignment: str = option(
            "diagonal",
            "none: all source words are equally likely a priori (IBM Model 1);"
            " diagonal: source words at a similar position are preferred (fast_align).",
            choices=("none", "diagonal"),
        )
        iterations: int = option(
            5,
            "EM iterations of Model 1; --alignment diagonal adds the same number.",
            low=1,
            high=100,
            common=True,
        )
        pieces: int = option(
            8_000,
            "Number of subwords, trained on both languages; 0 uses words. With"
            " --tokenizer, its subwords are used.",
            metavar="N",
            low=0,
            high=1_000_000,
        )

    def load(self, spec: Spec, computing: ComputeOptions) -> LexicalLM:
        """Return a model of `lexical[:channel][:coverage]:DIR` or `lexical:length:DIR`.

        Args:
            spec: The options, and the folder DIR.
            computing: Not used.

        Raises:
            UserError: The options do not go together, or the folder has no model.
        """
        from rescore.mt.lexical.model import LexicalLM

        if "length" in spec.options and {"channel", "coverage"} & set(spec.options):
            raise UserError(
                f"--lm {spec.name}: length cannot be combined with channel or coverage"
            )
        return LexicalLM(spec.name, spec.path, spec.options)

    def train(
        self, options: TrainingOptions, report: Report = lambda line: None
    ) -> None:
        """Estimate a model and write its folder.

        Args:
            options: Options of the class `Options`.
            report: Takes lines about the progress.

        Raises:
            UserError: There are no translations, or they cannot be read.
        """
        from rescore.mt.lexical.estimation import train

        assert isinstance(options, LexicalKind.Options)
        if options.pairs is None:
            raise UserError("no translations to train on; give --pairs SOURCE TARGET")
        train(
            options.pairs,
            options.out,
            pieces=options.pieces,
            alignment=options.alignment,
            iterations=options.iterations,
            tokenizer=options.tokenizer,
            normalisation=options.normalisation,
            report=report,
        )
