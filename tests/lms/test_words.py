"""A vocabulary of words, made with the library tokenizers: other words are [UNK]."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers import models, normalizers, pre_tokenizers

from rescore.lms.backends import load
from rescore.lms.base import Question
from rescore.lms.tokenizer import SPECIAL, UNK, Tokenizer
from tests.conftest import SENTENCES, Run, assert_one_line_error

TEXT = ["The cat sat on the mat.", "the cat ran; the dog sat", "a dog, a cat"]


def of_words(*words: str) -> Tokenizer:
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *words])}
    tokenizer = HuggingFaceTokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.normalizer, tokenizer.pre_tokenizer = (
        normalizers.Lowercase(),
        pre_tokenizers.Whitespace(),
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    return Tokenizer(tokenizer)


def test_words_are_tokens() -> None:
    made = of_words("the", "cat", "a", "dog", "sat", "mat")
    assert made.encode(["THE Cat ran on the mat"]) == [
        [5, 6, made.unk, made.unk, 5, 10]
    ]
    assert made.encode_words(["the ran"]) == [([5, made.unk], [0, 1])]


def test_it_is_saved_and_read(tmp_path: Path) -> None:
    made = of_words("the", "cat")
    made.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint == made.fingerprint and again.encode(TEXT) == made.encode(
        TEXT
    )


@pytest.mark.parametrize("kind", ["tta", "unilm"])
def test_command(rescore: Run, tmp_path: Path, kind: str) -> None:
    """A word is a token, and words beyond the vocabulary are reported as unknown."""
    (tmp_path / "text").write_text("\n".join(SENTENCES), encoding="utf-8")
    (tmp_path / "tiny.json").write_text(
        '{"kind": "tta", "vocab_size": 300, "layers": 1, "d_model": 16, "heads": 2,'
        ' "d_ff": 16}',
        encoding="utf-8",
    )
    of_words("the", "clock", "old").save(tmp_path / "words.json")
    train = [
        "train",
        "--lm",
        kind,
        "--config",
        "tiny.json",
        "--text",
        "text",
        "--tokenizer",
        "words.json",
    ]
    done = rescore(*train, "--out", "lm", "--steps", "3")
    assert done.returncode == 0, done.stderr
    (found,) = load(f"{kind}:{tmp_path / 'lm'}").score([Question("the zyzzyva")])
    assert found.tokens[:2] == ["the", "[UNK]"] and found.unknown == (1,)
    assert_one_line_error(
        rescore(*train, "--size", "9", "--out", "other"),
        "--size is for a new tokenizer",
    )
