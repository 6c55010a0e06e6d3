"""Law: a pair of lists and references has one answer by every road.

Each hypothesis is the reference of its utterance. So the answer is a WER of 0, or an
error that says which ids do not match; another WER would say that utterances were
paired wrongly, or that ids were read as words.
"""

from __future__ import annotations

import json
import logging
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
        texts = {name.zfill(3): text for name, text in texts.items()}
    elif change == "folder":
        texts = {f"/other/{Path(name).name}": text for name, text in texts.items()}
    elif change == "ending":
        texts = {f"{name.removesuffix('.wav')}.flac": t for name, t in texts.items()}
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
}
"""How the ids of references differ from those of lists, and the answer."""
SUITED = {"zeros": ("numbers", "lines"), "folder": ("files",)}
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
