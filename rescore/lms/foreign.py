"""Texts in a language that a model does not know: its words fall into many tokens, or
into unknown tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescore.lms.backends import shipped, shipped_models
from rescore.lms.folders import tokens_per_word
from rescore.lms.tokenizer import UNK, Tokenizer

FOREIGN = 1.6
"""A model does not know a language if words have this number of times the tokens of
words of its training text. English calls have 1.1 times as many for `tta`, French 1.9,
Malay 2.3.
"""
LEAST_WORDS = 30
"""The least number of words by which tokens are divided; fewer words do not show
whether a text is foreign.
"""


def per_word(tokens: int, words: int) -> float:
    """Return the number of tokens of a word.

    Args:
        tokens: Tokens of all texts.
        words: Words of all texts.
    """
    return tokens / max(words, LEAST_WORDS)


def has_long_words(tokens: int, words: int, usual: float) -> bool:
    """Return whether words have far more tokens than in a model's training text.

    Args:
        tokens: Tokens of all texts.
        words: Words of all texts.
        usual: Tokens of a word in the training text; 0 if this is not known.
    """
    return usual > 0 and per_word(tokens, words) > FOREIGN * usual


def is_unknown(unknown: int, tokens: int) -> bool:
    """Return whether more than half of the tokens are unknown to a model.

    Args:
        unknown: Unknown tokens of all texts.
        tokens: Tokens of all texts.
    """
    return 2 * unknown > tokens


def is_foreign(model: str, texts: Sequence[str]) -> bool:
    """Return whether a shipped model does not know the language of texts.

    Args:
        model: The name of the model. A model that is not shipped, or has no tokenizer,
            is taken to know it.
        texts: The texts.
    """
    folder = shipped_models() / model
    if model not in shipped() or not (folder / "tokenizer.json").exists():
        return False
    pieces = Tokenizer.load(folder / "tokenizer.json").pieces(texts)
    tokens = sum(map(len, pieces))
    unknown = sum(each.count(UNK) for each in pieces)
    words = sum(len(text.split()) for text in texts)
    usual = tokens_per_word(folder)
    return has_long_words(tokens, words, usual) or is_unknown(unknown, tokens)
