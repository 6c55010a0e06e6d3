"""What writers must not do: leave folders half written or mixed, write elsewhere, lose
something in silence.
"""

from __future__ import annotations

import json
import math
import resource
from pathlib import Path

import pytest

from rescore import formats
from rescore.columns import Column
from rescore.errors import UserError
from rescore.nbest import Header, Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error


def lists(path: Path, *hyps: dict[str, object], **more: object) -> None:
    path.write_text(
        json.dumps({"id": "u1", **more, "hyps": hyps}) + "\n", encoding="utf-8"
    )


def hyp(text: str, score: float, **columns: float) -> dict[str, object]:
    return {"text": text, "score": score, "scores": columns}


def test_a_format_of_texts_names_the_command_that_writes_it(
    rescore: Run, tmp_path: Path
) -> None:
    lists(tmp_path / "l.jsonl", hyp("a", -1), hyp("b", -2))
    done = rescore("convert", "l.jsonl", "--to", "trn")
    assert done.returncode == 2 and "rescore rerank NBEST --best out.trn" in done.stderr
    assert (
        rescore("rerank", "l.jsonl", "--best", "best.trn").returncode == 0
        and (tmp_path / "best.trn").exists()
    )


def test_a_filled_folder_is_not_mixed_with_new_lists(
    rescore: Run, tmp_path: Path
) -> None:
    to = "espnet2"
    lists(tmp_path / "l.jsonl", hyp("a", -1), hyp("b", -2))
    lists(tmp_path / "m.jsonl", hyp("c", -1))
    (tmp_path / "out").mkdir()
    assert rescore("convert", "l.jsonl", "--to", to, "-o", "out").returncode == 0
    before = {
        path: path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert_one_line_error(
        rescore("convert", "m.jsonl", "--to", to, "-o", "out"),
        "out: holds files already",
    )
    assert before == {
        path: path.read_bytes()
        for path in (tmp_path / "out").rglob("*")
        if path.is_file()
    }
    assert len(next(formats.iterate([tmp_path / "out"])).hypotheses) == 2
    (tmp_path / "file").write_text("")
    assert_one_line_error(
        rescore("convert", "m.jsonl", "--to", to, "-o", "file"), "is a file"
    )


def test_no_parts_stay_where_writing_fails(tmp_path: Path) -> None:
    found = [
        NbestList("u1", [Hypothesis("a", {"s2s": -1.0})]),
        NbestList("u 2", [Hypothesis("a", {"s2s": -1.0})]),
    ]
    with pytest.raises(UserError, match="the id 'u 2' cannot be written"):
        formats.write(found, str(tmp_path / "out"), "espnet2")
    assert list(tmp_path.iterdir()) == []


def test_more_hypotheses_than_open_files(tmp_path: Path) -> None:
    hypotheses = [Hypothesis(f"w{rank}", {"s2s": -float(rank)}) for rank in range(300)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
    try:
        formats.write([NbestList("u", hypotheses)], str(tmp_path / "out"), "espnet2")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert next(formats.iterate([tmp_path / "out"])).hypotheses == hypotheses


@pytest.mark.parametrize("to", ["csv", "tsv"])
def test_references_after_the_first(to: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "7", "ref": ["a", "b"], "hyps": [{"text": "a", "score": -1}]}\n'
    )
    done = rescore("convert", "l.jsonl", "--to", to, "-o", "out")
    assert (
        done.returncode == 0
        and "not written: references after the first" in done.stderr
    )
    assert next(formats.iterate(["out"])).references == ("a",)


def test_times_and_recordings(rescore: Run, tmp_path: Path) -> None:
    hyps = [{"text": "a b", "score": -1, "times": [[0, 1], [1, 2]]}]
    (tmp_path / "l.jsonl").write_text(
        json.dumps({"id": "u", "recording": "r", "hyps": hyps}) + "\n"
    )
    done = rescore("convert", "l.jsonl", "--to", "espnet2", "-o", "o")
    assert "not written: recordings, times of words" in done.stderr
    assert json.loads(rescore("convert", "l.jsonl").stdout)["recording"] == "r"


def test_sources_and_models_of_columns(rescore: Run, tmp_path: Path) -> None:
    lists(tmp_path / "l.jsonl", hyp("a", -1), src="x", id="7")
    assert (
        "not written: sources"
        in rescore("convert", "l.jsonl", "--to", "moses", "-o", "-").stderr
    )


def test_references_and_sources_stand_beside_lists_of_moses(
    rescore: Run, tmp_path: Path
) -> None:
    hyps = [{"text": "a b", "score": -0.5, "scores": {"sum": -1}}]
    lists = [
        {"id": str(number), "ref": "a b", "src": f"s {number}", "hyps": hyps}
        for number in (0, 1)
    ]
    (tmp_path / "all.jsonl").write_text(
        "\n".join(map(json.dumps, lists)), encoding="utf-8"
    )
    told = rescore("convert", "all.jsonl", "-o", "m.moses").stderr
    assert (
        "not written: column sum\n" in told
        and "its first-pass scores are means over tokens" in told
    )
    assert "m.moses.src: sources for --src, a line per list" in told
    done = rescore(
        "convert",
        "m.moses",
        "--ref",
        "m.moses.ref",
        "--src",
        "m.moses.src",
        "-o",
        "again.jsonl",
    )
    again = formats.read([tmp_path / "again.jsonl"])
    assert done.returncode == 0 and [
        (nbest.source, nbest.references) for nbest in again
    ] == [(one["src"], (one["ref"],)) for one in lists]
    model = {"tta": Column("tta", "ab12", "sum", "float32")}
    found = [
        NbestList(
            "u1",
            [Hypothesis("a", {"s2s": -1.0, "tta": -2.0})],
            header=Header(records=model),
        )
    ]
    formats.write(found, str(tmp_path / "m.jsonl"))
    assert rescore("convert", "m.jsonl", "-o", "n.json").stderr == ""
    assert (
        "which models made the columns"
        in rescore("convert", "m.jsonl", "-o", "m.csv").stderr
    )


@pytest.mark.parametrize("name", ["l.csv", "l.tsv"])
def test_columns_of_tables(name: str, rescore: Run, tmp_path: Path) -> None:
    lists(tmp_path / "l.jsonl", hyp("a", -1, lm=-math.inf), hyp("b", -2, lm=-3))
    rescore("convert", "l.jsonl", "-o", name)
    found = formats.read([tmp_path / name])[0].hypotheses
    assert [one.scores["lm"] for one in found] == [-math.inf, -3.0]
    mark = "," if name == "l.csv" else "\t"

    def table(*rows: str) -> None:
        (tmp_path / name).write_text(
            "".join(row.replace(",", mark) + "\n" for row in rows)
        )

    table("id,text,score,lm", "u,a,-1,-2", "u,b,-1,n/a")
    assert_one_line_error(
        rescore("convert", name), "line 3: column lm, which has numbers above, is 'n/a'"
    )
    table("id,text,score,lm,lm", "u,a,-1,-2,-3")
    assert_one_line_error(rescore("convert", name), "line 1: column 'lm' is duplicated")
    table("id,text,score,who", "u,a,-1,me", "u,b,-1,7")  # a column of words
    assert rescore("convert", name).stdout.count("who") == 0


def test_what_to_frame_writes_is_read(rescore: Run, tmp_path: Path) -> None:
    """`to_frame(lists).to_csv(path)`: an index without a name, `rank`, `s2s`; nothing
    where there is no source.
    """
    head = ",id,rank,text,s2s,lm,reference,source\n"
    (tmp_path / "l.csv").write_text(
        f"{head}0,u,1,a,-2.0,-3.0,a b,\n1,u,2,a b,-1.0,-4.0,a b,\n"
    )
    (nbest,) = formats.read([tmp_path / "l.csv"])
    assert nbest.references == ("a b",) and nbest.source is None
    assert nbest.hypotheses[1] == Hypothesis("a b", {"s2s": -1.0, "lm": -4.0})
    assert "WER|case" in rescore("eval", "l.csv").stdout
    (tmp_path / "l.csv").write_text(
        f"{head}0,u,1,a,-2.0,-3.0,,\n1,u,2,a b,-1.0,-4.0,,\n"
    )
    assert formats.read([tmp_path / "l.csv"])[0].references == ()
    (tmp_path / "l.json").write_text(
        '{"u": {"ref": "a", "src": "", "hyp_1": {"score": -1, "text": "a"}}}'
    )
    # an empty source alone is no translation
    assert "WER|case" in rescore("eval", "l.json").stdout


@pytest.mark.parametrize(
    "content",
    [
        '{"id": "u", "hyps": [{"text": "a", "score": %s}]}',
        '{"id": "u", "text": "a", "score": %s}',
        '{"text": "a", "timestamps": [], "tokens": [], "ys_log_probs": [%s]}',
        '{"segments": [{"text": "a", "avg_logprob": %s, "tokens": [1]}]}',
        '{"sentence_id": 1, "translations": ["a"], "scores": [%s]}',
        '{"audio_filepath": "a.wav", "beams": [["a", %s]]}',
        '[{"input": ["a"], "output": "a", "am_score": [%s]}]',
    ],
)
def test_numbers_of_400_digits(content: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.json").write_text(content % ("1" * 400))
    assert_one_line_error(rescore("convert", "l.json"), "l.json")


@pytest.mark.parametrize("column", ["score", "Text", "rank"])
def test_columns_of_a_table_whose_names_have_another_meaning(
    column: str, rescore: Run, tmp_path: Path
) -> None:
    scores = json.dumps({column: -3})
    (tmp_path / "l.jsonl").write_text(
        f'{{"id": "u", "hyps": [{{"text": "a", "score": -1, "scores": {scores}}}]}}\n'
    )
    for name in ("o.csv", "o.tsv"):
        told = f"{name}: the column {column!r} has another meaning in tables"
        assert_one_line_error(rescore("convert", "l.jsonl", "-o", name), told)
