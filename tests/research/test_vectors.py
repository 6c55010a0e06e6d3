"""Vectors of sentences and tokens: of batches as of single sentences, of our networks
and of Hugging Face's.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescore.errors import UserError
from rescore.lms import LanguageModel, checkpoint, without_context
from rescore.lms import load as load_model
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.research.kinds import VectorOptions
from rescore.research.similarity import cosines, read_pairs
from rescore.research.vectors import Embedder
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.large.test_huggingface import build

TEXTS = [*SENTENCES[:9], "the old clock", "the"]
BACKENDS = ("tta", "bilm", "bilm:intact", "unilm", "unilm-bw")


def load(backend: str, models: dict[str, Path]) -> LanguageModel:
    return load_model(f"{backend}:{models[backend.split(':')[0]]}")


@pytest.mark.parametrize(
    "options",
    [
        VectorOptions(),
        VectorOptions(layer=1),
        VectorOptions("embed"),
        VectorOptions("token"),
        VectorOptions("hidden"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_give_what_single_sentences_give(
    backend: str, options: VectorOptions, models: dict[str, Path]
) -> None:
    embedder = Embedder([load(backend, models)], options)
    together = embedder.sentences(TEXTS)
    assert together.shape == (len(TEXTS), 32)
    for text, vector in zip(TEXTS, together, strict=True):
        assert embedder.sentences([text])[0] == pytest.approx(vector, abs=1e-5)
    for (tokens, vectors), text in zip(embedder.tokens(TEXTS), TEXTS, strict=True):
        assert vectors.shape == (len(tokens), 32) and "".join(tokens).replace(
            "##", ""
        ).startswith(text.split()[0][:1].lower())


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.sampled_from(["the", "old", "clock", "on", "wall"]), min_size=2, max_size=8
    ),
    st.data(),
)
def test_a_vector_knows_its_context_only(
    models: dict[str, Path], words: list[str], data: st.DataObject
) -> None:
    """The vector at i does not change with token i; the others do, of causal models
    those behind it.
    """
    place = data.draw(st.integers(0, len(words) - 1))
    other = data.draw(
        st.sampled_from(
            [word for word in ["the", "old", "clock"] if word != words[place]]
        )
    )
    changed = [*words[:place], other, *words[place + 1 :]]
    for backend in ("tta", "bilm", "unilm", "unilm-bw"):
        embedder = Embedder([load(backend, models)])
        (tokens, one), (others, two) = embedder.tokens(
            [" ".join(words), " ".join(changed)]
        )
        if len(tokens) != len(words) or len(others) != len(words):
            continue  # a word of several tokens
        difference = np.abs(one - two).max(axis=1)
        seen = (
            [rank for rank in range(len(words)) if rank > place]
            if backend == "unilm"
            else [*range(place)]
        )
        seen = (
            seen
            if backend.startswith("unilm")
            else [rank for rank in range(len(words)) if rank != place]
        )
        assert all(
            (difference[rank] > 1e-5) == (rank in seen) for rank in range(len(words))
        )
        assert difference[place] < 1e-5


def test_a_hidden_vector_knows_its_token(models: dict[str, Path]) -> None:
    """h(x_<=i); and h(x_<i), the context vector, is that of the token before."""
    seeing = VectorOptions("hidden")
    (_, one), (_, two) = Embedder([load("unilm", models)], seeing).tokens(
        ["the old clock", "the old wall"]
    )
    assert (
        np.allclose(one[:2], two[:2], atol=1e-6)
        and np.abs(one[2] - two[2]).max() > 1e-3
    )
    ((_, context),) = Embedder([load("unilm", models)]).tokens(["the old clock"])
    assert np.allclose(context[1:], one[:-1], atol=1e-5)
    (_, one), (_, two) = Embedder([load("unilm-bw", models)], seeing).tokens(
        ["the old clock", "on old clock"]
    )
    assert (
        np.allclose(one[1:3], two[1:3], atol=1e-6)
        and np.abs(one[0] - two[0]).max() > 1e-3
    )
    ((_, context),) = Embedder([load("unilm-bw", models)]).tokens(["the old clock"])
    assert np.allclose(context[:-1], one[1:], atol=1e-5)
    ((_, masked),) = Embedder([load("bilm", models)], seeing).tokens(["the old clock"])
    ((_, intact),) = Embedder([load("bilm:intact", models)]).tokens(["the old clock"])
    assert np.allclose(masked, intact, atol=1e-6)


@pytest.mark.parametrize("norm", [False, True])
def test_what_the_first_layer_is_given(
    norm: bool, tokenizer: Tokenizer, config: NetworkConfig, tmp_path: Path
) -> None:
    """`embed` is the paper's: LayerNorm(X + P), or X + P; `token` is X."""
    for spec in ("tta", "unilm"):
        torch.manual_seed(1)
        network = checkpoint.build(replace(config, kind=spec, embedding_norm=norm))
        checkpoint.save(tmp_path, network, tokenizer)
        lm = load_model(f"{spec}:{tmp_path}")
        ids = torch.tensor(tokenizer.encode([TEXTS[-2]])[0])
        ((_, found),) = Embedder([lm], VectorOptions("token")).tokens([TEXTS[-2]])
        with torch.no_grad():
            weights = network.token_embedding.weight.half().float()
            assert np.allclose(found, weights[ids], atol=1e-6)
            given = (
                weights[ids]
                + network.position_embedding.weight.half().float()[1 : len(ids) + 1]
            )
            expected = network.embedding_norm(given).numpy()
        ((_, found),) = Embedder([lm], VectorOptions("embed")).tokens([TEXTS[-2]])
        assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama-without-bos"])
def test_a_model_is_not_changed_by_its_vectors(name: str, tmp_path: Path) -> None:
    lm = load_model(f"hf-causal:{build(name, tmp_path)}")
    before = [found.log_probs.tolist() for found in lm.score(without_context(TEXTS))]
    tokens, vectors = Embedder([lm]).tokens(TEXTS)[0]
    # what is scored is what has a context
    assert len(tokens) == len(vectors) == len(before[0])
    assert [
        found.log_probs.tolist() for found in lm.score(without_context(TEXTS))
    ] == before


def test_layers_are_of_hidden_vectors() -> None:
    with pytest.raises(UserError, match="layer 1 selects hidden vectors"):
        VectorOptions("embed", layer=1)


def test_several_are_joined(models: dict[str, Path]) -> None:
    lms = [load(kind, models) for kind in ("unilm", "unilm-bw")]
    both = Embedder(lms).sentences(TEXTS)
    parts = [Embedder([lm]).sentences(TEXTS) for lm in lms]
    assert np.allclose(both, np.concatenate(parts, axis=1), atol=1e-5)
    with pytest.raises(UserError, match="several models"):
        Embedder(lms).tokens(TEXTS)


def test_empty_texts_first(models: dict[str, Path]) -> None:
    """Their vectors are zeros, as wide as the others."""
    embedder = Embedder([load(kind, models) for kind in ("tta", "unilm")])
    found = embedder.sentences(["", "", "the"])
    assert found.shape == (3, 64) and not found[:2].any() and found[2].all()


def test_similarity(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    lines = [
        f"{index % 6}\t{one}\t{other}"
        for index, (one, other) in enumerate(pairwise(TEXTS))
    ]
    (tmp_path / "p.tsv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "sts.csv").write_text(
        "\n".join("g\tf\ty\t1\t" + line for line in lines), encoding="utf-8"
    )
    assert read_pairs(tmp_path / "p.tsv") == read_pairs(tmp_path / "sts.csv")
    lms = [
        item for kind in ("tta", "unilm") for item in ("--lm", f"{kind}:{models[kind]}")
    ]
    done = rescore("similarity", "p.tsv", *lms, "-o", "s.json", "--centre")
    assert done.returncode == 0, done.stderr
    tta, unilm = json.loads((tmp_path / "s.json").read_text())
    pairs = read_pairs(tmp_path / "p.tsv")
    embedder = Embedder([load("tta", models)])
    found = cosines(
        *(
            embedder.sentences(side)
            for side in ([p.first for p in pairs], [p.second for p in pairs])
        ),
        True,
    )
    expected = 100 * np.corrcoef(found, [pair.score for pair in pairs])[0, 1]
    assert tta["pearson"] == pytest.approx(expected) and unilm["name"] == "unilm"
    assert tta["pearson_interval"][0] <= tta["pearson"] <= tta["pearson_interval"][1]
    assert "|centre:yes|lm:tta=tta@" in done.stdout
    (tmp_path / "w").write_text("clock\tN\t2-1\n")
    assert_one_line_error(rescore("similarity", "w", *lms), "pair 1: expected score")
    assert_one_line_error(
        rescore("similarity", "p.tsv", "--lm", "ngram:p.tsv"), "p.tsv: ", "an ARPA file"
    )
    assert_one_line_error(
        rescore("similarity", "p.tsv", *lms, "--layer", "9"), "not between 0 and 3"
    )


def test_hugging_face(tmp_path: Path) -> None:
    """Mean pooling over the tokens of a sentence, without [CLS] and [SEP]."""
    transformers = pytest.importorskip("transformers")
    folder = build("bert", tmp_path)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lm = load_model(f"hf-masked:intact:{folder}")
    batch = tokenizer(
        TEXTS, padding=True, return_tensors="pt", return_special_tokens_mask=True
    )
    mask = 1 - batch.pop("special_tokens_mask")[..., None].float()
    ours = Embedder([lm]).sentences(TEXTS)
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    assert ours == pytest.approx(
        ((hidden * mask).sum(1) / mask.sum(1)).numpy(), abs=1e-4
    )
    ours = Embedder([lm], VectorOptions("embed")).sentences(TEXTS)
    with torch.no_grad():
        hidden = model.embeddings(batch["input_ids"])
    assert ours == pytest.approx(
        ((hidden * mask).sum(1) / mask.sum(1)).numpy(), abs=1e-4
    )
