"""Translation models of single words (Brown et al. 1993): the kind and its options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.lms.base import Capabilities, ComputeOptions, Kind, Report, Spec
from rescore.lms.options import PairOptions, TokenizerOptions, TrainingOptions, option

if TYPE_CHECKING:
    from rescore.lms.lexical.model import LexicalLM


class LexicalKind(Kind):
    """p(target | source) or p(source | target), word by word; estimated by EM."""

    capabilities = Capabilities(source=True)
    options = ("channel", "coverage", "length")

    @dataclass(frozen=True, kw_only=True)
    class Options(PairOptions, TokenizerOptions):
        title = "Lexical translation models"
        usual_normalisation = "folded"

        alignment: str = option(
            "diagonal",
            "none: all source words are equally likely a priori (IBM Model 1); diagonal: source words at a "
            "similar position are preferred (fast_align).",
            choices=("none", "diagonal"),
        )
        iterations: int = option(
            5, "EM iterations of Model 1; --alignment diagonal adds the same number.", low=1, high=100
        )
        pieces: int = option(
            8_000,
            "Number of subwords, trained on both languages; 0 uses words. With --tokenizer, its subwords are used.",
            metavar="N",
            low=0,
            high=1_000_000,
        )
        lists: tuple[str, ...] = option(
            (),
            "N-best lists whose sources and best first-pass texts are additional pairs. May be repeated.",
            metavar="NBEST",
        )

    def load(self, spec: Spec, computing: ComputeOptions) -> LexicalLM:
        """`lexical[:channel][:coverage]:DIR`, `lexical:length:DIR`."""
        from rescore.lms.lexical.model import LexicalLM

        if "length" in spec.options and len(spec.options) > 1:
            raise UserError(f"--lm {spec.name}: length has no other options")
        return LexicalLM(spec.name, spec.path, spec.options)

    def train(self, options: TrainingOptions, report: Report = lambda line: None) -> None:
        from rescore import formats
        from rescore.lms.lexical.estimation import LexicalRecipe, train

        assert isinstance(options, LexicalKind.Options)
        if options.pairs is None:
            raise UserError("no translations to train on; give --pairs SOURCE TARGET")
        train(
            *options.pairs,
            options.out,
            LexicalRecipe(options.pieces, options.alignment, (options.iterations, options.iterations)),
            lists=formats.read(list(options.lists)) if options.lists else [],
            tokenizer=options.tokenizer,
            normalisation=options.normalisation,
            report=report,
        )
