"""Outputs of several systems for the same utterances: how they are read and matched."""

from __future__ import annotations

import json
import logging
import shlex
import weakref
from pathlib import Path
from typing import Any

import pytest

from rescore import formats, read
from rescore.asr.mixture import system_texts
from rescore.asr.outputs import (
    align_systems,
    read_each,
    read_table_of_systems,
)
from rescore.asr.systems import combined
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.formats.source import ReadOptions
from rescore.nbest import NbestList
from tests.conftest import Run, assert_one_line_error

TEXTS = {"utt-1": "well, an owl", "utt-2": "two", "utt-3": ""}


def written(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content, encoding="utf-8")
    return str(folder / name)


def read_system(path: str, **options: Any) -> list[NbestList]:
    return read_each({"a": path}, **options)["a"]


def texts(lists: list[NbestList]) -> dict[str, str]:
    assert all(
        len(nbest.hypotheses) == 1 and nbest.hypotheses[0].scores == {"s2s": 0.0}
        for nbest in lists
    )
    return {nbest.id: nbest.hypotheses[0].text for nbest in lists}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("kaldi", "".join(f"{name} {text}\n" for name, text in TEXTS.items())),
        ("out.trn", "".join(f"{text} ({name})\n" for name, text in TEXTS.items())),
        (
            "out.csv",
            "id,text\n" + "".join(f'{name},"{text}"\n' for name, text in TEXTS.items()),
        ),
        (
            "out.tsv",
            "id\ttext\n" + "".join(f"{name}\t{text}\n" for name, text in TEXTS.items()),
        ),
        (
            "out.jsonl",
            "".join(
                json.dumps({"id": name, "text": text}) + "\n"
                for name, text in TEXTS.items()
            ),
        ),
        (
            "n.jsonl",
            "".join(
                json.dumps({"id": name, "hyps": [{"text": text}]}) + "\n"
                for name, text in TEXTS.items()
            ),
        ),
    ],
)
def test_the_1_best_files_of_a_system(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, content: str
) -> None:
    assert texts(read_system(written(tmp_path, name, content))) == TEXTS
    assert not caplog.records


def test_the_first_of_alternatives_is_read_even_if_it_is_empty(tmp_path: Path) -> None:
    """There is one reading for 2^11 combinations, as in a CTM."""
    trn = "a { @ / uh } b { {c/d} e / f } (utt-1)\n" + "{ x / y } " * 11 + "(utt-2)\n"
    assert texts(read_system(written(tmp_path, "out.trn", trn))) == {
        "utt-1": "a b c e",
        "utt-2": " ".join("x" * 11),
    }


def test_a_text_without_ids_and_a_table_without_a_known_column(tmp_path: Path) -> None:
    assert list(
        texts(read_system(written(tmp_path, "out.txt", "an owl\n\ntwo\n")))
    ) == ["1", "2", "3"]
    with pytest.raises(
        UserError,
        match=r"which column has the hypotheses\? Say it with --field text=NAME",
    ):
        read_system(
            written(tmp_path, "odd.csv", "name,words,time\nx,an owl,2\ny,two,3\n")
        )
    table = written(tmp_path, "odd.csv", "name,words,time\nx,an owl,2\ny,two,3\n")
    found = read_system(
        table, options=ReadOptions(fields={"text": "words", "id": "name"})
    )
    assert texts(found) == {"x": "an owl", "y": "two"}
    with pytest.raises(UserError, match="no such file"):
        read_system(str(tmp_path / "none"))


def manifest(folder: Path, name: str, rows: list[dict[str, object]]) -> list[NbestList]:
    return read_system(
        written(folder, name, "".join(json.dumps(row) + "\n" for row in rows))
    )


def test_manifests_of_the_leaderboard(tmp_path: Path) -> None:
    rows = [
        {
            "audio_filepath": f"sample_{number}",
            "duration": 2.5,
            "time": 0.1,
            "text": ref,
            "pred_text": hyp,
        }
        for number, (ref, hyp) in enumerate([("an owl", "a owl"), ("two", "")])
    ]
    found = manifest(tmp_path, "m.jsonl", rows)  # type: ignore[arg-type]
    assert texts(found) == {"sample_0": "a owl", "sample_1": ""}
    assert [nbest.references for nbest in found] == [("an owl",), ("two",)]
    renamed = {
        "text": "reference",
        "pred_text": "prediction",
        "time": "time",
        "duration": "duration",
    }
    bare = [
        {renamed[key]: value for key, value in row.items() if key in renamed}
        for row in rows
    ]
    for more in ({}, {"audio_filepath": "x/a.wav"}):
        (one,) = manifest(tmp_path, "p.jsonl", [bare[0] | more])
        assert one.hypotheses[0].text == "a owl" and one.references == ("an owl",)
    for keys in (("text", "pred_text"), ("text", "prediction")):
        (one,) = manifest(
            tmp_path, "q.jsonl", [{"id": "u1", keys[0]: "an owl", keys[1]: "a owl"}]
        )
        assert one.hypotheses[0].text == "a owl" and one.references == ("an owl",)
    (one,) = manifest(
        tmp_path,
        "i.jsonl",
        [{"id": "u1", "audio_filepath": "x/a.wav", "text": "a", "pred_text": "b"}],
    )
    assert (
        one.id == "u1"
        and one.audio is not None
        and one.audio.path == str(tmp_path / "x/a.wav")
    )


def lists(*rows: tuple[str, str], references: tuple[str, ...] = ()) -> list[NbestList]:
    found = [
        formats.from_json({"id": name, "hyps": [{"text": text}]}, name)
        for name, text in rows
    ]
    for nbest, reference in zip(found, references, strict=False):
        nbest.references = (reference,)
    return found


def shown(systems: dict[str, list[NbestList]]) -> dict[str, list[tuple[str, str]]]:
    return {
        name: [(nbest.id, nbest.hypotheses[0].text) for nbest in some]
        for name, some in systems.items()
    }


def test_utterances_are_matched_by_id(caplog: pytest.LogCaptureFixture) -> None:
    a, b = lists(("u1", "a"), ("u2", "b")), lists(("u2", "B"), ("u1", "A"))
    assert shown(align_systems({"a": a, "b": b})) == {
        "a": [("u1", "a"), ("u2", "b")],
        "b": [("u1", "A"), ("u2", "B")],
    }
    assert not caplog.records
    found = align_systems({"a": a, "b": lists(("u3", "C"), ("u1", "A"))})
    assert shown(found)["b"] == [("u1", "A"), ("u3", "C")]
    assert (
        "a: 1 of 3 utterances are missing" in caplog.text
        and "b: 1 of 3 utterances are missing" in caplog.text
    )


class Watched(NbestList):
    """A list whose end can be seen: it has weak references."""


def test_the_lists_of_an_utterance_are_freed_when_they_are_combined() -> None:
    watched = []

    def outputs() -> dict[str, list[NbestList]]:
        systems: dict[str, list[NbestList]] = {"a": [], "b": []}
        for output in systems.values():
            for nbest in lists(("u1", "x"), ("u2", "y")):
                output.append(Watched(nbest.id, nbest.hypotheses))
                watched.append(weakref.ref(output[-1]))
        return systems

    voted = combined(outputs())
    assert next(voted).id == "u1"
    assert [each() is None for each in watched] == [True, False, True, False]
    assert next(voted).id == "u2"
    assert [each() for each in watched] == [None] * 4


def test_utterances_are_matched_by_audio_file(tmp_path: Path) -> None:
    rows = [("a.wav", "a"), ("b.wav", "b")]
    with_ids = [
        {"id": f"u{n}", "audio_filepath": f"x/{file}", "pred_text": text}
        for n, (file, text) in enumerate(rows)
    ]
    without = [
        {"audio_filepath": f"/y/{file}", "pred_text": text.upper()}
        for file, text in reversed(rows)
    ]
    systems = {
        "a": manifest(tmp_path, "a", list(with_ids)),
        "b": manifest(tmp_path, "b", list(without)),
    }
    assert shown(align_systems(systems))["b"] == [("u0", "A"), ("u1", "B")]


def test_order_alone_matches_nothing_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    a = lists(("u1", "a"), ("u2", "b"), references=("x", "y"))
    same = lists(("1", "A"), ("2", "B"), references=("x", "y"))
    assert shown(align_systems({"a": a, "b": same}))["b"] == [("u1", "A"), ("u2", "B")]
    assert shown(align_systems({"a": same, "b": same}))["b"] == [("1", "A"), ("2", "B")]
    assert not caplog.records
    other = lists(("1", "A"), ("2", "B"), references=("y", "x"))
    for first, second in (
        (a, other),
        (same, other),
        (a, lists(("1", "A"), ("2", "B"))),
    ):
        with pytest.raises(
            UserError,
            match=(
                r"their utterances do not match .* give them the same ids, such as"
                r" Kaldi text"
            ),
        ):
            align_systems({"a": first, "b": second})
    shorter = align_systems({"a": same, "b": same[:1]})  # the references agree
    assert shown(shorter)["b"] == [("1", "A")]
    align_systems({"a": lists(("1", "a")), "b": lists(("1", "A"))})
    assert (
        "a and b have no ids: utterances with the same number were matched"
        in caplog.text
    )


@pytest.mark.parametrize("number", [2, 3, 7])
def test_systems_without_ids_are_told_once(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    systems = {f"s{n}": lists(("1", f"a {n}"), ("2", "b")) for n in range(number)}
    align_systems({**systems, "more": lists(("1", "c"), ("2", "d"))})
    (told,) = [one.getMessage() for one in caplog.records if "no ids" in one.msg]
    names = ", ".join(systems)
    assert told.startswith(f"{names} and more have no ids: utterances with the same")


def test_the_same_id_with_other_references(caplog: pytest.LogCaptureFixture) -> None:
    a = lists(
        ("u1", "a"), ("u2", "b"), ("u3", "c"), references=("One.", "two", "three")
    )
    b = lists(("u1", "a"), ("u2", "b"), ("u3", "c"), references=("one", "too", "three"))
    with caplog.at_level(logging.WARNING):
        align_systems({"a": a, "b": b})
    assert (
        "a and b: 1 of 3 references differ (first: u2); the references of the first"
        " system count" in caplog.text
    )
    b = lists(("u1", "a"), ("u2", "b"), ("u3", "c"), references=("two", "three", "one"))
    with pytest.raises(UserError, match="the same id names different utterances"):
        align_systems({"a": a, "b": b})


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_table_with_a_column_per_system(tmp_path: Path, ending: str) -> None:
    rows = [("u1", "12", "a owl", "an owl", 2.5), ("u2", "two", "", "two", 1.0)]
    names = ("name", "gpt-5.1", "other", "truth", "duration")
    if ending == "csv":
        content = "\n".join(",".join(map(str, row)) for row in (names, *rows)) + "\n"
    else:
        content = "".join(
            json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows
        )
    path = written(tmp_path, f"all.{ending}", content)
    fields = {"system=gpt-5.1": "gpt-5.1", "system=other": "other"}
    found = read_table_of_systems(path, {**fields, "id": "name", "ref": "truth"})
    assert {name: texts(some) for name, some in found.items()} == {
        "gpt-5.1": {"u1": "12", "u2": "two"},
        "other": {"u1": "a owl", "u2": ""},
    }
    assert [nbest.references for nbest in found["other"]] == [("an owl",), ("two",)]
    for wrong, message in (
        ({"system=other": "other"}, "one system; repeat --field system=NAME"),
        (fields | {"score": "duration"}, "--field score=... cannot stand beside"),
        (fields | {"system=none": "none"}, "--field system=none: .*all"),
    ):
        with pytest.raises(UserError, match=message):
            read_table_of_systems(path, wrong)


def test_systems_of_a_table_are_for_combine_alone(rescore: Run, tmp_path: Path) -> None:
    written(tmp_path, "all.csv", "id,a,b\nu1,x,y\n")
    command = [
        "convert",
        "all.csv",
        "--format",
        "csv",
        "--field",
        "system=a",
        "--field",
        "system=b",
    ]
    assert_one_line_error(
        rescore(*command),
        "--field system=NAME names one of several systems; give the texts of this"
        " system: --field text=NAME",
    )


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_a_column_names_the_system_of_each_row(
    ending: str, rescore: Run, tmp_path: Path
) -> None:
    names = ("utt", "backend_id", "hyp", "score", "ref")
    rows = [
        ("u1", "b", "x y", -1, "x y"),
        ("u1", "b", "x z", -2, "x y"),
        ("u1", "a", "x z", -1, "x y"),
        ("u2", "a", "d f", -1, "d f"),
        ("u2", "b", "d e", -1, "d f"),
    ]
    if ending == "jsonl":
        content = "".join(
            json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows
        )
    else:
        mark = {"csv": ",", "tsv": "\t"}[ending]
        lines = [mark.join(map(str, row)) for row in (names, *rows)]
        content = "\n".join(lines) + "\n"
    path = written(tmp_path, f"all.{ending}", content)
    found = read_table_of_systems(path, {"system=backend_id": "backend_id"})
    best = {}
    for name, lists in found.items():
        best[name] = {nbest.id: nbest.hypotheses[0].text for nbest in lists}
    assert best == {"b": {"u1": "x y", "u2": "d e"}, "a": {"u1": "x z", "u2": "d f"}}
    assert [len(nbest.hypotheses) for nbest in found["b"]] == [2, 1]
    done = rescore("eval", path, "--field", "system=backend_id")
    rates = [line.split()[:2] for line in done.stdout.split("\n")[1:3]]
    assert rates == [["b", "25.00"], ["a", "25.00"]]
    done = rescore("combine", path, "--field", "system=backend_id", "-o", "c.jsonl")
    assert done.returncode == 0, done.stderr
    first = json.loads((tmp_path / "c.jsonl").read_text().split("\n")[0])
    assert set(first["columns"]) == {"a", "b"}


@pytest.mark.parametrize("order", ["abab", "aabb"])
def test_rows_of_a_system_without_ids_are_numbered_as_in_a_file_of_their_own(
    order: str, rescore: Run, tmp_path: Path
) -> None:
    rows = {"a": iter(["x y,x z", "d,d"]), "b": iter(["x z,x z", "d,d"])}
    lines = [f"{name},{next(rows[name])}\n" for name in order]
    path = written(tmp_path, "all.csv", "model,hyp,ref\n" + "".join(lines))
    for command in ("eval", "combine"):
        done = rescore(command, path, "--field", "system=model")
        assert done.returncode == 0, done.stderr
    found = read_table_of_systems(path, {"system=model": "model"})
    assert {name: [one.id for one in found[name]] for name in "ab"} == {
        "a": ["1", "2"],
        "b": ["1", "2"],
    }


def test_rows_of_several_systems_are_for_combine_and_eval(
    rescore: Run, tmp_path: Path
) -> None:
    written(tmp_path, "all.csv", "id,model,hyp\nu1,a,x\nu1,b,y\nu2,a,z\nu2,b,z\n")
    with pytest.raises(UserError, match="rows are of several systems"):
        read(tmp_path / "all.csv", field={"system": "model"})
    assert_one_line_error(
        rescore("convert", "all.csv", "--field", "system=model"),
        "--field system=model says that rows are of several systems; give the table to"
        " combine or eval",
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("b", "a"), ["b", "a"]),  # names of the table: their order
        (("one", "two"), ["one", "two"]),
    ],
)
def test_names_of_the_systems_of_a_table(
    names: tuple[str, ...], expected: list[str], rescore: Run
) -> None:
    rows = "u1,a,right\nu1,b,wrong\nu2,b,wrong\nu2,a,right\nu3,a,right\nu3,b,wrong\n"
    Path("rows.csv").write_text(f"id,model,text\n{rows}", encoding="utf-8")
    options = [word for name in names for word in ("--name", name)]
    command = ["combine", "rows.csv", "--field", "system=model", *options]
    done = rescore(*command, "-o", "c.jsonl")
    assert done.returncode == 0, done.stderr
    said = {"one": "right", "a": "right", "two": "wrong", "b": "wrong"}
    lists = read("c.jsonl")
    assert Dataset.of(lists).header.systems == expected
    for name in expected:
        assert system_texts(lists, name) == [said[name]] * 3
    assert ("system a of the table is called one (--name)" in done.stderr) == (
        "one" in names
    )
    again = rescore(*command, "--name", names[0], "-o", "c.jsonl")
    assert "there are 2 systems, but 3 --name; give one each" in again.stderr


def test_first_words_in_another_order_are_ids(tmp_path: Path) -> None:
    """Also where they have no digits: texts of the same utterances have one order."""
    lines = ["anna the red kettle\n", "bob no lantern\n", "carl we saw a harbour\n"]
    (tmp_path / "a").write_text("".join(lines))
    (tmp_path / "b").write_text("".join(sorted(lines, reverse=True)))
    systems = read_each({"a": str(tmp_path / "a"), "b": str(tmp_path / "b")})
    assert [nbest.id for nbest in systems["a"]] == ["anna", "bob", "carl"]
    assert {one.id: one.hypotheses for one in systems["a"]} == {
        one.id: one.hypotheses for one in systems["b"]
    }
    (tmp_path / "b").write_text("".join(lines))
    systems = read_each({"a": str(tmp_path / "a"), "b": str(tmp_path / "b")})
    assert systems["a"][0].id == "1"


@pytest.mark.usefixtures("told_what_is_read")
def test_lines_beside_lists_that_are_numbered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are taken in the order of the lists, which a line says, if there is one for
    each.
    """
    lists = [json.dumps({"id": name, "hyps": ["a"]}) + "\n" for name in "124"]
    (tmp_path / "a.jsonl").write_text("".join(lists))
    (tmp_path / "b.txt").write_text("no owl\nan owl\na hoot\n")
    paths = {"a": str(tmp_path / "a.jsonl"), "b": str(tmp_path / "b.txt")}
    with caplog.at_level(logging.INFO, "rescore.understood"):
        systems = read_each(paths)
    assert [nbest.id for nbest in systems["b"]] == ["1", "2", "4"]
    assert "b.txt: 3 texts, ids from the order of a" in caplog.text
    (tmp_path / "b.txt").write_text("no owl\nan owl\n")
    with pytest.raises(UserError, match="2 lines for 3 utterances"):
        read_each(paths)


def test_a_system_without_a_row_is_refused_as_a_file_without_it_is(
    rescore: Run, tmp_path: Path
) -> None:
    rows = [f"{name}{n},{name},an owl,an owl\n" for n in range(4) for name in "u"]
    first = "".join(row.replace(",u,", ",a,") for row in rows)
    second = "".join(row.replace(",u,", ",b,") for row in rows[2:])
    head = "id,who,text,ref\n"
    (tmp_path / "a").write_text(head + first)
    (tmp_path / "b").write_text(head + second)
    (tmp_path / "all").write_text(head + first + second)
    for paths in (["a", "b"], ["all", "--field", "system=who"]):
        done = rescore("eval", *paths, "-q")
        said = "error: b: lacks 2 of 4 utterances that a has (u0, u1); compare outputs"
        assert_one_line_error(done, said)
    done = rescore("eval", "b", "a", "-q")
    assert_one_line_error(done, "error: b: lacks 2 of 4 utterances that a has")


def test_outputs_are_compared_by_the_rule_of_ids(rescore: Run, tmp_path: Path) -> None:
    for name, ids in (("a", "12"), ("b", ["02", "01"]), ("c", ["in/1.wav", "2.wav"])):
        texts = {1: "an owl", 2: "hoots"}
        rows = []
        for own in ids:
            text = texts[int(Path(own).stem)]
            rows.append(f"{own},{text},{text}\n")
        (tmp_path / name).write_text("id,text,ref\n" + "".join(rows))
    done = rescore("eval", "a", "b", "c")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" 0.00 ") == 3
    assert "02 is taken for 2" in done.stderr or "01 is taken for 1" in done.stderr


@pytest.mark.parametrize("form", ["utterances", "recording", "table"])
def test_the_line_about_references_is_typed_as_it_stands(
    form: str, rescore: Run, tmp_path: Path
) -> None:
    """The commands of the line run, with every option of the first call, and the votes
    are tuned.
    """
    words = [f"word{number % 7} a{number} b" for number in range(40)]
    wrong = {name: rank for rank, name in enumerate("pqr", 2)}
    ids = [f"u-{number:03}" for number in range(len(words))]
    columns: list[list[str]] = []
    for name, rank in wrong.items():
        heard = []
        for number, text in enumerate(words):
            heard.append(text.replace("b", name) if number % 9 < rank else text)
        columns.append(heard)
    typed = ["p.txt", "q.txt", "r.txt", "--name", "x y", "--name", "q", "--name", "r"]
    references = words[:30]
    if form == "utterances":
        rows = [*zip(ids, references, strict=False)]
        for name, heard in zip(wrong, columns, strict=True):
            said = zip(ids, heard, strict=True)
            written(tmp_path, f"{name}.txt", "".join(f"{i} {t}\n" for i, t in said))
        written(tmp_path, "FILE", "".join(f"{i} {t}\n" for i, t in rows))
    elif form == "recording":
        for name, heard in zip(wrong, columns, strict=True):
            written(tmp_path, f"{name}.txt", " ".join(heard))
        written(tmp_path, "FILE", " ".join(words))
        typed.append("--whole")
    else:
        table = ["id,p,q,r"]
        for row in zip(ids, *columns, strict=True):
            table.append(",".join(row))
        written(tmp_path, "t.csv", "\n".join(table) + "\n")
        rows = [*zip(ids, references, strict=False)]
        written(tmp_path, "FILE", "".join(f"{i} {t}\n" for i, t in rows))
        typed = ["t.csv"]
        for name in wrong:
            typed += ["--field", f"system={name}"]
    done = rescore("combine", *typed, "--numbers", "en", "-o", "l.jsonl")
    assert done.returncode == 0, done.stderr
    (line,) = [row for row in done.stderr.splitlines() if "without references" in row]
    assert ("references of 200 utterances" in line) is (form != "recording")
    first, second = line.partition(": rescore ")[2].split("; rescore ")
    again = rescore(*shlex.split(first))
    assert again.returncode == 0, again.stderr
    assert "without references" not in again.stderr
    assert f"to measure each system and the vote: rescore {second}" in again.stderr
    table_of_votes = rescore(*shlex.split(second))
    assert table_of_votes.returncode == 0, table_of_votes.stderr
    assert "\ntuned votes, ROVER " in table_of_votes.stdout
    assert "numbers:en" in table_of_votes.stdout


def test_lists_are_written_in_two_formats(rescore: Run, tmp_path: Path) -> None:
    for name, text in {"a": "an owl", "b": "a owl"}.items():
        (tmp_path / f"{name}.trn").write_text(f"{text} (u1)\n")
    line = ("combine", "a.trn", "b.trn", "-o", "l.jsonl", "-o", "l.csv")
    done = rescore(*line, "--ref", "a.trn")
    assert done.returncode == 0, done.stderr
    assert "rescore l.jsonl --decide rover" in done.stderr
    lists, table = (read(tmp_path / name) for name in ("l.jsonl", "l.csv"))
    assert [h.text for h in lists[0].hypotheses] == ["an owl", "a owl"]
    assert [h.text for h in table[0].hypotheses] == ["an owl", "a owl"]
