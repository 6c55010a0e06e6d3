"""The HTML report in a real browser, where there is one: what it shows, and that text is never markup."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Run, assert_one_line_error, write_json

EVIL = "<script>document.title='caught'</script> </script><b>bold</b> <!-- &amp; it's"


@pytest.fixture
def page(rescore: Run, models: dict[str, Path], tmp_path: Path) -> str:
    table = {
        f"u{index}": {
            "ref": "the old clock ticked",
            "hyp_1": {"score": -1, "text": "the odd clock" if index else EVIL},
            "hyp_2": {"score": -1.2, "text": "the old clock ticked on"},
        }
        for index in range(5)
    }
    write_json(tmp_path / "lists.json", table)
    lm = f"tta:{models['tta']}"
    done = rescore("lists.json", "--lm", lm, "--dev", "lists.json", "--html", "r.html")
    assert done.returncode == 0, done.stderr
    return (tmp_path / "r.html").read_text(encoding="utf-8")


def test_page_holds_all_and_needs_nothing(page: str) -> None:
    packed = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert packed is not None
    data = json.loads(packed[1])
    assert [one["id"] for one in data["utterances"]] == [f"u{index}" for index in range(5)]
    first = data["utterances"][1]
    assert first["outputs"][0]["pairs"] == [["the"] * 2, ["old", "odd"], ["clock"] * 2, ["ticked", None]]
    assert first["outputs"][0]["errors"] == 2 and first["outputs"][0]["tokens"][0][0] == "the"
    assert {one["title"].split()[0] for one in data["charts"]} == {"WER", "oracle", "word"}
    assert len(data["figures"]) == 5 and "lm:tta=tta@" in data["signature"]
    # Nothing is fetched, and nothing from a list is markup.
    assert not re.search(r"(src|href)\s*=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", page)
    assert "<b>bold" not in page and page.count("</script>") == 2


def test_page_in_a_browser(page: str, tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("needs chromium")
    (tmp_path / "r.html").write_text(page, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run(
        [browser, *options, f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "r.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    shown = done.stdout
    assert "<title>lists: tta</title>" in shown  # the evil hypothesis did not run
    assert shown.count('<article class="utterance">') == 5 and "5 of 5" in shown
    assert shown.count("<svg") == 4 and 'class="D"' in shown
    assert "&lt;script&gt;document.title='caught'&lt;/script&gt;" in shown.lower()


def test_page_needs_references(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    write_json(tmp_path / "n.json", {"u": {"hyp_1": {"score": -1, "text": "the"}}})
    done = rescore("n.json", "--lm", f"tta:{models['tta']}", "--weight", "0.3", "--html", "r.html")
    assert_one_line_error(done, "needs references")
    assert not (tmp_path / "r.html").exists()
