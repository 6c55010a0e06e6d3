"""The tables of parts: what there is of each kind. One line here, and a part is in `--help`, errors and the docs.

Parts are named, not imported: this module costs nothing, and lies below all rooms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rescore.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rescore.decision.rules import DecisionRule
    from rescore.formats import Format
    from rescore.metrics.base import Metric, MetricOptions
    from rescore.metrics.significance import SignificanceTest
    from rescore.reports.styles import Cells
    from rescore.scoring.backends import Backend

FORMATS: Registry[Format] = Registry(
    "format",
    {
        "native": ("rescore.formats.native", "native JSON or JSON Lines"),
        "espnet1": ("rescore.formats.espnet1", "ESPnet1 data.json"),
        "espnet2": ("rescore.formats.espnet2", "ESPnet2 decode folder"),
        "kaldi": ("rescore.formats.kaldi", "Kaldi N-best folder"),
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

BACKENDS: Registry[Backend] = Registry(
    "kind of language model",
    {
        "tta": ("rescore.scoring.backends:TTA", "Transformer-based Text Autoencoder"),
        "bilm": ("rescore.scoring.backends:BILM", "masked language model"),
        "unilm": ("rescore.scoring.backends:UNILM", "causal language model"),
        "unilm-bw": ("rescore.scoring.backends:UNILM_BW", "causal language model of reversed sentences"),
        "unified": ("rescore.scoring.backends:UNIFIED", "network of four readings (UniLM), one from a source"),
        "ngram": ("rescore.scoring.backends:NGRAM", "ARPA file or KenLM binary"),
        "lexical": ("rescore.scoring.backends:LEXICAL", "translation model of single words, of Brown et al. 1993"),
        "hf-masked": ("rescore.scoring.backends:HF_MASKED", "masked model of Hugging Face's transformers"),
        "hf-causal": ("rescore.scoring.backends:HF_CAUSAL", "causal model of Hugging Face's transformers"),
        "hf-seq2seq": ("rescore.scoring.backends:HF_SEQ2SEQ", "translation model of Hugging Face's transformers"),
    },
)
"""The kinds of language models."""

METRICS: Registry[Callable[[MetricOptions, Sequence[str]], Metric]] = Registry(
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
"""Each makes a metric from options and the references that it will see; the metric's name in lower case is its key."""

DECISIONS: Registry[type[DecisionRule]] = Registry(
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
"""How a text is chosen from a list."""

TESTS: Registry[type[SignificanceTest]] = Registry(
    "test",
    {
        "randomisation": ("rescore.metrics.significance:Randomisation", "paired approximate randomisation"),
        "bootstrap": ("rescore.metrics.significance:Bootstrap", "paired bootstrap"),
        "mapsswe": ("rescore.metrics.significance:Mapsswe", "matched-pairs segment test, for WER"),
    },
)
"""Of the difference between two systems."""

STYLES: Registry[Callable[[Cells], str]] = Registry(
    "style",
    {
        "text": ("rescore.reports.styles:text", ".txt"),
        "markdown": ("rescore.reports.styles:markdown", ".md"),
        "csv": ("rescore.reports.styles:comma_separated", ".csv"),
        "latex": ("rescore.reports.styles:latex", ".tex"),
    },
)
"""How a table is written, each with the ending of its files."""
