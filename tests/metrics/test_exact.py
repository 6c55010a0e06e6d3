"""The share of equal texts, answers taken out of texts, and majority votes."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.errors import UserError
from rescore.ids import by_number
from rescore.metrics import Normaliser, value
from rescore.metrics.exact import ExactMatch
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Run

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
            assert votes[chosen.partition("#")[2]] == max(votes.values())


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


def test_ids_that_differ_in_numbers_have_their_order() -> None:
    assert by_number(["r-10", "r-2", "r-1"]) == [2, 1, 0]
    assert by_number(["r-1-2", "r-1-1", "r-0-3"]) == [2, 1, 0]
    assert by_number(["b", "a", "c1"]) == [0, 1, 2]
    assert by_number(["b1", "a2"]) == [0, 1]
    assert by_number([]) == []


@pytest.mark.parametrize("scale", [None, "0", "0.5"])
@pytest.mark.parametrize("decide", ["best", "mbr"])
def test_the_scale_of_samples_is_advised_where_it_is_not_given(
    decide: str, scale: str | None, rescore: Run
) -> None:
    requests = [(f"r-{n}", [f"#### {n}", f"#### {n}", "no"]) for n in range(4)]
    Path("b.jsonl").write_text(batch(requests))
    Path("gold").write_text("".join(f"r-{n} #### {n}\n" for n in range(4)))
    typed = ["--ref", "gold", "--metric", "exact", "--decide", decide]
    if scale is not None:
        typed += ["--scale", scale]
    elif decide == "mbr":
        typed += ["--folds", "2"]
    done = rescore("b.jsonl", *typed)
    if decide == "best" and scale is not None:
        assert done.returncode == 2  # the best score has no scale
        return
    assert done.returncode == 0, done.stderr
    assert ("give --scale 0" in done.stderr) == (decide == "mbr" and scale is None)


def test_details_have_the_answers(rescore: Run) -> None:
    Path("b.jsonl").write_text(batch([("r-1", ["3 #### 3", "2 #### 2", "#### 2"])]))
    Path("gold").write_text("r-1 it is #### 2\n")
    typed = ["--ref", "gold", "--metric", "exact", "--answer", ANSWER]
    majority = ["--decide", "mbr", "--scale", "0", "--details", "d.jsonl"]
    assert rescore("b.jsonl", *typed, *majority).returncode == 0
    row = json.loads(Path("d.jsonl").read_text())
    names = ("reference_answer", "first_pass_answer", "chosen_answer")
    assert [row[name] for name in names] == ["2", "3", "2"]
