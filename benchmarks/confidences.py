"""The quality of confidences of the first pass, with and without calibration.

    python benchmarks/confidences.py NAME=DEV,TEST... [-o FILE]

DEV and TEST are lists with references. The confidences are those of `rescore confidence
TEST --dev DEV`. Two rows for each set have the percent of right words, the normalised
cross entropy, and the expected calibration error in percent. FILE gets the rows as
JSON.
"""

from __future__ import annotations

from common import sets_of_dev_and_test, write_json

import rescore
from rescore.asr.confidence import Quality, confidences
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.plan import resolve
from rescore.tuning import FIRST_PASS_ALONE


def qualities(dev_path: str, test_path: str) -> dict[str, Quality | None]:
    """Return the quality of the confidences of a set, without and with calibration.

    Args:
        dev_path: The lists to calibrate on.
        test_path: The lists.
    """
    dev = Dataset.of(rescore.read(dev_path))
    test = Dataset.of(rescore.read(test_path))
    plan = resolve(RunConfig(), dev, weights=FIRST_PASS_ALONE)
    found = confidences(plan, test, dev)
    return {"not calibrated": found.plain, "calibrated": found.calibrated}


def main() -> None:
    sets, output = sets_of_dev_and_test(__doc__)
    rows = {}
    for name, (dev_path, test_path) in sets.items():
        for kind, quality in qualities(dev_path, test_path).items():
            if quality is None:
                raise SystemExit(f"{test_path}: an utterance has no reference")
            print(f"{name}, {kind}: {quality.words} words, {quality}", flush=True)
            rows[f"{name}, {kind}"] = {
                "right words": 100 * quality.correct,
                "NCE": quality.nce,
                "ECE": 100 * quality.ece,
            }
    if output:
        write_json(output, rows)


if __name__ == "__main__":
    main()
