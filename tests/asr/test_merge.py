"""Lists of several systems as one."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rescore import formats, pipeline
from rescore.asr.merge import merge
from rescore.asr.recombine import recombine
from rescore.errors import UserError
from rescore.nbest import Column, Hypothesis, NbestList, Origin
from rescore.tuning import Weights
from tests.conftest import Run, assert_one_line_error


def lists(*rows: tuple[str, dict[str, float]]) -> list[NbestList]:
    """One list per pair of id and scores by text."""
    return [
        NbestList(name, [Hypothesis(text, {"s2s": score}) for text, score in scores.items()], ("right",))
        for name, scores in rows
    ]


def test_each_system_has_a_column_and_a_sign_of_what_it_lacks() -> None:
    a, b = lists(("u", {"x": -1.0, "y": -3.0})), lists(("u", {"y": -2.0, "z": -5.0}))
    (found,) = merge(a, {"b": b})
    assert [one.text for one in found.hypotheses] == ["x", "y", "z"]
    assert found.column("s2s") == [-1.0, -3.0, -3.0] and found.column("missing.s2s") == [0.0, 0.0, 1.0]
    assert found.column("b") == [-5.0, -2.0, -5.0] and found.column("missing.b") == [1.0, 0.0, 0.0]
    assert [one.origin for one in found.hypotheses] == [Origin.FIRST_PASS, Origin.FIRST_PASS, Origin.MERGED]
    assert all(found.provenance[name].is_component for name in ("b", "missing.b", "missing.s2s"))


def test_parts_of_the_first_pass_get_the_worst_of_the_list() -> None:
    a, b = lists(("u", {"x": -1.0, "y": -3.0})), lists(("u", {"z": -5.0}))
    a[0].provenance = {"ctc": Column.component("espnet2")}
    for score, hypothesis in zip((-7.0, -6.0), a[0].hypotheses, strict=True):
        hypothesis.scores["ctc"] = score
    (found,) = merge(a, {"b": b})
    assert found.column("ctc") == [-7.0, -6.0, -7.0]


def test_an_utterance_that_a_system_lacks(caplog: pytest.LogCaptureFixture) -> None:
    a, b = lists(("u", {"x": -1.0}), ("v", {"x": -1.0})), lists(("u", {"x": -2.0}))
    with caplog.at_level(logging.WARNING):
        _, alone = merge(a, {"b": b})
    assert alone.column("b") == [0.0] and alone.column("missing.b") == [1.0]
    assert "b: 1 of 2 utterances are missing" in caplog.text
    with pytest.raises(UserError, match="b: utterance v is not in the lists of the first system"):
        list(merge(a[:1], {"b": a}))
    with pytest.raises(UserError, match="b: the lists of the first system have a column of that name"):
        list(merge(list(merge(a, {"b": a})), {"b": a}))


def test_the_better_system_decides_after_tuning(rescore: Run, tmp_path: Path) -> None:
    poor = lists(*((f"u{index}", {"wrong": -1.0, "right": -2.0}) for index in range(40)))
    good = lists(*((f"u{index}", {"right": -0.1, "odd": -4.0}) for index in range(40)))
    merged = list(merge(poor, {"good": good}))
    outcome = pipeline.run(merged[20:], pipeline.RunConfig(components=True), merged[:20])
    assert outcome.results.metrics[0].first_pass == 100.0 and outcome.results.metrics[0].reranked == 0.0
    for name, some in (("poor", poor), ("good", good)):
        formats.write(some, str(tmp_path / f"{name}.jsonl"))
    assert rescore("merge", "poor.jsonl", "good.jsonl", "-o", "both.jsonl").returncode == 0
    assert rescore("both.jsonl", "--folds", "2", "--components", "--decide", "rover").returncode == 0
    again = formats.read([tmp_path / "both.jsonl"])
    assert again[0].column("good") == merged[0].column("good") and again[0].provenance["good"].is_component
    assert_one_line_error(rescore("merge", "poor.jsonl"), "two systems or more")
    assert_one_line_error(rescore("merge", "poor.jsonl", "good.jsonl", "good.jsonl"), "would be called good")
    assert_one_line_error(rescore("merge", "poor.jsonl", "good.jsonl", "--name", "a", "--name", "b"), "give one each")


def test_run_merges_as_the_stages_do(rescore: Run, tmp_path: Path) -> None:
    for name, texts in (("poor", ("wrong", "right", "odd")), ("good", ("right", "odd", "even"))):
        for part in ("dev", "test"):
            (tmp_path / name).mkdir(exist_ok=True)
            some = lists(
                *(
                    (f"{part}{index}", {text: -rank - index % 3 / 7 for rank, text in enumerate(texts)})
                    for index in range(30)
                )
            )
            formats.write(some, str(tmp_path / name / f"{part}.jsonl"))
    for part in ("dev", "test"):
        rescore("merge", f"poor/{part}.jsonl", f"good/{part}.jsonl", "-o", f"{part}.jsonl")
    system = ("--with", "good/test.jsonl", "--dev-with", "good/dev.jsonl")
    for rule in ("rover", "mbr"):
        decide = ("--decide", rule, "--save-weights", "w.json")
        stages = rescore("test.jsonl", "--dev", "dev.jsonl", "--components", *decide, "-o", "two.jsonl")
        one = rescore("poor/test.jsonl", *system, "--dev", "poor/dev.jsonl", *decide, "-o", "one.jsonl")
        assert one.returncode == 0, one.stderr
        assert formats.read([tmp_path / "one.jsonl"]) == formats.read([tmp_path / "two.jsonl"])
        assert one.stdout.replace("poor/dev.jsonl", "dev.jsonl") == stages.stdout
        found = Weights.load(tmp_path / "w.json")
        assert (
            found.decision.name == rule
            and found.decision.scale
            and any(found.weights[name] for name in ("good", "missing.good", "missing.s2s"))
        )
    folds = rescore("poor/test.jsonl", *system[:2], "--folds", "3")
    assert folds.returncode == 0 and "100.00" in folds.stdout and "0.00" in folds.stdout
    for options, message in (
        ((*system[:2], "--dev", "poor/dev.jsonl"), "1 --with, but 0 --dev-with"),
        (system[:2], "give --dev and --dev-with, or --folds"),
        (("--with", "good/test.jsonl", *system[:2], "--folds", "3"), "would be called"),
        ((*system, "--folds", "3"), "--dev-with needs --dev"),
    ):
        assert_one_line_error(rescore("poor/test.jsonl", *options), message)


def test_a_missing_system_is_reported_before_lists_are_read(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text("{", encoding="utf-8")
    for options in (
        ("--with", "nowhere"),
        ("--with", "broken.jsonl", "--dev", "broken.jsonl", "--dev-with", "nowhere"),
    ):
        assert_one_line_error(rescore("broken.jsonl", *options), "nowhere: no such file or folder")


def test_merged_lists_are_recombined() -> None:
    """What is new belongs to no other system: its worst score, and a 1 where it is missing."""
    one = [NbestList("u", [Hypothesis("a b c d", {"s2s": -1.0}), Hypothesis("a x c y", {"s2s": -2.0})])]
    other = [NbestList("u", [Hypothesis("a x c d", {"s2s": -3.0}), Hypothesis("q", {"s2s": -4.0})])]
    found = recombine(next(merge(one, {"b": other})), 5)
    new = [hypothesis for hypothesis in found.hypotheses if hypothesis.text == "a b c y"]
    assert len(new) == 1
    assert {name: new[0].scores[name] for name in ("b", "missing.b", "missing.s2s")} == {
        "b": -4.0, "missing.b": 1.0, "missing.s2s": 0.0,
    }  # fmt: skip
    assert all(len(found.column(name)) == len(found.hypotheses) for name in ("s2s", "b", "missing.b", "missing.s2s"))
