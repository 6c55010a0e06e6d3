"""`--merge` unites the hypotheses of an id over files: nothing is lost, each text
stands there once with its better score, and files that contradict each other are
refused.
"""

from __future__ import annotations

import itertools
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from rescore import UserError, formats, read
from rescore.columns import Column
from rescore.dataset import Dataset
from rescore.formats.merging import grouped
from rescore.nbest import Header, Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error

FILES = {
    "a": {"u1": {"x y": -1.0, "x": -3.0}, "u2": {"p": -1.0}},
    "b": {"u2": {"p": -0.5, "q": -2.0}, "u3": {"r": -1.0}},
    "c": {"u1": {"z": -2.0, "x": -2.5}, "u3": {"r": -1.0}},
}
"""The hypotheses of each utterance in each file, with their scores."""
UNITED = {
    "u1": {"x y": -1.0, "x": -2.5, "z": -2.0},
    "u2": {"p": -0.5, "q": -2.0},
    "u3": {"r": -1.0},
}


def write(name: str, **more: Any) -> str:
    """Write the lists of a file; `more` are fields of each list."""
    lists = []
    for identity, scores in FILES[name].items():
        hypotheses = [
            Hypothesis(text, {"s2s": value}) for text, value in scores.items()
        ]
        lists.append(NbestList(identity, hypotheses, **more))
    formats.write(lists, f"{name}.jsonl")
    return f"{name}.jsonl"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def by_id(lists: list[NbestList]) -> dict[str, dict[str, float]]:
    scores = {}
    for nbest in lists:
        texts = {one.text: one.scores["s2s"] for one in nbest.hypotheses}
        assert len(texts) == len(nbest.hypotheses)
        scores[nbest.id] = texts
    return scores


@pytest.mark.parametrize("order", list(itertools.permutations(FILES)))
def test_nothing_is_lost_in_any_order(
    order: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rescore")
    paths = [write(name) for name in order]
    merged = read(paths, merge=True)
    assert by_id(merged) == UNITED
    (line,) = [line for line in caplog.messages if "--merge" in line]
    said = "unites 6 lists of 3 utterances, and drops 3 equal texts"
    assert line == f"--merge {said}"


def test_utterances_keep_the_order_of_the_files() -> None:
    paths = [write(name) for name in "bca"]
    assert [one.id for one in read(paths, merge=True)] == ["u2", "u3", "u1"]


def test_a_folder_of_files_is_merged() -> None:
    Path("parts").mkdir()
    for name in FILES:
        Path(write(name)).rename(f"parts/{name}.jsonl")
    assert by_id(read("parts", merge=True)) == UNITED


def test_without_it_a_message_names_it(rescore: Run) -> None:
    paths = [write("a"), write("b")]
    assert_one_line_error(
        rescore("convert", *paths, "-o", "x.jsonl"),
        "utterance u2 is duplicated (first: a.jsonl: line 2)",
        "or --merge to unite the lists of several files",
    )
    with pytest.raises(UserError, match="or merge=True to unite"):
        read(paths)


def test_an_id_that_one_file_has_twice_is_still_an_error() -> None:
    first, second = write("a"), write("b")
    Path(first).write_text(Path(first).read_text() * 2)
    for paths in ([first, second], [second, first]):
        with pytest.raises(UserError, match=r"u. is duplicated") as error:
            read(paths, merge=True)
        assert "merge" not in str(error.value)


@pytest.mark.parametrize("facts", [{"references": ("x",)}, {"source": "x"}])
def test_a_fact_of_one_file_is_kept(facts: dict[str, object]) -> None:
    for paths in ([write("a", **facts), write("b")], [write("a"), write("b", **facts)]):
        lists = formats.iterate(paths, merge=True)
        (both,) = [one for one in lists if one.id == "u2"]
        for name, value in facts.items():
            assert getattr(both, name) == value


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"references": ("x",)}, {"references": ("z",)}),
        ({"source": "x"}, {"source": "z"}),
        ({"recording": "x"}, {"recording": "z"}),
    ],
)
def test_facts_that_differ_are_refused(
    ours: dict[str, object], theirs: dict[str, object]
) -> None:
    paths = [write("a", **ours), write("b", **theirs)]
    with pytest.raises(
        UserError, match=r"b.jsonl: line 1: utterance u2: .*'z', but 'x'"
    ):
        read(paths, merge=True)


def test_fields_that_differ_say_nothing_of_the_utterance() -> None:
    ours = {"fields": {"accent": "x", "seed": "1"}}
    theirs = {"fields": {"accent": "x", "seed": "2", "sex": "f"}}
    paths = [write("a", **ours), write("b", **theirs)]
    (both,) = [one for one in read(paths, merge=True) if one.id == "u2"]
    assert both.fields == {"accent": "x", "sex": "f"}


def test_columns_of_other_models_are_refused() -> None:
    headers = []
    for model in ("one", "two"):
        column = Column("ngram", model * 20, "sum", "float32")
        headers.append(Header(records={"lm": column}))
    for name, header in zip("ab", headers, strict=True):
        scored = list(formats.read([write(name)]))
        for nbest in scored:
            nbest.header = header
            for one in nbest.hypotheses:
                one.scores["lm"] = -1.0
        formats.write(scored, f"{name}.jsonl")
    with pytest.raises(UserError, match="column lm comes from ngram@two"):
        read(["a.jsonl", "b.jsonl"], merge=True)


def test_a_single_file_is_refused(rescore: Run) -> None:
    path = write("a")
    assert_one_line_error(
        rescore("convert", path, "--merge"), "--merge needs several files of lists"
    )
    with pytest.raises(UserError, match=r"^merge needs several files of lists$"):
        read(path, merge=True)


def test_the_figures_are_those_of_the_united_lists(rescore: Run) -> None:
    reference = {"references": ("x y",)}
    paths = [write(name, **reference) for name in "abc"]
    done = rescore("convert", *paths, "--merge", "-o", "all.jsonl")
    assert done.returncode == 0, done.stderr
    whole = rescore("run", "all.jsonl")
    assert whole.stdout and whole.stdout == rescore(*paths, "--merge").stdout


SAMPLES = (
    ("q-2-0", "b"),
    ("q-1-0", "a"),
    ("q-1-1", "a"),
    ("q-2-1", "c"),
    ("q-1-10", "d"),
    ("q-10-0", "e"),
)
"""An answer for each request; two questions are not in order."""


def batch(rows: tuple[tuple[str, str], ...], logprob: float | None) -> str:
    """The output file of an OpenAI batch."""
    lines = []
    for place, (name, text) in enumerate(rows):
        choice: dict[str, Any] = {"message": {"content": text}}
        if logprob is not None:
            choice["logprobs"] = {"content": [{"logprob": logprob - place}]}
        response = {"status_code": 200, "body": {"choices": [choice]}}
        lines.append(json.dumps({"custom_id": name, "response": response}))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("logprob", [None, -1.5])
@pytest.mark.parametrize("rows", [SAMPLES, SAMPLES[::-1]])
def test_samples_of_a_question_are_one_list(
    rows: tuple[tuple[str, str], ...], logprob: float | None, rescore: Run
) -> None:
    """Each text stays, with its score; a rank of a request is no score."""
    Path("b.jsonl").write_text(batch(rows, logprob))
    Path("gold").write_text("q-1 a\nq-2 b\nq-10 e\n")
    typed = ("--group-ids", r"(.*)-\d+", "--ref", "gold", "-o", "s.jsonl")
    done = rescore("convert", "b.jsonl", *typed)
    assert done.returncode == 0, done.stderr
    assert "unites 6 lists to 3 lists of 1 to 3 hypotheses" in done.stderr
    lists = read("s.jsonl")
    assert [(one.id, one.references) for one in lists] == [
        ("q-1", ("a",)),
        ("q-2", ("b",)),
        ("q-10", ("e",)),
    ]
    texts = [[one.text for one in nbest.hypotheses] for nbest in lists]
    assert texts == [["a", "a", "d"], ["b", "c"], ["e"]]
    scores = {one.scores["s2s"] for nbest in lists for one in nbest.hypotheses}
    assert scores == ({0.0} if logprob is None else {-1.5 - n for n in range(6)})


@pytest.mark.parametrize("scores", [(0.0, 0.0), (-1.5, -1.5), (-1.0, -2.0), (0.0,)])
def test_samples_are_told_where_the_set_is_taken_for_samples(
    scores: tuple[float, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lists = []
    for place, score in enumerate(scores):
        lists.append(NbestList(f"q-{place}", [Hypothesis("a", {"s2s": score})]))
    united = Dataset(grouped(lists, r"(.*)-\d+"))
    assert ("samples with equal scores" in caplog.text) is united.are_samples
    assert united.are_samples is (len(scores) > 1 and len(set(scores)) == 1)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(.*)-(", "'(.*)-(' is not a regular expression of RE2"),
        (".*", "the expression has no group"),
        ("(a+)+$", "utterance q-1-0: --group-ids (a+)+$ does not match it"),
    ],
)
def test_an_expression_that_groups_nothing_is_refused(
    pattern: str, message: str, rescore: Run
) -> None:
    Path("b.jsonl").write_text(batch(SAMPLES, None))
    done = rescore("convert", "b.jsonl", "--group-ids", pattern, "-o", "s.jsonl")
    assert_one_line_error(done, message)


def test_references_of_questions_say_how_samples_are_united(rescore: Run) -> None:
    Path("b.jsonl").write_text(batch(SAMPLES, None))
    for texts, told in (("q-1 a\nq-2 b\nq-10 e\n", True), ("q-1 a\nq-2 b\n", False)):
        Path("gold").write_text(texts)
        done = rescore("eval", "b.jsonl", "--ref", "gold")
        assert done.returncode == 2
        assert ("convert --group-ids '(.*)[-_][0-9]+'" in done.stderr) == told
