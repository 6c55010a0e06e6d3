"""The tables of parts: what there is of each kind. One line here, and a part is in `--help`, errors and the docs.

A part is named as "module:attribute" and imported when it is used: this module costs nothing, and lies below all
rooms.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rescore.errors import UserError

Part = TypeVar("Part")


def resolve(name: str) -> Any:
    """What "module:attribute" or "module" names; the module is imported now."""
    module, _, attributes = name.partition(":")
    found: Any = importlib.import_module(module)
    for attribute in filter(None, attributes.split(".")):
        found = getattr(found, attribute)
    return found


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that nobody knows: the name that is most like it, if one is."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


class Registry(Generic[Part]):
    """Names and what they stand for. A part may be given as "module:attribute"; it is then imported when it is used.

    Example:
        >>> table = Registry("function", {"square root": ("math:sqrt", "of a number")})
        >>> table["square root"](4.0)
        2.0
    """

    def __init__(self, kind: str, parts: dict[str, tuple[Part | str, str]]) -> None:
        """
        Args:
            kind: what the parts are, for error messages. parts: name -> the part, and what it is in a few words.
        """
        self.kind = kind
        self._parts = dict(parts)

    @property
    def names(self) -> list[str]:
        return list(self._parts)

    def about(self, name: str) -> str:
        """What a part is, in a few words."""
        return self._parts[name][1]

    def register(self, name: str, part: Part | str, about: str = "") -> None:
        """Add a part, or replace the one of that name."""
        self._parts[name] = (part, about)

    def remove(self, name: str) -> None:
        del self._parts[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._parts

    def check(self, name: str) -> str:
        """The name, if there is such a part, in the table's letter case.

        Raises:
            UserError: there is none.
        """
        for known in self._parts:
            if known == name or known.casefold() == name.casefold():
                return known
        raise UserError(f"{self.kind} {name!r} is not one of {', '.join(self._parts)}{did_you_mean(name, self._parts)}")

    def __getitem__(self, name: str) -> Part:
        part = self._parts[self.check(name)][0]
        return resolve(part) if isinstance(part, str) else part


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of language model."""

    loader: str | Callable[[Any, Any], Any]
    """Makes a `LanguageModel` of a `Spec` and `ComputeOptions`; "module:function" is imported when it is used."""
    options: tuple[str, ...] = ()
    """How else than usually it can score; a case (`rescore.lms.context`) can be named with every kind."""
    readings: tuple[str, ...] = ()
    """The options of each model that KIND:all stands for, joined by colons."""
    pseudo: bool = False
    """Whether scores are pseudo-log-likelihoods."""
    pseudo_with: str | None = None
    """An option with which alone they are."""
    on_hub: bool = False
    """Whether a path that is no folder is looked up as a name on the Hugging Face hub."""
    remote: bool = False
    """Whether URL#MODEL stands in the place of a path."""
    uses_torch: bool = True

    def load(self, spec: Any, computing: Any) -> Any:
        make = resolve(self.loader) if isinstance(self.loader, str) else self.loader
        return make(spec, computing)


@dataclass(frozen=True, slots=True)
class NetworkKind:
    """A kind of network of ours: what it is, what it learns, and how it scores."""

    network: str
    """The class in rescore.networks, made from a `NetworkConfig`."""
    objective: str
    """Made from a tokenizer and `ObjectiveOptions`: an `Objective`, or of a kind with `pairs` several by name."""
    backend: Backend
    scorer: str | None = None
    """Made from a `Spec` and a `Network`; None where the back-end has a loader of its own."""
    before: bool = False
    after: bool = False
    """Whether it can learn to read sentences before and after the one that is scored."""
    heads: bool = True
    """Whether its layers attend, with vectors that are divided among heads."""
    masks: bool = False
    """Whether its objective masks tokens."""
    cloze: bool = False
    """Whether it can learn to predict masked tokens in all its readings."""
    replaces: bool = False
    """Whether it learns from tokens that were put in the place of others."""
    pairs: bool = False
    """Whether it learns from translations, and cannot be trained without (but in readings of single sentences)."""
    source: bool = False
    """Whether it can learn to read the source before a translation."""
    order: bool = False
    """Whether it can learn the order of two sentences beside its objective."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A task for a linear classifier."""

    read: str
    """Makes `rescore.embeddings.probe.Examples` of a file, the answers' file and a number; "module:function"."""
    takes: tuple[str, ...] = ()
    """Which of `gold` and `examples` it reads beside the file."""


_OWN = "rescore.lms.neural.scoring:load"
_MASKED = ("intact", "within-word-l2r")
NETWORKS: Registry[NetworkKind] = Registry(
    "kind of network",
    {
        "tta": (
            NetworkKind(
                "rescore.lms.tta:TTA",
                "rescore.lms.neural.training.objectives:LanguageAutoencoding",
                Backend(_OWN, ("context=", "channel"), pseudo=True),
                "rescore.lms.neural.passes:NetworkScorer.of",
                before=True,
                after=True,
                source=True,
                order=True,
            ),
            "Transformer-based Text Autoencoder",
        ),
        "bilm": (
            NetworkKind(
                "rescore.lms.neural.encoder:BiLM",
                "rescore.lms.neural.training.objectives:MaskedLanguageModelling",
                Backend(_OWN, (*_MASKED, "context=", "channel"), pseudo=True),
                "rescore.lms.neural.passes:masked_scorer",
                before=True,
                after=True,
                source=True,
                masks=True,
                order=True,
            ),
            "masked language model",
        ),
        "unilm": (
            NetworkKind(
                "rescore.lms.neural.encoder:UniLM",
                "rescore.lms.neural.training.objectives:CausalLanguageModelling",
                Backend(_OWN, ("context=",)),
                "rescore.lms.neural.causal:CausalScorer.of",
                before=True,
            ),
            "causal language model",
        ),
        "unilm-bw": (
            NetworkKind(
                "rescore.lms.neural.encoder:UniLM",
                "rescore.lms.neural.training.objectives:BackwardLanguageModelling",
                Backend(_OWN),
                "rescore.lms.neural.causal:BackwardScorer.of",
            ),
            "causal language model of reversed sentences",
        ),
        "lstm": (
            NetworkKind(
                "rescore.lms.lstm:LSTM",
                "rescore.lms.neural.training.objectives:CausalLanguageModelling",
                Backend(_OWN),
                "rescore.lms.neural.causal:CausalScorer.of",
                heads=False,
            ),
            "LSTM language model",
        ),
        "lstm-bw": (
            NetworkKind(
                "rescore.lms.lstm:LSTM",
                "rescore.lms.neural.training.objectives:BackwardLanguageModelling",
                Backend(_OWN),
                "rescore.lms.neural.causal:BackwardScorer.of",
                heads=False,
            ),
            "LSTM language model of reversed sentences",
        ),
        "permutation": (
            NetworkKind(
                "rescore.lms.permutation:Permutation",
                "rescore.lms.neural.training.objectives:PermutationLanguageModelling",
                Backend(_OWN, ("orders=", "seed=")),
                "rescore.lms.permutation:PermutationScorer.of",
            ),
            "permutation language model (XLNet) with the blocks of a T-TA",
        ),
        "electra": (
            NetworkKind(
                "rescore.lms.electra:Electra",
                "rescore.lms.electra:ReplacedTokenDetection",
                Backend(_OWN, pseudo=True),
                "rescore.lms.electra:ElectraScorer.of",
                masks=True,
                replaces=True,
            ),
            "discriminator of replaced tokens",
        ),
        "unified": (
            NetworkKind(
                "rescore.lms.unified:Unified",
                "rescore.lms.unified:objectives",
                Backend(
                    "rescore.lms.unified:load",
                    ("bi", "l2r", "r2l", "seq2seq", "source", "channel", *_MASKED),
                    pseudo_with="bi",
                ),
                masks=True,
                pairs=True,
                cloze=True,
            ),
            "network of several readings (UniLM), some from a source",
        ),
    },
)
"""The kinds of networks that are trained and read here; each is a kind of language model, too."""

FORMATS: Registry[Any] = Registry(
    "format",
    {
        "native": ("rescore.formats.native", "native JSON or JSON Lines"),
        "espnet1": ("rescore.formats.espnet1", "ESPnet1 data.json"),
        "espnet2": ("rescore.formats.espnet2", "ESPnet2 decode folder"),
        "kaldi": ("rescore.formats.kaldi", "Kaldi N-best folder"),
        "lattice": ("rescore.formats.lattices", "lattices: HTK or SRILM SLF, Kaldi or OpenFst text"),
        "srilm": ("rescore.formats.srilm", "SRILM N-best files"),
        "icefall": ("rescore.formats.icefall", "icefall (k2) recogs"),
        "sherpa": ("rescore.formats.sherpa", "sherpa-onnx results"),
        "whisper": ("rescore.formats.whisper", "Whisper JSON"),
        "speech": ("rescore.formats.speech", "Azure, Google, AWS or Vosk JSON"),
        "fairseq": ("rescore.formats.fairseq", "fairseq log"),
        "moses": ("rescore.formats.moses", "Moses or Marian n-best"),
        "opennmt": ("rescore.formats.opennmt", "OpenNMT log or n_best lines"),
        "hf": ("rescore.formats.records:HUGGING_FACE", "Hugging Face generate, as JSON"),
        "sockeye": ("rescore.formats.records:SOCKEYE", "Sockeye JSON"),
        "nemo": ("rescore.formats.records:NEMO", "NeMo manifest with beams"),
        "hyporadise": ("rescore.formats.records:HYPORADISE", "HyPoradise JSON"),
        "tsv": ("rescore.formats.table:TSV", "TSV with named columns"),
        "csv": ("rescore.formats.table:CSV", "CSV with named columns"),
        "nemo-beams": ("rescore.formats.table:NEMO_BEAMS", "NeMo beams TSV"),
        "json": ("rescore.formats.records:ANY", "JSON records with named fields"),
    },
)
"""What N-best lists are read from; looked through in this order to find out what a path holds."""

_HF = "rescore.lms.huggingface.models:load"
BACKENDS: Registry[Backend] = Registry(
    "kind of language model",
    {
        **{name: (NETWORKS[name].backend, NETWORKS.about(name)) for name in NETWORKS.names},
        "ngram": (Backend("rescore.lms.ngram:load", uses_torch=False), "ARPA file or KenLM binary"),
        "lexical": (
            Backend(
                "rescore.lms.lexical.model:load",
                ("channel", "coverage", "length"),
                readings=("", "channel", "coverage", "channel:coverage", "length"),
                uses_torch=False,
            ),
            "translation model of single words, of Brown et al. 1993",
        ),
        "hf-masked": (
            Backend(_HF, (*_MASKED, "context="), pseudo=True, on_hub=True),
            "masked model of Hugging Face's transformers",
        ),
        "hf-causal": (Backend(_HF, ("context=",), on_hub=True), "causal model of Hugging Face's transformers"),
        "hf-seq2seq": (
            Backend("rescore.lms.huggingface.seq2seq:load", ("channel", "src=", "tgt="), on_hub=True),
            "translation model of Hugging Face's transformers",
        ),
        "server": (
            Backend("rescore.lms.server:load", ("chat", "parallel=", "timeout="), remote=True, uses_torch=False),
            "URL#MODEL of a vLLM, SGLang or llama-cpp-python server",
        ),
    },
)
"""The kinds of language models."""

METRICS: Registry[Any] = Registry(
    "metric",
    {
        "wer": ("rescore.metrics.wer:ErrorRate.of_words", "word error rate, as sclite counts"),
        "cer": ("rescore.metrics.wer:ErrorRate.of_characters", "character error rate"),
        "bwer": ("rescore.metrics.wer:ListedErrorRate.of_listed", "word error rate of the words in --words"),
        "uwer": ("rescore.metrics.wer:ListedErrorRate.of_others", "word error rate of all other words"),
        "bleu": ("rescore.metrics.mt:Bleu.choose", "BLEU, as sacreBLEU"),
        "chrf": ("rescore.metrics.mt:Chrf.choose", "chrF2, as sacreBLEU"),
        "comet": ("rescore.metrics.comet:Comet.choose", "COMET, of --comet-model"),
        "ter": ("rescore.metrics.mt:Ter.choose", "translation edit rate, as sacreBLEU; slow"),
    },
)
"""Each makes a `Metric` from `MetricOptions` and the references that it will see. The name in lower case is the key."""

DECISIONS: Registry[Any] = Registry(
    "decision",
    {
        "best": ("rescore.decision.rules:Best", "the best score"),
        "mbr": ("rescore.decision.mbr:MinimumBayesRisk", "minimum Bayes risk"),
        "mbr-aggregate": (
            "rescore.decision.mbr:AggregatedBayesRisk",
            "minimum Bayes risk against aggregated references, for BLEU and chrF",
        ),
        "rover": ("rescore.decision.rover:Rover", "a vote word by word"),
    },
)
"""How a text is chosen from a list: classes with the methods of `rescore.decision.DecisionRule`."""

TESTS: Registry[Any] = Registry(
    "test",
    {
        "randomisation": ("rescore.metrics.significance:Randomisation", "paired approximate randomisation"),
        "bootstrap": ("rescore.metrics.significance:Bootstrap", "paired bootstrap"),
        "mapsswe": ("rescore.metrics.significance:Mapsswe", "matched-pairs segment test, for WER"),
    },
)
"""Of the difference between two systems: classes with the methods of `SignificanceTest`."""

STYLES: Registry[Any] = Registry(
    "style",
    {
        "text": ("rescore.styles:text", ".txt"),
        "markdown": ("rescore.styles:markdown", ".md"),
        "csv": ("rescore.styles:comma_separated", ".csv"),
        "latex": ("rescore.styles:latex", ".tex"),
    },
)
"""How a table is written: functions of its cells, each with the ending of its files."""

PROBES: Registry[Probe] = Registry(
    "task",
    {
        "sick": (Probe("rescore.embeddings.probe:sick"), "entailment of sentence pairs in SICK.txt"),
        "wic": (
            Probe("rescore.embeddings.probe:wic", ("gold",)),
            "whether a word means the same in two sentences (WiC)",
        ),
        "order": (
            Probe("rescore.embeddings.probe:order", ("examples",)),
            "which of two consecutive lines of a text was first",
        ),
    },
)
"""What a linear classifier is asked about vectors."""
