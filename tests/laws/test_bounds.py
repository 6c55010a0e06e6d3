"""Law: what others ask for is bounded: a server's waits, the recordings of requests in
memory; and an error of the system names a file.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import urllib3

from rescore.files import naming, replacing
from rescore.formats import audio
from rescore.large.server import LONGEST_WAIT, _Patience
from rescore.nbest import Audio
from tests.large.speech_models import sound


@pytest.mark.parametrize(("asked", "waited"), [("3", 3), ("7200", LONGEST_WAIT)])
def test_retry_after_is_capped_and_told(
    asked: str, waited: float, caplog: pytest.LogCaptureFixture
) -> None:
    answer = urllib3.HTTPResponse(status=429, headers={"Retry-After": asked})
    assert _Patience(3).get_retry_after(answer) == waited
    assert ("7200 s" in caplog.text) == (asked == "7200")


def test_recordings_of_requests_are_not_kept(tmp_path: Path) -> None:
    audio._read_content.cache_clear()
    kept = audio._read_through.cache_info().currsize
    for seed in range(2 * audio.RECENT):
        content = sound(tmp_path / "x.wav", 0.2, seed).read_bytes()
        assert audio.digest(Audio("", content=content, name="x"))
    assert audio._read_content.cache_info().currsize == audio.RECENT
    assert audio._read_through.cache_info().currsize == kept


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    for context in (naming, replacing):
        with pytest.raises(OSError) as raised, context(tmp_path / "lm.arpa"):
            raise OSError(errno.ENOSPC, "No space left on device")
        assert raised.value.filename == str(tmp_path / "lm.arpa")
