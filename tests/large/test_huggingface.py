"""Hugging Face models, built here small and random, score as a slow reading of the
model itself does.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from rescore.errors import UserError
from rescore.large.network import INT8_LOSS
from rescore.lms import ComputeOptions, load, without_context
from tests.conftest import SENTENCES, Run, assert_one_line_error, shared, write_json

SIZE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
TEXTS = [*SENTENCES[:12], "", "Rhinoceroses", "the the the"]


def wordpiece(positions: int) -> PreTrainedTokenizerFast:
    """As BERT's, cased."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(
        SENTENCES, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(
        zip(
            ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
            special,
            strict=True,
        )
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=positions, **names
    )


def byte_bpe(mask: bool) -> PreTrainedTokenizerFast:
    """As RoBERTa's (with a mask and a frame) or GPT-2's."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if mask else ["<|endoftext|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    if not mask:
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[0]
        )
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    names = dict(
        zip(
            ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"),
            special,
            strict=True,
        )
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="<s>", sep_token="</s>", **names
    )


def build(name: str, folder: Path, positions: int = 40) -> Path:
    """A folder with a random model of an architecture, its weights large enough to make
    a difference.
    """
    torch.manual_seed(3)
    masked = name not in ("gpt2", "llama", "llama-without-bos", "bloom")
    tokenizer = (
        wordpiece(positions)
        if name in ("bert", "distilbert", "modernbert")
        else byte_bpe(masked)
    )
    if name == "llama-without-bos":
        tokenizer.bos_token = None
    common: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
    }
    common["initializer_range"] = 0.3
    if name == "bert":
        model: Any = transformers.BertForMaskedLM(
            transformers.BertConfig(**SIZE, **common, max_position_embeddings=positions)
        )
    elif name == "roberta":
        # Positions are counted from the padding index on: two more than fit a sequence.
        config = transformers.RobertaConfig(
            **SIZE, **common, max_position_embeddings=positions + 2, type_vocab_size=1
        )
        model = transformers.RobertaForMaskedLM(config)
    elif name == "distilbert":
        sizes = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
        model = transformers.DistilBertForMaskedLM(
            transformers.DistilBertConfig(
                **sizes, **common, max_position_embeddings=positions
            )
        )
    elif name == "modernbert":
        config = transformers.ModernBertConfig(
            **SIZE,
            **common,
            max_position_embeddings=positions,
            cls_token_id=2,
            bos_token_id=2,
            sep_token_id=3,
            eos_token_id=3,
        )
        model = transformers.ModernBertForMaskedLM(config)
    elif name == "gpt2":
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": positions}
        common.pop("pad_token_id")
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(**sizes, **common, bos_token_id=0, eos_token_id=0)
        )
    elif name == "bloom":
        sizes = {"hidden_size": 32, "n_layer": 2, "n_head": 4}
        model = transformers.BloomForCausalLM(
            transformers.BloomConfig(**sizes, **common, bos_token_id=0, eos_token_id=0)
        )
    else:
        config = transformers.LlamaConfig(
            **SIZE,
            **common,
            num_key_value_heads=2,
            max_position_embeddings=positions,
            bos_token_id=0,
            eos_token_id=0,
        )
        model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("gpt2", tmp_path_factory.mktemp("gpt2"))


def masked_definition(folder: Path, text: str) -> list[float]:
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"][0], encoded["special_tokens_mask"][0]
    scores = []
    for place in range(len(ids)):
        if special[place]:
            continue
        masked = ids.clone()
        masked[place] = tokenizer.mask_token_id
        with torch.no_grad():
            scores.append(
                model(input_ids=masked[None])
                .logits[0, place]
                .log_softmax(-1)[ids[place]]
                .item()
            )
    return scores


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "modernbert"])
def test_masked_models(name: str, tmp_path: Path) -> None:
    folder = build(name, tmp_path / name)
    lm = load(f"hf-masked:{folder}")
    for text, found in zip(TEXTS, lm.score(without_context(TEXTS)), strict=True):
        slow = masked_definition(folder, text)
        assert found.log_probs == pytest.approx(slow, abs=1e-4)
    assert lm.name == "hf-masked"


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama-without-bos", "bloom"])
def test_causal_models(name: str, tmp_path: Path) -> None:
    folder = build(name, tmp_path / name)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    begin = [] if name == "llama-without-bos" else [tokenizer.bos_token_id]
    for text, found in zip(
        TEXTS, load(f"hf-causal:{folder}").score(without_context(TEXTS)), strict=True
    ):
        ids = [*begin, *tokenizer(text, add_special_tokens=False)["input_ids"]]
        slow = []
        for place in range(1, len(ids)):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids[:place]])).logits
            slow.append(logits[0, -1].log_softmax(-1)[ids[place]].item())
        assert found.log_probs == pytest.approx(slow, abs=1e-4)
        assert found.tokens == tokenizer.convert_ids_to_tokens(ids[1:])


def test_causal_models_read_trees_where_they_can(gpt2: Path, tmp_path: Path) -> None:
    for folder, expected in (
        (gpt2, True),
        (build("llama", tmp_path / "l"), True),
        (build("bloom", tmp_path / "b"), False),
    ):
        lm: Any = load(f"hf-causal:{folder}")
        assert lm.network.reads_trees is expected
        texts = [f"the old clock {text}" for text in TEXTS]
        together = [found.sum for found in lm.score(without_context(texts))]
        assert together == pytest.approx(
            [lm.score(without_context([text]))[0].sum for text in texts], abs=1e-4
        )


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_lower_precision_is_near(precision: str, gpt2: Path, bert: Path) -> None:
    for spec in (f"hf-causal:{gpt2}", f"hf-masked:{bert}"):
        exact, rough = load(spec), load(spec, ComputeOptions(precision=precision))
        means = [
            [found.mean for found in lm.score(without_context(TEXTS[:12]))]
            for lm in (exact, rough)
        ]
        assert means[0] == pytest.approx(means[1], abs=0.2) and means[0] != means[1]
        assert exact.fingerprint != rough.fingerprint
    lm: Any = load(f"hf-causal:{gpt2}", ComputeOptions(precision="bf16"))
    assert lm.network.reads_trees


@pytest.mark.parametrize("masked", [False, True])
def test_what_int8_loses_is_said(
    masked: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a model and of one with the same scores, in which a large value enters a layer
    beside the others.
    """
    folder = build("bert" if masked else "llama", tmp_path / "small")
    spec = f"hf-{'masked' if masked else 'causal'}:{folder}"
    loader = (
        transformers.AutoModelForMaskedLM
        if masked
        else transformers.AutoModelForCausalLM
    )
    model: Any = loader.from_pretrained(folder)
    if masked:
        layer = model.bert.encoder.layer[0]
        value, output = layer.attention.self.value, layer.attention.output.dense
    else:
        value, output = (
            model.model.layers[0].mlp.up_proj,
            model.model.layers[0].mlp.down_proj,
        )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight *= 0.2 if "layer" in name and weight.ndim > 1 else 1.0
    model.save_pretrained(folder)
    exact = [
        found.log_probs for found in load(spec).score(without_context(SENTENCES[:12]))
    ]
    for large in (1.0, 10_000.0):
        with torch.no_grad():
            value.weight[0] *= large
            output.weight[:, 0] /= large
            if masked:
                value.bias[0] *= large
        model.save_pretrained(folder)
        caplog.clear()
        rough = load(spec, ComputeOptions(precision="int8")).score(
            without_context(SENTENCES[:12])
        )
        changes = [
            abs(found.log_probs - row) for found, row in zip(rough, exact, strict=True)
        ]
        change = sum(each.sum() for each in changes) / sum(map(len, changes))
        assert (
            (change > INT8_LOSS)
            == ("int8 changes the log-probability" in caplog.text)
            == (large > 1)
        )
        assert [
            found.log_probs
            for found in load(spec).score(without_context(SENTENCES[:1]))
        ] == [pytest.approx(exact[0], abs=1e-3)]


def test_long_sentences_fit_the_positions(
    bert: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = " ".join(["the old clock"] * 40)
    for spec in (f"hf-masked:{bert}", f"hf-masked:{build('roberta', tmp_path)}"):
        caplog.clear()
        (found,) = load(spec).score(without_context([long]))
        assert len(found.tokens) >= 120 and (found.log_probs < 0).all()
        assert "but the model only 38 positions" in caplog.text


def test_intact_reads_everything(bert: Path) -> None:
    intact, masked = (load(f"hf-masked{option}:{bert}") for option in (":intact", ""))
    text = SENTENCES[:1]
    assert len(intact.score(without_context(text))[0].tokens) == len(
        masked.score(without_context(text))[0].tokens
    )
    assert intact.score(without_context(text))[0].sum != pytest.approx(
        masked.score(without_context(text))[0].sum, abs=1e-3
    )
    assert intact.fingerprint != masked.fingerprint


def test_case(bert: Path) -> None:
    plain = load(f"hf-masked:{bert}")
    lower = load(f"hf-masked:lower:{bert}")
    sentence = load(f"hf-masked:sentence:{bert}")
    shout = "THE OLD CLOCK"
    quiet = pytest.approx(
        plain.score(without_context(["the old clock"]))[0].sum, abs=1e-4
    )
    assert lower.score(without_context([shout]))[0].sum == quiet
    assert sentence.score(without_context([shout]))[0].sum == pytest.approx(
        plain.score(without_context(["The old clock"]))[0].sum, abs=1e-4
    )
    assert plain.score(without_context([shout]))[0].sum != quiet
    assert len({lm.fingerprint for lm in (plain, lower, sentence)}) == 3


def test_batches_change_nothing(gpt2: Path, bert: Path) -> None:
    for spec in (f"hf-causal:{gpt2}", f"hf-masked:{bert}"):
        together = [found.sum for found in load(spec).score(without_context(TEXTS))]
        single: Any = load(spec)
        single.network.batch_tokens = 1
        assert together == pytest.approx(
            [single.score(without_context([text]))[0].sum for text in TEXTS], abs=1e-4
        )


def test_errors(bert: Path, gpt2: Path, tmp_path: Path) -> None:
    pickled = Path(shutil.copytree(bert, tmp_path / "pickled"))
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(
        UserError, match=r"no \*\.safetensors in it \(pytorch_model\.bin is pickled"
    ):
        load(f"hf-masked:{pickled}")
    with pytest.raises(UserError, match="no such folder"):
        load(f"hf-masked:{tmp_path / 'absent'}")
    with pytest.raises(UserError, match=r"no config\.json"):
        load(f"hf-causal:{tmp_path}")
    with pytest.raises(
        UserError, match=r"transformers cannot load it|not trained as a masked"
    ):
        load(f"hf-masked:{gpt2}")
    maskless = Path(shutil.copytree(bert, tmp_path / "maskless"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    tokenizer.mask_token = None
    tokenizer.save_pretrained(maskless)
    with pytest.raises(UserError, match="no mask token"):
        load(f"hf-masked:{maskless}")
    headless = Path(shutil.copytree(bert, tmp_path / "headless"))
    transformers.BertModel.from_pretrained(bert).save_pretrained(headless)
    with pytest.raises(UserError, match="not trained as a masked language model"):
        load(f"hf-masked:{headless}")


def test_errors_are_one_line_at_the_command_line(
    rescore: Run, bert: Path, tmp_path: Path
) -> None:
    lists = write_json(
        tmp_path / "l.json", {"u": {"ref": "a", "hyp_1": {"score": -1, "text": "a"}}}
    )
    pickled = Path(shutil.copytree(bert, tmp_path / "pickled"))
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    done = rescore(lists, "--lm", f"hf-masked:{pickled}", "--weight", "0.3")
    assert_one_line_error(done, "pytorch_model.bin is pickled", "safe_serialization")
    assert_one_line_error(
        rescore(lists, "--lm", "bert", "--weight", "0.3"), "'bert' is not one of"
    )
    done = rescore(lists, "--lm", f"tta:{bert}", "--weight", "0.3")
    assert_one_line_error(
        done,
        "config.json: is a model of Hugging Face's transformers",
        f"name it hf-masked:{bert}",
    )
    assert_one_line_error(
        rescore(lists, "--lm", "hf-causal:no/such/place", "--weight", "0.3"),
        "no/such/place: no such folder",
    )
    done = rescore(lists, "--lm", f"hf-masked:sentence:{bert}", "--weight", "0.3")
    assert (
        done.returncode == 0
        and "lm:hf-masked:sentence=hf-masked:sentence@" in done.stdout
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2"])
def test_minicons_agrees_on_real_hypotheses(name: str, tmp_path: Path) -> None:
    scorer = pytest.importorskip("minicons.scorer")
    from rescore import formats

    lists = formats.read([shared("librispeech-other/test.json")])
    texts = [
        hypothesis.text for nbest in lists[:20] for hypothesis in nbest.hypotheses[:5]
    ]
    assert len(texts) == 100
    folder = build(name, tmp_path / name, positions=600)
    if name == "gpt2":
        theirs = scorer.IncrementalLMScorer(str(folder), "cpu")
        # gone from transformers 5
        theirs.tokenizer.batch_encode_plus = theirs.tokenizer.__call__
        wanted = theirs.token_score(texts, bos_token=True)
        ours = {"": load(f"hf-causal:{folder}")}
    else:
        theirs = scorer.MaskedLMScorer(str(folder), "cpu")
        theirs.tokenizer.batch_encode_plus = theirs.tokenizer.__call__
        ours = {"original": load(f"hf-masked:{folder}")}
    for metric, lm in ours.items():
        if name != "gpt2":
            wanted = theirs.token_score(texts, PLL_metric=metric)
        sums = [sum(value for _, value in sentence) for sentence in wanted]
        assert [
            found.sum for found in lm.score(without_context(texts))
        ] == pytest.approx(sums, abs=1e-3)


def test_models_that_look_ahead_are_no_causal_models(
    bert: Path, tmp_path: Path
) -> None:
    """Their log-probabilities would know what they predict: of a BERT partly, of an
    XLNet wholly.
    """
    with pytest.raises(
        UserError,
        match="not a causal model: a later word changes what it predicts before",
    ):
        load(f"hf-causal:{bert}")
    folder = tmp_path / "xlnet"
    transformers.AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    config = transformers.XLNetConfig(
        vocab_size=500, d_model=32, n_layer=2, n_head=4, d_inner=64
    )
    transformers.XLNetLMHeadModel(config).save_pretrained(folder)
    with pytest.raises(UserError, match=r"config\.json allows -1 tokens"):
        load(f"hf-causal:{folder}")


def test_a_model_without_positions_is_refused(gpt2: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(gpt2, tmp_path / "gpt2"))
    told = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**told, "model_max_length": 0})
    )
    with pytest.raises(UserError, match=r"config\.json allows 0 tokens"):
        load(f"hf-causal:{folder}")
