"""Perplexity of translations, with their own source and with the source of another
sentence.

    python benchmarks/sources.py SOURCE TARGET --lm KIND:DIR ... [-o FILE]

SOURCE and TARGET have one sentence per line. The other source of a translation is the
source in the next line. The perplexity is per token; for `tta` and `bilm` it is a
pseudo-perplexity. FILE gets the figures as JSON.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from common import cells_of_figures, write_json

from rescore.formats.sentences import read_lines
from rescore.lms import LanguageModel, Question, load
from rescore.reports.markup import markdown
from rescore.reports.perplexity import text_score


def perplexity(
    model: LanguageModel, targets: Sequence[str], sources: Sequence[str]
) -> float:
    """Return the perplexity per token of translations.

    Args:
        model: A model that reads sources.
        targets: The translations.
        sources: The source of each translation.
    """
    questions = [
        Question(target, source)
        for target, source in zip(targets, sources, strict=True)
    ]
    return text_score(model, targets, model.score(questions)).by_token.corpus


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--lm", action="append", required=True, metavar="KIND:DIR")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    sources = list(read_lines(options.source, empty=True))
    targets = list(read_lines(options.target, empty=True))
    if len(sources) != len(targets):
        parser.error(
            f"{options.source} has {len(sources)} lines, {options.target} has"
            f" {len(targets)}; give files with a line for each pair"
        )
    others = [*sources[1:], *sources[:1]]
    figures = {}
    for spec in options.lm:
        model = load(spec)
        figures[spec] = {
            "with its source": perplexity(model, targets, sources),
            "with another source": perplexity(model, targets, others),
        }
    print(markdown(cells_of_figures(figures)))
    if options.output:
        write_json(options.output, figures)


if __name__ == "__main__":
    main()
