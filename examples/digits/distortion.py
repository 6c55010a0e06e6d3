"""Mel-cepstral distortion of speech that an A3T reconstructs: the middle third of each string is masked.

python distortion.py data/test a3t [more models ...]
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rescore.research.a3t.alignment import aligner
from rescore.research.a3t.network import Batch, Example, Mel
from rescore.research.a3t.scoring import load
from rescore.research.a3t.training import normalised, read_examples

CEPSTRA = 13
"""Mel-cepstral coefficients that are compared, without the first, which is loudness."""


def mel_cepstral_distortion(spectrogram: Tensor, reference: Tensor) -> float:
    """The mean distance of frames in decibel, of mel cepstra 1 to 13 (Kubichek 1993): 10 / ln 10 sqrt(2 sum d^2).

    Cepstra are those of log|H| = sum of c_m cos(m w), so that the distance does not depend on the number of bands.

    Args:
        spectrogram, reference: log-mel, (frames, bands) each.
    """
    bands = reference.shape[1]
    places = math.pi * (torch.arange(bands).double() + 0.5) / bands
    cosines = 2 / bands * torch.cos(torch.arange(1, CEPSTRA + 1).double()[:, None] * places)
    distance = (spectrogram.double() - reference.double()) @ cosines.T
    return float((10 / math.log(10) * (2 * distance.square().sum(1)).sqrt()).mean())


def middle_third(example: Example) -> Tensor:
    """Frames of the middle third of the letters, with silence between them: (frames,). The thesis measures these."""
    number = len(example.letters)
    first, last = number // 3 + 1, max(number // 3 + 1, 2 * number // 3)
    places = ((example.owners >= first) & (example.owners <= last)).nonzero()[:, 0]
    hidden = torch.zeros(len(example.owners), dtype=torch.bool)
    if len(places):
        hidden[int(places[0]) : int(places[-1]) + 1] = True
    return hidden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with wav.scp, text and words.ctm")
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--number", type=int, default=240, help="utterances")
    arguments = parser.parse_args()
    for folder in arguments.models:
        network = load(folder)
        config = network.config
        places, text = aligner(str(arguments.data / "words.ctm")), arguments.data / "text"
        examples, _ = read_examples([str(arguments.data)], [text], places, Mel(config.rate, config.mels), config.units)
        first, refined, swapped, silence = [], [], [], []
        for utterance in examples[:: max(1, len(examples) // arguments.number)]:
            one = normalised(utterance, config)
            hidden = middle_third(one)
            other = replace(one, letters=one.letters.flip(0))
            with torch.inference_mode():
                before, after = (made[0] * config.deviation for made in network(Batch.of([one]), hidden[None]))
                wrong = network(Batch.of([other]), hidden[None])[1][0] * config.deviation
            truth = one.frames * config.deviation
            first.append(mel_cepstral_distortion(before[hidden], truth[hidden]))
            refined.append(mel_cepstral_distortion(after[hidden], truth[hidden]))
            swapped.append(mel_cepstral_distortion(wrong[hidden], truth[hidden]))
            mean = truth[~hidden].mean(0).expand(int(hidden.sum()), -1)
            silence.append(mel_cepstral_distortion(mean, truth[hidden]))
        print(
            f"{folder.name}: MCD {np.mean(refined):.2f} dB, before the Post-Net {np.mean(first):.2f} dB, "
            f"under the reversed text {np.mean(swapped):.2f} dB, the mean of the other frames "
            f"{np.mean(silence):.2f} dB, of {len(refined)} strings"
        )


if __name__ == "__main__":
    main()
