"""The CTC recogniser: its training on tones, its scores, and models of transformers."""

from __future__ import annotations

import json
import math
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from rescore.errors import UserError
from rescore.formats.audio import samples
from rescore.lms import Question, load
from rescore.nbest import NO_AUDIO, Audio
from rescore.research.a3t.ctc import prefix_beam_search
from rescore.research.a3t.ctc_network import (
    BLANK,
    OwnRecogniser,
    stacked,
    with_masks,
)
from rescore.research.a3t.recogniser import load_recogniser
from tests.conftest import Run, assert_one_line_error, write_json
from tests.large.speech_models import capitals, sound
from tests.research.a3t.conftest import SIZES, speak


@pytest.fixture
def unheard(tmp_path: Path) -> Audio:
    """A recording of `ab ca` that is not in the training set."""
    path = tmp_path / "unheard.wav"
    speak("ab ca", path, seed=99)
    return Audio(str(path), name="unheard")


def test_it_learns_the_letters(ctc: Path, unheard: Audio) -> None:
    recogniser = load_recogniser(ctc)
    assert isinstance(recogniser, OwnRecogniser)
    heard = recogniser.hear(unheard)
    assert np.exp(heard.log_probs).sum(1) == pytest.approx(1)
    best, _ = prefix_beam_search(heard.log_probs, BLANK)[0]
    assert recogniser.text(best) == "ab ca"
    lm = load(f"ctc:{ctc}")
    texts = ["ab ca", "ab cb", "ab", "abca"]
    right, *others = lm.score([Question(text, audio=unheard) for text in texts])
    assert right.sum > max(other.sum for other in others) and right.sum > -1


def test_scores_are_log_probabilities(ctc: Path, unheard: Audio) -> None:
    """They add up to minus the loss of PyTorch; letters are in lower case."""
    lm = load(f"ctc:{ctc}")
    recogniser = load_recogniser(ctc)
    log_probs = torch.tensor(recogniser.hear(unheard).log_probs)
    for text in ("ab ca", "A  b", "c"):
        (scores,) = lm.score([Question(text, audio=unheard)])
        letters = " ".join(text.lower().split())
        assert scores.tokens == [*letters, "</s>"]
        labels = recogniser.labels(text)
        loss = torch.nn.functional.ctc_loss(
            log_probs,
            torch.tensor(labels),
            torch.tensor(len(log_probs)),
            torch.tensor(len(labels)),
            reduction="sum",
        )
        assert scores.sum == pytest.approx(-float(loss))
        assert scores.sum == pytest.approx(scores.log_probs.sum())


def test_what_it_cannot_hear(ctc: Path, unheard: Audio) -> None:
    lm = load(f"ctc:{ctc}")
    texts = ["", "a?", "ab" * 100]
    empty, strange, long = lm.score([Question(text, audio=unheard) for text in texts])
    assert empty.tokens == ["</s>"] and empty.sum < -1
    assert strange.tokens == ["a", "<unk>", "</s>"] and strange.unknown == (1,)
    assert math.isfinite(strange.sum) and long.sum == -math.inf
    (silent,) = lm.score([Question("ab ca", audio=NO_AUDIO)])
    assert silent.sum == 0
    with pytest.raises(UserError, match="listens to the recording"):
        lm.score([Question("ab ca")])


def test_neighbours_in_a_batch_change_nothing(ctc: Path) -> None:
    """Alone, or padded beside a longer utterance."""
    recogniser = load_recogniser(ctc)
    assert isinstance(recogniser, OwnRecogniser)
    torch.manual_seed(1)
    short, long = torch.randn(31, 20), torch.randn(60, 20)
    sizes = torch.tensor([31, 60])
    batch = torch.nn.utils.rnn.pad_sequence([short, long], batch_first=True)
    with torch.inference_mode():
        together = recogniser.network(batch, sizes)
        alone = recogniser.network(short[None], sizes[:1])
    number = int(stacked(torch.tensor(31)))
    assert alone.shape[1] == number == 11
    assert torch.allclose(together[0, :number], alone[0], atol=1e-5)


def test_masks_are_bands_and_stretches_of_the_mean() -> None:
    frames = torch.ones(100, 20)
    shares = []
    for seed in range(20):
        masked = with_masks(frames, random.Random(seed))
        bands = (masked == 0).all(0)
        stretches = (masked == 0).all(1)
        assert torch.equal(masked == 0, bands[None] | stretches[:, None])
        assert int(bands.sum()) <= 10 and int(stretches.sum()) <= 10
        shares.append(float((masked == 0).float().mean()))
    assert frames.min() == 1 and max(shares) > 0.2


def test_lists_are_rescored(rescore: Run, tones: Path, ctc: Path) -> None:
    """The recogniser puts the spoken text first, which the first pass has last."""
    table = {}
    for line in (tones / "text").read_text().splitlines()[:8]:
        name, text = line.split(" ", 1)
        wrong = text.replace("a", "c") + " b"
        hypotheses = [{"text": wrong, "score": -1}, {"text": text, "score": -2}]
        table[name] = {"ref": text, "hyps": hypotheses}
    entries = [{"id": name, **entry} for name, entry in table.items()]
    lines = "\n".join(json.dumps(entry) for entry in entries)
    Path("lists.jsonl").write_text(lines + "\n")
    given = ("--lm", f"ctc:{ctc}", "--audio", tones / "wav", "--weight", "0.9")
    done = rescore("run", "lists.jsonl", *given, "--report", "r.json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(Path("r.json").read_text())["metrics"][0]
    assert figures["first_pass"] > 20 and figures["reranked"] == 0


def test_weights_decide_the_fingerprint(ctc: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(ctc, tmp_path / "copy")
    assert load(f"ctc:{copy}").fingerprint == load(f"ctc:{ctc}").fingerprint
    config = json.loads((copy / "config.json").read_text())
    config["mean"] += 0.1
    write_json(copy / "config.json", config)
    assert load(f"ctc:{copy}").fingerprint != load(f"ctc:{ctc}").fingerprint


def test_damaged_folders(rescore: Run, ctc: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(ctc, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    for changes, message in (
        ({"d_model": 31}, "config.json: d_model 31 is odd, or cannot be divided"),
        ({"layers": 10**6}, "config.json: layers is 1000000; it must be from 1 to 64"),
        ({"layers": 2}, "is not as config.json asks for"),
        ({"letters": 3}, "config.json: letters: expected an array"),
    ):
        write_json(copy / "config.json", config | changes)
        with pytest.raises(UserError, match=message) as error:
            load(f"ctc:{copy}")
        assert "\n" not in str(error.value)
    write_json(copy / "config.json", config)
    (copy / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError, match="not a whole safetensors file"):
        load(f"ctc:{copy}")
    with pytest.raises(UserError, match="no such folder"):
        load("ctc:./nowhere")


def test_what_cannot_be_trained(rescore: Run, tones: Path, ctc: Path) -> None:
    Path("nobody").write_text("nobody a b\n")
    Path("silent").write_text("u1\n")
    common = ("train", "--lm", "ctc", "--audio", tones / "wav", *SIZES, "--out", "o")
    some = ("--text", tones / "text")
    for arguments, message in (
        (("--text", "nobody"), "nobody: utterance nobody: no recording in"),
        (("--text", "silent"), "silent: utterance u1: no words"),
        ((*some, "--d-model", "15"), "--d-model 15: is odd, or cannot be divided"),
        ((*some, "--out", ctc), "holds a model; give another folder"),
    ):
        assert_one_line_error(rescore(*common, *arguments), message)
    assert not Path("o").exists()


# --- models of transformers ----------------------------------------------------------


def build(name: str, folder: Path) -> Path:
    """A tiny model with random weights, of capital letters."""
    torch.manual_seed(4)
    tokenizer = capitals(folder)
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "vocab_size": len(tokenizer),
        "pad_token_id": 0,
    }
    features: Any = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True)
    if name == "wav2vec2-bert":
        sizes |= {"feature_projection_input_dim": 160, "output_hidden_size": 16}
        model: Any = transformers.Wav2Vec2BertForCTC(
            transformers.Wav2Vec2BertConfig(**sizes)
        )
        features = transformers.SeamlessM4TFeatureExtractor()
    else:
        sizes |= {
            "conv_dim": (8, 8),
            "conv_kernel": (10, 8),
            "conv_stride": (8, 40),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
        }
        if name == "hubert":
            model = transformers.HubertForCTC(transformers.HubertConfig(**sizes))
        else:
            model = transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(**sizes))
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    features.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ["wav2vec2", "hubert", "wav2vec2-bert"])
def test_models_of_transformers_have_their_own_loss(name: str, tmp_path: Path) -> None:
    folder = build(name, tmp_path)
    path = sound(tmp_path / "x.wav", seconds=0.63)
    texts = ["the cat", "a", "The cat sat"]
    audio = Audio(str(path), name="x")
    scores = load(f"ctc:{folder}").score([Question(t, audio=audio) for t in texts])
    assert scores[1].tokens == ["A", "</s>"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    features = transformers.AutoFeatureExtractor.from_pretrained(folder)
    model: Any = transformers.AutoModelForCTC.from_pretrained(folder).eval()
    model.config.ctc_loss_reduction = "sum"
    inputs = features(samples(audio, 16_000), sampling_rate=16_000, return_tensors="pt")
    for text, score in zip(texts, scores, strict=True):
        labels = torch.tensor([tokenizer(text.upper())["input_ids"]])
        with torch.inference_mode():
            loss = float(model(**inputs, labels=labels).loss)
        assert score.sum == pytest.approx(-loss, abs=1e-3)


def test_other_models_of_transformers_are_refused(tmp_path: Path) -> None:
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="name it hf-masked"):
        load(f"ctc:{tmp_path}")
