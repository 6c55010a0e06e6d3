"""--open-asr: the leaderboard's counts. A stand-in takes the place of its code,
which is no package.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescore.metrics import open_asr
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import ErrorRate
from tests.conftest import Run, assert_one_line_error

SENTENCES = [
    ("The whitepaper, is good.", "um the white paper is good"),
    ("the white paper", "the whitepaper is bad"),
    ("All day long", "alls day"),
    ("", "a word"),
    ("nothing", ""),
]
CODE = {
    "__init__.py": "",
    "data_utils.py": (
        "import re\n"
        "def normalizer(text):\n"
        "    return re.sub(r'\\bum\\b', '', re.sub(r'[^\\w\\s]', '', text.lower()))\n"
        "def ml_normalizer(text, lang):\n"
        "    return text.lower().replace('.', '')\n"
    ),
    "eval_utils.py": (
        "def normalize_compound_pairs(references, hypotheses):\n    pairs = [(r, h) if"
        " r.replace(' ', '') != h.replace(' ', '') else (r.replace(' ', ''),) * 2\n    "
        "         for r, h in zip(references, hypotheses)]\n    return [r for r, _ in"
        " pairs], [h for _, h in pairs]\n"
    ),
}


def forget() -> None:
    for name in [
        name for name in sys.modules if name.partition(".")[0] == "normalizer"
    ]:
        del sys.modules[name]
    open_asr._module.cache_clear()
    open_asr.normaliser.cache_clear()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Each test loads its own code."""
    forget()
    yield
    forget()


@pytest.fixture
def leaderboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(
        "kaldialign", reason="needs kaldialign: pip install '.[open-asr]'"
    )
    folder = tmp_path / "leaderboard" / "normalizer"
    folder.mkdir(parents=True)
    for name, text in CODE.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(folder.parent)


def test_counts_of_the_leaderboard(
    rescore: Run, tmp_path: Path, leaderboard: None
) -> None:
    from kaldialign import batch_error_rate

    texts = {"h.trn": 1, "r.trn": 0}
    for name, side in texts.items():
        lines = [
            f"{pair[side]} (u-{number})\n" for number, pair in enumerate(SENTENCES)
        ]
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    done = rescore(
        "eval", "h.trn", "--ref", "r.trn", "--open-asr", "en", "--report", "-"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (
        "|open-asr:en-" in result["signature"]
        and "|align:kaldialign|" in result["signature"]
    )
    code: dict[str, object] = {}
    exec(CODE["data_utils.py"], code)
    sides = [
        [code["normalizer"](pair[side]).split() for pair in SENTENCES]
        for side in (0, 1)
    ]  # type: ignore[operator]
    expected = batch_error_rate(*sides, merge_compounds=True)
    assert result["systems"][0]["value"] == pytest.approx(100 * expected["err_rate"])
    (tmp_path / "h.trn").write_text("Ab c. (u-1)\n", encoding="utf-8")
    (tmp_path / "r.trn").write_text("a bc (u-1)\n", encoding="utf-8")
    done = rescore(
        "eval", "h.trn", "--ref", "r.trn", "--open-asr", "de", "--report", "-"
    )
    assert json.loads(done.stdout)["systems"][0]["value"] == 0.0


def test_compounds_in_alignments(leaderboard: None) -> None:
    words = Normaliser(open_asr="en")
    assert words.pair(["the white paper"], "whitepaper is") == (
        ["the", "white", "paper"],
        ["white", "paper", "is"],
    )
    assert ErrorRate(normaliser=words).statistics(
        ["whitepaper"], [("white paper",)]
    ).tolist() == [[0, 0, 0, 2]]
    assert Normaliser(nfkc=True).merged_with(words) == Normaliser(
        nfkc=True, open_asr="en"
    )


def test_without_the_leaderboard(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "h.trn").write_text("a (u-1)\n", encoding="utf-8")
    done = rescore("eval", "h.trn", "--ref", "h.trn", "--open-asr", "en")
    assert_one_line_error(done, "clone github.com/huggingface/open_asr_leaderboard")
