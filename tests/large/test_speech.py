"""Models that listen, tiny and random: their scores are those of transformers' own losses, and of the definition."""

from __future__ import annotations

import itertools
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import rescore as package
from rescore.errors import UserError
from rescore.formats.audio import samples
from rescore.large.ctc import ctc_forward
from rescore.lms import ComputeOptions, Question, load
from rescore.nbest import NO_AUDIO, Audio
from tests.conftest import Run, assert_one_line_error
from tests.large.speech_models import CTC, RATE, SPEECH, build_ctc, build_speech, sound

TEXTS = ["the cat", "a", "the cat sat", "", "thee"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of a model of each family."""
    made = {name: build_ctc(name, tmp_path_factory.mktemp(name)) for name in CTC if name != "parakeet"}
    return made | {name: build_speech(name, tmp_path_factory.mktemp(name)) for name in SPEECH}


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> list[Audio]:
    folder = tmp_path_factory.mktemp("sounds")
    paths = [sound(folder / f"{seed}.wav", 0.5 + 0.2 * seed, seed) for seed in range(3)]
    return [Audio(str(path), name=path.stem) for path in paths]


def spec(name: str, folder: Path) -> str:
    kind = "hf-ctc" if name in CTC else "hf-speech"
    return f"{kind}:language=en:{folder}" if name == "whisper" else f"{kind}:{folder}"


def own_loss(name: str, folder: Path, audio: Audio, text: str) -> float:
    """transformers' loss of a text, summed over its tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    features = transformers.AutoFeatureExtractor.from_pretrained(folder)
    inputs = features(samples(audio, RATE), sampling_rate=RATE, return_tensors="pt")
    if name in CTC:
        model: Any = transformers.AutoModelForCTC.from_pretrained(folder, ctc_loss_reduction="sum").eval()
        labels = torch.tensor([tokenizer(text)["input_ids"]])
        with torch.inference_mode():
            return -float(model(**inputs, labels=labels).loss)
    model = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(folder).eval()
    prompt = {"whisper": ["<|start|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"], "moonshine": ["<s>"]}
    before = tokenizer.convert_tokens_to_ids(prompt.get(name, ["</s>"]))
    ids = tokenizer(" " + text if name == "whisper" else text, add_special_tokens=False)["input_ids"]
    labels = [-100] * (len(before) - 1) + ids + [tokenizer.eos_token_id]
    with torch.inference_mode():
        loss = model(**inputs, decoder_input_ids=torch.tensor([before + ids]), labels=torch.tensor([labels])).loss
    return -float(loss) * (len(ids) + 1)


@pytest.mark.parametrize("name", [name for name in (*CTC, *SPEECH) if name != "parakeet"])
def test_as_transformers_has_it(name: str, folders: dict[str, Path], sounds: list[Audio]) -> None:
    """The score is the model's own loss, whatever it is scored with."""
    lm = load(spec(name, folders[name]))
    texts = [text for text in TEXTS if text or name in SPEECH]  # transformers has no CTC loss of nothing
    questions = [Question(text, audio=audio) for audio in sounds[:2] for text in texts]
    scores = lm.score(questions)
    for question, score in zip(questions, scores, strict=True):
        assert question.audio is not None
        assert score.sum == pytest.approx(
            own_loss(name, folders[name], question.audio, question.text), abs=1e-4, rel=1e-5
        )
        assert len(score.tokens) == len(score.log_probs) and math.isclose(score.sum, score.log_probs.sum())
        assert (score.log_probs < 1e-9).all()
    shuffled = questions[::-3] + questions[::2]
    again = dict(
        zip(shuffled, load(spec(name, folders[name]), ComputeOptions(batch_tokens=9)).score(shuffled), strict=True)
    )
    alone = {question: lm.score([question])[0] for question in questions}
    for question, score in zip(questions, scores, strict=True):
        assert alone[question].sum == pytest.approx(score.sum, abs=1e-4, rel=1e-5)
        if question in again:
            assert again[question].sum == pytest.approx(score.sum, abs=1e-4, rel=1e-5)
    torch.set_num_threads(2)
    try:
        assert [score.sum for score in lm.score(questions)] == pytest.approx([score.sum for score in scores], abs=1e-4)
    finally:
        torch.set_num_threads(1)


def test_parakeet(tmp_path: Path, sounds: list[Audio]) -> None:
    """Its features need librosa, and are padded by a frame that does not count."""
    pytest.importorskip("librosa")
    folder = build_ctc("parakeet", tmp_path)
    (score,) = load(f"hf-ctc:{folder}").score([Question("the cat", audio=sounds[0])])
    assert score.sum == pytest.approx(own_loss("parakeet", folder, sounds[0], "the cat"), abs=1e-4, rel=1e-5)


def paths_of(frames: int, vocabulary: int, text: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All CTC paths that are read as a text: repeats merged, then blanks (0) removed."""
    return [
        path
        for path in itertools.product(range(vocabulary), repeat=frames)
        if tuple(token for token, _ in itertools.groupby(path) if token) == text
    ]


@pytest.mark.parametrize("text", [(), (1,), (1, 2), (1, 1), (2, 1, 2), (1, 1, 1), (1, 1, 1, 1)])
def test_the_definition_of_ctc(text: tuple[int, ...]) -> None:
    """The sum over all paths of five frames; each prefix the sum over the paths that begin with it."""
    frames = torch.randn(5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).log_softmax(-1)
    ways = paths_of(5, 3, text)
    steps = ctc_forward(frames, [(1, 2, 1), text], blank=0)[1]
    if not ways:
        assert steps[len(text)] == -math.inf
        return
    scores = torch.stack(
        [sum((frames[time, token] for time, token in enumerate(path)), frames.new_zeros(())) for path in ways]
    )
    assert float(steps[: len(text) + 1].sum()) == pytest.approx(float(scores.logsumexp(0)))
    every = itertools.product(range(3), repeat=5)
    for length in range(1, len(text) + 1):
        total = sum(
            math.exp(sum(float(frames[time, token]) for time, token in enumerate(path)))
            for path in every
            if tuple(token for token, _ in itertools.groupby(path) if token)[:length] == text[:length]
        )
        every = itertools.product(range(3), repeat=5)
        assert float(steps[:length].sum()) == pytest.approx(math.log(total)), length


def test_ctc_as_torch_has_it() -> None:
    frames = torch.randn(60, 12, generator=torch.Generator().manual_seed(2), dtype=torch.float64).log_softmax(-1)
    random = np.random.default_rng(0)
    texts = [random.integers(1, 12, size=size).tolist() for size in (1, 3, 7, 20, 29, 59, 80)]
    sums = [float(row[: len(text) + 1].sum()) for row, text in zip(ctc_forward(frames, texts, 0), texts, strict=True)]
    losses = [
        float(torch.nn.functional.ctc_loss(frames, torch.tensor([text]), (60,), (len(text),), reduction="sum"))
        for text in texts
    ]
    assert sums == pytest.approx([-loss for loss in losses], abs=1e-4)
    assert sums[-1] == -math.inf


def test_case_and_unknown_letters(tmp_path: Path, sounds: list[Audio]) -> None:
    """A model of upper-case letters reads lower-case lists; letters that it does not know are counted."""
    lm = load(f"hf-ctc:{build_ctc('wav2vec2', tmp_path, upper=True)}")
    lower, upper, odd = lm.score([Question(text, audio=sounds[0]) for text in ("the cat", "THE CAT", "the çat é")])
    assert lower.sum == upper.sum and lower.unknown == ()
    assert lower.tokens == [*"THE|CAT", "</s>"]
    assert len(odd.unknown) == 2


def test_prompts(folders: dict[str, Path], sounds: list[Audio]) -> None:
    question = Question("the cat", audio=sounds[0])
    folder = folders["whisper"]
    english, german, translated = (
        load(f"hf-speech:{options}:{folder}")
        for options in ("language=en", "language=de", "language=de:task=translate")
    )
    assert len({lm.score([question])[0].sum for lm in (english, german, translated)}) == 3
    assert len({lm.fingerprint for lm in (english, german, translated)}) == 3
    for options, message in (
        ("", "knows 2 languages; give hf-speech:language=en"),
        ("language=xx:", "knows no language xx; it knows de, en"),
        ("language=en:task=sing:", "sing is no task"),
    ):
        with pytest.raises(UserError, match=message):
            load(f"hf-speech:{options}{folder}")
    with pytest.raises(UserError, match="task is an option of Whisper"):
        load(f"hf-speech:task=translate:{folders['moonshine']}")


def test_windows_and_impossible_texts(folders: dict[str, Path], tmp_path: Path, sounds: list[Audio]) -> None:
    lm = load(spec("whisper", folders["whisper"]))
    audio = Audio(str(sound(tmp_path / "long.wav", 2.5)), name="long")
    with pytest.raises(UserError, match=r"long\.wav: 2.5 s, but hf-speech:language=en hears 2 s; cut it .* `segments`"):
        lm.score([Question("a", audio=audio)])
    endless, short = lm.score([Question("x" * 100, audio=sounds[0]), Question("x", audio=sounds[0])])
    assert endless.sum == -math.inf < short.sum
    ctc = load(spec("hubert", folders["hubert"]))
    assert ctc.score([Question("x" * 100, audio=sounds[0])])[0].sum == -math.inf
    with pytest.raises(UserError, match="listens to the recording"):
        ctc.score([Question("a")])
    assert [score.sum for score in ctc.score([Question("a", audio=NO_AUDIO), Question("b", audio=NO_AUDIO)])] == [0, 0]


def test_folders_that_are_no_speech_models(folders: dict[str, Path], tmp_path: Path) -> None:
    for kind, name in ("hf-ctc", "whisper"), ("hf-speech", "hubert"):
        with pytest.raises(UserError, match="transformers cannot load it"):
            load(f"{kind}:{folders[name]}")
    build_ctc("hubert", tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(UserError, match="no features of sound in it"):
        load(f"hf-ctc:{tmp_path}")


def lists(tmp_path: Path) -> list[str]:
    """Three utterances with three hypotheses, and their recordings in a folder."""
    (tmp_path / "wav").mkdir()
    entries = []
    for number in range(3):
        sound(tmp_path / "wav" / f"u{number}.wav", seed=number)
        hyps = [{"text": text, "score": -1.0 * rank} for rank, text in enumerate(["the cat", "the cab", "a cat"])]
        entries.append(json.dumps({"id": f"u{number}", "ref": "the cat", "hyps": hyps}) + "\n")
    (tmp_path / "l.jsonl").write_text("".join(entries))
    return ["l.jsonl", "--audio", "wav"]


def test_through_the_command_line(rescore: Run, folders: dict[str, Path], tmp_path: Path) -> None:
    """Columns, and the cache, which knows a changed recording."""
    given = lists(tmp_path)
    lms = ("--lm", spec("hubert", folders["hubert"]), "--lm", spec("whisper", folders["whisper"]))
    done = rescore("score", *given, *lms, "--cache", "cache")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    audio = Audio(str(tmp_path / "wav" / "u1.wav"))
    expected = own_loss("hubert", folders["hubert"], audio, "the cab")
    assert lines[1]["hyps"][1]["scores"]["hf-ctc"] == pytest.approx(expected, abs=1e-4, rel=1e-5)
    assert lines[1]["audio"] == "wav/u1.wav"
    (tmp_path / "again.jsonl").write_text(done.stdout)  # the lists know their recordings
    sound(tmp_path / "wav" / "u1.wav", seed=9)
    again = rescore("score", "l.jsonl", "--audio", "wav", lms[0], lms[1], "--cache", "cache")
    assert "6 scores were in the cache, 3 were computed" in again.stderr


def test_python_and_one_command(rescore: Run, folders: dict[str, Path], tmp_path: Path) -> None:
    """Lists read in Python get the scores of the command; `run` tunes and decides with both models."""
    given = lists(tmp_path)
    listens, dear = spec("hubert", folders["hubert"]), spec("whisper", folders["whisper"])
    whole = package.score(package.read(tmp_path / "l.jsonl", audio=tmp_path / "wav"), listens, dear)
    lms = ("--lm", listens, "--lm", dear)
    done = rescore("score", *given, *lms)
    assert done.returncode == 0, done.stderr
    written = [hyp["scores"] for line in done.stdout.splitlines() for hyp in json.loads(line)["hyps"]]
    for name in ("hf-ctc", "hf-speech:language=en"):
        expected = [score for nbest in whole for score in nbest.column(name)]
        assert [scores[name] for scores in written] == pytest.approx(expected, abs=1e-4)
    run = rescore(*given, *lms, "--dev", "l.jsonl", "--metric", "wer", "--best", "best")
    assert run.returncode == 0, run.stderr
    assert len((tmp_path / "best").read_text().splitlines()) == 3


def test_lists_that_name_their_recordings(rescore: Run, folders: dict[str, Path], tmp_path: Path) -> None:
    """A key of native lists or of other JSON, a part of a file, and the file itself."""
    import base64

    path = sound(tmp_path / "a.wav", 1.0)
    hyps = [{"text": "a", "score": -1}]
    part = {"path": str(path), "start": 0.25, "end": 0.75}
    content = {"base64": base64.b64encode(path.read_bytes()).decode()}
    for audio in (str(path), part, content):
        (tmp_path / "n.jsonl").write_text(json.dumps({"id": "u", "hyps": hyps, "audio": audio}) + "\n")
        done = rescore("score", "n.jsonl", "--lm", spec("hubert", folders["hubert"]))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[0])["audio"] == audio
    (tmp_path / "r.jsonl").write_text(json.dumps({"utt": "u", "nbest": ["a", "b"], "wave": str(path)}) + "\n")
    done = rescore(
        "score", "r.jsonl", "--field", "audio=wave", "--s2s", "rank", "--lm", spec("hubert", folders["hubert"])
    )
    assert done.returncode == 0, done.stderr
    for audio in {"path": "a.wav", "start": 3, "end": 2}, {"base64": "???"}, {"path": ""}, {"path": "a", "x": 1}:
        (tmp_path / "n.jsonl").write_text(json.dumps({"id": "u", "hyps": hyps, "audio": audio}) + "\n")
        assert_one_line_error(rescore("score", "n.jsonl", "--lm", spec("hubert", folders["hubert"])), "n.jsonl: line 1")


@pytest.mark.parametrize("name", ["hubert", "whisper"])
def test_hypotheses_share_their_recording(name: str, folders: dict[str, Path], sounds: list[Audio]) -> None:
    """A recording is encoded once, however many hypotheses there are."""
    lm: Any = load(spec(name, folders[name]))
    calls = []
    lm._model.get_encoder().register_forward_hook(lambda *_: calls.append(1)) if name == "whisper" else (
        lm._model.hubert.encoder.register_forward_hook(lambda *_: calls.append(1))
    )
    began = time.perf_counter()
    lm.score([Question(f"the cat {letter}", audio=audio) for letter in "abcdefghij" for audio in sounds])
    assert len(calls) == len(sounds) and time.perf_counter() > began
