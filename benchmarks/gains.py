"""Gains predicted from dev lists, beside the gains on test lists.

    python benchmarks/gains.py NAME=DEV,TEST... [-o FILE]

DEV and TEST are scored lists with references, as `rescore score --count-tokens` writes
them. DEV is decided in five folds, as by `rescore run --folds 5`; TEST with weights
tuned on DEV. All figures are percents. A row has the predicted gain relative to the
first pass with the ends of its 95 % confidence interval, the gain on TEST, the share of
the gain of perfect choices on both, and the share of the wrong words of DEV's first
pass that no hypothesis has right. FILE gets the rows as JSON.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from common import sets_of_dev_and_test, write_json

import rescore
from rescore import pipeline
from rescore.config import RunConfig
from rescore.deciding import Decided
from rescore.metrics import Normaliser
from rescore.reports.analysis import Outlook, outlook
from rescore.reports.word_errors import without_insertions, word_pairs

FOLDS = 5


def gains(dev_path: str, test_path: str) -> dict[str, float]:
    """Return the figures of a set.

    Args:
        dev_path: The dev lists.
        test_path: The test lists.
    """
    dev = rescore.read(dev_path)
    predicted = pipeline.run(dev, RunConfig(folds=FOLDS))
    measured = pipeline.run(rescore.read(test_path), RunConfig(), dev)
    on_dev = outlook(predicted.metric, predicted.decided)
    on_test = outlook(measured.metric, measured.decided)
    low, high = on_dev.interval
    row = {
        "predicted": relative(on_dev.gain, on_dev),
        "low": relative(low, on_dev),
        "high": relative(high, on_dev),
        "on test": relative(on_test.gain, on_test),
        "share, dev": 100 * on_dev.share,
        "share, test": 100 * on_test.share,
    }
    metric = predicted.metric
    if metric.words is not None and metric.unit == "word":
        row["absent"] = absent(metric.words, predicted.decided)
    return row


def relative(gain: float, outlook: Outlook) -> float:
    """Return a gain in points as a percent of the first pass."""
    return 100 * gain / outlook.first_pass


def absent(words: Normaliser, decided: Decided) -> float:
    """Return the percent of the wrong words of the first pass that no hypothesis of
    their list has right. A wrong word is a word of the reference that the text has not
    in its place.

    Args:
        words: Cuts texts into words.
        decided: The lists, with their references.
    """
    wrong = 0
    nowhere = 0
    for nbest, first in zip(decided.lists, decided.first_pass_texts, strict=True):
        reference = words.closest(nbest.references, first)
        is_wrong = ~right(words, reference, first)
        is_right = np.zeros(len(is_wrong), dtype=bool)
        for hypothesis in nbest.hypotheses:
            is_right |= right(words, reference, hypothesis.text)
        wrong += int(is_wrong.sum())
        nowhere += int((is_wrong & ~is_right).sum())
    return 100 * nowhere / max(wrong, 1)


def right(words: Normaliser, reference: str, text: str) -> npt.NDArray[np.bool_]:
    """Return whether a text has each word of the reference in its place (words,)."""
    pairs = without_insertions(word_pairs(words, reference, text))
    flags = [word == heard for word, heard in pairs]
    return np.array(flags, dtype=bool)


def main() -> None:
    sets, output = sets_of_dev_and_test(__doc__)
    rows = {}
    for name, (dev_path, test_path) in sets.items():
        rows[name] = gains(dev_path, test_path)
        shown = [f"{column} {figure:.2f}" for column, figure in rows[name].items()]
        print(f"{name}: {', '.join(shown)}", flush=True)
    if output:
        write_json(output, rows)


if __name__ == "__main__":
    main()
