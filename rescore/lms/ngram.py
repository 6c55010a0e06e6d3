"""N-gram models: KenLM's scores, and the estimation by lmplz or in NumPy."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from rescore.errors import OptionError, UserError, counted, installed_by
from rescore.files import naming, sha256, write_text
from rescore.formats.sentences import read_sentences
from rescore.lms import kneser_ney, lexicon
from rescore.lms.arpa import (
    END,
    LOG_10,
    UNKNOWN_LOG_10,
    ArpaModel,
    check_beginning,
    check_known,
)
from rescore.lms.base import (
    ComputeOptions,
    Kind,
    Question,
    Report,
    Spec,
    TokenScores,
    Values,
)
from rescore.lms.folders import card_head, card_value, check_is_free
from rescore.lms.options import TextOptions, TokenizerOptions, TrainingOptions
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.vocabulary import (
    BLANK,
    character_tokenizer,
    word_tokenizer,
)
from rescore.options import option

if TYPE_CHECKING:
    import kenlm

log = logging.getLogger(__name__)

TOKENIZER = "tokenizer.json"
LARGE = 50_000_000
"""Bytes of a file that takes some seconds to read in NumPy."""


class NgramKind(Kind):
    """Scored by KenLM, or in NumPy; estimated by KenLM's lmplz, or in NumPy."""

    computes = False
    holds = r"\.arpa(\.gz)?$|\.(klm|binary)$"

    @dataclass(frozen=True, kw_only=True)
    class Options(TextOptions, TokenizerOptions):
        """Options of a training of an n-gram model."""

        title = "n-gram models"

        unit: str = option(
            "word",
            "Tokens of the model. character: every character is a token, and so is a"
            " blank between words; for OCR, handwriting, and scripts without blanks.",
            choices=("word", "character"),
            common=True,
        )
        order: int = option(5, "N-gram order.", "-o", "--order", low=2, common=True)
        prune: str | None = option(
            None,
            "Drop n-grams seen at most N times; one number per order, such as 0,0,1;"
            " the last holds for higher orders.",
            metavar="N,N,...",
            common=True,
        )
        memory: str = option(
            "50%", "Memory limit of lmplz (its -S).", metavar="SIZE", common=True
        )
        discount_fallback: bool = option(
            False, "Use fixed discounts for text too small to estimate them."
        )

        @property
        def fixed_discounts(self) -> bool:
            """Whether fixed discounts are used where counts do not determine them: few
            characters are rare.
            """
            return self.discount_fallback or self.unit == "character"

        @property
        def thresholds(self) -> list[int]:
            """The numbers of --prune: n-grams of order 1, 2, ... that are seen so often
            or less are left out. The last number holds for all higher orders.
            """
            try:
                numbers = list(map(int, (self.prune or "").replace(",", " ").split()))
            except ValueError:
                raise UserError(
                    f"--prune {self.prune}: expected whole numbers, such as 0,0,1"
                ) from None
            if numbers != sorted(numbers) or min(numbers, default=0) < 0:
                raise UserError(
                    f"--prune {self.prune}: no number may be less than the number"
                    " before it, or than 0"
                )
            if len(numbers) > self.order:
                raise UserError(
                    f"--prune {self.prune}: {len(numbers)} numbers for n-grams of order"
                    f" {self.order}"
                )
            return numbers

    def load(self, spec: Spec, computing: ComputeOptions) -> NgramLM:
        """Return the model of a file or a folder."""
        return NgramLM(spec.name, spec.path)

    def train(
        self, options: TrainingOptions, report: Report = lambda line: None
    ) -> None:
        """Estimate an n-gram model (modified Kneser-Ney, Heafield et al. 2013) and
        write its folder.
        """
        assert isinstance(options, NgramKind.Options)
        train(options, report)


class NgramLM:
    """log p(sentence) under a back-off n-gram model, `</s>` included.

    A file is ARPA or KenLM's binary; its words are what stands between blanks. A folder
    is what `rescore train --lm ngram` wrote: lm.binary (or lm.arpa), and a
    tokenizer.json that normalises text and cuts it into words, or characters, as the
    training did.
    """

    precision = "float32"

    def __init__(self, name: str, path: Path) -> None:
        """Load a model; memory mapped where it is a binary.

        Args:
            name: The back-end and its options.
            path: The file or the folder of the model.

        Raises:
            UserError: The model is absent or damaged.
        """
        self.name = name
        self.model = name
        self._file, self._tokenizer = _find(path)
        self._model = _open(self._file)
        if self._model.closed:
            log.warning(
                "%s: the model has no <unk>; each unknown word scores %.0f nats",
                path,
                UNKNOWN_LOG_10 * LOG_10,
            )

    @cached_property
    def fingerprint(self) -> str:
        """Content hash of the file and the tokenizer."""
        digest = hashlib.sha256(b"ngram")
        digest.update(sha256(self._file))
        if self._tokenizer is not None:
            digest.update(sha256(self._file.parent / TOKENIZER))
        if self._model.closed:
            digest.update(b"closed")
        return digest.hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """Return the scores of each question's text, in their order. A token is a word,
        the last `</s>`; unknown words score as `<unk>`.

        Args:
            questions: The questions.
        """
        texts = [question.text for question in questions]
        if self._tokenizer is not None:
            texts = list(map(" ".join, self._tokenizer.words(texts)))
        distinct = list(dict.fromkeys(texts))
        scores = dict(zip(distinct, self._model.score(distinct), strict=True))
        return [scores[text] for text in texts]


class KenlmModel:
    """A model that KenLM reads: an ARPA file, or its own binary."""

    def __init__(self, path: Path, kenlm: ModuleType) -> None:
        """Load a model.

        Args:
            path: The file.
            kenlm: KenLM's Python package.

        Raises:
            UserError: KenLM cannot read the file.
        """
        config = kenlm.Config()
        config.show_progress = False
        config.arpa_complain = kenlm.ARPALoadComplain.NONE
        try:
            self._model = kenlm.Model(str(path), config)
        except (OSError, RuntimeError, ValueError) as error:
            raise UserError(
                f"{path}: neither an ARPA file nor a KenLM binary that this machine can"
                f" read ({reason_of(error)})"
            ) from None
        self._known: set[str] = set()
        """Words that the model has; looking them up again would cost time."""
        unknown, *_ = next(self._model.full_scores("\x01", bos=False, eos=False))
        self.closed = unknown <= -99
        """Whether the file has no `<unk>`."""
        self._raised = (UNKNOWN_LOG_10 + 100) * LOG_10 if self.closed else 0.0

    def score(self, texts: Sequence[str]) -> list[TokenScores]:
        """Return the scores of each text, whose last token is `</s>`.

        Args:
            texts: Words between blanks.
        """
        cleaned: list[str] = []
        unknown: list[tuple[int, ...]] = []
        for text in texts:
            words = text.split()
            # other characters than blanks end a word in Python, but not in KenLM
            cleaned.append(" ".join(words))
            if self._known.issuperset(words):
                unknown.append(())
            else:
                unknown.append(self._look_up(words))
        batch = _Batch(self._model, cleaned, unknown, self._raised)
        return [WordScores(batch, place) for place in range(len(cleaned))]

    def _look_up(self, words: Sequence[str]) -> tuple[int, ...]:
        """Return the places of unknown words; the known words are kept in mind."""
        unknown: list[int] = []
        for place, word in enumerate(words):
            if word in self._known:
                continue
            if word in self._model:
                self._known.add(word)
            else:
                unknown.append(place)
        return tuple(unknown)


class _Batch:
    """Sentences that are scored together when a caller reads their sums, or the scores
    of their words.
    """

    def __init__(
        self,
        model: kenlm.Model,
        texts: list[str],
        unknown: list[tuple[int, ...]],
        raised: float,
    ) -> None:
        """Make a batch of texts, whose words stand between single blanks; KenLM's
        scores of unknown words are raised by `raised` nats.
        """
        self.texts = texts
        self.unknown = unknown
        self._model = model
        self._raised = raised
        self._log10: Values | None = None
        """KenLM's scores of the words of all sentences (tokens,); None before they are
        read.
        """

    @cached_property
    def _ends(self) -> list[int]:
        """The place in arrays of words where each sentence begins, and the last ends;
        `</s>` is a word.
        """
        lengths = [text.count(" ") + 2 if text else 1 for text in self.texts]
        return list(accumulate(lengths, initial=0))

    @cached_property
    def _log_probs(self) -> Values:
        """The scores of the words of all sentences (tokens,), natural log."""
        scores = chain.from_iterable(map(self._model.full_scores, self.texts))
        self._log10 = np.fromiter(map(itemgetter(0), scores), np.float64)
        values = self._log10 * LOG_10
        if self._raised:
            for begin, places in zip(self._ends, self.unknown, strict=False):
                values[[begin + place for place in places]] += self._raised
        return values

    @cached_property
    def sums(self) -> list[float]:
        """The score of each sentence, natural log. KenLM adds in float32 from left to
        right.
        """
        sums: Iterable[Any]
        if self._log10 is None:
            sums = map(self._model.score, self.texts)
        else:
            rows = np.split(self._log10, self._ends[1:-1])
            sums = (row.cumsum(dtype=np.float32)[-1] for row in rows)
        values = np.fromiter(sums, np.float64, len(self.texts)) * LOG_10
        if self._raised:
            values += self._raised * np.array(list(map(len, self.unknown)))
        every: list[float] = values.tolist()
        return every

    def log_probs(self, place: int) -> Values:
        """Return the scores of a sentence's tokens (tokens,), natural log.

        Args:
            place: The place of the sentence in the batch.
        """
        return self._log_probs[self._ends[place] : self._ends[place + 1]]


class WordScores(TokenScores):
    """Scores of a sentence, which are computed when a caller reads them: the sum alone
    costs half of the scores of words.
    """

    __slots__ = ("_batch", "_place")

    def __init__(self, batch: _Batch, place: int) -> None:
        """Make the scores of a sentence.

        Args:
            batch: The sentences that are scored together.
            place: The place of the sentence in the batch.
        """
        self._batch = batch
        self._place = place
        self.unknown = batch.unknown[place]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the scores of all words for another process, to which a model of KenLM
        cannot be sent.
        """
        return TokenScores, (self.tokens, self.log_probs, self.unknown, self.sum)

    @property
    def tokens(self) -> list[str]:  # type: ignore[override]
        """The words, and `</s>`."""
        return [*self._batch.texts[self._place].split(), END]

    @property
    def log_probs(self) -> Values:  # type: ignore[override]
        """The score of each token (tokens,), natural log."""
        return self._batch.log_probs(self._place)

    @property
    def sum(self) -> float:  # type: ignore[override]
        """The score of the sentence, natural log."""
        return self._batch.sums[self._place]


def _open(path: Path) -> KenlmModel | ArpaModel:
    """Return KenLM's reader of a file. Where KenLM is not installed, or reads a
    narrower form of ARPA files, read an ARPA file here.

    Both readers refuse the same files: what KenLM does not check is checked here, and
    what KenLM refuses is read again.
    """
    with open(path, "rb") as file:
        # KenLM's binaries have zeros among their first bytes
        is_text = b"\0" not in file.read(256)
    is_arpa = is_text or path.suffix == ".gz"
    try:
        import kenlm
    except ImportError:
        return _open_without_kenlm(path, is_arpa)
    if not is_arpa:
        return KenlmModel(path, kenlm)
    check_beginning(path)
    try:
        model = KenlmModel(path, kenlm)
    except UserError as error:
        read = ArpaModel(path)
        log.info("NumPy reads the file, which is slower: %s", error)
        return read
    if model.closed:
        check_known(path)
    return model


def _open_without_kenlm(path: Path, is_arpa: bool) -> ArpaModel:
    """Read an ARPA file in NumPy."""
    if not is_arpa:
        raise UserError(
            f"{path}: a binary n-gram model needs kenlm, which a C++ compiler builds:"
            f" {installed_by('ngram')} (without a compiler, or on Python 3.13: pip"
            " install kenlm-ex); an ARPA file needs nothing"
        )
    if path.stat().st_size > LARGE:
        log.info(
            "kenlm is not installed: NumPy reads %s, which is slower but gives the same"
            " scores",
            path,
        )
    return ArpaModel(path)


def _find(path: Path) -> tuple[Path, Tokenizer | None]:
    """Return the model file, and the tokenizer beside it if it is in a folder."""
    if not path.exists():
        raise UserError(
            f"{path}: no such file; expected an ARPA file, a KenLM binary, or a folder"
            " with lm.binary"
        )
    if path.is_file():
        return path, None
    file = path / "lm.binary"
    if not file.is_file():
        file = path / "lm.arpa"
    if not file.is_file():
        raise UserError(
            f"{path}: neither lm.binary nor lm.arpa in it; give the model's file as"
            " ngram:FILE"
        )
    if card_value(path, "unit") == "subword":
        raise UserError(
            f"{path}: n-grams of subwords are not supported any more; train the model"
            " again"
        )
    tokenizer = path / TOKENIZER
    return file, Tokenizer.load(tokenizer) if tokenizer.is_file() else None


def reason_of(error: Exception) -> str:
    """Return the message of an error of KenLM without its source code.

    Args:
        error: The error.
    """
    message = " ".join(str(error).split())
    match = re.search(
        r"(?:threw \w+(?: because `.*?')?\.|Exception because.*?\.) (.*)$", message
    )
    return (match[1] if match else message).rstrip(".)")


def train(options: NgramKind.Options, report: Report = lambda line: None) -> None:
    """Estimate a model, with lmplz if it is on PATH, and write its folder.

    Args:
        options: The options of the training.
        report: Called with each line about the progress.

    Raises:
        UserError: An option is not valid, the text is too small or too large, or the
            folder holds a model.
    """
    out = options.out
    thresholds = options.thresholds
    check_is_free(out)
    if not options.text:
        raise UserError("no text to train on; give --text FILE")
    if options.tokenizer and options.unit != "word":
        raise OptionError(
            "--unit does not apply to --tokenizer, whose file says what the words are"
        )
    if options.tokenizer:
        tokenizer = Tokenizer.load(options.tokenizer)
    elif options.unit == "character":
        tokenizer = character_tokenizer(options.normalisation)
    else:
        tokenizer = word_tokenizer(options.normalisation)
    lmplz = find_tool("lmplz")
    build_binary = find_tool("build_binary")
    names = ", ".join(map(str, options.text))
    out.mkdir(parents=True, exist_ok=True)
    with naming(out), tempfile.TemporaryDirectory(dir=out) as name:
        folder = Path(name)
        text = folder / "text"
        arpa = folder / "lm.arpa"
        binary = folder / "lm.binary"
        program = "lmplz" if lmplz else "NumPy (lmplz is not on PATH)"
        report(f"{program}: {options.order}-grams of {options.unit}s in {names}")
        sentences = _write_words(options, tokenizer, text, folder)
        if not sentences:
            raise UserError(
                f"{names}: no sentence; give a text with one sentence per line"
            )
        try:
            _estimate(lmplz, options, thresholds, text, arpa)
        except kneser_ney.TooSmallError as error:
            raise UserError(f"{names}: {error}{_about_copies(text)}") from None
        counts = _ngram_counts(arpa)
        orders = ", ".join(f"{count:,}" for count in counts)
        report(f"{counted(sentences, 'sentence')}; n-grams of each order: {orders}")
        if build_binary:
            report("build_binary")
            _run([build_binary, "-T", str(folder), str(arpa), str(binary)])
            binary.replace(out / binary.name)
        else:
            arpa.replace(out / arpa.name)
        tokenizer.save(out / TOKENIZER)
        (folder / lexicon.NAME).replace(out / lexicon.NAME)
    made_by = "KenLM's lmplz" if lmplz else "rescore"
    write_text(out / "README.md", _card(options, sentences, counts, made_by))


def _estimate(
    lmplz: str | None,
    options: NgramKind.Options,
    thresholds: Sequence[int],
    text: Path,
    arpa: Path,
) -> None:
    """Estimate a model by lmplz, or by NumPy without it.

    Raises:
        TooSmallError: The text is too small.
    """
    if lmplz:
        _run_lmplz(lmplz, options, text, arpa)
        return
    with open(text, encoding="utf-8", newline="\n") as file:
        words = (line.rstrip("\n").split(" ") for line in file)
        kneser_ney.estimate(
            words, options.order, arpa, thresholds, options.fixed_discounts
        )


def _about_copies(text: Path) -> str:
    """Return what a message adds where most sentences are copies of others: a text that
    is repeated has no n-grams that occur once, from which discounts are estimated.
    """
    lines = text.read_text(encoding="utf-8").splitlines()
    distinct = len(set(lines))
    if 2 * distinct > len(lines):
        return ""
    return (
        f" (of its {counted(len(lines), 'sentence')} only {distinct:,} differ: remove"
        " the copies)"
    )


def _run_lmplz(lmplz: str, options: NgramKind.Options, text: Path, arpa: Path) -> None:
    """Estimate a model by lmplz, with its temporary files beside the text."""
    command = [lmplz, "-o", str(options.order), "-S", options.memory]
    command += ["-T", str(text.parent), "--text", str(text), "--arpa", str(arpa)]
    if options.thresholds:
        command += ["--prune", *map(str, options.thresholds)]
    if options.fixed_discounts:
        command.append("--discount_fallback")
    _run(command)


def _write_words(
    options: NgramKind.Options, tokenizer: Tokenizer, path: Path, folder: Path
) -> int:
    """Write the sentences, a line each, and the lexicon of their words; return the
    number of sentences.

    The text is read once, because it may be a pipe.
    """
    number = 0

    def words_of_lines() -> Iterator[list[str]]:
        """Yield the words of each line, and write them."""
        nonlocal number
        for lines in lexicon.chunks(options.text, read_sentences):
            for words in tokenizer.words(lines):
                if words:
                    file.write(" ".join(words) + "\n")
                    number += 1
                if options.unit == "character":
                    words = "".join(words).split(BLANK)
                yield words

    with open(path, "w", encoding="utf-8", newline="\n") as file:
        lexicon.Lexicon.count(words_of_lines()).save(folder / lexicon.NAME)
    return number


def find_tool(name: str) -> str | None:
    """Return the path of one of KenLM's programs; None if it is absent.

    It is on PATH, or beside the Python that runs.

    Args:
        name: The name of the program.
    """
    on_path = shutil.which(name)
    if on_path is not None:
        return on_path
    return shutil.which(name, path=str(Path(sys.executable).parent))


def _run(command: Sequence[str]) -> None:
    """Run one of KenLM's programs. The last line that it prints explains a failure."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if not done.returncode:
        return
    if "discount_fallback" in done.stderr:
        raise kneser_ney.TooSmallError
    lines = done.stderr.strip().splitlines() or ["it said nothing"]
    reason = lines[-1].strip()[:300]
    raise UserError(f"{Path(command[0]).name} failed: {reason}")


def _ngram_counts(arpa: Path) -> list[int]:
    """Return the number of n-grams of each order, from an ARPA file's head."""
    counts = []
    with open(arpa, encoding="utf-8") as file:
        for line in file:
            if line.startswith("\\1-grams"):
                break
            if line.startswith("ngram "):
                counts.append(int(line.partition("=")[2]))
    return counts


def _card(
    options: NgramKind.Options, sentences: int, counts: Sequence[int], program: str
) -> str:
    """Return the model's README.md."""
    own = {
        "kind": "ngram",
        "unit": options.unit,
        "order": options.order,
        "recommended_weight": 0.3,
        "training_text": ", ".join(text.name for text in options.text),
    }
    return f"""{card_head("text-generation", own)}

# ngram

| | |
| --- | --- |
| model | {options.order}-gram of {options.unit}s, modified Kneser-Ney, by {program} |
| pruned | {" ".join(map(str, options.thresholds)) or "not at all"} |
| training data | {counted(sentences, "sentence")} |
| n-grams | {", ".join(f"{count:,}" for count in counts)} |
| recommended weight | 0.3, the papers' usual value; tune it on lists of your own and write it here |
| licence | yours to choose |
"""  # noqa: E501
