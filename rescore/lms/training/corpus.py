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
from rescore.files import naming, read_json, write_text
from rescore.formats.sentences import read_sentences, read_text
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
    """Yield the pairs of lines, in chunks, with empty lines among them.

    Args:
        source: The file of the first sides.
        target: The file of the second sides.

    Raises:
        UserError: A file cannot be read, holds N-best lists, or has fewer lines than
            the other.
    """
    lines = zip_longest(read_text(source, empty=True), read_text(target, empty=True))
    number = 0
    for chunk in in_parts(lines, CHUNK):
        pairs = []
        for source_line, target_line in chunk:
            if source_line is None or target_line is None:
                shorter = source if source_line is None else target
                raise UserError(
                    f"{shorter}: has {counted(number, 'line')}, the other side of"
                    " --pairs has more"
                )
            pairs.append((source_line, target_line))
            number += 1
        yield pairs


@dataclass(frozen=True, slots=True)
class SentenceBatch:
    """Sentences of about one length, as [BOS] ... [EOS], padded."""

    tokens: npt.NDArray[np.int64]
    """(sentences, longest)."""
    lengths: npt.NDArray[np.int64]
    """(sentences,), [BOS] and [EOS] included."""


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
        """Open what `encode_corpus` or `encode_pairs` wrote.

        Args:
            folder: The folder that they wrote.
            tokenizer: The tokenizer that encoded the text.
            held_out: Number of sentences, or of pairs, that are kept for validation;
                None for a twentieth of the text, at most `MOST_HELD_OUT`.
            seed: Decides which sentences are held out, and the order of the others.
            window: Number of consecutive sentences of a document that are held out, or
                trained on, together.

        Raises:
            UserError: The files are damaged, or the text is too short.
        """
        self._tokenizer = tokenizer
        self._seed = seed
        documents, together = self._open(folder)
        self._windows = _cut(documents, together * window)
        if held_out is None:
            held_out = max(1, min(MOST_HELD_OUT, len(self._ends) // together // 20))
        random = np.random.default_rng([seed, 0])
        groups = random.permutation(len(self._windows) - 1).astype(np.uint32)
        apart = -(-held_out // window)
        if apart >= len(groups):
            raise UserError(
                f"the text has {counted(len(self._ends), 'sentence')}; it needs more"
                f" than the {apart * window} held out"
            )
        self._held_out_windows = np.sort(groups[:apart])
        self._training_windows = groups[apart:]
        self._held_out = _members(self._windows, self._held_out_windows)
        self._training = _members(self._windows, self._training_windows)
        self.held_out_sentences = len(self._held_out)
        self._between: npt.NDArray[np.unsignedinteger] | None = None

    def _open(self, folder: Path) -> tuple[npt.NDArray[np.int64], int]:
        """Map the files into memory; return the ends of documents, and the number of
        items that are held out, or trained on, together: 2 for the two directions of a
        pair.
        """
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
        return documents, int(meta.get("together", 1))

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
            """Return the windows that are neither too short nor too long."""
            kept = indices[sizes[indices] >= least]
            if longest is None:
                return kept
            return kept[windows._lengths(kept) <= longest]

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
        """Return the tokens of a sentence or window, without the first [BOS] and the
        last [EOS].
        """
        if self._between is None:
            return self._sentence(index)
        parts = []
        for number in range(self._windows[index], self._windows[index + 1]):
            parts += [self._between, self._sentence(number)]
        return np.concatenate(parts[1:])

    def _sentence(self, index: int) -> npt.NDArray[np.unsignedinteger]:
        """Return the tokens of a sentence, without [BOS] and [EOS]."""
        start = self._ends[index - 1] if index else 0
        return self._ids[start : self._ends[index]]

    def _lengths(self, indices: Indices) -> npt.NDArray[np.int64]:
        """Return the lengths of items with their frame."""
        lengths = [len(self._item(int(index))) + 2 for index in indices]
        return np.array(lengths, dtype=np.int64)

    def _batch(self, indices: Indices) -> SentenceBatch:
        """Return items as a batch."""
        tokenizer = self._tokenizer
        items = [self._item(int(index)) for index in indices]
        lengths = np.array([len(item) + 2 for item in items], dtype=np.int64)
        tokens = np.full((len(items), lengths.max()), tokenizer.pad, dtype=np.int64)
        tokens[:, 0] = tokenizer.bos
        for row, item in zip(tokens, items, strict=True):
            row[1 : len(item) + 1] = item
            row[len(item) + 1] = tokenizer.eos
        return SentenceBatch(tokens, lengths)

    def _pack(
        self, indices: Indices, budget: int, most: int | None = None
    ) -> Iterator[Indices]:
        """Yield the items in batches of about one length, of at most `budget` padded
        tokens and `most` items.
        """
        lengths = self._lengths(indices)
        by_length = np.argsort(lengths, kind="stable")
        start = 0
        for stop in range(1, len(by_length) + 1):
            if stop < len(by_length) and stop - start != most:
                size = (stop - start + 1) * lengths[by_length[stop]]
                if size <= budget:
                    continue
            yield indices[by_length[start:stop]]
            start = stop

    def held_out(self, budget: int, share: float = 1.0) -> Iterator[SentenceBatch]:
        """Yield the validation sentences, each once.

        Args:
            budget: Tokens of a batch, padding included, at most.
            share: The share of these sentences that is drawn, at random, but always the
                same ones.
        """
        drawn = self._held_out
        if share < 1:
            random = np.random.default_rng([self._seed, 0])
            drawn = np.sort(random.permutation(drawn)[: self.validated(share)])
        for indices in self._pack(drawn, budget):
            yield self._batch(indices)

    def validated(self, share: float) -> int:
        """Return the number of sentences that a share of the validation sentences has;
        at least one.
        """
        return max(1, round(share * len(self._held_out)))

    def batches(
        self, budget: int, skip: int = 0, most: int | None = None
    ) -> Iterator[SentenceBatch]:
        """Yield batches without end, epoch after epoch. Equal arguments give equal
        batches.

        Args:
            budget: Tokens of a batch, padding included, at most.
            skip: Number of batches that were taken before.
            most: Sentences of a batch, at most; None for no limit.
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
    """Return the beginnings of windows of at most `size` sentences, within documents,
    and the end of the last window.
    """
    parts = []
    begin = 0
    for end in documents:
        parts.append(np.arange(begin, end, size))
        begin = end
    return np.concatenate([*parts, documents[-1:]]).astype(np.int64)


def _members(windows: npt.NDArray[np.int64], which: Indices) -> Indices:
    """Return the sentences of some windows, in the order of the windows."""
    begins = windows[which]
    sizes = np.diff(windows)[which]
    before = np.cumsum(sizes) - sizes
    members = np.repeat(begins - before, sizes) + np.arange(sizes.sum())
    return members.astype(np.uint32)


def encode_corpus(
    texts: Sequence[Path], tokenizer: Tokenizer, folder: Path, longest: int
) -> None:
    """Write the token ids of every line of texts, unless they are written already.

    An empty line, or the end of a text, ends a document.

    Args:
        texts: The texts, which follow each other.
        tokenizer: The tokenizer.
        folder: The folder to write.
        longest: Tokens of a sentence, at most; longer sentences are cut into pieces.

    Raises:
        UserError: A text is absent, or no text has a sentence.
    """
    meta = _meta(texts, tokenizer, longest)
    if _written(folder, meta):
        return
    if not _write(folder, meta, _sentences(texts, tokenizer, longest)):
        raise UserError(
            f"{', '.join(map(str, texts))}: no sentence in it; expected one sentence"
            " per line"
        )


def _sentences(
    texts: Sequence[Path], tokenizer: Tokenizer, longest: int
) -> Iterator[list[int]]:
    """Yield the tokens of each sentence, and an empty sentence at the end of a
    document.
    """
    for text in texts:
        for chunk in in_parts(read_sentences(text, empty=True), CHUNK):
            for line, sentence in zip(chunk, tokenizer.encode(chunk), strict=True):
                for start in range(0, len(sentence), longest):
                    yield sentence[start : start + longest]
                if not line.strip():
                    yield []
        yield []


def encode_pairs(
    source: Path, target: Path, tokenizer: Tokenizer, folder: Path, longest: int
) -> int:
    """Write the token ids of sentences and their translations, unless they are written
    already.

    Each pair is written in both directions, as first [EOS] [BOS] second.

    Args:
        source: The file of the sentences.
        target: The file of their translations, line by line.
        tokenizer: The tokenizer.
        folder: The folder to write.
        longest: Tokens of a side, at most; pairs with a longer or an empty side are
            left out.

    Returns:
        The number of pairs.

    Raises:
        UserError: A file is absent, the files have different numbers of lines, or no
            pair is left.
    """
    meta = _meta([source, target], tokenizer, longest) | {"together": 2}
    number = _written(folder, meta)
    if not number:
        pairs = _both_directions(source, target, tokenizer, longest)
        number = _write(folder, meta, pairs)
    if not number:
        raise UserError(
            f"{source}: no pair of at most {longest} tokens in it and {target}"
        )
    return number // 2


def _both_directions(
    source: Path, target: Path, tokenizer: Tokenizer, longest: int
) -> Iterator[list[int]]:
    """Yield the tokens of each pair that is neither too long nor has an empty side,
    source first, then target first.
    """
    between = [tokenizer.eos, tokenizer.bos]
    for chunk in read_pairs(source, target):
        sources = tokenizer.encode([source_line for source_line, _ in chunk])
        targets = tokenizer.encode([target_line for _, target_line in chunk])
        for first, second in zip(sources, targets, strict=True):
            if first and second and max(len(first), len(second)) <= longest:
                yield [*first, *between, *second]
                yield [*second, *between, *first]


def _meta(
    texts: Sequence[Path], tokenizer: Tokenizer, longest: int
) -> dict[str, object]:
    """Return what decides the encoded text; its files are written again if this
    changes.
    """
    states = []
    for text in texts:
        if not text.is_file():
            raise UserError(f"{text}: no such file")
        stat = text.stat()
        states.append(f"{text.resolve()} {stat.st_size} {stat.st_mtime_ns}")
    return {
        "dtype": "uint16" if tokenizer.vocab_size <= 2**16 else "uint32",
        "text": hashlib.sha256("\n".join(states).encode()).hexdigest(),
        "tokenizer": tokenizer.fingerprint,
        "longest": longest,
    }


def _written(folder: Path, meta: dict[str, object]) -> int:
    """Return how many sentences of this text are in a folder; 0 if it has none, or
    those of another text.
    """
    done = folder / "corpus.json"
    if not done.is_file() or not meta.items() <= read_json(done).items():
        return 0
    return (folder / "ends.bin").stat().st_size // np.dtype(np.int64).itemsize


def _write(
    folder: Path, meta: dict[str, object], sentences: Iterator[list[int]]
) -> int:
    """Write sentences to a folder, and return how many there are. Empty sentences,
    single or in a row, end a document.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # written last: its presence says that the others are whole
    done = folder / "corpus.json"
    done.unlink(missing_ok=True)
    total = 0
    number = 0
    documents = set()
    digest = hashlib.sha256()
    with open(folder / "ids.bin", "wb") as ids, open(folder / "ends.bin", "wb") as ends:
        for sentence in sentences:
            if not sentence:
                documents.add(number)
                continue
            number += 1
            packed = np.array(sentence, dtype=str(meta["dtype"])).tobytes()
            ids.write(packed)
            digest.update(packed)
            total += len(sentence)
            ends.write(np.int64(total).tobytes())
    if number:
        document_ends = sorted((documents | {number}) - {0})
        place = folder / "documents.bin"
        with naming(place):
            np.array(document_ends, dtype=np.int64).tofile(place)
        write_text(done, json.dumps(meta | {"content": digest.hexdigest()[:16]}) + "\n")
    return number
