"""What reports say of how weights were tuned, by every road; and weights of another
model are refused.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rescore as package
from rescore import formats
from rescore.asr.features import CHANNEL, EDITS, RESPELLED
from rescore.asr.respell import Respelling, find_lexicon
from rescore.columns import Column
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.errors import UserError, installed_by
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.reports.analysis import render as show
from rescore.reports.check import compare
from rescore.reports.page import page
from rescore.reports.records import MetricResult
from rescore.reports.summary import gain, render, worse
from rescore.signature import Conditions
from rescore.tuning import TuningOptions, Weights, suited, tune_weights
from rescore.tuning.record import TunedBy, Tuning, Unproven
from tests.analyses import analysed, outlook_of
from tests.conftest import ROOT, Run, assert_one_line_error
from tests.lms.test_ngram import ARPA

HALF = {"s2s": 0.5, "lm": 0.5}
ORIGIN = {
    "model": "tta",
    "fingerprint": "ab" * 32,
    "norm": "sum",
    "precision": "float32",
}


def noise(number: int, seed: int, strength: float = 0.0) -> list[dict[str, Any]]:
    """Lists whose LM scores are noise, and with a strength also know the right text."""
    random = np.random.default_rng(seed)
    lists = []
    for index in range(number):
        texts = ["a b c d", "a b c x", "a b y x"]
        random.shuffle(texts)
        hyps = [
            {
                "text": text,
                "score": -float(rank),
                "scores": {
                    "tta": float(random.normal(0, 3)) + strength * (text == "a b c d")
                },
            }
            for rank, text in enumerate(texts)
        ]
        lists.append(
            {"id": f"{'ab'[index % 2]}{index:03d}", "ref": "a b c d", "hyps": hyps}
        )
    return lists


def write_lines(path: Path, lists: list[dict[str, Any]], **origin: str) -> Path:
    lines = [
        json.dumps({**entry, "columns": {"tta": ORIGIN | origin}}) + "\n"
        for entry in lists
    ]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_folds_are_what_is_written_and_shown(rescore: Run, tmp_path: Path) -> None:
    """With `--folds` lists, texts, page and figures are those of the folds, not of
    weights of all lists.
    """
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lists = noise(40, 3, 1.0)
    random = np.random.default_rng(3)
    for entry in lists:
        for hypothesis in entry["hyps"]:
            hypothesis["text"] = hypothesis["text"].replace(
                "a", str(random.choice(["the", "old", "a"]))
            )
    write_lines(tmp_path / "l.jsonl", lists)
    outputs = [
        "-o",
        "out.jsonl",
        "--best",
        "best",
        "--report",
        "r.json",
        "--save-weights",
        "w.json",
    ]
    done = rescore(
        "l.jsonl", "--lm", "ngram:lm.arpa", "--folds", "4", "--no-bagging", *outputs
    )
    assert done.returncode == 0, done.stderr
    ranked = {
        nbest.id: nbest.hypotheses[0].text
        for nbest in formats.read([tmp_path / "out.jsonl"])
    }
    best = dict(
        line.split(" ", 1) for line in (tmp_path / "best").read_text().splitlines()
    )
    assert ranked == best
    again = rescore(
        "rerank", "out.jsonl", "--weights", "w.json", "--report", "again.json"
    )
    assert "all lists" in again.stdout and "4 folds by" not in again.stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert (
        report["choice"]["tuning"]["value"] == report["metrics"][0]["reranked"]
        and len(report["choice"]["tuning"]["of_folds"]) == 4
    )
    assert "weights of each fold, tuned on the other folds: ngram" in done.stdout


def test_weights_of_these_lists_say_that_they_flatter(tmp_path: Path) -> None:
    lists = formats.read([write_lines(tmp_path / "l.jsonl", noise(6, 5))])
    weights = tune_weights(
        ErrorRate(), Dataset.of(lists), ["tta"], TuningOptions(bagging=False)
    )
    assert (
        outlook_of(ErrorRate(), lists, weights).flatters
        and not outlook_of(ErrorRate(), lists[1:], weights).flatters
    )
    assert "tuned on these very lists" in show(analysed(ErrorRate(), lists, weights))


def test_forced_weights_of_these_lists_say_that_they_flatter(tmp_path: Path) -> None:
    lists = formats.read([write_lines(tmp_path / "l.jsonl", noise(6, 5))])
    weights = tune_weights(
        ErrorRate(), Dataset.of(lists), ["tta"], TuningOptions(bagging=False)
    )
    columns = {
        name: Column("tta", fingerprint, "sum", "float32")
        for name, fingerprint in (("tta", "0"), ("now", "1"))
    }
    lists = [
        replace(nbest, header=Header(records={"tta": columns["now"]}))
        for nbest in lists
    ]
    tuning = replace(weights.tuning, columns={"tta": columns["tta"]})
    forced = suited(replace(weights, tuning=tuning), lists, force=True)
    assert forced.tuning.forced and forced.tuning.signature.endswith(",forced")
    assert outlook_of(ErrorRate(), lists, forced).flatters


def test_what_may_not_win_is_no_possible_gain() -> None:
    def new(text: str) -> Hypothesis:
        return Hypothesis(
            text, {"s2s": 0.0, "lm": 5.0, CHANNEL: -1.0, EDITS: 1.0}, RESPELLED
        )

    old = {"lm": 0.0, CHANNEL: 0.0, EDITS: 0.0}
    lists = [
        NbestList(
            str(index),
            [Hypothesis("a x y", {"s2s": 0.0, **old}), new("a b y")],
            ("a b c",),
        )
        for index in range(12)
    ]
    shown = outlook_of(ErrorRate(), lists, Weights({"s2s": 0.5, "lm": 0.5}))
    assert shown.oracle == pytest.approx(100 / 3) and shown.share == pytest.approx(1.0)
    # Where tuning refused respelling, what may not win is no possible gain.
    off = outlook_of(
        ErrorRate(),
        lists,
        Weights({"s2s": 0.5, "lm": 0.5}, excluded=frozenset({RESPELLED})),
    )
    assert off.oracle == off.first_pass == pytest.approx(200 / 3)


def test_the_true_reason_of_a_weight_of_zero(rescore: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "dev.jsonl", noise(60, 1))
    done = rescore("tune", "dev.jsonl", "-o", "w.json")
    assert done.returncode == 0
    weights = json.loads((tmp_path / "w.json").read_text())
    unproven = weights["tuning"]["unproven"]
    lists = formats.read([tmp_path / "dev.jsonl"])
    assert weights["weights"]["tta"] == 0 < unproven["weights"]["tta"]
    # The interval is of the very weights that are named, and includes 0: test, interval
    # and sentence are one.
    assert package.evaluate(
        lists, unproven["weights"]["tta"]
    ).reranked == pytest.approx(unproven["value"])
    gain = weights["tuning"]["first_pass"] - unproven["value"]
    assert unproven["low"] <= 0 <= unproven["high"] and unproven["low"] + unproven[
        "high"
    ] == pytest.approx(2 * gain)
    shown = rescore("rerank", "dev.jsonl", "--weights", "w.json", "--report", "r.json")
    assert shown.returncode == 0
    results = package.evaluate(lists, Weights.load(tmp_path / "w.json"))
    before, tested = (
        weights["tuning"]["first_pass"],
        f"{unproven['value']:.2f} with the tested weights (tta",
    )
    reason = (
        f"tta does not help: WER on dev.jsonl is {before:.2f} for the first pass,"
        f" {tested}"
    )
    assert gain < 0 and reason in done.stderr
    assert reason in render(results)
    assert reason in page(
        results, ErrorRate(), lists, [nbest.hypotheses[0].text for nbest in lists]
    )
    chance = Tuning(TunedBy.DEV, "d", 1, value=5.0, first_pass=5.0)
    chance = replace(chance, unproven=Unproven({"tta": 0.2}, 4.9, -0.0, 0.2))
    by_chance = replace(results, choice=replace(results.choice, tuning=chance))
    told = (
        "WER on d is 5.00 for the first pass, 4.90 with the tested weights (tta 0.2);"
        " the gain of 0.10 points may be "
    )
    assert told in render(by_chance)
    assert "0.00 to 0.20, includes 0; tune on more lists" in render(by_chance)
    assert "-0.00" not in render(by_chance)
    none = replace(results.choice, tuning=replace(chance, unproven=None))
    assert "no weight above 0 is better" in render(replace(results, choice=none))


def test_weights_of_another_model(rescore: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "dev.jsonl", noise(30, 1, 3.0))
    write_lines(tmp_path / "test.jsonl", noise(30, 2, 3.0), fingerprint="cd" * 32)
    assert rescore("tune", "dev.jsonl", "-o", "w.json").returncode == 0
    for command in (
        ("rerank", "test.jsonl", "-o", "out.jsonl"),
        ("rerank", "test.jsonl", "--report", "r.json"),
        ("analyse", "test.jsonl"),
        ("confidence", "test.jsonl", "-o", "c.jsonl"),
    ):
        done = rescore(*command, "--weights", "w.json")
        assert_one_line_error(
            done, "column tta comes from tta@cdcd", "tta@abab", "--force-weights"
        )
        done = rescore(*command, "--weights", "w.json", "--force-weights")
        assert done.returncode == 0, done.stderr
    assert ",forced|" in json.loads((tmp_path / "r.json").read_text())["signature"]
    lists, weights = (
        formats.read([tmp_path / "test.jsonl"]),
        Weights.load(tmp_path / "w.json"),
    )
    with pytest.raises(UserError, match="tuned on scores"):
        package.evaluate(lists, weights)
    # Another precision of the same model is no other model; and what is not recorded is
    # taken as it is.
    write_lines(tmp_path / "bf16.jsonl", noise(30, 2, 3.0), precision="bf16")
    assert rescore("rerank", "bf16.jsonl", "--weights", "w.json").returncode == 0
    (tmp_path / "bare.jsonl").write_text(
        "".join(json.dumps(entry) + "\n" for entry in noise(30, 2))
    )
    assert rescore("rerank", "bare.jsonl", "--weights", "w.json").returncode == 0


def figures(
    name: str, first_pass: float, reranked: float, p_value: float
) -> MetricResult:
    return MetricResult(
        name,
        name == "BLEU",
        first_pass,
        0.0,
        reranked,
        p_value,
        {},
        {},
        {},
        "",
        Conditions({}),
    )


def test_a_metric_that_is_worse_gets_one_line() -> None:
    (line,) = worse(figures("CER", 1.31, 1.42, 0.0001))
    assert line.startswith(
        "CER is significantly worse than the first pass: 1.31 -> 1.42, p = 0.0001"
    )
    assert "--metric cer" in line and list(worse(figures("BLEU", 30.0, 29.0, 0.01)))
    (line,) = worse(figures("CER", 1.31, 1.42, 0.0001), is_objective=True)
    assert "dev and test disagree" in line and "--metric" not in line
    assert "whose references no model has read in training" in line
    for fine in (
        ("CER", 1.42, 1.31, 0.001),
        ("CER", 1.31, 1.42, 0.2),
        ("BLEU", 29.0, 30.0, 0.001),
    ):
        assert not list(worse(figures(*fine)))


def test_a_small_change_keeps_its_sign() -> None:
    assert (
        gain(figures("WER", 43.06, 43.05, 0.9))
        == "WER -0.01, -0.02 % relative, p = 0.9000"
    )
    assert (
        gain(figures("WER", 20.0, 21.0, 0.9))
        == "WER +1.00, +5.0 % relative, p = 0.9000"
    )


def test_outputs_for_other_references_are_not_compared(
    rescore: Run, tmp_path: Path
) -> None:
    first = noise(4, 1)
    other = [entry | {"ref": "q r"} for entry in first]
    for name, lists in (("a.jsonl", first), ("b.jsonl", other)):
        (tmp_path / name).write_text(
            "".join(json.dumps(entry) + "\n" for entry in lists)
        )
    done = rescore("eval", "a.jsonl", "b.jsonl")
    assert_one_line_error(
        done, "b.jsonl: utterance a000 has another reference than in a.jsonl"
    )
    assert rescore("eval", "a.jsonl", "a.jsonl").returncode == 0


def test_a_text_that_somebody_chose_has_no_weights_in_its_signature(
    rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "ref").write_text("u1 a b\nu2 c\n")
    (tmp_path / "mbr").write_text("u1 a b\nu2 d\n")
    done = rescore("eval", "mbr", "--ref", "ref")
    assert (
        done.returncode == 0
        and "w:s2s" not in done.stdout
        and "tuned:" not in done.stdout
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--best", "out.stm"), "stm is not written"),
        (("--best", "out.trn"), "cannot be written in this format"),
        (("--html", "out.html"), "--html needs references"),
        (("--best", "folder"), "is a folder"),
    ],
)
def test_outputs_are_checked_before_anything_is_computed(
    rescore: Run, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "folder").mkdir()
    lists = [{"id": "u 1", "hyps": [{"text": "a", "score": -1}]}]
    (tmp_path / "l.jsonl").write_text(json.dumps(lists[0]) + "\n")
    # The model is not there: whoever loads it says so.
    done = rescore("l.jsonl", "--lm", "ngram:no.arpa", "--weight", "0.5", *options)
    assert_one_line_error(done, message)


def test_check_compares_weights_by_what_they_choose(tmp_path: Path) -> None:
    lists = formats.read([write_lines(tmp_path / "l.jsonl", noise(30, 1, 3.0))])
    golden, near, far = (
        package.evaluate(lists, {"s2s": 1 - weight, "tta": weight})
        for weight in (0.5, 0.50001, 0.0)
    )
    assert golden.signature != near.signature.replace("0.49999", "0.5")
    assert {one.verdict for one in compare(golden, near, 0.05)} == {"same"}
    assert any(one.name == "weights" for one in compare(golden, far, 0.05))
    assert "w:s2s=0.33333|" in package.evaluate(lists, {"s2s": 1 / 3}).signature


def test_weights_of_another_channel_are_refused(rescore: Run, tmp_path: Path) -> None:
    lists = package.read(write_lines(tmp_path / "l.jsonl", noise(12, 1)))
    lists = [replace(nbest, header=Header()) for nbest in lists]
    for nbest in lists:
        for one in nbest.hypotheses:
            one.scores = {"s2s": one.scores["s2s"]}
    respelled = list(
        Respelling(2, find_lexicon(None, []), "shipped", None, None)(lists)
    )
    weights = tune_weights(
        ErrorRate(),
        Dataset.of(respelled),
        [],
        options=TuningOptions(("channel", "edits"), bagging=False),
    )
    record = respelled[0].header.records[CHANNEL]
    assert weights.tuning.columns == {CHANNEL: record}
    assert suited(weights, respelled) is weights
    for change, fits in (
        ({"norm": "lexicon:other"}, True),
        ({"fingerprint": "0" * 12}, False),
    ):
        columns = respelled[0].header.records | {CHANNEL: replace(record, **change)}
        others = [replace(nbest, header=Header(records=columns)) for nbest in respelled]
        if fits:
            assert suited(weights, others) is weights
            continue
        with pytest.raises(
            UserError,
            match=(
                f"column channel comes from the channel {'0' * 12}, but"
                " .*--force-weights"
            ),
        ):
            suited(weights, others)
        assert suited(weights, others, force=True).tuning.forced


def test_unproven_weights_are_read_again(tmp_path: Path) -> None:
    weights = Weights(
        {"s2s": 1.0, "tta": 0.0},
        tuning=Tuning(
            TunedBy.DEV,
            "dev",
            4,
            "abc",
            options=TuningOptions(("words",), negative=("in",), folds=3),
            unproven=Unproven({"tta": 0.2}, 4.4, -0.1, 0.5),
            of_folds=(Choice({"s2s": 0.5}, frozenset("r"), Decision("mbr", 2.0)),),
        ),
    )
    weights.save(tmp_path / "w.json")
    assert Weights.load(tmp_path / "w.json") == weights


def test_a_list_of_words_that_only_dev_lists_have(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("d\n")
    dev, test = (
        noise(12, 1),
        [entry | {"id": f"t{entry['id']}", "ref": "a b"} for entry in noise(12, 2)],
    )
    for name, lists in (("dev.jsonl", dev), ("test.jsonl", test)):
        (tmp_path / name).write_text(
            "".join(json.dumps(entry) + "\n" for entry in lists)
        )
    listed = ("--metric", "bwer", "--words", "words")
    done = rescore("test.jsonl", "--lm", "ngram:no.arpa", "--dev", "dev.jsonl", *listed)
    assert_one_line_error(done, "no word of the references is a word of this list")


def test_a_lexicon_without_words(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lexicon").write_text("0\n")
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(entry) + "\n" for entry in noise(4, 1))
    )
    done = rescore("rerank", "l.jsonl", "--respell", "2", "--lexicon", "lexicon")
    assert_one_line_error(done, "lexicon: has no words")


def test_confidences_need_the_columns_of_the_weights(
    rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(entry) + "\n" for entry in noise(4, 1))
    )
    column = Column("ngram", "ab" * 32, "sum", "float32")
    tuning = Tuning(columns={"ngram": column})
    Weights({"s2s": 0.5, "ngram": 0.5}, tuning=tuning).save(tmp_path / "w.json")
    done = rescore("confidence", "l.jsonl", "--weights", "w.json", "-o", "c.jsonl")
    assert_one_line_error(
        done, "no score 'ngram'", "`rescore score LISTS --lm MODEL -o FILE` (or"
    )


FAIRSEQ = (
    "S-0\tq\nT-0\tx y\nH-0\t-0.5\tx y\nP-0\t-0.5 -0.5\nH-0\t-0.7\tx z\nP-0\t-0.5 -0.5\n"
)


def test_a_folder_of_fairseq_logs_is_an_output(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "generate-test.txt.log"
    log.write_text(FAIRSEQ)
    (tmp_path / "ref").write_text("x y\n")
    assert formats.parts_in(tmp_path / "logs", "fairseq") == [log]
    for more in ((), ("--ref", "ref")):
        done = rescore("eval", "logs", "--metric", "wer", *more)
        assert done.returncode == 0 and done.stdout.splitlines()[1].split()[:2] == [
            "logs",
            "0.00",
        ], done.stderr


def test_models_of_one_kind_are_called_after_their_folders(
    rescore: Run, tmp_path: Path
) -> None:
    for folder in ("news", "talks", "mean"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lm.arpa").write_text(ARPA)
        (tmp_path / f"{folder}.arpa").symlink_to(tmp_path / folder / "lm.arpa")
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(entry) + "\n" for entry in noise(4, 1))
    )
    lms = [
        option
        for name in ("news", "talks", "mean")
        for option in ("--lm", f"ngram:{name}.arpa")
    ]
    assert rescore("score", "l.jsonl", *lms, "-o", "s.jsonl").returncode == 0
    scores = formats.read([tmp_path / "s.jsonl"])[0].hypotheses[0].scores
    assert list(scores) == ["s2s", "tta", "ngram", "ngram.talks", "ngram.2"]


def test_the_reason_of_a_weight_of_zero_with_folds(
    rescore: Run, tmp_path: Path
) -> None:
    """Its figures are of all lists; the table has the figures of the folds."""
    write_lines(tmp_path / "l.jsonl", noise(60, 1))
    done = rescore("run", "l.jsonl", "--folds", "5")
    assert done.returncode == 0 and "WER on all lists is " in done.stdout, done.stdout
    assert "lambda: tta 0 (tuned on all lists, for use on other lists)" in done.stdout


def test_references_that_nothing_reads_are_told(rescore: Run, tmp_path: Path) -> None:
    two = ROOT / "data" / "test.json"
    quiet = ("rerank", two, "--ref", two, "--best", tmp_path / "best.trn")
    told = "--ref is not used: give --report, --table or --details"
    done = rescore(*quiet)
    assert done.returncode == 0 and told in done.stderr
    done = rescore(*quiet, "--report", tmp_path / "report.json")
    assert done.returncode == 0 and told not in done.stderr


def test_a_detokeniser_that_is_absent_is_told_at_once(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    absent = tmp_path / "absent.jsonl"  # is not read before
    done = rescore("rerank", absent, "--best", "best.txt", "--detokenize", "en")
    assert_one_line_error(done, "--detokenize", "needs sacremoses", installed_by("mt"))
