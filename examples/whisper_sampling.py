"""N-best lists of faster-whisper or openai-whisper, which return one text: the different texts of several samples.

python whisper_sampling.py faster|openai MODEL LISTS.jsonl *.wav
"""

import argparse
import json
import sys
from pathlib import Path

TEMPERATURES = [0.0] + [0.2, 0.4, 0.6, 0.8] * 5


def faster(name):
    """A function from a path and a temperature to segments, by faster-whisper 1.1."""
    from faster_whisper import WhisperModel

    model = WhisperModel(name)

    def segments(path, temperature):
        parts, _ = model.transcribe(
            path, temperature=temperature, best_of=1, condition_on_previous_text=False
        )
        return [(part.text, part.avg_logprob, len(part.tokens)) for part in parts]

    return segments


def openai(name):
    """The same by openai-whisper 20240930."""
    import whisper

    model = whisper.load_model(name)

    def segments(path, temperature):
        result = model.transcribe(
            path, temperature=temperature, condition_on_previous_text=False
        )
        return [
            (part["text"], part["avg_logprob"], len(part["tokens"]))
            for part in result["segments"]
        ]

    return segments


def hypotheses(segments, path):
    """The different texts; scores are sums of natural logarithms: means of segments times their tokens and end."""
    best = {}
    for temperature in TEMPERATURES:
        parts = segments(path, temperature)
        text = " ".join(" ".join(part for part, _, _ in parts).split())
        score = sum(mean * (tokens + 1) for _, mean, tokens in parts)
        if text not in best or score > best[text]:
            best[text] = score
    return [{"text": text, "score": score} for text, score in best.items()]


def main(toolkit, name, output, recordings):
    """Write the samples of the recordings."""
    segments = {"faster": faster, "openai": openai}[toolkit](name)
    with open(output, "w", encoding="utf-8") as file:
        for path in recordings:
            entry = {"id": Path(path).stem, "hyps": hypotheses(segments, path)}
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("toolkit", choices=("faster", "openai"))
    parser.add_argument("name", metavar="MODEL")
    parser.add_argument("output", metavar="LISTS.jsonl")
    parser.add_argument("recordings", metavar="WAV", nargs="+")
    try:
        main(**vars(parser.parse_args()))
    except ModuleNotFoundError as error:
        sys.exit(f"{error}; pip install faster-whisper (faster) or openai-whisper (openai)")
