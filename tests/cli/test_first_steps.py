"""What somebody meets who uses the commands for the first time: each does something, or
says why not.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from rescore import formats
from rescore.columns import Column
from rescore.errors import UserError
from rescore.lms import load
from rescore.metrics.listed import LISTED
from rescore.parts import FORMATS, KINDS
from rescore.tuning.phrases import notes
from rescore.version import VERSION
from tests.cli.test_road import noise, write_lines
from tests.conftest import Run, assert_one_line_error
from tests.lms.test_ngram import ARPA


def test_a_boost_needs_no_reference_with_a_listed_word(
    rescore: Run, tmp_path: Path
) -> None:
    lists = [
        {
            "id": "u1",
            "ref": "a b",
            "hyps": [{"text": "a b", "score": -1}, {"text": "a zebra", "score": -2}],
        },
        {
            "id": "u2",
            "ref": "a",
            "hyps": [{"text": "a", "score": -1}, {"text": "b", "score": -2}],
        },
    ]
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(entry) + "\n" for entry in lists), encoding="utf-8"
    )
    (tmp_path / "words").write_text("zebra\n", encoding="utf-8")
    said = (
        "words: no word of the references is a word of this list; the figures are"
        " without bwer and uwer"
    )
    options = (
        "--words",
        "words",
        "--boost",
        "5",
        "--save-weights",
        "w.json",
        "--report",
        "r.json",
    )
    done = rescore("run", "l.jsonl", *options, "--best", "-")
    assert (
        done.returncode == 0
        and said in done.stderr
        and done.stdout == "u1 a zebra\nu2 a\n"
    )
    assert [
        figures["metric"]
        for figures in json.loads((tmp_path / "r.json").read_text())["metrics"]
    ] == ["WER"]
    done = rescore(
        "rerank",
        "l.jsonl",
        "--words",
        "words",
        "--weights",
        "w.json",
        "--report",
        "s.json",
        "--best",
        "-",
    )
    assert (
        done.returncode == 0
        and said in done.stderr
        and done.stdout == "u1 a zebra\nu2 a\n"
    )
    assert_one_line_error(
        rescore("run", "l.jsonl", "--words", "words", "--metric", "bwer"),
        "no word of the references",
    )


def test_a_negative_bonus_for_listed_words_is_said() -> None:
    assert not [*notes([{"s2s": 1.0, LISTED: 0.5}, {"s2s": 1.0}], {})]
    (line,) = notes([{"s2s": 1.0}, {"s2s": 1.0, LISTED: -0.5}], {})
    assert (
        line.startswith("the bonus for a listed word is negative: ")
        and "leave out --words" in line
    )


def test_a_model_that_gains_nothing_beside_others_is_named() -> None:
    columns = {name: Column(name, "", "sum", "float32") for name in ("tta", "ngram")}
    (line,) = notes([{"s2s": 0.5, "tta": 0.0, "ngram": 0.5}], columns)
    assert line == "tta has weight 0 beside the other columns on the tuning lists"
    (line,) = notes([{"s2s": 0.5, "tta": 0.0, "ngram": 0.5}], columns, 12.91, 13.43)
    assert line == (
        "tta has weight 0: it gains nothing significant beside the other columns"
        " (12.91 with all, 13.43 without, on the tuning lists)"
    )
    (line,) = notes([{"s2s": 0.5, "tta": 0.0, "ngram": 0.5}], columns, 0.0, 0.5)
    assert "(0.00 with all, 0.50 without" in line
    assert not [*notes([{"s2s": 1.0, "tta": 0.0, "ngram": 0.0}], columns)], (
        "why_zero says this"
    )
    assert not [
        *notes(
            [
                {"s2s": 0.5, "tta": 0.0, "ngram": 0.5},
                {"s2s": 0.5, "tta": 0.5, "ngram": 0.0},
            ],
            columns,
        )
    ]


def test_scores_that_a_run_does_not_use_are_named(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    write_lines(tmp_path / "l.jsonl", noise(5, 1, 20.0))  # with scores of tta
    for weighed in (("--weight", "0.1"), ("--dev", "l.jsonl")):
        done = rescore("l.jsonl", "--lm", "ngram:lm.arpa", *weighed)
        assert (
            done.returncode == 0
            and "the scores of tta in the lists are not used beside --lm" in done.stderr
        )
    assert "not used" not in rescore("l.jsonl", "--dev", "l.jsonl").stderr


def test_run_uses_the_scores_in_the_lists(rescore: Run, tmp_path: Path) -> None:
    """Without --lm as well: tuned as `tune` does, and decided as `rerank` does."""
    for name, seed in (("dev", 1), ("test", 2)):
        write_lines(tmp_path / f"{name}.jsonl", noise(30, seed, 20.0))
    run = rescore(
        "run",
        "test.jsonl",
        "--dev",
        "dev.jsonl",
        "--report",
        "r.json",
        "--save-weights",
        "w.json",
    )
    assert run.returncode == 0, run.stderr
    assert rescore("tune", "dev.jsonl", "-o", "t.json").returncode == 0
    of_run, of_tune = (
        json.loads((tmp_path / name).read_text()) for name in ("w.json", "t.json")
    )
    assert of_run["weights"] == of_tune["weights"] and of_run["weights"]["tta"] > 0
    assert (
        rescore(
            "rerank", "test.jsonl", "--weights", "t.json", "--report", "s.json"
        ).returncode
        == 0
    )
    by_run, by_stages = (
        json.loads((tmp_path / name).read_text()) for name in ("r.json", "s.json")
    )
    assert (
        by_run["signature"] == by_stages["signature"]
        and by_run["system"] == by_stages["system"]
    )
    figures = by_run["metrics"][0]
    assert figures["reranked"] < figures["first_pass"]
    folds = rescore("run", "test.jsonl", "--folds", "3")
    assert (
        folds.returncode == 0
        and "weights of each fold, tuned on the other folds: tta" in folds.stdout
    )
    given = rescore("run", "test.jsonl", "--weight", "0.5")
    assert given.returncode == 0 and "lambda: tta 0.5" in given.stdout


def test_a_training_says_how_long_it_is(rescore: Run, tmp_path: Path) -> None:
    options = KINDS["tta"].training_options()
    assert options is not None
    lengths = [
        (made.steps, made.minutes)
        for made in (options(out=tmp_path), options(out=tmp_path, init="tta-small"))
    ]
    assert lengths == [(100_000, None), (None, 15.0)]
    (tmp_path / "text").write_text("the old clock\n" * 50, encoding="utf-8")
    done = rescore(
        "train",
        "--lm",
        "tta",
        "--init",
        "tta-small",
        "--text",
        "text",
        "--out",
        "out",
        "--steps",
        "1",
    )
    assert (
        done.returncode == 0
        and "training stops after at most 1 step (--steps)" in done.stderr
    )


@pytest.mark.parametrize(
    "name",
    ["./missing", "../missing", "/missing", "~/missing", "missing/", "a/b/c", "./a/b"],
)
def test_a_missing_folder_is_not_looked_up_on_the_hub(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rescore.large.hub._download", lambda *_: pytest.fail("looked up")
    )
    for kind in ("hf-masked", "hf-causal", "hf-seq2seq"):
        with pytest.raises(
            UserError, match=r"(missing|a/b).*: no such folder; models of the"
        ):
            load(f"{kind}:{name}")


@pytest.mark.parametrize(
    "name", ["model", "owner/model", "owner/model@main", "owner/model@refs/pr/1"]
)
def test_names_on_the_hub_are_looked_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(model: str, revision: str | None) -> Path:
        raise UserError(f"{model} {revision} looked up")

    monkeypatch.setattr("rescore.large.hub._download", download)
    with pytest.raises(UserError, match="looked up"):
        load(f"hf-masked:{name}")


def test_convert_lists_the_formats_that_it_writes(rescore: Run, tmp_path: Path) -> None:
    shown = " ".join(
        rescore("convert", "--help-all")
        .stdout.partition("--to")[2]
        .partition("--detok")[0]
        .split()
    )
    written = [name for name in FORMATS.names if hasattr(FORMATS[name], "write")]
    assert written != FORMATS.names and f"[{'|'.join(written)}]" in shown
    write_lines(tmp_path / "l.jsonl", noise(2, 1))
    only_read = next(name for name in FORMATS.names if name not in written)
    assert_one_line_error(
        rescore("convert", "l.jsonl", "--to", only_read), f"{only_read} is read only"
    )
    assert formats.read([tmp_path / "l.jsonl"])


def test_version_names_torch_without_importing_it(rescore: Run) -> None:
    done = rescore("--version")
    assert done.returncode == 0
    assert (
        done.stdout == f"rescore {VERSION}, Python {platform.python_version()}, torch"
        f" {version('torch')}\n"
    )
    command = [sys.executable, "-X", "importtime", "-m", "rescore", "--version"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout == done.stdout and not re.search(
        r"\| +(torch|numpy)$", process.stderr, re.MULTILINE
    )


@pytest.mark.parametrize("name", ["trn", "SRT", "ctm"])
def test_formats_of_texts_are_written_by_rerank(
    name: str, rescore: Run, tmp_path: Path
) -> None:
    write_lines(tmp_path / "l.jsonl", noise(3, 1))
    done = rescore("convert", "l.jsonl", "--to", name)
    assert (
        done.returncode == 2
        and f"rescore rerank NBEST --best out.{name.lower()}" in done.stderr
    )


@pytest.mark.parametrize(
    "command",
    [
        ("convert", "l.jsonl"),
        ("rerank", "l.jsonl", "--weights", "no.json"),
        ("run", "l.jsonl", "--lm", "ngram:no.arpa", "--weight", "0.5"),
    ],
)
def test_lists_are_not_written_with_the_ending_of_texts(
    command: tuple[str, ...], rescore: Run, tmp_path: Path
) -> None:
    write_lines(tmp_path / "l.jsonl", noise(3, 1))
    for name in ("x.trn", "x.ctm.gz", "x.srt"):
        done = rescore(*command, "-o", name)
        assert_one_line_error(
            done,
            f"{name}: ",
            "1-best texts, not lists",
            f"rescore rerank NBEST --best {name}",
        )
        assert not (tmp_path / name).exists()
