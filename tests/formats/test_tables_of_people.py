"""Tables in the forms that people have: what `rescore` understands of each, or the
line that asks which column has a role.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from rescore import api, formats
from rescore.errors import UserError
from rescore.formats.fields import NAMES_OF_GROUPS, NAMES_OF_SYSTEMS
from rescore.formats.roles import KeysOfRoles
from rescore.formats.shapes import records
from rescore.formats.source import ReadOptions
from rescore.reports.groups import labels
from tests.conftest import ROOT, Run, assert_one_line_error


class Table(NamedTuple):
    """A table, what --field says, and what is understood."""

    content: str
    fields: KeysOfRoles = MappingProxyType({})
    lists: Mapping[str, list[Any]] = MappingProxyType({})
    """The texts of each list, or pairs of a text and its score."""
    references: Mapping[str, str] = MappingProxyType({})
    told: str = ""
    """A part of the warning or error."""
    is_error: bool = False


TWO = {"u1": ["an owl", "a cowl"], "u2": ["it flew", "it few"]}
REFERENCES = {"u1": "an owl", "u2": "it flew"}
WIDE = "utt_id,h1,h2,s1,s2,ref\nu1,an owl,a cowl,-1,-2,an owl\n"
WIDE += "u2,it flew,it few,-1.5,-3,it flew\n"
SCORED = {
    "u1": [("an owl", -1.0), ("a cowl", -2.0)],
    "u2": [("it flew", -1.5), ("it few", -3.0)],
}
LONG = "talk,beam,transcript,avg_cost,truth\nu1,1,an owl,1,an owl\n"
LONG += "u1,2,a cowl,2,an owl\nu2,1,it flew,1.5,it flew\nu2,2,it few,3,it flew\n"

TABLES = {
    # a row an utterance, and a column for each hypothesis
    "wide, each column named": Table(
        WIDE, {"text": ("h1", "h2")}, TWO, REFERENCES, "2 lists have no scores"
    ),
    "wide, by a pattern": Table(
        WIDE, {"text": "h*"}, TWO, REFERENCES, "beside s1, s2; if these are the scores"
    ),
    "wide, with scores": Table(
        WIDE, {"text": ("h1", "h2"), "score": ("s1", "s2")}, SCORED, REFERENCES
    ),
    "wide, with scores by a pattern": Table(
        WIDE, {"text": "h*", "score": "s*"}, SCORED, REFERENCES
    ),
    "wide, where the scores' names begin as the texts' names": Table(
        "id,hyp1,hyp2,hyp1_score,hyp2_score\nu1,a,b,-1,-2\n",
        {"text": "hyp*", "score": "hyp*_score"},
        {"u1": [("a", -1.0), ("b", -2.0)]},
    ),
    "wide, with costs": Table(
        "id,h1,h2,c1,c2\nu1,a,b,1,2\n",
        {"text": ("h1", "h2"), "score": ("-c1", "-c2")},
        {"u1": [("a", -1.0), ("b", -2.0)]},
    ),
    "wide, with fewer hypotheses in a row": Table(
        "id,h1,h2\nu1,a,b\nu2,c,\nu3,,\n",
        {"text": "h*"},
        {"u1": ["a", "b"], "u2": ["c"], "u3": [""]},
        told="1 row has no text in its columns of hypotheses",
    ),
    "wide, with too few scores": Table(
        WIDE,
        {"text": "h*", "score": "s1"},
        told="2 columns of texts (h1, h2) and 1 of scores (s1)",
        is_error=True,
    ),
    "wide, in JSON Lines": Table(
        '{"id": "u1", "best": "an owl", "second": "a cowl"}\n'
        '{"id": "u2", "best": "it flew", "second": "it few"}\n',
        {"text": ("best", "second")},
        TWO,
    ),
    # a row a hypothesis
    "long, with usual names": Table(
        "utt\thyp\tlogp\tref\nu1\tan owl\t-1\tan owl\nu1\ta cowl\t-2\tan owl\n"
        "u2\tit flew\t-1.5\tit flew\nu2\tit few\t-3\tit flew\n",
        lists=SCORED,
        references=REFERENCES,
    ),
    "long, whose id nobody knows": Table(
        LONG,
        lists={"1": ["an owl"], "2": ["a cowl"], "3": ["it flew"], "4": ["it few"]},
        references={"1": "an owl", "4": "it flew"},
        told="4 lists of one hypothesis; if talk is the utterance: --field id=talk",
    ),
    "long, whose id nobody knows, in JSON Lines": Table(
        '{"talk": 1, "transcript": "a"}\n{"talk": 1, "transcript": "b"}\n'
        '{"talk": 2, "transcript": "c"}\n{"talk": 2, "transcript": "d"}\n',
        lists={"1": ["a"], "2": ["b"], "3": ["c"], "4": ["d"]},
        told="4 lists of one hypothesis; if talk is the utterance: --field id=talk",
    ),
    "long, with its id and costs named": Table(
        LONG,
        {"id": "talk", "score": "-avg_cost"},
        {
            "u1": [("an owl", -1.0), ("a cowl", -2.0)],
            "u2": [("it flew", -1.5), ("it few", -3.0)],
        },
        REFERENCES,
    ),
    "long, ranked": Table(
        "Sample_ID;Rank;Hypothesis\nu1;2;a cowl\nu1;1;an owl\nu2;1;it flew\n"
        "u2;2;it few\n",
        lists=TWO,
    ),
    "long, without a head": Table(
        "u1,an owl,-1\nu1,a cowl,-2\n",
        told="the first line of a table names the columns; add a line such as id,text,",
        is_error=True,
    ),
    # one hypothesis an utterance
    "truth beside a recognition": Table(
        "file_name,recognition,transcript\nu1,an owl,an eel\n",
        lists={"u1": ["an owl"]},
        references={"u1": "an eel"},
    ),
    "truth beside a hypothesis": Table(
        "clip_id,hypothesis,transcript\nu1,an owl,an eel\n",
        lists={"u1": ["an owl"]},
        references={"u1": "an eel"},
    ),
    "two columns of hypotheses": Table(
        "id,hyp,prediction\nu1,an owl,a cowl\n",
        lists={"u1": ["an owl"]},
        told="may have its hypotheses in hyp or prediction; hyp was read; to choose,"
        " give --field text=NAME",
    ),
    "a text beside a transcript": Table(
        "id,text,transcript\nu1,an owl,an eel\n",
        lists={"u1": ["an owl"]},
        told="--field ref=transcript if it is the reference",
    ),
    "a text beside a hypothesis": Table(
        "id,hyp,text\nu1,an owl,an eel\n",
        lists={"u1": ["an owl"]},
        told="may have its references in text; it was not read; to choose, give"
        " --field ref=NAME, such as --field ref=text",
    ),
    "two columns of references": Table(
        "id,hyp,ref,target\nu1,an owl,an eel,an ell\n",
        lists={"u1": ["an owl"]},
        references={"u1": "an eel"},
        told="may have its references in ref or target; ref was read",
    ),
    "a source that is the reference": Table(
        '[{"wav_filename": "u1", "src": "an eel", "res": "an owl", "loss": 1.5}]',
        {"text": "res", "ref": "src"},
        {"u1": ["an owl"]},
        {"u1": "an eel"},
    ),
    "cells of several lines": Table(
        'id,text,ref\nu1,"an\nowl, ""he"" said","an\nowl"\n',
        lists={"u1": ['an owl, "he" said']},
        references={"u1": "an owl"},
    ),
    "a column that is not there, beside usual names": Table(
        "id,hyp,ref\nu1,an owl,an eel\n",
        {"text": "recognised"},
        told="no column recognised (there are id, hyp, ref); correct --field text=NAME",
        is_error=True,
    ),
    "German, with semicolons": Table(
        "Satz;Erkannt;Soll;Kosten\nu1;die Eule;die Eule;1.5\nu1;die Eile;die Eule;2\n",
        {"id": "satz", "text": "erkannt", "ref": "soll", "score": "-kosten"},
        {"u1": [("die Eule", -1.5), ("die Eile", -2.0)]},
        {"u1": "die Eule"},
    ),
    "German, without names": Table(
        "Satz;Erkannt;Soll\nu1;die Eule;die Eule\n",
        {"ref": "Soll"},
        told="which column has the hypotheses? Say it with --field text=NAME (Satz,"
        " Erkannt, Soll)",
        is_error=True,
    ),
    "Chinese": Table(
        "音频\t识别\t参考\t得分\na.wav\t你好\t你好\t-1\na.wav\t您好\t你好\t-2\n",
        {"id": "音频", "text": "识别", "ref": "参考", "score": "得分"},
        {"a.wav": [("你好", -1.0), ("您好", -2.0)]},
        {"a.wav": "你好"},
    ),
    "a column that is not there": Table(
        WIDE,
        {"text": "hypothesis"},
        told="its first line is 'utt_id,h1,h2,s1,s2,ref'",
        is_error=True,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_understood_or_asked_about(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = TABLES[name]
    path = tmp_path / "table"
    path.write_text(table.content)
    options = ReadOptions(fields=table.fields) if table.fields else ReadOptions()
    if table.is_error:
        with pytest.raises(UserError) as error:
            list(formats.iterate([path], options=options))
        assert table.told in str(error.value)
        return
    lists = list(formats.iterate([path], options=options))
    found = {}
    for nbest in lists:
        expected = table.lists[nbest.id]
        if expected and isinstance(expected[0], tuple):
            pairs = [(each.text, each.scores["s2s"]) for each in nbest.hypotheses]
            found[nbest.id] = pairs
        else:
            found[nbest.id] = [each.text for each in nbest.hypotheses]
    assert found == table.lists
    references = {nbest.id: nbest.references for nbest in lists}
    for id_, reference in table.references.items():
        assert references[id_] == (reference,)
    if not table.references:
        assert not any(references.values())
    assert table.told in caplog.text
    if not table.told:
        asked = [each for each in caplog.messages if "--field" in each]
        assert not asked


def test_numbers_of_a_row_with_several_hypotheses_are_facts_of_the_utterance(
    tmp_path: Path,
) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("id,h1,h2,seconds,lm\nu1,a,b,3.5,-7\n")
    options = ReadOptions(fields={"text": ("h1", "h2"), "lm": "lm"})
    (nbest,) = formats.iterate([path], s2s="rank", options=options)
    assert nbest.fields == {"seconds": "3.5"}
    assert [each.scores["lm"] for each in nbest.hypotheses] == [-7.0, -7.0]


USUAL = [
    *("sample_id", "audio_id", "clip_id", "segment_id", "uid", "idx", "file_name"),
    *("filename", "wav", "file", "uttid", "utterance_name", "guid", "Index"),
]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("column", USUAL)
def test_usual_names_of_ids(column: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"table.{form}"
    rows = [("7", "a", "-1"), ("7", "b", "-2"), ("3", "c", "-1")]
    if form == "csv":
        lines = [f"{column},hyp,score"] + [",".join(row) for row in rows]
    else:
        lines = [
            f'{{"{column}": {name}, "hyp": "{text}", "score": {score}}}'
            for name, text, score in rows
        ]
    path.write_text("\n".join(lines) + "\n")
    lists = list(formats.iterate([path]))
    assert [(nbest.id, len(nbest.hypotheses)) for nbest in lists] == [
        ("7", 2),
        ("3", 1),
    ]


def test_a_table_of_texts_with_an_accent_is_not_asked_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The values of a column stand in blocks, but their rows are other utterances."""
    path = tmp_path / "table.csv"
    path.write_text("accent,hyp,ref\nus,a,a\nus,b,b\nuk,c,c\nuk,d,d\n")
    assert len(list(formats.iterate([path]))) == 4
    assert "if accent" not in caplog.text


def test_field_chooses_the_reader_of_any_json(tmp_path: Path) -> None:
    """Keys of --field are read where a format of services would fit, too."""
    path = tmp_path / "call.json"
    path.write_text('{"alternatives": [{"transcript": "a"}], "said": "b", "n": "u1"}')
    options = ReadOptions(fields={"text": "said", "id": "n"})
    (nbest,) = formats.iterate([path], options=options)
    assert nbest.id == "u1" and nbest.hypotheses[0].text == "b"


def test_the_documentation_lists_all_names() -> None:
    """The table of docs/formats.md has the names of each role, in their order."""
    text = (ROOT / "docs" / "formats.md").read_text("utf-8")
    section = text.partition("### Names of columns")[2]
    shape = records()["json"]
    names = {
        "id": (*shape.id, *shape.id_else),
        "text": shape.text,
        "score": shape.score,
        "ref": shape.ref,
        "src": shape.src,
    }
    for role, usual in names.items():
        (row,) = re.findall(rf"^\| `{role}` \| ([^;|]*)", section, re.MULTILINE)
        assert re.findall(r"`([^`]+)`", row) == list(usual)
    of_systems = section.partition("with a usual\nname")[2].partition(".")[0]
    assert tuple(re.findall(r"`([^`]+)`", of_systems)) == NAMES_OF_SYSTEMS


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_rows_of_several_systems_are_not_merged_in_silence(
    ending: str, scored: bool, rescore: Run, tmp_path: Path
) -> None:
    """Each usual name of a column of systems is known; another column says nothing."""
    for column in (*NAMES_OF_SYSTEMS, "accent"):
        rows = []
        for name in ("one", "two"):
            row = {"id": "u", column: name, "text": f"an owl {name}", "ref": "an owl"}
            rows.append(row | ({"score": "-1.5"} if scored else {}))
        path = tmp_path / f"{column}.{ending}"
        lines = [json.dumps(row) for row in rows]
        if ending == "csv":
            lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
        done = rescore("eval", path)
        said = f"eval or combine with --field system={column}"
        assert (said in done.stderr) is (column != "accent"), done.stderr
        if not scored:  # the references in another file
            path.write_text(path.read_text().replace("ref", "note"))
            (tmp_path / "ref").write_text("u an owl\n")
            done = rescore("eval", path, "--ref", "ref")
            assert (said in done.stderr) is (column != "accent"), done.stderr
            path.write_text(path.read_text().replace("note", "ref"))
        done = rescore("eval", path, "--field", f"system={column}")
        assert "another" not in done.stderr and "different" not in done.stderr


@pytest.mark.parametrize("key", ["filter", "model", "accent"])
def test_blocks_of_several_systems_are_told(key: str, rescore: Run) -> None:
    """As lm-evaluation-harness writes a block of lines for each filter."""
    lines = []
    for name in ("strict-match", "flexible-extract"):
        for number in range(2):
            own = {"resps": [["7", "8"]], "filtered_resps": ["7"], "target": "7"}
            lines.append(json.dumps({"doc_id": number, key: name} | own))
    Path("samples.jsonl").write_text("\n".join([*lines, ""]))
    typed = ["samples.jsonl", "--field", "id=doc_id", "--field"]
    done = rescore("run", *typed, "text=resps[0]")
    told = (
        f": keep the lines of one {key} (strict-match, flexible-extract), or eval or"
        f" combine with --field system={key} if the lines of each {key} are an output"
    )
    assert "error: samples.jsonl: line 3: utterance 0 is duplicated" in done.stderr
    assert (told in done.stderr) is (key != "accent"), done.stderr
    assert ("sort them by id" in done.stderr) is (key == "accent")
    done = rescore("eval", *typed, "text=filtered_resps", "--field", f"system={key}")
    assert done.returncode == 0 and "flexible-extract" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": ("h1", "none")}, "no record has the key none; correct --field text"),
        (
            {"text": ("h1", "h2"), "score": ("s1", "s2")},
            r"line 2: no key s2 \(id, h1, s1, h2\); correct --field score=KEY",
        ),
    ],
)
def test_a_key_of_several_texts_or_scores_that_is_absent_is_an_error(
    fields: KeysOfRoles, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "wide.jsonl"
    first = '{"id": "u1", "h1": "a", "s1": -1, "h2": "b", "s2": -2}\n'
    path.write_text(first + '{"id": "u2", "h1": "c", "s1": -1, "h2": "d"}\n')
    options = ReadOptions(fields=fields)
    with pytest.raises(UserError, match=message):
        list(formats.iterate([path], options=options))


def test_what_explains_an_error_is_told_before_it(rescore: Run) -> None:
    Path("two.csv").write_text("id,text,transcript,score\nu1,a,b,-1\nu2,c,c,-1\n")
    done = rescore("eval", "two.csv")
    assert done.returncode == 2
    told, error = done.stderr.splitlines()[-2:]
    assert "may have its hypotheses in text or transcript" in told
    assert "utterance u1: no reference" in error
    Path("long.csv").write_text(LONG)
    Path("more.csv").write_text(LONG)
    done = rescore("convert", "long.csv", "more.csv", "-o", "lists.jsonl")
    told, error = done.stderr.splitlines()[-2:]
    assert "if talk is the utterance: --field id=talk" in told
    assert "utterance 1 is duplicated" in error


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "eval wide.csv",
            "which column has the hypotheses? Say it with --field text=NAME (talk, h1,",
        ),
        (
            "eval wide.csv --field text=h1 --field score=s1 --field score=s2",
            "1 column of texts (h1) and 2 of scores (s1, s2)",
        ),
        (
            "convert nested.jsonl --field text=call.said[].text",
            "[] stands for several places; describe the document with --shape FILE",
        ),
        ("convert nested.jsonl", "lists within objects: --shape FILE"),
        ("convert results.json", "describe its places with --shape FILE"),
        (
            "eval facts.csv",
            "give --ref FILE, or --field ref=NAME if the lists hold it (accent,",
        ),
        (
            "eval long.csv --field system=backend",
            "no column backend (there are backend_id, id, ref, transcript); correct",
        ),
        (
            "run one.txt --ref one.ref",
            "1-best texts, a single text for each utterance",
        ),
        (
            "eval ten.jsonl --ref nine.txt",
            "no reference for utterance 3 (1 of 3 missing); its lines begin with ids"
            " such as 001, 002; add them, or leave",
        ),
        ("eval nested.jsonl --shape odd.toml", "scale is 'confidence'; give one of"),
    ],
)
def test_errors_say_what_to_do(command: str, message: str, rescore: Run) -> None:
    files = {
        "wide.csv": "talk,h1,h2,s1,s2\nt_0.wav,a b,a c,1,2\nt_1.wav,d,e,1,2\n",
        "nested.jsonl": '{"call": {"said": [{"text": "a"}, {"text": "b"}]}}\n',
        "results.json": '{"results": [{"candidates": [{"asr": "a", "ll": -3}]}]}',
        "facts.csv": "id,text,score,accent,wanted\nu1,a,-1,us,a b\nu1,b,-2,us,a b\n",
        "long.csv": "id,backend_id,transcript,ref\nu1,x,a,a\nu1,y,b,a\nu2,x,c,c\n",
        "one.txt": "utt-1 a b\nutt-2 c d\n",
        "one.ref": "utt-1 a b\nutt-2 c d\n",
        "ten.jsonl": "".join(f'{{"id": "{n}", "text": "a"}}\n' for n in (1, 2, 3)),
        "nine.txt": "001 a\n002 a\n",
        "odd.toml": 'results = "call.said[]"\ntext = "text"\nscale = "confidence"\n',
    }
    for name, content in files.items():
        Path(name).write_text(content, encoding="utf-8")
    done = rescore(*command.split())
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert "--ref-format" not in done.stderr


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_a_table_whose_lines_begin_like_ids_is_asked_about(
    sign: str, rescore: Run, tmp_path: Path
) -> None:
    path = tmp_path / ("wide.tsv" if sign == "\t" else "wide.csv")
    path.write_text("audio;sample_1;said_2\na/1.wav;hi;ho\n".replace(";", sign))
    (tmp_path / "ref").write_text("a/1.wav hi\n")
    done = rescore("eval", path)
    said = "which column has the hypotheses? Say it with --field text=NAME"
    assert_one_line_error(done, f"{said} (audio, sample_1, said_2)")


# --- wide tables, ranks, numbers of hypotheses ---------------------------------------


def test_a_named_rank_ranks(tmp_path: Path) -> None:
    path = tmp_path / "ranks.csv"
    path.write_text("id,beam,text\nu1,2,b\nu1,1,a\nu2,1,c\nu2,2,d\n")
    lists = formats.read([path], options=ReadOptions(fields={"rank": "beam"}))
    assert [[one.text for one in nbest.hypotheses] for nbest in lists] == [
        ["a", "b"],
        ["c", "d"],
    ]
    assert lists.score_names == ["s2s"]


@pytest.mark.parametrize("first", [0, 1])
def test_numbers_of_hypotheses_have_no_weight(first: int, rescore: Run) -> None:
    rows = []
    for number in range(4):
        for place, text in enumerate(["a b", "a c"]):
            rows.append(
                f"u{number},{text},{-1 - place},{place + first},{place - 3},a b"
            )
    head = "id,text,score,beam,qe,ref\n"
    Path("t.csv").write_text(head + "\n".join(rows) + "\n")
    done = rescore("tune", "t.csv", "-o", "w.json")
    weights = json.loads(Path("w.json").read_text())["weights"]
    left_out = "beam (numbers of the hypotheses in their list; --column beam tunes it)"
    assert "beam" not in weights and left_out in done.stderr
    assert rescore("tune", "t.csv", "--column", "beam", "-o", "w.json").returncode == 0
    assert "beam" in json.loads(Path("w.json").read_text())["weights"]


def test_a_number_may_name_a_system(rescore: Run) -> None:
    Path("s.csv").write_text(
        "id,backend,hyp,ref\nu1,1,a,a\nu1,2,b,a\nu2,1,c,c\nu2,2,c,c\n"
    )
    done = rescore("eval", "s.csv")
    assert "eval or combine with --field system=backend" in done.stderr
    done = rescore("eval", "s.csv", "--field", "system=backend")
    assert done.returncode == 0 and "columns" not in done.stderr


@pytest.mark.parametrize("name", [*NAMES_OF_GROUPS, " Speaker"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_numbers_of_groups_are_names(name: str, ending: str, tmp_path: Path) -> None:
    """A number in a column of speakers, ages, ... is the name of a group, as it stands
    in the file; with --field it is a score.
    """
    rows = [("id", name, "text", "score"), ("u-1", "07", "a", "-1")]
    rows += [("u-1", "07", "b", "-2"), ("u-2", "7", "a", "-1")]
    between = {"csv": ",", "tsv": "\t"}[ending]
    path = tmp_path / f"l.{ending}"
    path.write_text("".join(between.join(row) + "\n" for row in rows))
    lists = api.read(path)
    assert [nbest.fields for nbest in lists] == [{name: "07"}, {name: "7"}]
    assert labels(name, lists) == ["07", "7"]
    assert lists[0].column_names == ["s2s"]
    asked = api.read(path, field={"age_score": name})
    assert asked[0].column_names == ["s2s", "age_score"]
    with pytest.raises(UserError, match="age_score was read as a column of scores"):
        labels("age_score", asked)


@pytest.mark.parametrize("option", ["--by", "--speaker"])
@pytest.mark.parametrize("command", ["run", "eval", "rerank"])
def test_numbers_are_names_where_an_option_names_the_column(
    command: str, option: str, rescore: Run
) -> None:
    """Without the option, the column holds scores."""
    rows = ["id,talker,qe,hyp,ref,score"]
    for number in range(6):
        for text in ("a", "b"):
            rows.append(f"u{number},{number % 3},{number},{text},a,-1")
    Path("t.csv").write_text("\n".join([*rows, ""]))
    asked = [option, "talker"]
    if option == "--speaker" and command != "eval":
        asked.append("--by-speaker")
    if command == "rerank":
        asked += ["--report", "r.json"]
    done = rescore(command, "t.csv", *asked)
    assert done.returncode == 0, done.stderr
    assert "1 column read as a field of --by: talker" in done.stderr
    (nbest, *_) = api.read("t.csv")
    assert nbest.column_names == ["s2s", "talker", "qe"]
