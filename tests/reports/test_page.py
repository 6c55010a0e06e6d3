"""The HTML report in a real browser, where there is one: what it shows, and that text
is never markup.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import shutil
import subprocess
import time
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescore import read as read_lists
from rescore.dataset import Dataset
from rescore.deciding import decide
from rescore.metrics import choose_metric
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.page import page as make_page
from rescore.reports.page import verdict
from rescore.reports.records import MetricResult
from rescore.reports.results import evaluate
from rescore.signature import Conditions
from rescore.tuning import Weights
from tests.conftest import Run, assert_one_line_error, some_lists, write_json
from tests.lms.test_ngram import ARPA

MOST_SECONDS = 300
"""How long a browser may take for an answer or a page."""
EVIL = "<script>document.title='caught'</script> </script><b>bold</b> <!-- &amp; it's"


@pytest.fixture
def page(rescore: Run, models: dict[str, Path], tmp_path: Path) -> str:
    table = {
        f"u{index}": {
            "ref": (
                "the old clock ticked"
                + " and ticked in the long dark hall" * (3 if index == 4 else 0)
            ),
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
    data = data_of(page)
    assert [one["id"] for one in data["utterances"]] == [
        f"u{index}" for index in range(5)
    ]
    first = data["utterances"][1]
    assert first["outputs"][0]["pairs"] == [
        ["the"] * 2,
        ["old", "odd"],
        ["clock"] * 2,
        ["ticked", None],
    ]
    assert first["outputs"][0]["errors"] == 2
    assert [one["title"] for one in data["charts"]] == [
        "WER on dev against the weight of tta"
    ]
    assert page.count("<table>") == 2 and "lm:tta=tta@" in page
    assert data["columns"] == ["s2s", "tta", "tokens"] and [
        one[1:3] for one in first["list"]
    ] == [
        [2, False],
        [1, True],
    ]
    # Nothing is fetched, and nothing from a list is markup.
    assert not re.search(
        r"(src|href)\s*=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", page
    )
    assert "<b>bold" not in page and page.count("</script>") == 2


@pytest.fixture
def reranked_page() -> str:
    """A page on which the reranked text is better, worse, or the same."""
    lists = []
    for number, (first, other) in enumerate(
        [("a b", "a b c"), ("a b c", "x"), ("x", "a b c"), ("a", "a c"), ("a b c", "c")]
    ):
        hypotheses = [
            Hypothesis(first, {"s2s": -1.0, "lm": -2.0}),
            Hypothesis(other, {"s2s": -1.5, "lm": -1.0}),
            Hypothesis("b", {"s2s": -3.0, "lm": -3.0}),
        ]
        lists.append(NbestList(f"u{number}", hypotheses, ("a b c",)))
    lists[-1].hypotheses[1].scores["lm"] = -9.0
    return page_of(lists, lm=1.0)


def test_each_list_marks_the_first_and_the_chosen_text(reranked_page: str) -> None:
    for utterance in data_of(reranked_page)["utterances"]:
        for place, output in enumerate(utterance["outputs"]):
            marked = [one[0] for one in utterance["list"] if one[4][place]]
            assert marked == [output["text"]]


def test_without_javascript_changed_utterances_stand_by_gain(
    reranked_page: str,
) -> None:
    utterances = data_of(reranked_page)["utterances"]
    assert sum(one["changed"] for one in utterances) == 4
    _, _, plain = reranked_page.partition('<section id="wait">')
    plain, _, _ = plain.partition("</section>")
    rows = re.findall(r"<td>([\d,]+)</td><td>([\d,]+)</td></tr>", plain)
    *errors, totals = [(int(before), int(after)) for before, after in rows]
    assert [before - after for before, after in errors] == [3, 1, 1, -3]
    assert totals == (6, 4)


def test_the_page_counts_utterances_and_names_the_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    lists = [
        NbestList("a", heard("x", "y", lm=(0, 9)), references=("x",)),
        NbestList("b", heard("x", "y", lm=(0, 9)), references=("y",)),
        NbestList("c", heard("x", "z y", lm=(0, 9)), references=("x",)),
    ]
    page = page_of(lists, lm=1.0)
    assert '<p class="faint">1 better, 2 worse; 95 % CI of the' in page
    assert "; 1970-01-02</p>" in page


def data_of(page: str) -> Any:
    packed = re.search(r'<script id="data" type="text/plain">(.*?)</script>', page)
    assert packed is not None
    return json.loads(zlib.decompress(b64decode(packed[1])))


def test_what_is_impossible_has_no_number(rescore: Run, tmp_path: Path) -> None:
    """A language model that gives a word no probability at all: JSON knows no
    infinity.
    """
    (tmp_path / "lm.arpa").write_text(
        ARPA.replace("-1.3\told", "-inf\told"), encoding="utf-8"
    )
    table = {
        "u": {
            "ref": "old the",
            "hyp_1": {"score": -1, "text": "old the"},
            "hyp_2": {"score": -2, "text": "the"},
        }
    }
    write_json(tmp_path / "l.json", table)
    done = rescore(
        "l.json", "--lm", "ngram:lm.arpa", "--weight", "0.5", "--html", "r.html"
    )
    assert done.returncode == 0, done.stderr
    first = data_of((tmp_path / "r.html").read_text(encoding="utf-8"))["utterances"][0]
    assert first["list"][0][3][1] is None
    (tmp_path / "s").write_text("old the\nthe\n", encoding="utf-8")
    done = rescore("score", "--text", "s", "--lm", "ngram:lm.arpa", "-o", "p.json")
    assert done.returncode == 0 and "inf" in done.stdout and not done.stderr
    written = (tmp_path / "p.json").read_text()
    assert (
        "Infinity" not in written
        and json.loads(written)[0]["by_token"]["corpus"] is None
    )


def test_page_shows_the_decision(
    rescore: Run, models: dict[str, Path], tmp_path: Path
) -> None:
    """What moved is counted for what minimum Bayes risk chose, not for the best
    score.
    """
    texts = ["the old clock ticked", "the odd clock", "an old clock", "the old clock"]
    table = {
        f"u{index}": {
            "ref": "the old clock",
            **{
                f"hyp_{rank}": {"score": -rank / 8, "text": text}
                for rank, text in enumerate(texts, 1)
            },
        }
        for index in range(4)
    }
    write_json(tmp_path / "l.json", table)
    options = ["--weight", "0", "--decide", "mbr", "--scale", "1", "--html", "r.html"]
    done = rescore("l.json", "--lm", f"tta:{models['tta']}", *options)
    assert done.returncode == 0 and "4 utterances changed" in done.stdout, done.stderr
    found = data_of((tmp_path / "r.html").read_text(encoding="utf-8"))["utterances"]
    assert all(
        one["changed"] and one["outputs"][1]["errors"] < one["outputs"][0]["errors"]
        for one in found
    )


def page_of(lists: list[NbestList], **columns: float) -> str:
    """The page of lists that are reranked by the weights of columns."""
    weights = Weights({"s2s": 1.0, **columns})
    metric = choose_metric("wer", lists)
    decided = decide(metric, Dataset.of(lists), weights)
    results = evaluate([metric], decided)
    return make_page(results, metric, decided.lists, decided.texts)


def heard(*texts: str, **columns: tuple[float, ...]) -> list[Hypothesis]:
    """Hypotheses, best first."""
    return [
        Hypothesis(
            text,
            {
                "s2s": -float(rank),
                **{name: scores[rank] for name, scores in columns.items()},
            },
        )
        for rank, text in enumerate(texts)
    ]


def test_what_is_worse_says_so() -> None:
    """In words, not by its colour alone: the answer and the figure."""
    lists = [
        NbestList(
            f"{speaker}-{number}",
            heard("one clock", "an owl", lm=(0, 9)),
            references=("one clock",),
        )
        for speaker in ("ann", "bob")
        for number in range(8)
    ]
    page = page_of(lists, lm=1.0)
    assert (
        '<p class="answer worse">Reranking is significantly worse than the first'
        " pass.</p>" in page
    )
    assert (
        '<td style="text-align:left">WER</td><td>0.00</td><td>100.00</td>'
        '<td class="worse">+100.00 worse</td>' in page
    )
    assert "0 better, 16 worse; 95 % CI of the reranked WER 100.00-100.00; " in page
    page = page_of(lists)
    assert (
        '<p class="answer">Reranking does not change WER: 0.00.</p>' in page
        and 'class="worse">+' not in page
    )


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [
        (
            (10.0, 9.0, 0.01),
            "Reranking is significantly better than the first pass: 10.0 % less WER.",
        ),
        (
            (10.0, 11.0, 0.01),
            "Reranking is significantly worse than the first pass: 10.0 % more WER.",
        ),
        ((10.0, 9.0, 0.3), "The change may be chance: WER 10.00 -> 9.00."),
    ],
)
def test_the_answer_in_a_sentence(
    figures: tuple[float, float, float], sentence: str
) -> None:
    first, reranked, p = figures
    assert sentence == verdict(
        MetricResult(
            "WER",
            False,
            first,
            0.0,
            reranked,
            p,
            {"first_pass": {}},
            {},
            {},
            "",
            Conditions({}),
        )
    )


def test_a_page_of_many_lists_can_be_mailed(tmp_path: Path) -> None:
    """1,828 lists of 10 take less than 3 MB."""
    lists = [
        replace(nbest, hypotheses=nbest.hypotheses[:10])
        for nbest in read_lists(some_lists(tmp_path, "test", 100))
    ]
    assert len(page_of(lists).encode()) < 3_000_000 / 1828 * 100


class Browser:
    """A headless browser, driven through a pipe: its own windows are never narrower
    than 500 pixels.
    """

    def __init__(self, program: str, folder: Path) -> None:
        reading, self._to = os.pipe()
        self._from, writing = os.pipe()

        def attach() -> None:  # the browser reads from descriptor 3 and writes to 4
            kept = [fcntl.fcntl(pipe, fcntl.F_DUPFD, 10) for pipe in (reading, writing)]
            for place, pipe in zip((3, 4), kept, strict=True):
                os.dup2(pipe, place)

        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-pipe",
            "--no-first-run",
        ]
        options += [
            "--disable-quic",
            "--disable-background-networking",
            "--disable-component-update",
        ]
        self._process = subprocess.Popen(
            [program, *options, f"--user-data-dir={folder / 'profile'}"],
            preexec_fn=attach,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reading)
        os.close(writing)
        self._folder, self._left, self._session, self._number = folder, b"", {}, 0

    def begin(self) -> None:
        """Open a tab."""
        tab = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {
            "sessionId": self._call(
                "Target.attachToTarget", targetId=tab, flatten=True
            )["sessionId"]
        }

    def _call(self, method: str, **params: Any) -> Any:
        self._number += 1
        sent = (
            json.dumps(
                {
                    "id": self._number,
                    "method": method,
                    "params": params,
                    **self._session,
                }
            ).encode()
            + b"\0"
        )
        while sent:
            sent = sent[os.write(self._to, sent) :]
        while True:
            while b"\0" not in self._left:
                ready, _, _ = select.select([self._from], [], [], MOST_SECONDS)
                read = os.read(self._from, 1 << 20) if ready else b""
                assert read, f"the browser does not answer {method}"
                self._left += read
            message, _, self._left = self._left.partition(b"\0")
            answer = json.loads(message)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, page: str, hash_: str, width: int, scripts: bool = True) -> None:
        """Show a page at the place of a hash, on a screen so many pixels wide."""
        (self._folder / "shown.html").write_text(page, encoding="utf-8")
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=(self._folder / "shown.html").as_uri() + hash_)
        ready = "document.readyState === 'complete'" + (
            " && document.getElementById('wait').hidden" if scripts else ""
        )
        self.until(f"location.protocol === 'file:' && {ready}")

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true on the page."""
        end = time.monotonic() + MOST_SECONDS
        while not self.value(condition):
            assert time.monotonic() < end, f"never on the page: {condition}"
            time.sleep(0.05)

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = next(
        filter(
            None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        ),
        None,
    )
    if program is None:
        pytest.skip("needs chromium")
    started = Browser(program, tmp_path_factory.mktemp("browser"))
    try:
        started.begin()
        yield started
    finally:
        started.close()


Look = Callable[[str, str, int], str]


@pytest.fixture
def look(browser: Browser) -> Look:
    """What a browser makes of a page: shown at the place of a hash, on a screen so many
    pixels wide.
    """

    def shown(page: str, hash_: str, width: int) -> str:
        browser.open(page, hash_, width)
        dom = browser.value("document.documentElement.outerHTML")
        return re.sub(r"<script.*?</script>", "", dom, flags=re.DOTALL)

    return shown


CUT = """[...document.querySelectorAll("main *")].filter(node => {
  const box = node.getBoundingClientRect();
  if (!box.width || box.right <= innerWidth) return false;
  for (let inside = node.parentElement; inside; inside = inside.parentElement)
    if (getComputedStyle(inside).overflowX === "auto") return false;
  return true;
}).map(node => node.outerHTML.slice(0, 80))"""
"""What is cut off at the right side of the screen, in no box that scrolls."""
SCROLLS = """[...document.querySelectorAll(".sheet, .list, .aligned")]
  .filter(node => node.scrollWidth > node.clientWidth + 1)
  .map(node => node.className)"""
"""Boxes that are wider than the screen."""


def test_nothing_is_cut_off_on_a_phone(page: str, browser: Browser) -> None:
    browser.open(page, "", 390)
    browser.value(
        "document.querySelectorAll('details').forEach(node => { node.open = true })"
    )
    # lists are filled once they are open
    browser.until("document.querySelectorAll('.list').length == 5")
    assert (
        browser.value("innerWidth")
        == 390
        == browser.value("document.documentElement.scrollWidth")
    )
    # the evil hypothesis is a long word
    assert browser.value(CUT) == [] and browser.value(SCROLLS) == ["aligned"]
    assert (
        browser.value("document.querySelector('.list td + td').dataset.name")
        == "errors"
    )


def test_a_word_that_is_wider_than_the_screen_scrolls(browser: Browser) -> None:
    word = "donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbau"
    word += "unterbeamtengesellschaft"
    lists = [
        NbestList(word + str(number), heard("a " + word, word), references=(word,))
        for number in range(2)
    ]
    browser.open(page_of(lists), "", 390)
    browser.value(
        "document.querySelectorAll('details').forEach(node => { node.open = true })"
    )
    assert (
        browser.value("document.documentElement.scrollWidth") == 390
        and browser.value(CUT) == []
    )
    assert browser.value(SCROLLS) == ["aligned"] * 2


def test_the_answer_stands_above_all_else(page: str, browser: Browser) -> None:
    """Also without JavaScript, where the page says what it does not show."""
    for scripts in (True, False):
        browser.open(page, "", 390, scripts)
        bottom = browser.value(
            "document.querySelector('table').getBoundingClientRect().bottom"
        )
        assert (
            browser.value(
                "document.querySelector('.answer').getBoundingClientRect().top"
            )
            < bottom
            < 400
        )
        text = browser.value("document.body.innerText")
        assert "Reranking " in text
        assert ("With JavaScript this page" in text, "5 of 5" in text) == (
            not scripts,
            scripts,
        )


def test_page_in_a_browser(page: str, look: Look) -> None:
    # For a narrow screen: whether anything is wider than it is told in the title.
    wide = (
        "<script>document.title += document.documentElement.scrollWidth > innerWidth ?"
        " ' wide' : ' fits'</script>"
    )
    page = page.replace("</body>", wide + "</body>")
    shown = look(page, "", 1200)
    assert "<title>lists: tta fits</title>" in shown  # the evil hypothesis did not run
    assert shown.count('<article class="utterance"') == 5 and "5 of 5" in shown
    assert shown.count("all 2 hypotheses") == 5 and shown.count('id="u-u3"') == 1
    narrow = look(page, "#q=u3", 390)  # the choice is kept in the address
    assert "1 of 5" in narrow and "<title>lists: tta fits</title>" in narrow
    lines = [
        look(page, "#q=u4", width).count(">reference</span>") for width in (390, 1200)
    ]
    # each line of a long utterance says what its rows are
    assert lines[0] > lines[1] >= 1
    assert shown.count("<svg") == 1 and 'class="D"' in shown
    # The figures stand once above, the signature below all else; what did not change is
    # folded.
    places = [
        shown.index(part)
        for part in (
            'class="answer"',
            'id="charts"',
            'id="utterances"',
            'class="signature"',
        )
    ]
    assert places == sorted(places)
    unchanged = sum(not one["changed"] for one in data_of(page)["utterances"])
    assert shown.count('class="said"') == unchanged
    assert "&lt;script&gt;document.title='caught'&lt;/script&gt;" in shown.lower()


def test_page_needs_references(
    rescore: Run, models: dict[str, Path], tmp_path: Path
) -> None:
    write_json(
        tmp_path / "n.json",
        {"u": {f"hyp_{n}": {"score": -n, "text": "the"} for n in (1, 2)}},
    )
    done = rescore(
        "n.json",
        "--lm",
        f"tta:{models['tta']}",
        "--weight",
        "0.3",
        "--html",
        "r.html",
        "-q",
    )
    assert_one_line_error(done, "needs references")
    assert not (tmp_path / "r.html").exists()


def test_an_infinite_rate_has_no_point(rescore: Run, tmp_path: Path) -> None:
    """Long references without a listed word, and a hypothesis with one."""
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    (tmp_path / "words").write_text("anna\nlear\n", encoding="utf-8")
    long = " ".join(["the old clock"] * 20)
    table = {
        "u1": {"ref": "old anna", "hyp_1": {"score": -1, "text": "old anna"}},
        "u2": {
            "ref": long,
            "hyp_1": {"score": -1, "text": f"{long} lear"},
            "hyp_2": {"score": -2, "text": long},
        },
    }
    write_json(tmp_path / "l.json", table)
    command = (
        "l.json",
        "--lm",
        "ngram:lm.arpa",
        "--weight",
        "0",
        "--metric",
        "bwer",
        "--words",
        "words",
    )
    done = rescore(*command, "--html", "h.html")
    assert done.returncode == 0 and (tmp_path / "h.html").exists(), done.stderr
