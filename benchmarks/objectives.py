"""One text, one size, every objective: trains a row of the table in
docs/results/networks.md, and measures it.

    python benchmarks/objectives.py --text novels.txt --lists dev_other \
        --ref dev_other/text --out objectives ROW...
    python benchmarks/objectives.py --out objectives

The text is cut after so many tokens of the shipped tokenizer, and seen once; lists are
every third one. A network that is there is measured anew, not trained anew. Without
ROW, the script prints a table of all rows that were measured. Rare words stand in the
text, but ten times at most. The loss is that of tokens, except in the row `electra`,
whose labels are original and replaced; its generator is the row `tta`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open

from rescore import formats
from rescore.lms.tokenizer import BOS, EOS, UNK, Tokenizer
from rescore.lms.training.corpus import Corpus, encode_corpus
from rescore.lms.training.loop import STATE
from rescore.lms.training.train import state_folder
from rescore.reports.markup import markdown

ROOT = Path(__file__).parents[1]
TOKENIZER = ROOT / "models" / "tta" / "tokenizer.json"
WORDNET = "/usr/share/wordnet"
"""Of Debian's package wordnet-base."""
BATCH = 2048
RECIPE = [
    "--config",
    "small",
    "--batch-tokens",
    str(BATCH),
    "--learning-rate",
    "3e-3",
    "--decay",
    "0.3",
]


@dataclass(frozen=True, slots=True)
class Row:
    kind: str
    train: tuple[str, ...] = ()
    """Options of `rescore train`; OUT is the folder of all rows."""
    of: str | None = None
    """The row whose network it is, or the folder of the network of several rows."""
    options: str = ""
    """How else it scores, as in --lm."""
    predicts: bool = True
    """Whether it gives words probabilities; a discriminator judges words."""


BERT = ("--mask-keep", "0.1", "--mask-swap", "0.1")
ROWS = {
    "5-gram": Row("ngram", ("-o", "5")),
    "lstm": Row("lstm"),
    "lstm-bw": Row("lstm-bw"),
    "unilm": Row("unilm"),
    "unilm, hypernyms": Row("unilm", ("--hypernyms", WORDNET)),
    "unilm, hypernyms, linear": Row(
        "unilm", ("--hypernyms", WORDNET, "--hypernym-pacing", "linear")
    ),
    "unilm, hypernyms, summed": Row(
        "unilm", ("--hypernyms", WORDNET, "--hypernym-classes", "summed")
    ),
    "unilm-bw": Row("unilm-bw"),
    "bilm": Row("bilm"),
    "bilm, intact": Row("bilm", of="bilm", options="intact:"),
    "bilm, BERT's masks": Row("bilm", BERT),
    "bilm, BERT's masks, intact": Row(
        "bilm", BERT, of="bilm, BERT's masks", options="intact:"
    ),
    "tta": Row("tta"),
    "tta, sop": Row("tta", ("--sentence-order", "sop")),
    "tta, srp": Row("tta", ("--sentence-order", "srp")),
    "permutation": Row("permutation"),
    "permutation, 4 orders": Row("permutation", of="permutation", options="orders=4:"),
    "electra": Row("electra", ("--generator", "OUT/tta"), predicts=False),
    "unified, l2r": Row("unified", of="unified", options="l2r:"),
    "unified, r2l": Row("unified", of="unified", options="r2l:"),
    "unified, bi": Row("unified", of="unified", options="bi:"),
    "unified, bi, intact": Row("unified", of="unified", options="bi:intact:"),
    "unified cloze, l2r": Row("unified", ("--cloze",), of="cloze", options="l2r:"),
    "unified cloze, r2l": Row("unified", ("--cloze",), of="cloze", options="r2l:"),
    "unified cloze, bi": Row("unified", ("--cloze",), of="cloze", options="bi:"),
}


HEAD = ["", "loss", "PPL a word", "rare words", "WER", "order %", "parameters"]
RARE = 10
"""Words that stand so often in the text, or less often, are rare; those that it does
not have are left out.
"""


class Experiment:
    """A folder of rows, all of one text."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.text, self.lists, self.references = (
            out / "text.txt",
            out / "lists.jsonl",
            out / "references.txt",
        )
        out.mkdir(parents=True, exist_ok=True)

    def prepare(
        self, text: Path, tokens: int, lists: list[str], references: str
    ) -> None:
        """Cut the text, and take every third list."""
        if not self.text.exists():
            self.text.write_text("".join(beginning(text, tokens)), encoding="utf-8")
        if not self.lists.exists():
            third = formats.read(lists, references=references)[::3]
            formats.write(third, str(self.lists))
            self.references.write_text(
                "".join(f"{one.references[0]}\n" for one in third), encoding="utf-8"
            )

    def make(self, name: str) -> None:
        row = ROWS[name]
        folder = self.out / self._folder(name)
        if not (folder / "README.md").exists():
            run(
                "train",
                "--lm",
                row.kind,
                "--text",
                self.text,
                "--out",
                folder,
                *self._recipe(row),
            )
        lm = f"{row.kind}:{row.options}{folder}"
        if row.predicts:
            run(
                "score",
                "--text",
                self.references,
                "--lm",
                lm,
                "--tokens",
                self._file(name, "tokens"),
                "-o",
                self._file(name, "text"),
            )
        run(self.lists, "--lm", lm, "--folds", "5", "--report", self._file(name, "wer"))

    def _file(self, name: str, what: str) -> Path:
        return self.out / f"{file_name(name)}.{what}.json"

    def cells(self, name: str) -> list[str] | None:
        """A row of the table, if it was measured."""
        if not self._file(name, "wer").exists():
            return None
        wer = json.loads(self._file(name, "wer").read_text())
        words = self._of_words(name) if ROWS[name].predicts else ["", ""]
        reading = ROWS[name].options.partition(":")[0]
        folder = self.out / self._folder(name)
        loss = order = parameters = ""
        if trained := of_training(folder, reading):
            loss = f"{trained.loss:.3f}"
            order = ", ".join(f"{100 * each:.1f}" for each in trained.orders)
            parameters = f"{trained.parameters:,}"
        reranked = f"{wer['metrics'][0]['reranked']:.2f}"
        return [name, loss, *words, reranked, order, parameters]

    def _of_words(self, name: str) -> list[str]:
        """Perplexity per word, of all words and of rare words."""
        (text,) = json.loads(self._file(name, "text").read_text())
        return [
            f"{text['by_word']['corpus']:,.0f}",
            f"{self._of_rare_words(name):,.0f}",
        ]

    def _of_rare_words(self, name: str) -> float:
        counts = Counter(self.text.read_text(encoding="utf-8").split())
        with open(self._file(name, "tokens"), encoding="utf-8") as lines:
            found = [
                log_prob
                for line in lines
                for word, log_prob in words(json.loads(line))
                if 0 < counts[word] <= RARE
            ]
        return math.exp(-math.fsum(found) / len(found))

    def _folder(self, name: str) -> str:
        return file_name(ROWS[name].of or name)

    def _recipe(self, row: Row) -> list[str]:
        if row.kind == "ngram":
            return list(row.train)
        own = [option.replace("OUT", str(self.out)) for option in row.train]
        return [
            *RECIPE,
            "--tokenizer",
            str(TOKENIZER),
            "--steps",
            str(self._epoch(TOKENIZER)),
            *own,
        ]

    def _epoch(self, path: Path) -> int:
        """How many batches the text is."""
        tokenizer, folder = Tokenizer.load(path), self.out / "corpus"
        encode_corpus([self.text], tokenizer, folder, 126)
        corpus = Corpus(folder, tokenizer, None, 0)
        steps = seen = 0
        for batch in corpus.batches(BATCH):
            if seen == len(corpus):
                break
            steps, seen = steps + 1, seen + len(batch.lengths)
        return steps


def file_name(row: str) -> str:
    """The name of a row without commas, blanks and apostrophes."""
    return row.replace(", ", "-").replace(" ", "-").replace("'", "")


def beginning(path: Path, tokens: int) -> Iterator[str]:
    """The first lines, of so many tokens."""
    tokenizer = Tokenizer.load(TOKENIZER)
    with open(path, encoding="utf-8") as file:
        for line in file:
            if tokens <= 0:
                return
            tokens -= len(tokenizer.encode([line])[0])
            yield line


def words(scored: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The words of a line of `--tokens`, in lower case, with their
    log-probabilities.
    """
    scores = zip(scored["tokens"], scored["log_probs"], strict=True)
    pieces = [
        (piece.lower(), log_prob)
        for piece, log_prob in scores
        if piece not in (BOS, EOS, "<s>", "</s>")
    ]
    for word in scored["text"].lower().split():
        have, log_prob = "", 0.0
        while len(have) < len(word):
            piece, part = pieces.pop(0)
            have += word if piece == UNK.lower() else piece.removeprefix("##")
            log_prob += part
        assert have == word, f"{word}: {have}"
        yield word, log_prob


@dataclass(frozen=True, slots=True)
class Trained:
    """What the training of a network tells."""

    loss: float
    """The loss per token of held-out text, in the network's own task."""
    orders: tuple[float, ...]
    """The accuracy of each task about the order of two sentences."""
    parameters: int


def of_training(folder: Path, reading: str) -> Trained | None:
    """Return what the training of a network tells; None if no network was trained.

    Args:
        folder: The folder of a model.
        reading: The task whose loss is returned, if the network has several.
    """
    state = state_folder(folder) / STATE
    if not state.exists():
        return None
    with safe_open(state, "np") as file:
        progress = json.loads(file.metadata()["progress"])
        shapes = [
            file.get_slice(key).get_shape()
            for key in file.keys()  # noqa: SIM118 (no mapping)
            if key.startswith("model.")
        ]
    losses = progress["losses"]
    loss = losses.get(reading, next(iter(losses.values())))
    orders = tuple(progress["accuracies"].values())
    return Trained(loss, orders, sum(map(math.prod, shapes)))


def check_rows(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    known: Iterable[str],
    *needed: str,
) -> None:
    """End with a message if a ROW is none of those known, or an option that rows need
    is absent.
    """
    for name in options.rows:
        if name not in known:
            parser.error(f"ROW {name!r}: is none of {'; '.join(known)}")
    if options.rows and (
        missing := [name for name in needed if not getattr(options, name)]
    ):
        parser.error(f"a ROW needs --{missing[0]}")


def run(*arguments: object) -> None:
    command = ["rescore", *map(str, arguments)]
    print(shlex.join(command), file=sys.stderr, flush=True)
    subprocess.run(
        [sys.executable, "-m", *command],
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help="in quotation marks: " + "; ".join(ROWS)
    )
    parser.add_argument("--text", type=Path)
    parser.add_argument(
        "--tokens", type=int, default=1_000_000, metavar="N", help="of the text"
    )
    parser.add_argument("--lists", action="append")
    parser.add_argument("--ref")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    check_rows(parser, options, ROWS, "text", "lists", "ref")
    experiment = Experiment(options.out)
    if options.rows:
        experiment.prepare(options.text, options.tokens, options.lists, options.ref)
    else:
        print(markdown([HEAD, *filter(None, map(experiment.cells, ROWS))]))
    for name in options.rows:
        experiment.make(name)


if __name__ == "__main__":
    main()
