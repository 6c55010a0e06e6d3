"""Recordings: where they are named, what is refused, and the samples that models hear."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from rescore.errors import UserError
from rescore.formats.audio import confined, digest, recordings, samples, with_audio
from rescore.lms.base import Question
from rescore.lms.cache import _key
from rescore.nbest import NO_AUDIO, Audio, Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error
from tests.large.speech_models import sound


def tone(rate: int, seconds: float = 0.5) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * 300 * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
@pytest.mark.parametrize("how", ["PCM_16", "PCM_24", "FLOAT", "stereo", "FLAC", "OGG"])
def test_the_same_sound_however_it_is_stored(rate: int, how: str, tmp_path: Path) -> None:
    path = tmp_path / (f"u.{how.lower()}" if how in ("FLAC", "OGG") else "u.wav")
    wave = np.stack([tone(rate), tone(rate)], 1) if how == "stereo" else tone(rate)
    soundfile.write(path, wave, rate, **({"subtype": how} if how in ("PCM_16", "PCM_24", "FLOAT") else {}))
    heard = samples(Audio(str(path)), 16_000)
    assert heard.dtype == np.float32 and heard.shape == (8_000,)
    middle = slice(1_000, 7_000)  # a resampler rings at the edges
    assert np.abs(heard[middle] - tone(16_000)[middle]).max() < (0.05 if how == "OGG" else 0.01)


def test_parts_of_a_file(tmp_path: Path) -> None:
    path = sound(tmp_path / "long.wav", 2.0)
    whole = samples(Audio(str(path)), 16_000)
    part = samples(Audio(str(path), 0.5, 1.25), 16_000)
    assert np.array_equal(part, whole[8_000:20_000])
    assert len(samples(Audio(str(path), 1.5, 9.0), 16_000)) == 8_000  # segments overshoot
    with pytest.raises(UserError, match=r"0 samples from 3 s on \(2.00 s in the file\), too short"):
        samples(Audio(str(path), 3.0, 4.0), 16_000)


def damaged(folder: Path) -> dict[str, Path]:
    """Files that cannot be used, by what the message says."""
    files = {}

    def write(about: str, name: str, wave: Any, rate: int = 8_000, **how: Any) -> None:
        files[about] = folder / name
        soundfile.write(files[about], wave, rate, **how)

    write("0 samples", "zero.wav", np.zeros(0))
    write("1 samples", "one.wav", np.ones(1))
    write("more than 600 s; cut it into utterances with `segments`", "hour.flac", np.full(3_600 * 1_000, 0.1), 1_000)
    files["cannot be read as audio"] = folder / "text.wav"
    files["cannot be read as audio"].write_text("this is not a sound\n" * 40)
    files["no such file"] = folder / "absent.wav"
    return files


@pytest.mark.parametrize("place", range(5))
def test_bad_recordings(place: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each is one line with the id and the file; with --allow-missing, a warning."""
    about, path = list(damaged(tmp_path).items())[place]
    (tmp_path / "wav.scp").write_text(f"u1 {path}\n")
    lists = [NbestList("u1", [Hypothesis("a", {"s2s": -1.0})])]
    with pytest.raises(UserError, match=f"utterance u1: .*{path.name}: .*{about}") as error:
        list(with_audio(lists, [str(tmp_path / "wav.scp")], False))
    assert "\n" not in str(error.value) and "--allow-missing" in str(error.value)
    (nbest,) = with_audio(lists, [str(tmp_path / "wav.scp")], True)
    assert nbest.audio == NO_AUDIO and about in caplog.text


def test_kaldi(tmp_path: Path) -> None:
    """wav.scp alone; with segments; in a folder; tabs; relative paths from the folder of the file."""
    sound(tmp_path / "call.wav", 2.0)
    (tmp_path / "wav.scp").write_text("call\tcall.wav\n")
    assert recordings([str(tmp_path / "wav.scp")]) == {"call": Audio(str(tmp_path / "call.wav"))}
    (tmp_path / "segments").write_text("call-1 call 0.0 0.8\ncall-2 call 0.8 -1\n")
    found = recordings([str(tmp_path)])
    assert found["call-2"] == Audio(str(tmp_path / "call.wav"), 0.8, None) and found["call-2"].name == "call-2"
    for segments, message in (
        ("x other 0 1\n", "recording other is not in"),
        ("x call 2 1\n", "from 2 s to 1 s is empty"),
        ("x call nan 1\n", "is empty"),
        ("x call -1 1\n", "is empty"),
    ):
        (tmp_path / "segments").write_text(segments)
        with pytest.raises(UserError, match=message):
            recordings([str(tmp_path)])


def test_commands_are_not_run(tmp_path: Path) -> None:
    for line in f"u touch {tmp_path}/run |", f"u | touch {tmp_path}/run":
        (tmp_path / "wav.scp").write_text(line + "\n")
        with pytest.raises(UserError, match=r"wav.scp: line 1: u is a command, which is not run; run it, write"):
            recordings([str(tmp_path / "wav.scp")])
    assert not (tmp_path / "run").exists()


def test_folders_and_manifests(tmp_path: Path) -> None:
    folder = tmp_path / "wav"
    (folder / "in").mkdir(parents=True)
    sound(folder / "a.wav")
    sound(folder / "in" / "b.FLAC".lower())
    assert set(recordings([str(folder)])) == {"a", "b"}
    lines = [{"audio_filepath": "wav/a.wav", "duration": 0.6}, {"audio_filepath": "x.wav", "offset": 1, "duration": 2}]
    (tmp_path / "m.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = recordings([str(tmp_path / "m.json")])
    assert found == {"a": Audio(str(folder / "a.wav")), "x": Audio(str(tmp_path / "x.wav"), 1.0, 3.0)}
    sound(folder / "in" / "a.flac", seed=1)
    with pytest.raises(UserError, match="utterance a has another recording"):
        recordings([str(folder)])


def test_requests_stay_in_their_folder(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav")
    (tmp_path / "in").mkdir()
    with pytest.raises(UserError, match="paths of recordings are not allowed"):
        confined(Audio("a.wav"), None)
    for path in "../a.wav", str(tmp_path / "a.wav"):
        with pytest.raises(UserError, match="is outside the folder"):
            confined(Audio(path), tmp_path / "in")
    assert confined(Audio("a.wav"), tmp_path) == Audio(str(tmp_path.resolve() / "a.wav"))


def test_the_hash_is_of_the_samples(tmp_path: Path) -> None:
    """A copy has the same hash; another sound in the same file has another, and another key in the cache."""
    first, copy = sound(tmp_path / "a.wav"), sound(tmp_path / "b.wav")
    before = digest(Audio(str(first)))
    assert before == digest(Audio(str(copy))) == digest(Audio("", content=first.read_bytes()))
    assert _key(Question("x", audio=Audio(str(first)))) == _key(Question("x", audio=Audio(str(copy))))
    key = _key(Question("x", audio=Audio(str(first))))
    sound(first, 0.7, seed=5)
    assert digest(Audio(str(first))) != before
    assert len({key, _key(Question("x", audio=Audio(str(first)))), _key(Question("x"))}) == 3


def test_lists_without_recordings(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "wav").mkdir()
    sound(tmp_path / "wav" / "u1.wav")
    entries = [{"id": f"u{number}", "hyps": [{"text": "a", "score": -1}]} for number in (1, 2)]
    (tmp_path / "l.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert_one_line_error(rescore("l.jsonl", "--audio", "wav"), "utterance u2: no recording in wav; --allow-missing")
    done = rescore("l.jsonl", "--audio", "wav", "--allow-missing")
    assert done.returncode == 0 and "utterance u2: no recording in wav" in done.stderr
