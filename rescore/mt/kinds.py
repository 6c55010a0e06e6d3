"""The kinds `unified`, one network of several readings, with or without a source (Dong et al. 2019, UniLM), and
`lexical`, translation models of single words (Brown et al. 1993).

This module needs no PyTorch; the network and its objectives are in `rescore.mt.unified`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rescore.errors import UserError
from rescore.lms.base import Capabilities, ComputeOptions, Kind, LanguageModel, Report, Spec
from rescore.lms.kinds import NeuralKind
from rescore.lms.options import PairOptions, TokenizerOptions, TrainingOptions
from rescore.lms.training.options import MaskingOptions, TrainingData, TranslationOptions
from rescore.options import option

if TYPE_CHECKING:
    from rescore.lms.training.objectives import Task
    from rescore.mt.lexical.model import LexicalLM

MIXTURE = ("bi", "l2r", "seq2seq", "bi", "r2l", "seq2seq")
"""The readings of the batches in turn: a third from both sides, a third with a source, a sixth in each
direction (Dong et al. 2019, section 2.3). There, an input read from both sides has two sentences."""
PAIRED = "seq2seq"
"""The reading that is learned from pairs."""


class UnifiedKind(NeuralKind):
    """One network, four attention masks (Dong et al. 2019, UniLM); an option of --lm chooses the reading."""

    architecture = "rescore.mt.unified:Unified"
    capabilities = Capabilities(source=True, vectors=True)
    options = ("bi", "l2r", "r2l", "seq2seq", "channel", "intact")

    @dataclass(frozen=True, kw_only=True)
    class Options(MaskingOptions, TranslationOptions):
        title = "Readings"

        reading: tuple[str, ...] = option(
            (),
            "Train only this reading, for example after --init. May be repeated.  [default: all]",
            choices=("bi", "l2r", "r2l", "seq2seq"),
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            paired = PAIRED in self.readings
            if self.pairs is not None and not paired:
                raise UserError(f"--reading {self.readings[0]}: learns from single sentences; leave out --pairs")
            if self.pairs is None and paired and self.steps != 0:
                raise UserError("a unified network learns from translations, too; give --pairs SOURCE TARGET")

        @property
        def readings(self) -> tuple[str, ...]:
            """The readings that are trained."""
            return self.reading or MIXTURE

        @property
        def apart(self) -> bool:
            return False

    def is_pseudo(self, options: Sequence[str]) -> bool:
        return "bi" in options

    def tasks(self, data: TrainingData) -> list[Task]:
        """Without pairs the readings of single sentences are left."""
        from rescore.lms.training.objectives import Task
        from rescore.mt.unified import objectives

        options = data.options
        assert isinstance(options, UnifiedKind.Options)
        named_objectives = objectives(data.tokenizer, options.mask_rate, options.mask_cap)
        corpora = {name: data.pairs if name == PAIRED else data.text for name in MIXTURE}
        tasks = {
            name: Task(name, corpus, named_objectives[name]) for name, corpus in corpora.items() if corpus is not None
        }
        return [tasks[name] for name in MIXTURE if name in tasks and name in options.readings]

    def load(self, spec: Spec, computing: ComputeOptions) -> LanguageModel:
        """`unified:READING:DIR`."""
        from rescore.mt.unified import READINGS

        named = sorted(option for option in spec.options if option in READINGS)
        if len(named) != 1:
            listed = " and ".join(named) or "nothing"
            raise UserError(f"--lm unified: expected one of {', '.join(READINGS)} as in unified:bi:DIR, found {listed}")
        return READINGS[named[0]](spec, computing)


class LexicalKind(Kind):
    """p(target | source) or p(source | target), word by word; estimated by EM."""

    capabilities = Capabilities(source=True)
    options = ("channel", "coverage", "length")
    readings = ("", "channel", "coverage", "channel:coverage", "length")

    @dataclass(frozen=True, kw_only=True)
    class Options(TokenizerOptions, PairOptions):
        title = "Lexical translation models"
        usual_normalisation = "folded"

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

    def load(self, spec: Spec, computing: ComputeOptions) -> LexicalLM:
        """`lexical[:channel][:coverage]:DIR`, `lexical:length:DIR`."""
        from rescore.mt.lexical.model import LexicalLM

        if "length" in spec.options and {"channel", "coverage"} & set(spec.options):
            raise UserError(f"--lm {spec.name}: length cannot be combined with channel or coverage")
        return LexicalLM(spec.name, spec.path, spec.options)

    def train(self, options: TrainingOptions, report: Report = lambda line: None) -> None:
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
