"""The server of llama-cpp-python with a tiny model: its scores are those of
transformers for the same weights.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.lms import ComputeOptions, without_context
from rescore.lms import load as load_model
from tests.conftest import ROOT, SENTENCES, Run
from tests.large.llama import POSITIONS, save

pytestmark = pytest.mark.slow
pytest.importorskip(
    "llama_cpp.server", reason="needs a server: pip install 'llama-cpp-python[server]'"
)

PROMPT = "Text: {text}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("llama"))


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server with the model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "model": folder / "model.gguf",
        "port": port,
        "n_ctx": POSITIONS,
        "logits_all": True,
        "n_threads": 1,
    }
    arguments = [
        text for name, value in options.items() for text in (f"--{name}", str(value))
    ]
    with open(folder / "log", "wb") as told:
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "llama_cpp.server",
                *arguments,
                "--model_alias",
                "tiny",
            ],
            stdout=told,
            stderr=told,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        until = time.monotonic() + 120
        while True:
            assert server.poll() is None and time.monotonic() < until, (
                folder / "log"
            ).read_text()[-2000:]
            try:
                urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/v1/models", timeout=5
                ).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.3)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with serving(folder) as address:
        yield address


def test_scores_are_those_of_transformers(folder: Path, url: str) -> None:
    texts = [*SENTENCES[:20], "a", "straße 5 €", "two  blanks", ""]
    prompted = ComputeOptions(prompt=PROMPT)
    served = load_model(f"server:{url}#tiny", prompted).score(without_context(texts))
    here = load_model(f"hf-causal:{folder}", prompted).score(without_context(texts))
    for text, one, other in zip(texts, served, here, strict=True):
        assert len(one.tokens) == len(other.tokens), text
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-2), text


def test_without_a_prompt_this_server_does_not_score_the_first_token(
    folder: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    served = load_model(f"server:{url}").score(without_context(SENTENCES[:5]))
    assert "gives no score for the first token of a text" in caplog.text
    for one, other in zip(
        served,
        load_model(f"hf-causal:{folder}").score(without_context(SENTENCES[:5])),
        strict=True,
    ):
        assert one.log_probs == pytest.approx(other.log_probs[1:], abs=1e-2)


def test_the_same_choice_of_the_demo_lists(
    folder: Path, url: str, rescore: Run, tmp_path: Path
) -> None:
    lists = ROOT / "data" / "test.json"
    chosen = []
    for lm in (f"server:{url}#tiny", f"hf-causal:{folder}"):
        done = rescore(
            lists, "--lm", lm, "--prompt", PROMPT, "--weight", "0.5", "--best", "best"
        )
        assert done.returncode == 0, done.stderr
        chosen.append((tmp_path / "best").read_text(encoding="utf-8"))
    assert chosen[0] == chosen[1]
    first = "".join(
        f"{one.id} {one.hypotheses[0].text}\n" for one in formats.read([lists])
    )
    assert chosen[0] != first


def test_without_a_first_token_this_server_takes_the_wrong_log_probabilities(
    tmp_path: Path,
) -> None:
    """They are those of the next token; a prompt that begins with <s> mends it."""
    with serving(save(tmp_path, bos=False)) as url:
        with pytest.raises(
            UserError, match=r"gives no log-probabilities of .*its tokens spell"
        ):
            load_model(f"server:{url}#tiny")
        served = load_model(
            f"server:{url}#tiny", ComputeOptions(prompt=f"<s>{PROMPT}")
        ).score(without_context(SENTENCES[:5]))
    here = load_model(f"hf-causal:{tmp_path}", ComputeOptions(prompt=PROMPT)).score(
        without_context(SENTENCES[:5])
    )
    for one, other in zip(served, here, strict=True):
        assert one.sum == pytest.approx(other.sum, abs=0.2)
