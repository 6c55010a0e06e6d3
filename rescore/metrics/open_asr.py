"""Word errors as the Hugging Face Open ASR Leaderboard counts them, by its own code.

The leaderboard is no package, and its normaliser changes often. Its code is imported
from a copy of the repository, and the signature names the copy by a digest. kaldialign
counts the errors. Words of a reference that make one word of the hypothesis, or the
other way round, are no error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np

from rescore.errors import UserError, installed_by
from rescore.files import sha256
from rescore.metrics.counting import Counts

ENGLISH = "en"


@cache
def _module(name: str) -> ModuleType:
    """Return a module of the leaderboard, or kaldialign."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = error.name or name
    if package.partition(".")[0] == "normalizer":
        raise UserError(
            "--open-asr runs the leaderboard's code; clone"
            " github.com/huggingface/open_asr_leaderboard, and set PYTHONPATH to"
            " its folder"
        )
    raise UserError(
        f"--open-asr needs the package {package}; {installed_by('open-asr')}"
    )


@cache
def normaliser(name: str, language: str) -> Callable[[str], str]:
    """Return the leaderboard's normaliser for a language.

    Args:
        name: The switch, `open_asr`.
        language: The language, such as en or de.

    Raises:
        UserError: The leaderboard's code or a package that it needs is not installed.
    """
    code = _module("normalizer.data_utils")
    if language == ENGLISH:
        english: Callable[[str], str] = code.normalizer
        return english
    return lambda text: code.ml_normalizer(text, lang=language)


def version_of(name: str, language: str) -> str:
    """Return what the figures depend on, for the signature.

    Args:
        name: The switch, `open_asr`.
        language: The language, such as en or de.

    Returns:
        The language, a digest of the leaderboard's code, and kaldialign's version.

    Raises:
        UserError: The leaderboard's code or a package that it needs is not installed.
    """
    folder = Path(_module("normalizer.data_utils").__file__ or "").parent
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + sha256(path))
    kaldialign = _module("kaldialign").__version__
    return f"{language}-{digest.hexdigest()[:12]}-kaldialign-{kaldialign}"


def word_counts(
    references: Sequence[Sequence[str]],
    hypotheses: Sequence[Sequence[str]],
    language: str,
) -> Counts:
    """Return the word errors of pairs in kaldialign's alignment.

    In languages other than English, words that differ only in their blanks are joined
    in both texts first, which makes the reference shorter.

    Args:
        references: The words of each reference.
        hypotheses: The words of each hypothesis.
        language: The language, such as en or de.

    Returns:
        Counts of shape (pairs, 4): substitutions, deletions, insertions and words of
        the reference.
    """
    count = _module("kaldialign").edit_distance
    if language != ENGLISH:
        references, hypotheses = _joined(references, hypotheses)
    rows = []
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        errors = count(reference, hypothesis, merge_compounds=True)
        rows.append([errors[kind] for kind in ("sub", "del", "ins", "ref_len")])
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _joined(
    references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words of pairs after the leaderboard has joined equal compounds."""
    ours, theirs = _module("normalizer.eval_utils").normalize_compound_pairs(
        [" ".join(words) for words in references],
        [" ".join(words) for words in hypotheses],
    )
    return [text.split() for text in ours], [text.split() for text in theirs]


def respelled(reference: Sequence[str], hypothesis: Sequence[str]) -> list[str]:
    """Return the words of a hypothesis, with equal compounds as the reference has them.

    Args:
        reference: The words of the reference.
        hypothesis: The words of the hypothesis.
    """
    pairs = _module("kaldialign").align(reference, hypothesis, "", merge_compounds=True)
    words: list[str] = []
    for expected, heard in pairs:
        if " " in expected + heard:  # equal compounds
            words += expected.split()
        else:
            words += heard.split()
    return words
