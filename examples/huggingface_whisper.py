"""N-best lists of Whisper by transformers' beam search: python huggingface_whisper.py MODEL LISTS.jsonl *.wav

Whisper's own `generate` returns the best beam N times (transformers 5.23); the `generate` of all other models does not.
"""

import argparse
import json
import sys
from pathlib import Path


def hypotheses(model, processor, audio, prompt, size=10, **options):
    """The beams of one recording of at most 30 s at 16 kHz.

    Args:
        prompt: ids of `<|startoftranscript|>`, language, task and `<|notimestamps|>`.
    """
    import torch
    from transformers import GenerationMixin

    features = processor(
        audio, sampling_rate=16_000, return_tensors="pt"
    ).input_features.to(model.device)
    beams = GenerationMixin.generate(
        model,
        features,
        decoder_input_ids=torch.tensor([prompt], device=model.device),
        num_beams=size,
        num_return_sequences=size,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    texts = processor.batch_decode(beams.sequences, skip_special_tokens=True)
    # Scores are means of natural logarithms over tokens; beams are ranked by them.
    return [
        {"text": text.strip(), "score": score}
        for text, score in zip(texts, beams.sequences_scores.tolist(), strict=True)
    ]


def main(name, output, recordings):
    """Write the beams of the recordings."""
    import soundfile
    from transformers import WhisperForConditionalGeneration, WhisperProcessor

    model, processor = (
        WhisperForConditionalGeneration.from_pretrained(name),
        WhisperProcessor.from_pretrained(name),
    )
    marks = [
        "<|startoftranscript|>",
        "<|en|>",
        "<|transcribe|>",
        "<|notimestamps|>",
    ]  # models *.en have no middle two
    prompt = processor.tokenizer.convert_tokens_to_ids(marks)
    with open(output, "w", encoding="utf-8") as file:
        for path in recordings:
            audio, rate = soundfile.read(path)
            assert rate == 16_000, f"{path}: resample to 16 kHz"
            hyps = hypotheses(model, processor, audio, prompt)
            file.write(
                json.dumps({"id": Path(path).stem, "hyps": hyps}, ensure_ascii=False)
                + "\n"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", metavar="MODEL")
    parser.add_argument("output", metavar="LISTS.jsonl")
    parser.add_argument("recordings", metavar="WAV", nargs="+")
    try:
        main(**vars(parser.parse_args()))
    except ModuleNotFoundError as error:
        sys.exit(f"{error}; pip install transformers torch soundfile")
