"""N-best lists of a CTC recogniser by prefix beam search, as JSON Lines that `rescore` reads.

    python decode.py ctc data/test lists/test.jsonl

Scores are those of the search: log-probabilities of the paths that it kept.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoTokenizer

from rescore.formats.audio import recordings
from rescore.large.ctc import CtcModel
from rescore.lms.base import ComputeOptions

BEST = 10
BEAM = 16
"""Prefixes that the search keeps."""
UNLIKELY = math.log(1e-4)
"""Tokens with a lower log-probability in a frame are not tried."""


def prefix_beam_search(
    frames: npt.NDArray[np.float64], blank: int, beam: int = BEAM
) -> list[tuple[tuple[int, ...], float]]:
    """At most `beam` texts as tokens and their log-probabilities, the best first (Hannun et al. 2014).

    Args:
        frames: log-probabilities, (frames, vocabulary).
    """
    kept: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -np.inf)}  # of paths that end in a blank, and others
    for row in frames:
        following: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [-np.inf, -np.inf])
        likely = [int(token) for token in np.flatnonzero(row > UNLIKELY) if token != blank]
        for prefix, (silent, voiced) in kept.items():
            whole = np.logaddexp(silent, voiced)
            own = following[prefix]
            own[0] = np.logaddexp(own[0], whole + row[blank])
            if prefix:
                own[1] = np.logaddexp(own[1], voiced + row[prefix[-1]])
            for token in likely:
                before = silent if prefix and prefix[-1] == token else whole
                longer = following[*prefix, token]
                longer[1] = np.logaddexp(longer[1], before + row[token])
        ranked = sorted(following.items(), key=lambda entry: -np.logaddexp(entry[1][0], entry[1][1]))
        kept = {prefix: (silent, voiced) for prefix, (silent, voiced) in ranked[:beam]}
    return [(prefix, float(np.logaddexp(*both))) for prefix, both in kept.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path, help="folder with wav.scp and text")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    model = CtcModel("hf-ctc", arguments.model, ComputeOptions(device="cpu"))
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    audio = recordings([str(arguments.data / "wav.scp")])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with open(arguments.out, "w", encoding="utf-8") as file:
        for line in (arguments.data / "text").read_text(encoding="utf-8").splitlines():
            name, reference = line.split(" ", 1)
            with torch.inference_mode():
                frames = model.frames(audio[name]).numpy()
            best: dict[str, float] = {}
            for prefix, score in prefix_beam_search(frames, model.blank):
                text = " ".join(tokenizer.decode(list(prefix), group_tokens=False).split())
                best[text] = float(np.logaddexp(best.get(text, -math.inf), score))
            ranked = sorted(best.items(), key=lambda entry: -entry[1])[:BEST]
            hypotheses = [{"text": text, "score": score} for text, score in ranked]
            file.write(json.dumps({"id": name, "ref": reference, "hyps": hypotheses}) + "\n")


if __name__ == "__main__":
    main()
