"""`rescore score` goes on from finished parts, in this process as with Ray, and a
killed run leaves no file that the next run does not remove.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rescore import files
from rescore.cli.progress import LogProgress
from rescore.scoring import local
from tests.conftest import Run, assert_one_line_error
from tests.lms.test_ngram import ARPA

SCORE = ("score", "l.jsonl", "--lm", "ngram:lm.arpa")


def write_lists(folder: Path, number: int = 6) -> list[dict[str, Any]]:
    """Write a model and lists, each a part of its own."""
    (folder / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lists: list[dict[str, Any]] = []
    for rank in range(number):
        hyps = [{"text": f"a b {rank}", "score": -1.0}, {"text": "a", "score": -2.0}]
        lists.append({"id": f"u{rank}", "hyps": hyps, "fields": {"accent": "x"}})
    save(folder, lists)
    return lists


def save(folder: Path, lists: list[dict[str, Any]]) -> None:
    text = "\n".join(map(json.dumps, lists))
    (folder / "l.jsonl").write_text(text + "\n", encoding="utf-8")


@pytest.fixture
def stopped(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[dict[str, Any]]]:
    """Lists whose scoring was stopped after three parts."""
    monkeypatch.setattr(local, "WINDOW", 1)
    lists = write_lists(tmp_path)
    written = files.replacing

    def stop(path: Path, output: Path | None = None) -> Any:
        if path.name.startswith("000003"):
            raise KeyboardInterrupt
        return written(path, output)

    with monkeypatch.context() as patch:
        patch.setattr(files, "replacing", stop)
        assert rescore(*SCORE, "-o", "out.jsonl").returncode != 0
    assert not (tmp_path / "out.jsonl").exists()
    yield lists


def test_it_goes_on(stopped: Any, rescore: Run, tmp_path: Path) -> None:
    again = rescore(*SCORE, "-o", "out.jsonl")
    assert "out.jsonl.shards: 3 of 6 parts were finished by an earlier run" in (
        again.stderr
    )
    assert rescore(*SCORE, "-o", "whole.jsonl").returncode == 0
    whole = (tmp_path / "whole.jsonl").read_bytes()
    assert (tmp_path / "out.jsonl").read_bytes() == whole
    assert not list(tmp_path.glob("*.shards"))


def test_scores_of_an_unfinished_part_are_kept(
    model: Path, rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same batches: the output has the same bytes as without a stop."""
    write_lists(tmp_path, 40)
    score = ("score", "l.jsonl", "--lm", f"tta:{model}", "--batch-tokens", "30")
    assert rescore(*score, "-o", "whole.jsonl").returncode == 0
    done = 0

    def stop(bar: LogProgress, number: int) -> None:
        nonlocal done
        done += number
        if done > 60:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LogProgress, "update", stop)
        stopped = rescore(*score, "-o", "out.jsonl")
    assert stopped.returncode == 130
    *_, kept, last = stopped.stderr.splitlines()
    assert kept.endswith(
        "out.jsonl.shards: holds the scores of the part that is not finished; repeat"
        " the command to continue"
    )
    assert last == "rescore: interrupted"
    again = rescore(*score, "-o", "out.jsonl")
    assert re.search(r"an earlier run has kept \d+ scores", again.stderr)
    whole = (tmp_path / "whole.jsonl").read_bytes()
    assert (tmp_path / "out.jsonl").read_bytes() == whole
    assert not list(tmp_path.glob("*.shards"))


@pytest.mark.parametrize("cache", [(), ("--cache", "kept")])
def test_a_stopped_run_names_the_cache(
    cache: tuple[str, ...],
    rescore: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_lists(tmp_path)

    def stop(bar: LogProgress, number: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LogProgress, "update", stop)
    options = ("--lm", "ngram:lm.arpa", "--weight", "0.3", "-o", "out.jsonl")
    done = rescore("l.jsonl", *options, *cache)
    assert done.returncode == 130
    assert ("give --cache DIR" in done.stderr) is not bool(cache)


def test_a_corrected_input(
    stopped: list[dict[str, Any]], rescore: Run, tmp_path: Path
) -> None:
    stopped[1]["fields"] = {"accent": "y"}
    save(tmp_path, stopped)
    again = rescore(*SCORE, "-o", "out.jsonl")
    assert "1 of 6 parts were made with other settings or lists" in again.stderr
    assert "scored again (fields)" in again.stderr
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    accents = [json.loads(line)["fields"]["accent"] for line in lines]
    assert accents == ["x", "y", "x", "x", "x", "x"]


def test_another_setting(stopped: Any, rescore: Run) -> None:
    again = rescore(*SCORE, "--lm-norm", "mean", "-o", "out.jsonl")
    assert "(lm-norm sum, now mean)" in again.stderr
    assert "finished by an earlier run" not in again.stderr


def test_an_error_leaves_no_folder(rescore: Run, tmp_path: Path) -> None:
    write_lists(tmp_path)
    save(tmp_path, [{"id": "u", "hyps": []}])
    assert rescore(*SCORE, "-o", "out.jsonl").returncode == 2
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("output", ["out.tsv", "out.csv", "out.jsonl"])
def test_ids_are_checked_before_anything_is_scored(
    output: str, rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = write_lists(tmp_path)
    lists[-1]["id"] = "a\tb"
    save(tmp_path, lists)
    scored: list[int] = []
    score = local.score_windows

    def noted(*arguments: Any) -> Any:
        for window in score(*arguments):
            scored.append(len(window))
            yield window

    monkeypatch.setattr(local, "score_windows", noted)
    done = rescore(*SCORE, "-o", output)
    if output == "out.tsv":
        assert_one_line_error(done, "out.tsv: a TSV cannot hold the id 'a\\tb'")
        assert not scored
    else:
        assert done.returncode == 0 and scored, done.stderr


def test_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    left = files.temporary_path(target)
    host, pid, number = left.name.split(".")[-2].split("-")
    dead = left.with_name(left.name.replace(pid, "4194304"))
    elsewhere = dead.with_name(dead.name.replace(host, "ffffff"))
    mine = tmp_path / "mine.tmp"
    for path in (left, dead, elsewhere, mine):
        path.write_text("x")
    with files.together([str(target)]):
        target.write_text("y")
    assert sorted(tmp_path.iterdir()) == sorted([left, elsewhere, mine, target])
    assert number.isdecimal()
