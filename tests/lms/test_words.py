"""A vocabulary of words: the most frequent ones, and [UNK] for all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescore.lms.backends import load
from rescore.lms.base import Question
from rescore.lms.tokenizer import SPECIAL, Tokenizer
from rescore.lms.training.vocabulary import train_words
from tests.conftest import SENTENCES, Run, assert_one_line_error

TEXT = ["The cat sat on the mat.", "the cat ran; the dog sat", "a dog, a cat"]


def test_the_most_frequent_words_are_known() -> None:
    """the 4, cat 3, a 2, dog 2, sat 2; mat, on and ran once."""
    made = train_words(TEXT, 11)
    assert made.vocab_size == 11
    assert made.tokens(range(11)) == [*SPECIAL, "the", "cat", "a", "dog", "sat", "mat"]
    assert made.encode(["THE Cat ran on the mat"]) == [[5, 6, made.unk, made.unk, 5, 10]]
    assert made.encode_words(["the ran"]) == [([5, made.unk], [0, 1])]
    assert train_words(TEXT, 100).vocab_size == 5 + 8


def test_it_is_saved_and_read(tmp_path: Path) -> None:
    made = train_words(TEXT, 11)
    made.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint == made.fingerprint and again.encode(TEXT) == made.encode(TEXT)


@pytest.mark.parametrize("kind", ["tta", "unilm"])
def test_command(rescore: Run, tmp_path: Path, kind: str) -> None:
    """A word is a token, and words beyond the vocabulary are reported as unknown."""
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    (tmp_path / "tiny.json").write_text(
        '{"kind": "tta", "vocab_size": 300, "layers": 1, "d_model": 16, "heads": 2, "d_ff": 16}', encoding="utf-8"
    )
    train = ["train", "--lm", kind, "--config", "tiny.json", "--text", "text", "--vocabulary", "words", "--out", "lm"]
    done = rescore(*train, "--size", "40", "--steps", "3")
    assert done.returncode == 0 and "a tokenizer of 40 words" in done.stderr, done.stderr
    (found,) = load(f"{kind}:{tmp_path / 'lm'}").score([Question("the zyzzyva")])
    assert found.tokens[:2] == ["the", "[UNK]"] and found.unknown == (1,)
    again = rescore("train", "--lm", kind, "--tokenizer", "lm/tokenizer.json", "--size", "9", "--out", "other")
    assert_one_line_error(again, "--vocabulary and --size are for a new tokenizer")
