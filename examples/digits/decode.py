"""N-best lists of a CTC recogniser by prefix beam search, as JSON Lines that `rescore` reads.

    python decode.py ctc data/test lists/test.jsonl

Scores are those of the search: log-probabilities of the paths that it kept.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
from rescore.large.huggingface.speech import CtcModel, prefix_beam_search

from rescore.formats.audio import recordings
from rescore.lms.base import ComputeOptions

BEST = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="folder with wav.scp and text")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    model = CtcModel("hf-ctc", arguments.model, ComputeOptions(device="cpu"))
    audio = recordings([str(arguments.data / "wav.scp")])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with open(arguments.out, "w", encoding="utf-8") as file:
        for line in (arguments.data / "text").read_text(encoding="utf-8").splitlines():
            name, reference = line.split(" ", 1)
            with torch.inference_mode():
                frames = model.frames(audio[name]).numpy()
            best: dict[str, float] = {}
            for prefix, score in prefix_beam_search(frames, model.blank):
                text = " ".join(model.text(prefix).split())
                best[text] = float(np.logaddexp(best.get(text, -math.inf), score))
            ranked = sorted(best.items(), key=lambda entry: -entry[1])[:BEST]
            hypotheses = [{"text": text, "score": score} for text, score in ranked]
            file.write(json.dumps({"id": name, "ref": reference, "hyps": hypotheses}) + "\n")


if __name__ == "__main__":
    main()
