"""What files say is taken as they mean it, or refused with file and place; nothing is
lost or changed in silence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rescore import formats
from rescore.columns import Column, Role
from rescore.errors import UserError
from rescore.formats.text import utterance_of
from rescore.metrics.listed import WordList
from rescore.nbest import Header, Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error

QUOTED = [
    '"hello" she said',
    'say "yes"',
    '"',
    '""',
    '"a, b',
    "it's",
    '"he said ""hi"""',
]


@pytest.mark.parametrize("name", ["l.tsv", "l.csv"])
def test_a_text_may_hold_any_quote(name: str, tmp_path: Path) -> None:
    lists = [
        NbestList(
            "u",
            [
                Hypothesis(text, {"s2s": -1.0 - rank})
                for rank, text in enumerate(QUOTED)
            ],
        )
    ]
    formats.write(lists, str(tmp_path / name))
    (nbest,) = formats.read([tmp_path / name])
    assert [hypothesis.text for hypothesis in nbest.hypotheses] == QUOTED


def test_a_quotation_mark_swallows_no_lines(tmp_path: Path) -> None:
    """TSV has no quoting. In CSV, a mark that is not closed is an error that names the
    line.
    """
    rows = ["id,text,score", 'u,"oh,-1', "u,oh,-2", 'u,x" y,-3']
    (tmp_path / "l.tsv").write_text("\n".join(rows).replace(",", "\t") + "\n")
    assert [
        hypothesis.text
        for hypothesis in formats.read([tmp_path / "l.tsv"])[0].hypotheses
    ] == ['"oh', "oh", 'x" y']
    (tmp_path / "l.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(UserError, match=r"l\.csv: line 4"):
        formats.read([tmp_path / "l.csv"])


def test_a_tsv_cannot_hold_every_id(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot hold the id 'a\\tb'"):
        formats.write(
            [NbestList("a\tb", [Hypothesis("x", {"s2s": -1.0})])],
            str(tmp_path / "l.tsv"),
        )


def test_carriage_returns_are_ordinary_in_csv(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes(b"id,text,score\r\nu,a b,-1\r\nu,a,-2\r\n")
    done = rescore("convert", "l.csv", "--strict")
    assert done.returncode == 0 and not done.stderr
    assert "a b" in done.stdout and "\\r" not in done.stdout


def scored(name: str, model: str = "tta") -> NbestList:
    """A list with a column of each role that only its record can tell."""
    columns = {
        "decoder": Column.component("espnet2"),
        "tokens": Column(model, "ab" * 32, "sum", "float32", Role.COUNT),
        "tta": Column(model, "ab" * 32, "sum", "float32"),
    }
    hypotheses = [
        Hypothesis(text, {"s2s": -1.0, "decoder": -2.0, "tokens": 3.0, "tta": -4.0})
        for text in ("a", "b")
    ]
    return NbestList(name, hypotheses, ("a",), header=Header(records=columns))


@pytest.mark.parametrize("name", ["l.jsonl", "l.json"])
def test_each_list_says_where_its_columns_come_from(name: str, tmp_path: Path) -> None:
    """`shuf`, `head -n 2` and `cat` lose nothing, and no id is reserved."""
    lists = [scored(each) for each in ("u1", "columns", "u3")]
    formats.write(lists, str(tmp_path / name))
    assert formats.read([tmp_path / name]) == lists
    if name == "l.jsonl":
        lines = (tmp_path / name).read_text().splitlines(keepends=True)
        (tmp_path / "some.jsonl").write_text("".join([lines[2], lines[0]]))
        shuffled = formats.read([tmp_path / "some.jsonl"])
        assert (
            shuffled == [lists[2], lists[0]]
            and shuffled[0].header.records is shuffled[1].header.records
        )
        plain = (
            json.dumps(
                {
                    "id": "v",
                    "ref": "a",
                    "hyps": [{"text": "a", "score": -1, "scores": {"tta": -2}}],
                }
            )
            + "\n"
        )
        (tmp_path / "joined.jsonl").write_text(lines[0] + plain)
        assert [
            nbest.header.records for nbest in formats.read([tmp_path / "joined.jsonl"])
        ] == [lists[0].header.records, {}]


def test_an_empty_source_is_not_an_absent_one(tmp_path: Path) -> None:
    """A translation of nothing stays one; only in a table, an empty cell says
    nothing.
    """
    log = (
        "S-0\t\nT-0\ta\nH-0\t-0.5\ta\nP-0\t-0.5"
        " -0.5\nS-1\tx\nT-1\tb\nH-1\t-0.5\tb\nP-1\t-0.5 -0.5\n"
    )
    (tmp_path / "log").write_text(log)
    lists = formats.read([tmp_path / "log"])
    for to, name in (("native", "l.jsonl"), ("native", "l.json")):
        formats.write(lists, str(tmp_path / name), to)
        assert [nbest.source for nbest in formats.read([tmp_path / name])] == ["", "x"]
    (tmp_path / "l.json").write_text(
        json.dumps({"u": {"hyp_1": {"score": -1, "text": "a"}}})
    )
    assert formats.read([tmp_path / "l.json"])[0].source is None


@pytest.mark.parametrize("column", ["words", "sum", "s2s"])
def test_no_file_takes_a_reserved_name(column: str, tmp_path: Path) -> None:
    """Moses' features, ESPnet's parts and Kaldi's costs are the toolkit's, whatever
    they are called.
    """
    (tmp_path / "moses").write_text(f"0 ||| a b ||| {column}= 7 LM= -2 ||| -1\n")
    best = tmp_path / "decode/logdir/output.1/1best_recog"
    best.mkdir(parents=True)
    (best / "text").write_text("u A B\n")
    (best / "score").write_text("u -1\n")
    (best / "scores").write_text(f'u {{"{column}": 7, "lm": -2}}\n')
    kaldi = tmp_path / "kaldi"
    kaldi.mkdir()
    for name, value in {
        "words_text": "A B",
        "lmwt.withlm": 1,
        f"lmwt.{column}": -7,
    }.items():
        (kaldi / name).write_text(f"u-1 {value}\n")
    for path in (tmp_path / "moses", tmp_path / "decode", kaldi):
        if column == "s2s" and path == kaldi:
            assert formats.read([path])[0].hypotheses[0].scores["s2s"] == -1
        elif column == "s2s":  # of a reranked list
            hypothesis = formats.read([path])[0].hypotheses[0]
            assert hypothesis.scores["s2s"] == 7
            assert hypothesis.combined == -1
        else:
            with pytest.raises(
                UserError,
                match=f"the name of the (column|feature) {column} is reserved",
            ):
                formats.read([path])


def test_a_request_cannot_replace_the_word_count() -> None:
    entry = {
        "id": "u",
        "hyps": [{"text": "a b", "score": -1, "scores": {"words": 9, "lm": -3}}],
    }
    with pytest.raises(
        UserError, match="request: the name of the column words is reserved"
    ):
        formats.from_json(entry, "request")


@pytest.mark.parametrize("name", ["a b", "a|||b", "", "a\u00a0b"])
def test_features_that_moses_could_not_read(name: str, tmp_path: Path) -> None:
    nbest = NbestList("0", [Hypothesis("x", {"s2s": -1.0, name: -2.0})])
    with pytest.raises(UserError, match="cannot be the name of a feature"):
        formats.write([nbest], str(tmp_path / "l"), "moses")


@pytest.mark.parametrize(
    ("name", "utterance"),
    [
        ("talk.2024-01-01.json", "talk.2024-01-01"),
        ("a.b.wav.json", "a.b"),
        ("dir.d/sw2001.A.nbest.gz", "sw2001.A"),
        ("u1", "u1"),
        (".json", ".json"),
        ("x.lat.gz", "x"),
    ],
)
def test_ids_of_files_may_hold_dots(name: str, utterance: str) -> None:
    assert utterance_of(name) == utterance


def test_two_recordings_of_a_day(tmp_path: Path) -> None:
    for day in ("01", "02"):
        value = {"segments": [{"text": " a", "avg_logprob": -1.0, "tokens": [1]}]}
        (tmp_path / f"talk.2024-01-{day}.json").write_text(json.dumps(value))
    assert [nbest.id for nbest in formats.read([tmp_path])] == [
        "talk.2024-01-01",
        "talk.2024-01-02",
    ]


PLAIN = [
    "1 2 3 4\n2 3 4 5\n",
    "Text, images and video are stored.\nGood, then.\n",
    "-1 -2 1 a\n-1 -2 1 b\n",
    "a\t1\nb\t2\n",
]


@pytest.mark.parametrize("text", PLAIN)
def test_texts_that_look_like_tables_are_measured(
    text: str, rescore: Run, tmp_path: Path
) -> None:
    """With --format text a file is read as 1-best texts, even if it looks like a
    table.
    """
    (tmp_path / "hyp.txt").write_text(text)
    (tmp_path / "ref.txt").write_text(text)
    done = rescore(
        "eval",
        "hyp.txt",
        "--ref",
        "ref.txt",
        "--ref-format",
        "plain",
        "--format",
        "text",
    )
    assert done.returncode == 0 and "0.00" in done.stdout, done.stderr


def test_an_nbest_table_beside_references_is_still_one(
    rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "l.csv").write_text("id,text,score\nu,a b,-1\nu,a,-2\nv,c,-1\n")
    (tmp_path / "ref").write_text("u a\nv c\n")
    done = rescore("eval", "l.csv", "--ref", "ref")
    assert done.returncode == 0 and "oracle" in done.stdout
    assert_one_line_error(
        rescore("convert", "l.csv", "--format", "text"), "--format text", "rescore eval"
    )


def test_a_column_of_costs_is_told(rescore: Run, tmp_path: Path) -> None:
    """A table whose only column of scores has another name: the message says how to
    choose it, or that it has costs.
    """
    rows = "".join(f"u{n},a,1.{n}\nu{n},b,2\nu{n},c,3\n" for n in range(3))
    (tmp_path / "l.csv").write_text("id,text,am_cost\n" + rows)
    told = (
        "no first-pass score among its columns (am_cost); choose a column with --s2s,"
        " or --field score=-am_cost"
    )
    assert_one_line_error(rescore("convert", "l.csv"), told)
    assert rescore("convert", "l.csv", "--s2s", "am_cost").returncode == 0


def test_word_lists_with_ids_in_some_lines(tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_text("u-1 alpha\nu-2 beta gamma\n\ndelta epsilon\nu-4 zeta\n")
    with pytest.raises(UserError, match="words: most lines begin with an utterance"):
        WordList.load(path)
    path.write_text("u-1 alpha\nu-2 beta gamma\nu-1 delta\n")
    with pytest.raises(UserError, match="give each line another utterance, or none"):
        WordList.load(path)
    path.write_text("50 cent\nabba\nu2\nqueen\n")
    assert not WordList.load(path).by_utterance


@pytest.mark.parametrize(
    "hyps",
    [
        [{"text": "<|en|>a b", "score": -1}, {"text": "a", "score": -2}],
        [{"text": "a b"}, {"text": "<|en|>a"}],
        [{"text": "a b", "score": -1, "scores": {"lm": -3}}],
    ],
)
def test_a_request_is_read_as_a_line_of_a_file(
    hyps: list[dict[str, Any]], tmp_path: Path
) -> None:
    entry = {"id": "u1", "ref": "<|en|>a b", "hyps": hyps}
    path = tmp_path / "l.jsonl"
    path.write_text(json.dumps(entry) + "\n")
    (of_file,) = formats.read([path])
    of_request = formats.from_json(entry, "request")
    assert of_request.hypotheses == of_file.hypotheses
    assert of_request.references == of_file.references == ("a b",)
