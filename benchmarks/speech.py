"""Speed of models that listen beside a loop of transformers calls for each hypothesis:
python benchmarks/speech.py.

The model has the sizes of Whisper tiny, and random weights; recordings are five seconds
of noise. Times are CPU seconds of one thread, so that other work on the machine does
not count.
"""

from __future__ import annotations

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

RATE, SECONDS, RECORDINGS, HYPOTHESES = 16_000, 5, 2, 10


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
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        audio = []
        for number in range(RECORDINGS):
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
            for rank in range(HYPOTHESES)
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
        print(
            f"{RECORDINGS / ours:.2f} utterances and {len(questions) / ours:.1f}"
            f" hypotheses a CPU second; a loop {len(questions) / theirs:.1f}"
            f" hypotheses; {theirs / ours:.1f} times; an hour of speech"
            f" {ours * 60 / RECORDINGS / SECONDS:.1f} CPU minutes"
        )


if __name__ == "__main__":
    main()
