"""The Makefile fragment on decode folders as toolkits write them: from folder to RESULTS.md, and nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rescore import formats
from rescore.nbest import NbestList
from tests.conftest import ROOT
from tests.scoring.test_ngram import ARPA


def lists(name: str) -> list[NbestList]:
    return formats.read([ROOT / "data" / f"{name}.json"])[:25]


def espnet2(folder: Path, name: str) -> str:
    """A decode folder as ESPnet2 leaves it; returns what stands behind `DEV :=`."""
    for nbest in lists(name):
        for rank, hypothesis in enumerate(nbest.hypotheses, 1):
            place = folder / name / "logdir" / "output.1" / f"{rank}best_recog"
            place.mkdir(parents=True, exist_ok=True)
            with (place / "text").open("a") as text, (place / "score").open("a") as score:
                text.write(f"{nbest.id} {hypothesis.text}\n")
                score.write(f"{nbest.id} tensor({hypothesis.scores['s2s']})\n")
    with (folder / f"{name}.ref").open("w") as file:
        file.writelines(f"{nbest.id} {nbest.references[0]}\n" for nbest in lists(name))
    return f"{name} --ref {name}.ref"


def espnet1(folder: Path, name: str) -> str:
    utterances = {}
    for nbest in lists(name):
        output = [
            {"name": f"target1[{rank}]", "text": nbest.references[0], "rec_text": hypothesis.text.replace(" ", "▁"),
             "score": hypothesis.scores["s2s"]}
            for rank, hypothesis in enumerate(nbest.hypotheses, 1)
        ]  # fmt: skip
        utterances[nbest.id] = {"output": output}
    (folder / name).mkdir()
    (folder / name / "data.json").write_text(json.dumps({"utts": utterances}), encoding="utf-8")
    return name


def fairseq(folder: Path, name: str) -> str:
    lines = []
    for index, nbest in enumerate(lists(name)):
        lines += [f"S-{index}\tein Satz", f"T-{index}\t{nbest.references[0]}"]
        for hypothesis in nbest.hypotheses:
            lines += [f"H-{index}\t{hypothesis.scores['s2s'] / 1e3}\t{hypothesis.text}", f"P-{index}\t-0.1"]
    (folder / f"{name}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{name}.log"


def moses(folder: Path, name: str) -> str:
    lines = [
        f"{index} ||| {hypothesis.text} ||| LM0= -1 ||| {hypothesis.scores['s2s']}"
        for index, nbest in enumerate(lists(name))
        for hypothesis in nbest.hypotheses
    ]
    (folder / f"{name}.nbest").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / f"{name}.en").write_text("".join(f"{nbest.references[0]}\n" for nbest in lists(name)), encoding="utf-8")
    return f"{name}.nbest --ref {name}.en"


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("make") is None:
        pytest.skip("needs make")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("toolkit", [espnet2, espnet1, moses])
def test_from_folder_to_table(toolkit: object, tmp_path: Path) -> None:
    assert callable(toolkit)
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    dev, test = toolkit(tmp_path, "dev"), toolkit(tmp_path, "test")
    (tmp_path / "Makefile").write_text(
        f"DEV := {dev}\nTEST := {test}\ninclude $(shell rescore recipe)\nLM := ngram:lm.arpa\n"
        "TUNE_OPTIONS := --column ngram\n",
        encoding="utf-8",
    )
    first = make(tmp_path)
    assert first.returncode == 0, first.stderr
    table = (tmp_path / "rescored" / "RESULTS.md").read_text()
    assert (
        table.startswith("| dataset | Snt |")
        and "| test, first pass | 25 |" in table
        and "| test, ngram | 25 |" in table
    )
    assert len((tmp_path / "rescored" / "test.trn").read_text().splitlines()) == 25
    # A second time there is nothing to do.
    again = make(tmp_path)
    assert again.returncode == 0 and "rescore " not in again.stdout.replace("make: ", "")
    # Of one touched dev file, what depends on it is made anew: the test set is not scored again.
    time.sleep(0.05)
    next(path for path in [*(tmp_path / "dev").rglob("*"), tmp_path / "dev.en"] if path.is_file()).touch()
    again = make(tmp_path).stdout
    assert "dev.scored.jsonl.gz" in again and "weights.json" in again and "test.results.json" in again
    assert "-o rescored/test.scored.jsonl.gz" not in again
    # Of other options, what depends on them.
    again = make(tmp_path, "MEASURE_OPTIONS=--metric cer").stdout
    assert "rescore tune" in again and "rescore score" not in again


def test_several_sets_of_a_translator(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    dev, test = fairseq(tmp_path, "dev"), fairseq(tmp_path, "test")
    lines = [f"DEV := {dev}", "TESTS := one two", f"TEST_one := {test}", f"TEST_two := {dev}", "LM := ngram:lm.arpa"]
    (tmp_path / "Makefile").write_text(
        "\n".join([*lines, "MEASURE_OPTIONS := --metric wer", "include $(shell rescore recipe)"]), encoding="utf-8"
    )
    done = make(tmp_path, "-j2")
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "rescored" / "RESULTS.md").read_text().splitlines()
    assert [row.split(" |")[0] for row in rows[2:6]] == [
        "| one, first pass", "| one, ngram.mean", "| two, first pass", "| two, ngram.mean",
    ]  # fmt: skip


def test_a_failing_step_leaves_no_half_file(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    (tmp_path / "Makefile").write_text(
        "DEV := no/where\nTEST := no/where\nLM := ngram:lm.arpa\ninclude $(shell rescore recipe)\n", encoding="utf-8"
    )
    done = make(tmp_path)
    assert done.returncode == 2 and "no/where: no such file or folder" in done.stderr
    assert not [path for path in (tmp_path / "rescored").iterdir() if path.suffix != ".stamp"]


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
    time.sleep(0.05)
    (place / "new").write_text("y", encoding="utf-8")
    assert "rescore score" in make(tmp_path, "TUNE_OPTIONS=--column ngram").stdout
