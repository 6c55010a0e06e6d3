"""One plan: the settings of a metric, the scale of posteriors and the decision are the
same for every consumer.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescore import Rescorer, UserError, Weights, formats, pipeline
from rescore.asr.confidence import confidences, networks
from rescore.asr.mixture import Mixture
from rescore.asr.systems import combined
from rescore.columns import Column, Role
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.deciding import first_pass
from rescore.metrics.significance import PairedTest
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.plan import resolve
from rescore.reports.analysis import analyse
from rescore.reports.figures import Figures
from rescore.reports.outputs import compare_outputs
from rescore.reports.page import page
from rescore.tuning import Tuning
from rescore.tuning.curves import weight_curve
from tests.conftest import Run, assert_one_line_error

COLUMNS = {"tokens": Column("tta", "abc", "count", "", Role.COUNT)}
WORDS = ["ab", "cd", "东西", "f", "g"]


def noisy(number: int = 40, seed: int = 1, helpful: bool = True) -> list[NbestList]:
    """Lists of texts with errors, with scores of a model `x` that knows of them, and a
    count of tokens.
    """
    chance, lists = random.Random(seed), []
    for index in range(number):
        reference = [chance.choice(WORDS) for _ in range(5)]
        hypotheses = []
        for _ in range(5):
            heard = [
                chance.choice(WORDS) if chance.random() < 0.3 else word
                for word in reference
            ]
            errors = sum(
                word != right for word, right in zip(heard, reference, strict=True)
            )
            scores = {
                "s2s": chance.gauss(-errors, 2),
                "x": chance.gauss(-errors if helpful else 0, 1),
            }
            hypotheses.append(
                Hypothesis(
                    " ".join(heard), scores | {"tokens": float(chance.randint(4, 8))}
                )
            )
        lists.append(
            NbestList(
                f"{'mn'[index % 2]}-{index}",
                hypotheses,
                (" ".join(reference),),
                None,
                Header(records=COLUMNS),
            )
        )
    return lists


@pytest.fixture
def files(tmp_path: Path) -> None:
    formats.write(noisy(), str(tmp_path / "dev.jsonl"))
    formats.write(noisy(seed=2), str(tmp_path / "test.jsonl"))
    (tmp_path / "words").write_text("ab\ng\n")


def rows(path: Path) -> list[tuple[str, float]]:
    return [
        (row["metric"], row["reranked"])
        for row in json.loads(path.read_text())["metrics"]
    ]


def test_options_of_a_metric_stay_with_it(
    rescore: Run, tmp_path: Path, files: None
) -> None:
    metrics = ("--metric", "mer", "--metric", "wer")
    assert (
        rescore(
            "test.jsonl", "--dev", "dev.jsonl", *metrics, "--report", "run.json"
        ).returncode
        == 0
    )
    assert rescore("tune", "dev.jsonl", *metrics, "-o", "w.json").returncode == 0
    done = rescore(
        "rerank",
        "test.jsonl",
        "--weights",
        "w.json",
        *metrics,
        "--report",
        "staged.json",
        "--best",
        "best",
    )
    assert done.returncode == 0, done.stderr
    by_run = rows(tmp_path / "run.json")
    assert [name for name, _ in by_run] == ["MER", "WER"] and by_run[0][1] != by_run[1][
        1
    ]
    assert rows(tmp_path / "staged.json") == by_run
    options = ("--drop-punctuation", "--case-sensitive")
    assert (
        rescore(
            "tune", "dev.jsonl", "--metric", "mer", *options, "-o", "w.json"
        ).returncode
        == 0
    )
    signatures = []
    for order in (("mer", "wer"), ("wer", "mer")):
        asked = [f"--metric={metric}" for metric in order]
        assert (
            rescore(
                "rerank",
                "test.jsonl",
                "--weights",
                "w.json",
                *asked,
                "--report",
                "r.json",
            ).returncode
            == 0
        )
        signatures.append(
            sorted(
                row["signature"]
                for row in json.loads((tmp_path / "r.json").read_text())["metrics"]
            )
        )
    assert signatures[0] == signatures[1] and all(
        "case:mixed|drop-punctuation:yes" in one for one in signatures[1]
    )
    lines = [f"{nbest.id} {nbest.references[0]}" for nbest in noisy(seed=2)]
    (tmp_path / "ref").write_text("\n".join(lines) + "\n")
    done = rescore("eval", "best", "--ref", "ref", *metrics, "--report", "eval.json")
    assert done.returncode == 0, done.stderr
    measured = [
        (systems["metric"], systems["systems"][0]["value"])
        for systems in _read(tmp_path / "eval.json")
    ]
    assert measured == by_run


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_a_boost_that_is_switched_off_is_reported_by_every_road(
    rescore: Run, tmp_path: Path, files: None
) -> None:
    boost = ("--boost", "tune", "--words", "words")
    done = rescore("test.jsonl", "--dev", "dev.jsonl", *boost, "--report", "run.json")
    assert (
        done.returncode == 0
        and "the boost of listed words has no significant gain" in done.stderr
    ), done.stderr
    assert rescore("tune", "dev.jsonl", *boost, "-o", "w.json").returncode == 0
    done = rescore(
        "rerank",
        "test.jsonl",
        "--weights",
        "w.json",
        "--words",
        "words",
        "--report",
        "staged.json",
    )
    assert done.returncode == 0, done.stderr
    assert [name for name, _ in rows(tmp_path / "run.json")] == ["WER", "BWER", "UWER"]
    assert rows(tmp_path / "staged.json") == rows(tmp_path / "run.json")


@pytest.mark.parametrize("decide", ["mbr", "rover"])
def test_a_curve_is_of_the_decision_or_absent(
    rescore: Run, files: None, decide: str
) -> None:
    done = rescore(
        "tune",
        "dev.jsonl",
        "--decide",
        decide,
        "--scale",
        "0.2",
        "--curve",
        "c.csv",
        "-o",
        "w.json",
    )
    assert_one_line_error(done, "--curve", f"--decide {decide}")
    outcome = pipeline.run(noisy(seed=2), RunConfig(decide=decide, scale=0.2), noisy())
    assert (
        outcome.tuning_lists
        and weight_curve(outcome.metric, outcome.tuning_lists, outcome.weights) == []
    )
    assert page(outcome.results, outcome.metric, outcome.lists, outcome.texts, [])
    best = pipeline.run(noisy(seed=2), RunConfig(), noisy())
    assert best.tuning_lists
    assert weight_curve(best.metric, best.tuning_lists, best.weights)


@pytest.mark.parametrize("decide", ["mbr", "rover"])
def test_one_scale_for_texts_and_confidences(decide: str) -> None:
    lists, given = noisy(6), Weights({"s2s": 1.0})
    plan = resolve(RunConfig(decide=decide, scale=0.2), lists, weights=given)
    texts = replace(given, decision=plan.decision).texts(plan.metric, Dataset.of(lists))
    expected = [
        network.confidences(0.2).tolist()
        for network in networks(lists, texts, given, plan.metric.words)
    ]
    decided = confidences(plan, Dataset.of(lists)).words
    assert [[word.confidence for word in words] for words in decided] == expected
    tuned = resolve(RunConfig(), lists, weights=replace(given, decision=plan.decision))
    assert confidences(tuned, Dataset.of(lists)).words == decided


def test_a_count_is_a_bonus_also_as_a_column() -> None:
    lists = noisy(seed=3)
    for nbest in lists:
        for hypothesis in nbest.hypotheses:
            hypothesis.text = (
                hypothesis.text.rpartition(" ")[0]
                if hypothesis.scores["tokens"] < 6
                else hypothesis.text
            )
    named = resolve(RunConfig(columns=("x", "tokens"), bagging=False), dev=lists)
    asked = resolve(
        RunConfig(columns=("x",), token_bonus=True, bagging=False), dev=lists
    )
    assert named.tuned_columns == asked.tuned_columns == ("x",)
    assert named.tuning == asked.tuning
    weights = pipeline.tune(named, Dataset.of(lists))
    assert weights.weights == pipeline.tune(asked, Dataset.of(lists)).weights
    alone = resolve(RunConfig(columns=("tokens",)), dev=lists)
    assert alone.tuned_columns == () and alone.tuning.bonuses == ("tokens",)


def test_a_metric_that_is_given_twice_is_reported_once(
    rescore: Run, tmp_path: Path, files: None
) -> None:
    metrics = (
        "--metric",
        "wer",
        "--metric",
        "cer",
        "--metric",
        "WER",
        "--metric",
        "cer",
    )
    assert (
        rescore(
            "test.jsonl", "--dev", "dev.jsonl", *metrics, "--report", "run.json"
        ).returncode
        == 0
    )
    assert [name for name, _ in rows(tmp_path / "run.json")] == ["WER", "CER"]


METRICS = ("wer", "cer", "mer", "bleu", "chrf", "chrf++", "ter")


@pytest.mark.parametrize("decide", ["best", "mbr", "rover"])
@pytest.mark.parametrize("metric", METRICS)
def test_the_order_of_lists_changes_no_figure(metric: str, decide: str) -> None:
    if decide == "rover" and metric in ("bleu", "chrf", "chrf++", "ter"):
        pytest.skip("rover votes on words, and this metric has no words")
    figures = []
    for seed in (None, 5):
        dev, test = noisy(14), noisy(16, seed=2)
        if seed is not None:
            random.Random(seed).shuffle(dev)
            random.Random(seed).shuffle(test)
        config = RunConfig(
            metrics=(metric,),
            decide=decide,
            scale=None if decide == "best" else 0.7,
            bagging=False,
        )
        outcome = pipeline.run(test, config, dev)
        ids = [nbest.id for nbest in outcome.lists]
        analysis = analyse(outcome.metric, outcome.decided).outlook
        measured = [replace(row, signature="") for row in outcome.results.metrics]
        texts = dict(zip(ids, outcome.texts, strict=True))
        figures.append((outcome.weights.weights, measured, texts, analysis))
    assert repr(figures[0]) == repr(figures[1]) or figures[0] == figures[1]


@pytest.mark.parametrize("by_speaker", [False, True])
@pytest.mark.parametrize("name", ["randomisation", "mapsswe"])
def test_the_order_of_lists_changes_no_test(name: str, by_speaker: bool) -> None:
    try:
        test = PairedTest(name, by_speaker)
    except UserError:
        pytest.skip("the test is by segment")
    rows = []
    for seed in (None, 1, 2):
        lists = noisy()
        if seed is not None:
            random.Random(seed).shuffle(lists)
        metric = resolve(RunConfig(), lists).metric
        figures = Figures(metric, Dataset.of(lists), test)
        last = [len(nbest.hypotheses) - 1 for nbest in lists]
        row = figures.row(
            "", figures.at(last), figures.of(first_pass(Dataset.of(lists)).texts)
        )
        one = [replace(nbest, hypotheses=nbest.hypotheses[-1:]) for nbest in lists]
        systems = compare_outputs(
            [("a", Dataset(lists)), ("b", Dataset(one))], metric, test
        )
        rows.append((row.value, row.interval, row.p_value, systems.systems))
    assert rows[0] == rows[1] == rows[2]


def test_a_service_refuses_at_the_start_what_no_request_can_bring() -> None:
    def lm(sentences: Any) -> list[float]:
        return [0.0 for _ in sentences]

    boosted = Weights({"s2s": 1.0, "listed": 0.5})
    with pytest.raises(UserError, match="--words FILE"):
        Rescorer(lm, boosted)
    with pytest.raises(
        UserError,
        match=(
            "the weights are votes of a, b, but the systems of these lists are unknown"
        ),
    ):
        Rescorer(lm, Weights({"s2s": 1.0}, mixture=Mixture({"a": 1.0, "b": 0.5})))
    parts = Weights(
        {"s2s": 0.7, "am": 0.3},
        tuning=Tuning(columns={"am": Column.component("kaldi")}),
    )
    # requests bring the scores of the toolkit
    assert Rescorer(lm, parts).weights is parts


def test_a_missing_column_says_what_to_do() -> None:
    def message(name: str, **records: Column) -> str:
        with pytest.raises(UserError) as error:
            NbestList(
                "u", [Hypothesis("a", {"s2s": 0.0})], header=Header(records=records)
            ).column(name)
        return str(error.value)

    assert "--words FILE" in message("listed") and "--count-tokens" in message("tokens")
    assert "--respell" in message(
        "edits"
    ) and "`rescore score LISTS --lm MODEL -o FILE`" in message("tta")


def test_systems_of_dev_lists_are_compared_before_anything_is_tuned() -> None:
    def of(*names: str) -> list[NbestList]:
        systems = {
            name: [NbestList("u", [Hypothesis(name, {"s2s": 0.0})], ("x",))]
            for name in names
        }
        return list(combined(systems))

    config = RunConfig(dev="dev.jsonl")
    assert resolve(config, of("a", "b"), of("b", "a"))
    with pytest.raises(
        UserError, match=r"dev\.jsonl has lists of the systems a\.dev, b"
    ):
        resolve(config, of("a", "b"), of("a.dev", "b.dev"))
    forced = RunConfig(dev="dev.jsonl", force_weights=True)
    assert resolve(forced, of("a", "b"), of("a.dev", "b.dev"))


def test_translations_of_several_systems_are_translations() -> None:
    lists = {}
    for name in ("a", "b"):
        nbest = NbestList("u", [Hypothesis(name, {"s2s": 0.0})], ("x",))
        nbest.header = replace(nbest.header, translates=name == "b")
        lists[name] = [nbest]
    (nbest,) = combined(lists)
    assert resolve(RunConfig(), [nbest]).metrics[0].name == "BLEU"
