"""Law: a pair of lists and references has one answer by every road.

Each hypothesis is the reference of its utterance. So the answer is a WER of 0, or an
error that says which ids do not match; another WER would say that utterances were
paired wrongly, or that ids were read as words.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rescore
from rescore.asr.commands.combine import CombineOptions, _lists
from rescore.cli.options import InputOptions
from rescore.errors import UserError
from rescore.formats.understood import Understood
from rescore.ids import is_path
from rescore.metrics.normalise import EXACT
from rescore.nbest import NbestList
from tests.conftest import Run

TEXTS = ["the red kettle", "the lantern burns", "we saw a harbour"]
MORE = "another sentence entirely"
IDS = {
    "names": ["utt-1", "utt-2", "utt-10"],
    "letters": ["anna_x", "bob_y", "carl_z"],
    "numbers": ["1", "2", "10"],
    "lines": ["1", "2", "3"],
    "files": ["in/utt-1.wav", "in/utt-2.wav", "in/utt-10.wav"],
}
"""The ids of lists, by their kind."""
MORE_IDS = {
    "names": "utt-11",
    "letters": "dora_a",
    "numbers": "11",
    "lines": "4",
    "files": "in/utt-11.wav",
}

# --- lists ---------------------------------------------------------------------------


def native(ids: list[str], folder: Path) -> Path:
    lines = []
    for name, text in zip(ids, TEXTS, strict=True):
        hypotheses = [{"text": text, "score": -1}, {"text": "x", "score": -2}]
        lines.append(json.dumps({"id": name, "hyps": hypotheses}) + "\n")
    return written(folder / "native.jsonl", *lines)


def espnet1(ids: list[str], folder: Path) -> Path:
    entries = {}
    for name, text in zip(ids, TEXTS, strict=True):
        entries[name] = {"hyp_1": {"score": -1, "text": text}}
    return written(folder / "lists.json", json.dumps(entries))


def table(ids: list[str], folder: Path) -> Path:
    rows = [f"{name},{text},-1\n" for name, text in zip(ids, TEXTS, strict=True)]
    return written(folder / "lists.csv", "id,text,score\n", *rows)


def hf(ids: list[str], folder: Path) -> Path:
    lines = []
    for name, text in zip(ids, TEXTS, strict=True):
        entry = {"id": name, "sequences": [text, "x"], "sequences_scores": [-1, -2]}
        lines.append(json.dumps(entry) + "\n")
    return written(folder / "hf.jsonl", *lines)


def kaldi(ids: list[str], folder: Path) -> Path:
    place = folder / "nbest"
    place.mkdir()
    for file, values in (("words_text", TEXTS), ("acwt", "123"), ("lmwt", "123")):
        pairs = zip(ids, values, strict=True)
        written(place / file, *(f"{name}-1 {value}\n" for name, value in pairs))
    return place


def espnet2(ids: list[str], folder: Path) -> Path:
    place = folder / "decode" / "logdir" / "output.1" / "1best_recog"
    place.mkdir(parents=True)
    for file, values in (("text", TEXTS), ("score", ("-1", "-1", "-1"))):
        pairs = zip(ids, values, strict=True)
        written(place / file, *(f"{name} {value}\n" for name, value in pairs))
    return folder / "decode"


def manifest(ids: list[str], folder: Path) -> Path:
    lines = []
    for name, text in zip(ids, TEXTS, strict=True):
        entry = {"audio_filepath": name, "duration": 1.5, "beams": [[text, -1]]}
        lines.append(json.dumps(entry) + "\n")
    return written(folder / "beams.json", *lines)


def moses(ids: list[str], folder: Path) -> Path:
    lines = [f"{n} ||| {text} ||| LM= -1 ||| -1\n" for n, text in enumerate(TEXTS)]
    return written(folder / "n.best", *lines)


def fairseq(ids: list[str], folder: Path) -> Path:
    lines = [f"S-{n}\tx\nH-{n}\t-1\t{text}\n" for n, text in enumerate(TEXTS)]
    return written(folder / "log", *lines)


def trn(ids: list[str], folder: Path) -> Path:
    pairs = zip(ids, TEXTS, strict=True)
    return written(folder / "out.trn", *(f"{text} ({name})\n" for name, text in pairs))


def kaldi_text(ids: list[str], folder: Path) -> Path:
    pairs = zip(ids, TEXTS, strict=True)
    return written(folder / "out", *(f"{name} {text}\n" for name, text in pairs))


def plain(ids: list[str], folder: Path) -> Path:
    return written(folder / "out.txt", *(f"{text}\n" for text in TEXTS))


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path


LISTS = (native, espnet1, table, hf, kaldi, espnet2, manifest, trn, kaldi_text)
"""Forms of lists and outputs that have ids."""
NUMBERED = (moses, fairseq, plain)
"""Forms without ids."""
OUTPUTS = (trn, kaldi_text, plain)
"""Forms of 1-best texts, which `eval` and `combine` read."""

# --- references ----------------------------------------------------------------------

Texts = dict[str, str]


def as_kaldi(texts: Texts, folder: Path) -> Path:
    return written(folder / "ref", *(f"{name} {t}\n" for name, t in texts.items()))


def as_trn(texts: Texts, folder: Path) -> Path:
    return written(folder / "r.trn", *(f"{t} ({name})\n" for name, t in texts.items()))


def as_csv(texts: Texts, folder: Path) -> Path:
    rows = [f"{name},{text}\n" for name, text in texts.items()]
    return written(folder / "ref.csv", "id,ref\n", *rows)


def as_records(texts: Texts, folder: Path) -> Path:
    rows = [json.dumps({"id": name, "ref": t}) + "\n" for name, t in texts.items()]
    return written(folder / "ref.jsonl", *rows)


def as_lists(texts: Texts, folder: Path) -> Path:
    rows = []
    for name, text in texts.items():
        entry = {"id": name, "ref": text, "hyps": [{"text": "x", "score": -1}]}
        rows.append(json.dumps(entry) + "\n")
    return written(folder / "lists.jsonl", *rows)


def as_manifest(texts: Texts, folder: Path) -> Path:
    rows = []
    for name, text in texts.items():
        path = name if is_path(name) else f"/data/{name}.wav"
        entry = {"audio_filepath": path, "duration": 1.5, "text": text}
        rows.append(json.dumps(entry) + "\n")
    return written(folder / "manifest.json", *rows)


def as_plain(texts: Texts, folder: Path) -> Path:
    return written(folder / "ref.txt", *(f"{text}\n" for text in texts.values()))


def as_stm(texts: Texts, folder: Path) -> Path:
    rows = [f"{name} 1 spk 0.0 1.5 {text}\n" for name, text in texts.items()]
    return written(folder / "ref.stm", *rows)


WITH_IDS = (as_kaldi, as_trn, as_csv, as_records, as_lists, as_manifest)
"""Forms of references that have ids."""

# --- how the ids of references differ ------------------------------------------------


def changed(kind: str, change: str) -> Texts:
    """The references of lists, whose ids, order or number are changed."""
    texts = dict(zip(IDS[kind], TEXTS, strict=True))
    if change == "another order":
        return dict(reversed(texts.items()))
    if change == "one missing":
        texts.popitem()
    elif change == "one too many":
        texts[MORE_IDS[kind]] = MORE
    elif change == "zeros":
        padded = (re.sub(r"\d+", lambda m: m[0].zfill(3), name) for name in texts)
        texts = dict(zip(padded, texts.values(), strict=True))
    elif change == "folder":
        texts = {f"/other/{Path(name).name}": text for name, text in texts.items()}
    elif change == "ending":
        texts = {f"{name.removesuffix('.wav')}.flac": t for name, t in texts.items()}
    elif change == "folder and ending":
        texts = {f"/b/{Path(name).stem}.mp4": text for name, text in texts.items()}
    elif change == "other ids":
        texts = {f"spk{n}-x": text for n, text in enumerate(texts.values())}
    return texts


CHANGES = {
    "equal": "right",
    "another order": "right",
    "one missing": "no reference",
    "one too many": "no list",
    "other ids": "no reference",
    "zeros": "right",
    "folder": "right",
    "ending": "right",
    "folder and ending": "right",
}
"""How the ids of references differ from those of lists, and the answer."""
SUITED = {"case": ("names", "letters")}
"""The kinds of ids that can differ in this way; the others differ in any way."""

# --- roads ---------------------------------------------------------------------------


def by_eval(lists: Path, references: Path) -> list[NbestList]:
    return InputOptions(ref=(str(references),)).read_output(str(lists))


def by_run(lists: Path, references: Path) -> list[NbestList]:
    """As `run`, `convert`, `score` and `tune` read lists."""
    inputs = InputOptions(ref=(str(references),))
    return inputs.read([str(lists)], need_references=True)


def by_combine(lists: Path, references: Path) -> list[NbestList]:
    """Two systems that agree."""
    systems = CombineOptions(systems=(str(lists), str(lists)), name=("one", "two"))
    return list(_lists(systems, InputOptions(ref=(str(references),)), EXACT, EXACT))


def by_python(lists: Path, references: Path) -> list[NbestList]:
    return list(rescore.read(lists, references=references))


def by_sources(lists: Path, references: Path) -> list[NbestList]:
    """The same file with --src."""
    read = InputOptions(src=str(references)).read([str(lists)])
    return [replace(nbest, references=(nbest.source or "",)) for nbest in read]


Road = Callable[[Path, Path], list[NbestList]]


class Answer(NamedTuple):
    """What a road says of a pair."""

    kind: str
    message: str = ""


ERRORS = {
    "no reference for": "no reference",
    "no source text for": "no reference",
    "no list for": "no list",
    "no text in": "no list",
    "have no ids such as": "no ids",
    "lines for": "another number",
    "is an STM": "stm",
}


def answer(road: Road, lists: Path, references: Path) -> Answer:
    try:
        read = road(lists, references)
    except UserError as error:
        for mark, kind in ERRORS.items():
            if mark in str(error):
                return Answer(kind, str(error))
        return Answer("another error", str(error))
    for nbest in read:
        if nbest.references != (nbest.hypotheses[0].text,):
            return Answer("wrong", f"{nbest.id}: {nbest.references}")
    return Answer("right" if len(read) == len(TEXTS) else "another number")


def roads_of(form: Any) -> Iterator[Road]:
    yield by_eval
    yield by_combine
    if form not in OUTPUTS:
        yield by_run
        yield by_python


def assert_one_answer(form: Any, lists: Path, references: Path, expected: str) -> None:
    for road in roads_of(form):
        found = answer(road, lists, references)
        assert found.kind == expected, (road.__name__, found.message)


def kinds_of(form: Any, change: str) -> list[str]:
    """The kinds of ids that a form has, and that can differ in this way."""
    kinds = ["names", "numbers"]
    if form in (native, trn, kaldi_text):
        kinds = list(IDS)
    elif form is manifest:
        kinds = ["names", "files"]
    return [kind for kind in kinds if kind in SUITED.get(change, IDS)]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("form", LISTS)
def test_a_pair_has_one_answer(form: Any, change: str, tmp_path: Path) -> None:
    for kind in kinds_of(form, change):
        folder = tmp_path / kind
        folder.mkdir()
        lists = form(IDS[kind], folder)
        for write in WITH_IDS:
            expected = CHANGES[change]
            references = write(changed(kind, change), folder)
            if write is as_manifest and change == "other ids" and kind == "lines":
                expected = "right"  # lines of a manifest beside lists that are numbered
            assert_one_answer(form, lists, references, expected)


@pytest.mark.parametrize(("form", "kind"), list(product((*LISTS, *NUMBERED), IDS)))
def test_lines_without_ids(form: Any, kind: str, tmp_path: Path) -> None:
    """Only lists without ids are paired by order, if the numbers are equal."""
    is_numbered = form in NUMBERED or kind in ("numbers", "lines")
    lists = form(IDS[kind], tmp_path)
    texts = dict(zip(IDS[kind], TEXTS, strict=True))
    expected = "right" if is_numbered else "no ids"
    assert_one_answer(form, lists, as_plain(texts, tmp_path), expected)
    for change in ("one missing", "one too many"):
        references = as_plain(changed(kind, change), tmp_path)
        assert_one_answer(form, lists, references, "another number")
    assert_one_answer(form, lists, as_stm(texts, tmp_path), "stm")


@pytest.mark.parametrize("form", NUMBERED)
@pytest.mark.parametrize("kind", ["names", "letters", "files"])
def test_lists_without_ids(form: Any, kind: str, tmp_path: Path) -> None:
    """References with ids do not belong to lists without ids. The names of the files of
    a manifest are no ids.
    """
    lists = form([], tmp_path)
    for write in WITH_IDS:
        references = write(changed(kind, "equal"), tmp_path)
        expected = "no ids" if form is plain else "no reference"
        has_files = kind == "files" and write not in (as_kaldi, as_trn)
        if write is as_manifest or has_files:
            expected = "right"
        assert_one_answer(form, lists, references, expected)


@pytest.mark.parametrize("change", CHANGES)
def test_source_texts_are_paired_as_references_are(change: str, tmp_path: Path) -> None:
    for kind, ids in IDS.items():
        if kind not in SUITED.get(change, IDS):
            continue
        lists = native(ids, tmp_path)
        references = as_kaldi(changed(kind, change), tmp_path)
        found = answer(by_sources, lists, references)
        assert found.kind == CHANGES[change], found.message


# --- what is said --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("names", "equal", ""),
        ("names", "another order", ""),
        ("numbers", "zeros", "001 is taken for 1: ids are matched apart from leading"),
        ("files", "folder", "/other/utt-1.wav is taken for in/utt-1.wav"),
        ("names", "folder", "/other/utt-1 is taken for utt-1"),
        ("names", "zeros", "utt-001 is taken for utt-1"),
        ("names", "ending", "utt-1.flac is taken for utt-1"),
    ],
)
def test_a_match_that_is_not_equal_is_told_in_a_line(
    kind: str, change: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lists = native(IDS[kind], tmp_path)
    references = as_kaldi(changed(kind, change), tmp_path)
    for road in (by_eval, by_run, by_combine, by_python):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            assert answer(road, lists, references).kind == "right"
        assert [said in text for text in caplog.messages] == [True] * bool(said)


def test_errors_show_two_ids_of_each_side(tmp_path: Path) -> None:
    lists = native(IDS["names"], tmp_path)
    for write in WITH_IDS[:5]:
        references = write(changed("names", "other ids"), tmp_path)
        message = answer(by_run, lists, references).message
        assert "utt-1, utt-2 (3 of 3 missing)" in message
        assert "such as spk0-x, spk1-x" in message


def test_the_commands_give_the_figure(rescore: Run, tmp_path: Path) -> None:
    """Ids 1, 2, 10 beside Kaldi text with 001, 002, 010: a perfect output has no
    errors.
    """
    native(IDS["numbers"], tmp_path)
    as_kaldi(changed("numbers", "zeros"), tmp_path)
    note = "rescore: ref: 001 is taken for 1: "
    for command in (
        ("eval", "native.jsonl"),
        ("run", "native.jsonl", "--dev", "native.jsonl", "--dev-ref", "ref"),
        ("convert", "native.jsonl", "-o", "with.jsonl"),
        ("combine", "native.jsonl", "native.jsonl", "--name", "a", "--name", "b"),
    ):
        done = rescore(*command, "--ref", "ref")
        assert done.returncode == 0 and note in done.stderr, done.stderr
        quiet = rescore(*command, "--ref", "ref", "-q")
        assert quiet.stdout == done.stdout and note not in quiet.stderr
    assert " 0.00 " in rescore("eval", "with.jsonl").stdout
    assert " 0.00 " in rescore("eval", "native.jsonl", "--ref", "ref").stdout


# --- case ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["names", "letters"])
@pytest.mark.parametrize(("form", "write"), [(trn, as_kaldi), (kaldi_text, as_trn)])
def test_case_does_not_count_in_trn(
    form: Any, write: Any, kind: str, tmp_path: Path
) -> None:
    """On whichever side the trn is."""
    lists = form([name.upper() for name in IDS[kind]], tmp_path)
    references = write(changed(kind, "equal"), tmp_path)
    assert_one_answer(form, lists, references, "right")


# --- outputs of the same utterances --------------------------------------------------


def outputs_of(ids: list[str], folder: Path, name: str) -> Path:
    """Lists with references of their own."""
    rows = []
    for own, text in zip(ids, TEXTS, strict=False):
        entry = {"id": own, "ref": text, "hyps": [{"text": text, "score": -1}]}
        rows.append(json.dumps(entry) + "\n")
    return written(folder / name, *rows)


OUTPUT_PAIRS = {
    "equal": (["a1", "a2", "a3"], ["a1", "a2", "a3"], ""),
    "order of references": (["a1", "a2", "a3"], ["b1", "b2", "b3"], "in the order of"),
    "zeros": (["a1", "a2", "a3"], ["a01", "a02", "a03"], "a01 is taken for a1"),
    "folder": (["a1", "a2", "a3"], ["s/a1", "s/a2", "s/a3"], "s/a1 is taken for a1"),
    "case": (["A1", "A2", "A3"], ["a1", "a2", "a3"], "differ in case alone"),
    "numbers": (["1", "2", "3"], ["0", "1", "2"], "in the order of"),
}


@pytest.mark.parametrize("case", OUTPUT_PAIRS)
def test_outputs_are_paired_alike(case: str, rescore: Run, tmp_path: Path) -> None:
    first, second, said = OUTPUT_PAIRS[case]
    outputs_of(first, tmp_path, "a.jsonl")
    outputs_of(second, tmp_path, "b.jsonl")
    for command in (("combine",), ("eval",)):
        done = rescore(*command, "a.jsonl", "b.jsonl")
        assert done.returncode == 0, done.stderr
        assert said in done.stderr
        assert ("taken" in done.stderr) == bool(said), done.stderr


@pytest.mark.parametrize("ids", [["1", "2", "3"], ["u1", "u2", "u3"]])
def test_outputs_may_lack_utterances(
    ids: list[str], rescore: Run, tmp_path: Path
) -> None:
    outputs_of(ids, tmp_path, "a.jsonl")
    outputs_of(ids[:2], tmp_path, "b.jsonl")
    done = rescore("combine", "a.jsonl", "b.jsonl")
    assert done.returncode == 0, done.stderr
    assert "1 of 3 utterances are missing" in done.stderr
    done = rescore("eval", "a.jsonl", "b.jsonl")
    assert done.returncode == 2
    assert "lacks 1 of 3" in done.stderr and "--allow-missing" in done.stderr
    done = rescore("eval", "a.jsonl", "b.jsonl", "--allow-missing")
    assert done.returncode == 0, done.stderr
    assert "1 of 3 utterances left out" in done.stderr
    assert "lists:2of3" in done.stdout


def test_a_system_that_lacks_a_row_is_named(rescore: Run, tmp_path: Path) -> None:
    rows = ["id,backend,text,ref\n"]
    for number, text in enumerate(TEXTS):
        rows.append(f"u{number},one,{text},{text}\n")
        if number:
            rows.append(f"u{number},two,{text},{text}\n")
    written(tmp_path / "t.csv", *rows)
    field = ("--field", "system=backend")
    done = rescore("eval", "t.csv", *field)
    assert "two: lacks 1 of 3 utterances" in done.stderr
    done = rescore("eval", "t.csv", *field, "--allow-missing")
    assert done.returncode == 0, done.stderr
    understood = Understood(["t.csv"], system="two")
    assert str(understood).startswith("t.csv, system two: ")


def test_merged_files_say_which_ids_are_alike(rescore: Run, tmp_path: Path) -> None:
    outputs_of(["u-1"], tmp_path, "a.jsonl")
    outputs_of(["spk/u-1.wav"], tmp_path, "b.jsonl")
    done = rescore("convert", "a.jsonl", "b.jsonl", "--merge", "-o", "c.jsonl")
    assert "are not united (first: u-1 and spk/u-1.wav)" in done.stderr


# --- --field of a file beside the lists ----------------------------------------------


def openai(folder: Path) -> Path:
    rows = []
    for number, text in enumerate(TEXTS, 1):
        message = {"role": "assistant", "content": text}
        body = {"choices": [{"index": 0, "message": message}]}
        response = {"status_code": 200, "body": body}
        row = {"id": f"b{number}", "custom_id": f"r-{number}", "response": response}
        rows.append(json.dumps(row) + "\n")
    return written(folder / "batch.jsonl", *rows)


@pytest.mark.parametrize("key", ["custom_id", "name"])
def test_a_key_of_the_references_alone(key: str, rescore: Run, tmp_path: Path) -> None:
    rows = [f"r-{number},{text}\n" for number, text in enumerate(TEXTS, 1)]
    written(tmp_path / "r.csv", f"{key},reference\n", *rows)
    openai(tmp_path)
    fields = ("--field", f"id={key}", "--field", "ref=reference")
    done = rescore("eval", "batch.jsonl", "--ref", "r.csv", *fields)
    assert " 0.00 " in done.stdout, done.stderr
    if key == "custom_id":
        done = rescore("eval", "batch.jsonl", "--ref", "r.csv")
        assert " 0.00 " in done.stdout, done.stderr


def test_a_column_of_the_scores_alone(rescore: Run, tmp_path: Path) -> None:
    fairseq([], tmp_path)
    rows = [f"{number},1,-0.5\n" for number in range(len(TEXTS))]
    written(tmp_path / "q.csv", "id,hyp_rank,comet\n", *rows)
    fields = ("--field", "qe=-comet", "--field", "rank=hyp_rank")
    scores = ("--scores", "q.csv", *fields)
    done = rescore("convert", "log", *scores, "-o", "x.jsonl")
    assert done.returncode == 0, done.stderr
    first = json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])
    assert first["hyps"][0]["scores"]["qe"] == 0.5
    assert "hyp_rank" not in first["hyps"][0]["scores"]
