"""What becomes of misspelled words: counts of words before and after rescoring.

    python benchmarks/respelled.py NAME=LISTS... [--lexicon FILE] [-o FILE]

LISTS are written by `rescore run` with -o, with or without --respell: the first
hypothesis of each list is the chosen one. A line for each LISTS has these numbers:

- misspelled: words of the first pass that are not in the lexicon, in the place of a
  word of the lexicon
- repaired: the words of the references in these places that the chosen texts have
- respelled: words that respelling replaced in the chosen texts
- better, worse: respelled words that are right and were wrong, and the reverse
- another error: respelled words that were wrong and are wrong

FILE gets the numbers as JSON. The lexicon is that of `tta`, if no other one is given.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from common import write_json

import rescore
from rescore.asr.features import EDITS, RESPELLED
from rescore.asr.respell import find_lexicon
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.deciding import first_pass
from rescore.lms.lexicon import Lexicon, spelled
from rescore.metrics.normalise import Normaliser
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.word_errors import without_insertions, word_pairs

COUNTS = ("misspelled", "repaired", "respelled", "better", "worse", "another error")
NORMALISER = Normaliser()


def outcome(was_right: bool, is_right: bool) -> str:
    """Return what became of a respelled word."""
    if is_right:
        return "better"
    return "worse" if was_right else "another error"


def counts(every: Iterable[NbestList], lexicon: Lexicon) -> dict[str, int]:
    """Return the numbers of some lists.

    Args:
        every: Lists with references; the chosen hypothesis of each is its first.
        lexicon: The words that are spelled correctly.
    """
    lists = Dataset.of(every)
    found: Counter[str] = Counter()
    for nbest, before in zip(lists, first_pass(lists).texts, strict=True):
        chosen = nbest.hypotheses[0]
        found += _of_first_pass(nbest, before, chosen.text, lexicon)
        if chosen.origin == RESPELLED:
            found += _of_respelling(nbest, chosen)
    return {name: found[name] for name in COUNTS}


def _of_first_pass(
    nbest: NbestList, before: str, after: str, lexicon: Lexicon
) -> Counter[str]:
    """Return how many misspelled words a list has, and how many are repaired."""
    reference = NORMALISER.closest(nbest.references, before)
    found: Counter[str] = Counter()
    in_before, in_after = (
        without_insertions(word_pairs(NORMALISER, reference, text))
        for text in (before, after)
    )
    for (word, heard), (_, chosen) in zip(in_before, in_after, strict=True):
        if heard and spelled(heard) and heard not in lexicon and word in lexicon:
            found["misspelled"] += 1
            found["repaired"] += chosen == word
    return found


def _of_respelling(nbest: NbestList, chosen: Hypothesis) -> Counter[str]:
    """Return how many words of the chosen hypothesis are respelled, and what became of
    them.
    """
    original = _original(nbest, chosen)
    reference = NORMALISER.closest(nbest.references, original.text)
    found: Counter[str] = Counter()
    for (before, was_right), (after, is_right) in zip(
        _by_word(reference, original.text),
        _by_word(reference, chosen.text),
        strict=True,
    ):
        if before != after:
            found["respelled"] += 1
            found[outcome(was_right, is_right)] += 1
    return found


def _by_word(reference: str, text: str) -> list[tuple[str, bool]]:
    """Return the words of a text, each with whether it is right."""
    pairs = word_pairs(NORMALISER, reference, text)
    return [(heard, word == heard) for word, heard in pairs if heard]


def _original(nbest: NbestList, respelled: Hypothesis) -> Hypothesis:
    """Return the hypothesis that a respelled one was made of: it has the same
    first-pass score, and differs in as many words as were respelled.
    """
    words = NORMALISER(respelled.text)
    for hypothesis in nbest.hypotheses:
        own = NORMALISER(hypothesis.text)
        is_like = (
            hypothesis.origin != RESPELLED
            and hypothesis.scores[FIRST_PASS] == respelled.scores[FIRST_PASS]
            and len(own) == len(words)
        )
        if is_like:
            changed = sum(a != b for a, b in zip(own, words, strict=True))
            if changed == respelled.scores[EDITS]:
                return hypothesis
    raise SystemExit(f"utterance {nbest.id}: no original of {respelled.text!r}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", nargs="+", metavar="NAME=LISTS")
    parser.add_argument("--lexicon", metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    lexicon = find_lexicon(options.lexicon, [])
    rows = {}
    for given in options.lists:
        name, _, path = given.partition("=")
        rows[name] = counts(rescore.read(path), lexicon)
        shown = ", ".join(f"{key} {number:,}" for key, number in rows[name].items())
        print(f"{name}: {shown}", flush=True)
    if options.output:
        write_json(options.output, rows)


if __name__ == "__main__":
    main()
