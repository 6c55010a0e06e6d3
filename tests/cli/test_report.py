"""Results files, tables of many, and the gate; the project's own demo figures go
through it.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from rescore.lms import checkpoint
from rescore.reports.files import schema
from tests.conftest import (
    ROOT,
    Run,
    assert_one_line_error,
    read_report,
    some_lists,
    write_json,
)
from tests.lms.test_ngram import ARPA


def rated(
    figures: dict[str, Any], rate: float, choice: str = "reranked", **values: float
) -> None:
    """Give a metric another figure of one choice of texts, with its counts."""
    counts = {
        "substitutions": 0.3 * rate,
        "deletions": 0,
        "insertions": 0,
        "ref_words": 30,
    }
    figures |= {choice: rate, "counts": figures["counts"] | {choice: counts}, **values}


@pytest.fixture
def results(rescore: Run, tmp_path: Path) -> Path:
    """A results file of a small run."""
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    table = {
        f"s-{index}": {
            "ref": "the old clock",
            "hyp_1": {"score": -1, "text": "the owl clock"},
            "hyp_2": {
                "score": -1.5,
                "text": "the old clock" if index % 2 else "the old",
            },
        }
        for index in range(10)
    }
    write_json(tmp_path / "lists.json", table)
    # Lists that weights were tuned on have no p-value.
    write_json(tmp_path / "dev.json", dict(list(table.items())[:8]))
    done = rescore(
        "lists.json",
        "--lm",
        "ngram:lm.arpa",
        "--dev",
        "dev.json",
        "--report",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    return tmp_path / "r.json"


def test_results_follow_the_schema(rescore: Run, results: Path, tmp_path: Path) -> None:
    written = json.loads(results.read_text())
    jsonschema.validate(written, schema())
    assert set(schema()["properties"]) == set(written)  # nothing is left undescribed
    assert (written["dataset"], written["system"]) == ("lists", "ngram")
    assert written["metrics"][0]["sentence_errors"] == {
        "first_pass": 10,
        "oracle": 5,
        "reranked": 5,
    }
    write_json(tmp_path / "plain.json", {"u": {"hyp_1": {"score": -1, "text": "the"}}})
    done = rescore(
        "plain.json", "--lm", "ngram:lm.arpa", "--weight", "0.3", "--report", "p.json"
    )
    assert done.returncode == 0, done.stderr
    jsonschema.validate(json.loads((tmp_path / "p.json").read_text()), schema())
    assert_one_line_error(rescore("report", "p.json"), "p.json: has no figures")


def test_a_table_of_many(rescore: Run, results: Path, tmp_path: Path) -> None:
    other = json.loads(results.read_text()) | {"dataset": "far"}
    write_json(tmp_path / "far.json", other)
    done = rescore("report", "r.json", "far.json", "-o", "RESULTS.md")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "RESULTS.md").read_text().splitlines()
    assert (
        lines[0] == "| dataset | Snt | Wrd | Corr | Sub | Del | Ins | Err | S.Err | p |"
    )
    assert (
        lines[2]
        == "| lists, first pass | 10 | 30 | 66.67 | 33.33 | 0.00 | 0.00 | 33.33 |"
        " 100.00 |  |"
    )
    assert (
        lines[3]
        == "| lists, ngram | 10 | 30 | 83.33 | 0.00 | 16.67 | 0.00 | 16.67 | 50.00 |"
        " 0.0637 |"
    )
    assert [line.split(" |")[0] for line in lines[4:6]] == [
        "| far, first pass",
        "| far, ngram",
    ]
    table = rescore(
        "report", "r.json", "far.json", "--layout", "paper", "--style", "csv"
    ).stdout
    assert table.splitlines() == [
        "method,lists WER,far WER",
        "first pass,33.33,33.33",
        "oracle,16.67,16.67",
        "ngram,16.67,16.67",
    ]
    assert r"\toprule" in rescore("report", "r.json", "--style", "latex").stdout
    better = json.loads(results.read_text()) | {"system": "T-TA"}
    rated(better["metrics"][0], 10.0, p_value=0.02)
    write_json(tmp_path / "better.json", better)
    both = ("report", "r.json", "better.json", "--layout", "paper", "--style")
    shown = rescore(*both, "latex").stdout
    assert r"T-TA & \textbf{10.00$^{\dagger}$} \\" in shown
    comment, rest = shown.split("\n", 1)
    assert comment == r"% needs \usepackage{booktabs}" and "%" not in rest
    note = r"{\footnotesize $^{\dagger}$ p $<$ 0.05 against the first pass\par}"
    assert note in shown
    assert "| T-TA | **10.00†** |" in rescore(*both, "markdown").stdout
    assert "ngram,16.67\nT-TA,10.00\n" in rescore(*both, "csv").stdout
    text = rescore(*both, "text").stdout
    assert "† p < 0.05 against the first pass\n" in text
    unmarked = "ngram: p >= 0.05 against the first pass where there is no mark\n"
    assert f"\n{unmarked}" in text
    marked = rescore("report", "better.json", "--layout", "paper").stdout
    assert "where there is no mark" not in marked
    rated(other["metrics"][0], 20.0, "first_pass")
    write_json(tmp_path / "twice.json", other | {"dataset": "lists"})
    done = rescore("report", "r.json", "twice.json", "--layout", "paper")
    assert_one_line_error(
        done, "lists WER: first pass is", "a name of its own with --dataset"
    )


def test_systems_of_one_name_are_told_apart(
    rescore: Run, results: Path, tmp_path: Path
) -> None:
    """The second system of a name has a number."""
    other = json.loads(results.read_text())
    rated(other["metrics"][0], 20.0)
    write_json(tmp_path / "other.json", other)
    table = rescore(
        "report", "r.json", "other.json", "--layout", "paper", "--style", "csv"
    ).stdout
    assert table.splitlines()[3:] == ["ngram,16.67", "ngram (2),20.00"]
    done = rescore("report", "r.json", "other.json", "--style", "csv")
    assert [line.split('"')[1] for line in done.stdout.splitlines()[1:]] == [
        "lists, first pass",
        "lists, ngram",
        "lists, ngram (2)",
    ]
    # A column of weight 0 tells systems apart.
    other["choice"]["weights"]["tta"] = 0.0
    other["columns"]["tta"] = dict(other["columns"]["ngram"], model="tta")
    for name in ("other.json", "third.json"):
        write_json(tmp_path / name, other)
    done = rescore("report", "r.json", "other.json", "third.json", "--style", "csv")
    assert [line.split('"')[1] for line in done.stdout.splitlines()[2:]] == [
        "lists, ngram",
        "lists, ngram (tta 0)",
        "lists, ngram (tta 0) (2)",
    ]
    done = rescore("report", "other.json", "r.json", "--style", "csv")
    assert [line.split('"')[1] for line in done.stdout.splitlines()[2:]] == [
        "lists, ngram (tta 0)",
        "lists, ngram",
    ]
    done = rescore("report", "other.json", "third.json", "--style", "csv")
    assert [line.split('"')[1] for line in done.stdout.splitlines()[2:]] == [
        "lists, ngram",
        "lists, ngram (2)",
    ]
    # Each set has one system of the name.
    write_json(tmp_path / "other.json", other | {"dataset": "far"})
    assert (
        "ngram ("
        not in rescore("report", "r.json", "other.json", "--layout", "paper").stdout
    )


def test_what_is_worse_is_marked(rescore: Run, results: Path, tmp_path: Path) -> None:
    """A difference that may be chance is not called worse."""
    worse = json.loads(results.read_text()) | {"system": "bad"}
    rated(worse["metrics"][0], 40.0, p_value=0.3)
    write_json(tmp_path / "bad.json", worse)
    assert "worse" not in rescore("report", "bad.json").stdout
    assert "worse" not in rescore("report", "bad.json", "--layout", "paper").stdout
    worse["metrics"][0]["p_value"] = 0.001
    write_json(tmp_path / "bad.json", worse)
    assert "0.0010 worse" in rescore("report", "bad.json").stdout
    assert "40.00‡ worse" in rescore("report", "bad.json", "--layout", "paper").stdout
    assert (
        "40.00\n"
        in rescore("report", "bad.json", "--layout", "paper", "--style", "csv").stdout
    )


def test_what_is_no_results_file(rescore: Run, results: Path, tmp_path: Path) -> None:
    assert_one_line_error(rescore("report", "no.json"), "no.json: cannot be read")
    assert_one_line_error(
        rescore("report", "lists.json"),
        "lists.json: not a results file (its schema is None, ",
    )
    broken = json.loads(results.read_text())
    del broken["signature"]
    write_json(tmp_path / "broken.json", broken)
    assert_one_line_error(
        rescore("report", "broken.json"),
        "broken.json: object missing required field signature",
    )
    (tmp_path / "cut.json").write_text(results.read_text()[:100], encoding="utf-8")
    assert_one_line_error(
        rescore("check", "r.json", "--golden", "cut.json"),
        "cut.json: line",
        "not valid JSON",
    )
    write_json(
        tmp_path / "first.json",
        json.loads(results.read_text()) | {"schema": "rescore/results/2"},
    )
    assert_one_line_error(
        rescore("report", "first.json"), "give a file of `rescore run --report`"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda one: one["counts"].pop("oracle"),
            "WER: a figure or a count is missing; write it again",
        ),
        (lambda one: one["counts"].clear(), "WER: a figure or a count is missing"),
        (
            lambda one: one["counts"]["reranked"].pop("deletions"),
            "WER: a figure or a count is missing",
        ),
        (lambda one: one.pop("oracle"), "object missing required field oracle"),
        (lambda one: one.update(oracle=None), "oracle"),
        (lambda one: one.update(reranked=1e999), "WER: a figure or a count is missing"),
        (lambda one: one.pop("conditions"), "missing required field conditions"),
    ],
)
def test_figures_that_lack_something(
    rescore: Run,
    results: Path,
    change: Callable[[dict[str, Any]], object],
    message: str,
) -> None:
    shutil.copy(results, results.parent / "golden.json")
    written = json.loads(results.read_text())
    change(written["metrics"][0])
    write_json(results, written)
    for arguments in (["report", "r.json"], ["report", "r.json", "--layout", "paper"]):
        assert_one_line_error(rescore(*arguments), "r.json", message)
    assert_one_line_error(
        rescore("check", "r.json", "--golden", "golden.json"), "r.json", message
    )
    assert_one_line_error(
        rescore("check", "golden.json", "--golden", "r.json"), "r.json", message
    )


def test_tables_of_translations(rescore: Run, tmp_path: Path) -> None:
    entries = [
        {
            "id": f"{index}",
            "src": "die alte Uhr geht heute noch",
            "ref": "the old clock still goes today",
            "hyps": [
                {"text": "the owl clock still goes today", "score": -1},
                {"text": "the old clock goes today", "score": -2},
            ],
        }
        for index in range(4)
    ]
    (tmp_path / "mt.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in entries), encoding="utf-8"
    )
    metrics = ["--metric", "bleu", "--metric", "chrf", "--metric", "ter"]
    done = rescore(
        "mt.jsonl",
        *metrics,
        "--report",
        "mt.json",
        "--table",
        "t.md",
        "--system",
        "none",
    )
    assert done.returncode == 0, done.stderr
    table = rescore("report", "mt.json", "--style", "markdown").stdout
    found = {
        one["metric"]: one
        for one in json.loads((tmp_path / "mt.json").read_text())["metrics"]
    }
    assert found.keys() == {"BLEU", "chrF", "TER"}
    for name, one in found.items():
        assert f"### {name}\n\n| dataset | Snt | {name} | 95 % CI |" in table
        assert (
            f"| mt, first pass | 4 | {one['first_pass']:.2f} | " in table
            and f"`{one['signature']}`" in table
        )
        assert (
            f"| mt, none | 4 | {one['reranked']:.2f} | "
            in (tmp_path / "t.md").read_text()
        )
    rows = rescore(
        "report", "mt.json", "--layout", "paper", "--style", "csv"
    ).stdout.splitlines()
    assert rows[0] == "method,mt BLEU,mt chrF,mt TER"
    assert rows[1] == ",".join(
        ["first pass", *(f"{one['first_pass']:.2f}" for one in found.values())]
    )


def test_an_empty_reference(rescore: Run, tmp_path: Path) -> None:
    """Half the bootstrap samples of two lists have no word or only them: those without
    are left out.
    """
    table = {
        "a": {
            "ref": "",
            "hyp_1": {"score": -1, "text": "the"},
            "hyp_2": {"score": -2, "text": ""},
        },
        "b": {"ref": "the old clock", "hyp_1": {"score": -1, "text": "the old clock"}},
    }
    write_json(tmp_path / "e.json", table)
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    done = rescore(
        "e.json",
        "--lm",
        "ngram:lm.arpa",
        "--weight",
        "0.9",
        "--report",
        "e.r.json",
        "--html",
        "e.html",
    )
    assert done.returncode == 0, done.stderr
    assert read_report(tmp_path / "e.r.json")["intervals"][
        "first_pass"
    ] == pytest.approx([0.0, 100 / 3])
    assert "0.00-33.33" in done.stdout and rescore("report", "e.r.json").returncode == 0
    done = rescore("eval", "e.json", "e.json", "--report", "-")
    assert done.returncode == 0 and json.loads(done.stdout)["systems"][0][
        "high"
    ] == pytest.approx(100 / 3)


def test_check(rescore: Run, results: Path, tmp_path: Path) -> None:
    absent = rescore("check", "r.json", "--golden", "golden.json")
    assert_one_line_error(absent, "golden.json", "No such file")
    shutil.copy(results, tmp_path / "golden.json")
    same = rescore("check", "r.json", "--golden", "golden.json")
    assert same.returncode == 0 and same.stdout.endswith("passed\n")

    def changed(rate: float | None = None, **values: object) -> Path:
        written = json.loads(results.read_text()) | values
        if rate is not None:
            rated(written["metrics"][0], rate)
        return write_json(tmp_path / "now.json", written)

    done = rescore("check", changed(rate=16.8), "--golden", "golden.json")
    assert (
        done.returncode == 1
        and "FAILED: reranked" in done.stdout
        and "+0.13" in done.stdout
    )
    tolerated = rescore(
        "check", "now.json", "--golden", "golden.json", "--tolerance", "0.2"
    )
    assert tolerated.returncode == 0 and "tolerated" in tolerated.stdout
    better = rescore("check", changed(rate=10.0), "--golden", "golden.json")
    assert (
        better.returncode == 0
        and "better than golden in reranked: copy it to the golden file"
        in better.stdout
    )
    assert (
        rescore("check", changed(utterances=9), "--golden", "golden.json").returncode
        == 1
    )
    choice = json.loads(results.read_text())["choice"]
    choice["tuning"]["value"] = 99.0
    assert (
        rescore("check", changed(choice=choice), "--golden", "golden.json").returncode
        == 1
    )
    choice["tuning"]["lists"] = 3
    done = rescore(
        "check",
        changed(choice=choice),
        "--golden",
        "golden.json",
    )
    assert done.returncode == 0 and "other dev lists" in done.stdout
    choice["tuning"] |= {"value": None, "first_pass": None}
    done = rescore("check", changed(choice=choice), "--golden", "golden.json")
    assert done.returncode == 0 and re.search(
        r"dev.reranked +[\d.]+ +not tuned +changed +no dev lists", done.stdout
    )
    now = json.loads(results.read_text())
    now["metrics"][0]["conditions"]["settings"]["case"] = "mixed"
    done = rescore("check", changed(metrics=now["metrics"]), "--golden", "golden.json")
    assert done.returncode == 1 and "FAILED: settings" in done.stdout
    now["columns"]["ngram"]["fingerprint"] = "0" * 64
    done = rescore("check", changed(columns=now["columns"]), "--golden", "golden.json")
    assert (
        done.returncode == 0 and "columns" in done.stdout and "changed" in done.stdout
    )


def test_check_compares_the_settings_of_all_metrics(
    rescore: Run, results: Path, tmp_path: Path
) -> None:
    """Also of lists of words: their content is a setting."""
    golden = json.loads(results.read_text())
    listed = json.loads(results.read_text())["metrics"][0] | {"metric": "B-WER"}
    for counts in listed["counts"].values():
        counts["listed_words"] = counts.pop("ref_words")
    listed["conditions"]["settings"]["words"] = "1234"
    golden["metrics"].append(listed)
    write_json(tmp_path / "golden.json", golden)
    assert rescore("check", "golden.json", "--golden", "golden.json").returncode == 0
    golden["metrics"][1]["conditions"]["settings"]["words"] = "5678"
    write_json(tmp_path / "now.json", golden)
    done = rescore("check", "now.json", "--golden", "golden.json")
    assert done.returncode == 1 and "FAILED: B-WER.settings" in done.stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


def run_demo(rescore: Run, lm: str, report: Path, dev: Path, test: Path) -> None:
    done = rescore(test, "--lm", lm, "--dev", dev, "--report", report)
    assert done.returncode == 0, done.stderr


def test_a_perturbed_model_fails_the_gate(rescore: Run, demo: Path) -> None:
    """On lists with which the whole model passes."""
    lists = [some_lists(demo, name, 40) for name in ("dev", "test")]
    small = ROOT / "models" / "tta-small"
    run_demo(rescore, f"tta:{small}", demo / "whole.json", *lists)
    folder = Path(shutil.copytree(small, demo / "tta"))
    network, tokenizer = checkpoint.load(folder)
    with torch.no_grad():
        network.get_parameter("blocks.1.attention.value.weight").mul_(-1)
    checkpoint.save(folder, network, tokenizer)
    run_demo(rescore, f"tta:{folder}", demo / "perturbed.json", *lists)
    assert (
        rescore(
            "check", demo / "whole.json", "--golden", demo / "whole.json"
        ).returncode
        == 0
    )
    done = rescore("check", demo / "perturbed.json", "--golden", demo / "whole.json")
    assert done.returncode == 1 and "reranked" in done.stdout.splitlines()[-1]


def test_files_of_other_commands_are_told_apart(
    rescore: Run, results: Path, tmp_path: Path
) -> None:
    assert rescore("eval", "lists.json", "--report", "e.json").returncode == 0
    done = rescore("check", "e.json", "--golden", results)
    assert_one_line_error(
        done,
        "give a file of `rescore run --report` or `rescore rerank --report`",
    )


def test_outputs_of_eval_are_in_the_tables(rescore: Run, tmp_path: Path) -> None:
    """The first output stands for the first pass."""
    (tmp_path / "ref").write_text("u1 a b c\nu2 a b\n")
    (tmp_path / "one").write_text("u1 a b c\nu2 a c\n")
    (tmp_path / "two").write_text("u1 a c\nu2 a\n")
    metrics = ("--metric", "wer", "--metric", "cer")
    measured = rescore(
        "eval", "one", "two", "--ref", "ref", *metrics, "--report", "set.json"
    )
    table = rescore("report", "set.json", "--layout", "paper", "--style", "csv").stdout
    assert table.splitlines() == [
        "method,set WER,set CER",
        "one,20.00,12.50",
        "two,40.00,50.00",
    ]
    table = rescore("report", "set.json").stdout
    errors = r"^set, one +2 +5 +80\.00 +20\.00 +0\.00 +0\.00 +20\.00 +50\.00$"
    assert re.search(errors, table, re.MULTILINE)
    p_values = re.compile(r"two .* ([\d.]+)$", re.MULTILINE)
    assert p_values.findall(table) == p_values.findall(measured.stdout)
    assert table.count("sig:2") == len(metrics) // 2
    rescore("eval", "two", "--ref", "ref", "--report", "alone.json")
    table = rescore("report", "alone.json").stdout
    assert "alone, two" in table and "alone, one" not in table


def test_an_output_that_eval_got_twice_is_one_row(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("u1 a b c\nu2 a b\n")
    (tmp_path / "one").write_text("u1 a b c\nu2 a c\n")
    rescore("eval", "one", "one", "--ref", "ref", "--report", "set.json")
    done = rescore("report", "set.json", "--layout", "paper", "--style", "csv")
    assert done.stdout.splitlines() == ["method,set WER", "one,20.00"]
