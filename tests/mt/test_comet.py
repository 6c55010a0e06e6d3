"""COMET with a tiny model made here: the scores of unbabel-comet itself, as a metric
and for minimum Bayes risk.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rescore.errors import UserError
from rescore.metrics.base import Input
from rescore.nbest import Hypothesis, NbestList
from rescore.signature import parse
from tests.conftest import Run, assert_one_line_error, read_report

WORDS = [
    "the",
    "a",
    "old",
    "house",
    "clock",
    "ticked",
    "das",
    "alte",
    "haus",
    "uhr",
    ".",
]
TRIPLES = [
    ("das alte haus", "the old house", "a old house ."),
    ("das haus", "a house", "the house"),
    ("die uhr", "the clock ticked ticked", "the clock"),
    ("das alte haus", "", "the house"),
]


def build(folder: Path, kind: str, **more: Any) -> Path:
    """A folder with a tiny model of a class of unbabel-comet."""
    pytest.importorskip(
        "comet", reason="needs pip install 'rescore[comet]'", exc_type=ImportError
    )
    import torch
    import yaml
    from comet.models import str2model
    from transformers import BertConfig, BertModel

    encoder = folder / "encoder"
    encoder.mkdir(parents=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (encoder / "vocab.txt").write_text("\n".join([*special, *WORDS]) + "\n")
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    BertModel(
        BertConfig(vocab_size=len(special) + len(WORDS), **sizes)
    ).save_pretrained(encoder)
    settings = {
        "encoder_model": "BERT",
        "pretrained_model": str(encoder),
        "hidden_sizes": [8],
        **more,
    }
    network = str2model[kind](**settings)
    (folder / "hparams.yaml").write_text(
        yaml.safe_dump({**settings, "class_identifier": kind})
    )
    (folder / "checkpoints").mkdir()
    weights = {
        "state_dict": network.state_dict(),
        "hyper_parameters": dict(network.hparams),
    }
    torch.save(
        {**weights, "pytorch-lightning_version": "2.2.0"},
        folder / "checkpoints" / "model.ckpt",
    )
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(
        tmp_path_factory.mktemp("comet") / "model",
        "regression_metric",
        layer="mix",
        pool="avg",
    )


def own(model: Path, triples: list[tuple[str, str, str]]) -> np.ndarray:
    """What unbabel-comet says, triple by triple."""
    import comet
    import torch

    network = comet.load_from_checkpoint(
        str(model / "checkpoints" / "model.ckpt"), local_files_only=True
    ).eval()
    found = []
    with torch.inference_mode():
        for source, text, reference in triples:
            sample = network.prepare_sample(
                [{"src": source, "mt": text, "ref": reference}], stage="predict"
            )
            found.append(float(network(**sample).score))
    return np.array(found)


def test_scores_are_those_of_the_library(model: Path) -> None:
    from rescore.mt.comet import Comet

    metric = Comet(model=str(model))
    rows = metric.statistics(
        [Input(source, text) for source, text, _ in TRIPLES],
        [(one,) for *_, one in TRIPLES],
    )
    np.testing.assert_allclose(
        metric.sentence_values(rows) / 100, own(model, TRIPLES), atol=1e-5
    )
    assert metric.values(rows.sum(axis=0)[None])[0] == pytest.approx(
        100 * own(model, TRIPLES).mean(), abs=1e-3
    )
    assert metric.statistics([], []).shape == (0, 2)
    texts = ["the old house", "a house", "the clock"]
    every = [("das haus", one, other) for one in texts for other in texts]
    losses = metric.pair_losses([Input("das haus", text) for text in texts])(
        np.arange(3), np.arange(3)
    )
    np.testing.assert_allclose(
        losses, 100 - 100 * own(model, every).reshape(3, 3), atol=1e-3
    )


def test_on_the_command_line(model: Path, rescore: Run, tmp_path: Path) -> None:
    entries = []
    for number, (source, text, reference) in enumerate(TRIPLES):
        hypotheses = [{"text": text, "score": -1}, {"text": "a", "score": -2}]
        entries.append(
            {"id": str(number), "src": source, "ref": reference, "hyps": hypotheses}
        )
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in entries)
    )
    done = rescore(
        "l.jsonl", "--metric", "comet", "--comet-model", model, "--report", "r.json"
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("COMET|"))
    signature = parse(line)
    assert str(signature) == line
    assert "comet" in signature.settings and list(signature.versions) == [
        "rescore",
        "unbabel-comet",
    ]
    figure = read_report(tmp_path / "r.json")["first_pass"]
    assert figure == pytest.approx(100 * own(model, TRIPLES).mean(), abs=1e-2)
    tuned = rescore(
        "l.jsonl",
        "--dev",
        "l.jsonl",
        "--decide",
        "mbr",
        "--metric",
        "comet",
        "--comet-model",
        model,
    )
    assert (
        tuned.returncode == 2
        and "tune for bleu or chrf, and report comet with a second --metric"
        in tuned.stderr
    )
    mbr = (
        "--decide",
        "mbr",
        "--metric",
        "bleu",
        "--metric",
        "comet",
        "--comet-model",
        model,
    )
    assert "COMET|" in rescore("l.jsonl", "--dev", "l.jsonl", *mbr).stdout


def test_weights_are_not_tuned_for_a_learned_metric(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is reported beside another metric, and measures what was not tuned for it."""
    hyps = [
        {"text": text, "score": -place}
        for place, text in enumerate(("the old house", "the house", "a house"))
    ]
    lines = (
        json.dumps({"id": f"u{n}", "ref": "the house", "hyps": hyps}) + "\n"
        for n in range(8)
    )
    (tmp_path / "l.jsonl").write_text("".join(lines))
    monkeypatch.setattr("rescore.metrics.wer.ErrorRate.learned", True)
    run = ("l.jsonl", "--dev", "l.jsonl", "--decide", "mbr")
    refused = rescore(*run, "--metric", "wer")
    assert (
        refused.returncode == 2
        and "--metric wer: tune for bleu or chrf, and report wer" in refused.stderr
    )
    done = rescore(*run, "--metric", "bleu", "--metric", "wer")
    assert done.returncode == 0 and "WER|" in done.stdout, done.stderr
    assert rescore("l.jsonl", "--metric", "wer").returncode == 0


def test_errors(rescore: Run, tmp_path: Path) -> None:
    from rescore.metrics.base import metric_input
    from rescore.mt.comet import Comet

    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "ref": "a", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    assert_one_line_error(rescore("l.jsonl", "--metric", "comet"), "--comet-model DIR")
    wrong = rescore("l.jsonl", "--metric", "comet", "--comet-model", tmp_path)
    assert_one_line_error(wrong, "hparams.yaml: no such file")
    with pytest.raises(UserError, match="no source"):
        metric_input(Comet.__new__(Comet), NbestList("u", [Hypothesis("a")]), "a")
    with pytest.raises(UserError, match="no model"):
        Comet.choose(Comet.Options(), [])
