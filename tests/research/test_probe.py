"""A linear classifier on frozen vectors: what it is given, what it can learn, and what it cannot."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from rescore.lms import load
from rescore.research import probe
from rescore.research.probe import Examples
from rescore.research.vectors import Embedder
from tests.conftest import SENTENCES, Run, assert_one_line_error

pytest.importorskip("sklearn")

HEAD = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"


def write_sick(path: Path, parts: bool = True) -> Path:
    """Pairs that are entailed where both sentences are the same."""
    rows = []
    for number, one in enumerate(SENTENCES[:60]):
        same = number % 2 == 0
        other = one if same else SENTENCES[(number + 7) % 60]
        part = ("TRAIN", "TRIAL", "TEST")[number // 2 % 3]
        rows.append(f"{number}\t{one}\t{other}\t{'ENTAILMENT' if same else 'NEUTRAL'}\t3\t{part}\n")
    text = HEAD + "".join(rows)
    if not parts:
        text = "\n".join(line.rpartition("\t")[0] for line in text.splitlines()) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_classifier_learns_what_is_there_and_nothing_else() -> None:
    random = np.random.default_rng(0)
    one, other = random.normal(size=(2, 400, 5))
    x = probe.features(one, other)
    assert (
        x.shape == (400, 20) and np.allclose(x[:, 10:15], np.abs(one - other)) and np.allclose(x[:, 15:], one * other)
    )
    near = np.abs(one - other)[:, 0] < 1
    tested = np.arange(400) >= 300
    right = probe.classify(x, Examples([], [], ["T" if same else "F" for same in near], tested))
    assert len(right) == 100 and right.mean() > 0.9
    noise = probe.classify(x, Examples([], [], ["TF"[lot] for lot in random.integers(0, 2, 400)]))
    assert len(noise) == 400 and 0.4 < noise.mean() < 0.6  # ten folds: each example is tested once


def test_the_given_part_is_tested_on(tmp_path: Path) -> None:
    found = probe.read(write_sick(tmp_path / "s"))
    assert found.tested is not None and found.tested.sum() == 20 and found.labels[:2] == ["ENTAILMENT", "NEUTRAL"]
    assert found.first[0] == found.second[0] == SENTENCES[0]
    assert probe.read(write_sick(tmp_path / "t", parts=False)).tested is None


def test_the_command(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    write_sick(tmp_path / "s.txt")
    lms = [item for kind in ("tta", "unilm") for item in ("--lm", f"{kind}:{models[kind]}")]
    done = rescore("probe", "s.txt", *lms, "-o", "p.json")
    assert done.returncode == 0 and "20 pairs tested" in done.stdout, done.stderr
    tta, unilm = json.loads((tmp_path / "p.json").read_text())
    assert tta["majority"] == 50 and unilm["name"] == "unilm" and tta["interval"][0] <= tta["accuracy"]
    examples = probe.read(tmp_path / "s.txt")
    embedder = Embedder([load(f"tta:{models['tta']}")])
    x = probe.features(*(embedder.sentences(side).astype(float) for side in (examples.first, examples.second)))
    assert tta["accuracy"] == pytest.approx(100 * probe.classify(x, examples).mean())
    assert "acc:sick|examples:60|kind:context|layer:last|pooling:mean|lm:tta=tta@" in done.stdout
    assert f"|scikit-learn:{version('scikit-learn')}" in done.stdout


def test_errors(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    lm = ("--lm", f"tta:{models['tta']}")
    write_sick(tmp_path / "s.txt")
    (tmp_path / "short").write_text(HEAD + "1\ta\tb\n")
    (tmp_path / "one").write_text(HEAD + "1\ta\tb\tNEUTRAL\t3\tTRAIN\n2\ta\tb\tNEUTRAL\t3\tTEST\n")
    few = write_sick(tmp_path / "few", parts=False)
    few.write_text("".join(few.read_text().splitlines(keepends=True)[:7]))
    (tmp_path / "g").write_text("T\n")
    for arguments, part in (
        (("g",), "expected SICK with a header line"),
        (("short",), "line 2: has too few columns"),
        (("one",), "have the same class"),
        (("few",), "few: 6 pairs, and no test part; at least 10"),
        (("sick", "s.txt"), "unexpected extra argument"),
    ):
        assert_one_line_error(rescore("probe", *arguments, *lm), part)
