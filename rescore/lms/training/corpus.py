"""Encoded text and pairs on disk, and batches of them."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.files import read_json, write_text
from rescore.formats.text import read_lines
from rescore.lms.tokenizer import Tokenizer
from rescore.nbest import in_parts

CHUNK = 10_000
"""Lines that are read and encoded together."""
COUNTED_TOGETHER = 1 << 24
"""Tokens that are counted together: bounds memory."""
SHUFFLED_TOGETHER = 32_768
"""Sentences that are sorted by length together: enough to fill batches, few enough to
stay shuffled.
"""
MOST_HELD_OUT = 2000
"""Number of sentences or pairs held out of a large text for validation; their loss is
exact to two digits.
"""

SentencePair = tuple[str, str]
Indices = npt.NDArray[np.uint32]


def read_pairs(source: Path, target: Path) -> Iterator[list[SentencePair]]:
    """The pairs of lines, in chunks; empty lines among them."""
    lines = zip_longest(read_lines(source, empty=True), read_lines(target, empty=True))
    number = 0
    for chunk in in_parts(lines, CHUNK):
        if None in chunk[-1]:
            shorter = (source, target)[chunk[-1].index(None)]
            lines_there = number + next(
                place for place, pair in enumerate(chunk) if None in pair
            )
            raise UserError(
                f"{shorter}: has {counted(lines_there, 'line')}, the other side of"
                " --pairs has more"
            )
        number += len(chunk)
        yield [
            (str(source_line), str(target_line)) for source_line, target_line in chunk
        ]


@dataclass(frozen=True, slots=True)
class SentenceBatch:
    """Sentences of about one length, as [BOS] ... [EOS], padded."""

    tokens: npt.NDArray[np.int64]  # (sentences, longest)
    lengths: npt.NDArray[np.int64]  # (sentences,), [BOS] and [EOS] included


class Corpus:
    """Encoded sentences on disk. Memory: 6 bytes per sentence and one pool; the length
    of sentences does not count.
    """

    def __init__(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        held_out: int | None,
        seed: int,
        window: int = 1,
    ) -> None:
        """Open what `encode_corpus` wrote; `held_out` sentences, chosen by `seed`, are
        kept for validation.

        Args:
            held_out: number of sentences, or of pairs; None for a twentieth of the
                text, at most `MOST_HELD_OUT`.
            window: number of consecutive sentences of a document that are held out, or
                trained on, together.
        """
        self._tokenizer, self._seed = tokenizer, seed
        try:
            meta = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            self._ids: npt.NDArray[np.unsignedinteger] = np.memmap(
                folder / "ids.bin", dtype=meta["dtype"], mode="r"
            )
            self._ends: npt.NDArray[np.int64] = np.memmap(
                folder / "ends.bin", dtype=np.int64, mode="r"
            )
            documents = np.fromfile(folder / "documents.bin", dtype=np.int64)
            if self._ends[-1] != len(self._ids) or documents[-1] != len(self._ends):
                raise ValueError("the files do not fit each other")
            self.fingerprint = str(meta["content"])
            """Content hash of the encoded text."""
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise UserError(
                f"{folder}: the encoded text is damaged ({error}); delete the folder"
            ) from None
        # the two directions of a pair are held out, or trained on, together
        together = int(meta.get("together", 1))
        self._windows = _cut(documents, together * window)
        if held_out is None:
            held_out = max(1, min(MOST_HELD_OUT, len(self._ends) // together // 20))
        groups = (
            np.random.default_rng([seed, 0])
            .permutation(len(self._windows) - 1)
            .astype(np.uint32)
        )
        apart = -(-held_out // window)
        if apart >= len(groups):
            raise UserError(
                f"the text has {counted(len(self._ends), 'sentence')}; it needs more"
                f" than the {apart * window} held out"
            )
        self._held_out_windows, self._training_windows = (
            np.sort(groups[:apart]),
            groups[apart:],
        )
        self._held_out = _members(self._windows, self._held_out_windows)
        self._training = _members(self._windows, self._training_windows)
        self.held_out_sentences = len(self._held_out)
        self._between: npt.NDArray[np.unsignedinteger] | None = None

    def __len__(self) -> int:
        """Number of sentences, or of windows, to train on."""
        return len(self._training)

    @property
    def tokens(self) -> int:
        """Tokens of the whole text, with the held-out sentences."""
        return len(self._ids)

    @property
    def training_tokens(self) -> int:
        """Tokens in one epoch, [BOS] and [EOS] not counted."""
        return self.tokens - sum(len(self._item(index)) for index in self._held_out)

    def windows(
        self, between: Sequence[int], least: int = 1, longest: int | None = None
    ) -> Corpus:
        """Return a corpus whose items are the windows of this corpus.

        With windows of two sentences, `between` [EOS] [BOS] gives items [BOS] first
        [EOS] [BOS] second [EOS].

        Args:
            between: The tokens between two sentences of a window.
            least: Sentences of a window, at least; shorter windows are left out.
            longest: Tokens of a window with its frame, at most; longer windows are left
                out. None for no limit.

        Raises:
            UserError: No window is left to train on, or none is held out.
        """
        windows = copy.copy(self)
        windows._between = np.array(between, dtype=self._ids.dtype)
        sizes = np.diff(self._windows)

        def fitting(indices: Indices) -> Indices:
            kept = indices[sizes[indices] >= least]
            if longest is None:
                return kept
            lengths = np.array([len(windows._item(int(index))) + 2 for index in kept])
            return kept[lengths <= longest]

        windows._training = fitting(self._training_windows)
        windows._held_out = fitting(self._held_out_windows)
        if not len(windows._training) or not len(windows._held_out):
            raise UserError(
                f"the text has too few windows of {least} consecutive lines:"
                f" {len(windows._training)} to train on, {len(windows._held_out)} held"
                " out; give a longer text (an empty line ends a document)"
            )
        return windows

    def counts(self) -> npt.NDArray[np.int64]:
        """Return how often each token occurs in the whole text: (vocabulary,)."""
        size = self._tokenizer.vocab_size
        counts = np.zeros(size, dtype=np.int64)
        for start in range(0, len(self._ids), COUNTED_TOGETHER):
            part = self._ids[start : start + COUNTED_TOGETHER]
            counts += np.bincount(part, minlength=size)
        return counts

    def _item(self, index: int) -> npt.NDArray[np.unsignedinteger]:
        """The tokens of a sentence or window, without the first [BOS] and the last
        [EOS].
        """
        if self._between is None:
            return self._sentence(index)
        sentences = map(
            self._sentence, range(self._windows[index], self._windows[index + 1])
        )
        return np.concatenate(
            [part for sentence in sentences for part in (self._between, sentence)][1:]
        )

    def _sentence(self, index: int) -> npt.NDArray[np.unsignedinteger]:
        return self._ids[self._ends[index - 1] if index else 0 : self._ends[index]]

    def _batch(self, indices: Indices) -> SentenceBatch:
        sentences = [self._item(int(index)) for index in indices]
        lengths = np.array(
            [len(sentence) + 2 for sentence in sentences], dtype=np.int64
        )
        tokens = np.full(
            (len(sentences), lengths.max()), self._tokenizer.pad, dtype=np.int64
        )
        tokens[:, 0] = self._tokenizer.bos
        for row, sentence in zip(tokens, sentences, strict=True):
            row[1 : len(sentence) + 1] = sentence
            row[len(sentence) + 1] = self._tokenizer.eos
        return SentenceBatch(tokens, lengths)

    def _pack(
        self, indices: Indices, budget: int, most: int | None = None
    ) -> Iterator[Indices]:
        """Cut `indices` into batches of about one length whose padded size is at most
        `budget` tokens and `most` sentences.
        """
        lengths = np.array([len(self._item(int(index))) + 2 for index in indices])
        by_length = np.argsort(lengths, kind="stable")
        start = 0
        for stop in range(1, len(by_length) + 1):
            if (
                stop == len(by_length)
                or stop - start == most
                or (stop - start + 1) * lengths[by_length[stop]] > budget
            ):
                yield indices[by_length[start:stop]]
                start = stop

    def held_out(self, budget: int) -> Iterator[SentenceBatch]:
        """The validation sentences, each once."""
        for indices in self._pack(self._held_out, budget):
            yield self._batch(indices)

    def batches(
        self, budget: int, skip: int = 0, most: int | None = None
    ) -> Iterator[SentenceBatch]:
        """Endless batches, epoch after epoch; equal arguments give equal batches.

        Args:
            budget: the most tokens in a batch, padding included.
            skip: number of batches that were taken before.
            most: the most sentences in a batch; None for no limit.
        """
        epoch = 0
        while True:
            random = np.random.default_rng([self._seed, 1 + epoch])
            order = random.permutation(self._training)
            for start in range(0, len(order), SHUFFLED_TOGETHER):
                together = order[start : start + SHUFFLED_TOGETHER]
                packed = list(self._pack(together, budget, most))
                random.shuffle(packed)
                for indices in packed[skip:]:
                    yield self._batch(indices)
                skip = max(0, skip - len(packed))
            epoch += 1


def _cut(documents: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """The beginnings of windows of at most `size` sentences, within documents, and the
    end of the last window.
    """
    begins = np.concatenate([[0], documents[:-1]])
    parts = [
        np.arange(begin, end, size)
        for begin, end in zip(begins, documents, strict=True)
    ]
    return np.concatenate([*parts, documents[-1:]]).astype(np.int64)


def _members(windows: npt.NDArray[np.int64], which: Indices) -> Indices:
    """The sentences of some windows, in their order."""
    begins, sizes = windows[which], np.diff(windows)[which]
    before = np.cumsum(sizes) - sizes
    return (np.repeat(begins - before, sizes) + np.arange(sizes.sum())).astype(
        np.uint32
    )


def encode_corpus(
    texts: Sequence[Path], tokenizer: Tokenizer, folder: Path, longest: int
) -> None:
    """Write the token ids of every line of the texts, one text after another, to
    `folder`, unless they are there already.

    Sentences of more than `longest` tokens are cut into pieces of at most that many. An
    empty line, or the end of a text, ends a document.
    """

    def sentences() -> Iterator[list[int]]:
        for text in texts:
            for chunk in in_parts(read_lines(text, empty=True), CHUNK):
                for line, sentence in zip(chunk, tokenizer.encode(chunk), strict=True):
                    for start in range(0, len(sentence), longest):
                        yield sentence[start : start + longest]
                    if not line.strip():
                        yield []
            yield []

    meta = _meta(texts, tokenizer, longest)
    if not _written(folder, meta) and not _write(folder, meta, sentences()):
        raise UserError(
            f"{', '.join(map(str, texts))}: no sentence in it; expected one sentence"
            " per line"
        )


def encode_pairs(
    source: Path, target: Path, tokenizer: Tokenizer, folder: Path, longest: int
) -> int:
    """Encode sentences and their translations, line by line: each pair in both
    directions, as first [EOS] [BOS] second.

    Pairs with an empty side, or with a side of more than `longest` tokens, are left
    out; returns how many pairs there are.
    """
    between = [tokenizer.eos, tokenizer.bos]

    def sentences() -> Iterator[list[int]]:
        for chunk in read_pairs(source, target):
            sources, targets = (
                tokenizer.encode([pair[side] for pair in chunk]) for side in (0, 1)
            )
            for first, second in zip(sources, targets, strict=True):
                if first and second and max(len(first), len(second)) <= longest:
                    yield [*first, *between, *second]
                    yield [*second, *between, *first]

    meta = _meta([source, target], tokenizer, longest) | {"together": 2}
    count = (_written(folder, meta) or _write(folder, meta, sentences())) // 2
    if not count:
        raise UserError(
            f"{source}: no pair of at most {longest} tokens in it and {target}"
        )
    return count


def _meta(
    texts: Sequence[Path], tokenizer: Tokenizer, longest: int
) -> dict[str, object]:
    """What decides the encoded text; its files are made again if this changes."""
    if absent := next((text for text in texts if not text.is_file()), None):
        raise UserError(f"{absent}: no such file")
    stats = [
        f"{text.resolve()} {stat.st_size} {stat.st_mtime_ns}"
        for text in texts
        for stat in [text.stat()]
    ]
    return {
        "dtype": "uint16" if tokenizer.vocab_size <= 2**16 else "uint32",
        "text": hashlib.sha256("\n".join(stats).encode()).hexdigest(),
        "tokenizer": tokenizer.fingerprint,
        "longest": longest,
    }


def _written(folder: Path, meta: dict[str, object]) -> int:
    """How many sentences of this text are in `folder`; 0 if others or none are
    there.
    """
    done = folder / "corpus.json"
    if not done.is_file() or not meta.items() <= read_json(done).items():
        return 0
    return (folder / "ends.bin").stat().st_size // np.dtype(np.int64).itemsize


def _write(
    folder: Path, meta: dict[str, object], sentences: Iterator[list[int]]
) -> int:
    """Write sentences to `folder`; returns how many there are. Empty sentences, single
    or in a row, end a document.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # written last: its presence says that the others are whole
    done = folder / "corpus.json"
    done.unlink(missing_ok=True)
    total = number = 0
    documents = []
    digest = hashlib.sha256()
    with open(folder / "ids.bin", "wb") as ids, open(folder / "ends.bin", "wb") as ends:
        for sentence in sentences:
            if not sentence:
                documents.append(number)
                continue
            number += 1
            packed = np.array(sentence, dtype=str(meta["dtype"])).tobytes()
            ids.write(packed)
            digest.update(packed)
            total += len(sentence)
            ends.write(np.int64(total).tobytes())
    if number:
        np.array(sorted({*documents, number} - {0}), dtype=np.int64).tofile(
            folder / "documents.bin"
        )
        write_text(done, json.dumps(meta | {"content": digest.hexdigest()[:16]}) + "\n")
    return number
