"""`--scores FILE` adds columns to lists: each hypothesis gets its own numbers by rank,
by text or in order, and a file that does not fit the lists is refused in one line.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rescore import UserError, formats, pipeline, read
from rescore.config import RunConfig
from rescore.nbest import Hypothesis, NbestList
from rescore.set_names import part_beside_set
from tests.conftest import Run, assert_one_line_error

TEXTS = {"u1": ["a b", "a c"], "u2": ["d", "e", "f"]}
KEYS = ("rank", "text", "order")
ENDINGS = (".csv", ".tsv", ".jsonl")


def value(identity: str, number: int) -> float:
    """The number of a hypothesis."""
    return -1.5 * number - int(identity[1:])


def rows(key: str) -> list[dict[str, Any]]:
    """The rows of a file of scores, which names hypotheses by a key."""
    every = []
    for identity, texts in TEXTS.items():
        for number, text in enumerate(texts, 1):
            row: dict[str, Any] = {"id": identity}
            if key != "order":
                row[key] = {"rank": number, "text": text}[key]
            row |= {"qe": value(identity, number), "judge": number / 2}
            every.append(row)
    if key != "order":
        every.reverse()
    return every


def write(name: str, some: list[dict[str, Any]]) -> str:
    """Write rows as CSV, TSV or JSON Lines."""
    if name.endswith(".jsonl"):
        lines = [json.dumps(row) for row in some]
    else:
        mark = "," if name.endswith(".csv") else "\t"
        lines = [mark.join(some[0])]
        lines += [mark.join(map(str, row.values())) for row in some]
    Path(name).write_text("\n".join([*lines, ""]))
    return name


@pytest.fixture(autouse=True)
def _lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    every = []
    for identity, texts in TEXTS.items():
        scored = []
        for number, text in enumerate(texts):
            scored.append(Hypothesis(text, {"s2s": -float(number)}))
        every.append(NbestList(identity, scored, (texts[-1],)))
    formats.write(every, "lists.jsonl")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("key", KEYS)
def test_each_hypothesis_gets_its_numbers(rescore: Run, key: str, ending: str) -> None:
    path = write(f"more{ending}", rows(key))
    by_python = read("lists.jsonl", scores=path)
    done = rescore("convert", "lists.jsonl", "--scores", path, "-o", "out.jsonl")
    assert done.returncode == 0, done.stderr
    for lists in (by_python, read("out.jsonl")):
        for nbest in lists:
            for number, hypothesis in enumerate(nbest.hypotheses, 1):
                scores = hypothesis.scores
                assert scores["qe"] == value(nbest.id, number)
                assert scores["judge"] == number / 2


def test_files_add_their_columns_one_after_another() -> None:
    first = write("a.csv", [{**row, "qe": 0.5} for row in rows("rank")])
    second = [{"id": row["id"], "rank": row["rank"], "kiwi": 2} for row in rows("rank")]
    (nbest, *_) = read("lists.jsonl", scores=[first, write("b.tsv", second)])
    assert [*nbest.hypotheses[0].scores] == ["s2s", "qe", "judge", "kiwi"]


def test_ids_are_matched_by_the_one_rule() -> None:
    some = [{**row, "id": f"data/{row['id']}.wav"} for row in rows("rank")]
    lists = read("lists.jsonl", scores=write("more.csv", some))
    assert lists[1].hypotheses[2].scores["qe"] == value("u2", 3)


def without(some: list[dict[str, Any]], place: int) -> list[dict[str, Any]]:
    return some[:place] + some[place + 1 :]


RANKS, BY_TEXT, ORDER = rows("rank"), rows("text"), rows("order")
FAULTS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "a hypothesis without a row": (
        without(RANKS, 1),
        ["more.csv: line 2", "no row for hypothesis 2 of lists.jsonl: utterance u2"],
    ),
    "a text without a row": (without(BY_TEXT, 1), ["no row for hypothesis 2", "'e'"]),
    "too few rows in order": (without(ORDER, 1), ["no row for hypothesis 2"]),
    "a row without a hypothesis": (
        [*RANKS, {**RANKS[0], "rank": 9}],
        ["more.csv: line 7", "lists.jsonl: utterance u2 has no such hypothesis"],
    ),
    "a list without rows": (RANKS[:3], ["more.csv: no scores for utterance u1"]),
    "rows without a list": (
        [*RANKS, {**RANKS[0], "id": "u7"}],
        ["more.csv: line 7: no list for 1 of its 3 utterances (u7)"],
    ),
    "a text twice": (
        [*BY_TEXT, {**BY_TEXT[0], "qe": 9.0}],
        ["more.csv: line 7", "'f' has other numbers than in more.csv: line 2"],
    ),
    "a rank twice": (
        [*RANKS, {**RANKS[0], "qe": 9.0}],
        ["more.csv: line 7", "the rank '3' has other numbers than in more.csv: line 2"],
    ),
    "a column of the lists": (
        [{**row, "s2s": 1.0} for row in RANKS],
        ["the name of the column s2s is reserved"],
    ),
    "a reserved name": (
        [{**row, "score": 1.0} for row in RANKS],
        ["more.csv: line 2: the name of the column score is reserved"],
    ),
    "no number": (
        [*RANKS[:-1], {**RANKS[-1], "qe": "high"}],
        ['more.csv: line 6: qe is "high", not a number'],
    ),
    "infinity": (
        [*RANKS[:-1], {**RANKS[-1], "qe": "inf"}],
        ["more.csv: utterance u1, hypothesis 1: score qe is inf"],
    ),
    "no ids": (
        [{"name": 1, "qe": 2.0}],
        ["no column of ids; each row needs", "--field id=NAME"],
    ),
    "ranks from 0": (
        [{**row, "rank": int(row["rank"]) - 1} for row in RANKS],
        ["rank 0; ranks begin at 1", "add 1 to each"],
    ),
    "no numbers": ([{"id": "u1", "rank": 1}], ["no column of numbers"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_does_not_fit_is_refused(rescore: Run, fault: str) -> None:
    some, parts = FAULTS[fault]
    path = write("more.csv", some)
    done = rescore("convert", "lists.jsonl", "--scores", path, "-o", "x.jsonl")
    assert_one_line_error(done, *parts)


def test_a_column_that_the_lists_have_is_refused() -> None:
    first = write("a.csv", rows("rank"))
    wanted = "b.csv: line 6: .*lists.jsonl: utterance u1 has a column qe already"
    with pytest.raises(UserError, match=wanted):
        read("lists.jsonl", scores=[first, write("b.csv", rows("rank"))])


def test_rows_of_other_lists_may_be_left_out(rescore: Run) -> None:
    path = write("more.csv", [*RANKS, {**RANKS[0], "id": "u7"}])
    options = ("--scores", path, "--allow-missing", "-o", "out.jsonl")
    done = rescore("convert", "lists.jsonl", *options)
    assert done.returncode == 0, done.stderr
    assert len(read("out.jsonl")) == 2


def test_a_text_that_stands_twice_with_the_same_numbers_is_one() -> None:
    lists = read("lists.jsonl", scores=write("more.csv", [*BY_TEXT, BY_TEXT[0]]))
    assert lists[1].hypotheses[2].scores["qe"] == value("u2", 3)


def test_the_columns_are_tuned_and_signed() -> None:
    """A file with other numbers makes another signature."""
    signatures = set()
    for factor in (1.0, 2.0):
        some = [{**row, "judge": factor * row["judge"] ** 2} for row in RANKS]
        lists = read("lists.jsonl", scores=write("more.csv", some))
        config = RunConfig(bagging=False)
        outcome = pipeline.run(lists, config, lists)
        assert {"qe", "judge"} <= outcome.weights.weights.keys()
        assert outcome.weights.weights["judge"] > 0
        signatures.add(str(outcome.results).rpartition("|lists:")[2])
    assert len(signatures) == 2


def test_dev_lists_have_files_of_their_own(rescore: Run) -> None:
    path = write("more.csv", RANKS)
    lists = ("lists.jsonl", "--dev", "lists.jsonl")
    given = ("--scores", path, "--dev-scores", path)
    done = rescore("run", *lists, *given, "--no-bagging", "--save-weights", "w.json")
    assert done.returncode == 0, done.stderr
    weights = json.loads(Path("w.json").read_text())["weights"]
    assert {"qe", "judge"} <= weights.keys()
    again = rescore("rerank", "lists.jsonl", "--weights", "w.json", "--scores", path)
    assert again.returncode == 0, again.stderr


def test_a_column_of_scores_becomes_the_first_pass(
    rescore: Run, tmp_path: Path
) -> None:
    hypotheses = [{"text": "a", "score": -1}, {"text": "b", "score": -2}]
    (tmp_path / "l.jsonl").write_text(json.dumps({"id": "u", "hyps": hypotheses}))
    (tmp_path / "qe.csv").write_text("id,rank,qe\nu,1,0.5\nu,2,0.75\n")
    (nbest,) = read(tmp_path / "l.jsonl", scores=tmp_path / "qe.csv", s2s="qe")
    assert [one.scores["s2s"] for one in nbest.hypotheses] == [0.5, 0.75]
    assert [one.scores["first"] for one in nbest.hypotheses] == [-1, -2]
    command = ("convert", "l.jsonl", "--scores", "qe.csv", "--s2s")
    done = rescore(*command, "qe")
    assert '"score": 0.75' in done.stdout
    assert_one_line_error(rescore(*command, "other"), "no score 'other'")


NUMBERS = [row["qe"] for row in rows("order")]


@pytest.mark.parametrize("path", ["test_qe.txt", "dev.qe.txt", "qe"])
def test_the_name_of_the_file_is_answered_with_the_column(
    path: str, rescore: Run
) -> None:
    """Of one number in each line: the name of the set is no part of the column."""
    Path(path).write_text("".join(f"{number}\n" for number in NUMBERS))
    asked = Path(path).stem
    done = rescore("convert", "lists.jsonl", "--scores", path, "--s2s", asked)
    if asked == "qe":
        assert done.returncode == 0, done.stderr
        return
    told = f"no score '{asked}' (found: qe, s2s; did you mean qe?)"
    assert_one_line_error(done, told, "choose another --s2s")
    (nbest, *_) = read("lists.jsonl", scores=path)
    with pytest.raises(UserError, match=re.escape(told)):
        nbest.column(asked)


@pytest.mark.parametrize(
    ("path", "first", "fields", "column", "sign"),
    [
        ("test.qe.txt", "", (), "qe", 1),
        ("qe.csv", "", (), "qe", 1),
        ("test.score.txt", "kiwi\n", (), "kiwi", 1),
        ("test.score.txt", "", ("--field", "qe=-score"), "qe", -1),
        ("qe", "", (), "qe", 1),
    ],
)
def test_a_number_in_each_line(
    path: str,
    first: str,
    fields: tuple[str, ...],
    column: str,
    sign: int,
    rescore: Run,
) -> None:
    """The first line or the name of the file names the column."""
    Path(path).write_text(first + "".join(f"{number}\n" for number in NUMBERS))
    typed = ("convert", "lists.jsonl", "--scores", path, *fields, "-o", "out.jsonl")
    done = rescore(*typed)
    assert done.returncode == 0, done.stderr
    numbers: list[float] = []
    for nbest in read("out.jsonl"):
        numbers += nbest.column(column)
    assert numbers == [sign * number for number in NUMBERS]


SETS = ("test", "dev", "valid", "test2", "DEV")
NAMES = {
    "{}.qe.txt": "qe",
    "{}_qe.txt": "qe",
    "{}-qe": "qe",
    "qe_{}.txt": "qe",
    "qe.{}.txt.gz": "qe",
    "logs/my.{}.qe_v2.csv": "qe_v2",
    "comet_kiwi_{}.txt": "comet_kiwi",
    "{}-comet-kiwi.txt": "comet-kiwi",
    "comet-{}_kiwi.txt": "comet_kiwi",
    "_{}_qe.txt": "qe",
    "qe.{}_.txt": "qe",
    "{}.txt": "",
    "{}": "",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_set_is_no_part_of_a_column(name: str) -> None:
    """Files of dev and of test that are called alike have one column."""
    assert {part_beside_set(name.format(of_set)) for of_set in SETS} == {NAMES[name]}


@pytest.mark.parametrize("name", ["{}_qe.txt", "qe.{}.txt", "{}.txt"])
def test_numbers_of_test_and_dev_have_one_column(name: str, rescore: Run) -> None:
    Path("ref.txt").write_text("u1 an owl\nu2 it flew\n")
    for of_set in ("test", "dev"):
        text = "".join(f"{number}\n" for number in NUMBERS)
        Path(name.format(of_set)).write_text(text)
    command = [
        "run",
        "lists.jsonl",
        "--ref",
        "ref.txt",
        "--scores",
        name.format("test"),
    ]
    dev = ["--dev", "lists.jsonl", "--dev-ref", "ref.txt", "--dev-scores"]
    done = rescore(*command, *dev, name.format("dev"))
    assert done.returncode == 0, done.stderr
    (nbest, _) = read("lists.jsonl", scores=name.format("test"))
    said = "no score 'other' .found: .* the first line names the column other"
    with pytest.raises(UserError, match=said):
        nbest.column("other")


@pytest.mark.parametrize("parts", [[(10, 2, 0)], [(10, 2), (11, 0)]])
def test_numbers_have_the_order_of_a_log_whose_sentences_are_sorted(
    parts: list[tuple[int, ...]],
) -> None:
    """The parts of a set stand in a folder."""
    numbers = ""
    Path("logs").mkdir()
    for number, sentences in enumerate(parts):
        log = ""
        for sentence in sentences:
            log += f"H-{sentence}\t-0.5\tan owl\nH-{sentence}\t-1\ta cowl\n"
            numbers += f"{sentence}.1\n{sentence}.2\n"
        Path(f"logs/part{number}.log").write_text(log)
    Path("test.qe.txt").write_text(numbers)
    lists = read("logs" if len(parts) > 1 else "logs/part0.log", scores="test.qe.txt")
    ids = [nbest.id for nbest in lists]
    assert ids == [str(one) for sentences in parts for one in sorted(sentences)]
    for nbest in lists:
        assert nbest.column("qe") == [float(f"{nbest.id}.{n}") for n in (1, 2)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1\n2\n3\n", ["qe.txt: 3 numbers for 5 hypotheses of 2 lists"]),
        ("qe\n1\n", ["qe.txt: 1 number for 5 hypotheses"]),
        ("u1,0.9432\nu1,0.1\n", ["line 1: has no names of columns (u1, 0.9432)"]),
        ("1\n2\n3\n4\nx\n", ["qe.txt: line 5: qe is", "not a number"]),
        ("score\n1\n", ["column score is reserved", "--field qe=score"]),
    ],
)
def test_numbers_that_do_not_fit_are_refused(
    text: str, parts: list[str], rescore: Run
) -> None:
    Path("qe.txt").write_text(text)
    done = rescore("convert", "lists.jsonl", "--scores", "qe.txt")
    assert_one_line_error(done, *parts)


def test_numbers_without_ids_are_not_for_lists_that_are_united(rescore: Run) -> None:
    Path("qe.txt").write_text("1\n" * 5)
    Path("b.jsonl").write_text(Path("lists.jsonl").read_text())
    typed = ("convert", "lists.jsonl", "b.jsonl", "--merge", "--scores", "qe.txt")
    done = rescore(*typed)
    assert done.returncode == 2 and "qe.txt: has no ids, and --merge" in done.stderr
