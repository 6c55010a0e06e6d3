"""Several language models at the command line: run, tune, compare; and what `score`
says of tokens and of text.
"""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from rescore import api
from rescore.parts import STYLES
from rescore.reports.check import differences
from rescore.reports.comparison import Compared, Comparison, render
from rescore.reports.figures import Shown
from rescore.reports.markup import parted_signatures
from rescore.signature import parse
from tests.conftest import (
    SENTENCES,
    Run,
    assert_one_line_error,
    read_report,
    write_json,
)
from tests.lms.test_ngram import ARPA


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    words = ["the", "old", "clock", "owl"]
    table = {}
    for index in range(12):
        texts = [
            " ".join(words[(index + rank + place) % 4] for place in range(3 + rank % 2))
            for rank in range(4)
        ]
        hypotheses = {
            f"hyp_{rank}": {"score": -rank, "text": text}
            for rank, text in enumerate(texts, 1)
        }
        table[f"u{index}"] = {"ref": texts[index % 4], **hypotheses}
    return write_json(tmp_path / "lists.json", table)


@pytest.fixture
def arpa(tmp_path: Path) -> str:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    return "ngram:lm.arpa"


def report(tmp_path: Path) -> dict[str, object]:
    return read_report(tmp_path / "r.json")


def test_run_with_several_models(
    rescore: Run, lists: Path, arpa: str, models: dict[str, Path], tmp_path: Path
) -> None:
    tta = f"tta:{models['tta']}"
    done = rescore(
        lists,
        "--lm",
        tta,
        "--lm",
        arpa,
        "--dev",
        lists,
        "--report",
        "r.json",
        "-o",
        "out.jsonl",
    )
    assert done.returncode == 0, done.stderr
    both = report(tmp_path)
    assert set(both["weights"]) - {"words"} == {"s2s", "tta", "ngram"}
    for part in ("|lm:tta=tta@", "|lm:ngram=ngram@", "|w:ngram="):
        assert part in both["signature"]
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[1])["hyps"][0][
        "scores"
    ].keys() == {
        "s2s",
        "tta",
        "tokens",
        "ngram",
    }
    for lm in (tta, arpa):
        assert (
            rescore(lists, "--lm", lm, "--dev", lists, "--report", "r.json").returncode
            == 0
        )
        assert both["tuning"]["value"] <= report(tmp_path)["tuning"]["value"]
    # The stages find the same.
    assert (
        rescore(
            "score", lists, "--lm", tta, "--lm", arpa, "-o", "scored.jsonl"
        ).returncode
        == 0
    )
    tuned = rescore("tune", "scored.jsonl")
    assert json.loads(tuned.stdout)["weights"] == pytest.approx(both["weights"])
    one = json.loads(rescore("tune", "scored.jsonl", "--column", "ngram").stdout)
    assert one["weights"].keys() == {"s2s", "ngram"}
    assert one["tuning"]["columns"].keys() == {"ngram"}


def test_given_weights(
    rescore: Run, lists: Path, arpa: str, models: dict[str, Path], tmp_path: Path
) -> None:
    both = [
        lists,
        "--lm",
        f"unilm:{models['unilm']}",
        "--lm",
        f"unilm-bw:{models['unilm-bw']}",
    ]
    done = rescore(
        *both,
        "--weight",
        "0.2",
        "--weight",
        "0.3",
        "--word-bonus",
        "1.5",
        "--report",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    assert report(tmp_path)["weights"] == pytest.approx(
        {"s2s": 0.5, "unilm": 0.2, "unilm-bw": 0.3, "words": 1.5}
    )
    assert "+1.5 a word" in done.stdout
    assert_one_line_error(rescore(*both), "several --lm need --dev lists")
    assert_one_line_error(
        rescore(lists, "--weight", "0.2"),
        "1 --weight for no model; give one for each --lm",
    )
    assert_one_line_error(
        rescore(*both, "--weight", "0.2"),
        f"1 --weight for {', '.join(both[2::2])}; give one for each --lm",
    )
    assert_one_line_error(
        rescore(*both, "--weight", "0.7", "--weight", "0.7"), "add up to 1.4"
    )
    assert_one_line_error(
        rescore(lists, "--lm", arpa, "--weight", "0.2", "--word-bonus", "x"),
        "neither tune nor off",
    )


def test_the_same_kind_twice_gets_two_columns(
    rescore: Run, lists: Path, models: dict[str, Path]
) -> None:
    lm = f"tta:{models['tta']}"
    done = rescore("score", lists, "--lm", lm, "--lm", lm)
    record, first = map(json.loads, done.stdout.splitlines()[:2])
    assert first["hyps"][0]["scores"].keys() == {"tta", "tokens", "tta.2"}
    # a fingerprint is of the content, not of the place
    assert record["columns"]["tta"] == record["columns"]["tta.2"]


@pytest.mark.usefixtures("told_what_is_read")
def test_a_model_with_a_path_is_told_with_its_column(
    rescore: Run, lists: Path, arpa: str, models: dict[str, Path], tmp_path: Path
) -> None:
    """Signatures have the hash; the line has the path, too."""
    done = rescore(lists, "--lm", arpa, "--weight", "0.5")
    told = re.search(
        r"the column ngram has the scores of ngram:lm.arpa \((\w+)\)", done.stderr
    )
    assert told and f"lm:ngram=ngram@{told[1]}," in done.stdout
    lm = f"tta:{models['tta']}"
    done = rescore("score", lists, "--lm", lm, "--lm", lm, "-o", "s.jsonl")
    for column in ("tta", "tta.2"):
        assert done.stderr.count(f"the column {column} has the scores of {lm} (") == 1
    for lm in ("tta-small", "tta"):
        assert "the column" not in rescore("score", lists, "--lm", lm).stderr


def test_compare(
    rescore: Run, lists: Path, arpa: str, models: dict[str, Path], tmp_path: Path
) -> None:
    lms = [
        "--lm",
        f"bilm:{models['bilm']}",
        "--lm",
        f"bilm:intact:{models['bilm']}",
        "--lm",
        arpa,
    ]
    outputs = [
        item
        for ending in ("md", "csv", "tex", "json")
        for item in ("-o", f"t.{ending}")
    ]
    done = rescore("compare", lists, "--dev", lists, *lms, *outputs)
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "t.json").read_text())
    rows = {row["name"]: row for row in table["rows"]}
    assert list(rows) == [
        "bilm",
        "bilm:intact",
        "ngram",
        "bilm + ngram",
    ]
    assert rows["bilm + ngram"]["dev"] <= min(rows["bilm"]["dev"], rows["ngram"]["dev"])
    for row in rows.values():
        # dev and test are the same lists here
        assert row["value"] == row["dev"] >= table["oracle"]
        assert row["gain"] == pytest.approx(
            100 * (1 - row["value"] / table["first_pass"])
        )
        assert 0 < row["p_value"] <= 1 and row["signature"].startswith("WER|")
    # Each row is what `run` finds.
    assert (
        rescore(lists, "--lm", arpa, "--dev", lists, "--report", "r.json").returncode
        == 0
    )
    single = report(tmp_path)
    assert single["reranked"] == rows["ngram"]["value"]
    ours, theirs = (
        parse(one) for one in (single["signature"], rows["ngram"]["signature"])
    )
    assert list(differences(ours, theirs)) == ["test"]
    lines = list(csv.reader((tmp_path / "t.csv").open()))
    assert [line[0] for line in lines] == ["", "oracle", "first pass", *rows]
    assert all(len(line) == len(lines[0]) for line in lines)
    markdown = (tmp_path / "t.md").read_text()
    assert markdown.count("\n| ") == len(lines) and all(
        part in markdown
        for row in rows.values()
        for part in row["signature"].split("|")
    )
    latex = (tmp_path / "t.tex").read_text()
    assert (
        latex.count(r" \\") == len(lines)
        and "%\n" not in latex
        and r"\footnotesize weights tuned on" in latex
    )
    with_bonus = {name for name, row in rows.items() if "words" in row["weights"]}
    assert with_bonus == {"bilm + ngram"}
    assert_one_line_error(
        rescore("compare", lists, "--dev", lists, *lms, "-o", "t.doc"), "t.doc", ".md"
    )


def test_rows_are_compared_with_another_row(
    rescore: Run, lists: Path, arpa: str, models: dict[str, Path], tmp_path: Path
) -> None:
    """A row has the same p-value against a row as the row has against it, and the rows
    above are the first pass and the rows before.
    """
    lms = ("--lm", f"bilm:{models['bilm']}", "--lm", arpa)

    def table(*against: str) -> dict[str, Any]:
        done = rescore("compare", lists, "--dev", lists, *lms, *against, "-o", "t.json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads((tmp_path / "t.json").read_text())
        return found

    usual, model, above = (
        table(*line) for line in ((), ("--against", "ngram"), ("--against", "above"))
    )
    first, other, both, *_ = usual["rows"]
    assert usual["first_p_value"] is None and first["against"] == "first pass"
    assert model["first_p_value"] == other["p_value"]
    against = {row["name"]: (row["against"], row["p_value"]) for row in model["rows"]}
    assert against["ngram"] == ("ngram", None)
    others = [value for name, value in against.items() if name != "ngram"]
    assert {name for name, _ in others} == {"ngram"}
    rows = above["rows"]
    names = ["first pass", *(row["name"] for row in rows)]
    assert [row["against"] for row in rows] == names[:-1]
    assert rows[0]["p_value"] == first["p_value"]
    assert rows[1]["p_value"] == against["bilm"][1]
    assert rows[2]["p_value"] == against[both["name"]][1]
    done = rescore("compare", lists, "--dev", lists, *lms, "--against", "b")
    assert done.returncode == 2
    assert "--against b: no such row; the rows are first pass, bilm," in done.stderr


def test_compare_translations(
    rescore: Run, lists: Path, arpa: str, models: dict[str, Path], tmp_path: Path
) -> None:
    """chrF beside BLEU, and minimum Bayes risk without a model."""
    table = {
        name: entry | {"src": "x"}
        for name, entry in json.loads(lists.read_text(encoding="utf-8")).items()
    }
    write_json(tmp_path / "mt.json", table)
    lms = ("--lm", f"tta:{models['tta']}", "--lm", arpa)
    compare = (
        "compare",
        "mt.json",
        "--dev",
        "mt.json",
        *lms,
        "--no-word-bonus",
        "-o",
        "t.json",
        "-o",
        "t.csv",
    )
    done = rescore(*compare, "--decide", "mbr")
    assert done.returncode == 0, done.stderr
    table = json.loads((tmp_path / "t.json").read_text())
    rows = {row["name"]: row for row in table["rows"]}
    assert list(rows) == [
        f"{name}MBR"
        for name in (
            "",
            "tta, ",
            "ngram, ",
            "tta + ngram, ",
        )
    ]
    assert table["metric"] == "BLEU" and table["others"].keys() == {"chrF"}
    assert [row["against"] for row in rows.values()] == ["first pass"] * 4
    assert (
        rows["MBR"]["signature"].count("decide:mbr")
        and "lm:" not in rows["MBR"]["signature"]
    )
    assert "p against the first pass\n" in done.stdout
    assert (tmp_path / "t.csv").read_text().splitlines()[
        0
    ] == ",weight,dev BLEU,dev chrF,BLEU,chrF,relative gain %,p,hyp/s"
    assert (
        rescore("mt.json", "--dev", "mt.json", *lms, "--report", "r.json").returncode
        == 0
    )
    assert [one["metric"] for one in read_report(tmp_path / "r.json")["metrics"]] == [
        "BLEU",
        "chrF",
    ]
    assert rescore("mt.json", "--metric", "bleu", "--report", "r.json").returncode == 0
    assert [one["metric"] for one in read_report(tmp_path / "r.json")["metrics"]] == [
        "BLEU"
    ]


def test_compare_says_which_rows_are_worse() -> None:
    rows = [
        Compared(f"lm{value}", "WER", value, p_value=0.01, gain=10 * value - 100)
        for value in (9.0, 11.0)
    ]
    found = Comparison(
        "WER", False, "t", "d", 1, 2, 5.0, 5.0, 10.0, 10.0, "", rows=rows
    )
    table = render(found, "text")
    assert (
        re.search(r"-10\.0 +0\.0100", table)
        and re.search(r"\+10\.0 worse +0\.0100", table)
        and "t: 1 utterance, 2 hypotheses" in table
    )
    assert '<td class="worse">+10.0 worse</td>' in found._repr_html_()
    assert "worse" not in render(found, "csv")
    found.higher_is_better = True
    table = render(found, "text")
    assert re.search(r"-10\.0 worse +0\.0100", table)
    assert re.search(r"\+10\.0 +0\.0100", table)
    rows[0].p_value, rows[1].against = 0.5, "both"
    found.rows.append(Compared("lm", "WER", 8.0, p_value=0.01, against="both"))
    assert "worse" not in render(found, "text"), (
        "by chance, or tested against another row"
    )


def test_rows_that_are_as_good_as_the_best_are_bold() -> None:
    rows = [
        Compared(f"lm{value}", "WER", value, is_best=value < 10, interval=(8.0, 12.0))
        for value in (9.0, 9.5, 11.0)
    ]
    found = Comparison(
        "WER", False, "t", "d", 1, 2, 5.0, 5.0, 10.0, 10.0, "", rows=rows
    )
    markdown = render(found, "markdown")
    assert "**9.00**" in markdown and "**9.50**" in markdown
    assert "**11.00**" not in markdown and "bold: no significant diff" in markdown
    shown = render(found, "text", Shown(intervals=True, oracle=False))
    assert "95 % CI" in shown and "8.00-12.00" in shown and "oracle" not in shown


def test_the_best_row_is_found(lists: Path) -> None:
    read = api.read(lists)
    table = api.compare(read, read, lambda texts: [0.0] * len(texts))
    assert [row.is_best for row in table.rows] == [True]
    assert table.rows[0].interval and table.first_interval


def test_signatures_say_once_what_all_rows_have() -> None:
    parts = "WER|case:lc|{}|lists:2@2-1|rescore:0.3.0"
    signatures = [(name, parts.format(f"w:{name}=1")) for name in ("a", "b")]
    assert parted_signatures(signatures) == [
        ("all rows", "WER|case:lc|lists:2@2-1|rescore:0.3.0"),
        ("a", "w:a=1"),
        ("b", "w:b=1"),
    ]
    assert parted_signatures(signatures[:1]) == signatures[:1]


def test_compare_says_why_a_weight_is_0_and_never_minus_0(lists: Path) -> None:
    read = api.read(lists)
    table = api.compare(read, read, lambda texts: [0.0] * len(texts))
    reason = (
        "the weight is 0, lambda does not help: no weight above 0 is better than the"
        " first pass on dev; tune on more lists"
    )
    assert f": {reason}" in render(table, "text") and table.rows[0].notes
    table.rows[0].gain = -0.0
    table.rows[0].weights = {"lm": -0.0}
    assert "-0.0" not in render(table, "text") and "+0.0" in render(table, "text")


def test_cells_are_text_in_every_style() -> None:
    rows = [["", "a|b"], ["x_1 & 5 %", 'say "no", \\today']]
    assert STYLES["markdown"](rows).splitlines()[0] == "|  | a\\|b |"
    assert r"x\_1 \& 5 \% & say" in STYLES["latex"](
        rows
    ) and r"\textbackslash{}today" in STYLES["latex"](rows)
    assert list(csv.reader(STYLES["csv"](rows).splitlines())) == rows
    latex = STYLES["latex"](
        [["", "p", "weight"], ["a", "<0.0001", "-0.5, -0.25"], ["b", "1-2", "a|b"]]
    )
    assert (
        r"a & $<$0.0001 & $-$0.5, $-$0.25 \\" in latex
        and r"b & 1--2 & a$|$b \\" in latex
    )


def test_tokens_add_up_to_the_column(
    rescore: Run, lists: Path, arpa: str, tmp_path: Path
) -> None:
    done = rescore(
        "score", lists, "--lm", arpa, "--tokens", "tokens.jsonl", "-o", "scored.jsonl"
    )
    assert done.returncode == 0, done.stderr
    entries = [
        json.loads(line)
        for line in (tmp_path / "tokens.jsonl").read_text().splitlines()
    ]
    scored = [
        json.loads(line)
        for line in (tmp_path / "scored.jsonl").read_text().splitlines()
    ]
    sums = [
        hypothesis["scores"]["ngram"]
        for entry in scored
        for hypothesis in entry["hyps"]
    ]
    assert [sum(entry["log_probs"]) for entry in entries] == pytest.approx(sums)
    first = entries[0]
    assert (first["id"], first["hyp"], first["lm"]) == ("u0", 1, "ngram")
    assert first["tokens"] == [*first["text"].split(), "</s>"]
    assert all(
        [entry["tokens"][at] for at in entry.get("unknown", [])]
        == ["owl"] * entry["text"].count("owl")
        for entry in entries
    )


def test_perplexity_of_text(
    rescore: Run, arpa: str, models: dict[str, Path], tmp_path: Path
) -> None:
    texts = [*SENTENCES[:5], "the old clock"]
    lms = ["--lm", arpa, "--lm", f"unilm:{models['unilm']}"]
    done = rescore(
        "score",
        "--text",
        "-",
        *lms,
        "--tokens",
        "t.jsonl",
        "-o",
        "p.json",
        input="\n".join(texts),
    )
    assert done.returncode == 0, done.stderr
    ngram, unilm = json.loads((tmp_path / "p.json").read_text())
    entries = [
        json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()
    ]
    sentences = [entry["log_probs"] for entry in entries if entry["lm"] == "unilm"]
    assert unilm["tokens"] == sum(map(len, sentences)) and unilm["words"] == sum(
        len(text.split()) for text in texts
    )
    total = sum(map(sum, sentences))
    assert unilm["by_token"]["corpus"] == pytest.approx(
        math.exp(-total / unilm["tokens"])
    )
    assert unilm["by_word"]["corpus"] == pytest.approx(
        math.exp(-total / unilm["words"])
    )
    each = sorted(math.exp(-sum(scores) / len(scores)) for scores in sentences)
    assert unilm["by_token"]["mean"] == pytest.approx(sum(each) / 6)
    assert unilm["by_token"]["median"] == pytest.approx((each[2] + each[3]) / 2)
    assert (
        ngram["unknown"] > 0
        and "PPL/token" in done.stdout
        and "PPL|lm:unilm=unilm@" in done.stdout
    )


def test_score_wants_lists_or_text(
    rescore: Run, lists: Path, arpa: str, tmp_path: Path
) -> None:
    assert_one_line_error(
        rescore("score", "--lm", arpa), "give either N-best lists or --text"
    )
    assert_one_line_error(
        rescore("score", lists, "--lm", arpa, "--tokens", "-"),
        "cannot both go to stdout",
    )
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    assert_one_line_error(
        rescore("score", "--text", "empty.txt", "--lm", arpa),
        "empty.txt: no text in it",
    )


def test_decisions_at_the_command_line(
    rescore: Run, lists: Path, arpa: str, tmp_path: Path
) -> None:
    for name in ("mbr", "rover"):
        done = rescore(
            lists,
            "--lm",
            arpa,
            "--dev",
            lists,
            "--decide",
            name,
            "--best",
            "one.trn",
            "--report",
            "r.json",
        )
        assert done.returncode == 0, done.stderr
        found = report(tmp_path)
        assert (
            found["decision"]["name"] == name
            and f"|decide:{name}," in found["signature"]
        )
        assert found["tuning"]["value"] == found["reranked"]
        assert f"decision: {name}, posteriors exp(" in done.stdout
        # The stages give the same.
        assert (
            rescore("score", lists, "--lm", arpa, "-o", "scored.jsonl").returncode == 0
        )
        assert (
            rescore("tune", "scored.jsonl", "--decide", name, "-o", "w.json").returncode
            == 0
        )
        assert (
            rescore(
                "rerank", "scored.jsonl", "--weights", "w.json", "--best", "two.trn"
            ).returncode
            == 0
        )
        assert (tmp_path / "one.trn").read_text() == (tmp_path / "two.trn").read_text()
    done = rescore(lists, "--lm", arpa, "--weight", "0.3", "--decide", "mbr")
    assert_one_line_error(
        done,
        "--decide mbr needs a scale: --scale NUMBER, --weights of rescore tune"
        " --decide mbr",
    )
    assert (
        rescore(
            lists, "--lm", arpa, "--weight", "0.3", "--decide", "mbr", "--scale", "2"
        ).returncode
        == 0
    )
    done = rescore(lists, "--lm", arpa, "--weight", "0.3", "--scale", "2")
    assert_one_line_error(done, "--scale needs --decide mbr or rover")


def test_folds_flat_and_curve(
    rescore: Run, lists: Path, arpa: str, tmp_path: Path
) -> None:
    done = rescore(
        lists, "--lm", arpa, "--folds", "4", "--no-bagging", "--report", "r.json"
    )
    assert done.returncode == 0, done.stderr
    found = report(tmp_path)
    assert "|tuned:4folds,by=utterance,bagging=no,12@" in found["signature"]
    # tuned on all of it against tuned on the rest of it
    assert found["tuning"]["value"] <= found["reranked"]
    assert rescore("score", lists, "--lm", arpa, "-o", "scored.jsonl").returncode == 0
    assert (
        rescore("tune", "scored.jsonl", "--no-bagging", "--curve", "c.csv").returncode
        == 0
    )
    rows = list(csv.DictReader((tmp_path / "c.csv").open()))
    assert rows[0].keys() == {"column", "low", "high", "WER"}
    assert min(float(row["WER"]) for row in rows) == pytest.approx(
        found["tuning"]["value"]
    )
    assert_one_line_error(
        rescore(lists, "--lm", arpa, "--folds", "4", "--dev", lists), "leave out --dev"
    )
    assert_one_line_error(
        rescore(lists, "--lm", arpa, "--weight", "0.2", "--no-bagging"),
        "--no-bagging is about tuning",
    )
    assert_one_line_error(
        rescore(lists, "--lm", arpa, "--folds", "13"), "only 12 utterances"
    )


def test_overlap_of_dev_and_test_is_told(
    rescore: Run, lists: Path, arpa: str, tmp_path: Path
) -> None:
    done = rescore(lists, "--lm", arpa, "--dev", lists)
    assert (
        "12 of 12 test utterances are also in the dev lists (first: u0)" in done.stderr
    )
    other = json.loads(lists.read_text())
    for entry in other.values():
        entry["ref"] += " clock"
    write_json(tmp_path / "other.json", other)
    assert (
        "dev lists, too"
        not in rescore(lists, "--lm", arpa, "--dev", "other.json").stderr
    )


def test_length_and_token_counts(
    rescore: Run, lists: Path, arpa: str, tmp_path: Path
) -> None:
    for norm, power in (("sum", 0), ("mean", 1), ("length^0.5", 0.5)):
        done = rescore(
            "score", lists, "--lm", arpa, "--lm-norm", norm, "--count-tokens"
        )
        scores = json.loads(done.stdout.splitlines()[1])["hyps"][0]["scores"]
        name = "ngram"
        # three words and </s>
        assert scores.keys() == {name, "tokens"} and scores["tokens"] == 4
        if norm == "sum":
            whole = scores[name]
        assert scores[name] == pytest.approx(whole / 4**power)
    assert_one_line_error(
        rescore("score", lists, "--lm", arpa, "--lm-norm", "length"),
        "--lm-norm: 'length' is neither",
    )
    done = rescore(
        lists,
        "--lm",
        arpa,
        "--dev",
        lists,
        "--token-bonus",
        "tune",
        "--report",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    assert set(report(tmp_path)["weights"]) <= {"s2s", "ngram", "tokens"}
    assert (
        rescore(
            "score", lists, "--lm", arpa, "--count-tokens", "-o", "counted.jsonl"
        ).returncode
        == 0
    )
    tuned = json.loads(rescore("tune", "counted.jsonl", "--token-bonus").stdout)
    assert tuned["weights"] == pytest.approx(report(tmp_path)["weights"])
    done = rescore(
        lists,
        "--lm",
        arpa,
        "--weight",
        "0.3",
        "--token-bonus",
        "-0.5",
        "--report",
        "r.json",
    )
    assert report(tmp_path)["weights"] == pytest.approx(
        {"s2s": 0.7, "ngram": 0.3, "tokens": -0.5}
    )
    assert "-0.5 a token" in done.stdout and "|w:tokens=-0.5|" in done.stdout


def test_models_of_one_kind_have_the_same_names_one_after_the_other(
    rescore: Run, lists: Path, tmp_path: Path
) -> None:
    """Lists that are scored by one command, and by two, fit each other."""
    for name in ("one", "two"):
        text = ARPA.replace("-0.7\tthe", "-0.9\tthe") if name == "two" else ARPA
        (tmp_path / f"{name}.arpa").write_text(text, encoding="utf-8")
    first, second = "ngram:one.arpa", "ngram:two.arpa"
    lines = (
        ("score", lists, "--lm", first, "--lm", second, "-o", "both.jsonl"),
        ("score", lists, "--lm", first, "-o", "first.jsonl"),
        ("score", "first.jsonl", "--lm", second, "-o", "then.jsonl"),
    )
    for line in lines:
        done = rescore(*line)
        assert done.returncode == 0, done.stderr
    both, then = (Path(f"{name}.jsonl").read_text() for name in ("both", "then"))
    assert both == then and "ngram.two" in both
