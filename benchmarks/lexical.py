"""`lexical` against eflomal: how fast both judge pairs of sentences, and whether they
agree.

python benchmarks/lexical.py SOURCE TARGET [--train 20000] [--test 2000]. Both are
trained on the same words of the same pairs; then both judge further pairs: eflomal by
sampling, with what it learned as priors. Without eflomal (`pip install eflomal`) only
`lexical` is measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from common import (
    cells_of_figures,
    cpu_seconds,
    is_missing,
    seconds_per_call,
    write_json,
)

from rescore.lms import Question
from rescore.lms.training.vocabulary import word_tokenizer
from rescore.mt.lexical.estimation import train
from rescore.mt.lexical.model import LexicalLM, LexicalModel, Links, texts_of_words
from rescore.reports.markup import markdown

Pair = tuple[str, str]
AlignedWords = set[tuple[int, int, int]]
"""Number of the pair, place of the source word, place of the target word."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument(
        "--train",
        type=int,
        default=20_000,
        metavar="PAIRS",
        help="spread over the files",
    )
    parser.add_argument("--test", type=int, default=2_000, metavar="PAIRS")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    pairs = read(options.source, options.target, options.train + options.test)
    known, new = pairs[options.test :], pairs[: options.test]
    with TemporaryDirectory() as folder:
        judges = {"rescore": by_rescore(Path(folder), known, new)}
        if not is_missing("eflomal", "pip install eflomal", "eflomal"):
            judges["eflomal"] = by_eflomal(Path(folder), known, new)
    rows = {name: judge.figures() for name, judge in judges.items()}
    if "eflomal" in judges:
        rows["rescore and eflomal"] = agreement(judges["rescore"], judges["eflomal"])
    print(markdown(cells_of_figures(rows)))
    if options.output:
        write_json(options.output, rows)


@dataclass(frozen=True, slots=True)
class Judge:
    """What a tool says of new pairs, and how long it takes."""

    scores: list[float]
    """The mean log-probability of a word, for each pair."""
    links: AlignedWords
    training: float
    """CPU seconds."""
    rate: float
    """New pairs judged a second of CPU time."""

    def figures(self) -> dict[str, float]:
        """Return the times, as a row of the table."""
        return {"training, CPU s": self.training, "pairs per CPU s": self.rate}


def agreement(one: Judge, other: Judge) -> dict[str, float]:
    """Return how far two tools agree, as a row of the table."""
    shared = len(one.links & other.links)
    return {
        "F1 of links": 2 * shared / (len(one.links) + len(other.links)),
        "correlation of scores": float(np.corrcoef(one.scores, other.scores)[0, 1]),
    }


def read(source: Path, target: Path, number: int) -> list[Pair]:
    """So many pairs with words on both sides, spread over the files, as words with
    blanks between them.
    """
    sides = [path.read_text(encoding="utf-8").split("\n") for path in (source, target)]
    tokenizer = word_tokenizer("folded")
    cut = [[" ".join(words) for words in tokenizer.words(side)] for side in sides]
    pairs = [pair for pair in zip(*cut, strict=True) if all(pair)]
    order = np.random.default_rng(1).permutation(len(pairs))[:number]
    return [(pairs[index][0], pairs[index][1]) for index in order]


def by_rescore(folder: Path, known: Sequence[Pair], new: Sequence[Pair]) -> Judge:
    """Mean log-probabilities of target words, and for each the likeliest source
    word.
    """
    for side, name in enumerate(("source", "target")):
        (folder / name).write_text(
            "".join(f"{pair[side]}\n" for pair in known), encoding="utf-8"
        )
    began = cpu_seconds()
    train((folder / "source", folder / "target"), folder / "lm", pieces=0)
    trained = cpu_seconds() - began
    lm = LexicalLM("lexical", folder / "lm")
    questions = [Question(target, source) for source, target in new]
    scores = lm.score(questions)
    seconds = seconds_per_call(partial(lm.score, questions), cpu_seconds)
    means = [float(np.mean(score.log_probs)) for score in scores]
    found = links(LexicalModel.load(folder / "lm"), new)
    return Judge(means, found, trained, len(new) / seconds)


def links(model: LexicalModel, pairs: Sequence[Pair]) -> AlignedWords:
    unknown: dict[str, int] = {}
    given, predicted = (
        model.numbered(model.cut([pair[side] for pair in pairs]), unknown)
        for side in (0, 1)
    )
    texts = texts_of_words(predicted)
    every = Links(given.with_null(), predicted, np.arange(len(texts)), texts)
    t = model.tables["direct"].probabilities(
        every.given_words, every.predicted_words, model.config.smoothing
    )
    joint = model.config.alignment["direct"].prior(every) * t
    found = set()
    for word, (begin, length) in enumerate(
        zip(every.first, every.lengths, strict=True)
    ):
        place = int(joint[begin : begin + length].argmax())
        if place:
            text = int(texts[word])
            found.add((text, place - 1, word - int(predicted.starts[text])))
    return found


def by_eflomal(folder: Path, known: Sequence[Pair], new: Sequence[Pair]) -> Judge:
    """The same by its full model (words, jumps, fertilities); its scores are costs."""
    from eflomal import Aligner, calculate_priors, write_priors

    aligner, paths = (
        Aligner(),
        {name: str(folder / name) for name in ("forward", "back", "scores", "priors")},
    )
    began = cpu_seconds()
    sources, targets = ([pair[side] for pair in known] for side in (0, 1))
    aligner.align(sources, targets, paths["forward"], paths["back"])
    with (
        open(paths["forward"]) as forward,
        open(paths["back"]) as back,
        open(paths["priors"], "w") as priors,
    ):
        write_priors(priors, *calculate_priors(sources, targets, forward, back))
    trained = cpu_seconds() - began
    began = cpu_seconds()
    sources, targets = ([pair[side] for pair in new] for side in (0, 1))
    with open(paths["priors"]) as priors:
        aligner.align(
            sources,
            targets,
            paths["forward"],
            scores_filename_fwd=paths["scores"],
            priors_input=priors,
        )
    seconds = cpu_seconds() - began
    found = set()
    for text, line in enumerate(Path(paths["forward"]).read_text().splitlines()):
        for link in line.split():
            source, target = link.split("-")
            found.add((text, int(source), int(target)))
    scores = [-float(line) for line in Path(paths["scores"]).read_text().split()]
    return Judge(scores, found, trained, len(new) / seconds)


if __name__ == "__main__":
    main()
