"""What reads a source, of one size and one text: trains a row of
docs/results/translation.md and measures it.

    python benchmarks/conditional.py --pairs train.de train.en \
        --lists dev.generate.txt --out conditional ROW... [-o FILE]
    python benchmarks/conditional.py --out conditional [-o FILE]

All networks have the size below, one vocabulary of both languages, and the same number
of updates; lists are every third one. A network that is there is measured anew, not
trained anew. Without ROW, the script prints a table of all rows that were measured.
FILE gets the figures of this table as JSON, also with ROW. `repeats %` is the share of
pairs of words that stand before in their text, of the texts with the highest score;
`speed` is hypotheses per second of processor time.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from common import cells_of_figures, write_json
from objectives import check_rows, of_training, run

from rescore import formats
from rescore.dataset import Dataset
from rescore.deciding import first_pass
from rescore.lms import Question, load
from rescore.lms.config import NetworkConfig
from rescore.nbest import NbestList
from rescore.reports.markup import markdown
from rescore.reports.perplexity import text_score

SIZE = NetworkConfig(vocab_size=8_000, layers=3, d_model=128, heads=4, d_ff=512)
RECIPE = ["--batch-tokens", "2048", "--learning-rate", "3e-3", "--decay", "0.3"]
TIMED = 70
"""Lists of which the speed is measured, at most."""


@dataclass(frozen=True, slots=True)
class Row:
    kind: str
    network: str
    """The folder; rows of one folder are readings of one network."""
    reading: str = ""
    """How it scores, as in --lm."""
    pairs: bool = True
    """Whether it learns from the pairs, or from the target side alone."""
    train: tuple[str, ...] = ()
    """Further options of `rescore train`."""


ROWS = {
    "lexical": Row("lexical", "lexical"),
    "lexical:channel": Row("lexical", "lexical", "channel:"),
    "tta, no source": Row("tta", "tta-alone", pairs=False),
    "tta": Row("tta", "tta"),
    "tta:channel": Row("tta", "tta", "channel:"),
    "bilm": Row("bilm", "bilm"),
    "bilm:channel": Row("bilm", "bilm", "channel:"),
    "unified:seq2seq": Row(
        "unified", "unified", "seq2seq:", train=("--reading", "seq2seq")
    ),
    "unified:channel": Row(
        "unified", "unified", "channel:", train=("--reading", "seq2seq")
    ),
    "unified:bi:source": Row(
        "unified", "unified-both", "bi:source:", train=("--reading", "bi:source")
    ),
    "unified:bi:channel": Row(
        "unified", "unified-both", "bi:channel:", train=("--reading", "bi:source")
    ),
}


class Experiment:
    """A folder of rows, all of the same pairs."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.lists, self.config = out / "lists.jsonl", out / "config.json"
        self.tokenizer = out / "vocabulary" / "tokenizer.json"

    def prepare(self, pairs: list[str], lists: list[str]) -> None:
        """Take every third list, and train the vocabulary."""
        self.out.mkdir(parents=True, exist_ok=True)
        if not self.lists.exists():
            formats.write(formats.read(lists)[::3], str(self.lists))
        SIZE.save(self.config)
        if not self.tokenizer.exists():
            made = [
                "--out",
                self.tokenizer.parent,
                "--steps",
                "0",
                "--config",
                self.config,
            ]
            run(
                "train",
                "--lm",
                "tta",
                "--pairs",
                *pairs,
                "--normalize",
                "folded",
                *made,
            )

    def make(self, name: str, pairs: list[str], updates: int) -> None:
        row = ROWS[name]
        folder = self.out / row.network
        if not (folder / "README.md").exists():
            text = ["--pairs", *pairs] if row.pairs else ["--text", pairs[1]]
            recipe = (
                [*RECIPE, "--config", self.config, "--steps", str(updates)]
                if row.kind != "lexical"
                else []
            )
            into = ["--tokenizer", self.tokenizer, "--out", folder]
            run("train", "--lm", row.kind, *text, *into, *recipe, *row.train)
        lm = f"{row.kind}:{row.reading}{folder}"
        ranked = [
            self.lists,
            "--lm",
            lm,
            "--cache",
            self.out / "cache",
            "--metric",
            "bleu",
            "--metric",
            "chrf",
        ]
        run(*ranked, "--folds", "5", "--report", self._file(name, "bleu"))
        alone = ["--report", self._file(name, "alone"), "--best", self._chosen(name)]
        run(*ranked, "--weight", "1", *alone)
        self._file(name, "text").write_text(
            json.dumps(self._measured(lm)) + "\n", encoding="utf-8"
        )

    def _measured(self, spec: str) -> dict[str, float]:
        """Of the references given their sources, or of `channel` the other way, and
        hypotheses per processor second.
        """
        model, lists = load(spec), formats.read([str(self.lists)])
        pairs = [Question(one.references[0], one.source) for one in lists]
        texts = [
            one.source or "" if "channel" in spec.split(":") else one.references[0]
            for one in lists
        ]
        found = text_score(model, texts, model.score(pairs)).by_word.corpus
        some = [
            question
            for one in lists[:: math.ceil(len(lists) / TIMED)]
            for question in _questions(one)
        ]
        began = time.process_time()
        model.score(some)
        return {"by_word": found, "rate": len(some) / (time.process_time() - began)}

    def _file(self, name: str, what: str) -> Path:
        return self.out / f"{name.replace(', ', '-').replace(':', '-')}.{what}.json"

    def _chosen(self, name: str) -> Path:
        """The file of the texts that a score alone chooses, a line each."""
        return self._file(name, "chosen").with_suffix(".txt")

    def rows(self) -> dict[str, dict[str, float]]:
        """Return the figures by column, by row: of the lists and of the rows that were
        measured.
        """
        measured = {
            name: self._figures(name)
            for name in ROWS
            if self._file(name, "text").exists()
        }
        if not measured:
            return {}
        return self._of_lists(next(iter(measured))) | measured

    def _of_lists(self, name: str) -> dict[str, dict[str, float]]:
        """Return the rows of the lists, by the name of a row that was measured."""
        lists = Dataset.of(formats.read([str(self.lists)]))
        bleu, chrf = self._metrics(name, "bleu")
        return {
            "first pass": {
                "BLEU alone": bleu["first_pass"],
                "repeats %": repeats(first_pass(lists).texts),
                "BLEU": bleu["first_pass"],
                "chrF": chrf["first_pass"],
            },
            "oracle": {"BLEU": bleu["oracle"], "chrF": chrf["oracle"]},
            "references": {
                "repeats %": repeats(nbest.references[0] for nbest in lists)
            },
        }

    def _figures(self, name: str) -> dict[str, float]:
        """Return the figures of a row that was measured, by column."""
        bleu, chrf = self._metrics(name, "bleu")
        alone, _ = self._metrics(name, "alone")
        text = json.loads(self._file(name, "text").read_text())
        chosen = self._chosen(name).read_text(encoding="utf-8")
        figures = {
            "BLEU alone": alone["reranked"],
            "repeats %": repeats(chosen.splitlines()),
            "BLEU": bleu["reranked"],
            "chrF": chrf["reranked"],
        }
        if bleu["p_value"] is not None:
            figures["p"] = bleu["p_value"]
        figures |= {"PPL a word": text["by_word"], "speed": text["rate"]}
        row = ROWS[name]
        trained = of_training(self.out / row.network, row.reading.removesuffix(":"))
        if trained:
            figures |= {"loss": trained.loss, "parameters": trained.parameters}
        return figures

    def _metrics(self, name: str, what: str) -> list[dict[str, float]]:
        """Return BLEU and chrF of a results file of a row."""
        results = json.loads(self._file(name, what).read_text())
        metrics: list[dict[str, float]] = results["metrics"]
        return metrics


def repeats(texts: Iterable[str]) -> float:
    """Return the share of pairs of neighbouring words that stand before in their text,
    in percent.
    """
    pairs = repeated = 0
    for text in texts:
        words = text.split()
        of_text = list(pairwise(words))
        pairs += len(of_text)
        repeated += len(of_text) - len(set(of_text))
    return 100 * repeated / max(pairs, 1)


def _questions(nbest: NbestList) -> list[Question]:
    return [Question(one.text, nbest.source) for one in nbest.hypotheses]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help="in quotation marks: " + "; ".join(ROWS)
    )
    parser.add_argument("--pairs", nargs=2, metavar=("SOURCE", "TARGET"))
    parser.add_argument(
        "--updates",
        type=int,
        default=1_000,
        metavar="N",
        help="of at most 2,048 tokens",
    )
    parser.add_argument("--lists", action="append")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    check_rows(parser, options, ROWS, "pairs", "lists")
    experiment = Experiment(options.out)
    if options.rows:
        experiment.prepare(options.pairs, options.lists)
    for name in options.rows:
        experiment.make(name, options.pairs, options.updates)
    rows = experiment.rows()
    if not options.rows:
        print(markdown(cells_of_figures(rows)))
    if options.output:
        write_json(options.output, rows)


if __name__ == "__main__":
    main()
