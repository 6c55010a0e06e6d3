"""Which reference belongs to which list: where either side has ids they must match; and
what a reference may hold.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.formats.alternatives import readings
from rescore.readings import MOST_READINGS
from tests.conftest import Run, assert_one_line_error

IDS = ["spk1-1", "spk1-2", "spk2-1"]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    lines = [
        {"id": name, "hyps": [{"text": f"word {name[-1]}", "score": -1}]}
        for name in IDS
    ]
    path = tmp_path / "l.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


KALDI = "spk1-1 word 1\nspk1-2 word 2\nspk2-1 word 1\n"


@pytest.mark.parametrize(
    ("reference", "first"),
    [
        (KALDI.replace("spk1-2", "spk1-9"), "no reference for utterance spk1-2"),
        (KALDI.upper(), "no reference for utterance spk1-1"),
        (KALDI.replace("spk", "x"), "no reference for utterance spk1-1"),
        (
            "word 1 (spk1-1)\nword 2 (spk1-2)\nword 1 (spk2-7)\n",
            "no reference for utterance spk2-1",
        ),
        (
            (
                '{"a1": {"ref": "x", "hyp_1": {"text": "x"}}, "a2": {"ref": "x",'
                ' "hyp_1": {"text": "x"}}, "a3": {"ref": "x", "hyp_1": {"text": "x"}}}'
            ),
            "no reference for utterance spk1-1",
        ),
    ],
    ids=["one unknown", "another case", "others", "trn", "json"],
)
def test_ids_of_references_that_do_not_match(
    reference: str, first: str, lists: Path, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "ref").write_text(reference)
    assert_one_line_error(rescore("eval", "l.jsonl", "--ref", "ref"), "ref: ", first)


def test_numbered_lists_have_no_ids(rescore: Run, tmp_path: Path) -> None:
    """References with ids do not belong to lists that are only numbered, unless there
    is somebody who says so.
    """
    (tmp_path / "l.tsv").write_text("word 1\t-1\nword 2\t-1\nword 1\t-1\n")
    (tmp_path / "ref").write_text(KALDI)
    command = ["eval", "l.tsv", "--nbest-size", "1", "--ref", "ref"]
    assert_one_line_error(
        rescore(*command), "begin with ids such as spk1-1", "--ref-format plain"
    )
    assert rescore(*command, "--ref-format", "plain").returncode == 0
    (tmp_path / "ref").write_text("1 word\n2 words\n3 words\n")
    assert rescore(*command).returncode == 0


def test_an_output_without_ids(lists: Path, rescore: Run, tmp_path: Path) -> None:
    """Plain lines and Kaldi text: the ids would be counted as words."""
    (tmp_path / "ref").write_text(KALDI)
    assert rescore("rerank", "l.jsonl", "--best", "best.txt").returncode == 0
    assert_one_line_error(
        rescore("eval", "best.txt", "--ref", "ref"),
        "no ids such as spk1-1",
        "--best NAME",
    )
    assert rescore("rerank", "l.jsonl", "--best", "best").returncode == 0
    assert " 0.00 " in rescore("eval", "best", "--ref", "ref").stdout
    (tmp_path / "ref").write_text(KALDI.upper())
    assert_one_line_error(
        rescore("eval", "best", "--ref", "ref"), "no reference for utterance spk1-1"
    )
    (tmp_path / "ref").write_text("word 1\nword 2\nword 1\n")
    assert_one_line_error(
        rescore("eval", "best", "--ref", "ref"),
        "ref: its lines have no ids such as spk1-1, spk1-2 of best",
    )
    assert " 0.00 " in rescore("eval", "best.txt", "--ref", "ref").stdout


def test_lists_of_a_part_of_the_references(
    lists: Path, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "ref").write_text(KALDI + "spk3-1 more\nspk3-2 more\n")
    command = ["eval", "l.jsonl", "--ref", "ref"]
    assert_one_line_error(
        rescore(*command),
        "no list for 2 of its 5 utterances, first spk3-1",
        "--allow-missing",
    )
    done = rescore(*command, "--allow-missing")
    assert done.returncode == 0 and " 0.00 " in done.stdout
    assert "no list for 2 of its 5 utterances" in done.stderr
    more = {"audio_filepath": "/x/spk1-1.wav", "text": "word 1"}
    names = [*IDS, "spk3-1"]
    manifest = [
        {**more, "audio_filepath": f"/x/{name}.wav", "duration": 1.5} for name in names
    ]
    (tmp_path / "ref").write_text("".join(json.dumps(one) + "\n" for one in manifest))
    assert_one_line_error(
        rescore(*command), "no list for 1 of its 4 utterances, first /x/spk3-1.wav"
    )


def test_a_manifest_without_hypotheses(lists: Path, tmp_path: Path) -> None:
    """NeMo's manifests as they are trained on: audio_filepath, duration, text."""
    lines = [
        {"audio_filepath": f"/x/{name}.wav", "duration": 1.5, "text": f"ref {name}"}
        for name in IDS
    ]
    (tmp_path / "m.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = formats.read([lists], references=tmp_path / "m.json")
    assert [nbest.references for nbest in found] == [(f"ref {name}",) for name in IDS]
    (tmp_path / "m.json").write_text(
        '{"audio_filepath": "a.wav", "text": "a"}\n{"audio_filepath": "a.wav"}\n'
    )
    with pytest.raises(
        UserError, match="line 2: no text under the keys audio_filepath"
    ):
        formats.read([lists], references=tmp_path / "m.json")


def test_entities_of_references_as_of_hypotheses(rescore: Run, tmp_path: Path) -> None:
    """Marian's files: hypotheses and references are both as the Moses tokeniser left
    them.
    """
    (tmp_path / "n.best").write_text("0 ||| it &apos;s &quot; a ||| F0= -1 ||| -1\n")
    (tmp_path / "ref").write_text("it &apos;s &quot; a\n")
    assert (
        " 0.00 " in rescore("eval", "n.best", "--ref", "ref", "--metric", "wer").stdout
    )
    assert formats.read([tmp_path / "n.best"], references=tmp_path / "ref")[
        0
    ].references == ("it 's \" a",)
    (tmp_path / "l.jsonl").write_text(
        '{"id": "0", "hyps": [{"text": "it &apos;s &quot; a", "score": -1}]}\n'
    )
    # native texts stay
    assert (
        " 0.00 " in rescore("eval", "l.jsonl", "--ref", "ref", "--metric", "wer").stdout
    )
    (tmp_path / "out").write_text("it 's \" a\n")
    assert " 0.00 " in rescore("eval", "out", "--ref", "ref", "--metric", "wer").stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b", ["a b"]),
        ("a { b / c } d { @ / e }", ["a b d", "a b d e", "a c d", "a c d e"]),
        ("{ a / { b / c } d }", ["a", "b d", "c d"]),
        ("{ @ / uh }", ["", "uh"]),
        ("a { fi /@ } b", ["a b", "a fi b"]),
        ("{a b/c}d e", ["a b d e", "c d e"]),
        ("{a/{b/c}d}", ["a", "b d", "c d"]),
        ("g ih} w/o {}", ["g ih} w/o {}"]),
        ("a { b / c", ["a { b / c"]),
        ("a } b {", ["a } b {"]),
        ("a / b @", ["a / b"]),
        ("{ " * 30 + "} " * 30, [" ".join("{" * 30 + "}" * 30)]),
    ],
)
def test_alternatives(text: str, expected: list[str]) -> None:
    assert sorted(readings(text, "ref")) == sorted(expected)


def test_alternatives_with_words_come_first() -> None:
    """Of equal costs, sclite prefers them."""
    assert readings("x { @ / y z } { @ / b }", "ref") == (
        "x y z b",
        "x b",
        "x y z",
        "x",
    )


def test_too_many_alternatives() -> None:
    assert len(readings("{ a / b } " * 10, "ref")) == MOST_READINGS
    with pytest.raises(UserError, match="ref: its alternatives make more than 1,024"):
        readings("{ a / b } " * 11, "ref")


@pytest.mark.parametrize(
    ("reference", "output"),
    [
        pytest.param(
            ";; made by hand\nthe { cat / cats } sat { @ / down } (u-1)\n;; end\nyes"
            " (u-2)\n",
            "the cats sat (u-1)\nyes (u-2)\n;; end\n",
            id=(
                "comments are no lines, and of alternatives the nearest counts"
                " (doc/infmts.htm)"
            ),
        ),
        pytest.param(
            "a b (SPK-1)\nc (Spk-2)\n",
            "a b (spk-1)\nc (spk-2)\n",
            id="case does not count in ids",
        ),
        pytest.param(
            "a (u-a)\nb (u-A)\n",
            "b (u-A)\na (u-a)\n",
            id="ids that differ in case only stay different",
        ),
        pytest.param(
            "{uh/@} a (u-1)\nb (u-2)\n",
            "a (u-1)\nb (u-2)\n",
            id="an alternative at the beginning",
        ),
        pytest.param(
            "a @ b (u-1)\n",
            "{ @ / uh } a { c / b @ } (u-1)\n",
            id="alternatives of the output",
        ),
        pytest.param(
            "7 7 2 (u-1)\n", "7 7 2 (u-1)\n", id="digits are no scores of SRILM"
        ),
    ],
)
def test_trn_as_sclite_reads_it(
    reference: str, output: str, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "ref.trn").write_text(reference)
    (tmp_path / "out.trn").write_text(output)
    assert " 0.00 " in rescore("eval", "out.trn", "--ref", "ref.trn").stdout


WORDS = (
    "the cat sits\nwe saw the dog\nhello you\n",
    "the cat sat\nwe saw a dog\nhello there\n",
)


def test_first_words_that_may_be_ids(rescore: Run, tmp_path: Path) -> None:
    """First words that all differ and match are ids only if they look like ids; else
    the user has to say.
    """
    (tmp_path / "ref").write_text(WORDS[0])
    (tmp_path / "out").write_text(WORDS[1])
    assert_one_line_error(
        rescore("eval", "out", "--ref", "ref"),
        "--ref-format kaldi",
        "--ref-format plain",
    )
    assert (
        " 33.33 "
        in rescore("eval", "out", "--ref", "ref", "--ref-format", "plain").stdout
    )
    assert (
        " 50.00 "
        in rescore("eval", "out", "--ref", "ref", "--ref-format", "kaldi").stdout
    )
    (tmp_path / "ref").write_text("anna_x the cat\nbob_y a dog\n")
    (tmp_path / "out").write_text("bob_y a dog\nanna_x the cat\n")
    assert " 0.00 " in rescore("eval", "out", "--ref", "ref").stdout


def test_lines_of_a_single_word_have_no_ids(rescore: Run, tmp_path: Path) -> None:
    """A perfect output of a script without blanks: each line is one word."""
    for name in ("out.txt", "ref.txt"):
        (tmp_path / name).write_text("ខ្ញុំចូលចិត្ត\nគាត់ទៅផ្សារ\nយើងញ៉ាំបាយ\n", "utf-8")
    done = rescore("eval", "out.txt", "--ref", "ref.txt", "--metric", "cer")
    assert done.returncode == 0, done.stderr
    assert " 0.00 " in done.stdout


def test_an_output_of_empty_texts(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("a b\nc d\n")
    (tmp_path / "out").write_text("\n\n")
    assert (
        " 100.00 " in rescore("eval", "out", "--ref", "ref", "--metric", "ter").stdout
    )
    assert " 0.00 " in rescore("eval", "out", "--ref", "ref", "--metric", "bleu").stdout
