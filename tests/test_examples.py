"""The programs of examples/ on tiny models with random weights: their lists are
written, read and rescored.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import runpy
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from rescore import formats
from rescore.columns import Role
from rescore.nbest import NbestList
from tests.conftest import ROOT, Run
from tests.lms.test_ngram import ARPA

transformers = pytest.importorskip("transformers")
AUDIO = np.random.default_rng(1).normal(size=16_000)
SIZE = 4


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, ROOT / "examples" / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def letters() -> Any:
    """A tokenizer of letters, without files from elsewhere."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokens = ["<pad>", "<s>", "</s>", "<unk>", " ", *"abcdefghijklmno"]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    marks = {
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks)


def read_and_rescored(rescore: Run, tmp_path: Path, entry: dict[str, Any]) -> NbestList:
    """The list that a program wrote; an n-gram model changes no text and adds no
    list.
    """
    (tmp_path / "lists.jsonl").write_text(json.dumps(entry) + "\n", encoding="utf-8")
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    (nbest,) = formats.read([tmp_path / "lists.jsonl"])
    done = rescore(
        "run",
        "lists.jsonl",
        "--lm",
        "ngram:lm.arpa",
        "--weight",
        "0.3",
        "-o",
        "out.jsonl",
    )
    assert done.returncode == 0, done.stderr
    (reranked,) = formats.read([tmp_path / "out.jsonl"])
    assert sorted(hypothesis.text for hypothesis in reranked.hypotheses) == sorted(
        hypothesis.text for hypothesis in nbest.hypotheses
    )
    return nbest


def test_whisper(rescore: Run, tmp_path: Path) -> None:
    torch.manual_seed(1)
    tokenizer = letters()
    config = transformers.WhisperConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_target_positions=24,
        decoder_start_token_id=1,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        suppress_tokens=[0, 3],
        begin_suppress_tokens=[2],
    )
    model = transformers.WhisperForConditionalGeneration(config).eval()

    class Processor:
        """Of a WhisperProcessor what the program calls."""

        def __call__(self, audio: Any, **options: Any) -> Any:
            return transformers.WhisperFeatureExtractor()(audio, **options)

        def batch_decode(self, ids: Any, **options: Any) -> list[str]:
            decoded: list[str] = tokenizer.batch_decode(ids, **options)
            return decoded

    hyps = program("huggingface_whisper").hypotheses(
        model, Processor(), AUDIO, [1, 5], SIZE, max_new_tokens=6
    )
    nbest = read_and_rescored(rescore, tmp_path, {"id": "u1", "hyps": hyps})
    scores = [hypothesis.scores["s2s"] for hypothesis in nbest.hypotheses]
    assert len(
        {hypothesis.text for hypothesis in nbest.hypotheses}
    ) == SIZE and scores == sorted(scores, reverse=True)


def test_translation(rescore: Run, tmp_path: Path) -> None:
    torch.manual_seed(2)
    tokenizer = letters()
    config = transformers.MarianConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=32,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=2,
        bos_token_id=1,
    )
    model = transformers.MarianMTModel(config).eval()
    hyps = program("huggingface_translation").hypotheses(
        model, tokenizer, "abba", SIZE, max_new_tokens=5
    )
    nbest = read_and_rescored(
        rescore, tmp_path, {"id": "1", "src": "abba", "hyps": hyps}
    )
    assert nbest.source == "abba" and len(nbest.hypotheses) == SIZE
    assert all(-20 < hypothesis.scores["s2s"] < 0 for hypothesis in nbest.hypotheses)


def test_ctc(rescore: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyctcdecode")
    torch.manual_seed(3)
    (tmp_path / "vocab.json").write_text(
        json.dumps(
            {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "A": 5, "B": 6}
        )
    )
    config = transformers.Wav2Vec2Config(
        vocab_size=7,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        conv_dim=(8, 8),
        conv_kernel=(10, 8),
        conv_stride=(80, 40),
        num_feat_extract_layers=2,
        pad_token_id=0,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        feat_extract_norm="layer",
    )
    model = transformers.Wav2Vec2ForCTC(config).eval()

    class Processor:
        tokenizer = transformers.Wav2Vec2CTCTokenizer(str(tmp_path / "vocab.json"))

        def __call__(self, audio: Any, **options: Any) -> Any:
            return transformers.Wav2Vec2FeatureExtractor()(audio, **options)

    ctc = program("huggingface_ctc")
    beams = ctc.beams(model, Processor(), ctc.decoder_of(Processor()), AUDIO, SIZE)
    nbest = read_and_rescored(rescore, tmp_path, {"id": "u1", "beams": beams})
    assert 1 < len(nbest.hypotheses) <= SIZE and nbest.columns(Role.COMPONENT) == [
        "logit_score"
    ]
    assert all(
        math.isfinite(hypothesis.scores["s2s"]) for hypothesis in nbest.hypotheses
    )


def test_sampling(rescore: Run, tmp_path: Path) -> None:
    """Of equal texts the best score counts; a score is a sum over segments."""
    texts = iter([" a b", " a c", " a b"] * 7)

    def segments(path: str, temperature: float) -> list[tuple[str, float, int]]:
        return [(next(texts), -0.5 - temperature, 3), (" d", -1.0, 1)]

    hyps = program("whisper_sampling").hypotheses(segments, "u1.wav")
    nbest = read_and_rescored(rescore, tmp_path, {"id": "u1", "hyps": hyps})
    assert [
        (hypothesis.text, hypothesis.scores["s2s"]) for hypothesis in nbest.hypotheses
    ] == [("a b d", -4.0), ("a c d", pytest.approx(-4.8))]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_programs_compile_and_say_how_they_are_called(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    compile(text, str(path), "exec")
    assert f"python {path.name} " in text and len(text.splitlines()) < 80
    assert f"examples/{path.name}" in (ROOT / "docs" / "get-lists.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_programs_explain_themselves_without_packages(path: Path) -> None:
    """Help needs no package, and a missing package is one line that names it."""
    bare = [sys.executable, "-S", "-E", str(path)]
    done = subprocess.run([*bare, "-h"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    usage, *_ = done.stdout.split("\n\n")
    _, name, _, *places = usage.split()
    assert name == path.name and len(places) > 2
    if path.name == "whisper_sampling.py":
        places[0] = "faster"
    done = subprocess.run([*bare, *places], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"No module named '\w+'; .*install .*\n", done.stderr)


class Chat(BaseHTTPRequestHandler):
    """A chat server that says the first transcript of the prompt with another last
    word.
    """

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        first = asked["messages"][0]["content"].split("\n\n")[1].splitlines()[0]
        content = f"{first.rpartition(' ')[0]} clock\n\n{first}\n"
        answer = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002 (the base class's name)
        """Nothing."""


def test_proposals_of_a_chat_model_are_merged(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipe that docs/server.md names: corrections join the lists by `combine`, as
    the hypotheses of a system.
    """
    hyps = [
        {"text": "the old clack", "score": -1.0},
        {"text": "the old clerk", "score": -2.0},
    ]
    lines = [
        json.dumps({"id": f"u{n}", "ref": "the old clock", "hyps": hyps})
        for n in range(12)
    ]
    (tmp_path / "l.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        lists, output = str(tmp_path / "l.jsonl"), str(tmp_path / "llm.jsonl")
        monkeypatch.setattr(
            "sys.argv", ["llm_proposals.py", lists, output, url, "tiny"]
        )
        runpy.run_path(str(ROOT / "examples" / "llm_proposals.py"), run_name="__main__")
        server.shutdown()
    proposed = formats.read([tmp_path / "llm.jsonl"])
    assert [hypothesis.text for hypothesis in proposed[0].hypotheses] == [
        "the old clock",
        "the old clack",
    ]
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    assert (
        rescore("combine", "l.jsonl", "llm.jsonl", "-o", "both.jsonl").returncode == 0
    )
    done = rescore(
        "both.jsonl",
        "--dev",
        "both.jsonl",
        "--lm",
        "ngram:lm.arpa",
        "--best",
        "best.txt",
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "best.txt").read_text().splitlines()[0] == "the old clock"
