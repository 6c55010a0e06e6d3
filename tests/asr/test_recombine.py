"""Combinations of what hypotheses have in different places."""

from __future__ import annotations

import json
import time
import tracemalloc
from dataclasses import replace
from itertools import combinations as subsets
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore import formats
from rescore.asr.features import RECOMBINED
from rescore.asr.recombine import (
    RIDGE,
    Edit,
    combinations,
    edits_between,
    estimate,
    recombine,
)
from rescore.columns import FIRST_PASS_ORIGIN
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import ROOT, Run, assert_one_line_error, read_report, some_lists
from tests.lms.test_ngram import ARPA

TEXTS = st.lists(st.text("abc", min_size=1, max_size=1), min_size=1, max_size=6)


def listed(*texts: tuple[str, float]) -> NbestList:
    return NbestList(
        "u", [Hypothesis(text, {"s2s": score}) for text, score in texts], ("x",)
    )


def test_an_example() -> None:
    """Two places, each with an alternative in one hypothesis: both together are new,
    and their losses add up.
    """
    found = recombine(
        listed(
            ("the old clock ticked", -1.0),
            ("an old clock ticked", -2.0),
            ("the old clock sticked", -3.0),
        )
    )
    assert [h.origin for h in found.hypotheses] == [
        *[FIRST_PASS_ORIGIN] * 3,
        RECOMBINED,
    ]
    new = found.hypotheses[-1]
    assert new.text == "an old clock sticked" and new.scores["s2s"] == pytest.approx(
        -4.0, abs=0.2
    )
    assert [h.text for h in found.hypotheses[:3]] == [
        "the old clock ticked",
        "an old clock ticked",
        "the old clock sticked",
    ]


@given(TEXTS, TEXTS)
def test_edits_lead_to_the_other(best: list[str], other: list[str]) -> None:
    from rescore.asr.recombine import _apply

    assert _apply(best, edits_between(best, other)) == tuple(other)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.data())
def test_against_all_subsets_of_edits(
    texts: list[list[str]], data: st.DataObject
) -> None:
    """A wide beam finds the combinations that trying all subsets finds."""
    scores = np.array([data.draw(st.floats(-9, 0)) for _ in texts])
    top = int(scores.argmax())
    sets = [edits_between(texts[top], other) for other in texts]
    edits = sorted(set().union(*sets))
    gains = dict(
        zip(edits, estimate(sets, edits, scores - scores[top]).tolist(), strict=True)
    )

    def fit(chosen: tuple[Edit, ...]) -> bool:
        return all(b.start >= a.end and b[:2] != a[:2] for a, b in pairwise(chosen))

    every = [c for n in range(len(edits) + 1) for c in subsets(edits, n) if fit(c)]
    expected = sorted(
        (scores[top] + sum(gains[e] for e in c) for c in every), reverse=True
    )[:50]
    found = [score for score, _ in combinations(texts, scores, 2000)][:50]
    assert found == pytest.approx(expected)


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=9),
    st.data(),
)
def test_estimates_are_those_of_ridge_regression(
    rows: list[list[bool]], data: st.DataObject
) -> None:
    """With fewer edits than hypotheses as with more."""
    edits = [Edit(place, place + 1, ("x",)) for place in range(4)]
    sets = [
        [edit for edit, chosen in zip(edits, row, strict=True) if chosen]
        for row in rows
    ]
    differences = np.array([data.draw(st.floats(-9, 0)) for _ in rows])
    has = np.array(rows, dtype=float)
    if not has.any():
        assert estimate(sets, edits, differences).tolist() == [0.0] * 4
        return
    mean = min(0.0, differences.sum() / has.sum())
    inverse = np.linalg.inv(has.T @ has + RIDGE * np.eye(4))
    expected = mean + inverse @ has.T @ (differences - has.sum(axis=1) * mean)
    assert estimate(sets, edits, differences) == pytest.approx(
        np.minimum(expected, 0.0), abs=1e-9
    )


def test_long_lists_of_long_hypotheses() -> None:
    """300 of 300 words, which differ in 8,700 places: the matrix of all pairs of these
    alone would take 600 MB.
    """
    random = np.random.default_rng(0)
    best = [f"w{word}" for word in random.integers(0, 2000, 300)]
    texts = []
    for _ in range(300):
        words = list(best)
        for place in random.integers(0, 300, 30):
            words[place] = f"v{random.integers(0, 5000)}"
        texts.append((" ".join(words), -float(random.random() * 50)))
    tracemalloc.start()
    began = time.process_time()
    found = recombine(listed(*texts), 20)
    took, (_, most) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # slow while it is traced
    assert len(found.hypotheses) == 320 and most < 200e6 and took < 30, (most, took)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(0, 8))
def test_what_was_there_stays(texts: list[list[str]], number: int) -> None:
    nbest = listed(
        *((" ".join(words), -float(rank)) for rank, words in enumerate(texts))
    )
    found = recombine(nbest, number)
    assert [h.text for h in found.hypotheses[: len(texts)]] == [
        h.text for h in nbest.hypotheses
    ]
    new = found.hypotheses[len(texts) :]
    assert len(new) <= number and len(
        {h.text for h in new} - {h.text for h in nbest.hypotheses}
    ) == len(new)
    # never above the best: the first pass stays what it is
    assert all(h.scores["s2s"] <= 0.0 for h in new)


def test_through_the_command_line(rescore: Run, tmp_path: Path) -> None:
    lists = some_lists(tmp_path, "test", 30)

    def figures(*arguments: str | Path) -> tuple[float, float, float | None]:
        assert rescore(*arguments, "--report", "r.json").returncode == 0
        report = read_report(tmp_path / "r.json")
        return report["first_pass"], report["oracle"], report["own_oracle"]

    plain = figures(lists)
    recombined = figures(lists, "--recombine", "20", "-o", "more.json")
    assert (
        recombined[0] == plain[0]
        and recombined[1] < plain[1] == recombined[2]
        and plain[2] is None
    )
    more = formats.read([tmp_path / "more.json"])
    new = [h for one in more for h in one.hypotheses if h.origin == RECOMBINED]
    assert len(new) > len(more)
    formats.write(more, str(tmp_path / "as-if-given.jsonl"))
    assert figures("as-if-given.jsonl") == recombined  # files keep origins
    lm = ("--lm", f"tta:{ROOT / 'models' / 'tta-small'}")
    assert (
        rescore("score", lists, *lm, "--recombine", "5", "-o", "l.jsonl").returncode
        == 0
    )
    scored = formats.read([tmp_path / "l.jsonl"])
    assert any(h.origin == RECOMBINED for one in scored for h in one.hypotheses)
    assert all("tta" in h.scores for one in scored for h in one.hypotheses)
    assert_one_line_error(
        rescore("tune", "l.jsonl", "--recombine", "5"),
        "recombine lists before they are scored",
    )


def test_the_oracle_is_that_of_any_order(rescore: Run, tmp_path: Path) -> None:
    """That of all hypotheses and that of the toolkit's own, wherever in the file these
    stand.
    """
    nbest = listed(
        ("the old clock ticked", -1.0),
        ("an old clock ticked", -2.0),
        ("the old clock sticked", -3.0),
    )
    found = replace(recombine(nbest), references=("an old clock sticked",))
    turned = replace(found, hypotheses=found.hypotheses[::-1])
    (tmp_path / "w.json").write_text('{"weights": {"s2s": 1}}', encoding="utf-8")
    for name, one in (("l", found), ("t", turned)):
        formats.write([one], str(tmp_path / f"{name}.jsonl"))
    given = [read_figures(rescore, tmp_path, f"{name}.jsonl") for name in "lt"]
    # the toolkit's own have one word of four wrong
    assert given[0] == given[1] and given[0][:2] == (0.0, 25.0)
    only = replace(found, hypotheses=found.hypotheses[-1:])
    formats.write([only], str(tmp_path / "only.jsonl"))
    # nothing else is there
    assert read_figures(rescore, tmp_path, "only.jsonl")[:2] == (0.0, None)


def read_figures(
    rescore: Run, folder: Path, lists: str
) -> tuple[float, float | None, list[object], str]:
    """The oracle by three commands, that of the toolkit's own, and the curve by
    depth.
    """
    assert (
        rescore("rerank", lists, "--weights", "w.json", "--report", "r.json").returncode
        == 0
    )
    report = read_report(folder / "r.json")
    measured = json.loads(rescore("eval", lists, "--report", "-").stdout)
    assert (
        rescore("analyse", lists, "--weights", "w.json", "-o", "a.json").returncode == 0
    )
    analysis = json.loads((folder / "a.json").read_text(encoding="utf-8"))
    return (
        report["oracle"],
        report["own_oracle"],
        analysis["by_depth"],
        measured["systems"][0]["oracle"],
    )


def test_scores_of_models_would_be_missing() -> None:
    with pytest.raises(UserError, match="has scores tta already"):
        recombine(NbestList("u", [Hypothesis("a", {"s2s": 0.0, "tta": -1.0})]))
    assert len(recombine(listed(("a b", float("-inf")), ("a", -1.0))).hypotheses) == 2


def test_the_norm_stays(rescore: Run, tmp_path: Path) -> None:
    """fairseq's scores are means: so are those of the LM, also where hypotheses without
    sums are new.
    """
    lines = ["S-0\tx", "T-0\ta b c"]
    for rank, text in enumerate(("a b c", "d b c", "a b e")):
        lines += [f"H-0\t-{rank + 1}\t{text}", "P-0\t-1 -1 -1 -1"]
    (tmp_path / "log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    done = rescore(
        "score", "log", "--lm", "ngram:lm.arpa", "--recombine", "5", "-o", "l.jsonl"
    )
    assert done.returncode == 0, done.stderr
    (found,) = formats.read([tmp_path / "l.jsonl"])
    assert len(found.hypotheses) == 4 and all(
        "ngram" in one.scores for one in found.hypotheses
    )
    assert found.header.records["ngram"].norm == "mean"
    # And where the result is read again.
    assert (
        rescore(
            "score", "l.jsonl", "--lm", "ngram:lower:lm.arpa", "-o", "m.jsonl"
        ).returncode
        == 0
    )
    assert (
        formats.read([tmp_path / "m.jsonl"])[0].header.records["ngram:lower"].norm
        == "mean"
    )


def test_features_of_toolkits_are_no_obstacle(rescore: Run, tmp_path: Path) -> None:
    lines = [
        f"0 ||| {text} ||| LM0= -1 ||| -{rank + 1}"
        for rank, text in enumerate(("a b c", "d b c", "a b e"))
    ]
    (tmp_path / "l.nbest").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "ref").write_text("d b e\n", encoding="utf-8")
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    how = ("--ref", "ref", "--lm", "ngram:lm.arpa", "--recombine", "5")
    done = rescore("l.nbest", *how, "--weight", "0.1", "-o", "l.jsonl")
    assert done.returncode == 0, done.stderr
    (found,) = formats.read([tmp_path / "l.jsonl"])
    assert {one.text for one in found.hypotheses} > {
        "d b e"
    } and "LM0" in found.hypotheses[0].scores
    assert rescore("tune", "l.jsonl").returncode == 0  # the LM's column alone
