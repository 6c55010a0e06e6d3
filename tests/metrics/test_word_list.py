"""Errors of the words in a list and of all others: by hand, and together those of WER."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.metrics import METRICS, MetricOptions, Normaliser
from rescore.metrics.normalise import WordList
from rescore.metrics.wer import ErrorRate, ListedErrorRate
from tests.conftest import Run, assert_one_line_error, read_report
from tests.metrics.test_significance import systems

NAMES = WordList(("Anna", "New York", "lear"), "names.txt")


def test_by_hand() -> None:
    references = [("anna saw king lear",), ("in new york",), ("the end",)]
    hypotheses = ["hanna saw a king", "in new cork today", "the end anna"]
    inside, outside = ListedErrorRate(NAMES), ListedErrorRate(NAMES, inside=False)
    # anna -> hanna, lear is missing; york -> cork; anna inserted
    assert inside.statistics(hypotheses, references).tolist() == [[1, 1, 0, 2], [1, 0, 0, 2], [0, 0, 1, 0]]
    assert outside.statistics(hypotheses, references)[:, 3].tolist() == [2, 1, 2]
    assert inside.values(np.array([[2, 1, 1, 8]])).tolist() == [50.0]
    assert inside.details(np.array([1, 2, 3, 4]))["listed_words"] == 4


@pytest.mark.parametrize("seed", range(3))
def test_both_add_up_to_all(seed: int) -> None:
    references, _, hypotheses = systems(seed, 200)
    listed = WordList(("a", "d e"), "x")
    sums = [
        metric.statistics(hypotheses, [(one,) for one in references])
        for metric in (ListedErrorRate(listed), ListedErrorRate(listed, False), ErrorRate())
    ]
    assert (sums[0] + sums[1]).tolist() == sums[2].tolist()
    assert sums[0][:, :3].sum() and sums[1][:, :3].sum()


def test_the_list_is_read_as_references_are(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("New York\n\nAnna\nAnna\n", encoding="utf-8")
    (tmp_path / "other.txt").write_text("Anna\nNew York\n", encoding="utf-8")
    (tmp_path / "none.txt").write_text("\n", encoding="utf-8")
    one, other = (WordList.load(tmp_path / name) for name in ("names.txt", "other.txt"))
    assert one.digest == other.digest != NAMES.digest
    assert one.words(Normaliser()) == {"new", "york", "anna"}
    assert one.words(Normaliser(case_sensitive=True)) == {"New", "York", "Anna"}
    with pytest.raises(UserError, match=r"none\.txt: no word in it"):
        WordList.load(tmp_path / "none.txt")
    made = METRICS["bwer"](MetricOptions(words=NAMES), ["anna"])
    assert made.options.words == NAMES and made.settings["words"] == NAMES.digest
    with pytest.raises(UserError, match="give --words FILE"):
        METRICS["uwer"](MetricOptions(), ["anna"])
    with pytest.raises(UserError, match=r"names\.txt: no word of the references is a word of this list"):
        METRICS["bwer"](MetricOptions(words=NAMES), ["a b"])
    with pytest.raises(UserError, match="is outside this list"):
        METRICS["uwer"](MetricOptions(words=NAMES), ["anna lear"])


def test_at_the_command_line(rescore: Run, tmp_path: Path) -> None:
    entries = [{"id": "u", "ref": "anna saw lear", "hyps": [{"text": "hanna saw lear too", "score": -1}]}]
    (tmp_path / "l.jsonl").write_text("".join(json.dumps(one) + "\n" for one in entries), encoding="utf-8")
    (tmp_path / "names.txt").write_text("Anna\nLear\n", encoding="utf-8")
    metrics = ["--metric", "wer", "--metric", "bwer", "--metric", "uwer", "--words", "names.txt"]
    done = rescore("l.jsonl", *metrics, "--report", "r.json")
    assert done.returncode == 0, done.stderr
    found = {one["metric"]: one for one in read_report(tmp_path / "r.json")["metrics"]}
    assert [found[name]["first_pass"] for name in ("BWER", "UWER")] == [50.0, 100.0]
    assert f"|words:{WordList.load(tmp_path / 'names.txt').digest}|" in found["BWER"]["signature"]
    assert "|tok:space|align:sclite|" in found["UWER"]["signature"]
    assert "listed words" in done.stdout and rescore("report", "r.json").returncode == 0
    assert_one_line_error(rescore("l.jsonl", "--metric", "bwer"), "give --words FILE")
    assert "50.00" in rescore("eval", "l.jsonl", "--metric", "bwer", "--words", "names.txt").stdout


def test_whispers_normaliser(rescore: Run, tmp_path: Path) -> None:
    pytest.importorskip("whisper_normalizer", reason="needs whisper-normalizer")
    words = Normaliser(whisper_english=True)
    found = " ".join(words("Mr. Park can't colour twenty-one cars, um [noise]"))
    assert found == "mister park can not color 21 cars"
    (tmp_path / "h.trn").write_text("it is 21 colours (u-1)\n", encoding="utf-8")
    (tmp_path / "r.trn").write_text("It's twenty one, um, colors (u-1)\n", encoding="utf-8")
    done = rescore("eval", "h.trn", "--ref", "r.trn", "--normalizer", "whisper-english", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["systems"][0]["value"] == 0.0 and "|whisper-english:0.1." in found["signature"]
    assert json.loads(rescore("eval", "h.trn", "--ref", "r.trn", "--json").stdout)["systems"][0]["value"] > 50
