"""What toolkits write beside the words, and what they leave out, is read and told."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from rescore import formats
from rescore.asr.whole import read_systems
from rescore.cli.setup import search
from rescore.errors import UserError
from rescore.nbest import NbestList
from tests.conftest import Run, assert_one_line_error

MESSAGES = {
    "tags": (
        '[{"key": "u", "text": "<|en|><|NEUTRAL|>an owl"}]',
        ["an owl"],
        "1 list has tags",
    ),
    "tags among words": (
        '{"id": "u", "hyps": [{"text": "<|0.0|> an owl<|2.0|>", "score": -1, "times":'
        " [[0, 0], [0, 1], [1, 2]]}]}",
        ["an owl"],
        "1 list has tags",
    ),
    "null": (
        '{"id": "u", "hypotheses": [{"text": null, "score": -1}, {"text": "a",'
        ' "score": -2}]}',
        ["", "a"],
        "1 text is null",
    ),
    "null beside a reference": (
        '{"audio_filepath": "u", "text": "an owl", "pred_text": null}',
        [""],
        "1 text is null",
    ),
    "tokens": (
        '{"hypotheses": [["Hello", "5"], ["Hi", "6"]]}',
        ["Hello 5", "Hi 6"],
        "no scores",
    ),
    "pairs": ('{"hyps": [["a b", "-1.5"], ["a", "-2.5"]]}', ["a b", "a"], ""),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_texts(case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content, texts, message = MESSAGES[case]
    (tmp_path / "l.jsonl").write_text(content + "\n")
    (nbest,) = formats.read([tmp_path / "l.jsonl"])
    assert [each.text for each in nbest.hypotheses] == texts
    assert message in caplog.text and len(caplog.messages) == bool(message)
    for each in nbest.hypotheses:
        assert len(each.times) in (0, len(each.text.split()))


@pytest.mark.parametrize(
    ("lines", "scores"),
    [
        ("an owl\t-0.5\na cowl\t-1.5e0\n", [-0.5, -1.5]),
        ("-0.5 ||| an owl\n-1.5 ||| a cowl\n", [-0.5, -1.5]),
    ],
)
def test_lines_with_scores(lines: str, scores: list[float], tmp_path: Path) -> None:
    (tmp_path / "l").write_text(lines)
    options = formats.ReadOptions(size=2)
    (nbest,) = formats.read([tmp_path / "l"], format_name="opennmt", options=options)
    assert [each.text for each in nbest.hypotheses] == ["an owl", "a cowl"]
    assert nbest.column("s2s") == scores
    (tmp_path / "m").write_text("an owl\t-1\n" * 9000 + "a cowl\n")
    with pytest.raises(UserError, match="line 9001: no score"):
        formats.read([tmp_path / "m"], format_name="opennmt", options=options)


def test_features_that_some_hypotheses_lack(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "n").write_text(
        "0 ||| an owl ||| W= -0.5 -0.25 ||| -1\n0 ||| a cowl flew ||| W= -0.5 -0.25"
        " -0.5 ||| -2\n1 ||| a b ||| W= -1 -1 ||| -2\n1 ||| c ||| W= -1 -1 ||| -3\n"
    )
    (nbest, _) = formats.read([tmp_path / "n"])
    assert nbest.column("W.3") == [0.0, -0.5]
    (tmp_path / "r").write_text("an owl\na b\n")
    ref = ("--ref", "r", "--dev", "n", "--dev-ref", "r")
    done = rescore("run", "n", *ref, "--components", "--metric", "wer")
    assert done.returncode == 0
    assert "3 hypotheses without some parts of the score" in done.stderr


def test_scores_of_marian_scorer(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("0 ||| an owl ||| F0= -3.5 \n0 ||| a ||| F0= -4 \n")
    assert formats.read([tmp_path / "n"])[0].column("s2s") == [-3.5, -4.0]


def test_letters_that_stand_apart(rescore: Run, tmp_path: Path) -> None:
    """ESPnet's score_cer: also a text of a single word is spelled out."""
    (tmp_path / "h.trn").write_text("a n <space> o w l (s-1)\ni t (s-2)\n")
    (tmp_path / "r").write_text("s-1 an owl\ns-2 it\n")
    assert "h.trn  0.00" in rescore("eval", "h.trn", "--ref", "r").stdout


def test_owsm_without_special_tokens(tmp_path: Path) -> None:
    best = tmp_path / "d" / "logdir" / "output.1" / "1best_recog"
    best.mkdir(parents=True)
    (best / "text").write_text("u <eng><asr> an owl\n")
    (best / "text_nospecial").write_text("u an owl\n")
    (best / "score").write_text("u -1\n")
    assert formats.read([tmp_path / "d"])[0].hypotheses[0].text == "an owl"


FORMS = {
    "composed": ("caf\u00e9", unicodedata.normalize("NFD", "caf\u00e9"), "--nfkc"),
    "no width": ("an owl", "an\u200b owl", "--nfkc"),
    "equal": ("caf\u00e9", "caf\u00e9", ""),
    "vowels": (
        "\u0928\u092e\u0938\u094d\u0924\u0947",
        "\u0928\u092e\u0938\u094d\u0924\u093e",
        "--unicode-basic",
    ),
}


@pytest.mark.parametrize("case", FORMS)
def test_forms_of_letters(case: str, rescore: Run, tmp_path: Path) -> None:
    text, reference, hint = FORMS[case]
    (tmp_path / "h").write_text(f"u1 {text}\n", encoding="utf-8")
    (tmp_path / "r").write_text(f"u1 {reference}\n", encoding="utf-8")
    options = ["--whisper-basic"] if case == "vowels" else []
    done = rescore("eval", "h", "--ref", "r", *options)
    assert hint in done.stderr and bool(done.stderr) == bool(hint)
    if hint == "--nfkc":
        done = rescore("eval", "h", "--ref", "r", "--nfkc")
        assert "h  0.00" in done.stdout and not done.stderr


@pytest.mark.parametrize("code", ["utf-16", "utf-16-be"])
def test_utf16_is_named(code: str, rescore: Run, tmp_path: Path) -> None:
    mark = "\ufeff" if code == "utf-16-be" else ""
    (tmp_path / "l").write_text(f'{mark}{{"id": "u"}}\n', encoding=code)
    assert_one_line_error(rescore("convert", "l"), "l: is UTF-16, not UTF-8")


def test_init_looks_into_files(tmp_path: Path) -> None:
    line = '{"results": [{"alternatives": [{"transcript": "a"}]}]}'
    for name in ("dev", "test"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "answers").write_text(line)
    (tmp_path / "settings.json").write_text('{"text": "no lists"}')
    assert search(tmp_path) == ("speech", ["dev/answers", "test/answers"])


WORDS = ("hello", "there", "world")
OUT_OF_ORDER = {
    "talk.ctm": "talk 1 1 1 there\ntalk 1 0 1 hello\ntalk 1 2 1 world\n",
    "talk.srt": "\n".join(
        f"{at + 1}\n00:00:0{at},000 --> 00:00:0{at + 1},000\n{WORDS[at]}\n"
        for at in (1, 0, 2)
    ),
    "talk.json": json.dumps(
        {
            "results": [
                {
                    "alternatives": [
                        {
                            "transcript": WORDS[at],
                            "words": [
                                {
                                    "word": WORDS[at],
                                    "startTime": f"{at}s",
                                    "endTime": f"{at + 1}s",
                                }
                            ],
                        }
                    ]
                }
                for at in (1, 0, 2)
            ]
        }
    ),
}


@pytest.mark.parametrize("name", OUT_OF_ORDER)
def test_recordings_are_sorted_by_time(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_text(OUT_OF_ORDER[name])
    (system,) = read_systems([tmp_path / name])
    assert system["talk"].words == list(WORDS)
    assert [start for start, _ in system["talk"].times] == [0.0, 1.0, 2.0]
    assert caplog.text.count("sorted by time") == 1


def test_texts_without_blanks_keep_their_times(tmp_path: Path) -> None:
    words = [{"word": "你", "start": 1, "end": 2}, {"word": "好", "start": 2, "end": 3}]
    document = {"segments": [{"text": "你好", "words": words}]}
    (tmp_path / "talk.json").write_text(json.dumps(document))
    (system,) = read_systems([tmp_path / "talk.json"])
    assert system["talk"].times == [(1.0, 3.0)]


def test_times_of_icefall(tmp_path: Path) -> None:
    for times, spans in {
        "[0.5, 1.0]": ((0.5, 1.0), (1.0, 1.2)),
        "[(0.5, 0.75), (1.0, 2.0)]": ((0.5, 0.75), (1.0, 2.0)),
    }.items():
        (tmp_path / "recogs").write_text(
            f"c-1:\tref=['A', 'B']\nc-1:\thyp=['A', 'C']\nc-1:\ttimestamp_hyp={times}\n"
        )
        (nbest,) = list[NbestList](formats.read([tmp_path / "recogs"]))
        assert np.allclose(nbest.hypotheses[0].times, spans)
