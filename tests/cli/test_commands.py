"""The command line end to end: the main job, its stages, and what it says of bad
input.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from rescore.lms.folders import card_value
from tests.conftest import (
    ROOT,
    Run,
    assert_one_line_error,
    read_report,
    shared,
    write_json,
)
from tests.processes import ended, send, start, until

LISTS = {
    f"u{index}": {
        "ref": "the old clock ticked",
        "hyp_1": {"score": -1.0, "text": "the old cluck ticked"},
        "hyp_2": {"score": -1.1, "text": "the old clock ticked"},
        "hyp_3": {"score": -30.0, "text": "the"},
    }
    for index in range(4)
}


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_json(tmp_path / "lists.json", LISTS)


def test_main_job(rescore: Run, lists: Path, model: Path, tmp_path: Path) -> None:
    arguments = [
        lists,
        "--lm",
        f"tta:{model}",
        "--dev",
        lists,
        "--report",
        "r.json",
        "-o",
        "out.json",
        "--best",
        "b.trn",
    ]
    done = rescore(*arguments)
    assert done.returncode == 0, done.stderr
    report = read_report(tmp_path / "r.json")
    wanted = [
        "metric",
        "first_pass",
        "oracle",
        "reranked",
        "weights",
        "utterances",
        "hypotheses",
        "ref_words",
        "signature",
        "seconds",
    ]
    assert set(wanted) <= report.keys()
    assert (report["metric"], report["first_pass"], report["oracle"]) == (
        "WER",
        25.0,
        0.0,
    )
    assert (report["utterances"], report["hypotheses"], report["ref_words"]) == (
        4,
        12,
        16,
    )
    # dev and test are the same lists here
    assert report["tuning"]["value"] == report["reranked"]
    assert 0 < report["seconds"] == pytest.approx(sum(report["stages"].values()))
    weights = report["weights"]
    assert weights["s2s"] + weights["tta"] == pytest.approx(1)
    for part in (
        "WER|",
        "|w:s2s=",
        "|lm:tta=tta@",
        ",sum,float32|",
        "|tuned:4@",
        "|rescore:",
    ):
        assert part in report["signature"]
    reranked = json.loads((tmp_path / "out.json").read_text())
    assert all(
        entry.pop("columns")["tta"]["norm"] == "sum" for entry in reranked.values()
    )
    best = [
        line.rpartition(" (")[0]
        for line in (tmp_path / "b.trn").read_text().splitlines()
    ]
    assert best == [entry["hyp_1"]["text"] for entry in reranked.values()]
    for entry in reranked.values():
        hypotheses = [entry[f"hyp_{rank}"] for rank in (1, 2, 3)]
        combined = [
            weights["s2s"] * h["score"] + weights["tta"] * h["scores"]["tta"]
            for h in hypotheses
        ]
        assert combined == sorted(combined, reverse=True)
    assert "first pass  25.00" in done.stdout and report["signature"] in done.stdout


def test_stages_give_what_the_main_job_gives(
    rescore: Run, lists: Path, model: Path, tmp_path: Path
) -> None:
    lm = f"tta:{model}"
    assert (
        rescore("run", lists, "--lm", lm, "--dev", lists, "--best", "one").returncode
        == 0
    )
    assert rescore("score", lists, "--lm", lm, "-o", "scored.jsonl.gz").returncode == 0
    tuned = rescore("tune", "scored.jsonl.gz", "-o", "weights.json")
    assert tuned.returncode == 0 and "WER 25.00 ->" in tuned.stderr
    assert (
        rescore(
            "rerank", "scored.jsonl.gz", "--weights", "weights.json", "--best", "two"
        ).returncode
        == 0
    )
    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text() != ""


def test_stages_in_a_pipe(rescore: Run, lists: Path, model: Path) -> None:
    scored = rescore("score", "-", "--lm", f"tta:{model}", input=lists.read_text())
    assert scored.returncode == 0, scored.stderr
    first = json.loads(scored.stdout.splitlines()[0])
    assert first["columns"]["tta"].keys() == {
        "model",
        "fingerprint",
        "norm",
        "precision",
        "role",
    }
    assert first["id"] == "u0" and set(first["hyps"][0]["scores"]) == {"tta", "tokens"}
    assert json.loads(rescore("tune", "-", input=scored.stdout).stdout)[
        "weights"
    ].keys() == {"s2s", "tta"}


def test_recommended_weight_is_said(rescore: Run, lists: Path, model: Path) -> None:
    done = rescore(lists, "--lm", f"tta:{model}")
    assert done.returncode == 0 and "weight 0.3, from the model card" in done.stderr
    assert "lambda: tta 0.3 (recommended by the model card)" in done.stdout


def test_weight_zero_is_said_plainly(rescore: Run, model: Path, tmp_path: Path) -> None:
    only = {
        "u": {
            "ref": "the old",
            "hyp_1": {"score": -1, "text": "the old"},
            "hyp_2": {"score": -2, "text": "the"},
        }
    }
    path = write_json(tmp_path / "good.json", only)
    done = rescore(path, "--lm", f"tta:{model}", "--dev", path)
    assert (
        "tta does not help: no weight above 0" in done.stdout
        and "WER unchanged" in done.stdout
    )
    assert "lambda: tta 0 " in done.stdout


def test_lists_without_references(rescore: Run, model: Path, tmp_path: Path) -> None:
    path = write_json(
        tmp_path / "n.json", {"u": {"hyp_1": {"score": -1, "text": "the old"}}}
    )
    done = rescore(path, "--lm", f"tta:{model}", "--weight", "0.5", "--best", "-")
    assert done.returncode == 0 and done.stdout == "u the old\n"
    assert "1 utterance, 1 hypothesis" in done.stderr and "WER" not in done.stderr


def test_means_for_fairseq(rescore: Run, model: Path, tmp_path: Path) -> None:
    log = (
        "S-0\tx\nT-0\tthe old clock .\nH-0\t-0.5\tthe old clock .\nP-0\t-1"
        " -1\nH-0\t-0.6\tthe\nP-0\t-1\n"
    )
    (tmp_path / "log").write_text(log)
    done = rescore(
        "log", "--lm", f"tta:{model}", "--weight", "0.1", "--report", "r.json"
    )
    assert done.returncode == 0, done.stderr
    report = read_report(tmp_path / "r.json")
    assert (
        report["metric"] == "BLEU"
        and "tok:none" in report["signature"]
        and ",mean,float32|" in report["signature"]
    )
    assert report["weights"].keys() == {"s2s", "tta"}
    summed = rescore("log", "--lm", f"tta:{model}", "--weight", "0.1", "--s2s", "sum")
    assert ",sum,float32|" in summed.stdout


def test_eval(rescore: Run, lists: Path, tmp_path: Path) -> None:
    done = rescore("eval", lists)
    assert "25.00    0.00" in done.stdout
    (tmp_path / "ref").write_text("u1 a b\nu2 c\n")
    (tmp_path / "one").write_text("u2 c\nu1 a x\n")
    (tmp_path / "two.trn").write_text("a b (u1)\nc (u2)\n")
    done = rescore("eval", "one", "two.trn", "--ref", "ref", "--report", "-")
    systems = json.loads(done.stdout)["systems"]
    assert [round(system["value"], 2) for system in systems] == [33.33, 0.0]
    assert systems[0]["p_value"] is None and 0 < systems[1]["p_value"] <= 1
    (tmp_path / "short").write_text("u1 a b\n")
    assert_one_line_error(rescore("eval", "one", "short", "--ref", "ref"), "short")


def test_convert(rescore: Run, lists: Path, tmp_path: Path) -> None:
    assert rescore("convert", lists, "-o", "out.jsonl").returncode == 0
    assert rescore("convert", "out.jsonl", "-o", "again.json").returncode == 0
    again = json.loads((tmp_path / "again.json").read_text())
    assert {
        name: entry["hyp_2"]["text"] for name, entry in again.items()
    } == dict.fromkeys(LISTS, "the old clock ticked")


def test_models(rescore: Run) -> None:
    assert "tta" in rescore("models").stdout
    assert "recommended_weight" in rescore("models", "tta").stdout


ENTRY = LISTS["u0"]


@pytest.mark.parametrize(
    ("content", "arguments", "parts"),
    [
        (json.dumps(LISTS)[:150], [], ["lists.json: line 1, column", "truncated"]),
        ("some text\n", [], ["lists.json: not an N-best list"]),
        ("", [], ["lists.json: is empty"]),
        (
            json.dumps({"u": {**ENTRY, "hyp_1": {"score": float("nan"), "text": "a"}}}),
            [],
            ["utterance u, hypothesis 1", "nan"],
        ),
        (
            json.dumps({"u": {"ref": "a"}}),
            [],
            ["lists.json: utterance u: no hypotheses"],
        ),
        (
            json.dumps({"u": ENTRY, "v": {"hyp_1": {"score": 0, "text": "a"}}}),
            [],
            ["utterance v: no reference"],
        ),
        (
            json.dumps({"v": {"hyp_1": {"score": 0, "text": "a"}}}),
            ["--dev", "lists.json"],
            ["utterance v: no reference"],
        ),
        (
            json.dumps(LISTS),
            ["--weight", "1.5"],
            ["--weight 1.5: expected a number from 0 to 1"],
        ),
        (
            json.dumps(LISTS),
            ["--weight", "0.5", "--dev", "lists.json"],
            ["--dev and --weight exclude each other"],
        ),
        (json.dumps(LISTS), ["--ref", "absent"], ["absent: no such file"]),
        (
            json.dumps(LISTS),
            ["--weight", "x"],
            ["--weight x: expected a number from 0 to 1"],
        ),
        (
            json.dumps(LISTS),
            ["--device", "cuda:77", "--weight", "0.5"],
            ["no such device"],
        ),
        (
            json.dumps(LISTS),
            ["--weight", "0.5", "-o", "absent/out.json"],
            ["absent/out.json: there is no folder absent"],
        ),
    ],
)
def test_bad_input(
    rescore: Run,
    model: Path,
    tmp_path: Path,
    content: str,
    arguments: list[str],
    parts: list[str],
) -> None:
    (tmp_path / "lists.json").write_text(content)
    options = [] if {"--weight", "--dev"} & set(arguments) else ["--weight", "0.5"]
    output = [] if "-o" in arguments else ["-o", "out.json"]
    done = rescore("lists.json", "--lm", f"tta:{model}", *options, *arguments, *output)
    assert_one_line_error(done, *parts)
    # nothing half done is left
    assert [path.name for path in tmp_path.iterdir()] == ["lists.json"]


def test_bad_commands(rescore: Run, lists: Path) -> None:
    assert_one_line_error(rescore("rescroe"), "rescroe: no such file or command")
    assert_one_line_error(rescore("score", lists), "give --lm KIND")
    assert_one_line_error(
        rescore(lists, "--lm", "elmo"), "'elmo' is not one of bilm, tta"
    )
    assert_one_line_error(rescore("tune", lists), "no column of LM scores")
    assert_one_line_error(rescore("rerank", lists, "--weights", lists), 'no "weights"')


def test_a_sentence_of_a_thousand_words(
    rescore: Run, model: Path, tmp_path: Path
) -> None:
    text = " ".join(["clock"] * 1000)
    entry = {
        "ref": text,
        "hyp_1": {"score": -1, "text": text},
        "hyp_2": {"score": -2, "text": text + " x"},
    }
    path = write_json(tmp_path / "long.json", {"u": entry})
    done = rescore(path, "--lm", f"tta:{model}", "--weight", "0.5")
    assert done.returncode == 0 and done.stderr.count("overlapping windows") == 1


@pytest.mark.slow
def test_reference_results(rescore: Run, tmp_path: Path) -> None:
    data = shared("librispeech-other")
    done = rescore(
        data / "test.json",
        "--lm",
        "tta",
        "--dev",
        data / "dev.json",
        "--report",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    report = read_report(tmp_path / "r.json")
    assert (round(report["first_pass"], 2), round(report["oracle"], 2)) == (
        17.70,
        13.80,
    )
    assert report["reranked"] < 16.80  # what a 5-gram on the same text gives


@pytest.mark.parametrize(
    ("path", "reference", "first_pass", "oracle"),
    [
        ("librispeech-other/test.json", None, 17.70, 13.80),
        (
            "librispeech-other/espnet2/test",
            "librispeech-other/espnet2/test/text",
            17.70,
            13.80,
        ),
        ("iwslt14-deen/test.generate.txt", None, 33.50, 39.70),
    ],
)
def test_first_pass_figures_of_real_lists(
    rescore: Run,
    tmp_path: Path,
    path: str,
    reference: str | None,
    first_pass: float,
    oracle: float,
) -> None:
    options = ["--ref", shared(reference)] if reference else []
    done = rescore("eval", shared(path), *options, "--report", "r.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    # translations have chrF, too
    (system,) = (report[0] if isinstance(report, list) else report)["systems"]
    assert (round(system["value"], 2), round(system["oracle"], 2)) == (
        first_pass,
        oracle,
    )


STUCK = """
import time
from pathlib import Path
from rescore import formats
from rescore.cli.start import main
from rescore.scoring import local
local.WINDOW = 50
write = formats.write
def written(lists, path):
    for nbest in lists:
        if nbest.id == "u70":
            Path("stuck").touch()
            time.sleep(600)
        yield nbest
formats.write = lambda lists, path: write(written(lists, path), path)
main()
"""
"""A program as `rescore` that writes parts of 50 lists, and never the whole second
part.
"""


def test_interrupted_run_leaves_finished_parts_alone(
    model: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    big = {
        f"u{index}": {"hyp_1": {"score": 0, "text": f"the old clock {index}"}}
        for index in range(200)
    }
    write_json(tmp_path / "big.json", big)
    messages = tmp_path_factory.mktemp("messages") / "stderr"
    score = ("score", "big.json", "--lm", f"tta:{model}", "-o", "out.jsonl")
    process = start(score, tmp_path, messages, STUCK)
    parts = tmp_path / "out.jsonl.shards"
    until((tmp_path / "stuck").exists, process)
    assert len([*parts.iterdir()]) == 3  # a part, its key, and a half of a part
    send(signal.SIGINT, process)
    status = ended(process)
    stderr = messages.read_text(encoding="utf-8")
    assert status == 130 and stderr.strip().endswith("rescore: interrupted")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"big.json", "stuck", parts.name}
    assert len([*parts.glob("0*.jsonl")]) == 1 and len([*parts.iterdir()]) == 2


@pytest.mark.parametrize(
    "folder", sorted((ROOT / "models").iterdir()), ids=lambda folder: folder.name
)
def test_cards_of_shipped_models_have_what_the_hub_reads(folder: Path) -> None:
    for key in ("license", "library_name", "pipeline_tag", "kind"):
        assert card_value(folder, key) is not None, key
    if (folder / "config.json").exists():
        assert (
            card_value(folder, "kind")
            == json.loads((folder / "config.json").read_text(encoding="utf-8"))["kind"]
        )
    assert 0 <= float(card_value(folder, "recommended_weight") or 0) <= 1


def test_text_is_not_respelled(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a\n", encoding="utf-8")
    done = rescore("score", "--text", "t", "--lm", "tta", "--respell", "4")
    assert_one_line_error(done, "score --text takes no --respell")


def test_a_damaged_module_is_no_interruption(
    rescore: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(name: str) -> None:
        raise EOFError("marshal data too short")

    monkeypatch.setattr("rescore.parts.importlib.import_module", damaged)
    with pytest.raises(EOFError, match="marshal"):
        rescore("models")
