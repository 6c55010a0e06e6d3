"""Every format with its peculiarities, and what each refuses."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.formats.text import strip_markup, undo_bpe
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import shared, write_json

NATIVE = {
    "u1": {
        "ref": "a b",
        "hyp_2": {"score": -2, "text": "a c"},
        "hyp_1": {"score": -1.5, "text": "a b"},
    },
    "u2": {
        "ref": ["x", "y"],
        "src": "quelle",
        "hyp_1": {"score": -1.0, "text": "", "scores": {"tta": -34.1}},
        "hyp_10": {"score": float("-inf"), "text": "z"},
        "hyp_9": {"score": -3.0, "text": "y"},
    },
}


def test_native_object(tmp_path: Path) -> None:
    one, two = formats.read([write_json(tmp_path / "n.json", NATIVE)])
    assert [h.text for h in one.hypotheses] == ["a b", "a c"] and one.references == (
        "a b",
    )
    assert [h.text for h in two.hypotheses] == ["", "y", "z"]
    assert two.references == ("x", "y") and two.source == "quelle"
    assert (
        two.hypotheses[0].scores == {"s2s": -1.0, "tta": -34.1}
        and two.hypotheses[2].scores["s2s"] == -math.inf
    )


@pytest.mark.parametrize(
    "name", ["out.json", "out.jsonl", "out.json.gz", "out.jsonl.gz"]
)
def test_native_round_trip(tmp_path: Path, name: str) -> None:
    lists = formats.read([write_json(tmp_path / "n.json", NATIVE)])
    formats.write(lists, str(tmp_path / name))
    assert formats.read([tmp_path / name]) == lists
    # no temporary file stays
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["n.json", name])
    if name.endswith(".gz"):
        assert gzip.decompress((tmp_path / name).read_bytes())[:1] == b"{"


def test_native_lines_with_blank_lines_and_numbers_as_ids(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    path.write_text(
        '\n{"id": 7, "hyps": [{"text": "a", "score": 0}]}\n\n{"id": "8", "hyps":'
        ' [{"text": "b", "score": 1e0}]}'
    )
    assert [nbest.id for nbest in formats.read([path])] == ["7", "8"]


def espnet1(
    texts: list[str], reference: str | None = "HELLO WORLD"
) -> dict[str, object]:
    output = [
        {"name": "target1[1]", "rec_text": text, "score": -5.3 - rank}
        for rank, text in enumerate(texts)
    ]
    if reference is not None:
        output = [{**entry, "text": reference} for entry in output]
    return {"utt2spk": "s", "input": [], "output": output}


def test_espnet1(tmp_path: Path) -> None:
    texts = ["▁HELLO▁WORLD<eos>", "▁HALLO<eos>", "<eos>"]
    (nbest,) = formats.read(
        [write_json(tmp_path / "data.json", {"utts": {"u": espnet1(texts)}})]
    )
    assert [h.text for h in nbest.hypotheses] == ["HELLO WORLD", "HALLO", ""]
    assert nbest.references == ("HELLO WORLD",) and nbest.hypotheses[1].scores == {
        "s2s": -6.3
    }
    characters = ["H<space>I<eos>"]
    (nbest,) = formats.read(
        [write_json(tmp_path / "data.json", {"utts": {"u": espnet1(characters, None)}})]
    )
    assert nbest.hypotheses[0].text == "H I" and nbest.references == ()


def test_espnet1_folder_and_several_files(tmp_path: Path) -> None:
    for part in (1, 2, 10):
        write_json(
            tmp_path / f"data.{part}.json", {"utts": {f"u{part}": espnet1(["A<eos>"])}}
        )
    assert [nbest.id for nbest in formats.read([tmp_path])] == ["u1", "u2", "u10"]
    files = [tmp_path / "data.10.json", tmp_path / "data.2.json"]
    assert [nbest.id for nbest in formats.read(files)] == ["u10", "u2"]
    # joined: the parts are the same again
    write_json(tmp_path / "data.json", {"utts": {"whole": espnet1(["A"])}})
    assert [nbest.id for nbest in formats.read([tmp_path])] == ["whole"]


def espnet2(
    folder: Path, job: int, best: int, rows: list[tuple[str, str, str]]
) -> None:
    target = folder / "logdir" / f"output.{job}" / f"{best}best_recog"
    target.mkdir(parents=True)
    (target / "text").write_text(
        "".join(f"{name} {text}".rstrip() + "\n" for name, text, _ in rows)
    )
    (target / "score").write_text(
        "".join(f"{name} {score}\n" for name, _, score in rows)
    )


def test_espnet2(tmp_path: Path) -> None:
    espnet2(tmp_path, 2, 1, [("u3", "C", "-1e-05")])
    espnet2(tmp_path, 1, 1, [("u1", "A", "tensor(-1.25)"), ("u2", "", "0.0")])
    espnet2(tmp_path, 1, 2, [("u1", "B", "tensor(-2.5, device='cuda:0')")])
    espnet2(tmp_path, 1, 10, [("u1", "D", "-inf")])
    (tmp_path / "text").write_text("u1 A\nu2\nu3 C\n")
    for given in (tmp_path, tmp_path / "logdir"):
        one, two, three = formats.read([given], references=tmp_path / "text")
        assert [(h.text, h.scores["s2s"]) for h in one.hypotheses] == [
            ("A", -1.25),
            ("B", -2.5),
            ("D", -math.inf),
        ]
        assert (two.hypotheses[0].text, two.references) == (
            "",
            ("",),
        ) and three.hypotheses[0].scores["s2s"] == -1e-5
    (only,) = formats.read([tmp_path / "logdir" / "output.2"])
    assert only.id == "u3"


FAIRSEQ = """2020-03-09 23:29:55 | INFO | fairseq_cli.generate | loading
S-5\tdas ist &quot; gut
T-5\tthat &apos;s <<unk>> good
H-5\t-1.0\tthat &apos;s go@@ od
D-5\t-1.0\tthat &apos;s go@@ od
P-5\t-1.0 -1.0 -1.0 -1.0
H-5\t-2.0\t▁it ▁i s ▁fine
P-5\t-2.0 -2.0
W-5\t0.1\tseconds
S-0\tja
H-0\t-inf\tyes
Generate test with beam=5: BLEU4 = 30.00
"""


def test_fairseq(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(FAIRSEQ)
    yes, good = formats.iterate([path], options=formats.ReadOptions(lenpen=0.5))
    assert (
        yes.id == "0"
        and yes.hypotheses[0].scores["s2s"] == -math.inf
        and yes.references == ()
    )
    assert good.source == 'das ist " gut' and good.references == ("that 's <unk> good",)
    first, second = good.hypotheses
    assert (first.text, second.text) == ("that 's good", "it is fine")
    assert first.scores == pytest.approx({"s2s": -math.log(2), "sum": -math.log(2) * 2})
    assert second.scores["sum"] == pytest.approx(-2 * math.log(2) * math.sqrt(2))
    assert good.header.scores_are_means


def test_s2s_selects_another_column(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(FAIRSEQ.replace("-inf", "-1"))
    yes, _ = formats.iterate([path], s2s="sum")
    assert yes.hypotheses[0].scores == pytest.approx(
        {"s2s": -2 * math.log(2), "first": -math.log(2)}
    )
    assert not yes.header.scores_are_means
    with pytest.raises(
        UserError, match=r"utterance 0: no score 'lm' \(found: s2s, sum\)"
    ):
        list(formats.iterate([path], s2s="lm"))


def test_texts() -> None:
    assert undo_bpe("ab@@ c d@@") == "abc d"
    assert strip_markup("&amp;lt; &#91;x&#93; &lt;") == "&lt; [x] <"
    assert strip_markup("<sos/eos> a<space>b <unk>") == "a b <unk>"


@pytest.mark.parametrize(
    "reference",
    ["u2\tY Z\nu1  X\nu9 other\n", "X (u1)\nY Z (u2)\n"],
    ids=["kaldi", "trn"],
)
def test_references(tmp_path: Path, reference: str) -> None:
    (tmp_path / "ref").write_text(reference)
    assert formats.read_references(tmp_path / "ref", ["u1", "u2"]) == {
        "u1": ("X",),
        "u2": ("Y Z",),
    }


def test_plain_references(tmp_path: Path) -> None:
    """Lines are taken in the order of lists without ids, or if the user says so."""
    path = tmp_path / "ref"
    path.write_text("X\nY Z\n")
    assert formats.read_references(path, ["1", "2"]) == {"1": ("X",), "2": ("Y Z",)}
    with pytest.raises(UserError, match=r"no ids such as u1, u2 .* --ref-format plain"):
        formats.read_references(path, ["u1", "u2"])
    plain = formats.References((str(path),), "plain")
    assert formats.read_references(plain, ["u1", "u2"]) == {
        "u1": ("X",),
        "u2": ("Y Z",),
    }


def test_empty_references(tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("(u1)\na (u2)\n")
    assert formats.read_references(tmp_path / "ref", ["u1", "u2"]) == {
        "u1": ("",),
        "u2": ("a",),
    }
    (tmp_path / "ref").write_text("u1\nu2 a\n")
    assert formats.read_references(tmp_path / "ref", ["u1", "u2"]) == {
        "u1": ("",),
        "u2": ("a",),
    }


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("u1 X\n", "no reference for utterance u2 .1 of 2"),
        ("X\nY\nZ\n", "3 lines for 2 utterances"),
        ("", "is empty"),
    ],
)
def test_references_that_do_not_fit(
    tmp_path: Path, reference: str, message: str
) -> None:
    (tmp_path / "ref").write_text(reference)
    with pytest.raises(UserError, match=message):
        formats.read_references(tmp_path / "ref", ["u1", "u2"])


LINE = '{"id": "u", "hyps": [{"text": "a", "score": -1}]}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("just some text\nof two lines\n", "not an N-best list of a known format"),
        (json.dumps(NATIVE)[:100], r"line 1, column \d+: not valid JSON .* truncated"),
        (
            f'{LINE}\n{{"id": "v", "hyps": [{{"text"',
            "line 2, column .*: not valid JSON",
        ),
        (f"{LINE}\n{LINE}\n", r"line 2: utterance u is duplicated \(first: .*line 1\)"),
        ('{"u": {"ref": "a"}}', "utterance u: no hypotheses"),
        ('{"id": "u", "hyps": []}', "utterance u: no hypotheses"),
        ("{}", "no N-best list in it"),
        (
            '{"u": {"hyp_1": {"score": NaN, "text": "a"}}}',
            "utterance u, hypothesis 1: score s2s is nan",
        ),
        ('{"u": {"hyp_1": {"score": Infinity, "text": "a"}}}', "score s2s is inf"),
        (
            '{"u": {"hyp_1": {"score": "-1", "text": "a"}}}',
            "utterance u, hyp_1: score: expected a number, found a text",
        ),
        (
            (
                '{"u": {"hyp_1": {"text": "a", "scores": {"tta": -1}}, "hyp_2":'
                ' {"text": "b", "scores": {"tta": -1}}}}'
            ),
            "hypothesis 1: no first-pass score",
        ),
        (
            '{"u": {"hyp_1": {"score": -1}}}',
            "hyp_1: object missing required field text",
        ),
        (
            '{"u": {"ref": "a", "hyp_1": {"score": 0, "text": "a"}}, "u": {}}',
            "u is duplicated",
        ),
        ('{"utts": {"u": {"output": [{"text": "A"}]}}}', 'no "rec_text"'),
        ('{"utts": {"u": {"output": []}}}', "utterance u: no hypotheses"),
        ("S-1\ta\nH-1\tx\tb\n", "line 2: score is 'x'"),
        ("S-1\ta\nP-1\t-1\n", "line 2: a P- line before"),
    ],
)
def test_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "lists"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        formats.read([path])
    assert str(path) in str(caught.value)


def test_what_is_odd_is_repaired_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = (
        b'\xef\xbb\xbf{"id": "u", "hyps": [{"text": "a\xe4", "score": 1}, {"text":'
        b' "a\xe4", "score": 2}]}\r\n'
    )
    caplog.set_level("DEBUG", logger="rescore")
    (tmp_path / "odd.jsonl").write_bytes(lines + lines[3:].replace(b'"u"', b'"v"'))
    first, second = formats.read([tmp_path / "odd.jsonl"])
    assert (first.id, second.id) == ("u", "v") and first.hypotheses[0].text == "a\ufffd"
    told = [record.message for record in caplog.records]
    assert [message.split(" (first")[0].split(";")[0] for message in told] == [
        "1 file begins with a byte order mark, which was removed",
        "2 lines end in a carriage return, a Windows line end, which was removed",
        "2 lines are not UTF-8",
        "2 lists have a hypothesis twice",
    ]
    assert told[2].endswith("odd.jsonl: line 1)")
    for content in (
        lines,
        lines[3:],
        lines[3:].replace(b"\r", b""),
        lines[3:].replace(b"\r", b"").replace(b"\xe4", b""),
    ):
        (tmp_path / "odd.jsonl").write_bytes(content)
        with pytest.raises(UserError, match=r"odd\.jsonl.*\(--strict\)"):
            formats.read([tmp_path / "odd.jsonl"], strict=True)


def test_refused_bytes(tmp_path: Path) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(LINE.encode() * 50)[:-20])
    with pytest.raises(UserError, match="damaged gzip"):
        formats.read([tmp_path / "cut.gz"])
    with pytest.raises(UserError, match="no such file or folder"):
        formats.read([tmp_path / "absent"])


def test_some_references_missing(tmp_path: Path) -> None:
    path = write_json(
        tmp_path / "n.json", {**NATIVE, "u3": {"hyp_1": {"score": 0, "text": "a"}}}
    )
    with pytest.raises(
        UserError, match=r"n\.json: utterance u3: no reference \(1 of 3 missing\)"
    ):
        formats.read([path])


def test_best_texts(tmp_path: Path) -> None:
    best = [
        (NbestList("u1", [Hypothesis("a b")]), "a b"),
        (NbestList("u2", [Hypothesis("")]), ""),
    ]
    expected = {"x.trn": "a b (u1)\n(u2)\n", "x.txt": "a b\n\n", "text": "u1 a b\nu2\n"}
    for name, content in expected.items():
        with formats.opened(str(tmp_path / name)) as file:
            formats.write_best(name, best, file)
        assert (tmp_path / name).read_text() == content


def test_the_same_lists_in_two_real_formats() -> None:
    native = formats.read([shared("librispeech-other/test.json")])
    folder = shared("librispeech-other/espnet2/test")
    espnet = {
        nbest.id: nbest for nbest in formats.read([folder], references=folder / "text")
    }
    assert len(native) == len(espnet) == 929
    for nbest in native:
        assert espnet[nbest.id] == nbest


def test_real_fairseq_log() -> None:
    lists = formats.read([shared("iwslt14-deen/dev.generate.txt")])
    assert len(lists) == 1619 and {len(nbest.hypotheses) for nbest in lists} == {7}
    assert not any(
        "@@" in h.text or "&apos;" in h.text
        for nbest in lists
        for h in nbest.hypotheses
    )


def test_references_from_lists(tmp_path: Path) -> None:
    lists = write_json(tmp_path / "n.json", NATIVE)
    bare = write_json(
        tmp_path / "bare.json",
        {name: {"hyp_1": {"score": 0, "text": "a"}} for name in NATIVE},
    )
    assert [nbest.references for nbest in formats.read([bare], references=lists)] == [
        ("a b",),
        ("x", "y"),
    ]
    (tmp_path / "out.trn").write_text("a b (u1)\ny (u2)\n")
    assert formats.read_output(str(tmp_path / "out.trn"), str(lists))[1].references == (
        "x",
        "y",
    )
