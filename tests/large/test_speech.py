"""Models that listen, tiny and random: their scores are those of transformers' own
losses, and of the definition.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import rescore as package
from rescore.errors import UserError
from rescore.formats.audio import samples
from rescore.lms import ComputeOptions, Question, load
from rescore.nbest import NO_AUDIO, Audio
from tests.conftest import Run, assert_one_line_error
from tests.large.speech_models import RATE, SPEECH, build_speech, capitals, sound

TEXTS = ["the cat", "a", "the cat sat", "", "thee"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of a model of each family."""
    return {name: build_speech(name, tmp_path_factory.mktemp(name)) for name in SPEECH}


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> list[Audio]:
    folder = tmp_path_factory.mktemp("sounds")
    paths = [sound(folder / f"{seed}.wav", 0.5 + 0.2 * seed, seed) for seed in range(3)]
    return [Audio(str(path), name=path.stem) for path in paths]


def spec(name: str, folder: Path) -> str:
    return (
        f"hf-speech:language=en:{folder}"
        if name == "whisper"
        else f"hf-speech:{folder}"
    )


def own_loss(name: str, folder: Path, audio: Audio, text: str) -> float:
    """The sum of log p of a text's tokens, by transformers' own logits."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    features = transformers.AutoFeatureExtractor.from_pretrained(folder)
    inputs = features(samples(audio, RATE), sampling_rate=RATE, return_tensors="pt")
    model: Any = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(folder).eval()
    prompt = {
        "whisper": ["<|start|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"],
        "moonshine": ["<s>"],
    }
    before = tokenizer.convert_tokens_to_ids(prompt.get(name, ["</s>"]))
    if name == "whisper" and text:  # an empty text is the end alone
        text = " " + text
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    labels = torch.tensor([*ids, tokenizer.eos_token_id])
    with torch.inference_mode():
        logits = model(**inputs, decoder_input_ids=torch.tensor([before + ids])).logits
    # no `labels`: the loss of Moonshine in transformers 4 shifts them twice
    log_probs = logits[0, len(before) - 1 :].log_softmax(-1)
    return float(log_probs.gather(-1, labels[:, None]).sum())


@pytest.mark.parametrize("name", SPEECH)
def test_as_transformers_has_it(
    name: str, folders: dict[str, Path], sounds: list[Audio]
) -> None:
    """The score is the model's own loss, whatever it is scored with."""
    lm = load(spec(name, folders[name]))
    questions = [Question(text, audio=audio) for audio in sounds[:2] for text in TEXTS]
    scores = lm.score(questions)
    for question, score in zip(questions, scores, strict=True):
        assert question.audio is not None
        assert score.sum == pytest.approx(
            own_loss(name, folders[name], question.audio, question.text),
            abs=1e-4,
            rel=1e-5,
        )
        assert len(score.tokens) == len(score.log_probs) and math.isclose(
            score.sum, score.log_probs.sum()
        )
        assert (score.log_probs < 1e-9).all()
    shuffled = questions[::-3] + questions[::2]
    again = dict(
        zip(
            shuffled,
            load(spec(name, folders[name]), ComputeOptions(batch_tokens=9)).score(
                shuffled
            ),
            strict=True,
        )
    )
    alone = {question: lm.score([question])[0] for question in questions}
    for question, score in zip(questions, scores, strict=True):
        assert alone[question].sum == pytest.approx(score.sum, abs=1e-4, rel=1e-5)
        if question in again:
            assert again[question].sum == pytest.approx(score.sum, abs=1e-4, rel=1e-5)
    torch.set_num_threads(2)
    try:
        assert [score.sum for score in lm.score(questions)] == pytest.approx(
            [score.sum for score in scores], abs=1e-4
        )
    finally:
        torch.set_num_threads(1)


def test_case_and_unknown_letters(
    folders: dict[str, Path], tmp_path: Path, sounds: list[Audio]
) -> None:
    """A model of upper-case letters reads lower-case lists; letters that it does not
    know are counted.
    """
    lm: Any = load(spec("speecht5", folders["speecht5"]))
    # a vocabulary of bytes knows every text
    assert lm.names(lm.ids("the çat"))[1] == ()
    shutil.copytree(folders["speecht5"], tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer.json").unlink()
    capitals(tmp_path).save_pretrained(tmp_path)
    lm = load(f"hf-speech:{tmp_path}")
    lower, upper, odd = lm.score(
        [
            Question(text, audio=sounds[0])
            for text in ("the cat", "THE CAT", "the çat é")
        ]
    )
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
    assert (
        len({lm.score([question])[0].sum for lm in (english, german, translated)}) == 3
    )
    assert len({lm.fingerprint for lm in (english, german, translated)}) == 3
    for options, message in (
        ("", "knows 2 languages; give hf-speech:language=en"),
        ("language=xx:", "knows no language xx; it knows de, en"),
        ("language=en:task=sing:", "sing is no task"),
    ):
        with pytest.raises(UserError, match=message):
            load(f"hf-speech:{options}{folder}")
    with pytest.raises(UserError, match="language and task are options of Whisper"):
        load(f"hf-speech:task=translate:{folders['moonshine']}")


def test_windows_and_impossible_texts(
    folders: dict[str, Path], tmp_path: Path, sounds: list[Audio]
) -> None:
    lm = load(spec("whisper", folders["whisper"]))
    audio = Audio(str(sound(tmp_path / "long.wav", 2.5)), name="long")
    with pytest.raises(
        UserError,
        match=(
            r"long\.wav: 2.5 s, but hf-speech:language=en hears 2 s; cut it .*"
            r" `segments`"
        ),
    ):
        lm.score([Question("a", audio=audio)])
    endless, short = lm.score(
        [Question("x" * 100, audio=sounds[0]), Question("x", audio=sounds[0])]
    )
    assert endless.sum == -math.inf < short.sum
    with pytest.raises(UserError, match="listens to the recording"):
        lm.score([Question("a")])
    assert [
        score.sum
        for score in lm.score(
            [Question("a", audio=NO_AUDIO), Question("b", audio=NO_AUDIO)]
        )
    ] == [0, 0]


def test_recordings_are_checked_before_anything_is_scored(
    rescore: Run, folders: dict[str, Path], tmp_path: Path
) -> None:
    """A recording that is longer than the window stops the command at once; with
    --allow-missing, its scores are 0.
    """
    given = lists(tmp_path)
    sound(tmp_path / "wav" / "u2.wav", 2.5, 2)
    lms = (
        "--lm",
        spec("moonshine", folders["moonshine"]),
        "--lm",
        spec("whisper", folders["whisper"]),
    )
    done = rescore("score", *given, *lms, "--cache", "cache")
    assert_one_line_error(
        done, "u2.wav: 2.5 s, but hf-speech:language=en hears 2 s; cut it into shorter"
    )
    assert (
        "--allow-missing goes on without it" in done.stderr
        and not (tmp_path / "cache").exists()
    )
    done = rescore("score", *given, *lms, "--allow-missing")
    assert done.returncode == 0 and "hears 2 s" in done.stderr, done.stderr
    first, *_, last = [
        json.loads(line)["hyps"][0]["scores"] for line in done.stdout.splitlines()
    ]
    assert set(last.values()) == {0} and 0 not in first.values()


def test_texts_in_capitals(
    rescore: Run, folders: dict[str, Path], tmp_path: Path
) -> None:
    """The question whether lower case is better is asked with the recording."""
    sound(tmp_path / "u.wav")
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "audio": "u.wav", "hyps": [{"text": "OK", "score": -1}]}\n'
    )
    done = rescore("score", "l.jsonl", "--lm", spec("moonshine", folders["moonshine"]))
    assert done.returncode == 0, done.stderr


def test_folders_that_are_no_speech_models(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(folders["moonshine"], tmp_path, dirs_exist_ok=True)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(UserError, match="no features of sound in it"):
        load(f"hf-speech:{tmp_path}")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "hubert"}))
    with pytest.raises(UserError, match="transformers cannot load it"):
        load(f"hf-speech:{tmp_path}")


def lists(tmp_path: Path) -> list[str]:
    """Three utterances with three hypotheses, and their recordings in a folder."""
    (tmp_path / "wav").mkdir()
    entries = []
    for number in range(3):
        sound(tmp_path / "wav" / f"u{number}.wav", seed=number)
        hyps = [
            {"text": text, "score": -1.0 * rank}
            for rank, text in enumerate(["the cat", "the cab", "a cat"])
        ]
        entries.append(
            json.dumps({"id": f"u{number}", "ref": "the cat", "hyps": hyps}) + "\n"
        )
    (tmp_path / "l.jsonl").write_text("".join(entries))
    return ["l.jsonl", "--audio", "wav"]


def test_through_the_command_line(
    rescore: Run, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Columns, and the cache, which knows a changed recording."""
    given = lists(tmp_path)
    lms = (
        "--lm",
        spec("moonshine", folders["moonshine"]),
        "--lm",
        spec("whisper", folders["whisper"]),
    )
    done = rescore("score", *given, *lms, "--cache", "cache")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    audio = Audio(str(tmp_path / "wav" / "u1.wav"))
    expected = own_loss("moonshine", folders["moonshine"], audio, "the cab")
    assert lines[1]["hyps"][1]["scores"]["hf-speech"] == pytest.approx(
        expected, abs=1e-4, rel=1e-5
    )
    assert lines[1]["audio"] == "wav/u1.wav"
    # the lists know their recordings
    (tmp_path / "again.jsonl").write_text(done.stdout)
    sound(tmp_path / "wav" / "u1.wav", seed=9)
    again = rescore(
        "score", "l.jsonl", "--audio", "wav", lms[0], lms[1], "--cache", "cache"
    )
    assert "6 scores were in the cache, 3 were computed" in again.stderr


def test_python_and_one_command(
    rescore: Run, folders: dict[str, Path], tmp_path: Path
) -> None:
    """Lists read in Python get the scores of the command; `run` tunes and decides with
    both models.
    """
    given = lists(tmp_path)
    listens, dear = (
        spec("moonshine", folders["moonshine"]),
        spec("whisper", folders["whisper"]),
    )
    whole = package.score(
        package.read(tmp_path / "l.jsonl", audio=tmp_path / "wav"), listens, dear
    )
    lms = ("--lm", listens, "--lm", dear)
    done = rescore("score", *given, *lms)
    assert done.returncode == 0, done.stderr
    written = [
        hyp["scores"]
        for line in done.stdout.splitlines()
        for hyp in json.loads(line)["hyps"]
    ]
    for name in ("hf-speech", "hf-speech:language=en"):
        expected = [score for nbest in whole for score in nbest.column(name)]
        assert [scores[name] for scores in written] == pytest.approx(expected, abs=1e-4)
    run = rescore(*given, *lms, "--dev", "l.jsonl", "--metric", "wer", "--best", "best")
    assert run.returncode == 0, run.stderr
    assert len((tmp_path / "best").read_text().splitlines()) == 3


def test_lists_that_name_their_recordings(
    rescore: Run, folders: dict[str, Path], tmp_path: Path
) -> None:
    """The path of a file, a part of a file, and the file itself."""
    import base64

    path = sound(tmp_path / "a.wav", 1.0)
    hyps = [{"text": "a", "score": -1}]
    part = {"path": str(path), "start": 0.25, "end": 0.75}
    content = {"base64": base64.b64encode(path.read_bytes()).decode()}
    for audio in (str(path), part, content):
        (tmp_path / "n.jsonl").write_text(
            json.dumps({"id": "u", "hyps": hyps, "audio": audio}) + "\n"
        )
        done = rescore(
            "score", "n.jsonl", "--lm", spec("moonshine", folders["moonshine"])
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[0])["audio"] == audio
    for audio in (
        {"path": "a.wav", "start": 3, "end": 2},
        {"base64": "???"},
        {"path": ""},
        {"path": "a", "x": 1},
    ):
        (tmp_path / "n.jsonl").write_text(
            json.dumps({"id": "u", "hyps": hyps, "audio": audio}) + "\n"
        )
        assert_one_line_error(
            rescore(
                "score", "n.jsonl", "--lm", spec("moonshine", folders["moonshine"])
            ),
            "n.jsonl: line 1",
        )


@pytest.mark.parametrize("name", ["moonshine", "whisper"])
def test_hypotheses_share_their_recording(
    name: str, folders: dict[str, Path], sounds: list[Audio]
) -> None:
    """A recording is encoded once, however many hypotheses there are."""
    lm: Any = load(spec(name, folders[name]))
    calls = []
    lm._model.get_encoder().register_forward_hook(lambda *_: calls.append(1))
    lm.score(
        [
            Question(f"the cat {letter}", audio=audio)
            for letter in "abcdefghij"
            for audio in sounds
        ]
    )
    assert len(calls) == len(sounds)
