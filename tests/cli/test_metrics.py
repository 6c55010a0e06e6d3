"""Several metrics at once, JSON on stdout, ESPnet's RESULTS.md."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import ROOT, Run, assert_one_line_error

LISTS = ROOT / "data" / "test.json"


def test_run_with_two(rescore: Run, tmp_path: Path) -> None:
    done = rescore(LISTS, "--metric", "wer", "--metric", "cer", "--report", "r.json")
    assert (
        done.stdout.count("\nfirst pass ") == 2
        and "\nWER|" in done.stdout
        and "\nCER|" in done.stdout
    )
    found = json.loads((tmp_path / "r.json").read_text())
    (tmp_path / "w.json").write_text('{"weights": {"s2s": 1}}')
    alone = rescore(LISTS, "--metric", "cer", "--report", "c.json")
    cer = json.loads((tmp_path / "c.json").read_text())
    assert alone.returncode == 0
    assert [one["metric"] for one in found["metrics"]] == ["WER", "CER"] and [
        found["metrics"][1]
    ] == cer["metrics"]
    assert_one_line_error(
        rescore(
            "analyse",
            LISTS,
            "--weights",
            "w.json",
            "--metric",
            "wer",
            "--metric",
            "cer",
        ),
        "has one --metric",
    )


def test_json_on_stdout(rescore: Run, tmp_path: Path) -> None:
    one = json.loads(rescore("eval", LISTS, "--report", "-").stdout)
    assert one["metric"] == "WER"
    two = json.loads(
        rescore(
            "eval", LISTS, "--metric", "cer", "--metric", "wer", "--report", "-"
        ).stdout
    )
    assert [each["metric"] for each in two] == ["CER", "WER"] and two[1][
        "systems"
    ] == one["systems"]
    table = rescore("eval", LISTS, "--metric", "bleu", "--metric", "chrf").stdout
    assert "BLEU" in table and "chrF" in table
    rescore(LISTS, "--report", "r.json")


def test_tables_and_text_in_one_command(rescore: Run, tmp_path: Path) -> None:
    """From lists to RESULTS.md, LaTeX and Kaldi text."""
    done = rescore(
        LISTS,
        "--table",
        "RESULTS.md",
        "--table",
        "results.tex",
        "--best",
        "text",
        "--system",
        "none",
    )
    assert done.returncode == 0, done.stderr
    assert "| dataset " in (tmp_path / "RESULTS.md").read_text()
    assert "\\begin{tabular}" in (tmp_path / "results.tex").read_text()
    assert len((tmp_path / "text").read_text().splitlines()) == 116
    assert_one_line_error(
        rescore(LISTS, "--table", "x.pdf"), "--table x.pdf: its ending is not one of"
    )


def test_results_as_espnet_writes_them(rescore: Run, tmp_path: Path) -> None:
    """show_asr_result.sh: WER and CER, with counts in percent."""
    rescore(
        LISTS,
        "--metric",
        "wer",
        "--metric",
        "cer",
        "--report",
        "r.json",
        "--dataset",
        "test",
        "--system",
        "none",
    )
    assert rescore("report", "r.json", "-o", "RESULTS.md").returncode == 0
    text = (tmp_path / "RESULTS.md").read_text()
    wer, cer = text.split("### WER\n")[1].split("### CER\n")
    for part in (wer, cer):
        assert (
            "| dataset " in part and "S.Err |" in part and "| test, first pass" in part
        )
    assert "19.4" in wer  # the demo's first pass
