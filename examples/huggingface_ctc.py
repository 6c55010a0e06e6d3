"""N-best lists of wav2vec2 and other CTC models by pyctcdecode: python huggingface_ctc.py MODEL LISTS.jsonl *.wav

Install pyctcdecode 0.5. Give `build_ctcdecoder` a KenLM file for the first pass, if you have one.
"""

import argparse
import json
import sys
from pathlib import Path


def beams(model, processor, decoder, audio, size=10):
    """The beams of one recording at 16 kHz, as JSON: text, score (the total), logit_score."""
    import torch

    inputs = processor(
        audio, sampling_rate=16_000, return_tensors="pt"
    ).input_values.to(model.device)
    with torch.inference_mode():
        logits = model(inputs).logits[0].log_softmax(-1).cpu().numpy()
    best = decoder.decode_beams(logits, beam_width=max(100, size))[:size]
    return [
        {"text": text, "score": float(total), "logit_score": float(logit)}
        for text, _, _, logit, total in best
    ]


def decoder_of(processor, lm=None):
    """A decoder over the vocabulary of the model."""
    from pyctcdecode import build_ctcdecoder

    vocabulary = processor.tokenizer.get_vocab()
    names = {
        processor.tokenizer.pad_token: "",
        processor.tokenizer.word_delimiter_token: " ",
    }
    labels = [
        names.get(label, label)
        for label in sorted(vocabulary, key=vocabulary.__getitem__)
    ]
    return build_ctcdecoder(labels, lm)


def main(name, output, recordings):
    """Write the beams of the recordings."""
    import soundfile
    from transformers import AutoModelForCTC, AutoProcessor

    model, processor = (
        AutoModelForCTC.from_pretrained(name),
        AutoProcessor.from_pretrained(name),
    )
    decoder = decoder_of(processor)
    with open(output, "w", encoding="utf-8") as file:
        for path in recordings:
            audio, rate = soundfile.read(path)
            assert rate == 16_000, f"{path}: resample to 16 kHz"
            entry = {
                "id": Path(path).stem,
                "beams": beams(model, processor, decoder, audio),
            }
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", metavar="MODEL")
    parser.add_argument("output", metavar="LISTS.jsonl")
    parser.add_argument("recordings", metavar="WAV", nargs="+")
    try:
        main(**vars(parser.parse_args()))
    except ModuleNotFoundError as error:
        sys.exit(f"{error}; pip install transformers torch soundfile pyctcdecode")
