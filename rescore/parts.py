"""The tables of parts of each kind. A line here puts a part into `--help`, errors and
the docs.

A part is named as "module:attribute" and imported when it is used: this module is cheap
to import, and all other modules may import it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from rescore.errors import UserError, did_you_mean

Part = TypeVar("Part")


def resolve(name: str) -> Any:
    """The object that "module:attribute" or "module" names; the module is imported
    now.
    """
    module, _, attributes = name.partition(":")
    part: Any = importlib.import_module(module)
    for attribute in filter(None, attributes.split(".")):
        part = getattr(part, attribute)
    return part


class Registry(Generic[Part]):
    """Names and their parts. A part may be given as "module:attribute"; it is then
    imported when it is used.

    Example:
        >>> table = Registry("function", {"square root": ("math:sqrt", "of a number")})
        >>> table["square root"](4.0)
        2.0
    """

    def __init__(self, kind: str, parts: dict[str, tuple[Part | str, str]]) -> None:
        """
        Args:
            kind: of the parts, for error messages. parts: name -> the part, and a
                description in a few words.
        """
        self.kind = kind
        self._parts = dict(parts)

    @property
    def names(self) -> list[str]:
        return list(self._parts)

    def about(self, name: str) -> str:
        """The description of a part, in a few words."""
        return self._parts[name][1]

    def register(self, name: str, part: Part | str, about: str = "") -> None:
        """Add a part, or replace the one of that name."""
        self._parts[name] = (part, about)

    def remove(self, name: str) -> None:
        del self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._parts

    def check(self, name: str) -> str:
        """The name of a part, in the table's letter case.

        Raises:
            UserError: the table has no such part.
        """
        if known := self.known(name):
            return known
        raise UserError(
            f"{self.kind} {name!r} is not one of"
            f" {', '.join(self._parts)}{did_you_mean(name, self._parts)}"
        )

    def known(self, name: str) -> str:
        """The name of a part, in the table's letter case; empty if the table has no
        such part.
        """
        return next(
            (known for known in self._parts if known.casefold() == name.casefold()), ""
        )

    def __getitem__(self, name: str) -> Part:
        part = self._parts[self.check(name)][0]
        return resolve(part) if isinstance(part, str) else part


FORMATS: Registry[Any] = Registry(
    "format",
    {
        "native": ("rescore.formats.native", "native JSON or JSON Lines"),
        "espnet1": ("rescore.formats.espnet:ESPNET1", "ESPnet1 data.json"),
        "espnet2": ("rescore.formats.espnet:ESPNET2", "ESPnet2 decode folder"),
        "kaldi": ("rescore.asr.formats.acoustic:KALDI", "Kaldi N-best folder"),
        "lattice": (
            "rescore.asr.formats.lattices",
            "word lattices of HTK or SRILM (SLF)",
        ),
        "srilm": ("rescore.asr.formats.acoustic:SRILM", "SRILM N-best files"),
        "icefall": ("rescore.asr.formats.speech:ICEFALL", "icefall (k2) recogs"),
        "sherpa": ("rescore.asr.formats.speech:SHERPA", "sherpa-onnx results"),
        "wenet": (
            "rescore.asr.formats.speech:WENET",
            "WeNet decoder_main --output_nbest",
        ),
        "whisper": (
            "rescore.asr.formats.speech:WHISPER",
            "Whisper or whisper.cpp JSON",
        ),
        "parakeet": ("rescore.asr.formats.speech:PARAKEET", "parakeet.cpp JSON"),
        "brain-to-text": (
            "rescore.asr.formats.speech:BRAIN_TO_TEXT",
            "brain-to-text n-best rows",
        ),
        "speech": (
            "rescore.asr.formats.speech:SERVICES",
            "Azure, Google, AWS or Vosk JSON",
        ),
        "fairseq": ("rescore.formats.translation:FAIRSEQ", "fairseq log"),
        "moses": ("rescore.formats.translation:MOSES", "Moses or Marian n-best"),
        "opennmt": ("rescore.formats.translation:OPENNMT", "OpenNMT n_best lines"),
        "hf": (
            "rescore.formats.records:HUGGING_FACE",
            "Hugging Face generate, as JSON",
        ),
        "sockeye": ("rescore.formats.records:SOCKEYE", "Sockeye JSON"),
        "nemo": ("rescore.formats.records:NEMO", "NeMo manifest with beams"),
        "hyporadise": ("rescore.formats.records:HYPORADISE", "HyPoradise JSON"),
        "tsv": ("rescore.formats.tables:TSV", "TSV with named columns"),
        "csv": ("rescore.formats.tables:CSV", "CSV with named columns"),
        "nemo-beams": ("rescore.asr.formats.speech:NEMO_BEAMS", "NeMo beams TSV"),
        "text": (
            "rescore.formats.references:BEST",
            "1-best text for eval: Kaldi, trn or plain lines",
        ),
        "json": ("rescore.formats.records:GENERIC", "JSON records with named fields"),
    },
)
"""The formats of N-best lists; detection tries them in this order."""

WHOLE = "rescore.asr.formats.whole:measured_recordings"
"""Reads whole recordings with their references, of any format, for `rescore eval
--whole`.
"""

KINDS: Registry[Any] = Registry(
    "kind of language model",
    {
        "tta": ("rescore.lms.kinds:TtaKind", "Transformer-based Text Autoencoder"),
        "bilm": ("rescore.lms.kinds:BilmKind", "masked language model"),
        "unilm": ("rescore.lms.kinds:UnilmKind", "causal language model"),
        "unilm-bw": (
            "rescore.lms.kinds:BackwardUnilmKind",
            "causal language model of reversed sentences",
        ),
        "ngram": ("rescore.lms.ngram:NgramKind", "ARPA file or KenLM binary"),
        "lexical": (
            "rescore.mt.kinds:LexicalKind",
            "word translation model (IBM Model 1, Brown et al. 1993)",
        ),
        "hf-masked": (
            "rescore.large.kinds:MaskedKind",
            "masked language model of Hugging Face transformers",
        ),
        "hf-causal": (
            "rescore.large.kinds:CausalKind",
            "causal language model of Hugging Face transformers",
        ),
        "hf-seq2seq": (
            "rescore.large.kinds:Seq2SeqKind",
            "translation model of Hugging Face transformers",
        ),
        "hf-speech": (
            "rescore.large.kinds:SpeechKind",
            (
                "sequence-to-sequence speech model of transformers (Whisper); listens"
                " to --audio"
            ),
        ),
        "ctc": (
            "rescore.research.a3t.kinds:CtcKind",
            "CTC speech model; listens to --audio",
        ),
        "a3t": (
            "rescore.research.a3t.kinds:A3tKind",
            "alignment-aware acoustic and text model; listens to --audio",
        ),
        "qe": (
            "rescore.mt.comet:QualityKind",
            "translation quality estimate without references (COMET-QE, CometKiwi)",
        ),
        "server": (
            "rescore.large.server:ServerKind",
            "model URL#MODEL on a vLLM, SGLang or llama-cpp-python server",
        ),
    },
)
"""The kinds of language models: classes with the methods of `rescore.lms.base.Kind`."""

CHANNEL_KINDS: Registry[Any] = Registry(
    "kind of channel",
    {
        "channel": (
            "rescore.asr.channel:ChannelKind",
            "model of misheard words, for --respell",
        )
    },
)
"""Kinds of channels that `rescore train` estimates: classes with the methods of
`rescore.lms.base.Kind`.
"""

EXPANSIONS: Registry[Any] = Registry(
    "expansion",
    {
        "recombine": (
            "rescore.asr.recombine:Recombining",
            "hypotheses that combine parts of others",
        ),
        "respell": (
            "rescore.asr.respell:Respelling",
            "words of a lexicon and listed terms in the place of others",
        ),
    },
)
"""Sources of new hypotheses, in the order in which they are used: subclasses of
`rescore.expansion.Expansion`. An option of the command line has the same name.
"""

METRICS: Registry[Any] = Registry(
    "metric",
    {
        "wer": ("rescore.metrics.wer:ErrorRate", "word error rate, as sclite counts"),
        "cer": (
            "rescore.metrics.characters:CharacterErrorRate",
            "character error rate",
        ),
        "mer": (
            "rescore.metrics.characters:MixedErrorRate",
            (
                "mixed error rate: characters of Chinese, Japanese and Thai, words of"
                " the rest"
            ),
        ),
        "bwer": (
            "rescore.metrics.listed:ListedErrorRate",
            "word error rate of the words in --words",
        ),
        "uwer": (
            "rescore.metrics.listed:OtherErrorRate",
            "word error rate of all other words",
        ),
        "recall": ("rescore.asr.term_metrics:Recall", "recall of the terms in --words"),
        "precision": (
            "rescore.asr.term_metrics:Precision",
            "precision of the terms in --words",
        ),
        "f1": ("rescore.asr.term_metrics:F1", "F1 of the terms in --words"),
        "bleu": ("rescore.metrics.mt:Bleu", "BLEU, as sacreBLEU"),
        "chrf": ("rescore.metrics.mt:Chrf", "chrF2, as sacreBLEU"),
        "chrf++": ("rescore.metrics.mt:ChrfPlusPlus", "chrF2++, as sacreBLEU"),
        "comet": ("rescore.mt.comet:Comet", "COMET, of --comet-model"),
        "ter": ("rescore.metrics.mt:Ter", "translation edit rate, as sacreBLEU; slow"),
    },
)
"""Classes with the methods of `rescore.metrics.Metric`. A metric's name in lower case
is its key.
"""

DECISIONS: Registry[Any] = Registry(
    "decision",
    {
        "best": ("rescore.decision.rules:Best", "the hypothesis with the best score"),
        "mbr": ("rescore.decision.risk:MinimumBayesRisk", "minimum Bayes risk"),
        "rover": ("rescore.asr.rover:Rover", "a vote on each word"),
    },
)
"""How a text is chosen from a list: subclasses of `rescore.decision.DecisionRule`."""

TESTS: Registry[Any] = Registry(
    "test",
    {
        "randomisation": (
            "rescore.metrics.significance:Randomisation",
            "paired approximate randomisation",
        ),
        "mapsswe": (
            "rescore.metrics.mapsswe:Mapsswe",
            "matched-pairs segment test, for WER",
        ),
    },
)
"""Of the difference between two systems: classes like `Randomisation`."""

STYLES: Registry[Any] = Registry(
    "style",
    {
        "text": ("rescore.styles:text", ".txt"),
        "markdown": ("rescore.reports.markup:markdown", ".md"),
        "csv": ("rescore.reports.markup:comma_separated", ".csv"),
        "latex": ("rescore.reports.markup:latex", ".tex"),
    },
)
"""How a table is written: functions of its cells, each with the ending of its files."""

CONFIDENCES = "rescore.asr.confidence"
"""Gives each word of decided texts the probability that it is right."""
