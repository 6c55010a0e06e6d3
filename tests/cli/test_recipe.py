"""The Makefile fragment on decode folders as toolkits write them: from folder to
RESULTS.md, and nothing twice.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rescore import formats
from rescore.nbest import NbestList
from tests.conftest import ROOT, assert_one_line_error, run_main
from tests.forking import program
from tests.lms.test_ngram import ARPA


def lists(name: str) -> list[NbestList]:
    return formats.read([ROOT / "data" / f"{name}.json"])[:25]


def espnet2(folder: Path, name: str, depth: int | None = None) -> str:
    """A decode folder as ESPnet2 leaves it; returns what stands behind `DEV :=`."""
    for nbest in lists(name):
        for rank, hypothesis in enumerate(nbest.hypotheses[:depth], 1):
            place = folder / name / "logdir" / "output.1" / f"{rank}best_recog"
            place.mkdir(parents=True, exist_ok=True)
            with (
                (place / "text").open("a") as text,
                (place / "score").open("a") as score,
            ):
                text.write(f"{nbest.id} {hypothesis.text}\n")
                score.write(f"{nbest.id} tensor({hypothesis.scores['s2s']})\n")
    with (folder / f"{name}.ref").open("w") as file:
        file.writelines(f"{nbest.id} {nbest.references[0]}\n" for nbest in lists(name))
    return f"{name} --ref {name}.ref"


def espnet1(folder: Path, name: str) -> str:
    utterances = {}
    for nbest in lists(name):
        output = [
            {
                "name": f"target1[{rank}]",
                "text": nbest.references[0],
                "rec_text": hypothesis.text.replace(" ", "▁"),
                "score": hypothesis.scores["s2s"],
            }
            for rank, hypothesis in enumerate(nbest.hypotheses, 1)
        ]
        utterances[nbest.id] = {"output": output}
    (folder / name).mkdir()
    (folder / name / "data.json").write_text(
        json.dumps({"utts": utterances}), encoding="utf-8"
    )
    return name


def fairseq(folder: Path, name: str) -> str:
    lines = []
    for index, nbest in enumerate(lists(name)):
        lines += [f"S-{index}\tein Satz", f"T-{index}\t{nbest.references[0]}"]
        for hypothesis in nbest.hypotheses:
            lines += [
                f"H-{index}\t{hypothesis.scores['s2s'] / 1e3}\t{hypothesis.text}",
                f"P-{index}\t-0.1",
            ]
    (folder / f"{name}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{name}.log"


def moses(folder: Path, name: str) -> str:
    lines = [
        f"{index} ||| {hypothesis.text} ||| LM0= -1 ||| {hypothesis.scores['s2s']}"
        for index, nbest in enumerate(lists(name))
        for hypothesis in nbest.hypotheses
    ]
    (folder / f"{name}.nbest").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / f"{name}.en").write_text(
        "".join(f"{nbest.references[0]}\n" for nbest in lists(name)), encoding="utf-8"
    )
    return f"{name}.nbest --ref {name}.en"


def make(
    folder: Path, *arguments: str, installed: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run make; `installed` with the program that users have."""
    if shutil.which("make") is None:
        pytest.skip("needs make")
    programs = [*([] if installed else [program()]), Path(sys.executable).parent]
    path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def make_older(folder: Path) -> None:
    """Make all that is in a folder ten seconds older: a file that changes now is newer,
    however coarse the times of a file system are.
    """
    for path in folder.rglob("*"):
        about = path.lstat()
        times = (about.st_atime_ns - 10**10, about.st_mtime_ns - 10**10)
        os.utime(path, ns=times, follow_symlinks=False)


@pytest.mark.parametrize("toolkit", [espnet2, espnet1, moses])
def test_from_folder_to_table(toolkit: object, tmp_path: Path) -> None:
    assert callable(toolkit)
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    dev, test = toolkit(tmp_path, "dev"), toolkit(tmp_path, "test")
    (tmp_path / "Makefile").write_text(
        f"DEV := {dev}\nTEST := {test}\ninclude $(shell rescore recipe)\nLM :="
        " ngram:lm.arpa\nTUNE_OPTIONS := --column ngram\n",
        encoding="utf-8",
    )
    first = make(tmp_path, installed=toolkit is espnet1)
    assert first.returncode == 0, first.stderr
    table = (tmp_path / "rescored" / "RESULTS.md").read_text()
    assert (
        "| dev, first pass | 25 |" in table
        and "| test, first pass | 25 |" in table
        and "| test, ngram | 25 |" in table
    )
    assert len((tmp_path / "rescored" / "test.trn").read_text().splitlines()) == 25
    # A second time there is nothing to do.
    again = make(tmp_path)
    assert again.returncode == 0 and "rescore " not in again.stdout.replace(
        "make: ", ""
    )
    assert "rescore " not in make(tmp_path, "--dry-run").stdout.replace("make: ", "")
    assert make(tmp_path, "all").returncode == 0
    # Of one touched dev file, what depends on it is made anew: the test set is not
    # scored again.
    make_older(tmp_path)
    next(
        path
        for path in [*(tmp_path / "dev").rglob("*"), tmp_path / "dev.en"]
        if path.is_file()
    ).touch()
    planned, again = make(tmp_path, "--dry-run").stdout, make(tmp_path).stdout
    assert (
        "-o rescored/dev.dev.scored.jsonl.gz" in planned
        and "-o rescored/test.scored.jsonl.gz" not in planned
    )
    assert (
        "dev.scored.jsonl.gz" in again
        and "weights.json" in again
        and "test.results.json" in again
    )
    assert "-o rescored/test.scored.jsonl.gz" not in again
    # Of other options, what depends on them.
    again = make(tmp_path, "MEASURE_OPTIONS=--metric cer").stdout
    assert "rescore tune" in again and "rescore score" not in again


@pytest.mark.parametrize(
    "argument",
    ["{}", "--ref={}/text", "--channel={}", "ngram:{}/text", "{}/te*", "{}/te[x]t"],
)
def test_files_that_arguments_name_are_prerequisites(
    argument: str, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "text").write_text("u a\n", encoding="utf-8")
    (tmp_path / "linked").symlink_to("elsewhere")
    (tmp_path / "Makefile").write_text(
        "include $(shell rescore recipe)\n", encoding="utf-8"
    )
    stamp = tmp_path / "rescored" / "tune.stamp"

    def written() -> int:
        assert (
            make(
                tmp_path,
                "rescored/tune.stamp",
                f"TUNE_OPTIONS={argument.format('linked')}",
            ).returncode
            == 0
        )
        return stamp.stat().st_mtime_ns

    written()
    make_older(tmp_path)
    before = stamp.stat().st_mtime_ns
    assert written() == before
    (tmp_path / "elsewhere" / "text").write_text("u a b\n", encoding="utf-8")
    assert written() != before


def test_several_sets_of_a_translator(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    dev, test = fairseq(tmp_path, "dev"), fairseq(tmp_path, "test")
    lines = [
        f"DEV := {dev}",
        "TESTS := one two",
        f"TEST_one := {test}",
        f"TEST_two := {dev}",
        "LM := ngram:lm.arpa",
    ]
    (tmp_path / "Makefile").write_text(
        "\n".join(
            [
                *lines,
                "MEASURE_OPTIONS := --metric wer",
                "include $(shell rescore recipe)",
            ]
        ),
        encoding="utf-8",
    )
    done = make(tmp_path, "-j2")
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "rescored" / "RESULTS.md").read_text().splitlines()
    assert [
        row.split(" |")[0] for row in rows if ", " in row and row.startswith("| ")
    ] == [
        "| dev, first pass",
        "| dev, ngram",
        "| one, first pass",
        "| one, ngram",
        "| two, first pass",
        "| two, ngram",
    ]


def test_a_translator_is_measured_as_translations_are(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lines = [
        f"DEV := {fairseq(tmp_path, 'dev')}",
        f"TEST := {fairseq(tmp_path, 'test')}",
        "LM := ngram:lm.arpa",
    ]
    lines += [
        "MEASURE_OPTIONS := --metric bleu --metric chrf",
        "include $(shell rescore recipe)",
    ]
    (tmp_path / "Makefile").write_text("\n".join(lines), encoding="utf-8")
    done = make(tmp_path)
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "rescored" / "RESULTS.md").read_text()
    for metric in ("BLEU", "chrF"):
        rows = table.split(f"### {metric}\n\n")[1].splitlines()
        assert rows[0] == f"| dataset | Snt | {metric} | 95 % CI | p |"
        assert [row.split(" |")[0] for row in rows[2:6]] == [
            "| dev, first pass",
            "| dev, ngram",
            "| test, first pass",
            "| test, ngram",
        ]
    assert "rescore " not in make(tmp_path).stdout.replace("make: ", "")


def test_a_folder_of_fairseq_logs_from_init_to_the_table(tmp_path: Path) -> None:
    """One folder per set, with the parts of it, and files that are no logs."""
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    for name in ("valid", "test"):
        fairseq(tmp_path, name.replace("valid", "dev"))
        log = tmp_path / f"{name.replace('valid', 'dev')}.log"
        lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        (folder / "generate-1.txt").write_text(
            "".join(lines[: lines.index("S-9\tein Satz\n")]), encoding="utf-8"
        )
        (folder / "generate-2.txt").write_text(
            "".join(lines[lines.index("S-9\tein Satz\n") :]), encoding="utf-8"
        )
        (folder / "notes.txt").write_text("beam 5\n", encoding="utf-8")
        log.unlink()
    assert (
        "dev results/valid, test results/test\ntranslation: "
        in run_main("init", tmp_path).stdout
    )
    made = make(tmp_path, "LM=ngram:lm.arpa")
    assert made.returncode == 0, made.stderr
    table = (tmp_path / "rescored" / "RESULTS.md").read_text()
    for metric in ("BLEU", "chrF"):
        rows = table.split(f"### {metric}\n\n")[1].splitlines()
        assert [row.split("| ")[1:3] for row in rows[2:6:2]] == [
            ["dev, first pass ", "25 "],
            ["test, first pass ", "25 "],
        ]
    times = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "rescored").iterdir()
    }
    again = make(tmp_path, "LM=ngram:lm.arpa")
    assert again.returncode == 0 and "rescore " not in again.stdout.replace(
        "make: ", ""
    )
    assert times == {
        path: path.stat().st_mtime_ns for path in (tmp_path / "rescored").iterdir()
    }


def test_other_rows_and_options_make_another_table(tmp_path: Path) -> None:
    """Models may be named behind the include; options and sets of the report that
    change make it anew.
    """
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    dev, test = espnet2(tmp_path, "dev"), espnet2(tmp_path, "test")
    lines = [
        f"DEV := {dev}",
        f"TEST_a := {test}",
        f"TEST_b := {dev}",
        "TESTS ?= a b",
        "include $(shell rescore recipe)",
    ]
    lines += ["LM := ngram:lm.arpa ngram:lower:lm.arpa"]
    (tmp_path / "Makefile").write_text("\n".join(lines), encoding="utf-8")
    table = tmp_path / "rescored" / "RESULTS.md"

    def rows(*arguments: str) -> str:
        done = make(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
        return table.read_text()

    first = rows()
    assert (
        "| a, ngram |" in first
        and "| a, ngram:lower |" in first
        and "| a, ngram + ngram:lower |" in first
    )
    assert (tmp_path / "rescored" / "dev.lm2.weights.json").exists()
    assert "| b, ngram |" in first and "| b, ngram |" not in rows("TESTS=a")
    assert "| a, ngram |" not in rows("TESTS=a", "REPORT_OPTIONS=--layout paper")
    assert "rescore " not in make(
        tmp_path, "TESTS=a", "REPORT_OPTIONS=--layout paper"
    ).stdout.replace("make: ", "")


def test_several_models_and_a_dev_set_for_each_test_set(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    dev, test = espnet2(tmp_path, "dev"), espnet2(tmp_path, "test")
    lines = [
        f"DEV_a := {dev}",
        f"TEST_a := {test}",
        f"DEV_b := {test}",
        f"TEST_b := {dev}",
        "TESTS := a b",
    ]
    lines += [
        "LM := ngram:lm.arpa ngram:lower:lm.arpa",
        "MEASURE_OPTIONS := --metric wer --metric cer",
    ]
    (tmp_path / "Makefile").write_text(
        "\n".join([*lines, "include $(shell rescore recipe)"]), encoding="utf-8"
    )
    done = make(tmp_path, "-j2")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "rescored" / "RESULTS.md").read_text()
    wer, cer = text.split("### CER")
    systems = ("ngram", "ngram:lower", "ngram + ngram:lower")
    for name in ("a.dev", "b.dev", "a", "b"):
        assert all(
            f"| {name}, {system} |" in part for system in systems for part in (wer, cer)
        )
    weights = json.loads((tmp_path / "rescored" / "b.lm2.weights.json").read_text())
    assert (
        set(weights["weights"]) == {"s2s", "ngram:lower"}
        and weights["tuning"]["lists"] == 25
    )
    assert make(tmp_path, "-q").returncode == 0 or "rescore " not in make(
        tmp_path
    ).stdout.replace("make: ", "")


def test_several_readings_of_a_model(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / f"{side}.txt").write_text("das haus\ndie uhr\n", encoding="utf-8")
    pairs = (str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    assert run_main(
        "train",
        "--lm",
        "lexical",
        "--pairs",
        *pairs,
        "--pieces",
        "0",
        "--out",
        tmp_path / "lm",
    ).stderr
    lines = [
        f"DEV := {fairseq(tmp_path, 'dev')}",
        f"TEST := {fairseq(tmp_path, 'test')}",
        "LM := lexical:length:lm lexical:channel:coverage:lm",
    ]
    (tmp_path / "Makefile").write_text(
        "\n".join([*lines, "include $(shell rescore recipe)"]), encoding="utf-8"
    )
    done = make(tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "rescored" / "RESULTS.md").read_text()
    assert (
        "| test, lexical:channel:coverage |" in text
        and "| test, lexical:length |" in text
    )


def test_a_failing_step_leaves_no_half_file(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    (tmp_path / "Makefile").write_text(
        "DEV := no/where\nTEST := no/where\nLM := ngram:lm.arpa\ninclude $(shell"
        " rescore recipe)\n",
        encoding="utf-8",
    )
    done = make(tmp_path)
    assert done.returncode == 2 and "no/where: no such file or folder" in done.stderr
    assert not [
        path for path in (tmp_path / "rescored").iterdir() if path.suffix != ".stamp"
    ]


def test_file_names_are_not_executed(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    espnet2(tmp_path, "dev")
    place = tmp_path / "my: folder"
    (tmp_path / "dev").rename(place)
    (place / "$(shell touch PWNED)").write_text("x", encoding="utf-8")
    lines = [
        "DEV := 'my: folder' --ref dev.ref",
        "TEST := $(DEV)",
        "LM := ngram:lm.arpa",
        "include $(shell rescore recipe)",
    ]
    (tmp_path / "Makefile").write_text("\n".join(lines), encoding="utf-8")
    for arguments in (["-n"], ["TUNE_OPTIONS=--column ngram"]):
        done = make(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "PWNED").exists()
    make_older(tmp_path)
    (place / "new").write_text("y", encoding="utf-8")
    assert "rescore score" in make(tmp_path, "TUNE_OPTIONS=--column ngram").stdout


@pytest.mark.parametrize(
    "name",
    ["$(shell touch PWNED)", "`touch PWNED`", "a b;touch PWNED", "-o 'x' #y", '$$ "z"'],
)
def test_init_quotes_names(tmp_path: Path, name: str) -> None:
    lines = {
        kind: json.dumps(
            {"id": "u", "ref": kind, "hyps": [{"text": kind, "score": -1}]}
        )
        for kind in ("dev", "test")
    }
    for kind, line in lines.items():
        (tmp_path / f"{name} {kind}.jsonl").write_text(line + "\n", encoding="utf-8")
    assert run_main("init", tmp_path).returncode == 0
    # what the shell is given in the end
    with (tmp_path / "Makefile").open("a", encoding="utf-8") as file:
        file.write("show:\n\t@printf '%s\\n' $(DEV_dev) $(TEST_test)\n")
    shown = make(tmp_path, "show")
    before = "./" if name.startswith("-") else ""
    assert shown.stdout.splitlines() == [
        f"{before}{name} {kind}.jsonl" for kind in lines
    ], shown.stderr
    done = make(tmp_path, "rescored/dev.dev.stamp")
    assert done.returncode == 0 and "rescored" in {
        path.name for path in tmp_path.iterdir()
    }
    assert not list(tmp_path.rglob("PWNED"))


@pytest.mark.parametrize("name", ["a\n\ttouch PWNED\n", "a\\", "a\x01"])
def test_init_refuses_names(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}dev.jsonl").write_text("{}")
    assert_one_line_error(run_main("init", tmp_path), "rename it", ascii(name)[1:-1])
    assert not (tmp_path / "Makefile").exists()


def test_init_within_a_decode_folder(tmp_path: Path) -> None:
    (tmp_path / "decode_test" / "logdir").mkdir(parents=True)
    done = run_main("init", tmp_path / "decode_test")
    assert done.returncode == 0, done.stderr
    made = (tmp_path / "decode_test" / "Makefile").read_text(encoding="utf-8")
    assert "TEST := . --ref path/to/test/text\n" in made
