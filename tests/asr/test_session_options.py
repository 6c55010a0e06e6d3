"""Law: each option of `eval` beside a metric of recordings with speakers gives the
metric's own counts, or is refused in one line that names it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from rescore.asr import session_metrics
from rescore.asr.sessions import measured_sessions
from rescore.dataset import Dataset
from rescore.metrics import METRICS
from rescore.metrics.counting import error_counts
from rescore.metrics.normalise import FLAGS
from rescore.metrics.texts import warn_of_texts
from rescore.reports.groups import reference_words
from tests.conftest import Run, parameters_of

REFERENCE = """a-1 1 anna 0 1 the old owl
a-1 1 bert 1 2 hoots
b-1 1 anna 0 1 at six
"""
OUTPUT = """a-1 1 x 0 1 the cold owl
a-1 1 y 1 2 hoots
b-1 1 x 0 1 at sea x
"""
COUNTS = {"substitutions": 2, "deletions": 0, "insertions": 1, "ref_words": 6}
GIVEN = {"--ref", "--metric", "--report"}
"""Options of each line below."""
ASIDE = {"--help", "--help-all", "--quiet", "--verbose"}
OPTIONS = {
    max(parameter.opts, key=len): parameter
    for parameter in parameters_of("eval")
    if isinstance(parameter, click.Option)
}
VALUES = {
    "--by": "^(.)",
    "--numbers": "en",
    "--open-asr": "en",
    "--replace": "rules.tsv",
    "--shape": "shape.json",
    "--words": "words.txt",
}
"""A value of an option that takes none of a list of choices, nor a number."""


def speakers(segments: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The words of each speaker; the speakers of the test are in the same order."""
    words: dict[str, list[str]] = defaultdict(list)
    for segment in segments:
        words[segment["speaker"]] += segment["words"].split()
    return words


def counted(reference: Any, heard: Any, **_: Any) -> SimpleNamespace:
    """Count as meeteval counts the recordings of this test."""
    ours, theirs = (sorted(speakers(each).items()) for each in (reference, heard))
    pairs = zip(ours, theirs, strict=True)
    rows = [error_counts([own], [said])[0] for (_, own), (_, said) in pairs]
    substitutions, deletions, insertions = sum(rows).tolist()
    return SimpleNamespace(
        substitutions=substitutions,
        deletions=deletions,
        insertions=insertions,
        length=sum(len(words) for _, words in ours),
    )


MEETEVAL = SimpleNamespace(
    io=SimpleNamespace(SegLST=list),
    wer=SimpleNamespace(
        cp_word_error_rate=counted,
        time_constrained_minimum_permutation_word_error_rate=counted,
    ),
)
"""Stands for the package, whose own figures `test_sessions.py` holds."""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_metrics, "_meeteval", lambda: MEETEVAL)
    monkeypatch.setattr(session_metrics, "version", lambda name: "0")
    (tmp_path / "r.stm").write_text(REFERENCE)
    (tmp_path / "o.stm").write_text(OUTPUT)
    (tmp_path / "rules.tsv").write_text("zebra\thorse\n")
    (tmp_path / "words.txt").write_text("owl\n")
    (tmp_path / "shape.json").write_text('text = "transcript"\n')


def value_of(option: str) -> list[str]:
    """Return an option with a value that differs from its default."""
    parameter = OPTIONS[option]
    if parameter.is_flag:
        return [option]
    if option in VALUES:
        return [option, VALUES[option]]
    if isinstance(parameter.type, click.Choice):
        return [option, str(list(parameter.type.choices)[-1])]
    return [option, "3"]


@pytest.mark.parametrize("metric", ["cpwer", "tcpwer"])
@pytest.mark.parametrize("option", sorted(OPTIONS.keys() - GIVEN - ASIDE))
def test_counts_are_the_metrics_own_or_the_option_is_refused(
    metric: str, option: str, rescore: Run, tmp_path: Path
) -> None:
    line = ["eval", "o.stm", "--ref", "r.stm", "--metric", metric]
    line += ["--report", "r.json", *value_of(option)]
    if option != "--by":
        line += ["--by", "^(.)"]
    done = rescore(*line)
    if done.returncode == 2:
        assert option in done.stderr and done.stderr.count("\n") == 1, done.stderr
        return
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    (system,) = report["systems"]
    words = [group["words"] for group in report["groups"]["groups"]]
    assert sum(words) == system["counts"]["ref_words"]
    if option.removeprefix("--").replace("-", "_") not in FLAGS:
        assert system["counts"] == COUNTS
        assert words == [4, 2]


def test_words_are_those_that_are_said(tmp_path: Path) -> None:
    (lists,) = measured_sessions([str(tmp_path / "o.stm")], str(tmp_path / "r.stm"))
    metric = METRICS["cpwer"].choose(METRICS["cpwer"].Options(), ())
    assert metric.said(lists[0].references[0]) == "the old owl\nhoots"
    assert reference_words(lists, [metric]) == 6


def test_a_language_without_blanks_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Names of speakers and times are no letters of a text."""
    text = "a-1 1 anna 0.125 1.375 \u4eca\u5929\u5929\u6c14\u5f88\u597d\u554a\n"
    (tmp_path / "r.stm").write_text(text)
    (lists,) = measured_sessions([str(tmp_path / "r.stm")], str(tmp_path / "r.stm"))
    warn_of_texts(
        METRICS["cpwer"].choose(METRICS["cpwer"].Options(), ()), Dataset.of(lists)
    )
    assert "no spaces between words" in caplog.text
