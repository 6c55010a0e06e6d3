"""Law: a written file is read back as the same lists, or a warning tells the loss.
A reranked file chooses the texts of the command that wrote it, with the same figures.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rescore import formats
from rescore.asr.measured import measured_recordings
from rescore.asr.whole import read_systems
from rescore.columns import Column
from rescore.errors import UserError
from rescore.files import PACKED
from rescore.formats.alternatives import readings
from rescore.formats.best import RECORDS
from rescore.formats.source import ReadOptions, Source
from rescore.formats.times import TIMED
from rescore.formats.writing import HELD, LOSSES
from rescore.nbest import Audio, Header, Hypothesis, NbestList
from rescore.parts import FORMATS
from rescore.tuning import Weights
from tests.conftest import Run

# --- lists ---------------------------------------------------------------------------

MARKS = (
    "we mark <s> so",
    "a <space> b",
    "a <eos>",
    "R&amp;D is &lt; this",
    "R&D | x",
    "a@@ b",
    "\u2581a b",
    "this @ home",
    "one { two / three } four",
    ";; four words are said",
    "and so (he said)",
    "(laughter)",
    '"so," he said',
    "5",
    "x --> y",
    "it is <i>so</i>",
    r"{\an8} up here",
    "a;b, c\td",
    "&#40;&#9601;",
    "",
)
"""Texts in which some reader takes something for a mark."""


def one(text: str, score: float, **more: Any) -> Hypothesis:
    scores = more.pop("scores", {})
    return Hypothesis(text, {"s2s": score, **scores}, **more)


def several(**about: Any) -> list[NbestList]:
    """Three lists of two hypotheses."""
    made = []
    for number in range(3):
        hypotheses = [one(f"a b {number}", -1.0), one("a c", -2.5)]
        made.append(NbestList(str(number), hypotheses, **about))
    return made


def changed(change: Callable[[Hypothesis], Hypothesis]) -> list[NbestList]:
    """Three lists of two hypotheses, each of which is changed."""
    made = several(references=("a b",))
    for nbest in made:
        nbest.hypotheses = [change(hypothesis) for hypothesis in nbest.hypotheses]
    return made


def scored(columns: dict[str, Column], **scores: float) -> list[NbestList]:
    """Three lists of two hypotheses with columns of scores."""
    made = changed(
        lambda hypothesis: dataclasses.replace(
            hypothesis, scores=hypothesis.scores | scores
        )
    )
    for nbest in made:
        nbest.header = Header(records=columns)
    return made


def ranked() -> list[NbestList]:
    """Lists whose ranks say that the second of two equals is the first pass."""
    hypotheses = [one("a", -1.0, rank=1), one("b", -1.0, rank=0)]
    return [NbestList("0", hypotheses, ("b",))]


TOOLKIT = Column.component("moses")
LISTS: dict[str, list[NbestList]] = {
    "plain": several(),
    "references": several(references=("a b",)),
    "several references": several(references=("a b", "a c")),
    "empty references": several(references=("",)),
    "one empty reference": [
        *several(references=("a b",))[:2],
        NbestList("2", [one("a", -1.0)], ("",)),
    ],
    "sources": several(references=("a b",), source="s t"),
    "empty sources": several(references=("a b",), source=""),
    "translations": several(references=("a",), header=Header(translates=True)),
    "recordings": several(recording="r"),
    "audio": several(audio=Audio("a.wav", 1.0, 2.0)),
    "alignments": changed(
        lambda each: dataclasses.replace(each, alignment="0-0 1-2 ||| 0=1")
    ),
    "fields": several(fields={"accent": "us", "channel": "2"}),
    "ranks": ranked(),
    "origins": changed(lambda each: dataclasses.replace(each, origin="recombined")),
    "times": changed(
        lambda each: dataclasses.replace(
            each,
            times=tuple((float(n), n + 1.0) for n in range(len(each.text) // 2 + 1)),
        )
    ),
    "combined": changed(
        lambda each: dataclasses.replace(each, combined=each.scores["s2s"] - 1 / 3)
    ),
    "columns": scored({"lm": Column("lm", "ab12", "sum", "float32")}, lm=-1 / 3),
    "components": scored(
        dict.fromkeys(("TM0.1", "TM0.2", "LM0", "x.2"), TOOLKIT),
        **{"TM0.1": 1.0, "TM0.2": -2.0, "LM0": -math.inf, "x.2": 4.0},
    ),
    "impossible": [NbestList("0", [one("a", -math.inf), one("b", -2.0)])],
    "ids": [NbestList("a-7", [one("a b", -1.0)]), NbestList("a-8", [one("a", -1.0)])],
    "ids with blanks": [NbestList("a 7", [one("a b", -1.0)])],
}
for mark in MARKS:
    texts = [one(mark, -1.0), one("a b", -2.0)]
    beside = NbestList("1", [one("a b", -1.0)], ("a b",), "a b")
    LISTS[f"marks: {mark}"] = [NbestList("0", texts, (mark,), mark), beside]
WRITERS = formats.written_formats()
ENDINGS = {"native": (".jsonl", ".json"), "espnet2": ("",)}
"""The endings of formats that are not named as their ending."""
FILES = [
    (name, f"x{ending}{packing}")
    for name in WRITERS
    for ending in ENDINGS.get(name, (f".{name}",))
    for packing in (("", *PACKED) if ending else ("",))
]


class Told(logging.Handler):
    """Collects what writers tell."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += record.getMessage() + "\n"


@pytest.fixture
def told() -> Any:
    handler = Told()
    logging.getLogger("rescore").addHandler(handler)
    yield handler
    logging.getLogger("rescore").removeHandler(handler)


@pytest.mark.parametrize("case", LISTS)
@pytest.mark.parametrize(("name", "file"), FILES)
def test_lists_are_read_back_or_the_loss_is_told(
    name: str, file: str, case: str, tmp_path: Path, told: Told
) -> None:
    path = tmp_path / file
    before = LISTS[case]
    try:
        formats.write(before, str(path), name)
    except UserError as error:
        assert case.startswith("ids")
        assert str(path) in str(error)
        assert list(tmp_path.iterdir()) == []
        return
    beside: dict[str, Any] = {}
    for ending, option in (("ref", "references"), ("src", "sources")):
        if (tmp_path / f"x.{name}.{ending}").exists():
            beside[option] = str(tmp_path / f"x.{name}.{ending}")
    after = formats.read([path], **beside)
    assert [nbest.id for nbest in after] == [nbest.id for nbest in before]
    for ours, theirs in zip(before, after, strict=True):
        lost = {
            field
            for field in (*differing(ours, theirs), *of_hypotheses(ours, theirs))
            if not is_told(field, ours, told.text)
        }
        assert not lost


def differing(ours: Any, theirs: Any) -> list[str]:
    """The names of fields that differ, but for those that say where a file lies."""
    names = []
    for field in dataclasses.fields(ours):
        if not field.compare:
            continue
        one, other = getattr(ours, field.name), getattr(theirs, field.name)
        if field.name == "header":
            is_same = one.translates <= other.translates
            for name, record in one.records.items():
                again = other.records.get(name)
                are_components = again and again.is_component and record.is_component
                is_same &= bool(are_components) or again == record
        elif field.name == "hypotheses":
            is_same = len(one) == len(other)
        elif isinstance(one, str) and field.name != "id":
            is_same = isinstance(other, str) and one.split() == other.split()
        elif field.name == "references":
            is_same = list(map(str.split, one)) == list(map(str.split, other))
        else:
            is_same = one == other
        if not is_same:
            names.append(field.name)
    return names


def of_hypotheses(ours: NbestList, theirs: NbestList) -> list[str]:
    """The names of fields of hypotheses that differ."""
    names = []
    for pair in zip(ours.hypotheses, theirs.hypotheses, strict=True):
        names += differing(*pair)
    return names


PHRASES = {
    "references": "references",
    "source": "sources",
    "recording": "recordings",
    "audio": "audio",
    "fields": "field accent",
    "alignment": "alignments",
    "header": "which ",
    "times": "times of words",
    "origin": "which hypotheses the toolkit did not give",
    "rank": "ranks",
}
"""What is said of each field that is lost."""


def is_told(field: str, nbest: NbestList, said: str) -> bool:
    """Whether the loss of a field was told."""
    if field == "header" and "that these are translations" in said:
        return True
    return field in PHRASES and PHRASES[field] in said


def test_each_field_of_a_record_is_held_or_its_loss_is_told() -> None:
    fields = set[str]()
    for record in (NbestList, Hypothesis):
        for field in dataclasses.fields(record):
            if field.compare:  # else it says where a file lies
                fields.add(field.name)
    assert fields == HELD | LOSSES.keys()
    assert LOSSES.keys() == PHRASES.keys()


def test_a_loss_of_some_lists_is_counted(tmp_path: Path, told: Told) -> None:
    lists = several()
    lists[1].recording = "r"
    formats.write(lists, str(tmp_path / "x.csv"))
    assert "not written: recordings (of 1 of 3 lists)\n" in told.text


# --- 1-best texts --------------------------------------------------------------------

BEST = ("", ".txt", ".trn", *RECORDS)
PACKINGS = ("", *PACKED)


@pytest.mark.parametrize("text", MARKS)
@pytest.mark.parametrize("file", [f"x{end}{pack}" for end in BEST for pack in PACKINGS])
def test_texts_are_read_back(file: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / file
    texts = {"u1": text, "u2": "a b c"}
    with formats.opened(str(path)) as opened:
        best = [(NbestList(name, []), said) for name, said in texts.items()]
        formats.write_best(str(path), best, opened)
    references = tmp_path / "ref"
    lines = [f"{name} w x\n" for name in texts]
    if ".txt" in file:
        lines = ["w x\n" for _ in texts]
    references.write_text("".join(lines))
    read = formats.read_output(str(path), str(references))
    found = [nbest.hypotheses[0].text for nbest in read]
    assert found == [" ".join(said.split()) for said in texts.values()]


@pytest.mark.parametrize("text", [text for text in MARKS if text])
@pytest.mark.parametrize(
    "file", [f"x{end}{pack}" for end in TIMED for pack in PACKINGS]
)
def test_timed_texts_are_read_back_or_the_loss_is_told(
    file: str, text: str, tmp_path: Path, told: Told
) -> None:
    times = tuple((float(n), n + 0.5) for n in range(len(text.split())))
    nbest = NbestList("u1", [one(" ".join(text.split()), -1.0, times=times)])
    path = tmp_path / file
    with formats.opened(str(path)) as opened:
        formats.write_best(str(path), [(nbest, text)], opened)
    ((recording,),) = (system.values() for system in read_systems([str(path)], False))
    is_same = recording.words == text.split()
    assert is_same or "marks like words in 1 text (first: u1)" in told.text


WHOLE: list[tuple[str, str]] = []
"""Files of whole recordings, and texts that they hold."""
for mark in MARKS:
    WHOLE.append(("u1.trn", mark))
    # a line for `--whole` may have alternatives, which other lines have not
    if readings(mark, "") == (" ".join(mark.split()),):
        WHOLE += [("x", mark), ("u1.txt", mark)]
    if mark:
        WHOLE += [(f"u1{ending}", mark) for ending in TIMED]


@pytest.mark.parametrize(("file", "text"), WHOLE)
def test_whole_recordings_are_read_back_or_the_loss_is_told(
    file: str, text: str, tmp_path: Path, told: Told
) -> None:
    """As an output and as a reference, beside the text in native lists."""
    times = tuple((float(n), n + 0.5) for n in range(len(text.split())))
    nbest = NbestList("u1", [one(" ".join(text.split()), -1.0, times=times)])
    path, beside = str(tmp_path / file), str(tmp_path / "beside.jsonl")
    with formats.opened(path) as opened:
        formats.write_best(path, [(nbest, text)], opened)
    record = {"id": "u1", "hyps": [{"text": text, "score": -1.0}]}
    Path(beside).write_text(json.dumps(record) + "\n")
    for output, reference in ((path, beside), (beside, path)):
        ((measured,),) = measured_recordings([output], reference)
        heard = measured.hypotheses[0].text.split()
        is_same = [heard] == [said.split() for said in measured.references]
        assert is_same or "marks like words in 1 text (first: u1)" in told.text


@pytest.mark.parametrize("ending", ["json", "moses", "espnet2", "stm"])
def test_an_ending_of_lists_is_no_ending_of_texts(
    ending: str, rescore: Run, tmp_path: Path
) -> None:
    formats.write(several(), str(tmp_path / "l.jsonl"))
    done = rescore("rerank", "l.jsonl", "--best", f"x.{ending}")
    assert done.returncode == 2
    assert f"x.{ending}: " in done.stderr


# --- the same decision ---------------------------------------------------------------


def voted() -> list[NbestList]:
    """Lists on which the rules choose different texts, and none the first pass."""
    made = []
    for number in range(4):
        hypotheses = [
            one("x y z", -1.0, scores={"lm": -9.0}),
            one("a b d", -1.4, scores={"lm": -2.0 - number}),
            one("a b c", -1.5, scores={"lm": -2.1}),
            one("a b c c", -1.5, scores={"lm": -2.1}),
            one("a b e", -1.5, scores={"lm": -2.1}),
        ]
        made.append(NbestList(str(number), hypotheses, ("a b c",)))
    return made


FIGURES = re.compile(r"^(?:reranked|x\.\S+) +(\d+\.\d+)", re.MULTILINE)
LIST_FILES = [file for _, file in FILES]


@pytest.mark.parametrize("decide", ["best", "mbr"])
@pytest.mark.parametrize("file", LIST_FILES)
def test_a_reranked_file_chooses_the_same(
    file: str, decide: str, rescore: Run, tmp_path: Path
) -> None:
    formats.write(voted(), str(tmp_path / "l.jsonl"))
    weights = Weights.interpolation({"lm": 0.3})
    weights.save(tmp_path / "w.json")
    how = ["--decide", "mbr", "--scale", "1"] if decide == "mbr" else []
    written = "x.espnet2" if file == "x" else file
    done = rescore(
        *("rerank", "l.jsonl", "--weights", "w.json", *how, "--report", "r.json"),
        *("-o", written, "--best", "x.trn"),
    )
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "r.json").read_text())
    (metric,) = results["metrics"]
    assert metric["reranked"] < metric["first_pass"]
    ref = tmp_path / "ref"
    ref.write_text("".join(f"{number} a b c\n" for number in range(4)))
    again = rescore("eval", written, "--ref", "ref", "--metric", "wer")
    assert again.returncode == 0, again.stderr
    assert FIGURES.findall(again.stdout) == [f"{metric['reranked']:.2f}"]
    # the first hypothesis is the choice, and the first pass stands beside it
    lists = formats.read([written])
    firsts = [nbest.hypotheses[0].text for nbest in lists]
    best = (tmp_path / "x.trn").read_text().splitlines()
    assert best == [f"{text} ({name})" for name, text in enumerate(firsts)]
    once_more = rescore(
        *("rerank", written, "--weights", "w.json", *how, "--best", "y.trn")
    )
    assert once_more.returncode == 0, once_more.stderr
    assert (tmp_path / "y.trn").read_text().splitlines() == best


class Bars:
    """A format of another package, which knows nothing of combined scores."""

    def sniff(self, source: Source) -> bool:
        return "|" in source.head

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        lists: dict[str, NbestList] = {}
        for _, row in source.filled():
            name, score, text = row.split("|")
            nbest = lists.setdefault(name, NbestList(name, []))
            nbest.hypotheses.append(one(text, float(score)))
        yield from lists.values()

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        rows = []
        for nbest in lists:
            for hypothesis in nbest.hypotheses:
                score = hypothesis.scores["s2s"]
                rows.append(f"{nbest.id}|{score}|{hypothesis.text}\n")
        Path(path).write_text("".join(rows))


def test_a_reranked_file_of_another_package_chooses_the_same(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS._parts, "bars", (Bars(), "bars"))
    formats.write(voted(), str(tmp_path / "l.jsonl"))
    weights = Weights.interpolation({"lm": 0.3})
    weights.save(tmp_path / "w.json")
    done = rescore("rerank", "l.jsonl", "--weights", "w.json", "-o", "x.bars")
    assert done.returncode == 0, done.stderr
    assert "x.bars: the format cannot hold all fields; not written: references" in (
        done.stderr
    )
    assert rescore("rerank", "x.bars", "--best", "x.trn").returncode == 0
    best = rescore("rerank", "l.jsonl", "--weights", "w.json", "--best", "-")
    chosen = [line.split(maxsplit=1) for line in best.stdout.splitlines()]
    expected = [f"{text} ({name})" for name, text in chosen]
    assert (tmp_path / "x.trn").read_text().splitlines() == expected


# --- ids that are paths ---------------------------------------------------------------

PATHS = ("spk 1/a.wav", "spk 1/b (2).wav", "c.wav")


@pytest.mark.parametrize(("name", "file"), FILES)
def test_ids_that_are_paths_are_the_same_by_every_format(
    name: str, file: str, tmp_path: Path
) -> None:
    lists = []
    for identity in PATHS:
        lists.append(NbestList(identity, [one("a b", -1.0)]))
    formats.write(lists, str(tmp_path / "first.jsonl"))
    before = formats.read([tmp_path / "first.jsonl"])
    try:
        formats.write(before, str(tmp_path / file), name)
    except UserError:
        assert name == "moses"  # it numbers its lists
        return
    after = formats.read([tmp_path / file])
    assert {nbest.id for nbest in after} == {nbest.id for nbest in before}
    for ending in ("", ".trn"):
        path = tmp_path / f"best{ending}"
        with formats.opened(str(path)) as stream:
            pairs = [(nbest, "a b") for nbest in after]
            formats.write_best(str(path), pairs, stream)
        words = path.read_text().replace("(", " ").replace(")", " ").split()
        assert {nbest.id for nbest in before} <= set(words)


def test_texts_that_are_null_are_empty_and_counted(tmp_path: Path, told: Told) -> None:
    hyps = [{"text": None, "score": -1.0}, {"text": "a", "score": -2.0}]
    objects = {f"hyp_{rank}": hyp for rank, hyp in enumerate(hyps, 1)}
    (tmp_path / "x.jsonl").write_text(json.dumps({"id": "u", "hyps": hyps}) + "\n")
    (tmp_path / "x.json").write_text(json.dumps({"u": {"ref": "a", **objects}}))
    for name in ("x.jsonl", "x.json"):
        told.text = ""
        (nbest,) = formats.read([tmp_path / name])
        assert [hypothesis.text for hypothesis in nbest.hypotheses] == ["", "a"]
        assert told.text.count("1 text is null instead of a text") == 1
