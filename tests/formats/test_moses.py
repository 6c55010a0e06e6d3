"""Moses n-best files, with features and more columns, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Run, write_json

LINES = """0 ||| it &apos;s a te@@ st ||| LM0= -12.5 TM0= -1 -2.5 ||| -3.25
0 ||| it is a test ||| LM0= -13 TM0= -1 -3 ||| -3.5 ||| 0-0 1-1
1 |||  ||| F0= -1 |||  -7
"""


def test_moses(tmp_path: Path) -> None:
    (tmp_path / "n.best").write_text(LINES, encoding="utf-8")
    (tmp_path / "ref").write_text("it is a test\nno\n", encoding="utf-8")
    one, two = formats.read([tmp_path / "n.best"], references=tmp_path / "ref")
    assert (one.id, one.references, two.references) == ("0", ("it is a test",), ("no",))
    assert [hypothesis.text for hypothesis in one.hypotheses] == [
        "it 's a test",
        "it is a test",
    ]
    assert one.hypotheses[0].scores == {
        "s2s": -3.25,
        "LM0": -12.5,
        "TM0.1": -1.0,
        "TM0.2": -2.5,
    }
    assert (two.hypotheses[0].text, two.hypotheses[0].scores) == (
        "",
        {"s2s": -7.0, "F0": -1.0},
    )
    read = formats.read([tmp_path / "n.best"])
    formats.write(read, str(tmp_path / "out.jsonl"))
    assert formats.read([tmp_path / "out.jsonl"]) == read


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 ||| a ||| F= x ||| -1", "line 2: score is 'x'"),
        ("0 ||| a", "line 2: expected `id"),
        ("0 ||| a ||| F= 1 ||| nan", "score s2s is nan"),
    ],
)
def test_refused(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "n.best").write_text(
        f"0 ||| a ||| F= 1 ||| -1\n{line}\n", encoding="utf-8"
    )
    with pytest.raises(UserError, match=message):
        formats.read([tmp_path / "n.best"])


def test_an_id_comes_back(tmp_path: Path) -> None:
    (tmp_path / "n.best").write_text(
        "0 ||| a ||| F= 1 ||| -1\n1 ||| a ||| F= 1 ||| -1\n0 ||| b ||| F= 1 ||| -1\n"
    )
    with pytest.raises(UserError, match="utterance 0 is duplicated"):
        formats.read([tmp_path / "n.best"])


def test_older_features(tmp_path: Path) -> None:
    """Older Moses has a colon behind the name of a feature."""
    (tmp_path / "n.best").write_text(
        "0 ||| a test ||| d: 0 lm: -3 tm: -1 -2 w: -2 ||| -3.5\n", encoding="utf-8"
    )
    (nbest,) = formats.read([tmp_path / "n.best"])
    assert nbest.hypotheses[0].scores == {
        "s2s": -3.5,
        "d": 0,
        "lm": -3,
        "tm.1": -1,
        "tm.2": -2,
        "w": -2,
    }


def test_lost_means_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scores = {"s2s": -0.5, "sum": -1.0}
    formats.write(
        [NbestList("0", [Hypothesis("a", scores)])], str(tmp_path / "n.best"), "moses"
    )
    assert (
        "n.best: its first-pass scores are means over tokens; give --lm-norm mean"
        " with it" in caplog.text
    )


def test_the_ending_names_the_format(rescore: Run, tmp_path: Path) -> None:
    write_json(tmp_path / "l.json", {"0": {"hyp_1": {"score": -1.5, "text": "a b"}}})
    assert rescore("convert", "l.json", "-o", "l.moses").returncode == 0
    assert (tmp_path / "l.moses").read_text().startswith("0 ||| a b |||")
