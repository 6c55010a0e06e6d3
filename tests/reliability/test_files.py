"""Files that several threads write, names with brackets, and links that lead
nowhere.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rescore.files import write_text
from tests.conftest import Run, assert_one_line_error


def test_threads_write_the_same_file(tmp_path: Path) -> None:
    texts = [str(number) * 1000 for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda text: [write_text(tmp_path / "x", text) for _ in range(200)],
                texts,
            )
        )
    assert (tmp_path / "x").read_text() in texts and [
        path.name for path in tmp_path.iterdir()
    ] == ["x"]


def test_the_umask_is_never_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to the whole process: while it is changed, other threads make files
    that all may write.
    """
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(
            os, "umask", lambda mask: pytest.fail("the umask is changed")
        )
        write_text(tmp_path / "x", "a")
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640
        (tmp_path / "x").chmod(0o600)
        write_text(tmp_path / "x", "b")
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
    finally:
        monkeypatch.undo()
        os.umask(before)


def test_names_with_brackets_are_no_patterns(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a[1].json").write_text('{"u": {"hyp_1": {"score": -1, "text": "a"}}}')
    done = rescore("convert", "a[1].json", "-o", "a1.json")
    assert done.returncode == 0 and (tmp_path / "a1.json").exists(), done.stderr
    assert_one_line_error(
        rescore("convert", "a?.json", "-o", "a1.json"), "would write over a?.json"
    )


@pytest.mark.parametrize("to", ["native", "espnet2"])
def test_links_in_a_circle(to: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.json").write_text('{"u": {"hyp_1": {"score": -1, "text": "a"}}}')
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    assert_one_line_error(
        rescore("convert", "l.json", "--to", to, "-o", "one"), "one: cannot be written"
    )
