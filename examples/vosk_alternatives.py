"""N-best lists of Vosk 0.3.45: python vosk_alternatives.py MODEL FOLDER *.wav (16 kHz, mono, 16 bit)

Each recording becomes a JSON file of phrases; read one with: rescore FOLDER/NAME.json
"""

import argparse
import sys
import wave
from pathlib import Path


def main(name, folder, recordings):
    """Write the phrases of the recordings."""
    from vosk import KaldiRecognizer, Model

    model = Model(name)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path in recordings:
        with wave.open(path) as audio:
            recognizer = KaldiRecognizer(model, audio.getframerate())
            recognizer.SetMaxAlternatives(10)
            phrases = []
            while data := audio.readframes(4000):
                if recognizer.AcceptWaveform(data):
                    phrases.append(recognizer.Result())
            phrases.append(recognizer.FinalResult())
        # A phrase a line; confidences are scores of the decoder, not probabilities.
        lines = [" ".join(phrase.split()) + "\n" for phrase in phrases]
        (Path(folder) / f"{Path(path).stem}.json").write_text(
            "".join(lines), encoding="utf-8"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", metavar="MODEL")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("recordings", metavar="WAV", nargs="+")
    try:
        main(**vars(parser.parse_args()))
    except ModuleNotFoundError as error:
        sys.exit(f"{error}; pip install vosk")
