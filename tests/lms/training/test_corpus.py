"""Batches hold every sentence once an epoch, within the budget, the same every time,
and resumable anywhere.
"""

from __future__ import annotations

import gzip
import lzma
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.formats.sentences import read_lines
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training import corpus as corpus_module
from rescore.lms.training.corpus import Corpus, SentenceBatch, encode_corpus
from tests.conftest import SENTENCES

BUDGET, HELD_OUT = 200, 20


@pytest.fixture
def corpus(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> Corpus:
    # so that an epoch has several
    monkeypatch.setattr(corpus_module, "SHUFFLED_TOGETHER", 50)
    (tmp_path / "text").write_text("\n".join(SENTENCES))
    encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "corpus", longest=22)
    return Corpus(tmp_path / "corpus", tokenizer, HELD_OUT, seed=3)


def sentences(batch: SentenceBatch) -> list[tuple[int, ...]]:
    return [
        tuple(row[:length].tolist())
        for row, length in zip(batch.tokens, batch.lengths, strict=True)
    ]


def epoch_of(corpus: Corpus) -> list[list[tuple[int, ...]]]:
    """The batches of the first epoch."""
    taken, found = 0, []
    for batch in corpus.batches(BUDGET):
        found.append(sentences(batch))
        taken += len(batch.lengths)
        if taken == len(corpus):
            return found
    raise AssertionError


def test_an_epoch_is_every_sentence_once(corpus: Corpus, tokenizer: Tokenizer) -> None:
    found = [sentence for batch in epoch_of(corpus) for sentence in batch]
    kept_apart = [
        sentence for batch in corpus.held_out(BUDGET) for sentence in sentences(batch)
    ]
    assert len(kept_apart) == HELD_OUT
    pieces = []
    for ids in tokenizer.encode(SENTENCES):
        pieces += [
            (tokenizer.bos, *ids[start : start + 22], tokenizer.eos)
            for start in range(0, len(ids), 22)
        ]
    assert sorted(found + kept_apart) == sorted(pieces)
    assert corpus.training_tokens == sum(len(sentence) - 2 for sentence in found)


def test_budget_and_padding(corpus: Corpus, tokenizer: Tokenizer) -> None:
    for batch in islice(corpus.batches(BUDGET), 50):
        assert batch.tokens.size <= BUDGET
        for row, length in zip(batch.tokens, batch.lengths, strict=True):
            assert (row[length:] == tokenizer.pad).all() and row[
                length - 1
            ] == tokenizer.eos


def test_a_batch_has_at_most_so_many_sentences(corpus: Corpus) -> None:
    """With room for the longest sentences, all batches but the last of a shuffle have
    this number.
    """
    every = islice(corpus.batches(7 * 24, most=7), 40)
    numbers = [len(batch.lengths) for batch in every]
    assert max(numbers) == 7 and numbers.count(7) > 30
    plain = [sentences(batch) for batch in islice(corpus.batches(BUDGET), 20)]
    loose = [sentences(batch) for batch in islice(corpus.batches(BUDGET, 0, 99), 20)]
    assert plain == loose


def test_same_every_time_and_resumable_across_epochs(corpus: Corpus) -> None:
    number = 2 * len(epoch_of(corpus)) + 3
    all_batches = [sentences(batch) for batch in islice(corpus.batches(BUDGET), number)]
    for skip in (1, 7, number - 4):
        rest = [
            sentences(batch)
            for batch in islice(corpus.batches(BUDGET, skip), number - skip)
        ]
        assert rest == all_batches[skip:]
    first, second = all_batches[: number // 2], all_batches[number // 2 :]
    assert first != second[: len(first)]  # another order in the next epoch


@pytest.mark.parametrize("size", [2, 5])
def test_windows_are_consecutive_sentences_of_a_document(
    tmp_path: Path, tokenizer: Tokenizer, size: int
) -> None:
    documents = [SENTENCES[:33], SENTENCES[33:34], SENTENCES[34:]]
    (tmp_path / "text").write_text("\n\n\n".join("\n".join(some) for some in documents))
    encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "corpus", longest=60)
    corpus = Corpus(tmp_path / "corpus", tokenizer, HELD_OUT, seed=3, window=size)
    windows = corpus.windows([tokenizer.eos, tokenizer.bos])
    between = (tokenizer.eos, tokenizer.bos)
    expected = [
        tuple(
            token
            for ids in tokenizer.encode(some[start : start + size])
            for token in (*between, *ids)
        )[2:]
        for some in documents
        for start in range(0, len(some), size)
    ]
    apart = [
        one[1:-1] for batch in windows.held_out(BUDGET) for one in sentences(batch)
    ]
    learned = [one[1:-1] for batch in epoch_of(windows) for one in batch]
    assert sorted(apart + learned) == sorted(expected)

    def inner(items: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The sentences of windows."""
        return [
            tuple(map(int, part.split()))
            for one in items
            for part in " ".join(map(str, one)).split(cut)
        ]

    cut = f" {tokenizer.eos} {tokenizer.bos} "
    held_out = [
        one[1:-1] for batch in corpus.held_out(BUDGET) for one in sentences(batch)
    ]
    assert sorted(inner(apart)) == sorted(held_out) and len(held_out) >= HELD_OUT - size
    assert sorted(inner(learned)) == sorted(
        one[1:-1] for batch in epoch_of(corpus) for one in batch
    )


@pytest.mark.parametrize("ending", [".txt", ".gz", ".xz"])
def test_text_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"text{ending}"
    packers = {".gz": gzip.compress, ".xz": lzma.compress}
    path.write_bytes(packers.get(ending, bytes)("one\n\n  two ü \n".encode()))
    assert list(read_lines(path)) == ["one", "two ü"]


def test_damaged_text(tmp_path: Path) -> None:
    cut = tmp_path / "cut.xz"
    cut.write_bytes(lzma.compress(b"one\n" * 1000)[:-8])
    with pytest.raises(UserError, match=r"cut\.xz: damaged gzip or xz file"):
        list(read_lines(cut))
    (tmp_path / "latin").write_bytes(b"one\n\xe4\n")
    with pytest.raises(UserError, match="latin: line 2: is not UTF-8; convert"):
        list(read_lines(tmp_path / "latin"))


def test_too_small_or_empty(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "text").write_text("one\ntwo\n")
    encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "c", 22)
    with pytest.raises(
        UserError, match="2 sentences; it needs more than the 2 held out"
    ):
        Corpus(tmp_path / "c", tokenizer, 2, 0)
    (tmp_path / "text").write_text("\n\n")
    with pytest.raises(UserError, match="no sentence"):
        encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "c", 22)


def test_encoded_again_only_when_the_text_changed(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES[:50]))
    encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "c", 22)
    before = (tmp_path / "c" / "ids.bin").stat().st_mtime_ns
    encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "c", 22)
    assert (tmp_path / "c" / "ids.bin").stat().st_mtime_ns == before
    (tmp_path / "text").write_text("\n".join(SENTENCES[:60]))
    encode_corpus([tmp_path / "text"], tokenizer, tmp_path / "c", 22)
    assert len(np.fromfile(tmp_path / "c" / "ends.bin", dtype=np.int64)) >= 60
