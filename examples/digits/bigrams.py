"""A bigram model with interpolated absolute discounting, as an ARPA file: python bigrams.py data/train/text lm.arpa."""

from __future__ import annotations

import math
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

DISCOUNT = 0.5


def arpa(sentences: list[list[str]]) -> str:
    """The text of an ARPA file (log10)."""
    sentences = [["<s>", *words, "</s>"] for words in sentences]
    bigrams = Counter(pair for words in sentences for pair in pairwise(words))
    before = Counter(pair[0] for pair in bigrams.elements())
    kinds = Counter(first for first, _ in bigrams)
    words = Counter(word for sentence in sentences for word in sentence[1:])
    total = sum(words.values())
    unigram = {word: number / (total + 1) for word, number in words.items()}
    lines = ["\\data\\", f"ngram 1={len(unigram) + 2}", f"ngram 2={len(bigrams)}", "", "\\1-grams:"]
    lines += ["-99\t<s>\t" + f"{math.log10(DISCOUNT * kinds['<s>'] / before['<s>']):.6f}"]
    lines += [f"{math.log10(1 / (total + 1)):.6f}\t<unk>\t0"]
    for word, share in sorted(unigram.items()):
        backoff = math.log10(DISCOUNT * kinds[word] / before[word]) if before[word] else 0.0
        lines.append(f"{math.log10(share):.6f}\t{word}\t{backoff:.6f}")
    lines += ["", "\\2-grams:"]
    for (first, second), number in sorted(bigrams.items()):
        rest = DISCOUNT * kinds[first] / before[first] * unigram[second]
        lines.append(f"{math.log10((number - DISCOUNT) / before[first] + rest):.6f}\t{first} {second}")
    return "\n".join([*lines, "", "\\end\\", ""])


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    Path(sys.argv[2]).write_text(arpa([line.split()[1:] for line in text.splitlines()]), encoding="utf-8")
