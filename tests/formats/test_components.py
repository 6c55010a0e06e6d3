"""Component scores: what the toolkit's own score is made of becomes columns, which are
no language models'.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore import formats
from rescore.columns import Role
from rescore.errors import UserError
from rescore.signature import column_records
from tests.conftest import Run, shared
from tests.formats.samples import SAMPLES


def espnet2(folder: Path, scores: str, best: int = 1) -> Path:
    target = folder / f"{best}best_recog"
    target.mkdir(parents=True)
    (target / "text").write_text("u1 A\n")
    (target / "score").write_text("u1 -1.5\n")
    (target / "scores").write_text(f"u1 {scores}\n")
    return folder


@pytest.mark.parametrize(
    "scores",
    [
        '{"decoder": "tensor(-0.9373)", "ctc": "tensor(-1e-05)", "lm": "tensor(-inf)"}',
        (
            "{'decoder': tensor(-0.9373, device='cuda:0'), 'ctc': tensor(-1e-05), 'lm':"
            " tensor(-inf)}"
        ),
        '{"decoder": -0.9373, "ctc": -1e-5, "lm": -Infinity}',
    ],
)
def test_espnet2(scores: str, tmp_path: Path) -> None:
    (nbest,) = formats.read([espnet2(tmp_path, scores)])
    found = {"s2s": -1.5, "decoder": -0.9373, "ctc": -1e-5, "lm": float("-inf")}
    assert nbest.hypotheses[0].scores == found
    assert (
        nbest.columns(Role.COMPONENT) == ["decoder", "ctc", "lm"]
        and nbest.columns(Role.LM) == []
    )


@pytest.mark.parametrize(
    "scores",
    ["{", "[1]", '{"lm": "x"}', '{"lm": null}', '{"lm": [1]}', "{'a': {'b': 1}}"],
)
def test_damaged_scores_are_told(scores: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"1best_recog/scores: utterance u1"):
        formats.read([espnet2(tmp_path, scores)])


@pytest.mark.parametrize(
    ("name", "columns"),
    [("kaldi", ["am", "lm", "nolm"]), ("srilm", ["am", "lm"])],
)
def test_other_toolkits(name: str, columns: list[str], tmp_path: Path) -> None:
    for file, text in SAMPLES[name].items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    nbest = next(formats.iterate([tmp_path / next(iter(SAMPLES[name])).split("/")[0]]))
    assert nbest.columns(Role.COMPONENT) == columns and nbest.columns(Role.LM) == []


@pytest.mark.parametrize("to", ["native", "espnet2", "moses", "csv"])
def test_convert_keeps_them(to: str, tmp_path: Path, rescore: Run) -> None:
    hyps = [{"text": "a", "score": -1.0, "scores": {"ctc": -2.5, "lm": -3.5}}]
    part = {
        "model": "espnet2",
        "fingerprint": "",
        "norm": "sum",
        "precision": "",
        "role": "component",
    }
    entry = {"id": "7", "hyps": hyps, "columns": {"ctc": part, "lm": part}}
    (tmp_path / "l.jsonl").write_text(json.dumps(entry) + "\n")
    done = rescore("convert", "l.jsonl", "--to", to, "-o", "out")
    told = "not written: which columns are components" in done.stderr
    assert done.returncode == 0 and told == (to == "csv")
    (nbest,) = formats.iterate(["out"])
    assert nbest.hypotheses[0].scores == {"s2s": -1.0, "ctc": -2.5, "lm": -3.5}
    assert nbest.columns(Role.COMPONENT) == ([] if to == "csv" else ["ctc", "lm"])


def test_they_are_weighed_by_tune(tmp_path: Path, rescore: Run) -> None:
    """If the lists have no other scores, `tune` weighs them as with --components. A
    signature names models; what is the toolkit's own has none.
    """
    moses = "0 ||| a ||| F0= -9 G= -1 ||| -1\n0 ||| b ||| F0= -1 G= -2 ||| -2\n"
    (tmp_path / "l").write_text(moses)
    (tmp_path / "ref").write_text("b\n")
    done = rescore("tune", "l", "--ref", "ref", "--no-bagging", "--metric", "wer")
    assert done.returncode == 0 and "components: F0, G" in done.stderr
    weights = json.loads(done.stdout)["weights"]
    asked = rescore(
        "tune", "l", "--ref", "ref", "--no-bagging", "--metric", "wer", "--components"
    )
    assert json.loads(asked.stdout)["weights"] == weights
    assert set(weights) == {"s2s", "F0", "G"} and weights["F0"] != 0
    done = rescore("tune", "l", "--ref", "ref", "--column", "F0")
    weights = json.loads(done.stdout)["weights"]
    assert (
        done.returncode == 0
        and set(weights) == {"s2s", "F0"}
        and "lm:F0" not in done.stderr
    )
    assert column_records(formats.read([tmp_path / "l"]), {"s2s": 1.0, "F0": 1.0}) == {}


def test_real_lists() -> None:
    lists = formats.read([shared("librispeech-strong/dev_other")])
    assert len(lists) == 2864 and lists[0].columns(Role.COMPONENT) == [
        "decoder",
        "ctc",
        "lm",
    ]
    assert all(
        len(hypothesis.scores) == 4
        for nbest in lists
        for hypothesis in nbest.hypotheses
    )
    # The recogniser's own weights, 0.6 decoder + 0.4 CTC + 0.6 LM, make its score.
    for hypothesis in lists[0].hypotheses:
        own = {"decoder": 0.6, "ctc": 0.4, "lm": 0.6}
        total = sum(weight * hypothesis.scores[name] for name, weight in own.items())
        assert total == pytest.approx(hypothesis.scores["s2s"], abs=1e-3)
