"""Word errors as the Hugging Face Open ASR Leaderboard counts them, by its own code.

The leaderboard is no package: its normaliser changes often, and its figures are those
of its code. So the code is imported from a copy of the repository, and the signature
says which copy. kaldialign counts the errors: words of a reference that make one word
of the hypothesis, or the other way round, are no error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

from rescore.errors import UserError
from rescore.files import sha256
from rescore.metrics.counting import Counts

ENGLISH = "en"
CACHED = 1 << 17
"""Texts of which the result is kept: bounds memory."""


@cache
def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "normalizer":
            raise UserError(
                "--open-asr runs the leaderboard's code; clone"
                " github.com/huggingface/open_asr_leaderboard, and set PYTHONPATH to"
                " its folder"
            ) from None
        raise UserError(
            f"--open-asr needs the package {error.name}; pip install"
            " 'rescore[open-asr]'"
        ) from None


@cache
def normaliser(name: str, language: str) -> Callable[[str], str]:
    """The leaderboard's normaliser for a language, with a cache.

    Raises:
        UserError: the leaderboard's code or a package that it needs is not installed.
    """
    code = _module("normalizer.data_utils")
    if language == ENGLISH:
        return lru_cache(CACHED)(code.normalizer)
    return lru_cache(CACHED)(lambda text: code.ml_normalizer(text, lang=language))


def version_of(name: str, language: str) -> str:
    """The language, the digest of the leaderboard's code, and the version of
    kaldialign.
    """
    digest = hashlib.sha256()
    for path in sorted(
        Path(_module("normalizer.data_utils").__file__ or "").parent.glob("*.py")
    ):
        digest.update(path.name.encode() + sha256(path))
    kaldialign = _module("kaldialign").__version__
    return f"{language}-{digest.hexdigest()[:12]}-kaldialign-{kaldialign}"


def word_counts(
    references: Sequence[Sequence[str]],
    hypotheses: Sequence[Sequence[str]],
    language: str,
) -> Counts:
    """(n, 4) substitutions, deletions, insertions and words of references. In languages
    other than English, words that differ only in their blanks are first joined in both
    texts, which makes the reference shorter.
    """
    count = _module("kaldialign").edit_distance
    if language != ENGLISH:
        texts = (
            [" ".join(words) for words in side] for side in (references, hypotheses)
        )
        joined = _module("normalizer.eval_utils").normalize_compound_pairs(*texts)
        references, hypotheses = ([text.split() for text in side] for side in joined)
    rows = []
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        errors = count(reference, hypothesis, merge_compounds=True)
        rows.append([errors[kind] for kind in ("sub", "del", "ins", "ref_len")])
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def respelled(reference: Sequence[str], hypothesis: Sequence[str]) -> list[str]:
    """The words of the hypothesis, with equal compounds as the reference writes them:
    for alignments of words.
    """
    pairs = _module("kaldialign").align(reference, hypothesis, "", merge_compounds=True)
    compound = [" " in expected + word for expected, word in pairs]
    texts = (
        expected if joined else word
        for (expected, word), joined in zip(pairs, compound, strict=True)
    )
    return [word for text in texts for word in text.split()]
