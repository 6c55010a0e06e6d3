"""Mel-cepstral distortion of speech that A3T reconstructs (thesis, section 4.4.3): the
middle third of the units of each string is masked.

python distortion.py data/test a3t [another-a3t ...]

--listen DIR writes the first reconstructed strings as sounds (Griffin-Lim). -o FILE
writes the distortions as JSON.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor

from rescore.research.a3t.alignment import Ctm
from rescore.research.a3t.mel import mel_cepstral_distortion
from rescore.research.a3t.network import A3tNetwork, Batch, Example
from rescore.research.a3t.training import Reader, load, middle_third
from rescore.research.a3t.utterances import read_utterances

SOUNDS = 5
"""Reconstructed strings that --listen writes."""


def reconstructions(
    network: A3tNetwork, example: Example, hidden: Tensor
) -> dict[str, Tensor]:
    """Return spectrograms by what they were made from, (frames, bands), normalised."""
    reversed_text = replace(example, units=example.units.flip(0))
    with torch.inference_mode():
        first, refined = network(Batch.of([example]), hidden[None])
        _, wrong = network(Batch.of([reversed_text]), hidden[None])
    mean = example.frames[~hidden].mean(0).expand_as(example.frames)
    return {
        "A3T": refined[0],
        "before the Post-Net": first[0],
        "reversed text": wrong[0],
        "mean of the other frames": mean,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure mel-cepstral distortion.")
    parser.add_argument("data", type=Path, help="folder with wav/, text and words.ctm")
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--listen", type=Path)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    utterances = read_utterances(
        [str(arguments.data / "wav")], [arguments.data / "text"]
    )
    aligner = Ctm(arguments.data / "words.ctm")
    means: dict[str, dict[str, float]] = {}
    for folder in arguments.models:
        network = load(folder)
        config = network.config
        reader = Reader(config, aligner)
        distortions: dict[str, list[float]] = {}
        for number, example in enumerate(reader.examples(utterances)):
            hidden = middle_third(example)
            made = reconstructions(network, example, hidden)
            truth = config.deviation * example.frames[hidden]
            for name, frames in made.items():
                own = config.deviation * frames[hidden]
                distortion = mel_cepstral_distortion(own, truth)
                distortions.setdefault(name, []).append(distortion)
            if arguments.listen and number < SOUNDS:
                whole = torch.where(hidden[:, None], made["A3T"], example.frames)
                sound = reader.mel.sound(whole * config.deviation + config.mean)
                arguments.listen.mkdir(parents=True, exist_ok=True)
                path = arguments.listen / f"{folder.name}-{number}.wav"
                soundfile.write(path, sound, config.rate)
        print(f"{folder.name}: MCD of {len(utterances)} strings in dB")
        means[folder.name] = {
            name: float(np.mean(values)) for name, values in distortions.items()
        }
        for name, mean in means[folder.name].items():
            print(f"  {name}: {mean:.2f}")
    if arguments.output:
        arguments.output.write_text(json.dumps(means, indent=1) + "\n")


if __name__ == "__main__":
    main()
