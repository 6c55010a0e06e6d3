"""A3T as a scorer of hypotheses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from rescore.lms import LanguageModel, Question, load
from rescore.nbest import NO_AUDIO, Audio
from rescore.research.a3t.network import Batch
from rescore.research.a3t.scoring import SILENCE, A3tScorer, by_unit
from tests.conftest import Run
from tests.research.a3t.conftest import speak

TEXTS = ["ab ca", "ab cc", "bb ca", "ab", "", "ab?"]


@pytest.fixture(scope="module")
def lm(a3t: Path) -> LanguageModel:
    return load(f"a3t:{a3t}")


@pytest.fixture
def audio(tmp_path: Path) -> Audio:
    """A recording of `ab ca` that is not in the training set."""
    path = tmp_path / "x.wav"
    speak("ab ca", path, seed=99)
    return Audio(str(path), name="x")


def test_the_score_is_the_definition(lm: LanguageModel, audio: Audio) -> None:
    """Minus the mean error of frames, each reconstructed from all frames that are an
    odd number of spans away.
    """
    assert isinstance(lm, A3tScorer)
    for text in ("ab ca", "b"):
        one = lm.reader.under(audio, lm.reader.frames(audio), text)
        errors = []
        for place, frame in enumerate(one.frames):
            span = place // 32  # 0.4 s
            hidden = [other // 32 % 2 == span % 2 for other in range(len(one.frames))]
            with torch.inference_mode():
                _, made = lm.network(Batch.of([one]), torch.tensor([hidden]))
            errors.append(float((made[0, place] - frame).abs().mean()))
        (scores,) = lm.score([Question(text, audio=audio)])
        assert scores.sum == pytest.approx(-sum(errors) / len(errors), abs=1e-4)


def test_the_spoken_text_wins(lm: LanguageModel, audio: Audio) -> None:
    scores = lm.score([Question(text, audio=audio) for text in TEXTS])
    sums = [score.sum for score in scores]
    assert sums[0] == max(sums)
    assert scores[0].tokens == [*"abca", SILENCE]
    assert scores[4].tokens == [SILENCE] and math.isfinite(sums[4])
    assert scores[5].unknown == (2,)
    for text, value in zip(TEXTS, sums, strict=True):
        (alone,) = lm.score([Question(text, audio=audio)])
        assert alone.sum == pytest.approx(value, abs=1e-4)


def test_what_it_cannot_hear(lm: LanguageModel, audio: Audio) -> None:
    texts = ["ab" * 50, "a" * 500, "ab"]
    fast, long, right = lm.score([Question(text, audio=audio) for text in texts])
    assert fast.sum == long.sum == -math.inf < right.sum
    (silent,) = lm.score([Question("ab", audio=NO_AUDIO)])
    assert silent.sum == 0


def test_errors_are_shared_among_units() -> None:
    owners = torch.tensor([0, 1, 1, 2, 0])
    errors = torch.tensor([5.0, 1.0, 2.0, 4.0, 8.0])
    assert by_unit(owners, errors, 3).tolist() == [-0.6, -0.8, 0, -2.6]


def test_the_aligner_is_part_of_the_fingerprint(a3t: Path, tmp_path: Path) -> None:
    before = load(f"a3t:{a3t}").fingerprint
    copy = tmp_path / "copy"
    copy.symlink_to(a3t)
    assert load(f"a3t:{copy}").fingerprint == before
    copy.unlink()
    (copy / "aligner").mkdir(parents=True)
    for path in a3t.rglob("*"):
        if path.is_file():
            target = copy / path.relative_to(a3t)
            target.write_bytes(path.read_bytes())
    path = copy / "aligner" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"mean": config["mean"] + 0.1}))
    assert load(f"a3t:{copy}").fingerprint != before


def test_lists_are_rescored(rescore: Run, tones: Path, a3t: Path, ctc: Path) -> None:
    """Beside a CTC model, from one folder of recordings."""
    lines = []
    for line in (tones / "text").read_text().splitlines()[:6]:
        name, text = line.split(" ", 1)
        wrong = text.translate(str.maketrans("abc", "bca"))
        hypotheses = [{"text": wrong, "score": -1}, {"text": text, "score": -2}]
        lines.append(json.dumps({"id": name, "ref": text, "hyps": hypotheses}))
    Path("lists.jsonl").write_text("\n".join(lines) + "\n")
    given = ("--lm", f"a3t:{a3t}", "--audio", tones / "wav", "--weight", "0.99")
    done = rescore("run", "lists.jsonl", *given, "--report", "r.json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(Path("r.json").read_text())["metrics"][0]
    assert figures["first_pass"] == 100 and figures["reranked"] == 0
    both = ("--lm", f"a3t:{a3t}", "--lm", f"ctc:{ctc}", "--audio", tones / "wav")
    done = rescore("score", "lists.jsonl", *both, "-o", "scored.jsonl")
    assert done.returncode == 0, done.stderr
    first = json.loads(Path("scored.jsonl").read_text().splitlines()[0])
    assert set(first["hyps"][0]["scores"]) == {"a3t", "ctc"}
