"""`make bench-smoke` runs every script of benchmarks/ and fails if a script fails; here
the driver, with the quickest script, and the clock.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import save_file

from rescore.lms.lexicon import Lexicon
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import ROOT

BENCHMARKS = ROOT / "benchmarks"

Load = Callable[[str], ModuleType]
"""Imports a module of benchmarks/ by its name."""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports a module of benchmarks/ for one test."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("common", "conditional", "models", "objectives", "respelled", "smoke"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module


@pytest.fixture
def smoke(load: Load) -> ModuleType:
    return load("smoke")


def test_each_script_is_run(smoke: ModuleType) -> None:
    scripts = set()
    for path in BENCHMARKS.rglob("*.py"):
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
            scripts.add(str(path.relative_to(BENCHMARKS)))
    # tests/test_results.py runs results.py
    assert scripts - {"smoke.py", "results.py"} == set(smoke.RUNS)


def test_a_failure_is_told_with_its_command(
    smoke: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands up to the one that fails, and the end of its output."""
    lists = str(ROOT / "data" / "two.json")
    runs = [f"{lists} out.jsonl", "absent.json out.jsonl", f"{lists} late.jsonl"]
    monkeypatch.setitem(smoke.RUNS, "narrow.py", runs)
    outcome = smoke.try_script(tmp_path, "narrow.py")
    assert outcome.error.startswith("narrow.py absent.json out.jsonl: exit status 1\n")
    assert "absent.json: no such file" in outcome.error
    assert (tmp_path / "out.jsonl").exists() and not (tmp_path / "late.jsonl").exists()


def test_an_absent_module_is_told_with_its_installation(
    load: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    common = load("common")
    assert not common.is_missing("json", "", "")
    assert common.is_missing("no_such_module", "pip install it", "its rows")
    reason = "skipped: its rows; no_such_module is not installed: pip install it\n"
    assert capsys.readouterr().err == reason


def test_a_timing_takes_enough_ticks_of_the_clock(load: Load) -> None:
    common = load("common")
    now = 0.0

    def work() -> None:
        nonlocal now
        now += 0.004

    assert common.seconds_per_call(work, lambda: now) == pytest.approx(0.004)
    assert now >= common.TICKS * 0.01


@pytest.mark.parametrize(
    ("chosen", "edits", "expected"),
    [
        ("an owle hoots", 0, {}),
        ("an owl hoots", 1, {"repaired": 1, "respelled": 1, "better": 1}),
        ("an owls hoots", 1, {"respelled": 1, "another error": 1}),
        ("at owle hoots", 1, {"respelled": 1, "worse": 1}),
        (
            "at owl hoots",
            2,
            {"repaired": 1, "respelled": 2, "better": 1, "worse": 1},
        ),
    ],
)
def test_respelled_words_are_counted_by_what_became_of_them(
    load: Load, chosen: str, edits: int, expected: dict[str, int]
) -> None:
    respelled = load("respelled")
    hypotheses = [
        Hypothesis("an owle hoots", {"s2s": -1.0, "edits": 0.0}),
        Hypothesis("an owl", {"s2s": -2.0, "edits": 0.0}),
    ]
    if edits:
        scores = {"s2s": -1.0, "edits": float(edits)}
        hypotheses.insert(0, Hypothesis(chosen, scores, "respelled"))
    nbest = NbestList("u", hypotheses, references=("an owl hoots",))
    lexicon = Lexicon({"an": 9, "at": 8, "owl": 7, "owls": 4, "hoots": 3}, 31)
    found = respelled.counts([nbest], lexicon)
    assert found == dict.fromkeys(respelled.COUNTS, 0) | {"misspelled": 1} | expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], 0.0),
        (["owl"], 0.0),
        (["an owl hoots", "an owl hoots"], 0.0),
        (["an owl an owl", "it hoots"], 25.0),
        (["owl owl owl owl"], 100 * 2 / 3),
    ],
)
def test_repeated_pairs_of_words_count_within_a_text(
    load: Load, texts: list[str], expected: float
) -> None:
    conditional = load("conditional")
    assert conditional.repeats(texts) == pytest.approx(expected)


def test_loss_and_size_are_read_from_the_state_of_the_training(
    load: Load, tmp_path: Path
) -> None:
    """The state is in the folder `lm.state`, beside the model."""
    objectives = load("objectives")
    state = tmp_path / "lm.state"
    state.mkdir()
    progress = {"losses": {"next": 5.5, "bi": 6.5}, "accuracies": {"order": 0.5}}
    tensors = {
        "model.a": np.zeros((2, 3)),
        "model.b": np.zeros(4),
        "adam.a": np.ones(9),
    }
    metadata = {"progress": json.dumps(progress)}
    save_file(tensors, state / "training.safetensors", metadata)
    expected = objectives.Trained(6.5, (0.5,), 10)
    assert objectives.of_training(tmp_path / "lm", "bi") == expected
    assert objectives.of_training(tmp_path / "dictionary", "") is None
