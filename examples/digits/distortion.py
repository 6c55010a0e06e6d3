"""Mel-cepstral distortion of speech that an A3T reconstructs: the middle third of each string is masked.

    python distortion.py a3t data/test [more models ...]

`--listen DIR` writes the first reconstructed strings as sounds (Griffin-Lim).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
import torch

from rescore.research.a3t.alignment import aligner
from rescore.research.a3t.network import Batch, Mel, mel_cepstral_distortion
from rescore.research.a3t.training import load, middle_third, normalised, read_examples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with wav.scp, text and words.ctm")
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--number", type=int, default=240, help="utterances")
    parser.add_argument("--listen", type=Path)
    arguments = parser.parse_args()
    for folder in arguments.models:
        network = load(folder)
        config, mel = network.config, Mel(network.config.rate, network.config.mels)
        places = aligner(str(arguments.data / "words.ctm"))
        text = arguments.data / "text"
        examples, _ = read_examples([str(arguments.data)], [text], places, mel, config.lexicon, config.units)
        examples = normalised(examples, config.mean, config.deviation)[:: max(1, len(examples) // arguments.number)]
        first, refined, swapped, silence = [], [], [], []
        for number, one in enumerate(examples):
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
            if arguments.listen and number < 5:
                arguments.listen.mkdir(parents=True, exist_ok=True)
                whole = torch.where(hidden[:, None], after, truth) + config.mean
                path = arguments.listen / f"{folder.name}-{number}.wav"
                soundfile.write(path, mel.griffin_lim(whole), config.rate)
        print(
            f"{folder.name}: MCD {np.mean(refined):.2f} dB, before the Post-Net {np.mean(first):.2f} dB, "
            f"under the reversed text {np.mean(swapped):.2f} dB, the mean of the other frames "
            f"{np.mean(silence):.2f} dB, of {len(examples)} strings"
        )


if __name__ == "__main__":
    main()
