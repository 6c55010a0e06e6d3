"""One pipeline: the same experiment has one result, whichever way it is made; and what
is decided by default.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rescore
from rescore import formats, pipeline
from rescore.asked import ROADS, checked
from rescore.columns import TOKENS, WORDS, Column
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.parts import BEST, DECISIONS
from rescore.plan import resolve
from rescore.reports.summary import render
from rescore.tuning.lists import choose_columns
from rescore.tuning.weights import Weights
from tests import stages
from tests.cli.test_recipe import make
from tests.conftest import ROOT, Run, assert_one_line_error

SMALL = f"tta:{ROOT / 'models' / 'tta-small'}"


@pytest.fixture
def run_in(request: pytest.FixtureRequest) -> Run:
    """The fixture `rescore`, under a name that leaves the package its own."""
    return request.getfixturevalue("rescore")


def many(name: str, number: int, depth: int = 3) -> list[NbestList]:
    """So many short lists: those of the demo data, again and again under new ids."""
    given = formats.read([ROOT / "data" / f"{name}.json"])
    return [
        NbestList(f"{name}{index:04d}", nbest.hypotheses[:depth], nbest.references)
        for index in range(number)
        for nbest in [given[index % len(given)]]
    ]


def figures(report: dict[str, Any]) -> dict[str, Any]:
    """All but what is named after files, and how long it took."""
    kept = {
        name: value
        for name, value in report.items()
        if name not in ("dataset", "seconds", "stages", "plan", "dev")
    }
    kept["choice"]["tuning"]["source"] = ""
    return kept


def test_one_experiment_by_every_road(run_in: Run, tmp_path: Path) -> None:
    """600 lists, a T-TA and the default bonuses: `run`, the stages, the recipe and
    Python, byte for byte.
    """
    for name in ("dev", "test"):
        formats.write(many(name, 600), str(tmp_path / f"{name}.json"))
    lm = ("--lm", SMALL, "--cache", "cache")
    done = run_in("test.json", *lm, "--dev", "dev.json", "--report", "run.json")
    assert done.returncode == 0, done.stderr
    for name in ("dev", "test"):
        assert (
            run_in("score", f"{name}.json", *lm, "-o", f"{name}.jsonl").returncode == 0
        )
    assert run_in("tune", "dev.jsonl", "-o", "w.json").returncode == 0
    assert (
        run_in(
            "rerank", "test.jsonl", "--weights", "w.json", "--report", "staged.json"
        ).returncode
        == 0
    )
    lines = ["DEV := dev.json", "TEST := test.json", f"LM := {SMALL}", "CACHE := cache"]
    (tmp_path / "Makefile").write_text(
        "\n".join([*lines, "include $(shell rescore recipe)"]), encoding="utf-8"
    )
    made = make(tmp_path)
    assert made.returncode == 0, made.stderr
    model = rescore.load(SMALL, cache="cache")
    dev, test = (
        rescore.score(rescore.read(f"{name}.json"), model) for name in ("dev", "test")
    )
    rescore.evaluate(test, rescore.tune(dev)).save(tmp_path / "python.json")
    run, *others = (
        figures(json.loads(text))
        for text in (
            (tmp_path / name).read_text()
            for name in (
                "run.json",
                "staged.json",
                "rescored/test.results.json",
                "python.json",
            )
        )
    )
    assert "|w:tokens=" in run["signature"] and "|lm:tokens=tta@" in run["signature"]
    for other in others:
        assert json.dumps(other) == json.dumps(run)
    # The last stage alone, on the reranked lists: what is measured of what is there.
    assert (
        run_in(
            "rerank", "test.jsonl", "--weights", "w.json", "-o", "out.jsonl"
        ).returncode
        == 0
    )
    measured = json.loads(run_in("eval", "out.jsonl", "--report", "-").stdout)
    assert measured["systems"][0]["oracle"] == run["metrics"][0]["oracle"]


def scored(number: int, model: str = "tta", *columns: str) -> list[NbestList]:
    """Lists with a column of a model, and what is counted."""
    records = {
        name: Column(model, "0" * 12, "sum", "float32") for name in ("lm", *columns)
    }
    scores = {"s2s": -1.0, "lm": -1.0, **dict.fromkeys(columns, 2.0)}
    return [
        NbestList(
            str(index),
            [Hypothesis("a", scores)],
            ("a",),
            header=Header(records=records),
        )
        for index in range(number)
    ]


def test_a_token_bonus_is_for_large_sets_of_pseudo_log_likelihoods() -> None:
    for large in (
        scored(500, "tta", TOKENS),
        scored(499, "tta", TOKENS),
        scored(500, "unilm", TOKENS),
        scored(500, "tta"),
    ):
        model, tokens = (
            large[0].header.records["lm"].model,
            TOKENS in large[0].header.records,
        )
        suits = len(large) >= 500 and model == "tta" and tokens
        assert (
            TOKENS in resolve(pipeline.RunConfig(), dev=large).tuning.bonuses
        ) == suits
    for asked in (True, False):
        config = pipeline.RunConfig(token_bonus=asked)
        assert (
            TOKENS in resolve(config, dev=scored(2, "unilm", TOKENS)).tuning.bonuses
        ) == asked


@pytest.mark.parametrize(
    ("metric", "bonuses"),
    [("wer", (WORDS, TOKENS)), ("bleu", ()), ("chrf", (WORDS, TOKENS))],
)
def test_bleu_has_no_bonus_for_length(metric: str, bonuses: tuple[str, ...]) -> None:
    lists = scored(500, "tta", TOKENS)
    config = pipeline.RunConfig(metrics=(metric,), columns=("lm", "other"))
    assert resolve(config, dev=lists).tuning.bonuses == bonuses
    assert resolve(
        replace(config, word_bonus=True, columns=("lm",)), dev=lists
    ).tuning.bonuses[:1] == (WORDS,)


def test_columns_of_models_are_tuned_not_those_of_toolkits() -> None:
    lists = scored(1)
    lists[0].hypotheses[0].scores["LM0"] = -3.0
    assert choose_columns(Dataset.of(lists)) == ["lm"] and choose_columns(
        Dataset.of(lists), ["LM0", "s2s"]
    ) == ["LM0"]
    lists[0].header = Header()
    assert choose_columns(Dataset.of(lists)) == ["lm", "LM0"]


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"dev": "d", "weights": (0.5,)}, "--dev and --weight exclude each other"),
        ({"folds": 3, "dev": "d"}, "leave out --dev"),
        ({"decide": "best", "scale": 1.0, "dev": "d"}, "--scale needs --decide mbr"),
        ({"bagging": False}, "about tuning"),
        ({"word_bonus": True}, "--word-bonus tune needs"),
        ({"lms": ("tta", "unilm")}, "one --weight per --lm"),
        (
            {"lms": ("tta",), "weights": (0.5, 0.5)},
            "2 --weight for tta; give one for each --lm",
        ),
        (
            {"lms": ("tta",), "weights": (1.5,)},
            "--weight 1.5: expected a number from 0 to 1",
        ),
    ],
)
def test_decisions_that_contradict_each_other(
    decisions: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        checked(ROADS["run"], pipeline.RunConfig(**decisions))


def test_a_decision_by_posteriors_needs_a_scale() -> None:
    """Lists of several systems are posteriors already; other lists are not."""
    with pytest.raises(UserError, match="--decide mbr needs a scale"):
        pipeline.resolve(pipeline.RunConfig(decide="mbr"), many("test", 2))


def test_as_tuned_unless_something_else_is_asked_for(
    run_in: Run, tmp_path: Path
) -> None:
    """`rerank` decides and measures as weights were tuned; what is asked for there goes
    before.
    """
    formats.write(many("dev", 20), str(tmp_path / "l.json"))
    assert run_in("score", "l.json", "--lm", SMALL, "-o", "l.jsonl").returncode == 0
    how = ("--case-sensitive", "--drop-punctuation")
    done = run_in("tune", "l.jsonl", "--decide", "mbr", *how, "-o", "w.json")
    assert done.returncode == 0 and "same from" not in done.stderr, done.stderr

    def signature(*options: str) -> str:
        done = run_in(
            "rerank", "l.jsonl", "--weights", "w.json", "--report", "r.json", *options
        )
        assert done.returncode == 0, done.stderr
        return str(json.loads((tmp_path / "r.json").read_text())["signature"])

    assert (
        signature().startswith("WER|case:mixed|drop-punctuation:yes|tok:")
        and "|decide:mbr," in signature()
    )
    assert "|decide:" not in signature("--decide", "best")
    assert "|decide:mbr,0.5|" in signature("--scale", "0.5")
    assert signature("--split-hyphens").startswith(
        "WER|case:mixed|split-hyphens:yes|drop-punctuation:yes|tok:"
    )
    assert signature("--metric", "cer").startswith("CER|case:lc|")
    (tmp_path / "words").write_text("the\nan\n", encoding="utf-8")
    rare = ("--metric", "bwer", "--words", "words")
    assert run_in("tune", "l.jsonl", *rare, "-o", "b.json").returncode == 0
    assert (
        run_in(
            "rerank", "l.jsonl", "--weights", "b.json", "--report", "b.json.txt"
        ).returncode
        == 0
    )
    assert (
        run_in(
            "rerank", "l.jsonl", "--weights", "b.json", *rare, "--report", "c.json.txt"
        ).returncode
        == 0
    )
    one, other = (
        json.loads((tmp_path / f"{name}.json.txt").read_text()) for name in "bc"
    )
    assert one["signature"] == other["signature"] and one["signature"].startswith(
        "BWER|"
    )
    (tmp_path / "words").write_text("the\n", encoding="utf-8")
    done = run_in("rerank", "l.jsonl", "--weights", "b.json", "--report", "r.json")
    assert (
        done.returncode == 2
        and "words: the file or the rules for reading it changed" in done.stderr
    )


def test_mbr_tells_no_interval_of_the_best_score(run_in: Run, tmp_path: Path) -> None:
    formats.write(many("dev", 40), str(tmp_path / "l.json"))
    lm = ("--lm", SMALL, "--cache", "cache")
    assert "the same for any lambda" in run_in("l.json", *lm, "--dev", "l.json").stdout
    done = run_in("l.json", *lm, "--dev", "l.json", "--decide", "mbr")
    assert done.returncode == 0 and "the same for any lambda" not in done.stdout
    # Of weights that were tuned for the best score and decide otherwise, too.
    assert run_in("score", "l.json", *lm, "-o", "l.jsonl").returncode == 0
    assert "same from" in run_in("tune", "l.jsonl", "-o", "w.json").stderr
    lists, weights = (
        formats.read([tmp_path / "l.jsonl"]),
        Weights.load(tmp_path / "w.json"),
    )
    for config, is_said in (
        (pipeline.RunConfig(), True),
        (pipeline.RunConfig(decide="mbr", scale=1.0), False),
    ):
        results, _ = stages.evaluated(lists, weights, config)
        assert ("the same for any lambda" in render(results)) == is_said


def test_every_output_is_a_file_of_its_own(run_in: Run, tmp_path: Path) -> None:
    formats.write(many("dev", 3), str(tmp_path / "l.json"))
    done = run_in("rerank", "l.json", "--best", "x.txt", "--table", "x.txt")
    assert (
        done.returncode == 2 and "--best and --table both write to x.txt" in done.stderr
    )


def with_components(number: int) -> list[NbestList]:
    """Lists whose first pass weighs two parts wrongly: `lm` alone would be right."""
    about = {"decoder": Column.component("espnet2"), "lm": Column.component("espnet2")}
    return [
        NbestList(
            f"u{index:03d}",
            [
                Hypothesis(
                    "wrong", {"s2s": -1.1, "decoder": -1.0, "lm": -1.0 - index % 3}
                ),
                Hypothesis("right", {"s2s": -2.05, "decoder": -2.0, "lm": -0.5}),
            ],
            ("right",),
            header=Header(records=about),
        )
        for index in range(number)
    ]


def test_components_are_tuned_where_asked(run_in: Run, tmp_path: Path) -> None:
    dev, test = with_components(60), with_components(30)
    config = pipeline.RunConfig(components=True)
    outcome = pipeline.run(test, config, dev)
    assert (
        outcome.results.metrics[0].reranked == 0.0
        and {"decoder", "lm"} <= outcome.weights.weights.keys()
    )
    assert (
        pipeline.run(test, pipeline.RunConfig(), dev).results.metrics[0].reranked
        == 100.0
    )
    formats.write(dev, str(tmp_path / "dev.jsonl"))
    formats.write(test, str(tmp_path / "test.jsonl"))
    assert run_in("tune", "dev.jsonl", "--components", "-o", "w.json").returncode == 0
    done = run_in("rerank", "test.jsonl", "--weights", "w.json", "--best", "-")
    assert done.stdout.count("right") == 30
    by_run = run_in(
        "test.jsonl", "--dev", "dev.jsonl", "--components", "--save-weights", "run.json"
    )
    assert by_run.returncode == 0, by_run.stderr
    assert (
        json.loads((tmp_path / "run.json").read_text())["weights"]
        == json.loads((tmp_path / "w.json").read_text())["weights"]
    )
    assert_one_line_error(
        run_in("test.jsonl", "--components"), "--components is about tuning"
    )
    plain = ROOT / "data" / "test.json"
    assert_one_line_error(
        run_in(plain, "--folds", "2", "--components"),
        "the lists have no parts of the first-pass score; formats that can have them:",
        *(" espnet2, ", " kaldi, ", " srilm, ", " moses "),
    )


@pytest.mark.parametrize("decision", sorted({*DECISIONS} - {BEST}))
@pytest.mark.parametrize("first_is_right", [True, False])
def test_a_decision_that_is_worse_than_the_first_pass_is_told(
    decision: str, first_is_right: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Lists of equal scores, in which the other hypotheses agree on other words."""
    lists = []
    for number in range(8):
        texts = [f"an owl {number}", f"a cowl {number}", f"a cowls {number}"]
        reference = texts[0 if first_is_right else 1]
        hypotheses = [Hypothesis(text, {"s2s": -1.0}) for text in texts]
        lists.append(NbestList(f"u{number}", hypotheses, (reference,)))
    weights = rescore.tune(lists, decision=decision, columns=())
    about = weights.tuning
    assert about.value is not None and about.first_pass is not None
    told = f"--decide {decision} is worse than the first pass" in caplog.text
    assert told == (about.value > about.first_pass)
    assert told == first_is_right
