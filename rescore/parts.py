"""The tables of parts: what there is of each kind. One line here, and a part is in `--help`, errors and the docs.

Parts are named, not imported: this module costs nothing, and lies below all rooms.
"""

from __future__ import annotations

from typing import Any

from rescore.kinds import Backend, NetworkKind, Probe
from rescore.registry import Registry

_OWN = "rescore.scoring.neural:load"
_MASKED = ("intact", "within-word-l2r")
NETWORKS: Registry[NetworkKind] = Registry(
    "kind of network",
    {
        "tta": (
            NetworkKind(
                "rescore.networks.tta:TTA",
                "rescore.training.objectives:LanguageAutoencoding",
                Backend(_OWN, ("context=", "channel"), pseudo=True),
                "rescore.scoring.one_pass:NetworkScorer.of",
                before=True,
                after=True,
                source=True,
                order=True,
            ),
            "Transformer-based Text Autoencoder",
        ),
        "bilm": (
            NetworkKind(
                "rescore.networks.encoder:BiLM",
                "rescore.training.objectives:MaskedLanguageModelling",
                Backend(_OWN, (*_MASKED, "context=", "channel"), pseudo=True),
                "rescore.scoring.masked:masked_scorer",
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
                "rescore.networks.encoder:UniLM",
                "rescore.training.objectives:CausalLanguageModelling",
                Backend(_OWN, ("context=",)),
                "rescore.scoring.causal:CausalScorer.of",
                before=True,
            ),
            "causal language model",
        ),
        "unilm-bw": (
            NetworkKind(
                "rescore.networks.encoder:UniLM",
                "rescore.training.objectives:BackwardLanguageModelling",
                Backend(_OWN),
                "rescore.scoring.causal:BackwardScorer.of",
            ),
            "causal language model of reversed sentences",
        ),
        "lstm": (
            NetworkKind(
                "rescore.networks.lstm:LSTM",
                "rescore.training.objectives:CausalLanguageModelling",
                Backend(_OWN),
                "rescore.scoring.causal:CausalScorer.of",
                heads=False,
            ),
            "LSTM language model",
        ),
        "lstm-bw": (
            NetworkKind(
                "rescore.networks.lstm:LSTM",
                "rescore.training.objectives:BackwardLanguageModelling",
                Backend(_OWN),
                "rescore.scoring.causal:BackwardScorer.of",
                heads=False,
            ),
            "LSTM language model of reversed sentences",
        ),
        "permutation": (
            NetworkKind(
                "rescore.networks.permutation:Permutation",
                "rescore.training.objectives:PermutationLanguageModelling",
                Backend(_OWN, ("orders=", "seed=")),
                "rescore.scoring.permutation:PermutationScorer.of",
            ),
            "permutation language model (XLNet) with the blocks of a T-TA",
        ),
        "electra": (
            NetworkKind(
                "rescore.networks.electra:Electra",
                "rescore.training.replacement:ReplacedTokenDetection",
                Backend(_OWN, pseudo=True),
                "rescore.scoring.electra:ElectraScorer.of",
                masks=True,
                replaces=True,
            ),
            "discriminator of replaced tokens",
        ),
        "unified": (
            NetworkKind(
                "rescore.networks.unified:Unified",
                "rescore.training.unified:objectives",
                Backend(
                    "rescore.scoring.unified:load",
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

_HF = "rescore.scoring.huggingface:load"
BACKENDS: Registry[Backend] = Registry(
    "kind of language model",
    {
        **{name: (NETWORKS[name].backend, NETWORKS.about(name)) for name in NETWORKS.names},
        "ngram": (Backend("rescore.scoring.ngram:load", uses_torch=False), "ARPA file or KenLM binary"),
        "lexical": (
            Backend("rescore.scoring.lexical:load", ("channel", "coverage", "length"), uses_torch=False),
            "translation model of single words, of Brown et al. 1993",
        ),
        "hf-masked": (
            Backend(_HF, (*_MASKED, "context="), pseudo=True, on_hub=True),
            "masked model of Hugging Face's transformers",
        ),
        "hf-causal": (Backend(_HF, ("context=",), on_hub=True), "causal model of Hugging Face's transformers"),
        "hf-seq2seq": (
            Backend("rescore.scoring.seq2seq:load", ("channel", "src=", "tgt="), on_hub=True),
            "translation model of Hugging Face's transformers",
        ),
    },
)
"""The kinds of language models."""

METRICS: Registry[Any] = Registry(
    "metric",
    {
        "wer": ("rescore.metrics.wer:ErrorRate.of_words", "word error rate, as sclite counts"),
        "cer": ("rescore.metrics.wer:ErrorRate.of_characters", "character error rate"),
        "bwer": ("rescore.metrics.word_list:ListedErrorRate.of_listed", "word error rate of the words in --words"),
        "uwer": ("rescore.metrics.word_list:ListedErrorRate.of_others", "word error rate of all other words"),
        "bleu": ("rescore.metrics.bleu:Bleu.choose", "BLEU, as sacreBLEU"),
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
        "text": ("rescore.reports.styles:text", ".txt"),
        "markdown": ("rescore.reports.styles:markdown", ".md"),
        "csv": ("rescore.reports.styles:comma_separated", ".csv"),
        "latex": ("rescore.reports.styles:latex", ".tex"),
    },
)
"""How a table is written: functions of its cells, each with the ending of its files."""

PROBES: Registry[Probe] = Registry(
    "task",
    {
        "sick": (Probe("rescore.reports.probe:sick"), "entailment of sentence pairs in SICK.txt"),
        "wic": (Probe("rescore.reports.probe:wic", ("gold",)), "whether a word means the same in two sentences (WiC)"),
        "order": (
            Probe("rescore.reports.probe:order", ("examples",)),
            "which of two consecutive lines of a text was first",
        ),
    },
)
"""What a linear classifier is asked about vectors."""
