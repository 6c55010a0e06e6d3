"""The HTML report in a real browser, where there is one: what it shows, and that text is never markup."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rescore.decision import Decision
from rescore.lms import load
from rescore.metrics import choose_metric
from rescore.reports.details import details
from rescore.reports.page import page as make_page
from rescore.reports.results import evaluate
from rescore.tuning import Weights
from tests.conftest import Run, assert_one_line_error, write_json
from tests.lms.test_ngram import ARPA
from tests.reports.test_respellings import LISTS, TEXTS

EVIL = "<script>document.title='caught'</script> </script><b>bold</b> <!-- &amp; it's"


@pytest.fixture
def page(rescore: Run, models: dict[str, Path], tmp_path: Path) -> str:
    table = {
        f"u{index}": {
            "ref": "the old clock ticked" + " and ticked in the long dark hall" * (3 if index == 4 else 0),
            "hyp_1": {"score": -1, "text": "the odd clock" if index else EVIL},
            "hyp_2": {"score": -1.2, "text": "the old clock ticked on"},
        }
        for index in range(5)
    }
    write_json(tmp_path / "lists.json", table)
    lm = f"tta:{models['tta']}"
    done = rescore("lists.json", "--lm", lm, "--dev", "lists.json", "--html", "r.html", "--alternatives", "1")
    assert done.returncode == 0, done.stderr
    return (tmp_path / "r.html").read_text(encoding="utf-8")


def test_page_holds_all_and_needs_nothing(page: str) -> None:
    data = data_of(page)
    assert [one["id"] for one in data["utterances"]] == [f"u{index}" for index in range(5)]
    first = data["utterances"][1]
    assert first["outputs"][0]["pairs"] == [["the"] * 2, ["old", "odd"], ["clock"] * 2, ["ticked", None]]
    assert first["outputs"][0]["errors"] == 2 and first["outputs"][0]["tokens"][0][0] == "the"
    assert {one["title"].split()[0] for one in data["charts"]} == {"WER", "oracle", "errors"}
    certain = first["certain"]
    assert [word for word, _, _ in certain] == ["the", "odd", "clock"]
    assert all(0 <= confidence <= 1 for _, confidence, _ in certain) and certain[1][2][0][0] == "old"
    worth = next(one["rows"] for one in data["tables"] if one["title"] == "Is it worth it?")
    assert {"gain", "certain", "perfect LM", "words", "next"} <= {row[0] for row in worth}
    assert len(data["figures"]) == 5 and "lm:tta=tta@" in data["signature"]
    assert data["columns"] == ["s2s", "tta", "tokens"] and [one[1:3] for one in first["list"]] == [
        [2, False],
        [1, True],
    ]
    # Nothing is fetched, and nothing from a list is markup.
    assert not re.search(r"(src|href)\s*=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", page)
    assert "<b>bold" not in page and page.count("</script>") == 2


def data_of(page: str) -> Any:
    packed = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert packed is not None
    return json.loads(packed[1])


def test_what_is_impossible_has_no_number(rescore: Run, tmp_path: Path) -> None:
    """A language model that gives a word no probability at all: JSON knows no infinity."""
    (tmp_path / "lm.arpa").write_text(ARPA.replace("-1.3\told", "-inf\told"), encoding="utf-8")
    table = {"u": {"ref": "old the", "hyp_1": {"score": -1, "text": "old the"}, "hyp_2": {"score": -2, "text": "the"}}}
    write_json(tmp_path / "l.json", table)
    done = rescore("l.json", "--lm", "ngram:lm.arpa", "--weight", "0.5", "--html", "r.html")
    assert done.returncode == 0, done.stderr
    first = data_of((tmp_path / "r.html").read_text(encoding="utf-8"))["utterances"][0]
    assert first["outputs"][0]["tokens"][0] == ["old", None] and first["list"][0][3][1] is None
    (tmp_path / "s").write_text("old the\nthe\n", encoding="utf-8")
    done = rescore("score", "--text", "s", "--lm", "ngram:lm.arpa", "-o", "p.json")
    assert done.returncode == 0 and "inf" in done.stdout and not done.stderr
    written = (tmp_path / "p.json").read_text()
    assert "Infinity" not in written and json.loads(written)[0]["by_token"]["corpus"] is None


def test_page_shows_the_decision(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    """What moved is counted for what minimum Bayes risk chose, not for the best score."""
    texts = ["the old clock ticked", "the odd clock", "an old clock", "the old clock"]
    table = {f"u{index}": {"ref": "the old clock", **{f"hyp_{rank}": {"score": -rank / 8, "text": text}
             for rank, text in enumerate(texts, 1)}} for index in range(4)}  # fmt: skip
    write_json(tmp_path / "l.json", table)
    options = ["--weight", "0", "--decide", "mbr", "--scale", "1", "--html", "r.html"]
    done = rescore("l.json", "--lm", f"tta:{models['tta']}", *options)
    assert done.returncode == 0 and "4 utterances changed" in done.stdout, done.stderr
    moves = next(one for one in data_of((tmp_path / "r.html").read_text())["tables"] if "moved" in one["title"])
    assert moves["rows"][1:3] == [["moved", "4"], ["better", "4"]]


@pytest.fixture(scope="module")
def respelled(models: dict[str, Path]) -> str:
    """A page of lists in which respelling wrote other words than were heard."""
    lm = load(f"tta:{models['tta']}")
    metric, weights = choose_metric("wer", LISTS), Weights({"s2s": 1.0, "edits": 0.1, "words": 0.0}, "given")
    results, _ = evaluate(metric, LISTS, weights, Decision(), TEXTS)
    return make_page(results, details(metric, LISTS, TEXTS, weights, lm))


def test_page_says_what_was_heard(respelled: str, page: str) -> None:
    found = data_of(respelled)["utterances"]
    assert [one["outputs"][1]["respelled"] for one in found[:3]] == [
        [[2, 3, "lanter"]],
        [[2, 3, "lanter"]],
        [[0, 2, "howless"]],
    ]
    assert all(not one["outputs"][0]["respelled"] for one in found)
    assert all(not output["respelled"] for one in data_of(page)["utterances"] for output in one["outputs"])


def test_several_weights_are_a_table(respelled: str, page: str) -> None:
    weights = next(one for one in data_of(respelled)["tables"] if one["title"].startswith("Weights"))
    assert weights["rows"] == [["", "weight"], ["edits", "0.100"], ["words", "0.000"]]
    assert not any(one["name"].startswith("weight") for one in data_of(respelled)["figures"])


Look = Callable[[str, str, int], str]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """What a browser makes of a page: shown at the place of a hash, in a window so many pixels wide."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("needs chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    options += ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]

    def shown(page: str, hash_: str, width: int) -> str:
        (tmp_path / "shown.html").write_text(page, encoding="utf-8")
        done = subprocess.run(
            [browser, *options, f"--window-size={width},900", f"--user-data-dir={tmp_path / 'profile'}",
             (tmp_path / "shown.html").as_uri() + hash_],
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        return re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)

    return shown


def test_respelled_words_in_a_browser(respelled: str, look: Look) -> None:
    shown = look(respelled, "", 390)
    assert (
        shown.count('title="heard: lanter"') == 3 and '<span class="heard" title="heard: howless">how</span>' in shown
    )
    assert "respelled: howless \u2192 how else" in shown and '<option value="respelled">' in shown
    assert "4 of 5" in look(respelled, "#show=respelled", 390)


def test_page_in_a_browser(page: str, look: Look) -> None:
    # For a narrow screen: whether anything is wider than it is told in the title.
    wide = "<script>document.title += document.documentElement.scrollWidth > innerWidth ? ' wide' : ' fits'</script>"
    page = page.replace("</body>", wide + "</body>")
    shown = look(page, "", 1200)
    assert "<title>lists: tta fits</title>" in shown  # the evil hypothesis did not run
    assert shown.count('<article class="utterance"') == 5 and "5 of 5" in shown
    assert shown.count("all 2 hypotheses") == 5 and shown.count('id="u-u3"') == 1
    assert 'id="respelled" hidden' in shown and '<option value="respelled">' not in shown
    narrow = look(page, "#q=u3", 390)  # the choice is kept in the address
    assert "1 of 5" in narrow and "<title>lists: tta fits</title>" in narrow
    lines = [look(page, "#q=u4", width).count(">reference</span>") for width in (390, 1200)]
    assert lines[0] > lines[1] >= 1  # each line of a long utterance says what its rows are
    assert shown.count("how certain each word is") == 5 and "p = 1.00" in shown
    assert shown.count("<svg") == 4 and 'class="D"' in shown
    assert "&lt;script&gt;document.title='caught'&lt;/script&gt;" in shown.lower()


def test_page_needs_references(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    write_json(tmp_path / "n.json", {"u": {f"hyp_{n}": {"score": -n, "text": "the"} for n in (1, 2)}})
    done = rescore("n.json", "--lm", f"tta:{models['tta']}", "--weight", "0.3", "--html", "r.html", "-q")
    assert_one_line_error(done, "needs references")
    assert not (tmp_path / "r.html").exists()
