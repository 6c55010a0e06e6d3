"""Speed of models that listen beside a loop of transformers calls for each hypothesis.

python benchmarks/speech.py [--recordings 2] [--hypotheses 10]

The model has the sizes of Whisper tiny, and random weights; recordings are five seconds
of noise. Times are CPU seconds of one thread, so that other work on the machine does
not count.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
import transformers

from rescore.formats.audio import samples
from rescore.lms import Question, load
from rescore.nbest import Audio
from tests.large.speech_models import subwords

RATE = 16_000
"""Samples a second."""
SECONDS = 5
"""Length of a recording."""


def speech_model(folder: Path) -> None:
    tokenizer = subwords(folder, ["<|start|>", "<|notimestamps|>"])
    config = transformers.WhisperConfig(
        vocab_size=len(tokenizer),
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=260,
    )  # the other sizes are those of Whisper tiny
    transformers.WhisperForConditionalGeneration(config).eval().save_pretrained(folder)
    transformers.WhisperFeatureExtractor().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def loop(folder: Path, questions: list[Question]) -> None:
    """A call of the model with its own loss for each hypothesis."""
    model = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    features = transformers.AutoFeatureExtractor.from_pretrained(folder)
    with torch.inference_mode():
        for question in questions:
            assert question.audio is not None
            inputs = features(
                samples(question.audio, RATE), sampling_rate=RATE, return_tensors="pt"
            )
            labels = torch.tensor(
                [tokenizer(question.text, add_special_tokens=False)["input_ids"]]
            )
            model(**inputs, labels=labels)


def seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recordings", type=int, default=2)
    parser.add_argument("--hypotheses", type=int, default=10, help="of a recording")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        audio = []
        for number in range(options.recordings):
            path = Path(name) / f"{number}.wav"
            soundfile.write(
                path,
                0.1 * np.random.default_rng(number).standard_normal(RATE * SECONDS),
                RATE,
            )
            audio.append(Audio(str(path), name=str(number)))
        text = "the quick brown fox jumps over the lazy dog number "
        questions = [
            Question(text + chr(97 + rank), audio=one)
            for one in audio
            for rank in range(options.hypotheses)
        ]
        folder = Path(name) / "model"
        folder.mkdir()
        speech_model(folder)
        lm = load(f"hf-speech:{folder}")
        lm.score(questions[:1])
        ours, theirs = (
            seconds(lambda: lm.score(questions)),
            seconds(lambda: loop(folder, questions)),
        )
        minutes = ours * 60 / options.recordings / SECONDS
        print(f"rescore: {options.recordings / ours:.2f} utterances a CPU second")
        print(f"rescore: {len(questions) / ours:.1f} hypotheses a CPU second")
        print(f"loop: {len(questions) / theirs:.1f} hypotheses a CPU second")
        print(f"rescore is {theirs / ours:.1f} times as fast as the loop")
        print(f"an hour of speech: {minutes:.1f} CPU minutes")


if __name__ == "__main__":
    main()
