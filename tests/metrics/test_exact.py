"""The share of equal texts, answers taken out of texts, and majority votes."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rescore import formats, read
from rescore.asr.systems import combined
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.errors import UserError
from rescore.ids import by_number
from rescore.metrics import Normaliser, value
from rescore.metrics.exact import ExactMatch
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.figures import Figures
from rescore.tuning import Weights
from tests.conftest import Run, assert_one_line_error

ANSWER = r"#### (-?[\d.,]*\d)"


def batch(requests: Sequence[tuple[str, Sequence[str]]]) -> str:
    """The output file of an OpenAI batch."""
    lines = []
    for name, texts in requests:
        choices = []
        for index, text in enumerate(texts):
            choices.append({"index": index, "message": {"content": text}})
        body = {"object": "chat.completion", "choices": choices}
        response = {"status_code": 200, "body": body}
        lines.append(json.dumps({"custom_id": name, "response": response}))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("pattern", "text", "answer"),
    [
        (ANSWER, "It is 3.\n#### 3\nNo:\n#### -1,200.5.", "-1,200.5"),
        (r"-?[\d.,]*\d", "3 and 4 are 7.", "7"),
        ("(?m)^A: (.*)$", "Q: why\nA: an [old] owl\nA: an (", "an ("),
        ("(yes)|no", "yes, no", ""),
        (ANSWER + r"|^(-?[\d.,]*\d)$", "12", "12"),
        (ANSWER + r"|^(-?[\d.,]*\d)$", "5 and 6 are 11 #### 11", "11"),
        ("A: (.*)|B: (.*)", "A: an owl\nB: a cowl", "a cowl"),
        (ANSWER, "nothing", ""),
    ],
)
def test_the_last_match_is_the_answer(pattern: str, text: str, answer: str) -> None:
    """The lines of a text are as they were written, and other steps come later."""
    assert " ".join(Normaliser(answer=pattern)(text)) == answer
    more = Normaliser(answer=pattern, replace=None, nfkc=True, split_hyphens=True)
    assert more.settings["answer"] == pattern


def test_no_answer_is_never_right() -> None:
    plain = ExactMatch()
    texts = ["An owl", "an  owl", "a cowl", ""]
    references = [("a bird", "an owl"), ("an owl",), ("an owl",), ("",)]
    rows = plain.statistics(texts, references)
    assert rows[:, 0].tolist() == [1, 1, 0, 1]
    assert value(plain, rows.sum(axis=0)) == 75.0
    answers = ExactMatch(normaliser=Normaliser(answer="#(.*)"))
    assert not answers.statistics(["none"], [("none",)])[0, 0]
    assert (
        ErrorRate(normaliser=answers.words).statistics(["#a"], [("x #a",)])[0, 0] == 0
    )


EQUAL_NUMBERS = (
    ("12.5", "12.50", "+12.5", "$12.5", "012.500"),
    ("1000", "1,000", "1,000.00", "$1,000", "1000."),
    ("-3", "\u22123", "-$3", "$-3.0", "-3."),
    ("0", "-0", "0.0", ".0", "00"),
    ("100000", "1,00,000", "100,000"),
    ("0.1", ".1", ".10"),
    (f"1{'0' * 40}.1", f"1{'0' * 40}.10"),
    (f"1{'0' * 40}.2",),
    ("50%",),
    ("50",),
    ("5.0.0",),
    ("1,5",),
    ("15",),
    ("1/2",),
    ("--3",),
    (".",),
    ("$",),
    ("abc",),
    ("3 4",),
    ("34",),
)
"""Each row has the ways to write one answer."""


def test_answers_that_are_equal_numbers_are_equal() -> None:
    """Without --answer, texts are compared as they are written."""
    metric = ExactMatch(normaliser=Normaliser(answer="#(.*)"))
    plain = ExactMatch()
    every = [(row, f"#{text}") for row in EQUAL_NUMBERS for text in row]
    texts = [text for _, text in every]
    places = np.arange(len(texts))
    losses = metric.pair_losses(texts)(places, places)
    for place, (row, text) in enumerate(every):
        equal = [other == row for other, _ in every]
        assert (losses[place] == 0).tolist() == equal, text
        rows = metric.statistics(texts, [(text,)] * len(texts))
        assert rows[:, 0].tolist() == equal, text
        as_written = plain.statistics(texts, [(text,)] * len(texts))
        assert as_written[:, 0].sum() == 1, text
    assert metric.settings["num"] == "decimal" and "num" not in plain.settings


@pytest.mark.parametrize("number", [4, 1, 0])
def test_a_text_without_an_answer_is_shown(number: int, rescore: Run) -> None:
    """The advice keeps the user's expression, and works for all references."""
    long = "They think about it again and again, " * 3
    requests = [
        (f"r-{n}", [f"It is #### {n}", f"{long}so I give up"]) for n in range(4)
    ]
    Path("b.jsonl").write_text(batch(requests))
    gold = [f"r-{n} {'' if n < number else '#### '}{n}\n" for n in range(4)]
    Path("gold").write_text("".join(gold))
    typed = ["eval", "b.jsonl", "--ref", "gold", "--metric", "exact", "--answer"]
    done = rescore(*typed, ANSWER)
    assert "4 of 8 texts" in done.stderr
    assert " again, so I give up'" in done.stderr and long not in done.stderr
    assert (": '0'" in done.stderr) == (number > 0)
    advised = re.search(r"plain numbers, give '(.*)'$", done.stderr, re.MULTILINE)
    assert bool(advised) == (number > 0)
    if advised:
        assert advised[1].startswith(f"{ANSWER}|")
        assert "100.00" in rescore(*typed, advised[1]).stdout


def test_no_advice_is_given_that_does_not_help(rescore: Run) -> None:
    Path("b.jsonl").write_text(batch([("r-1", ["#### 3"]), ("r-2", ["#### 4"])]))
    Path("gold").write_text("r-1 3\nr-2 four\n")
    typed = ["eval", "b.jsonl", "--ref", "gold", "--metric", "exact", "--answer"]
    done = rescore(*typed, ANSWER)
    assert "a reference without a match: '3'" in done.stderr
    assert "plain numbers" not in done.stderr


def test_losses_of_pairs_are_those_of_statistics() -> None:
    texts = ["#a", "x #a", "#b", "none", "no"]
    metric = ExactMatch(normaliser=Normaliser(answer="#(.*)"))
    places = np.arange(len(texts))
    expected = []
    for text in texts:
        rows = metric.statistics([text] * len(texts), [(other,) for other in texts])
        expected.append(metric.losses(rows).tolist())
    assert metric.pair_losses(texts)(places, places).tolist() == expected


def test_mbr_is_the_majority_vote() -> None:
    """Texts without an answer have no vote; of equal numbers the first wins."""
    draw = random.Random(5)
    metric = ExactMatch(normaliser=Normaliser(answer="#(.*)"))
    for number in range(50):
        texts = []
        for place in range(draw.randint(1, 9)):
            answer = draw.choice(["", "", "#1", "#2", "#3"])
            texts.append(f"step {draw.randint(1, 2)} {place % 3} {answer}")
        votes = Counter(text.partition("#")[2] for text in texts if "#" in text)
        hypotheses = [
            Hypothesis(text, {"s2s": -float(rank)}) for rank, text in enumerate(texts)
        ]
        nbest = NbestList(str(number), hypotheses)
        (chosen,) = Choice({"s2s": 1.0}, decision=Decision("mbr", 0.0)).texts(
            metric, Dataset.of([nbest])
        )
        if votes:
            most = [name for name in votes if votes[name] == max(votes.values())]
            assert chosen.partition("#")[2] == most[0]


ORDERS = (("z #1", "a #2", "m #1", "b #2"), ("b #2", "m #1", "z #1", "a #2"))
"""Two answers with two votes each."""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("scale", [0.0, 0.5])
@pytest.mark.parametrize("decide", ["mbr", "rover"])
def test_of_equal_majorities_the_first_in_the_file_wins(
    decide: str, scale: float, order: Sequence[str]
) -> None:
    """The samples have equal scores, so the scale changes nothing."""
    metric = ExactMatch(normaliser=Normaliser(answer="#(.*)"))
    texts = list(order)
    if decide == "rover":  # it votes on words
        metric = ExactMatch()
        texts = [text.partition("#")[2] for text in order]
    nbest = NbestList("u", [Hypothesis(text, {"s2s": -2.5}) for text in texts])
    choice = Choice({"s2s": 1.0}, decision=Decision(decide, scale))
    assert choice.texts(metric, Dataset([nbest])) == texts[:1]


@pytest.mark.parametrize("order", ORDERS)
def test_of_equal_majorities_the_better_score_wins(order: Sequence[str]) -> None:
    metric = ExactMatch(normaliser=Normaliser(answer="#(.*)"))
    scores = {"z #1": -3.0, "a #2": -4.0, "m #1": -2.0, "b #2": -1.0}
    nbest = NbestList("u", [Hypothesis(text, {"s2s": scores[text]}) for text in order])
    choice = Choice({"s2s": 1.0}, decision=Decision("mbr", 0.0))
    assert choice.texts(metric, Dataset([nbest])) == ["b #2"]


def test_an_answer_is_a_regular_expression(rescore: Run, tmp_path: Path) -> None:
    Path("l.jsonl").write_text('{"id": "u1", "ref": "a", "hyps": [{"text": "a"}]}\n')
    done = rescore("eval", "l.jsonl", "--answer", "(")
    assert done.returncode == 2 and "--answer: (: missing )" in done.stderr
    with pytest.raises(UserError, match="expected a regular expression"):
        Normaliser(answer="(")("a")
    done = rescore("eval", "l.jsonl", "--answer", "b", "--metric", "bleu")
    assert done.returncode == 2 and "--answer" in done.stderr


@pytest.mark.parametrize("shuffled", [False, True])
def test_from_a_batch_to_a_majority_vote(
    shuffled: bool, rescore: Run, tmp_path: Path
) -> None:
    """Plain outputs have the order of the requests, and no message is about scores
    that the file lacks.
    """
    requests = []
    answers = []
    for number in range(1, 13):
        texts = [f"So #### {number}", f"#### {number + 1}", "no", f"Well #### {number}"]
        requests.append((f"request-{number}", [texts[1], *texts, texts[0]]))
        answers.append(f"request-{number} #### {number}")
    if shuffled:
        random.Random(3).shuffle(requests)
    Path("b.jsonl").write_text(batch(requests))
    Path("gold").write_text("\n".join(answers) + "\n")
    typed = ["--ref", "gold", "--metric", "exact", "--answer", ANSWER]
    done = rescore(
        *("b.jsonl", *typed, "--decide", "mbr", "--scale", "0", "--best", "out.txt")
    )
    assert done.returncode == 0, done.stderr
    assert "different scores" not in done.stderr
    assert "give --scale 0" not in done.stderr
    assert "exact of one hypothesis, as the mean of all: 50.00" in done.stderr
    assert "12 of 72 texts and 0 of 12 references have no match" in done.stderr
    rows = [line.split()[:3] for line in done.stdout.splitlines()]
    assert ["reranked", "100.00", "100.00-100.00"] in rows
    lines = Path("out.txt").read_text().splitlines()
    assert [line.split()[-1] for line in lines] == [str(n) for n in range(1, 13)]


@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (1, 5), (7, 16, 2), (17, 3)])
def test_the_mean_of_samples_is_that_of_each_list(sizes: Sequence[int]) -> None:
    """A list counts once, for any number of samples, as in the intervals of other rows.
    Where the samples of each list are equal, the row is the row of the first sample.
    """
    draw = random.Random(len(sizes))
    mixed, equal = [], []
    means = []
    for number in range(24):
        size = sizes[number % len(sizes)]
        texts = [draw.choice("ab") for _ in range(size)]
        means.append(100 * texts.count("a") / size)
        for lists, own in ((mixed, texts), (equal, texts[:1] * size)):
            hypotheses = [Hypothesis(text, {"s2s": 0.0}) for text in own]
            lists.append(NbestList(f"u{number}", hypotheses, ("a",)))
    row = Figures(ExactMatch(), Dataset.of(mixed)).mean_of_samples()
    figures = Figures(ExactMatch(), Dataset.of(equal))
    of_equal = figures.mean_of_samples()
    if max(sizes) == 1:
        assert row is of_equal is None
        return
    assert row is not None and of_equal is not None
    assert row.value == pytest.approx(np.mean(means), abs=1e-5)
    assert row.counts["texts"] == sum(len(nbest.hypotheses) for nbest in mixed)
    assert row.interval is not None and row.interval[0] < row.value < row.interval[1]
    first = figures.row("first", figures.at([0] * len(equal)))
    assert of_equal.value == pytest.approx(first.value)
    assert of_equal.interval == pytest.approx(first.interval)


def test_other_lists_have_no_mean_of_samples() -> None:
    """Several systems have equal texts once; and WER is no share of texts."""
    texts = ("a", "b", "a")
    lists = []
    for text in texts:
        lists.append([NbestList("u", [Hypothesis(text, {"s2s": 0.0})], ("a",))])
    together = Dataset.of(list(combined(dict(zip("xyz", lists, strict=True)))))
    assert Figures(ExactMatch(), together).mean_of_samples() is None
    hypotheses = [Hypothesis(text, {"s2s": 0.0}) for text in texts]
    alone = Dataset.of([NbestList("u", hypotheses, ("a",))])
    assert Figures(ExactMatch(), alone).mean_of_samples() is not None
    assert Figures(ErrorRate(), alone).mean_of_samples() is None


@pytest.mark.parametrize("command", ["eval", "run"])
def test_check_compares_the_mean_of_samples(command: str, rescore: Run) -> None:
    for name, texts in (("golden", "abab"), ("now", "abbb")):
        lists = []
        for number in range(8):
            hypotheses = [Hypothesis(text, {"s2s": 0.0}) for text in texts]
            lists.append(NbestList(f"u{number}", hypotheses, ("a",)))
        formats.write(lists, "l.jsonl")
        typed = ("l.jsonl", "--metric", "exact", "--report", f"{name}.json")
        done = rescore(command, *typed)
        assert done.returncode == 0, done.stderr
        mean = {"golden": "50.00", "now": "25.00"}[name]
        assert f"as the mean of all: {mean} (95 % CI {mean}-{mean})" in done.stderr
    done = rescore("check", "now.json", "--golden", "golden.json")
    name = "mean_of_samples" if command == "run" else "l.jsonl (exact, mean of samples)"
    assert done.stdout.endswith(f"FAILED: {name}\n"), done.stdout


ROADS = (
    "run l.jsonl",
    "run l.jsonl --folds 2",
    "run l.jsonl --metric bleu",
    "tune l.jsonl -o w.json",
    "rerank l.jsonl --weights w.json",
    "confidence l.jsonl -o c.jsonl",
)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("metric", ["exact", "wer"])
def test_answers_have_no_vote_by_words(metric: str, road: str, rescore: Run) -> None:
    """The texts of rover have no answers: each would be wrong."""
    lists = []
    for number in range(4):
        texts = ["so #### 1", "well #### 1", "#### 2"]
        hypotheses = [Hypothesis(text, {"s2s": 0.0}) for text in texts]
        lists.append(NbestList(f"u{number}", hypotheses, ("#### 1",)))
    formats.write(lists, "l.jsonl")
    Weights({"s2s": 1.0}).save("w.json")
    without_scale = (*road.split(), "--metric", metric, "--decide")
    command = (*road.split(), "--metric", metric, "--scale", "1", "--decide")
    for typed in (without_scale, command):  # no scale is asked for in vain
        done = rescore(*typed, "rover", "--answer", ANSWER)
        assert_one_line_error(done, "--answer", "rover", "give --decide mbr")
    for typed in (("mbr", "--answer", ANSWER), ("rover",)):
        done = rescore(*command, *typed)
        assert done.returncode == 0, done.stderr


def test_ids_that_differ_in_numbers_have_their_order() -> None:
    assert by_number(["r-10", "r-2", "r-1"]) == [2, 1, 0]
    assert by_number(["r-1-2", "r-1-1", "r-0-3"]) == [2, 1, 0]
    assert by_number(["b", "a", "c1"]) == [0, 1, 2]
    assert by_number(["b1", "a2"]) == [0, 1]
    assert by_number([]) == []


@pytest.mark.parametrize("scale", [None, "0", "0.5"])
@pytest.mark.parametrize("decide", ["best", "mbr"])
def test_scale_0_is_advised_for_lists_with_an_order(
    decide: str, scale: str | None, rescore: Run
) -> None:
    """Records without scores may be samples or not."""
    lists = []
    for n in range(4):
        texts = [f"#### {n}", f"#### {n}", "no"]
        lists.append(json.dumps({"id": f"r-{n}", "hyps": texts, "ref": texts[0]}))
    Path("l.jsonl").write_text("\n".join(lists) + "\n")
    typed = ["--metric", "exact", "--decide", decide]
    if scale is not None:
        typed += ["--scale", scale]
    elif decide == "mbr":
        typed += ["--folds", "2"]
    done = rescore("l.jsonl", *typed)
    if decide == "best" and scale is not None:
        assert done.returncode == 2  # the best score has no scale
        return
    assert done.returncode == 0, done.stderr
    assert ("give --scale 0" in done.stderr) == (decide == "mbr" and scale is None)


@pytest.fixture
def two_forms(rescore: Run) -> tuple[str, str]:
    """Samples as choices of one request, and as a request for each."""
    draw = random.Random(7)
    choices: list[tuple[str, list[str]]] = []
    requests: list[tuple[str, list[str]]] = []
    gold = []
    for number in range(20):
        answers = draw.choices([number % 3, number % 3, 5, 6], k=5)
        texts = [f"So #### {answer}" for answer in answers]
        choices.append((f"r-{number}", texts))
        requests += [(f"r-{number}-{n}", [text]) for n, text in enumerate(texts)]
        gold.append(f"r-{number} #### {number % 3}\n")
    Path("choices.jsonl").write_text(batch(choices))
    Path("requests.jsonl").write_text(batch(requests))
    Path("gold").write_text("".join(gold))
    typed = ["--group-ids", "(.*)-[0-9]+", "-o", "grouped.jsonl"]
    done = rescore("convert", "requests.jsonl", *typed)
    assert "of 5 hypotheses, samples with equal scores" in done.stderr
    return "choices.jsonl", "grouped.jsonl"


@pytest.mark.parametrize("scale", ["--scale 0", "--scale 1", "--folds 2"])
def test_both_forms_of_samples_have_the_same_figures(
    scale: str, two_forms: tuple[str, str], rescore: Run
) -> None:
    """References are equal, so that hypotheses alone tell the lists apart."""
    typed = ["--ref", "gold", "--metric", "exact", "--answer", ANSWER]
    tables = []
    for path in two_forms:
        done = rescore(path, *typed, "--decide", "mbr", *scale.split())
        assert done.returncode == 0, done.stderr
        for told in ("different scores", "give --scale 0", "ranks them"):
            assert told not in done.stderr
        tables.append(done.stdout)
        told = "20 lists have samples without scores"
        assert (told in done.stderr) is (path == "choices.jsonl")
    assert tables[0] == tables[1] and "p = " in tables[0]


def test_samples_without_scores_have_no_order(
    two_forms: tuple[str, str], rescore: Run
) -> None:
    for path in two_forms:
        for nbest in read(path):
            assert nbest.column("s2s") == [0.0] * 5
        done = rescore(path, "--ref", "gold", "--decide", "mbr")
        assert done.returncode == 2
        assert "needs a scale: --scale 0 for samples with equal" in done.stderr
        done = rescore(path, "--ref", "gold", "--lm", "tta")
        assert done.returncode == 2
        assert "have equal first-pass scores, and the weight" in done.stderr
    done = rescore(two_forms[0], "--s2s", "rank", "--ref", "gold")
    assert "samples without scores" not in done.stderr
    (nbest, *_) = read(two_forms[0], s2s="rank")
    assert nbest.column("s2s")[1] == pytest.approx(-0.6931472)
    assert nbest.column_names == ["s2s"]


def test_details_have_the_answers(rescore: Run) -> None:
    Path("b.jsonl").write_text(batch([("r-1", ["3 #### 3", "2 #### 2", "#### 2"])]))
    Path("gold").write_text("r-1 it is #### 2\n")
    typed = ["--ref", "gold", "--metric", "exact", "--answer", ANSWER]
    majority = ["--decide", "mbr", "--scale", "0", "--details", "d.jsonl"]
    assert rescore("b.jsonl", *typed, *majority).returncode == 0
    row = json.loads(Path("d.jsonl").read_text())
    names = ("reference_answer", "first_pass_answer", "chosen_answer")
    assert [row[name] for name in names] == ["2", "3", "2"]


@pytest.mark.parametrize("form", ["lines", "list"])
def test_saved_answers_are_lists_of_samples(form: str, rescore: Run) -> None:
    answers = []
    for line in batch([("r-1", ["#### 1", "#### 2"]), ("r-2", ["#### 2"])]).split("\n"):
        if line:
            value = json.loads(line)
            answers.append({"id": value["custom_id"], **value["response"]["body"]})
    text = json.dumps(answers, indent=2)
    if form == "lines":
        text = "".join(f"{json.dumps(answer)}\n" for answer in answers)
    Path("a.json").write_text(text)
    lists = read("a.json")
    assert [nbest.id for nbest in lists] == ["r-1", "r-2"]
    assert [one.text for one in lists[0].hypotheses] == ["#### 1", "#### 2"]
    assert lists[0].column("s2s") == [0.0, 0.0]
    Path("gold").write_text("r-1 #### 1\nr-2 #### 2\n")
    done = rescore("eval", "a.json", "--ref", "gold", "--metric", "exact")
    assert "100.00" in done.stdout, done.stderr
