"""N-best lists of opus-mt, NLLB or another translator: python huggingface_translation.py MODEL LISTS.jsonl SOURCES.txt

NLLB needs the language of the output: python huggingface_translation.py MODEL LISTS.jsonl SOURCES.txt deu_Latn
"""

import argparse
import json
import sys


def hypotheses(model, tokenizer, source, size=10, **options):
    """The beams of one sentence; scores are means of natural logarithms over tokens (with length_penalty 1)."""
    inputs = tokenizer(
        source, return_tensors="pt", return_token_type_ids=False
    ).to(model.device)
    beams = model.generate(
        **inputs,
        num_beams=size,
        num_return_sequences=size,
        length_penalty=1.0,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    texts = tokenizer.batch_decode(beams.sequences, skip_special_tokens=True)
    return [
        {"text": text.strip(), "score": score}
        for text, score in zip(texts, beams.sequences_scores.tolist(), strict=True)
    ]


def main(name, output, sources, language):
    """Write the beams of the sentences."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model, tokenizer = (
        AutoModelForSeq2SeqLM.from_pretrained(name),
        AutoTokenizer.from_pretrained(name),
    )
    options = (
        {"forced_bos_token_id": tokenizer.convert_tokens_to_ids(language)}
        if language
        else {}
    )
    with (
        open(sources, encoding="utf-8") as lines,
        open(output, "w", encoding="utf-8") as file,
    ):
        for number, line in enumerate(lines, 1):
            hyps = hypotheses(model, tokenizer, line.strip(), **options)
            entry = {"id": str(number), "src": line.strip(), "hyps": hyps}
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", metavar="MODEL")
    parser.add_argument("output", metavar="LISTS.jsonl")
    parser.add_argument("sources", metavar="SOURCES.txt")
    parser.add_argument("language", metavar="LANGUAGE", nargs="?")
    try:
        main(**vars(parser.parse_args()))
    except ModuleNotFoundError as error:
        sys.exit(f"{error}; pip install transformers torch sentencepiece")
