"""N-best lists of a CTC recogniser by prefix beam search, as JSON Lines.

python decode.py ctc data/test lists/test.jsonl

Scores are natural logs of the probabilities of the paths that the search keeps.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from rescore.formats.audio import recordings
from rescore.formats.text import table
from rescore.research.a3t.ctc import prefix_beam_search
from rescore.research.a3t.recogniser import load_recogniser

BEST = 10


def main() -> None:
    parser = argparse.ArgumentParser(description="Write N-best lists.")
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="folder with wav/ and text")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    recogniser = load_recogniser(arguments.model)
    audio = recordings([str(arguments.data / "wav")])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with open(arguments.out, "w", encoding="utf-8") as file:
        for name, reference in table(arguments.data / "text").items():
            frames = recogniser.hear(audio[name]).log_probs
            scores: dict[str, float] = {}
            for labels, score in prefix_beam_search(frames, recogniser.blank):
                text = recogniser.text(labels)
                before = scores.get(text, -np.inf)
                scores[text] = float(np.logaddexp(before, score))
            best = sorted(scores, key=lambda text: -scores[text])[:BEST]
            hypotheses = [{"text": text, "score": scores[text]} for text in best]
            entry = {"id": name, "ref": reference, "hyps": hypotheses}
            file.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main()
