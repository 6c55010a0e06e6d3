"""Recordings: where they are named, what is refused, and the samples that models
hear.
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from rescore.errors import UserError
from rescore.formats.audio import confined, digest, recordings, samples, with_audio
from rescore.formats.ids import ByName
from rescore.lms.base import Question
from rescore.lms.cache import _key
from rescore.nbest import NO_AUDIO, Audio, Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error
from tests.large.speech_models import sound


def tone(rate: int, seconds: float = 0.5) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * 300 * np.arange(int(rate * seconds)) / rate)


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
@pytest.mark.parametrize("how", ["PCM_16", "PCM_24", "FLOAT", "stereo", "FLAC", "OGG"])
def test_the_same_sound_however_it_is_stored(
    rate: int, how: str, tmp_path: Path
) -> None:
    path = tmp_path / (f"u.{how.lower()}" if how in ("FLAC", "OGG") else "u.wav")
    wave = np.stack([tone(rate), tone(rate)], 1) if how == "stereo" else tone(rate)
    soundfile.write(
        path,
        wave,
        rate,
        **({"subtype": how} if how in ("PCM_16", "PCM_24", "FLOAT") else {}),
    )
    heard = samples(Audio(str(path)), 16_000)
    assert heard.dtype == np.float32 and heard.shape == (8_000,)
    middle = slice(1_000, 7_000)  # a resampler rings at the edges
    assert np.abs(heard[middle] - tone(16_000)[middle]).max() < (
        0.05 if how == "OGG" else 0.01
    )


def test_parts_of_a_file(tmp_path: Path) -> None:
    path = sound(tmp_path / "long.wav", 2.0)
    whole = samples(Audio(str(path)), 16_000)
    part = samples(Audio(str(path), 0.5, 1.25), 16_000)
    assert np.array_equal(part, whole[8_000:20_000])
    # segments overshoot
    assert len(samples(Audio(str(path), 1.5, 9.0), 16_000)) == 8_000
    with pytest.raises(
        UserError, match=r"0 samples from 3 s on \(2.00 s in the file\), too short"
    ):
        samples(Audio(str(path), 3.0, 4.0), 16_000)


def damaged(folder: Path) -> dict[str, Path]:
    """Files that cannot be used, by what the message says."""
    files = {}

    def write(about: str, name: str, wave: Any, rate: int = 8_000, **how: Any) -> None:
        files[about] = folder / name
        soundfile.write(files[about], wave, rate, **how)

    write("0 samples", "zero.wav", np.zeros(0))
    write("1 samples", "one.wav", np.ones(1))
    write(
        "more than 600 s; cut it into utterances with `segments`",
        "hour.flac",
        np.full(3_600 * 1_000, 0.1),
        1_000,
    )
    files["cannot be read as audio"] = folder / "text.wav"
    files["cannot be read as audio"].write_text("this is not a sound\n" * 40)
    files["no such file"] = folder / "absent.wav"
    return files


@pytest.mark.parametrize("place", range(5))
def test_bad_recordings(
    place: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is one line with the id and the file; with --allow-missing, a warning."""
    about, path = list(damaged(tmp_path).items())[place]
    (tmp_path / "wav.scp").write_text(f"u1 {path}\n")
    lists = [NbestList("u1", [Hypothesis("a", {"s2s": -1.0})])]
    with pytest.raises(
        UserError, match=f"utterance u1: .*{path.name}: .*{about}"
    ) as error:
        list(with_audio(lists, [str(tmp_path / "wav.scp")], False))
    assert "\n" not in str(error.value) and "--allow-missing" in str(error.value)
    (nbest,) = with_audio(lists, [str(tmp_path / "wav.scp")], True)
    assert nbest.audio == NO_AUDIO and about in caplog.text


def test_kaldi(tmp_path: Path) -> None:
    """wav.scp alone; with segments; in a folder; tabs; relative paths from the folder
    of the file.
    """
    sound(tmp_path / "call.wav", 2.0)
    (tmp_path / "wav.scp").write_text("call\tcall.wav\n")
    assert recordings([str(tmp_path / "wav.scp")]) == {
        "call": Audio(str(tmp_path / "call.wav"))
    }
    (tmp_path / "segments").write_text("call-1 call 0.0 0.8\ncall-2 call 0.8 -1\n")
    found = recordings([str(tmp_path)])
    assert (
        found["call-2"] == Audio(str(tmp_path / "call.wav"), 0.8, None)
        and found["call-2"].name == "call-2"
    )
    for segments, message in (
        ("x other 0 1\n", "recording other is not in"),
        (
            "x call 2 1\n",
            "utterance x: from 2 s to 1 s; give a start of 0 or more before its end",
        ),
        ("x call 1 1\n", "from 1 s to 1 s is empty"),
        ("x call -1 1\n", "from -1 s to 1 s"),
        *(
            (f"x call {time} 1\n", "utterance x: time is .* seconds")
            for time in ("nan", "inf", "1e400", "1e308", "x")
        ),
    ):
        (tmp_path / "segments").write_text(segments)
        with pytest.raises(UserError, match=message):
            recordings([str(tmp_path)])


def test_times_of_manifests_and_lists_are_finite(rescore: Run, tmp_path: Path) -> None:
    for offset, duration in (
        (1e308, 1),
        (0, 1e308),
        ("nan", 1),
        (0, float("inf")),
        (True, 1),
    ):
        (tmp_path / "m.json").write_text(
            json.dumps(
                {"audio_filepath": "a.wav", "offset": offset, "duration": duration}
            )
        )
        with pytest.raises(UserError, match="line 1: time is"):
            recordings([str(tmp_path / "m.json")])
    hyps = [{"text": "a", "score": -1}]
    for audio in (
        '{"path": "a", "start": 1e308}',
        '{"path": "a", "end": 1e400}',
        '"a\\u0000b"',
    ):
        (tmp_path / "l.jsonl").write_text(
            f'{{"id": "u", "hyps": {json.dumps(hyps)}, "audio": {audio}}}\n'
        )
        assert_one_line_error(rescore("convert", "l.jsonl"), "l.jsonl: line 1: ")
    (tmp_path / "l.jsonl").write_text(
        json.dumps({"id": "u", "hyps": [hyps[0] | {"times": [[0, 1]]}]}) + "\n"
    )
    for end in ("inf", "nan", "1e400", "0"):
        (tmp_path / "segments").write_text(f"u r 1 {end}\n")
        done = rescore("rerank", "l.jsonl", "--best", "b.ctm", "--segments", "segments")
        assert_one_line_error(done, "segments: utterance u: ")


def test_a_file_that_is_cut(tmp_path: Path) -> None:
    """The header of a WAV says more than is left; a writer to a pipe cannot know the
    size.
    """
    whole = sound(tmp_path / "a.wav", 1.5).read_bytes()
    half = whole[: len(whole) // 2]
    for content in half, whole[:-2000]:
        with pytest.raises(UserError, match=r"damaged: [\d.]+ s of 1.50 s can be read"):
            digest(Audio("", content=content))
    assert digest(Audio("", 0.0, 0.5, half)) == digest(Audio("", 0.0, 0.5, whole))
    with pytest.raises(UserError, match="damaged"):
        digest(Audio("", 0.9, 1.2, half))
    for size in (0xFFFFFFFF, 0x7FFFF024, 0):
        piped = half[:4] + size.to_bytes(4, "little") + half[8:]
        assert len(samples(Audio("", content=piped), 16_000)) > 11_000


def test_sound_is_read_in_blocks(tmp_path: Path) -> None:
    """Many channels at a high rate need little memory; too many samples are refused."""
    rate, wave = 96_000, np.tile(np.float32(tone(96_000, 20))[:, None], (1, 8))
    soundfile.write(tmp_path / "a.flac", wave, rate)
    wide = Audio(str(tmp_path / "a.flac"))
    soundfile.write(tmp_path / "b.flac", wave[:, 0], rate)
    tracemalloc.start()
    try:
        heard, key = samples(wide, 16_000), digest(wide)
        # all of it would take 61 MB
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert np.array_equal(heard, samples(Audio(str(tmp_path / "b.flac")), 16_000))
    assert key == digest(Audio(str(tmp_path / "b.flac")))
    soundfile.write(tmp_path / "c.flac", np.zeros((390 * 88_200, 8), np.int16), 88_200)
    with pytest.raises(
        UserError,
        match="34,398,000 samples in each of 8 channels, more than 268,435,456 in all",
    ):
        digest(Audio(str(tmp_path / "c.flac")))


def test_commands_are_not_run(tmp_path: Path) -> None:
    for line in f"u touch {tmp_path}/run |", f"u | touch {tmp_path}/run":
        (tmp_path / "wav.scp").write_text(line + "\n")
        with pytest.raises(
            UserError,
            match=r"wav.scp: line 1: u is a command, which is not run; run it, write",
        ):
            recordings([str(tmp_path / "wav.scp")])
    assert not (tmp_path / "run").exists()


def test_folders_and_manifests(tmp_path: Path) -> None:
    folder = tmp_path / "wav"
    (folder / "in").mkdir(parents=True)
    sound(folder / "a.wav")
    sound(folder / "in" / "b.FLAC".lower())
    assert set(recordings([str(folder)])) == {"a", "b"}
    lines = [
        {"audio_filepath": "wav/a.wav", "duration": 0.6},
        {"audio_filepath": "x.wav", "offset": 1, "duration": 2},
    ]
    (tmp_path / "m.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = recordings([str(tmp_path / "m.json")])
    assert found == {
        "wav/a.wav": Audio(str(folder / "a.wav")),
        "x.wav@1": Audio(str(tmp_path / "x.wav"), 1.0, 3.0),
    }
    sound(folder / "in" / "a.flac", seed=1)
    known = ByName(recordings([str(folder)]), "wav")
    assert known.get("in/a.flac") and known.get("b")
    with pytest.raises(UserError, match="fit utterance a; give both files the same id"):
        known.get("a")


def test_requests_stay_in_their_folder(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav")
    (tmp_path / "in").mkdir()
    with pytest.raises(UserError, match="paths of recordings are not allowed"):
        confined(Audio("a.wav"), None)
    for path in "../a.wav", str(tmp_path / "a.wav"):
        with pytest.raises(UserError, match="is outside the folder"):
            confined(Audio(path), tmp_path / "in")
    assert confined(Audio("a.wav"), tmp_path) == Audio(
        str(tmp_path.resolve() / "a.wav")
    )


def test_the_hash_is_of_the_samples(tmp_path: Path) -> None:
    """A copy has the same hash; another sound in the same file has another, and another
    key in the cache.
    """
    first, copy = sound(tmp_path / "a.wav"), sound(tmp_path / "b.wav")
    before = digest(Audio(str(first)))
    assert (
        before
        == digest(Audio(str(copy)))
        == digest(Audio("", content=first.read_bytes()))
    )
    assert _key(Question("x", audio=Audio(str(first)))) == _key(
        Question("x", audio=Audio(str(copy)))
    )
    key = _key(Question("x", audio=Audio(str(first))))
    sound(first, 0.7, seed=5)
    assert digest(Audio(str(first))) != before
    assert (
        len({key, _key(Question("x", audio=Audio(str(first)))), _key(Question("x"))})
        == 3
    )


def test_lists_without_recordings(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "wav").mkdir()
    sound(tmp_path / "wav" / "u1.wav")
    entries = [
        {"id": f"u{number}", "hyps": [{"text": "a", "score": -1}]} for number in (1, 2)
    ]
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(entry) + "\n" for entry in entries)
    )
    assert_one_line_error(
        rescore("convert", "l.jsonl", "--audio", "wav"),
        "utterance u2: no recording in wav; --allow-missing",
    )
    done = rescore("convert", "l.jsonl", "--audio", "wav", "--allow-missing")
    assert done.returncode == 0 and "utterance u2: no recording in wav" in done.stderr
