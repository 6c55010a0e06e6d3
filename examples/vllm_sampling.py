"""N-best lists of a model behind vLLM's completions: python vllm_sampling.py MODEL LISTS.jsonl PROMPTS.txt"""

import argparse
import json
import sys


def main(name, output, prompts):
    """Write the samples of the prompts."""
    from vllm import LLM, SamplingParams  # 0.6 and later

    with open(prompts, encoding="utf-8") as lines:
        sources = [line.strip() for line in lines]
    # With logprobs, cumulative_logprob is the sum of the natural logarithms of the sampled tokens.
    sampling = SamplingParams(
        n=10, temperature=0.7, top_p=0.95, max_tokens=256, logprobs=0, seed=1
    )
    with open(output, "w", encoding="utf-8") as file:
        for number, (source, answer) in enumerate(
            zip(sources, LLM(name).generate(sources, sampling), strict=True), 1
        ):
            hyps = [
                {"text": choice.text.strip(), "score": choice.cumulative_logprob}
                for choice in answer.outputs
            ]
            file.write(
                json.dumps(
                    {"id": str(number), "src": source, "hyps": hyps}, ensure_ascii=False
                )
                + "\n"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", metavar="MODEL")
    parser.add_argument("output", metavar="LISTS.jsonl")
    parser.add_argument("prompts", metavar="PROMPTS.txt")
    try:
        main(**vars(parser.parse_args()))
    except ModuleNotFoundError as error:
        sys.exit(f"{error}; pip install vllm")
