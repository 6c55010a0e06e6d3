"""What a user can cause is reported in one line with exit status 2 (or that of a
signal); no traceback.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import SENTENCES, TINY, Run, assert_one_line_error, write_json
from tests.forking import program
from tests.lms.test_ngram import ARPA
from tests.processes import running, until

ENTRY = {
    "ref": "the old",
    "hyp_1": {"score": -1, "text": "the owl"},
    "hyp_2": {"score": -2, "text": "the old"},
}


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ('{"u": {"hyp_1": {"score": 1' + "0" * 400 + ', "text": "a"}}}', "score"),
        ('{"u": {"hyp_1": {"score": 1' + "0" * 5000 + ', "text": "a"}}}', "l.json"),
        ("[" * 100_000, "l.json"),
        ('{"u": ' + "[" * 100_000, "nested too deeply"),
        ('{"u": {"hyp_1": {"score": 1, "text": "\\ud800"}}}', "surrogate"),
        (
            '{"u": {"hyp_1": {"score": [1], "text": "a"}}}',
            "score: expected a number, found an array",
        ),
        (
            '{"u": {"hyp_1": {"score": 1, "text": "a", "scores": []}}}',
            "scores: expected an object, found an array",
        ),
        ('{"id": "u", "hyps": [7]}', "hyps[0]"),
        ('{"id": null, "hyps": []}', "id"),
        ('{"utts": {"u": {"output": [7]}}}', "hypothesis 1"),
        ('{"utts": [7]}', "utts"),
        ("S-1\ta\nH-1\t1e999x\tb\n", "line 2"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_lists(rescore: Run, tmp_path: Path, content: str, part: str) -> None:
    (tmp_path / "l.json").write_text(content, encoding="utf-8")
    assert_one_line_error(rescore("convert", "l.json"), part)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--format", "espnet2"], "is not a folder"),
        (["--lenpen", "1e6"], "expected a number from -10 to 10"),
        (["--lenpen", "nan"], "expected a number from"),
        (["--ref", "."], "is a folder"),
        (["-o", "absent/x.json"], "cannot be written"),
    ],
)
def test_options_of_convert(
    rescore: Run, tmp_path: Path, options: list[str], part: str
) -> None:
    write_json(tmp_path / "l.json", {"u": ENTRY})
    assert_one_line_error(rescore("convert", "l.json", *options), part)


@pytest.mark.parametrize("value", ["x", [], {"s2s": "1"}, {"s2s": None}, {}, 7])
def test_weights_of_wrong_types(rescore: Run, tmp_path: Path, value: object) -> None:
    write_json(tmp_path / "l.json", {"u": ENTRY})
    write_json(tmp_path / "w.json", {"weights": value})
    assert_one_line_error(
        rescore("rerank", "l.json", "--weights", "w.json"), "w.json: "
    )


@pytest.mark.parametrize(
    "field",
    ["utterances", "counts", "dev", "conditions", "choice", "intervals", "columns"],
)
def test_results_of_wrong_types(rescore: Run, tmp_path: Path, field: str) -> None:
    write_json(tmp_path / "l.json", {"u": ENTRY})
    write_json(tmp_path / "w.json", {"weights": {"s2s": 1}})
    assert (
        rescore(
            "rerank", "l.json", "--weights", "w.json", "--report", "r.json"
        ).returncode
        == 0
    )
    for value in ("x", [7], {"a": "b"}, True):
        report = json.loads((tmp_path / "r.json").read_text())
        (report if field in report else report["metrics"][0])[field] = value
        write_json(tmp_path / "bad.json", report)
        assert_one_line_error(
            rescore("check", "bad.json", "--golden", "r.json"), "bad.json: "
        )
        assert_one_line_error(
            rescore("check", "r.json", "--golden", "bad.json"), "bad.json: "
        )


def test_tokenizer_without_unk(rescore: Run, model: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(model, tmp_path / "lm"))
    write_json(tmp_path / "l.json", {"u": ENTRY})
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    del tokenizer["model"]["vocab"]["[UNK]"]
    tokenizer["added_tokens"] = [
        token for token in tokenizer["added_tokens"] if token["content"] != "[UNK]"
    ]
    write_json(folder / "tokenizer.json", tokenizer)
    assert_one_line_error(rescore("score", "l.json", "--lm", "tta:lm"), "[UNK]")
    (folder / "README.md").unlink()
    (folder / "README.md").write_bytes(b"---\n\xff\n---\n")
    assert_one_line_error(rescore("l.json", "--lm", "tta:lm"), "README.md")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--learning-rate", "nan"], "nan: expected a number from 0 to 10"),
        (["--held-out", "0"], "--held-out"),
        (["--held-out", "-1"], "--held-out"),
        (["--warmup", "2"], "expected a number from 0 to 1"),
        (["--warmup", "1"], "more than the whole training"),
        (["--dropout", "2"], "expected a number from 0 to 0.99"),
        (["--seed", "-1"], "--seed"),
        (["--batch-tokens", "0"], "--batch-tokens"),
        (["--minutes", "nan"], "expected a number from"),
        (["--text", "-"], "give a file"),
        (["--out", "t.txt"], "cannot be made"),
        (
            ["--learning-rate", "10", "--steps", "200", "--warmup", "0"],
            "lower --learning-rate",
        ),
    ],
)
def test_training(rescore: Run, tmp_path: Path, options: list[str], part: str) -> None:
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES[:30]), encoding="utf-8")
    write_json(tmp_path / "c.json", TINY | {"layers": 2})
    usual = ["--text", "t.txt", "--out", "lm", "--config", "c.json", "--held-out", "2"]
    steps = [] if {"--minutes", "--steps"} & set(options) else ["--steps", "1"]
    done = rescore("train", "--lm", "tta", *usual, *steps, *options)
    if "lower --learning-rate" in part and done.returncode == 0:
        pytest.skip("this network learns at any rate")
    assert done.returncode == 2 and part in done.stderr.splitlines()[-1], done.stderr


def test_resume_belongs_to_one_training(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES[:60]), encoding="utf-8")
    (tmp_path / "u.txt").write_text("\n".join(SENTENCES[40:90]), encoding="utf-8")
    write_json(tmp_path / "c.json", TINY)

    def train(kind: str, text: str, held_out: str, *more: str) -> tuple[int, str]:
        options = [
            "--out",
            "lm",
            "--config",
            "c.json",
            "--held-out",
            held_out,
            "--batch-tokens",
            "200",
            *more,
        ]
        done = rescore("train", "--lm", kind, "--text", text, *options)
        return done.returncode, done.stderr.splitlines()[-1]

    assert train("tta", "t.txt", "5", "--steps", "2")[0] == 0
    for kind, text, held_out, part in (
        ("bilm", "t.txt", "5", "holds a model of kind tta"),
        ("tta", "u.txt", "5", "was made with text"),
        ("tta", "t.txt", "6", "was made with held-out 5, not 6"),
    ):
        status, message = train(kind, text, held_out, "--steps", "4", "--resume")
        assert status == 2 and part in message
    assert train("tta", "t.txt", "5", "--steps", "4", "--resume")[0] == 0
    (tmp_path / "lm.state" / "corpus" / "ids.bin").write_bytes(b"\x01")
    status, message = train("tta", "t.txt", "5", "--steps", "6", "--resume")
    assert status == 2 and "the encoded text is damaged" in message


def test_streams(tmp_path: Path) -> None:
    write_json(tmp_path / "l.json", {"u": {"hyp_1": {"score": 0, "text": "ä \u2713"}}})
    command = f'"{sys.executable}" -m rescore'

    def shell(line: str) -> subprocess.CompletedProcess[bytes]:
        environment = os.environ | {
            "LC_ALL": "C",
            "PYTHONIOENCODING": "ascii",
            "PYTHONUTF8": "0",
        }
        return subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            check=False,
        )

    assert "ä \u2713" in shell(f"{command} convert l.json").stdout.decode("utf-8")
    for line, status in (
        (f"{command} convert -q l.json > /dev/full", 2),
        (f"{command} convert - <&-", 2),
        (f"printf '\\xff' | {command} convert -", 2),
        (f"printf '\\xff' | {command} score --text - --lm tta --strict", 2),
    ):
        done = shell(line)
        assert done.returncode == status and done.stderr.count(b"\n") == 1, (
            line,
            done.stderr,
        )
        assert b"Traceback" not in done.stderr


def test_names_of_files_that_are_not_utf8(tmp_path: Path) -> None:
    hypotheses = {
        f"hyp_{rank}": {"score": -rank, "text": "a" * rank, "scores": {"x": -rank}}
        for rank in (1, 2)
    }
    entry = {"ref": "a", **hypotheses}
    for name in ("dev\udcff.json", "test\udcff.json"):
        write_json(tmp_path / name, {f"u{index}": entry for index in range(3)})
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "dev\udcff.jsonl").touch()
    write_json(
        tmp_path / "plain\udcff.json",
        {"u0": {"ref": "a", "hyp_1": {"score": -1, "text": "a"}}},
    )
    for arguments, status in (
        (["tune", "dev\udcff.json", "--column", "x", "-o", "w\udcff.json"], 0),
        (
            [
                "test\udcff.json",
                "--dev",
                "dev\udcff.json",
                "--lm",
                "ngram:lm.arpa",
                "--html",
                "p",
                "--report",
                "r",
            ],
            0,
        ),
        (
            [
                "compare",
                "test\udcff.json",
                "--dev",
                "dev\udcff.json",
                "--lm",
                "ngram:lm.arpa",
            ],
            0,
        ),
        (["combine", "plain\udcff.json", "plain\udcff.json", "-o", "m.jsonl"], 2),
        (["eval", "dev\udcff.json", "test\udcff.json"], 0),
        (["init", "folder"], 2),
    ):
        done = subprocess.run(
            [program() / "rescore", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status and "Traceback" not in done.stderr, (
            arguments,
            done.stderr,
        )
    assert (tmp_path / "w\udcff.json").exists() and r"test\\xff" in (
        tmp_path / "r"
    ).read_text(encoding="utf-8")


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """A line of bash in a folder with lists, in which `rescore` is this program."""
    write_json(tmp_path / "l.json", {f"u{index}": ENTRY for index in range(3000)})
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")

    def run(line: str) -> subprocess.CompletedProcess[str]:
        defined = f'rescore() {{ "{sys.executable}" -m rescore "$@"; }}; {line}'
        return subprocess.run(
            ["bash", "-c", defined],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    "command",
    [
        "convert l.json",
        "score l.json --lm ngram:lm.arpa",
        "rerank l.json",
        "convert l.json -o >(true; exec 0<&-)",
    ],
)
def test_a_reader_that_goes_away(
    shell: Callable[[str], subprocess.CompletedProcess[str]], command: str
) -> None:
    piped = "" if ">(" in command else "| head -c 1 > /dev/null"
    done = shell(f"rescore {command} {piped}; echo ${{PIPESTATUS[0]}}")
    assert (
        done.stdout == "141\n"
        and "Traceback" not in done.stderr
        and "Exception" not in done.stderr
    ), done


@pytest.mark.parametrize(
    "command", ["convert l.json", "rerank l.json", "eval l.json", "models"]
)
def test_a_closed_stdout(
    shell: Callable[[str], subprocess.CompletedProcess[str]], command: str
) -> None:
    done = shell(f"rescore {command} >&-")
    assert (
        done.returncode == 2
        and done.stderr.splitlines()[-1] == "rescore: error: <stdout>: is closed"
    ), done.stderr
    assert "Traceback" not in done.stderr


def test_interrupted_while_it_starts(tmp_path: Path) -> None:
    """In the middle of an import, which makes something else of an exception."""
    (tmp_path / "click.py").write_text(
        "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    [0 for _"
        " in range(10_000)]\nexcept BaseException:\n    raise ImportError('half of"
        " it')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "rescore", "models"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
        },
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def on_a_full_disk(
    folder: Path, most: int, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """A command that can write `most` bytes into each file. Modules are not compiled:
    they would be cut short, too.
    """

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return subprocess.run(
        [sys.executable, "-B", "-m", "rescore", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )


def test_a_full_disk(tmp_path: Path) -> None:
    write_json(tmp_path / "l.json", {f"u{index}": ENTRY for index in range(2000)})
    command = ["convert", "-q", "l.json", "-o", "out.jsonl"]
    done = on_a_full_disk(tmp_path, 20_000, *command)
    assert_one_line_error(done, "out.jsonl: cannot be written")
    assert [path.name for path in tmp_path.iterdir()] == ["l.json"]


def test_a_full_disk_in_training(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES[:60]), encoding="utf-8")
    write_json(tmp_path / "c.json", TINY)
    options = [
        "--config",
        "c.json",
        "--steps",
        "2",
        "--batch-tokens",
        "200",
        "--held-out",
        "5",
    ]
    done = on_a_full_disk(
        tmp_path,
        40_000,
        "train",
        "--lm",
        "tta",
        "--text",
        "t.txt",
        "--out",
        "lm",
        *options,
    )
    assert (
        done.returncode == 2 and "cannot be written" in done.stderr.splitlines()[-1]
    ), done.stderr
    assert (
        "Traceback" not in done.stderr
        and not (tmp_path / "lm" / "model.safetensors").exists()
    )


def test_sigterm_leaves_finished_parts_alone(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    score = ("score", "-", "--lm", "ngram:lm.arpa", "-o", "out.jsonl")
    command = [sys.executable, "-m", "rescore", *score]
    streams = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with running(command, cwd=tmp_path, **streams) as process:
        assert process.stdin is not None
        for index in range(12_000):
            hyps = [{"score": 0, "text": "the old"}]
            process.stdin.write(json.dumps({"id": f"u{index}", "hyps": hyps}) + "\n")
        process.stdin.flush()
        parts = tmp_path / "out.jsonl.shards"
        until(lambda: [*parts.glob("0*.jsonl")], process)
        process.send_signal(signal.SIGTERM)
        process.stdin.close()
        assert process.wait(timeout=300) == 143
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    finished = {name for name in left if re.fullmatch(r"0\d+-[0-9a-f]+\.jsonl", name)}
    assert finished and left - finished <= {"lm.arpa", "keys.jsonl"}


def test_outputs(rescore: Run, tmp_path: Path) -> None:
    write_json(tmp_path / "l.json", {"u": ENTRY})
    write_json(tmp_path / "w.json", {"weights": {"s2s": 1}})
    done = rescore(
        "rerank", "l.json", "--weights", "w.json", "-o", "x", "--best", "./x"
    )
    assert_one_line_error(done, "--output and --best both write to")
    (tmp_path / "real.jsonl").write_text("")
    (tmp_path / "real.jsonl").chmod(0o600)
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    assert rescore("convert", "l.json", "-o", "link.jsonl").returncode == 0
    assert (tmp_path / "link.jsonl").is_symlink() and (
        tmp_path / "real.jsonl"
    ).read_text()
    assert (tmp_path / "real.jsonl").stat().st_mode & 0o777 == 0o600
    assert rescore("convert", "l.json", "-o", "new.jsonl").returncode == 0
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "new.jsonl").stat().st_mode & 0o777 == 0o666 & ~mask


def test_cells_and_xml(rescore: Run, tmp_path: Path) -> None:
    write_json(tmp_path / "l.json", {"u": ENTRY})
    write_json(tmp_path / "w.json", {"weights": {"s2s": 1}})
    name = "[set\n\\|\x01"
    done = rescore(
        "rerank",
        "l.json",
        "--weights",
        "w.json",
        "--report",
        "r.json",
        "--dataset",
        name,
    )
    assert done.returncode == 0, done.stderr
    for style, lines in (("markdown", 3), ("csv", 2), ("latex", 8)):
        table = (
            rescore("report", "r.json", "--style", style)
            .stdout.split("\n\n")[0]
            .strip()
        )
        assert len(table.splitlines()) == lines, table
    assert "\n{}[set" in rescore("report", "r.json", "--style", "latex").stdout
    assert "| [set \\\\\\|" in rescore("report", "r.json", "--style", "markdown").stdout
    report = json.loads((tmp_path / "r.json").read_text())
    report["metrics"][0]["metric"] = "W\x00\x01"
    write_json(tmp_path / "g.json", report)
    assert rescore("check", "r.json", "--golden", "g.json").returncode == 1
