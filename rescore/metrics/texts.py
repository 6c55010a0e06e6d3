"""Warnings about how texts are written: where letters, words or the tokenisation of
texts and references are not as a metric takes them.

Every command that compares words asks `warn_of_texts`.
"""

from __future__ import annotations

import logging
import re
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rescore.dataset import Dataset
from rescore.errors import counted
from rescore.metrics.base import SESSION, Metric
from rescore.metrics.normalise import UNSPACED, Normaliser
from rescore.metrics.steps import ZERO_WIDTH, has_marks
from rescore.nbest import NbestList

log = logging.getLogger(__name__)


UNSPACED_WORD = 5
"""Text with at least this many letters of Chinese, Thai, Khmer and their like per word
has no blanks between words.
"""


def warn_of_texts(metric: Metric, lists: Dataset) -> None:
    """Log a warning if the letters, the words or the tokenisation of texts and
    references are not as a metric takes them.

    Args:
        metric: The metric.
        lists: The lists, with or without references; the first 100 are looked at, and
            all for answers.
    """
    _tell_answers(metric, lists)
    some = [_said(metric, nbest) for nbest in lists[:100]]
    _warn_of_case(metric, some)
    _warn_of_marks(metric, some)
    _warn_of_unspaced(metric, some)
    referred = lists.with_lists(nbest for nbest in some if nbest.references)
    if referred:
        _warn_of_forms(metric, referred)
        _warn_of_blanks(metric, referred)
        _warn_of_punctuation(metric, referred)
        _warn_of_mismatch(metric, referred)


def _said(metric: Metric, nbest: NbestList) -> NbestList:
    """Return a list with the words of its texts alone."""
    if metric.reads != SESSION:
        return nbest
    hypotheses = []
    for hypothesis in nbest.hypotheses:
        hypotheses.append(replace(hypothesis, text=metric.said(hypothesis.text)))
    references = tuple(map(metric.said, nbest.references))
    return replace(nbest, hypotheses=hypotheses, references=references)


def _references_and_texts(lists: Iterable[NbestList]) -> tuple[list[str], list[str]]:
    """Return all references of lists, and the texts of all hypotheses."""
    references: list[str] = []
    texts: list[str] = []
    for nbest in lists:
        references += nbest.references
        texts += [hypothesis.text for hypothesis in nbest.hypotheses]
    return references, texts


def _tell_answers(metric: Metric, lists: Dataset) -> None:
    """Log how many texts and references have no answer, where answers are compared."""
    words = metric.words
    if words is None or words.answer is None:
        return
    references, texts = _references_and_texts(lists)
    answer = Normaliser(answer=words.answer)
    absent = [text for text in texts if not answer(text)]
    wrong = [text for text in references if not answer(text)]
    if not absent and not wrong:
        return
    message = (
        f"--answer {words.answer}: {len(absent):,} of {counted(len(texts), 'text')} and"
        f" {len(wrong):,} of {counted(len(references), 'reference')} have no match:"
        " their answer is empty"
    )
    if absent:
        message += f"; a text without a match: {_end_of(absent[0])}"
    if wrong:
        message += f"; a reference without a match: {_end_of(wrong[0])}"
        with_numbers = words.answer + PLAIN_NUMBER
        if all(map(Normaliser(answer=with_numbers), wrong)):
            advised = shlex.quote(with_numbers)
            message += f"; for references that are plain numbers, give {advised}"
        else:
            message += "; give an expression that matches the references, too"
    log.warning("%s%s", lists.header.prefix, message)


PLAIN_NUMBER = r"|^(-?[\d.,]*\d)$"
"""An alternative of --answer for texts that are a number without a mark."""
SHOWN = 60
"""Characters of a text in a message, at most."""


def _end_of(text: str) -> str:
    """Return a text for a message in one line: its end, where answers are."""
    text = " ".join(text.split())
    if len(text) > SHOWN:
        return f"'...{text[-SHOWN:]}'"
    return f"'{text}'"


def _warn_of_mismatch(metric: Metric, lists: Dataset) -> None:
    """Log a warning if texts and references are not tokenised alike."""
    references, texts = _references_and_texts(lists)
    mismatch = metric.mismatch(texts, references)
    if mismatch:
        log.warning("%s%s", lists.header.prefix, mismatch)


def _warn_of_unspaced(metric: Metric, lists: Sequence[NbestList]) -> None:
    """Log a warning if a metric counts words that the texts do not part by blanks.

    Word errors of such texts are errors of whole sentences.
    """
    if metric.words is None or metric.words.unit != "space":
        return
    if metric.unit != "character" and _is_unspaced(lists):
        log.warning(
            "%s counts words between spaces, but these texts have no spaces between"
            " words; give --metric cer, or --metric mer if they also have words of a"
            " script with spaces, such as English names (--split-characters keeps %s)",
            metric.name,
            metric.name,
        )


def _warn_of_blanks(metric: Metric, lists: Sequence[NbestList]) -> None:
    """Log a warning if characters are counted, and only the texts or only the
    references have blanks between letters of a script without blanks.
    """
    if metric.words is None or metric.unit != "character":
        return
    references, texts = _references_and_texts(lists)
    if _has_blanks(references) != _has_blanks(texts):
        log.warning(
            "%s counts blanks, and only the texts or only the references have blanks"
            " between their letters; give --metric mer, or --metric wer"
            " --split-characters, which count none",
            metric.name,
        )


def _has_blanks(texts: Sequence[str]) -> bool:
    """Return whether blanks stand between most neighbours of a script that needs none,
    or between a fifth of them, as between words.
    """
    joint = sum(len(_JOINT.findall(text)) for text in texts)
    parted = sum(len(_PARTED.findall(text)) for text in texts)
    return 5 * parted > joint + parted


_JOINT = re.compile(f"{UNSPACED.pattern}(?={UNSPACED.pattern})")
_PARTED = re.compile(rf"{UNSPACED.pattern}(?=\s+{UNSPACED.pattern})")
"""Letters with a neighbour of their kind, directly or behind a blank."""


def _warn_of_forms(metric: Metric, lists: Sequence[NbestList]) -> None:
    """Log a warning if texts and references have letters in different Unicode
    forms.
    """
    words = metric.words
    if words is None or words.nfkc or words.unicode_basic:
        return
    references, hypotheses = _references_and_texts(lists)
    if _is_composed(references) != _is_composed(hypotheses):
        log.warning(
            "the texts and the references write letters in different Unicode forms, or"
            " one of them has characters without width; give --nfkc"
        )


PUNCTUATED = re.compile(r"\w[.,?!;:](?=\s|$)")
"""A mark behind a word."""
FEWEST_LISTS = 5
"""Lists from which on texts without punctuation are no accident."""


def _warn_of_punctuation(metric: Metric, lists: Sequence[NbestList]) -> None:
    """Log a warning if most texts have punctuation and no reference has, or the other
    way round, and the metric compares it.
    """
    words = metric.words
    if words is None or words("a.") == words("a"):
        return
    references, texts = map(_punctuated, _references_and_texts(lists))
    if len(lists) < FEWEST_LISTS or min(references, texts) > 0:
        return
    if max(references, texts) > 0.5:
        log.warning(
            "only the %s have punctuation, and %s counts it as errors; give"
            " --drop-punctuation, which removes it",
            "references" if references else "texts",
            metric.name,
        )


def _punctuated(texts: Sequence[str]) -> float:
    """Return the share of texts that have punctuation behind a word."""
    found = [text for text in texts if PUNCTUATED.search(text)]
    return len(found) / max(1, len(texts))


def _warn_of_marks(metric: Metric, lists: Sequence[NbestList]) -> None:
    """Log a warning if the normaliser of words puts blanks for marks, or if texts or
    references alone have marks that the metric compares.
    """
    words = metric.words
    if words is None:
        return
    references, hypotheses = _references_and_texts(lists)
    texts = [*references, *hypotheses]
    one_sided = not words.drop_marks and _are_marked_on_one_side(lists)
    if words.whisper_basic and any(map(words.loses_marks, texts)):
        advice = "give --unicode-basic, which keeps marks, instead"
        if one_sided:
            advice = f"{ONE_SIDE}: give --drop-marks, too, which ignores them"
        log.warning(
            "--whisper-basic puts a blank for each mark of this script (a vowel, a"
            " tone, a point), so words fall apart; %s",
            advice,
        )
    elif one_sided and any(has_marks(" ".join(words(text))) for text in texts):
        log.warning(
            "%s, and %s counts them as errors; give --drop-marks, which ignores them",
            ONE_SIDE,
            metric.name,
        )


ONE_SIDE = (
    "only the texts or only the references have the marks of Arabic or Hebrew (short"
    " vowels, points)"
)
MANY = 5
"""Marks stand on one side if that is so in more than one of this many lists that have
marks.
"""


def _are_marked_on_one_side(lists: Sequence[NbestList]) -> bool:
    """Return whether the references or the hypotheses alone have marks, in many of the
    lists with marks. A recogniser that writes marks may leave out a few.
    """
    one_sided = 0
    marked = 0
    for nbest in lists:
        if not nbest.references:
            continue
        of_references = any(map(has_marks, nbest.references))
        of_texts = any(has_marks(one.text) for one in nbest.hypotheses)
        if of_references or of_texts:
            marked += 1
        if of_references != of_texts:
            one_sided += 1
    return MANY * one_sided > marked


def _warn_of_case(metric: Metric, lists: Sequence[NbestList]) -> None:
    """Log a warning if the case of Turkish letters is folded as in other languages."""
    words = metric.words
    if words is None or words.case_sensitive or words.language:
        return
    references, hypotheses = _references_and_texts(lists)
    if any(map(_DOTS.search, [*references, *hypotheses])):
        log.warning(
            "the texts have letters of Turkish or Azerbaijani, whose capitals differ;"
            " give --language tr"
        )


_DOTS = re.compile("[\u0130\u0131]")
"""The letters of Turkish whose case is not folded as in other languages."""


def _is_composed(texts: Sequence[str]) -> bool:
    """Return whether all texts are in Unicode's form NFC, without characters of no
    width.
    """
    for text in texts:
        if text.isascii():
            continue
        if ZERO_WIDTH.search(text) or not unicodedata.is_normalized("NFC", text):
            return False
    return True


def _is_unspaced(lists: Sequence[NbestList]) -> bool:
    """Return whether most references are of a language without blanks between words;
    without references, most texts.
    """
    references, texts = _references_and_texts(lists)
    characters = 0
    unspaced = 0
    words = 0
    for text in references or texts:
        characters += len(text)
        unspaced += len(UNSPACED.findall(text))
        words += len(text.split())
    return unspaced > characters / 2 and unspaced >= UNSPACED_WORD * words
