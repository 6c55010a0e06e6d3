"""Files as toolkits write them, read and written back."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescore import formats
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error
from tests.formats.samples import SAMPLES
from tests.formats.scorers import WRITERS


def write(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    return (
        path / next(iter(files))
        if len(files) == 1
        else path / next(iter(files)).split("/")[0]
    )


EXPECTED: dict[str, list[tuple[str, list[tuple[str, float]]]]] = {
    "kaldi": [
        ("spk-a", [("HELLO WORLD", -13.0), ("HOLLOW WORLD", -14.0)]),
        ("spk-b", [("YES", -1.5)]),
    ],
    "srilm": [
        (
            "u1",
            [
                ("hello world", -3.25 * math.log(10)),
                ("hollow world", -4 * math.log(10)),
            ],
        ),
        ("u2", [("yes", -4 * math.log(10)), ("yes sir", -5 * math.log(10))]),
    ],
    "hocr": [
        ("line_1_1", [("odd", math.log(0.7425)), ("edd", math.log(0.2475))]),
    ],
    "alto": [("l1", [("odd", math.log(0.5)), ("edd", math.log(0.25))])],
    "page": [("l1", [("odd", math.log(0.5)), ("edd", math.log(0.25))])],
    "icefall": [("cut-1", [("HOLLOW WORLD", 0.0)]), ("cut-2", [("A", 0.0)])],
    "sherpa": [
        ("./wavs/0.wav", [("HELLO WORLD", -0.75)]),
        ("./wavs/1.wav", [("", 0.0)]),
    ],
    "wenet": [("u1", [("a b", -1.5), ("a", -2.25)]), ("u2", [("c", -3.0)])],
    "whisper": [("talk", [("Hello world. Bye.", -4.0)])],
    "parakeet": [("talk", [("hello world", -1.5), ("hollow world", -2.25)])],
    "brain-to-text": [
        ("1", [("i am fine", -14.25), ("i'm fine", -15.0)]),
        ("2", [("", 0.0)]),
        ("3", [("yes", -1.5)]),
    ],
    "speech": [("call", [("hello", 0.0), ("hollow", -math.log(2))])],
    "hf": [("a", [("hello", -0.5), ("hollow", -1.0)])],
    "sockeye": [("1", [("ein Test", 0.0), ("der Test", -0.1)]), ("2", [("a", -1.0)])],
    "nemo": [
        ("/x/utt1.wav", [("hello", -1.5), ("hollow", -2.0)]),
        ("/x/utt2.wav", [("by", 0.0)]),
    ],
    "nemo-beams": [
        ("1", [("hello world", -1.5), ("hollow world", -2.5)]),
        ("2", [("", -0.5), ("a", -7.0)]),
    ],
    "hyporadise": [("1", [("hello", -0.5), ("hollow", -0.25)])],
    "csv": [
        ("u1", [("hello, world", -1.5), ("hollow world", -2.0)]),
        ("u2", [("yes", -1.0)]),
    ],
    "tsv": [("u1", [("hello world", -1.5), ("hollow", -2.0)])],
    "json": [
        ("1", [("hello", 0.0), ("hollow", -math.log(2))]),
        ("2", [("yes", -1.0), ("no", -2.0)]),
        ("3", [("a", -1.0)]),
    ],
}
EXPECTED |= {key: [("u1", [("a c", 0.0)]), ("u2", [("d", 0.0)])] for key in WRITERS}


def pairs(lists: list[NbestList]) -> list[tuple[str, list[tuple[str, float]]]]:
    return [
        (
            one.id,
            [
                (h.text, pytest.approx(h.scores["s2s"], abs=1e-9))
                for h in one.hypotheses
            ],
        )
        for one in lists
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_as_the_toolkit_writes_it(name: str, tmp_path: Path) -> None:
    """It is recognised, read, and what is written from it is recognised and read as the
    same.
    """
    path = write(tmp_path, SAMPLES[name])
    found = list(formats.iterate([path]))
    assert EXPECTED[name] == pairs(found)
    if not hasattr(formats.FORMATS[name], "write"):
        with pytest.raises(UserError, match="read only"):
            formats.write(found, str(tmp_path / "again"), name)
        return
    formats.write(found, str(tmp_path / f"again.{name}"), name)
    again = list(formats.iterate([tmp_path / f"again.{name}"], name))
    assert pairs(found) == [
        (o.id, [(h.text, h.scores["s2s"]) for h in o.hypotheses]) for o in again
    ]


def test_lists_of_decipher_are_refused(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "u").write_text("NBestList1.0\n(-100) yes\n")
    assert_one_line_error(
        rescore("convert", "u"),
        "u: line 1: Decipher's format is not read",
        "rescore-decipher",
    )


def test_columns_and_references_that_come_along(tmp_path: Path) -> None:
    kaldi = next(formats.iterate([write(tmp_path / "k", SAMPLES["kaldi"])]))
    assert kaldi.hypotheses[0].scores == {
        "s2s": -13.0,
        "am": -120.0,
        "lm": -3.0,
        "nolm": -1.0,
    }
    plain = {
        "nbest/text": "u-1 a\nu-2 b\n",
        "nbest/ac_cost": "u-1 12\nu-2 24\n",
        "nbest/lm_cost": "u-1 1\nu-2 0.5\n",
    }
    write(tmp_path / "p", plain)
    for path in (tmp_path / "p/nbest", tmp_path / "p/nbest/text"):
        assert [h.scores["s2s"] for h in next(formats.iterate([path])).hypotheses] == [
            -2.0,
            -2.5,
        ]
    scaled = formats.ReadOptions(acoustic_scale=0.1)
    assert (
        next(formats.iterate([tmp_path / "k/nbest"], options=scaled))
        .hypotheses[0]
        .scores["s2s"]
        == -15.0
    )
    assert next(formats.iterate([write(tmp_path / "h", SAMPLES["hf"])])).references == (
        "hello",
    )
    assert next(
        formats.iterate([write(tmp_path / "n", SAMPLES["nemo"])])
    ).references == ("hello",)
    assert next(
        formats.iterate([write(tmp_path / "i", SAMPLES["icefall"])])
    ).references == ("HELLO WORLD",)
    assert (
        next(formats.iterate([write(tmp_path / "c", SAMPLES["csv"])]))
        .hypotheses[1]
        .scores["lm"]
        == -12.5
    )
    assert next(
        formats.iterate([write(tmp_path / "t", SAMPLES["tsv"])])
    ).references == ("hello",)


WORDS = st.lists(
    st.text("abcÄ中'|,\"", min_size=1, max_size=5), min_size=1, max_size=4
).map(" ".join)
SCORES = st.floats(-1e6, 0, allow_subnormal=False)


@st.composite
def numbered(draw: st.DrawFn) -> list[NbestList]:
    size = draw(st.integers(1, 3))
    return [
        NbestList(
            str(number),
            [Hypothesis(draw(WORDS), {"s2s": draw(SCORES)}) for _ in range(size)],
        )
        for number in range(1, draw(st.integers(1, 3)) + 1)
    ]


WRITERS = [
    name for name in formats.FORMATS.names if hasattr(formats.FORMATS[name], "write")
]


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(lists=numbered())
@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_is_read_again(
    name: str, lists: list[NbestList], tmp_path: Path
) -> None:
    target = tmp_path / f"{len(list(tmp_path.iterdir()))}.{name}"
    formats.write(lists, str(target), name)
    again = formats.read([target], format_name=name)
    assert [one.id for one in again] == [one.id for one in lists]
    assert [[h.text for h in one.hypotheses] for one in again] == [
        [h.text for h in one.hypotheses] for one in lists
    ]
    for ours, theirs in zip(lists, again, strict=True):
        scores = [h.scores["s2s"] for h in theirs.hypotheses]
        assert scores == pytest.approx(
            [h.scores["s2s"] for h in ours.hypotheses], rel=1e-12, abs=1e-300
        )


def test_what_has_no_place_is_told(rescore: Run, tmp_path: Path) -> None:
    lists = (
        '{"id": "u1", "ref": "a", "hyps": [{"text": "a", "score": -1, "scores": {"tta":'
        " -3}}]}\n"
    )
    (tmp_path / "l.jsonl").write_text(lists)
    done = rescore("convert", "l.jsonl", "--to", "espnet2", "-o", "decode")
    assert "not written: references" in done.stderr and "tta" not in done.stderr
    assert (
        tmp_path / "decode/logdir/output.1/1best_recog/text"
    ).read_text() == "u1 a\n"
    assert_one_line_error(
        rescore("convert", "l.jsonl", "--to", "moses"), "'u1' is not a number"
    )
    assert_one_line_error(
        rescore("convert", "l.jsonl", "--to", "whisper"), "whisper is read only"
    )
    assert rescore("convert", "l.jsonl", "-o", "l.csv").returncode == 0
    assert (
        tmp_path / "l.csv"
    ).read_text() == "id,text,score,tta,ref\nu1,a,-1.0,-3.0,a\n"


def test_fields_are_named(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"u": "x", "said": "a b", "nll": 3, "lm": 2}\n{"u": "x", "said": "a", "nll":'
        ' 1, "lm": 5}\n'
    )
    done = rescore(
        "convert",
        "l.jsonl",
        *(f"--field={f}" for f in ("text=said", "score=-nll", "id=u", "big=-lm")),
    )
    hyps = json.loads(done.stdout)["hyps"]
    assert hyps[0] == {"score": -3.0, "text": "a b", "scores": {"big": -2.0}}
    (tmp_path / "l.csv").write_text("who,what,how\nx,a b,-1\n")
    assert_one_line_error(
        rescore("convert", "l.csv"), "--field text=NAME (who, what, how)"
    )
    done = rescore("convert", "l.csv", "--field", "text=what", "--field", "score=how")
    assert json.loads(done.stdout)["hyps"][0] == {"score": -1.0, "text": "a b"}
    assert_one_line_error(
        rescore(
            "convert",
            "l.csv",
            "--format",
            "csv",
            "--field",
            "text=what",
            "--field",
            "score=cost",
        ),
        "no column cost",
    )


def test_unknown_files_name_what_is_nearest(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"sequence": ["a"], "sequences_scores": [-1]}')
    assert_one_line_error(
        rescore("convert", "x.json"), "sequence, sequences_scores", "--field text=KEY"
    )
    (tmp_path / "lines").write_text("a b\na c\n")
    assert_one_line_error(
        rescore("convert", "lines"), "--format opennmt --nbest-size N"
    )
    lists = rescore(
        "convert", "lines", "--format", "opennmt", "--nbest-size", "2"
    ).stdout
    assert [one["text"] for one in json.loads(lists)["hyps"]] == ["a b", "a c"]
    assert_one_line_error(
        rescore("convert", "lines", "--format", "opennmt", "--nbest-size", "3"),
        "2 lines is not a multiple of 3",
    )
    (tmp_path / "folder").mkdir()
    assert_one_line_error(rescore("convert", "folder"), "no logdir/output")


@pytest.mark.parametrize("indent", [None, 1])
def test_big_files_are_recognised_as_small_ones(
    rescore: Run, tmp_path: Path, indent: int | None
) -> None:
    """What is beyond the first 64 KiB is not looked at, wherever they are cut."""
    long = {"hyp_1": {"score": -1.0, "text": "a " * 50_000}}
    (tmp_path / "n.json").write_text(json.dumps({"u": long, "v": long}, indent=indent))
    assert len(formats.read([tmp_path / "n.json"])) == 2
    entries = [{"input": ["a " * 40_000, "b"], "output": "a"}] * 2
    (tmp_path / "h.json").write_text(json.dumps(entries, indent=indent))
    assert len(formats.read([tmp_path / "h.json"])) == 2
    lines = json.dumps(
        {"id": "u", "sequences": ["a " * 40_000], "sequences_scores": [-1]}
    )
    (tmp_path / "g.jsonl").write_text(lines + "\n" + lines.replace('"u"', '"v"') + "\n")
    assert len(formats.read([tmp_path / "g.jsonl"])) == 2


def test_detokenize(rescore: Run, tmp_path: Path) -> None:
    pytest.importorskip("sacremoses")
    (tmp_path / "l.jsonl").write_text(
        '{"id": "u", "ref": "it \'s , a", "hyps": [{"text": "he said , no .", "score":'
        " -1}]}\n"
    )
    one = json.loads(rescore("convert", "l.jsonl", "--detokenize", "en").stdout)
    assert one["hyps"][0]["text"] == "he said, no." and one["ref"] == "it's, a"
    assert (
        rescore("rerank", "l.jsonl", "--detokenize", "en").stdout == "u he said, no.\n"
    )


def test_srilm_with_an_empty_first_hypothesis(tmp_path: Path) -> None:
    (tmp_path / "u1").write_text("-10.5 -3.2 0\n-11 -4 2 a b\n")
    (nbest,) = formats.read([tmp_path / "u1"])
    assert [hypothesis.text for hypothesis in nbest.hypotheses] == ["", "a b"]


def test_nemo_beams_with_one_hypothesis_per_utterance(
    rescore: Run, tmp_path: Path
) -> None:
    """The score is no word of the text; the size of the lists is asked for."""
    (tmp_path / "beams.tsv").write_text("the cat\t-1.5\na dog\t-2.5\n")
    (tmp_path / "ref").write_text("the cat\na dog\n")
    assert_one_line_error(rescore("eval", "beams.tsv", "--ref", "ref"), "--nbest-size")
    assert (
        " 0.00 "
        in rescore("eval", "beams.tsv", "--ref", "ref", "--nbest-size", "1").stdout
    )
