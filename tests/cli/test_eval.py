"""Outputs side by side: tests of significance, by utterance and by speaker, and what
counts as a word.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.conftest import Done, Run, assert_one_line_error
from tests.metrics.test_significance import systems


def write(folder: Path) -> None:
    for name, texts in zip(("ref", "one", "two"), systems(0), strict=True):
        lines = [
            f"{text} (s{index % 8}-{index:03d})\n" for index, text in enumerate(texts)
        ]
        (folder / f"{name}.trn").write_text("".join(lines), encoding="utf-8")


def test_eval_with_every_test(rescore: Run, tmp_path: Path) -> None:
    write(tmp_path)
    p_values = {}
    for name, options in {
        "randomisation": [],
        "mapsswe": ["--test", "mapsswe"],
        "by speaker": ["--by-speaker"],
    }.items():
        done = rescore(
            "eval",
            "one.trn",
            "two.trn",
            "--ref",
            "ref.trn",
            "--report",
            "r.json",
            *options,
        )
        assert done.returncode == 0, done.stderr
        first, second = json.loads((tmp_path / "r.json").read_text())["systems"]
        assert (
            first["low"] < first["value"] < first["high"] and first["p_value"] is None
        )
        p_values[name] = second["p_value"]
        assert (
            f"p:{name.split()[0].replace('by', 'randomisation')}" in done.stdout
            and "95 % CI" in done.stdout
        )
    assert (
        all(0 < p < 0.5 for p in p_values.values()) and len(set(p_values.values())) == 3
    )


def test_tests_that_do_not_apply(rescore: Run, tmp_path: Path) -> None:
    write(tmp_path)
    both = ["eval", "one.trn", "two.trn", "--ref", "ref.trn"]
    assert_one_line_error(
        rescore(*both, "--metric", "chrf", "--test", "mapsswe"),
        "does not apply to chrF",
    )
    assert_one_line_error(
        rescore(*both, "--speaker", "x(.)"), "--speaker x(.) does not match it"
    )


def test_few_speakers_are_told_and_intervals_draw_speakers(
    rescore: Run, tmp_path: Path
) -> None:
    write(tmp_path)
    for name in ("ref", "one", "two"):
        text = (tmp_path / f"{name}.trn").read_text()
        (tmp_path / f"{name}.1.trn").write_text(re.sub(r"\(s\d-", "(s-", text))
        (tmp_path / f"{name}.2.trn").write_text(
            re.sub(r"\(s(\d)-", lambda found: f"(s{int(found[1]) % 3}-", text)
        )

    def measured(
        number: str, *options: str, outputs: int = 2
    ) -> tuple[Done, dict[str, Any]]:
        names = [f"{name}{number}.trn" for name in ("one", "two")[:outputs]]
        done = rescore(
            "eval", *names, "--ref", f"ref{number}.trn", "--report", "r.json", *options
        )
        assert done.returncode == 0, done.stderr
        return done, json.loads((tmp_path / "r.json").read_text())

    done, report = measured(".1", "--by-speaker")
    assert report["systems"][1]["p_value"] == 1 and "only 1 speaker" in done.stderr
    done, report = measured(".2", "--by-speaker")
    assert (
        "only 3 speakers: randomisation gives no p-value below about 0.25"
        in done.stderr
    )
    assert report["systems"][1]["p_value"] > 0.24
    done, report = measured("")
    assert done.stderr == ""
    _, by_speaker = measured("", "--by-speaker", outputs=1)
    assert (
        "|p:by=speaker|" in by_speaker["signature"]
        and by_speaker["test"] == "by=speaker"
    )
    one, other = report["systems"][0], by_speaker["systems"][0]
    assert one["value"] == other["value"] and (one["low"], one["high"]) != (
        other["low"],
        other["high"],
    )


def test_few_recordings_are_told(rescore: Run, tmp_path: Path) -> None:
    for name, texts in zip(("ref", "one", "two"), systems(0), strict=True):
        (tmp_path / name).mkdir()
        for half in (0, 1):
            (tmp_path / name / f"r{half}.txt").write_text(
                "\n".join(texts[half::2]), encoding="utf-8"
            )
    done = rescore("eval", "one", "two", "--whole", "--ref", "ref")
    assert (
        "only 2 recordings: randomisation gives no p-value below about 0.5"
        in done.stderr
    )
    assert "give --test mapsswe, which compares segments" in done.stderr
    assert (
        rescore(
            "eval", "one", "two", "--whole", "--ref", "ref", "--test", "mapsswe"
        ).stderr
        == ""
    )


def test_what_counts_as_a_word_can_be_said(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "ref.trn").write_text(
        "It's a well-known fact (a-1)\n", encoding="utf-8"
    )
    (tmp_path / "hyp.trn").write_text(
        "its a well known fact, <unk> (a-1)\n", encoding="utf-8"
    )

    def errors(*options: str) -> int:
        done = rescore("eval", "hyp.trn", "--ref", "ref.trn", "--report", "-", *options)
        assert done.returncode == 0, done.stderr
        counts = json.loads(done.stdout)["systems"][0]["counts"]
        return counts["substitutions"] + counts["deletions"] + counts["insertions"]

    assert errors() == 5
    assert errors("--split-hyphens") == 3
    assert errors("--split-hyphens", "--drop-unknown", "--drop-punctuation") == 1
    assert (
        errors(
            "--split-hyphens",
            "--drop-unknown",
            "--drop-punctuation",
            "--drop-apostrophes",
        )
        == 0
    )
    assert errors("--case-sensitive") == 5


def test_source_texts_make_bleu_the_metric_and_it_is_told(
    rescore: Run, tmp_path: Path
) -> None:
    texts = {
        "ref": ["the house", "he goes home"],
        "src": ["das haus", "er geht heim"],
        "hyp": ["the house", "he goes"],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    lists = [
        {"id": str(n), "hyps": [{"text": text, "score": -1}]}
        for n, text in enumerate(texts["hyp"], 1)
    ]
    (tmp_path / "l.jsonl").write_text(
        "\n".join(map(json.dumps, lists)), encoding="utf-8"
    )
    (tmp_path / "n.best").write_text(
        "0 ||| the house ||| ||| -1\n1 ||| he goes ||| ||| -1\n", encoding="utf-8"
    )
    plain = ("--ref", "ref", "--ref-format", "plain")
    for output in ("hyp", "l.jsonl"):
        done = rescore("eval", output, *plain, "--src", "src")
        assert "BLEU" in done.stdout.partition("\n")[0], done.stderr
        assert (
            done.stderr
            == "rescore: metric: BLEU (the lists have source texts (src); for WER give"
            " --metric wer)\n"
        )
        assert "WER" in rescore("eval", output, *plain).stdout.partition("\n")[0]
    run = rescore("run", "l.jsonl", "--ref", "ref", "--src", "src")
    assert "BLEU" in run.stdout and "for WER give --metric wer" in run.stderr
    toolkit = rescore("eval", "n.best", "--ref", "ref")
    assert "BLEU" in toolkit.stdout and toolkit.stderr == ""


def test_groups_of_recordings(rescore: Run) -> None:
    """Lists name their recordings, which are no part of their ids."""
    lines = []
    for number, recording in enumerate(("mon", "mon", "tue")):
        hypotheses = [{"text": "a b", "score": 0.0}]
        record = {"id": f"u{number}", "recording": recording, "ref": "a c"}
        lines.append(json.dumps({**record, "hyps": hypotheses}))
    Path("lists.jsonl").write_text("\n".join(lines) + "\n")
    done = rescore("eval", "lists.jsonl", "--by", "recording")
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert ["mon", "2"] in rows and ["tue", "1"] in rows, done.stdout
    unknown = rescore("eval", "lists.jsonl", "--by", "call")
    assert "(found: recording)" in unknown.stderr
