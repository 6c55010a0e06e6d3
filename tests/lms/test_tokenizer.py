"""Tokens of texts."""

from __future__ import annotations

from rescore.lms.tokenizer import Tokenizer


def test_a_text_has_no_special_tokens(tokenizer: Tokenizer) -> None:
    """The frame of a sequence is never from a text."""
    text = "the [BOS] clock [EOS] [MASK] [PAD]"
    (ids,) = tokenizer.encode([text])
    ((same, _),) = tokenizer.encode_words([text])
    special = {tokenizer.bos, tokenizer.eos, tokenizer.mask, tokenizer.pad}
    assert ids == same and special.isdisjoint(ids)
    assert ids.count(tokenizer.unk) == 4
