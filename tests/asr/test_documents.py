"""Documents of 1-best texts: each format comes back as it was, with words replaced and
times kept.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore.asr.documents import Replacement, kind_of, passages, replaced
from rescore.errors import UserError
from rescore.formats.source import Source

SRT = (
    "1\n00:00:00,000 --> 00:00:02,000\nask gold\nman sacks\n\n2\n00:00:03,000 -->"
    " 00:00:04,000\nthanks\n"
)
DOCUMENTS = {
    "plain": "ask gold man sacks\n\nthanks\n",
    "kaldi": "a-1 ask gold man sacks\na-2\na-3 thanks\n",
    "trn": ";; a comment\nask gold man sacks (a-1)\nthanks (a-2)\n",
    "ctm": (
        "a 1 0.00 0.50 ask 0.9\na 1 0.50 0.50 gold 0.8\na 1 1.00 0.40 man 0.7\na 1 1.40"
        " 0.60 sacks 0.9\n"
    ),
    "ctm with tabs": "a\t1\t0.00  0.50 ask 0.9\n\n;; note\n a 1 0.50 0.50 gold 1.0 x\n",
    "kaldi with blanks": "a-1  ask gold \n\n a-2\tthanks\n",
    "trn with blanks": " ask gold  (a-1) \n\n ;; note\nthanks (a-2)\n",
    "stm": (";; note\na A s1 0.00 1.00 <o,f0,male> ask gold man sacks\na A s2 1 2\n"),
    "srt": SRT,
    "srt of web": "WEBVTT\n\n" + SRT.replace(",", ".").replace("1\n", "", 1),
}


def document(folder: Path, text: str) -> Source:
    path = folder / "talk"
    path.write_text(text, encoding="utf-8")
    return Source(path)


def written(source: Source, kind: str, old: str = "", new: str = "") -> str:
    """The document, with a text replaced at its first place in each text."""
    pieces = []
    for passage in passages(source, kind):
        at = passage.text.text.find(old) if passage.text and old else -1
        pieces.append(
            passage.render([Replacement(at, at + len(old), new)] if at >= 0 else [])
        )
    return "".join(pieces)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_comes_back_as_it_was(kind: str, tmp_path: Path) -> None:
    source = document(tmp_path, DOCUMENTS[kind])
    assert kind_of(source) == kind.split()[0]
    again = written(source, kind_of(source))
    assert again == DOCUMENTS[kind]


@pytest.mark.parametrize("kind", ["plain", "kaldi", "trn", "stm"])
def test_only_the_words_change(kind: str, tmp_path: Path) -> None:
    changed = written(
        document(tmp_path, DOCUMENTS[kind]), kind, "gold man sacks", "Goldman Sachs"
    )
    assert changed == DOCUMENTS[kind].replace("gold man sacks", "Goldman Sachs")


def test_ids_and_recordings(tmp_path: Path) -> None:
    names = {}
    for kind in ("kaldi", "trn", "plain"):
        texts = [
            text
            for passage in passages(document(tmp_path, DOCUMENTS[kind]), kind)
            if (text := passage.text)
        ]
        names[kind] = [(text.id, text.recording, text.text.strip()) for text in texts]
    assert names["kaldi"] == [
        ("a-1", "a", "ask gold man sacks"),
        ("a-2", "a", ""),
        ("a-3", "a", "thanks"),
    ]
    assert names["trn"] == [("a-1", "a", "ask gold man sacks"), ("a-2", "a", "thanks")]
    assert names["plain"] == [
        ("1", "talk", "ask gold man sacks"),
        ("3", "talk", "thanks"),
    ]


def test_new_words_of_a_ctm_share_the_time_and_the_lowest_confidence(
    tmp_path: Path,
) -> None:
    changed = written(
        document(tmp_path, DOCUMENTS["ctm"]), "ctm", "gold man sacks", "Goldman Sachs"
    )
    assert changed.splitlines() == [
        "a 1 0.00 0.50 ask 0.9",
        "a 1 0.50 0.88 Goldman 0.7",
        "a 1 1.38 0.62 Sachs 0.7",
    ]


def test_as_many_new_words_keep_their_times(tmp_path: Path) -> None:
    changed = written(
        document(tmp_path, DOCUMENTS["ctm"]), "ctm", "gold man", "Goald Mann"
    )
    assert "a 1 0.50 0.50 Goald 0.7\na 1 1.00 0.40 Mann 0.7\na 1 1.40" in changed


def test_each_alternative_of_a_ctm_is_corrected(tmp_path: Path) -> None:
    mark = "a 1 * * <ALT"
    ctm = (
        f"{mark}_BEGIN>\na 1 0.50 0.50 gold\na 1 1.00 0.40 man\n{mark}>\na 1 0.50 0.90"
        f" goldman\n{mark}_END>\n"
    )
    source = document(tmp_path, ctm)
    assert kind_of(source) == "ctm" and written(source, "ctm") == ctm
    joined = ctm.replace("0.50 0.50 gold\na 1 1.00 0.40 man", "0.50 0.90 Goldman")
    assert written(source, "ctm", "gold man", "Goldman") == joined


def test_a_ctm_is_cut_at_silences_and_at_channels(tmp_path: Path) -> None:
    lines = (
        "a 1 0.00 0.50 one\na 1 0.60 0.50 two\na 1 3.00 0.50 three\na 2 3.50 0.50"
        " four\n"
    )
    texts = [
        text.text
        for passage in passages(document(tmp_path, lines), "ctm")
        if (text := passage.text)
    ]
    assert texts == ["one two", "three", "four"]


def test_a_term_may_go_over_the_lines_of_a_subtitle(tmp_path: Path) -> None:
    changed = written(
        document(tmp_path, SRT), "srt", "gold\nman sacks", "Goldman Sachs"
    )
    assert changed == SRT.replace("gold\nman sacks", "Goldman Sachs")


def test_json_is_corrected_as_ctm(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is JSON; correct its words as CTM"):
        kind_of(document(tmp_path, json.dumps({"text": "ask gold man sacks"})))


def test_replaced() -> None:
    assert (
        replaced("a b c", [Replacement(0, 1, "x"), Replacement(4, 5, "yy")]) == "x b yy"
    )


def test_a_ctm_without_times_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 1: time is 'x', not a number"):
        list(passages(document(tmp_path, "a 1 x y word\n"), "ctm"))
