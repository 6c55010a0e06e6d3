"""Law: a model with a damaged or odd file scores with numbers, or is refused in one
line that names it: for each kind of model, each of its files and each damage.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rescore.errors import UserError
from rescore.lms import Question, load
from rescore.mt.lexical.estimation import train
from rescore.nbest import Audio
from rescore.parts import KINDS
from tests.large.speech_models import build_speech, sound
from tests.large.test_huggingface import build as build_text
from tests.large.test_seq2seq import build as build_seq2seq
from tests.lms.test_ngram import ARPA
from tests.mt.test_lexical_training import pairs
from tests.research.a3t.test_recogniser import build as build_ctc


def build_ngram(folder: Path) -> None:
    (folder / "lm.arpa").write_text(ARPA, encoding="utf-8")


def build_lexical(folder: Path) -> None:
    sides = []
    for side in (0, 1):
        sides.append(folder / f"{side}.txt")
        sides[side].write_text("".join(f"{pair[side]}\n" for pair in pairs()))
    train((sides[0], sides[1]), folder / "lm", pieces=0)
    for path in (folder / "lm").iterdir():
        path.replace(folder / path.name)
    shutil.rmtree(folder / "lm")
    for path in sides:
        path.unlink()


BUILDERS: dict[str, Callable[[Path], Any]] = {
    "ngram": build_ngram,
    "lexical": build_lexical,
    "hf-masked": lambda folder: build_text("bert", folder),
    "hf-causal": lambda folder: build_text("llama", folder),
    "hf-seq2seq": lambda folder: build_seq2seq("bart", folder),
    "hf-speech": lambda folder: build_speech("whisper", folder),
    "ctc": lambda folder: build_ctc("wav2vec2", folder),
}
"""What writes a tiny folder of a kind that is no network of ours."""
ELSEWHERE = {
    "server": "has no files",
    "a3t": "is trained with recordings: tests/research/a3t",
    "qe": "is read by unbabel-comet: tests/mt/test_quality_estimation.py",
}
"""Kinds without a folder that this law can make, and why."""
OPTIONS = {"hf-speech": ":language=en", "unified": ":bi"}
ODD: tuple[Any, ...] = (None, "x", -1, 0, 2.5, [], ["x"], {}, {"x": 1}, True)
"""Values that replace a field of a JSON file."""
MOST_FIELDS = 5
"""Fields of a JSON file that are damaged: a vocabulary has hundreds."""


def damages(path: Path) -> Iterator[tuple[str, bytes | None]]:
    """Yield each damage of a file: its name, and the contents; None for a file
    that is missing.
    """
    data = path.read_bytes()
    yield "missing", None
    yield "empty", b""
    yield "half", data[: len(data) // 2]
    yield "zeros", bytes(len(data))
    yield "text", b"the old clock\n"
    if path.suffix == ".json":
        for value in (None, [], {}):
            yield f"is {value!r}", json.dumps(value).encode()
        yield from of_fields(json.loads(data))
    if path.suffix == ".safetensors":
        weights = load_file(path)
        name = max(weights, key=lambda name: weights[name].numel())
        for number in (math.nan, math.inf):
            odd = {**weights, name: torch.full_like(weights[name], number)}
            save_file(odd, path, {"format": "pt"})
            yield f"{name} is {number}", path.read_bytes()
        save_file(without(weights, name), path, {"format": "pt"})
        yield f"no {name}", path.read_bytes()


def of_fields(fields: Any) -> Iterator[tuple[str, bytes]]:
    """Yield the damages of the fields of a JSON object: each lacks, or is odd."""
    if not isinstance(fields, dict):
        return
    for place, key in enumerate(list(fields)[:MOST_FIELDS]):
        value = ODD[place % len(ODD)]
        if place % 3:
            yield f"{key} is {value!r}", json.dumps({**fields, key: value}).encode()
        else:
            yield f"no {key}", json.dumps(without(fields, key)).encode()


def without(fields: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != key}


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Audio:
    path = sound(tmp_path_factory.mktemp("sound") / "x.wav", 0.63)
    return Audio(str(path), name="x")


def verdict(spec: str, question: Question) -> str:
    """Return what is wrong with the answer about a model; empty if nothing is."""
    folder = spec.rpartition(":")[2]
    try:
        (score,) = load(spec).score([question])
    except UserError as error:
        message = str(error)
        names = folder in message or spec.partition(":")[0] in message
        if not names or "\n" in message:
            return f"no line with the model: {message}"
        if len(message.replace(folder, "")) > 300:
            return f"a long line: {message}"
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if math.isnan(score.sum) or score.sum == math.inf:
        return f"the score is {score.sum}"
    return ""


def test_each_kind_is_under_the_law() -> None:
    networks = {name for name in KINDS.names if KINDS[name].is_network}
    assert networks | set(BUILDERS) | set(ELSEWHERE) == set(KINDS.names)


@pytest.mark.parametrize("kind", [k for k in KINDS.names if k not in ELSEWHERE])
def test_damaged_files(
    kind: str, models: dict[str, Path], audio: Audio, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    if kind in models:
        shutil.copytree(models[kind], folder)
    else:
        folder.mkdir()
        BUILDERS[kind](folder)
    question = Question("the old clock", "das haus", audio=audio)
    spec = f"{kind}{OPTIONS.get(kind, '')}:{folder}"
    assert verdict(spec, question) == ""
    wrong = []
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for damage, content in damages(path):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
            said = verdict(spec, question)
            if said:
                wrong.append(f"{path.name}, {damage}: {said}")
            path.write_bytes(whole)
    assert not wrong, "\n".join(wrong)
