"""Corrections of an instruction model as lists: python llm_proposals.py LISTS OUTPUT.jsonl URL MODEL

The server at URL has /v1/chat/completions (vLLM, llama-server, Ollama). The output holds one list per list of LISTS,
with the model's corrections, best first, for `rescore combine LISTS OUTPUT.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rescore

NUMBER = 3
PROMPT = """These are transcripts of one utterance by a speech recogniser, the most probable first:

{list}

Write up to {number} corrected transcripts, one per line, and nothing else. Keep all words that you cannot correct."""


def corrections(nbest: rescore.NbestList, url: str, model: str) -> list[str]:
    """The texts that the model writes for a list."""
    texts = "\n".join(hypothesis.text for hypothesis in nbest.hypotheses[:10])
    message = {"role": "user", "content": PROMPT.format(list=texts, number=NUMBER)}
    body = {"model": model, "messages": [message], "temperature": 0, "max_tokens": 600}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        content = json.load(answer)["choices"][0]["message"]["content"]
    lines = [line.strip() for line in content.splitlines()]
    return list(dict.fromkeys(filter(None, lines)))[:NUMBER]


def main(path: str, output: str, url: str, model: str) -> None:
    """Write the corrections of the lists."""
    import rescore

    with open(output, "w", encoding="utf-8") as file:
        for nbest in rescore.read(path):
            # A list needs a hypothesis: the first one where the model writes nothing.
            texts = corrections(nbest, url, model) or [nbest.hypotheses[0].text]
            hyps = [
                {"text": text, "score": -float(rank)} for rank, text in enumerate(texts)
            ]
            file.write(
                json.dumps({"id": nbest.id, "hyps": hyps}, ensure_ascii=False) + "\n"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", metavar="LISTS")
    parser.add_argument("output", metavar="OUTPUT.jsonl")
    parser.add_argument("url", metavar="URL")
    parser.add_argument("model", metavar="MODEL")
    try:
        main(**vars(parser.parse_args()))
    except ModuleNotFoundError as error:
        sys.exit(f"{error}; install rescore")
