"""Help, completion, colours, quiet and verbose, bars, `init`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from rescore.cli.main import COMMANDS, cli
from rescore.cli.progress import LogProgress
from rescore.lms import backends
from tests.conftest import ROOT, Run, assert_one_line_error

LISTS = ROOT / "data" / "test.json"


@pytest.mark.parametrize("name", COMMANDS.names)
def test_options_are_in_groups(rescore: Run, name: str) -> None:
    text = rescore(name, "--help-all").stdout
    assert "\nOptions:\n" in text and "-q, --quiet" in text
    if name in ("run", "compare", "rerank"):
        titles = [
            line
            for line in text.splitlines()
            if line.endswith(":") and not line.startswith(" ")
        ]
        assert (
            titles[0] == "Options:"
            and "Lists and references:" in titles
            and "What is measured:" in titles
        )


def test_help_fits_a_terminal() -> None:
    for name in ("", *COMMANDS):
        text = (
            CliRunner()
            .invoke(cli, [*([name] if name else []), "-h"], prog_name="rescore")
            .output
        )
        assert len(text.splitlines()) <= 45
        if name:
            assert re.search(r"^  .*\brescore ", text, re.MULTILINE), name  # an example
            text += (
                CliRunner()
                .invoke(cli, [name, "--help-all"], prog_name="rescore")
                .output
            )
        assert [line for line in text.splitlines() if len(line) > 80] == [], name


@pytest.mark.parametrize("former", ["--optimum", "--flat"])
def test_former_names_of_options_are_gone(rescore: Run, former: str) -> None:
    for name in ("run", "tune"):
        assert_one_line_error(
            rescore(name, "dev.jsonl", former), "No such option", former
        )


def test_did_you_mean(rescore: Run) -> None:
    assert_one_line_error(
        rescore("tunes", "x.json"), "tunes: no such file or command; did you mean tune?"
    )
    assert_one_line_error(rescore("xyzzy"), "commands are run, score")
    assert rescore("Models").stdout == rescore("models").stdout
    assert_one_line_error(
        rescore(LISTS, "--lm", "tt", "--weight", "0.3"), "did you mean"
    )
    assert_one_line_error(rescore(LISTS, "--metric", "blue"), "bleu")
    for lm, meant in (
        ("lexical:chanel:DIR", "channel"),
        ("tta:contxt=2", "context"),
        ("bilm:intct", "intact"),
    ):
        wrong = lm.partition(":")[2]
        done = rescore(LISTS, "--lm", lm, "--weight", "0.3")
        assert_one_line_error(done, f"--lm {lm}: {wrong}", f"did you mean {meant}?")
    respell = (
        "--lm",
        "tta",
        "--dev",
        ROOT / "data" / "dev.json",
        "--respell",
        "5",
        "--channel",
    )
    assert_one_line_error(
        rescore(LISTS, *respell, "shiped"),
        "--channel shiped: no such folder; did you mean shipped?",
    )


def test_names_of_commands_and_options_are_completed() -> None:
    words = {"COMP_WORDS": "rescore tun", "COMP_CWORD": "1"}
    environment = {"_RESCORE_COMPLETE": "bash_complete", "PATH": "/", **words}
    done = subprocess.run(
        [str(Path(sys.executable).parent / "rescore")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "tune" in done.stdout
    complete = ShellComplete(cli, {}, "rescore", "_RESCORE_COMPLETE")
    assert "--metric" in [
        item.value for item in complete.get_completions(["run", "x.json"], "--m")
    ]
    for option, typed, value in (
        ("--align", "", "sclite"),
        ("--decide", "ro", "rover"),
        ("--metric", "chr", "chrf"),
    ):
        found = complete.get_completions(["run", "x.json", option], typed)
        assert value in [item.value for item in found]


def test_quiet_and_verbose(rescore: Run, tmp_path: Path) -> None:
    lists = '{"id": "u", "hyps": [{"text": "a"}, {"text": "a"}]}\n'
    (tmp_path / "l.jsonl").write_text(lists, encoding="utf-8")
    assert "1 list has no scores" in rescore("convert", "l.jsonl").stderr
    assert "hypothesis twice" not in rescore("convert", "l.jsonl").stderr
    assert "1 list has a hypothesis twice" in rescore("convert", "l.jsonl", "-v").stderr
    assert rescore("convert", "l.jsonl", "-q").stderr == ""
    assert_one_line_error(rescore("convert", "nothing.json", "-q"), "no such file")


def test_colours(rescore: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from rescore.cli.main import styled

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert styled("error:", "red") == "\x1b[31merror:\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled("error:", "red") == "error:"
    assert "\x1b" not in rescore("nothing.json").stderr


def test_a_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(LogProgress, "FIRST", 3.0)
    caplog.set_level("INFO", logger="rescore")
    with LogProgress(10_000, "score tta", "hyp") as bar:
        for second, number in (
            (30, 1000),
            (61, 1000),
            (90, 1000),
            (125, 3000),
            (151, 3990),
        ):
            now[0] = float(second)
            bar.update(number)
    assert [record.getMessage() for record in caplog.records] == [
        # the clock starts with the first scores; the first line comes soon
        "score tta: 2,000 of 10,000 hyp, 32 a second, 4 minutes to go",
        # then a line a minute, on average from the start on
        "score tta: 6,000 of 10,000 hyp, 53 a second, 1 minute to go",
    ]


def test_models_tell_what_they_are(rescore: Run) -> None:
    table = rescore("models").stdout
    row = next(line for line in table.splitlines() if line.startswith("tta "))
    assert " en " in row and str(ROOT / "models" / "tta") in row and "novels" in row


def test_every_shipped_model_has_its_name(rescore: Run) -> None:
    table = rescore("models").stdout
    assert {
        path.parent.name for path in (ROOT / "models").glob("*/config.json")
    } <= set(table.split())
    assert "kind: tta" in rescore("models", "tta-small").stdout
    by_name, by_path = (
        backends.parse("tta-small"),
        backends.parse(f"tta:{ROOT / 'models' / 'tta-small'}"),
    )
    assert (by_name.kind, by_name.path.resolve()) == ("tta", by_path.path)
    assert backends.parse("tta-small:context=1").options == ("context=1",)


def test_init_finds_all_pairs_and_follows_links(rescore: Run, tmp_path: Path) -> None:
    """It took one pair and did not say what it left out; it did not look behind
    links.
    """
    (tmp_path / "disk").mkdir()
    for name in ("dev_clean", "dev_other", "test_clean", "test_other", "train_nodup"):
        (tmp_path / "disk" / f"decode_{name}" / "logdir").mkdir(parents=True)
        (tmp_path / "asr1" / "data" / name).mkdir(parents=True)
        (tmp_path / "asr1" / "data" / name / "text").write_text("u a\n")
    (tmp_path / "disk" / "decode_test_other").rename(tmp_path / "other")
    (tmp_path / "disk" / "decode_test_other").symlink_to(tmp_path / "other")
    (tmp_path / "asr1" / "exp").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "back").symlink_to(tmp_path / "asr1")
    done = rescore("init", "asr1")
    makefile = (tmp_path / "asr1" / "Makefile").read_text()
    assert makefile.splitlines()[1:6] == [
        "TESTS := test_clean test_other",
        *(
            f"{kind.upper()}_test_{name}{blanks}:= exp/decode_{kind}_{name} --ref"
            f" data/{kind}_{name}/text"
            for name in ("clean", "other")
            for kind, blanks in (("dev", "  "), ("test", " "))
        ),
    ]
    assert "left out: exp/decode_train_nodup\nnext: make\n" in done.stdout
    (tmp_path / "one").mkdir()
    for name in ("dev", "test1", "test2"):
        (tmp_path / "one" / f"{name}.jsonl").touch()
    rescore("init", "one")
    assert (
        "TESTS := test1 test2\nDEV  := dev.jsonl\nTEST_test1 := test1.jsonl\n"
        in (tmp_path / "one" / "Makefile").read_text()
    )


_ESPNET2 = "exp/asr_train_conformer_raw_en_bpe5000_sp/decode_asr_model_valid.acc.ave"
_ESPNET2_LM = (
    "exp/asr_train_conformer/decode_lm_lm_train_devset_valid.loss.ave"
    "_asr_model_valid.acc.ave"
)
_ESPNET1 = "exp/train_nodev_pytorch_train/decode_{}_model.valid.best_decode_rnnlm"
_ICEFALL = (
    "exp/modified_beam_search/recogs-{}-epoch-30-avg-9-modified_beam_search"
    "-beam-size-4.txt"
)


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        (
            [
                f"{_ESPNET2}/{name}/logdir/output.1/1best_recog/text"
                for name in ("dev", "test_a", "test_b")
            ]
            + [
                f"data/{name}/text"
                for name in ("dev", "test_a", "test_b", "train_nodev")
            ],
            ["TESTS := test_a test_b", f"DEV  := {_ESPNET2}/dev --ref data/dev/text"]
            + [
                f"TEST_{name} := {_ESPNET2}/{name} --ref data/{name}/text"
                for name in ("test_a", "test_b")
            ],
        ),
        (
            [
                f"{_ESPNET2_LM}/{name}/logdir/output.1/1best_recog/text"
                for name in ("org/dev", "test_a")
            ]
            + ["dump/raw/org/dev/text", "dump/raw/test_a/text"],
            [
                f"DEV  := {_ESPNET2_LM}/org/dev --ref dump/raw/org/dev/text",
                f"TEST := {_ESPNET2_LM}/test_a --ref dump/raw/test_a/text",
            ],
        ),
        (
            [
                f"{_ESPNET1.format(name)}/data.json"
                for name in ("dev_clean", "test_clean", "test_other")
            ]
            + ["dump/dev_clean/deltafalse/data.json"],
            [
                "TESTS := test_clean test_other",
                f"DEV  := {_ESPNET1.format('dev_clean')}",
                *(
                    f"TEST_{name} := {_ESPNET1.format(name)}"
                    for name in ("test_clean", "test_other")
                ),
            ],
        ),
        (
            [
                f"exp/chain/tdnn1d_valid/decode_{name}/archives.{n}/words_text"
                for n in (1, 2)
                for name in ("nosp_test_dev93", "nosp_test_eval92")
            ]
            + [f"data/{name}/text" for name in ("test_dev93", "test_eval92")],
            [
                (
                    "DEV  := exp/chain/tdnn1d_valid/decode_nosp_test_dev93 --ref"
                    " data/test_dev93/text"
                ),
                (
                    "TEST := exp/chain/tdnn1d_valid/decode_nosp_test_eval92 --ref"
                    " data/test_eval92/text"
                ),
            ],
        ),
        (
            [
                _ICEFALL.format(name)
                for name in ("dev-clean", "dev-other", "test-clean", "test-other")
            ],
            ["TESTS := test_clean test_other"]
            + [
                f"{kind.upper()}_test_{name}{blank}:="
                f" {_ICEFALL.format(f'{kind}-{name}')}"
                for name in ("clean", "other")
                for kind, blank in (("dev", "  "), ("test", " "))
            ],
        ),
        (
            [f"results/{name}.log" for name in ("valid", "test", "test2", "test3")],
            ["TESTS := test test2 test3", "DEV  := results/valid.log"]
            + [
                f"TEST_{name} := results/{name}.log"
                for name in ("test", "test2", "test3")
            ],
        ),
        (
            [
                f"checkpoints/valid_bleu/generate-{name}.txt"
                for name in ("test", "test1")
            ],
            ["TESTS := test test1", "DEV  := path/to/dev --ref path/to/dev/text"]
            + [
                f"TEST_{name} := checkpoints/valid_bleu/generate-{name}.txt"
                for name in ("test", "test1")
            ],
        ),
    ],
    ids=[
        "espnet2",
        "espnet2-lm",
        "espnet1",
        "kaldi",
        "icefall",
        "fairseq",
        "fairseq-without-dev",
    ],
)
def test_init_on_the_standard_tree_of_a_toolkit(
    files: list[str], lines: list[str], rescore: Run, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("S-0\ta\n", encoding="utf-8")
    done = rescore("init", ".")
    assert (tmp_path / "Makefile").read_text().splitlines()[1 : len(lines) + 1] == lines
    assert (
        "next: make" if "path/to" not in lines[1] else "next: fill in DEV"
    ) in done.stdout


def test_init(rescore: Run, tmp_path: Path) -> None:
    """In an ESPnet2, a fairseq and an empty folder."""
    for name in ("dev_clean", "test_clean"):
        best = (
            tmp_path
            / "asr1"
            / "exp"
            / "asr"
            / f"decode_{name}"
            / "logdir"
            / "output.1"
            / "1best_recog"
        )
        best.mkdir(parents=True)
        (tmp_path / "asr1" / "data" / name).mkdir(parents=True)
        (tmp_path / "asr1" / "data" / name / "text").write_text("u a\n")
    done = rescore("init", "asr1")
    made = (tmp_path / "asr1" / "Makefile").read_text()
    assert "DEV  := exp/asr/decode_dev_clean --ref data/dev_clean/text\n" in made
    assert "TEST := exp/asr/decode_test_clean --ref data/test_clean/text\n" in made
    assert "include $(shell rescore recipe)" in made and done.stdout.endswith(
        "next: make\n"
    )
    assert_one_line_error(rescore("init", "asr1"), "exists already")
    (tmp_path / "mt").mkdir()
    for name in ("generate-valid.txt", "generate-test.txt"):
        (tmp_path / "mt" / name).write_text("S-0\ta\n")
    assert "model that reads the source" in rescore("init", "mt").stdout
    assert "LM := hf-seq2seq:FOLDER" in (tmp_path / "mt" / "Makefile").read_text()
    assert (
        "# TUNE_OPTIONS := --decide mbr\n" in (tmp_path / "mt" / "Makefile").read_text()
    )
    assert (
        "DEV  := generate-valid.txt\nTEST := generate-test.txt\n"
        in (tmp_path / "mt" / "Makefile").read_text()
    )
    (tmp_path / "marian").mkdir()
    for name in ("dev", "test"):
        (tmp_path / "marian" / f"nbest.{name}").write_text(
            "0 ||| a ||| F0= -1 ||| -1\n"
        )
    done = rescore("init", "marian")
    assert (
        "model that reads the source" in done.stdout
        and "next: fill in DEV and TEST" in done.stdout
    )
    made = (tmp_path / "marian" / "Makefile").read_text()
    assert (
        "DEV  := nbest.dev --ref path/to/dev/ref --src path/to/dev/src\n" in made
        and "--ref path/to/test/ref --src" in made
    )
    assert "LM := tta" not in made
    (tmp_path / "hf").mkdir()
    for name in ("dev", "test"):
        (tmp_path / "hf" / f"{name}.jsonl").write_text(
            '{"id": "0", "ref": "a", "src": "b", "hyps": [{"text": "a"}]}\n'
        )
    assert "model that reads the source" in rescore("init", "hf").stdout
    assert (
        "# TUNE_OPTIONS := --decide mbr\n" in (tmp_path / "hf" / "Makefile").read_text()
    )
    (tmp_path / "bare" / "decode_dev" / "logdir").mkdir(parents=True)
    assert "next: fill in DEV and TEST" in rescore("init", "bare").stdout, (
        "no text of data/dev"
    )
    (tmp_path / "empty").mkdir()
    assert "fill in DEV and TEST" in rescore("init", "empty").stdout
    assert_one_line_error(rescore("init", "nowhere"), "no such folder")
