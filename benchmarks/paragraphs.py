"""Positions of sentences and paragraphs (Bai's thesis, Table 2.2): trains a Segatron
with both, with one of them and with none, and measures the perplexity of other pages.

    apt-get install postgresql-doc-15
    python benchmarks/paragraphs.py --pages /usr/share/doc/postgresql-doc-15/html \
        --out paragraphs none paragraph sentence both
    python benchmarks/paragraphs.py --out paragraphs

A page of HTML is a document, and each <p> a paragraph. Every twentieth page is left for
the measurement. A network that is there is measured anew, not trained anew. Without
names of positions the table of what was measured is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path

from rescore.reports.markup import markdown
from rescore.research.segatron_config import MARK, POSITIONS

ROOT = Path(__file__).parents[1]
CONTEXT = 4
RECIPE = ["--config", "small", "--size", "8000", "--context", str(CONTEXT)]
RECIPE += ["--batch-tokens", "2048", "--learning-rate", "3e-3", "--decay", "0.3"]
HELD_OUT = 20
"""One page of so many is measured."""
THESIS = {"none": 24.35, "paragraph": 24.07, "sentence": 22.51, "both": 22.47}
"""Perplexities of Table 2.2: Transformer-XL base on WikiText-103."""
HEAD = ["positions", "PPL a token", "PPL a word", "PPL a token, alone", "thesis"]


class Paragraphs(HTMLParser):
    """The texts of the paragraphs of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "p":
            self.texts.append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data


def lines(page: Path) -> Iterator[str]:
    """Yield the sentences of a page, those that end a paragraph with its mark, and an
    empty line.
    """
    parser = Paragraphs()
    parser.feed(page.read_text(encoding="utf-8"))
    for text in parser.texts:
        sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(text.split()))
        if any(map(str.isalpha, text)):
            yield from sentences[:-1]
            yield sentences[-1] + MARK
    yield ""


def write_text(pages: Iterable[Path], path: Path) -> None:
    """Write the sentences of pages, one a line."""
    text = [f"{line}\n" for page in pages for line in lines(page)]
    path.write_text("".join(text), encoding="utf-8")


def run(*arguments: object) -> None:
    """Run a command of rescore, and print it."""
    command = ["rescore", *map(str, arguments)]
    print(shlex.join(command), file=sys.stderr, flush=True)
    subprocess.run(
        [sys.executable, "-m", *command],
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def make(out: Path, positions: str, steps: int) -> None:
    """Train a network, if it is not there, and measure it with neighbours and alone."""
    folder = out / positions
    if not (folder / "README.md").exists():
        train = ["train", "--lm", "segatron", "--text", out / "train.txt"]
        train += ["--positions", positions, "--steps", steps, "--out", folder]
        run(*train, *RECIPE)
    models = [f"segatron:context={CONTEXT}:{folder}", f"segatron:{folder}"]
    named = [part for model in models for part in ("--lm", model)]
    figures = out / f"{positions}.json"
    run("score", "--text", out / "test.txt", *named, "-o", figures)


def table(out: Path) -> str:
    """Return the table of what was measured, in the order of the thesis."""
    rows = [HEAD]
    for positions, theirs in THESIS.items():
        figures = out / f"{positions}.json"
        if figures.exists():
            among, alone = json.loads(figures.read_text(encoding="utf-8"))
            cells = [
                among["by_token"]["corpus"],
                among["by_word"]["corpus"],
                alone["by_token"]["corpus"],
                theirs,
            ]
            rows.append([positions, *(f"{cell:.2f}" for cell in cells)])
    return markdown(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "positions", nargs="*", metavar="POSITIONS", help=str(POSITIONS)
    )
    parser.add_argument("--pages", type=Path, help="folder of HTML pages")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    unknown = sorted(set(options.positions) - set(POSITIONS))
    if unknown:
        parser.error(f"{unknown[0]!r} is none of {', '.join(POSITIONS)}")
    if not (options.out / "test.txt").exists():
        if options.pages is None:
            parser.error("give --pages, the folder of HTML pages")
        options.out.mkdir(parents=True, exist_ok=True)
        pages = sorted(options.pages.glob("*.html"))
        test = pages[::HELD_OUT]
        write_text(
            (page for page in pages if page not in test), options.out / "train.txt"
        )
        write_text(test, options.out / "test.txt")
    for positions in options.positions:
        make(options.out, positions, options.steps)
    if not options.positions:
        print(table(options.out))


if __name__ == "__main__":
    main()
