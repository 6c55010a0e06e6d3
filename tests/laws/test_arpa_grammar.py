"""Law: of each ARPA file, KenLM's reader and the reader in NumPy give the same scores,
or both refuse it in one line that names the file.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rescore.errors import UserError
from rescore.lms import load, without_context
from tests.lms.test_ngram import ARPA

TEXTS = ["the old clock", "the owl clock", "<unk> the", "<UNK> old", "", "cl\u00a0ck"]


def swap(old: str, new: str) -> str:
    """Return the file with something else in the first place of a text."""
    assert old in ARPA
    return ARPA.replace(old, new, 1)


def without_unknown() -> str:
    lines = ARPA.replace("ngram 1=6", "ngram 1=5").splitlines(keepends=True)
    return "".join(line for line in lines if "<unk>" not in line)


def longer(n: int) -> str:
    """Return a section of n-grams, longer than the file has."""
    clocks = " clock" * (n - 3)
    return f"\\{n}-grams:\n-0.1\t<s> the old{clocks}\n-0.2\tthe old clock{clocks}\n\n"


BIGRAM = "-0.6\tthe old"
UNIGRAM = "-1.6\tclock\t-0.3"

READ: dict[str, str | bytes] = {
    "as it is": ARPA,
    "blanks for tabs": ARPA.replace("\t", " "),
    "several blanks": ARPA.replace("\t", "  \t "),
    "no empty lines": ARPA.replace("\n\n", "\n"),
    "more empty lines": ARPA.replace("\n-", "\n\n-"),
    "lines of Windows": ARPA.replace("\n", "\r\n"),
    "no last line end": ARPA.rstrip(),
    "a remark": "# of a test\n" + ARPA,
    "<UNK>": ARPA.replace("<unk>", "<UNK>"),
    "<UNK> in a 2-gram": swap("the clock", "the <UNK>").replace("<unk>", "<UNK>"),
    "no <unk>": without_unknown(),
    "1-grams alone": ARPA[: ARPA.index("\\2-")].replace("ngram 2=5\nngram 3=2\n", "")
    + "\\end\\\n",
    "no 3-grams": swap("ngram 3=2", "ngram 3=0").replace(
        "-0.1\t<s> the old\n-0.25\tthe old clock\n", ""
    ),
    "7-grams": swap(
        "ngram 3=2\n", "".join(f"ngram {n}=2\n" for n in range(3, 8))
    ).replace("\\end\\\n", "".join(map(longer, range(4, 8))) + "\\end\\\n"),
    "exponents": swap(BIGRAM, "-6e-1\tthe old"),
    "an impossible 2-gram": swap(BIGRAM, "-inf\tthe old"),
    "beyond float32": swap(BIGRAM, "-6e99\tthe old"),
    "a positive back-off": swap(UNIGRAM, "-1.6\tclock\t0.3"),
    "a 2-gram twice": swap(BIGRAM, f"{BIGRAM}\n-0.7\tthe old").replace(
        "ngram 2=5", "ngram 2=6"
    ),
    "not UTF-8": ARPA.encode().replace(b"clock", b"cl\xf6ck"),
    "a word with a no-break space": ARPA.replace("clock", "cl\u00a0ck"),
    "a word with a vertical tab": ARPA.replace("clock", "cl\vck"),
    "a word that is a no-break space": ARPA.replace("clock", "\u00a0"),
}
"""Files that are read."""
SAME_MODEL = list(READ)[: list(READ).index("<UNK> in a 2-gram")]
"""Files that differ in their form only."""

REFUSED: dict[str, str | bytes] = {
    "empty": "",
    "a text": "the old clock\n",
    "a remark behind nothing": "the clock\n" + ARPA,
    "no <s>": ARPA.replace("<s>", "<z>"),
    "no </s>": ARPA.replace("</s>", "<z>"),
    "a positive log-probability": swap(BIGRAM, "0.6\tthe old"),
    "an infinite log-probability": swap(BIGRAM, "inf\tthe old"),
    "a log-probability that is NaN": swap(BIGRAM, "nan\tthe old"),
    "a word's that is NaN": swap(UNIGRAM, "NaN\tclock\t-0.3"),
    "a back-off that is NaN": swap(UNIGRAM, "-1.6\tclock\tNaN"),
    "an infinite back-off": swap(UNIGRAM, "-1.6\tclock\t-inf"),
    "a back-off of the last order": swap(
        "-0.25\tthe old clock", "-0.2\tthe old clock\t-1"
    ),
    "a hexadecimal number": swap(BIGRAM, "-0x1\tthe old"),
    "a number with _": swap(BIGRAM, "-1_0\tthe old"),
    "no number": swap(BIGRAM, "x\tthe old"),
    "a missing word": swap("-0.4\told clock\t-0.25", "-0.4\tclock"),
    "a word too many": swap(BIGRAM, "-0.6\tthe old the"),
    "an unknown word": swap(BIGRAM, "-0.6\tthe owl"),
    "a 1-gram twice": swap(UNIGRAM, "-1.6\told\t-0.3"),
    "<unk> and <UNK>": swap(UNIGRAM, "-1.6\t<UNK>\t-0.3"),
    "<unk> in a 2-gram alone": without_unknown().replace("the clock", "the <unk>"),
    "no beginning of a 3-gram": swap("-0.25\tthe old clock", "-0.2\told the clock"),
    "a count too small": swap("ngram 2=5", "ngram 2=4"),
    "a count too large": swap("ngram 2=5", "ngram 2=6"),
    "a huge count": swap("ngram 1=6", "ngram 1=60000000000000"),
    "a negative count": swap("ngram 1=6", "ngram 1=-6"),
    "a count of zero": swap("ngram 1=6", "ngram 1=0"),
    "a count that is no number": swap("ngram 1=6", "ngram 1=x"),
    "a skipped order": swap("ngram 2=5", "ngram 3=5"),
    "another section": swap("\\2-grams:", "\\3-grams:"),
    "more behind the end": ARPA + "\nthe\n",
    "no end": ARPA.replace("\\end\\\n", ""),
    "half": ARPA[: len(ARPA) // 2],
    "the head": ARPA[:40],
    "zeros": ARPA.encode()[:100] + bytes(50),
}
"""Files that are refused."""

Scores = list[tuple[list[str], list[float], tuple[int, ...]]]


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """Return what writes a file, plain or packed."""

    def write(content: str | bytes) -> Path:
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / "lm.arpa"
        if request.param:
            path = tmp_path / "lm.arpa.gz"
            data = gzip.compress(data)
        path.write_bytes(data)
        return path

    return write


def scores(path: Path) -> Scores:
    found: Scores = []
    for score in load(f"ngram:{path}").score(without_context(TEXTS)):
        found.append((score.tokens, score.log_probs.tolist(), score.unknown))
    return found


def assert_close(ours: Scores, theirs: Scores) -> None:
    for (tokens, values, unknown), other in zip(ours, theirs, strict=True):
        assert (tokens, unknown) == (other[0], other[2])
        assert values == pytest.approx(other[1], abs=1e-4)


@pytest.mark.tools
@pytest.mark.parametrize("case", READ)
def test_both_read_the_same(
    case: str, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kenlm")
    path = written(READ[case])
    with_kenlm = scores(path)
    monkeypatch.setitem(sys.modules, "kenlm", None)
    assert_close(scores(path), with_kenlm)
    if case in SAME_MODEL:
        assert_close(scores(written(ARPA)), with_kenlm)


@pytest.mark.tools
@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse_the_same(
    case: str, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kenlm")
    path = written(REFUSED[case])
    for kenlm in (True, False):
        if not kenlm:
            monkeypatch.setitem(sys.modules, "kenlm", None)
        with pytest.raises(UserError) as refused:
            load(f"ngram:{path}")
        message = str(refused.value)
        assert str(path) in message
        assert "\n" not in message and len(message) < 300
