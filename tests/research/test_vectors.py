"""Vectors of sentences, words and tokens: against their definition, of batches as of
single sentences, of our networks and of Hugging Face's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescore.errors import UserError
from rescore.lms import LanguageModel, checkpoint, without_context
from rescore.lms import load as load_model
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import MASK_ID, Tokenizer
from rescore.research.vector_options import (
    KINDS,
    POOLINGS,
    VectorOptions,
    parse_layers,
)
from rescore.research.vectors import Embedder, Vectors, pool
from tests.conftest import SENTENCES
from tests.large.test_huggingface import build

TEXTS = [*SENTENCES[:9], "the old clock", "the"]
LONG = " ".join(SENTENCES[:6])
BACKENDS = ("tta", "bilm", "bilm:intact", "unilm", "unilm-bw")
OF_ONE_TOKEN = ["the", "old", "house", "on", "of", "and"]


def load(backend: str, models: dict[str, Path]) -> LanguageModel:
    return load_model(f"{backend}:{models[backend.split(':')[0]]}")


def vectors_of_tokens(embedder: Embedder, text: str) -> Vectors:
    return embedder.tokens([text])[0].vectors


# --- definition ----------------------------------------------------------------------


def definition(backend: str, folder: Path, kind: str, text: str) -> Vectors:
    """The vectors of the tokens of a short text, one token at a time, by the network as
    it is defined.
    """
    network, tokenizer = checkpoint.load(folder)
    last = network.config.layers
    ids = tokenizer.encode([text])[0]
    if backend == "unilm-bw":
        ids = ids[::-1]
    framed = [tokenizer.bos, *ids, tokenizer.eos]

    def hidden(sequence: list[int]) -> npt.NDArray[np.float32]:
        tokens = torch.tensor([sequence])
        with torch.no_grad():
            return network(tokens, torch.tensor([len(sequence)]), last)[0].numpy()

    vectors = []
    for place in range(1, len(ids) + 1):
        if kind == "context" and backend == "bilm":
            masked = [*framed[:place], MASK_ID, *framed[place + 1 :]]
            vectors.append(hidden(masked)[place])
        elif backend.startswith("unilm"):
            seen = place + 1 if kind == "hidden" else place
            vectors.append(hidden(framed[:seen])[-1])
        else:
            vectors.append(hidden(framed)[place])
    if backend == "unilm-bw":
        vectors.reverse()
    return np.stack(vectors)


@pytest.mark.parametrize("kind", ["context", "hidden"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_hidden_vectors_are_those_of_the_definition(
    backend: str, kind: str, models: dict[str, Path]
) -> None:
    embedder = Embedder([load(backend, models)], VectorOptions(kind))
    for text in TEXTS[-3:]:
        expected = definition(backend, models[backend.split(":")[0]], kind, text)
        assert vectors_of_tokens(embedder, text) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("kind", ["tta", "unilm"])
def test_what_the_first_layer_is_given(
    kind: str, norm: bool, tokenizer: Tokenizer, config: NetworkConfig, tmp_path: Path
) -> None:
    """`embed` is the paper's: LayerNorm(X + P), or X + P; `token` is X."""
    torch.manual_seed(1)
    network = checkpoint.build(replace(config, kind=kind, embedding_norm=norm))
    checkpoint.save(tmp_path, network, tokenizer)
    lm = load_model(f"{kind}:{tmp_path}")
    ids = torch.tensor(tokenizer.encode(["the old clock"])[0])
    with torch.no_grad():
        tokens = network.token_embedding.weight.half().float()[ids]
        positions = network.position_embedding.weight.half().float()
        inputs = network.embedding_norm(tokens + positions[1 : len(ids) + 1])
    found = vectors_of_tokens(Embedder([lm], VectorOptions("token")), "the old clock")
    assert found == pytest.approx(tokens.numpy(), abs=1e-6)
    found = vectors_of_tokens(Embedder([lm], VectorOptions("embed")), "the old clock")
    assert found == pytest.approx(inputs.numpy(), abs=1e-5)


# --- properties ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        VectorOptions(),
        VectorOptions(layers={1: 1.0}),
        VectorOptions("embed", pooling="max"),
        VectorOptions("token", pooling="sum"),
        VectorOptions("hidden", pooling="first"),
        VectorOptions(layers={1: 0.5, 3: 1.5}, pooling="last"),
    ],
    ids=str,
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
        assert vectors.shape == (len(tokens), 32)
        letters = "".join(tokens).replace("##", "")
        assert letters[0] == text[0].lower()


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.sampled_from(OF_ONE_TOKEN), min_size=2, max_size=8),
    st.data(),
)
def test_a_context_vector_does_not_know_its_token(
    models: dict[str, Path], words: list[str], data: st.DataObject
) -> None:
    """The vector at i does not change with token i. The others change; of causal models
    only the vectors behind it.
    """
    place = data.draw(st.integers(0, len(words) - 1))
    others = [word for word in OF_ONE_TOKEN if word != words[place]]
    other = data.draw(st.sampled_from(others))
    changed = [*words[:place], other, *words[place + 1 :]]
    places = range(len(words))
    behind = {
        "tta": [at for at in places if at != place],
        "bilm": [at for at in places if at != place],
        "unilm": [at for at in places if at > place],
        "unilm-bw": [at for at in places if at < place],
    }
    for backend, expected in behind.items():
        embedder = Embedder([load(backend, models)])
        (tokens, one), (_, two) = embedder.tokens([" ".join(words), " ".join(changed)])
        assert len(tokens) == len(words)
        difference = np.abs(one - two).max(axis=1)
        assert np.flatnonzero(difference > 1e-5).tolist() == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_long_sentence_is_read_in_windows(
    backend: str, models: dict[str, Path], config: NetworkConfig
) -> None:
    """Each token has a vector; the first and the last are those of the first and the
    last window alone.
    """
    embedder = Embedder([load(backend, models)])
    tokens, vectors = embedder.tokens([LONG])[0]
    assert len(tokens) == len(vectors) > 2 * config.max_positions
    assert len(np.unique(vectors.round(4), axis=0)) > len(tokens) * 0.9
    lm = embedder.lms[0]
    ids = lm.network.encode(without_context([LONG]))[0]
    room = config.max_positions - len(lm.network.before)
    if not lm.behind:
        room -= len(lm.network.after)
    for window, kept in ((slice(0, room), 0), (slice(-room, None), -1)):
        part = ids._replace(ids=ids.ids[window], words=ids.words[window])
        (of_part,) = embedder._of_tokens(lm, [part], special=False)
        expected = of_part[kept].detach().numpy()
        assert vectors[kept] == pytest.approx(expected, abs=1e-5)


# --- layers and pooling --------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_mix_of_layers(backend: str, models: dict[str, Path]) -> None:
    """ELMo: the sum of s_l h_l, whose weights add up to 1."""
    lm = load(backend, models)
    layers = {
        layer: Embedder([lm], VectorOptions(layers={layer: 7.0})).tokens(TEXTS)
        for layer in (0, 1, 3)
    }
    mixed = Embedder([lm], VectorOptions(layers={0: 1, 1: 2, 3: 5})).tokens(TEXTS)
    for number, (_, found) in enumerate(mixed):
        zeroth, first, third = (layers[layer][number].vectors for layer in (0, 1, 3))
        expected = zeroth / 8 + first / 4 + third * 5 / 8
        assert found == pytest.approx(expected, abs=1e-5)
    last = Embedder([lm]).tokens(TEXTS)
    assert np.array_equal(last[0].vectors, layers[3][0].vectors)


def test_weights_of_layers_are_parsed() -> None:
    assert parse_layers("2") == {2: 1.0}
    assert parse_layers("1,3") == {1: 1.0, 3: 1.0}
    assert parse_layers("1:0.2,3:0.8") == {1: 0.2, 3: 0.8}
    for wrong in ("1,x", "-1", "", "1:", "1:x", "1.5", "1;2"):
        with pytest.raises(ValueError, match="expected a layer such as 2"):
            parse_layers(wrong)
    with pytest.raises(ValueError, match="layer 1 is named twice"):
        parse_layers("1,1")


def test_layers_in_signatures() -> None:
    assert VectorOptions().layers_text == "last"
    assert VectorOptions(layers={2: 1.0}).layers_text == "2"
    assert VectorOptions(layers={1: 0.2, 2: 0.8}).layers_text == "1:0.2+2:0.8"
    assert "special" not in VectorOptions().settings
    assert VectorOptions(special_tokens=True).settings["special"] == "yes"


@pytest.mark.parametrize(
    "weights",
    [{1: -1.0, 2: 2.0}, {1: 0.0}, {1: float("nan")}, {1: float("inf"), 2: 1.0}, {}],
    ids=str,
)
def test_impossible_weights_of_layers(weights: dict[int, float]) -> None:
    with pytest.raises(UserError, match="weights of 0 or more"):
        VectorOptions(layers=weights)


def test_layers_are_of_hidden_vectors(models: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="layer 1 selects hidden vectors"):
        VectorOptions("embed", layers={1: 1.0})
    with pytest.raises(UserError, match="tta: layer 9 is not between 0 and 3"):
        Embedder([load("tta", models)], VectorOptions(layers={9: 1.0}))


def test_poolings() -> None:
    vectors = torch.tensor([[1.0, 4.0], [3.0, -2.0]])
    expected = {
        "mean": [2.0, 1.0],
        "max": [3.0, 4.0],
        "sum": [4.0, 2.0],
        "first": [1.0, 4.0],
        "last": [3.0, -2.0],
    }
    assert {name: pool(vectors, name).tolist() for name in POOLINGS} == expected
    for name in POOLINGS:
        assert pool(vectors[:0], name).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_sentence_is_pooled_from_its_tokens(
    pooling: str, models: dict[str, Path]
) -> None:
    embedder = Embedder([load("tta", models)], VectorOptions(pooling=pooling))
    texts = [*TEXTS, LONG]
    for text, vector in zip(texts, embedder.sentences(texts), strict=True):
        own = torch.from_numpy(vectors_of_tokens(embedder, text))
        assert vector == pytest.approx(pool(own, pooling).numpy(), abs=1e-5)


def test_the_last_vector_of_a_unilm_predicts_eos(models: dict[str, Path]) -> None:
    """The paper's uniLM [EOS]."""
    options = VectorOptions("hidden", pooling="last")
    found = Embedder([load("unilm", models)], options).sentences(["the old clock"])[0]
    network, tokenizer = checkpoint.load(models["unilm"])
    ids = [tokenizer.bos, *tokenizer.encode(["the old clock"])[0]]
    with torch.no_grad():
        hidden = network(torch.tensor([ids]), torch.tensor([len(ids)]), 3)
    assert found == pytest.approx(hidden[0, -1].numpy(), abs=1e-5)


# --- special tokens ------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["tta", "bilm:intact"])
def test_special_tokens_stand_around_the_others(
    backend: str, models: dict[str, Path]
) -> None:
    lm = load(backend, models)
    with_special = Embedder([lm], VectorOptions(special_tokens=True))
    for text in (TEXTS[0], LONG):
        tokens, vectors = Embedder([lm]).tokens([text])[0]
        all_tokens, all_vectors = with_special.tokens([text])[0]
        assert all_tokens == ["[BOS]", *tokens, "[EOS]"]
        assert all_vectors[1:-1] == pytest.approx(vectors, abs=1e-6)
    network, tokenizer = checkpoint.load(models[backend.split(":")[0]])
    ids = [tokenizer.bos, *tokenizer.encode([TEXTS[0]])[0], tokenizer.eos]
    with torch.no_grad():
        hidden = network(torch.tensor([ids]), torch.tensor([len(ids)]), 3)[0].numpy()
    for place, pooling in ((0, "first"), (-1, "last")):
        options = VectorOptions(pooling=pooling, special_tokens=True)
        found = Embedder([lm], options).sentences([TEXTS[0], ""])
        assert found[0] == pytest.approx(hidden[place], abs=1e-5)
        assert not found[1].any()


@pytest.mark.parametrize("backend", ["unilm", "unilm-bw", "bilm"])
def test_models_without_vectors_of_special_tokens(
    backend: str, models: dict[str, Path]
) -> None:
    with pytest.raises(UserError, match="leave out --special-tokens"):
        Embedder([load(backend, models)], VectorOptions(special_tokens=True))


def test_a_word_has_no_special_tokens(models: dict[str, Path]) -> None:
    lm = load("tta", models)
    words = Embedder([lm]).words(TEXTS[:3], [0, 1, 2])
    special = Embedder([lm], VectorOptions(special_tokens=True))
    assert np.array_equal(special.words(TEXTS[:3], [0, 1, 2]), words)


# --- words and several models --------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_vector_of_a_word_is_the_mean_of_its_tokens(
    backend: str, models: dict[str, Path]
) -> None:
    embedder = Embedder([load(backend, models)])
    text = SENTENCES[3]
    words = text.split()
    tokens, vectors = embedder.tokens([text])[0]
    places = range(len(words))
    found = embedder.words([text] * len(words), list(places))
    begin = 0
    for place, word in zip(places, words, strict=True):
        end = begin + 1
        while end < len(tokens) and tokens[end].startswith("##"):
            end += 1
        assert "".join(tokens[begin:end]).replace("##", "") == word.lower()
        expected = vectors[begin:end].mean(axis=0)
        assert found[place] == pytest.approx(expected, abs=1e-5)
        begin = end
    assert begin == len(tokens)
    assert len(tokens) > len(words)  # some word has several tokens


def test_several_models_are_joined(models: dict[str, Path]) -> None:
    lms = [load(kind, models) for kind in ("unilm", "unilm-bw")]
    both = Embedder(lms)
    parts = [Embedder([lm]).sentences(TEXTS) for lm in lms]
    assert np.array_equal(both.sentences(TEXTS), np.concatenate(parts, axis=1))
    assert both.name == "unilm + unilm-bw"
    with pytest.raises(UserError, match="several models"):
        both.tokens(TEXTS)
    with pytest.raises(UserError, match="several models"):
        both.words(TEXTS[:1], [0])


@pytest.mark.parametrize("kind", KINDS)
def test_empty_texts_first(kind: str, models: dict[str, Path]) -> None:
    """Their vectors are 0, as wide as the others."""
    lms = [load(backend, models) for backend in ("tta", "bilm", "unilm")]
    embedder = Embedder(lms, VectorOptions(kind))
    found = embedder.sentences(["", "", "the"])
    assert found.shape == (3, 96)
    assert not found[:2].any()
    assert found[2].all()
    assert embedder.sentences(["", ""]).shape == (2, 96)
    assert embedder.sentences([]).shape == (0, 0)


# --- Hugging Face --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2", "llama-without-bos"])
def test_a_model_is_not_changed_by_its_vectors(name: str, tmp_path: Path) -> None:
    lm = load_model(f"hf-causal:{build(name, tmp_path)}")
    before = [found.log_probs.tolist() for found in lm.score(without_context(TEXTS))]
    tokens, vectors = Embedder([lm]).tokens(TEXTS)[0]
    # What is scored is what has a context.
    assert len(tokens) == len(vectors) == len(before[0])
    after = [found.log_probs.tolist() for found in lm.score(without_context(TEXTS))]
    assert after == before


def test_mean_pooling_of_hugging_face(tmp_path: Path) -> None:
    """With special tokens, the mean of all tokens, as sentence-transformers has it;
    without, the mean of the sentence's own tokens.
    """
    transformers = pytest.importorskip("transformers")
    folder = build("bert", tmp_path)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lm = load_model(f"hf-masked:intact:{folder}")
    batch = tokenizer(
        TEXTS, padding=True, return_tensors="pt", return_special_tokens_mask=True
    )
    own = 1 - batch.pop("special_tokens_mask")[..., None].float()
    every = batch["attention_mask"][..., None].float()
    with torch.no_grad():
        of_kind = {
            "context": model(**batch).last_hidden_state,
            "embed": model.embeddings(batch["input_ids"]),
        }
    for kind, hidden in of_kind.items():
        for special, mask in ((False, own), (True, every)):
            expected = (hidden * mask).sum(1) / mask.sum(1)
            options = VectorOptions(kind, special_tokens=special)
            found = Embedder([lm], options).sentences(TEXTS)
            assert found == pytest.approx(expected.numpy(), abs=1e-4)


def test_the_first_vector_of_bert_is_that_of_cls(tmp_path: Path) -> None:
    """The paper's BERT [CLS]."""
    transformers = pytest.importorskip("transformers")
    folder = build("bert", tmp_path)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lm = load_model(f"hf-masked:intact:{folder}")
    for place, pooling in ((0, "first"), (-1, "last")):
        options = VectorOptions(pooling=pooling, special_tokens=True)
        found = Embedder([lm], options).sentences(TEXTS[:3])
        for text, vector in zip(TEXTS[:3], found, strict=True):
            with torch.no_grad():
                hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state
            assert vector == pytest.approx(hidden[0, place].numpy(), abs=1e-4)
