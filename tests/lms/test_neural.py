"""Scores equal the slow definition and depend on nothing but the sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rescore.config import RunConfig
from rescore.errors import UserError
from rescore.lms import ComputeOptions, checkpoint, kind_of, parse, without_context
from rescore.lms import load as load_model
from rescore.lms.base import LanguageModel, Spec
from rescore.lms.cards import recommended_weight
from rescore.lms.scorers import windows
from rescore.nbest import Hypothesis, NbestList
from tests import stages
from tests.conftest import SENTENCES

BACKENDS = ("tta", "bilm", "bilm:intact", "unilm", "unilm-bw")


def load(backend: str, folder: Path, batch_tokens: int | None = None) -> LanguageModel:
    spec = parse(f"{backend}:{folder}")
    return kind_of(spec.kind).load(spec, ComputeOptions(batch_tokens=batch_tokens))


def definition(backend: str, folder: Path, sentence: str) -> list[float]:
    """What the papers say the score of each token is: one sentence, one token at a
    time, float64.
    """
    return [
        logits.log_softmax(-1)[target].item()
        for logits, target in predictions(backend, folder, sentence)
    ]


def predictions(
    backend: str, folder: Path, sentence: str
) -> list[tuple[torch.Tensor, int]]:
    """The logits (vocabulary,) that predict each token, and the token."""
    network, tokenizer = checkpoint.load(folder)
    network.double()
    bos, eos = tokenizer.bos, tokenizer.eos
    ids = tokenizer.encode([sentence])[0]

    def predict(
        tokens: list[int], position: int, target: int
    ) -> tuple[torch.Tensor, int]:
        with torch.no_grad():
            hidden = network(torch.tensor([tokens]), torch.tensor([len(tokens)]))[
                0, position
            ]
            bias = 0 if network.output_bias is None else network.output_bias
            return network.token_embedding.weight @ hidden + bias, target

    if backend in ("tta", "bilm:intact"):
        return [
            predict([bos, *ids, eos], index + 1, token)
            for index, token in enumerate(ids)
        ]
    if backend == "bilm":
        return [
            predict(
                [bos, *ids[:index], tokenizer.mask, *ids[index + 1 :], eos],
                index + 1,
                token,
            )
            for index, token in enumerate(ids)
        ]
    if backend.endswith("-bw"):
        ids = ids[::-1]
    ids = [*ids, eos]
    # a prefix at a time
    causal = [
        predict([bos, *ids[:index]], index, token) for index, token in enumerate(ids)
    ]
    return causal[::-1] if backend.endswith("-bw") else causal


def short(model: Path) -> list[str]:
    """Sentences that fit the tiny model."""
    _, tokenizer = checkpoint.load(model)
    return [
        text
        for text, ids in zip(SENTENCES, tokenizer.encode(SENTENCES), strict=True)
        if len(ids) <= 22
    ][:40]


def folder_of(backend: str, models: dict[str, Path]) -> Path:
    return models[backend.partition(":")[0]]


@pytest.mark.parametrize("backend", BACKENDS)
def test_equals_the_definition(backend: str, models: dict[str, Path]) -> None:
    folder = folder_of(backend, models)
    sentences = short(folder)
    assert len(sentences) > 20
    for text, found in zip(
        sentences, load(backend, folder).score(without_context(sentences)), strict=True
    ):
        slow = definition(backend, folder, text)
        assert len(found.tokens) == len(slow)
        assert found.log_probs == pytest.approx(slow, abs=1e-4)
        assert found.sum == pytest.approx(
            sum(slow), abs=1e-4
        ) and found.mean == pytest.approx(np.mean(slow), abs=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_neighbours_batches_and_threads_change_nothing(
    backend: str, models: dict[str, Path]
) -> None:
    folder = folder_of(backend, models)
    sentences = [*short(folder)[:12], "", "the", " ".join(["the old clock"] * 20)]
    together = [
        found.sum for found in load(backend, folder).score(without_context(sentences))
    ]
    single = load(backend, folder, batch_tokens=1)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        one_by_one = [
            single.score(without_context([text]))[0].sum for text in reversed(sentences)
        ]
    finally:
        torch.set_num_threads(threads)
    assert together == pytest.approx(one_by_one[::-1], abs=1e-4)


def test_tokens_are_in_the_order_of_the_sentence(models: dict[str, Path]) -> None:
    forward, backward = (
        load(kind, models[kind]).score(without_context(["the old clock"]))[0]
        for kind in ("unilm", "unilm-bw")
    )
    assert forward.tokens[-1] == "[EOS]" and backward.tokens == [
        "[EOS]",
        *forward.tokens[:-1],
    ]


def test_empty_sentence(model: Path) -> None:
    (found,) = load("tta", model).score(without_context(["  ...  "]))
    assert found.tokens == [] and found.sum == found.mean == 0


@pytest.mark.parametrize("size", [2, 3, 8, 126])
def test_windows_keep_every_token_once(size: int) -> None:
    for length in range(1, 5 * size):
        kept = []
        for start, stop, first, last in windows(length, size):
            assert 0 <= start <= first < last <= stop <= length and stop - start == min(
                size, length
            )
            kept.extend(range(first, last))
        assert kept == list(range(length))
    assert windows(0, size) == []


def test_long_sentence_is_scored_in_windows_and_told_once(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lm = load("tta", model)
    text = " ".join(["the old clock"] * 400)
    with caplog.at_level("WARNING"):
        (found,) = lm.score(without_context([text]))
        lm.score(without_context([text]))
    assert (
        len(found.tokens) == len(found.log_probs) >= 1000
        and (found.log_probs < 0).all()
    )
    assert [record.message for record in caplog.records] == [
        f"tta: a sentence has {len(found.tokens)} tokens, but the model only 22"
        " positions; long sentences are scored in overlapping windows"
    ]


def test_column_and_norm(model: Path) -> None:
    lm = load_model(f"tta:{model}")
    lists = [
        NbestList(
            "u",
            [
                Hypothesis("the old", {"s2s": -1.0}),
                Hypothesis("the old", {"s2s": -2.0}),
            ],
            ("r",),
            "s",
        )
    ]
    (summed,) = stages.scored(lists, [lm], RunConfig(lm_norm="sum", count_tokens=False))
    (mean,) = stages.scored(lists, [lm], RunConfig(lm_norm="mean", count_tokens=False))
    (found,) = lm.score(without_context(["the old"]))
    assert [h.scores for h in summed.hypotheses] == [
        {"s2s": -float(rank), "tta": pytest.approx(found.sum, abs=1e-4)}
        for rank in (1, 2)
    ]
    assert mean.hypotheses[0].scores["tta"] == pytest.approx(
        found.sum / len(found.tokens), abs=1e-4
    )
    assert (summed.header.records["tta"].norm, mean.header.records["tta"].norm) == (
        "sum",
        "mean",
    )
    assert (summed.references, summed.source) == (("r",), "s")
    assert lists[0].hypotheses[0].scores == {"s2s": -1.0}  # the input is left alone


def test_fingerprint_is_the_contents(model: Path, tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(model, tmp_path / "copy"))
    before = load("tta", copy).fingerprint
    assert before == load("tta", model, batch_tokens=1).fingerprint
    network, tokenizer = checkpoint.load(copy)
    with torch.no_grad():
        network.token_embedding.weight[7, 7] += 0.5
    checkpoint.save(copy, network, tokenizer)
    assert load("tta", copy).fingerprint != before


def test_names(model: Path, tmp_path: Path) -> None:
    assert recommended_weight(f"tta:{model}") == 0.3
    with pytest.raises(UserError, match="'elmo' is not one of"):
        load_model("elmo")
    with pytest.raises(UserError, match="no such folder"):
        load_model(f"tta:{tmp_path / 'absent'}")
    with pytest.raises(UserError, match="no recommended_weight"):
        recommended_weight(f"tta:{tmp_path}")
    assert parse(f"bilm:intact:{model}") == Spec("bilm", ("intact",), model, str(model))
    assert parse(f"bilm:{model}") == Spec("bilm", (), model, str(model))
    assert parse("ngram:upper:C:/lm.arpa") == Spec(
        "ngram", ("upper",), Path("C:/lm.arpa"), "C:/lm.arpa"
    )
    with pytest.raises(UserError, match="upper and lower exclude each other"):
        load_model(f"tta:upper:lower:{model}")
    with pytest.raises(UserError, match="the model is of kind tta, not unilm"):
        load_model(f"unilm:{model}")
    with pytest.raises(UserError, match="no such device"):
        load_model(f"tta:{model}", ComputeOptions("cuda:99"))
