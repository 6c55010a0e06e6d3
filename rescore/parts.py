"""The tables of parts of each kind. A line here puts a part into `--help`, errors and
the docs.

A part is named as "module:attribute" and imported when it is used: this module is cheap
to import, and all other modules may import it. Another package adds parts to the same
tables by entry points: the table of metrics takes those of the group `rescore.metrics`.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from rescore.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logging.getLogger(__name__)

Part = TypeVar("Part")


def resolve(name: str) -> Any:
    """Return the object that a name stands for, and import its module.

    Args:
        name: "module:attribute" or "module".
    """
    module, _, attributes = name.partition(":")
    part: Any = importlib.import_module(module)
    if attributes:
        for attribute in attributes.split("."):
            part = getattr(part, attribute)
    return part


class BrokenPluginError(UserError):
    """A part of another package cannot be loaded."""


class Registry(Generic[Part]):
    """Names and their parts.

    A part may be given as "module:attribute"; it is then imported when it is used.
    Parts of other packages are looked up when a name is not in the table, and when the
    whole table is asked for: runs that use shipped parts alone do not look for them.

    Example:
        >>> table = Registry("function", {"square root": ("math:sqrt", "of a number")})
        >>> table["square root"](4.0)
        2.0
    """

    def __init__(
        self,
        kind: str,
        parts: dict[str, tuple[Part | str, str]],
        group: str = "",
        of_function: str = "",
    ) -> None:
        """Make a table.

        Args:
            kind: What the parts are, for error messages.
            parts: The part of each name, and its description in a few words.
            group: Group of entry points by which other packages add parts; empty for a
                table that takes no parts of other packages.
            of_function: Where a function is, as "module:attribute", that makes a part
                of a plain function; empty if plain functions need no change.
        """
        self.kind = kind
        self._of_function = of_function
        self._parts = dict(parts)
        self._group = group
        self.changes = 0
        """How often parts were registered or removed."""

    @property
    def shipped(self) -> list[str]:
        """The names of the parts that this package brings or that were registered."""
        return list(self._parts)

    @property
    def names(self) -> list[str]:
        """All names, those of other packages last."""
        return list(dict.fromkeys([*self._parts, *self._plugins]))

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        """The entry points of other packages by name, without shipped names."""
        if not self._group or not _there_may_be_plugins():
            return {}
        # At the top, this import would take a third of the time of `rescore --help`.
        from importlib.metadata import entry_points

        plugins: dict[str, EntryPoint] = {}
        for entry in entry_points(group=self._group):
            if entry.name in self._parts or entry.name in plugins:
                log.warning(
                    "%s %s of package %s is ignored: there is one of this name",
                    self.kind,
                    entry.name,
                    _package(entry),
                )
            else:
                plugins[entry.name] = entry
        return plugins

    def about(self, name: str) -> str:
        """Return the description of a part, in a few words.

        A part of another package is described by its attribute `about`, or by the first
        line of its help (a command of click) or docstring.

        Args:
            name: The name of the part.
        """
        if name in self._parts:
            return self._parts[name][1]
        try:
            part = self._load(name)
        except BrokenPluginError:
            return "cannot be loaded"
        text = getattr(part, "about", None) or getattr(part, "help", None)
        if not isinstance(text, str):
            text = inspect.getdoc(part) or ""
        return text.partition("\n")[0]

    def target(self, name: str) -> str:
        """Return where a part is, as "module:attribute"; empty for a part that was
        registered as an object.

        Args:
            name: The name of the part.
        """
        if name not in self._parts:
            return self._plugins[name].value
        part, _ = self._parts[name]
        return part if isinstance(part, str) else ""

    def register(self, name: str, part: Part | str, about: str = "") -> None:
        """Add a part, or replace the part of that name.

        Args:
            name: The name of the part.
            part: The part, or "module:attribute".
            about: A description in a few words.
        """
        self._parts[name] = (part, about)
        self.changes += 1

    def remove(self, name: str) -> None:
        """Remove a part that was registered."""
        del self._parts[name]
        self.changes += 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return name in self._parts or name in self._plugins

    def check(self, name: str) -> str:
        """Return the name of a part, in the table's letter case.

        Raises:
            UserError: The table has no such part.
        """
        known = self.known(name)
        if known:
            return known
        raise UserError(
            f"{self.kind} {name!r} is not one of"
            f" {', '.join(self.names)}{did_you_mean(name, self.names)}"
        )

    def known(self, name: str) -> str:
        """Return the name of a part, in the table's letter case; empty if the table has
        no such part.
        """
        if name in self._parts:  # the usual answer takes no search
            return name
        return _same_but_case(name, self._parts) or _same_but_case(name, self._plugins)

    def __getitem__(self, name: str) -> Part:
        known = self.check(name)
        if known not in self._parts:
            return self._adapted(self._load(known))
        part, _ = self._parts[known]
        if isinstance(part, str):
            part = cast(Part, resolve(part))
        return self._adapted(part)

    def _adapted(self, part: Part) -> Part:
        """Return a part; if it is a plain function, the part that is made of it."""
        is_function = callable(part) and not isinstance(part, type)
        if self._of_function and is_function:
            return cast(Part, resolve(self._of_function)(part))
        return part

    def loaded(self) -> Iterator[tuple[str, Part]]:
        """Yield the name of each part, and the part.

        A part of another package that cannot be loaded is left out with a warning.
        """
        for name in self.names:
            try:
                part = self[name]
            except BrokenPluginError as error:
                log.warning("%s", error)
            else:
                yield name, part

    def _load(self, name: str) -> Part:
        """Return the part of another package, by its name.

        Raises:
            BrokenPluginError: The part cannot be imported.
        """
        entry = self._plugins[name]
        try:
            return cast(Part, entry.load())
        except Exception as error:
            raise BrokenPluginError(
                f"{self.kind} {name} of package {_package(entry)} cannot be loaded"
                f" ({type(error).__name__}: {error}); update or uninstall the package"
            ) from None


@cache
def _there_may_be_plugins() -> bool:
    """Return whether an installed package may have entry points of a table.

    It reads the small files in which packages declare entry points. This takes a fifth
    of the time in which `importlib.metadata` is imported and reads them.
    """
    for folder in map(Path, sys.path):
        if folder.is_file():  # such as a zip file, which only importlib.metadata reads
            return True
        for declared in folder.glob("*-info/entry_points.txt"):
            if b"[rescore." in declared.read_bytes():
                return True
    return False


def _same_but_case(name: str, names: Iterable[str]) -> str:
    """Return the name that differs from another name in case alone, or an empty
    string.
    """
    for known in names:
        if known.casefold() == name.casefold():
            return known
    return ""


def _package(entry: EntryPoint) -> str:
    """Return the name of the package that brings an entry point."""
    return entry.dist.name if entry.dist else entry.value


FORMATS: Registry[Any] = Registry(
    "format",
    {
        "native": ("rescore.formats.native", "native JSON or JSON Lines"),
        "espnet1": ("rescore.formats.espnet:ESPNET1", "ESPnet1 data.json"),
        "espnet2": ("rescore.formats.espnet:ESPNET2", "ESPnet2 decode folder"),
        "kaldi": ("rescore.formats.acoustic:KALDI", "Kaldi N-best folder"),
        "lattice": (
            "rescore.formats.lattices:LATTICE",
            "word lattices of HTK or SRILM (SLF)",
        ),
        "srilm": ("rescore.formats.acoustic:SRILM", "SRILM N-best files"),
        "hocr": ("rescore.formats.ocr:HOCR", "hOCR of Tesseract, with alternatives"),
        "alto": ("rescore.formats.ocr:ALTO", "ALTO XML, with alternatives"),
        "page": ("rescore.formats.ocr:PAGE", "PAGE XML, with alternatives"),
        "icefall": ("rescore.formats.lines:ICEFALL", "icefall (k2) recogs"),
        "sherpa": ("rescore.formats.lines:SHERPA", "sherpa-onnx results"),
        "wenet": (
            "rescore.formats.lines:WENET",
            "WeNet decoder_main --output_nbest",
        ),
        "whisper": (
            "rescore.formats.shaped:WHISPER",
            "Whisper or whisper.cpp JSON",
        ),
        "parakeet": ("rescore.formats.shaped:PARAKEET", "parakeet.cpp JSON"),
        "brain-to-text": (
            "rescore.formats.lines:BRAIN_TO_TEXT",
            "brain-to-text n-best rows",
        ),
        "speech": (
            "rescore.formats.shaped:SPEECH",
            "JSON of services: Azure, Google, AWS, Deepgram, Vosk, ...",
        ),
        "fairseq": ("rescore.formats.translation:FAIRSEQ", "fairseq log"),
        "moses": ("rescore.formats.translation:MOSES", "Moses or Marian n-best"),
        "opennmt": ("rescore.formats.translation:OPENNMT", "OpenNMT n_best lines"),
        "openai": ("rescore.formats.shaped:OPENAI", "OpenAI batch results, answers"),
        "ctranslate2": (
            "rescore.formats.shaped:CTRANSLATE2",
            "CTranslate2 results, as JSON",
        ),
        "hf": (
            "rescore.formats.records:HUGGING_FACE",
            "Hugging Face generate, as JSON",
        ),
        "sockeye": ("rescore.formats.records:SOCKEYE", "Sockeye JSON"),
        "nemo": ("rescore.formats.records:NEMO", "NeMo manifest with beams"),
        "hyporadise": ("rescore.formats.records:HYPORADISE", "HyPoradise JSON"),
        "tsv": ("rescore.formats.tables:TSV", "TSV with named columns"),
        "csv": ("rescore.formats.tables:CSV", "CSV with named columns"),
        "nemo-beams": ("rescore.formats.lines:NEMO_BEAMS", "NeMo beams TSV"),
        "speechbrain-wer": (
            "rescore.formats.alignments:SPEECHBRAIN",
            "SpeechBrain's file of WER or CER",
        ),
        "icefall-errs": ("rescore.formats.alignments:ICEFALL", "icefall errs-*.txt"),
        "wenet-wer": ("rescore.formats.alignments:WENET", "WeNet compute-wer.py"),
        "kaldi-per-utt": ("rescore.formats.alignments:KALDI", "Kaldi per_utt"),
        "sclite": ("rescore.formats.alignments:SCLITE", "sclite -o pra, or -o all"),
        "text": (
            "rescore.formats.one_best:BEST",
            "1-best text for eval: Kaldi, trn or plain lines",
        ),
        "json": ("rescore.formats.records:JSON", "JSON records with named fields"),
    },
    "rescore.formats",
)
"""The formats of N-best lists; detection tries them in this order."""

WHOLE = "rescore.asr.measured:measured_recordings"
"""Reads whole recordings with their references, of any format, for `rescore eval
--whole`.
"""

SESSIONS = "rescore.asr.sessions:measured_sessions"
"""Reads recordings with their speakers, and their references, for metrics that read
sessions.
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
        "permutation": (
            "rescore.research.permutation_kind:PermutationKind",
            "each token given the tokens before it in a random order (XLNet)",
        ),
        "electra": (
            "rescore.research.electra_kind:ElectraKind",
            "discriminator of replaced tokens (ELECTRA)",
        ),
        "lstm": ("rescore.research.lstm_kind:LstmKind", "recurrent language model"),
        "lstm-bw": (
            "rescore.research.lstm_kind:BackwardLstmKind",
            "recurrent language model of reversed sentences",
        ),
        "unified": (
            "rescore.research.unified_kind:UnifiedKind",
            (
                "one network of several readings (UniLM), as unified:READING:DIR with"
                " bi, l2r, r2l, seq2seq, channel, bi:source or bi:channel"
            ),
        ),
        "segatron": (
            "rescore.research.segatron_kinds:SegatronKind",
            "causal language model with positions of sentences and paragraphs",
        ),
        "segabert": (
            "rescore.research.segatron_kinds:SegaBertKind",
            "masked language model with positions of sentences and paragraphs",
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
    "rescore.models",
    of_function="rescore.lms.function:kind_of_function",
)
"""The kinds of language models: classes with the methods of `rescore.lms.base.Kind`. A
plain function of sentences becomes such a class.
"""

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

LESSONS: Registry[Any] = Registry(
    "lesson",
    {
        "bert-masks": (
            "rescore.research.bert_masks_lesson:BertMasksLesson",
            "some of the predicted tokens are kept or swapped, not masked",
        ),
        "hypernyms": (
            "rescore.research.hypernyms:HypernymLesson",
            "hypernyms of rare nouns come before the nouns",
        ),
        "sentence-order": (
            "rescore.research.sentence_order_lesson:SentenceOrderLesson",
            "the order of two consecutive lines",
        ),
    },
    "rescore.lessons",
)
"""Additions to the training of networks of several kinds: subclasses of
`rescore.lms.training.options.Lesson`.
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
    "rescore.expansions",
)
"""Sources of new hypotheses, in the order in which they are used: subclasses of
`rescore.expansion.Expansion`. An option of the command line has the same name.
"""

FEATURES: Registry[Any] = Registry(
    "feature",
    {
        "models": ("rescore.features.models:Models", "scores of language models"),
        "components": (
            "rescore.features.models:Components",
            "parts of the toolkit's own score",
        ),
        "words": ("rescore.features.length:WordBonus", "a bonus for each word"),
        "tokens": ("rescore.features.length:TokenBonus", "a bonus for each token"),
        "expanded": (
            "rescore.features.models:Expanded",
            "columns that expansions add with new hypotheses",
        ),
        "respelled": (
            "rescore.asr.features:Respelled",
            "a channel of misheard words, and a bonus for each changed word",
        ),
        "listed": (
            "rescore.features.listed:ListedWords",
            "a bonus for each word of --words",
        ),
        "counts": ("rescore.features.models:Counts", "counts that a file brings"),
        "systems": ("rescore.asr.features:SystemVotes", "votes of several systems"),
        "recombined": ("rescore.asr.features:Recombined", "hypotheses of --recombine"),
    },
    "rescore.features",
)
"""What may have a weight beside the first pass, in the order in which weights are
named: subclasses of `rescore.features.Feature`.
"""

METRICS: Registry[Any] = Registry(
    "metric",
    {
        "wer": (
            "rescore.metrics.wer:WordErrorRate",
            "word error rate, as sclite counts",
        ),
        "cer": (
            "rescore.metrics.wer:CharacterErrorRate",
            "character error rate",
        ),
        "mer": (
            "rescore.metrics.wer:MixedErrorRate",
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
        "exact": (
            "rescore.metrics.exact:ExactMatch",
            "share of texts that equal a reference",
        ),
        "bleu": ("rescore.metrics.mt:Bleu", "BLEU, as sacreBLEU"),
        "chrf": ("rescore.metrics.mt:Chrf", "chrF2, as sacreBLEU"),
        "chrf++": ("rescore.metrics.mt:ChrfPlusPlus", "chrF2++, as sacreBLEU"),
        "comet": ("rescore.mt.comet:Comet", "COMET, of --comet-model"),
        "cpwer": (
            "rescore.asr.session_metrics:SpeakersErrorRate",
            "word error rate of recordings with speakers (cpWER), as meeteval",
        ),
        "tcpwer": (
            "rescore.asr.session_metrics:TimedSpeakersErrorRate",
            "cpWER with the times of words (tcpWER), as meeteval",
        ),
        "ter": ("rescore.metrics.mt:Ter", "translation edit rate, as sacreBLEU; slow"),
    },
    "rescore.metrics",
)
"""Classes with the methods of `rescore.metrics.Metric`. A metric's name in lower case
is its key.
"""

STEPS: Registry[Any] = Registry(
    "step",
    {},
    "rescore.steps",
    of_function="rescore.metrics.steps:step_of_function",
)
"""Steps of a normaliser that packages add: objects of `rescore.metrics.steps.Step`, or
plain functions of texts. The table of `rescore.metrics.steps` has the shipped steps.
"""

BEST = "best"
"""The name of the decision for the best score. It needs neither a scale nor options;
signatures and tables do not name it.
"""

DECISIONS: Registry[Any] = Registry(
    "decision",
    {
        BEST: ("rescore.decision.rules:Best", "the hypothesis with the best score"),
        "mbr": ("rescore.decision.risk:MinimumBayesRisk", "minimum Bayes risk"),
        "rover": ("rescore.asr.rover:Rover", "a vote on each word"),
    },
    "rescore.decisions",
)
"""Rules that choose a text from a list: subclasses of
`rescore.decision.DecisionRule`.
"""

TESTS: Registry[Any] = Registry(
    "test",
    {
        "randomisation": (
            "rescore.metrics.significance:Randomisation",
            "paired approximate randomisation",
        ),
        "bootstrap": (
            "rescore.metrics.significance:Bootstrap",
            "paired bootstrap resampling, as in sacreBLEU",
        ),
        "mapsswe": (
            "rescore.metrics.mapsswe:Mapsswe",
            "matched-pairs segment test, for WER",
        ),
    },
    "rescore.tests",
)
"""Significance tests of the difference between two systems: classes with the methods of
`rescore.metrics.significance.Randomisation`.
"""

STYLES: Registry[Any] = Registry(
    "style",
    {
        "text": ("rescore.styles:text", ".txt"),
        "markdown": ("rescore.reports.markup:markdown", ".md"),
        "csv": ("rescore.reports.markup:comma_separated", ".csv"),
        "latex": ("rescore.reports.markup:latex", ".tex"),
    },
    "rescore.styles",
)
"""Styles of tables: functions that return the text of a table's cells. The description
of a style is the ending of its files.
"""

FIRST_PASS_OF_SYSTEMS = "rescore.asr.mixture:Mixture"
"""The first pass of lists that several systems wrote: a class with the methods of
`rescore.decision.first_pass.FirstPass`.
"""

TUNING_OF_SYSTEMS = "rescore.asr.vote_tuning:tune_with_votes"
"""Tunes this first pass together with the weights of other columns: a function like
`rescore.tuning.tune.TunesFirstPass`.
"""

TABLES_OF_SYSTEMS = "rescore.asr.vote_tables"
"""Shows the systems in tables of results: a module with the functions of
`rescore.reports.systems.SystemTables`.
"""

ANALYSIS_OF_SYSTEMS = "rescore.asr.vote_analysis"
"""Compares the systems with the chosen texts: a module with the functions of
`rescore.reports.analysis.SystemAnalysis`.
"""

CONFIDENCES = "rescore.asr.confidence"
"""Gives each word of decided texts the probability that it is right."""
