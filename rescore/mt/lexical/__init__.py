"""Translation models of single words (Brown et al. 1993): the kind and its options."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.lms.base import Capabilities, ComputeOptions, Kind, Report, Spec
from rescore.lms.options import TokenizerOptions, TrainingOptions
from rescore.mt.lexical.model import LONGEST_PHRASE
from rescore.options import option

if TYPE_CHECKING:
    from rescore.mt.lexical.model import LexicalLM


class LexicalKind(Kind):
    """p(target | source) or p(source | target), word by word; estimated by EM."""

    capabilities = Capabilities(source=True)
    options = ("channel", "coverage", "length", "phrases")
    readings = ("", "channel", "coverage", "channel:coverage", "length")

    @dataclass(frozen=True, kw_only=True)
    class Options(TokenizerOptions):
        title = "Lexical translation models"
        usual_normalisation = "folded"

        pairs: tuple[tuple[Path, Path], ...] = option(
            (),
            "Sentences and their translations, line by line. May be repeated: each text is estimated separately, and "
            "the weighted counts are added.",
            metavar="SOURCE TARGET",
            common=True,
        )
        pairs_weight: tuple[float, ...] = option(
            (),
            "With several --pairs: weight of the pairs of each text, in the order of --pairs.  [default: 1, or "
            "learned on --dev-pairs]",
            metavar="NUMBER",
            low=0,
            high=math.inf,
            open_low=True,
            open_high=True,
        )
        dev_pairs: tuple[Path, Path] | None = option(
            None,
            "With several --pairs: held-out text. The weights of the texts maximise its likelihood.",
            metavar="SOURCE TARGET",
        )
        alignment: str = option(
            "diagonal",
            "none: all source words are equally likely a priori (IBM Model 1); diagonal: source words at a "
            "similar position are preferred (fast_align).",
            choices=("none", "diagonal"),
        )
        iterations: int = option(
            5, "EM iterations of Model 1; --alignment diagonal adds the same number.", low=1, high=100, common=True
        )
        pieces: int = option(
            8_000,
            "Number of subwords, trained on both languages; 0 uses words. With --tokenizer, its subwords are used.",
            metavar="N",
            low=0,
            high=1_000_000,
        )
        phrases: int = option(
            0,
            "Longest phrase in subwords, for --lm lexical:phrases:DIR; 6 is a good length, 0 writes no phrases. All "
            "texts count alike: --pairs-weight does not apply to phrases.",
            metavar="N",
            low=0,
            high=LONGEST_PHRASE,
        )
        lists: tuple[str, ...] = option(
            (),
            "N-best lists whose sources and best first-pass texts are additional pairs. May be repeated.",
            metavar="NBEST",
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.dev_pairs and self.pairs_weight:
                raise UserError("--dev-pairs and --pairs-weight exclude each other")
            if (self.dev_pairs or self.pairs_weight) and len(self.pairs) < 2:
                raise UserError("--dev-pairs and --pairs-weight are for several --pairs")
            if len(self.pairs_weight) not in (0, len(self.pairs)):
                raise UserError(
                    f"{len(self.pairs)} --pairs, but {len(self.pairs_weight)} --pairs-weight; give one for each --pairs"
                )

    def load(self, spec: Spec, computing: ComputeOptions) -> LexicalLM:
        """`lexical[:channel][:coverage]:DIR`, `lexical:length:DIR`, `lexical:phrases:DIR`."""
        from rescore.mt.lexical.model import LexicalLM

        if "length" in spec.options and {"channel", "coverage"} & set(spec.options):
            raise UserError(f"--lm {spec.name}: length cannot be combined with channel or coverage")
        if "phrases" in spec.options:
            if len(set(spec.options) & set(self.options)) > 1:
                raise UserError(f"--lm {spec.name}: phrases cannot be combined with channel, coverage or length")
            from rescore.mt.lexical.phrases import PhraseLM

            return PhraseLM(spec.name, spec.path)
        return LexicalLM(spec.name, spec.path, spec.options)

    def train(self, options: TrainingOptions, report: Report = lambda line: None) -> None:
        from rescore import formats
        from rescore.mt.lexical.estimation import LexicalRecipe, train

        assert isinstance(options, LexicalKind.Options)
        if not options.pairs:
            raise UserError("no translations to train on; give --pairs SOURCE TARGET")
        train(
            options.pairs,
            options.out,
            LexicalRecipe(
                options.pieces,
                options.alignment,
                (options.iterations, options.iterations),
                weights=options.pairs_weight,
                phrases=options.phrases,
            ),
            dev=options.dev_pairs,
            lists=formats.read(list(options.lists)) if options.lists else [],
            tokenizer=options.tokenizer,
            normalisation=options.normalisation,
            report=report,
        )
