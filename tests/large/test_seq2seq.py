"""Translation models, built here small and random: p(hypothesis given source) as
transformers' own loss has it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from rescore.errors import UserError
from rescore.large import hub
from rescore.lms import ComputeOptions, Question, load
from tests.conftest import SENTENCES, Run, assert_one_line_error
from tests.large.test_huggingface import byte_bpe

SOURCES = [
    "das alte haus",
    "ein sehr langer satz mit vielen kleinen worten darin",
    "ja",
]
TEXTS = [SENTENCES[0], "yes", SENTENCES[3]]


def build(name: str, folder: Path) -> Path:
    torch.manual_seed(5)
    tokenizer = byte_bpe(True)
    tokenizer.model_max_length = 100
    common: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
    }
    common |= {
        "decoder_start_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    layers: dict[str, Any] = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
    }
    layers |= {
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "d_model": 16,
    }
    if name == "t5":
        config = transformers.T5Config(
            d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, **common
        )
        model: Any = transformers.T5ForConditionalGeneration(config)
    elif name == "bart":
        config = transformers.BartConfig(
            max_position_embeddings=128, init_std=0.5, **layers, **common
        )
        model = transformers.BartForConditionalGeneration(config)
    elif name == "m2m":
        config = transformers.M2M100Config(init_std=0.5, **layers, **common)
        model = transformers.M2M100ForConditionalGeneration(config)
    else:
        config = transformers.MarianConfig(
            max_position_embeddings=128, init_std=0.5, **layers, **common
        )
        model = transformers.MarianMTModel(config)
    model.eval().save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["t5", "bart", "marian", "m2m"])
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return build(request.param, tmp_path_factory.mktemp(request.param))


def own_loss(folder: Path, given: str, predicted: str) -> float:
    """transformers' loss of one pair, summed over tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    inputs = tokenizer(given, return_tensors="pt")
    labels = tokenizer(text_target=predicted, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        loss = model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            labels=labels,
        ).loss
    return -float(loss) * labels.shape[1]


def test_as_transformers_has_it(folder: Path) -> None:
    pairs = [(source, text) for source in SOURCES for text in TEXTS]
    questions = [Question(text, source) for source, text in pairs]
    direct = load(f"hf-seq2seq:{folder}").score(questions)
    channel = load(f"hf-seq2seq:channel:{folder}").score(questions)
    small = load(f"hf-seq2seq:{folder}", ComputeOptions(batch_tokens=20)).score(
        questions
    )
    for (source, text), one, other, third in zip(
        pairs, direct, channel, small, strict=True
    ):
        assert one.sum == pytest.approx(
            own_loss(folder, source, text), abs=1e-4, rel=1e-5
        )
        assert other.sum == pytest.approx(
            own_loss(folder, text, source), abs=1e-4, rel=1e-5
        )
        assert third.sum == pytest.approx(one.sum, abs=1e-4, rel=1e-5)
        assert one.tokens[-1] == "</s>" and len(one.tokens) == len(one.log_probs)


def test_texts_beyond_the_positions(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A long given text loses its end, a long predicted text is read in windows; both
    are told once. T5 and M2M100 read texts of any length.
    """
    lm: Any = load(f"hf-seq2seq:{folder}")
    is_limited = folder.name[:3] not in ("t50", "m2m")
    words = "haus und hof " * 60
    tokenizer = lm._tokenizer
    ids = tokenizer(words, add_special_tokens=False)["input_ids"]
    whole, _ = lm.score([Question("the house", words), Question("yes", words)])
    if is_limited:
        kept = tokenizer.decode(ids[: 128 - 2])  # <s> and </s>
        assert whole.sum == pytest.approx(own_loss(folder, kept, "the house"), abs=1e-4)
        assert caplog.text.count("a source has") == 1
    long, _ = lm.score([Question(words, "das haus"), Question(words, "ja")])
    assert len(long.log_probs) == len(ids) + 2 and (long.log_probs < 0).all()
    if is_limited:
        assert caplog.text.count("scored in overlapping windows") == 1
        begin = tokenizer.decode(ids[:126])
        (short,) = lm.score([Question(begin, "das haus")])
        # the first window is the beginning of the text
        assert long.log_probs[:80] == pytest.approx(short.log_probs[:80], abs=1e-4)
    else:
        expected = own_loss(folder, "das haus", words)
        assert long.sum == pytest.approx(expected, rel=1e-4)


def test_without_a_padding_token(folder: Path, tmp_path: Path) -> None:
    """Texts of several lengths are padded with any token."""
    if "marian" in folder.name:
        pytest.skip("transformers cannot load it")
    own = Path(shutil.copytree(folder, tmp_path / "model"))
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        fields = json.loads((own / name).read_text())
        fields.pop("pad_token", None)
        fields.pop("pad_token_id", None)
        (own / name).write_text(json.dumps(fields))
    questions = [Question(text, source) for source in SOURCES for text in TEXTS]
    lm: Any = load(f"hf-seq2seq:{own}")
    assert lm._tokenizer.pad_token is None
    for question, score in zip(questions, lm.score(questions), strict=True):
        assert question.source is not None
        expected = own_loss(folder, question.source, question.text)
        assert score.sum == pytest.approx(expected, abs=1e-4, rel=1e-5)


def test_a_source_with_control_characters(folder: Path) -> None:
    """U+001F is a character of the source: it does not end it."""
    source = "das alte\x1fhaus"
    for spec, given, predicted in (
        ("hf-seq2seq", source, TEXTS[0]),
        ("hf-seq2seq:channel", TEXTS[0], source),
    ):
        (found,) = load(f"{spec}:{folder}").score([Question(TEXTS[0], source)])
        assert found.sum == pytest.approx(
            own_loss(folder, given, predicted), abs=1e-4, rel=1e-5
        )


def test_a_source_is_needed(folder: Path) -> None:
    with pytest.raises(UserError, match="reads the source"):
        load(f"hf-seq2seq:{folder}").score([Question(TEXTS[0])])


def test_through_the_command_line(rescore: Run, folder: Path, tmp_path: Path) -> None:
    entries = [
        {
            "id": str(number),
            "src": source,
            "ref": TEXTS[0],
            "hyps": [{"text": t, "score": -1.0 * r} for r, t in enumerate(TEXTS)],
        }
        for number, source in enumerate(SOURCES)
    ]
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in entries)
    )
    lms = ("--lm", f"hf-seq2seq:{folder}", "--lm", f"hf-seq2seq:channel:{folder}")
    done = rescore("score", "l.jsonl", *lms, "--cache", "cache")
    assert done.returncode == 0, done.stderr
    again = rescore("score", "l.jsonl", *lms, "--cache", "cache")
    assert again.stdout == done.stdout and "9 scores were in the cache" in again.stderr
    first = json.loads(done.stdout.splitlines()[0])["hyps"][0]["scores"]
    assert first["hf-seq2seq"] == pytest.approx(
        own_loss(folder, SOURCES[0], TEXTS[0]), abs=1e-4, rel=1e-5
    )
    assert first["hf-seq2seq:channel"] == pytest.approx(
        own_loss(folder, TEXTS[0], SOURCES[0]), abs=1e-4, rel=1e-5
    )
    (tmp_path / "n.jsonl").write_text(
        '{"id": "u", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    assert_one_line_error(
        rescore("score", "n.jsonl", *lms), "utterance u: no source text"
    )
    assert (
        rescore(
            "l.jsonl",
            lms[0],
            lms[1],
            "--weight",
            "0.5",
            "--html",
            "r.html",
            "--metric",
            "wer",
        ).returncode
        == 0
    )


def test_languages(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="knows no language xx_XX"):
        load(f"hf-seq2seq:src=xx_XX:{folder}")
    with pytest.raises(UserError, match="no such folder"):
        load(f"hf-seq2seq:{tmp_path / 'none'}")
    assert (
        load(f"hf-seq2seq:{folder}").fingerprint
        != load(f"hf-seq2seq:channel:{folder}").fingerprint
    )


def test_a_tokenizer_of_sentencepiece_names_the_package(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Path(shutil.copytree(folder, tmp_path / "model"))
    (own / "tokenizer.json").unlink()
    (own / "source.spm").touch()
    fields = {"tokenizer_class": "MarianTokenizer"}
    (own / "tokenizer_config.json").write_text(json.dumps(fields))
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install sentencepiece") as refused:
        load(f"hf-seq2seq:{own}")
    assert "\n" not in str(refused.value)
