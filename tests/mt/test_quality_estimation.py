"""Quality estimation with tiny models made here: the estimates of unbabel-comet itself,
as a column of scores.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rescore.errors import UserError
from rescore.lms import ComputeOptions, Question, load, without_context
from tests.conftest import Run, assert_one_line_error
from tests.mt.test_comet import build

PAIRS = [
    ("das alte haus", "the old house"),
    ("das haus", "a house a house a house ticked ."),
    ("das alte haus", "the"),
    ("uhr", ""),
    ("das alte haus", "the old house"),
]
KINDS: dict[str, dict[str, Any]] = {
    "referenceless_regression_metric": {"layer": "mix", "pool": "avg"},  # COMET-QE
    "unified_metric": {
        "sent_layer": "mix",
        "layer_transformation": "softmax",
        "input_segments": ["mt", "src"],
    },  # CometKiwi
}


@pytest.fixture(scope="module", params=list(KINDS))
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return build(
        tmp_path_factory.mktemp("qe") / "model", request.param, **KINDS[request.param]
    )


def own(folder: Path, source: str, text: str) -> float:
    """What unbabel-comet says about one pair."""
    import comet
    import torch

    network = comet.load_from_checkpoint(
        str(folder / "checkpoints" / "model.ckpt"), local_files_only=True
    ).eval()
    with torch.inference_mode():
        sample = network.prepare_sample([{"src": source, "mt": text}], stage="predict")
        return float(network.predict_step(sample).scores)


def test_scores_are_those_of_the_library(folder: Path) -> None:
    lm = load(f"qe:{folder}")
    scores = lm.score([Question(text, source) for source, text in PAIRS])
    assert [one.sum for one in scores] == pytest.approx(
        [own(folder, *pair) for pair in PAIRS], abs=1e-5
    )
    assert len({round(one.sum, 4) for one in scores}) == 4
    assert [one.mean for one in scores] == [one.sum for one in scores]
    with pytest.raises(UserError, match="reads the source"):
        lm.score(without_context(["the"]))


def test_the_fingerprint_is_of_weights_and_settings(
    folder: Path, tmp_path: Path
) -> None:
    import shutil

    other = tmp_path / "other"
    shutil.copytree(folder, other)
    assert load(f"qe:{other}").fingerprint == load(f"qe:{folder}").fingerprint
    with open(other / "hparams.yaml", "a") as file:
        file.write("dropout: 0.2\n")
    assert load(f"qe:{other}").fingerprint != load(f"qe:{folder}").fingerprint


def test_on_the_command_line(folder: Path, rescore: Run, tmp_path: Path) -> None:
    hypotheses = [
        {"text": text, "score": -1} for text in ("the old house", "a house a")
    ]
    entry = {"id": "u", "src": "das alte haus", "ref": "the house", "hyps": hypotheses}
    (tmp_path / "l.jsonl").write_text(json.dumps(entry) + "\n")
    done = rescore("score", "l.jsonl", "--lm", f"qe:{folder}")
    assert done.returncode == 0, done.stderr
    (line,) = (
        json.loads(line) for line in done.stdout.splitlines() if '"hyps"' in line
    )
    columns = [hypothesis["scores"]["qe"] for hypothesis in line["hyps"]]
    assert columns == pytest.approx(
        [own(folder, "das alte haus", one["text"]) for one in hypotheses], abs=1e-4
    )


def test_models_that_need_references_are_refused(tmp_path: Path) -> None:
    folder = build(tmp_path / "model", "regression_metric", layer="mix", pool="avg")
    with pytest.raises(UserError, match="RegressionMetric, which needs references"):
        load(f"qe:{folder}")


def test_errors(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "src": "a", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    assert_one_line_error(
        rescore("score", "l.jsonl", "--lm", f"qe:{tmp_path}"),
        "hparams.yaml: no such file",
    )
    with pytest.raises(UserError, match="--precision bf16 is not for qe"):
        load(f"qe:{tmp_path}", ComputeOptions(precision="bf16"))
