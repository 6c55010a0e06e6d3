"""Whose a hypothesis is: kept from where it is made to the decision, which it may be
kept out of.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rescore import formats, metrics, pipeline
from rescore.asr.channel import collect
from rescore.asr.features import MERGED, RESPELLED
from rescore.asr.respell import Respelling
from rescore.asr.systems import combined
from rescore.columns import FIRST_PASS_ORIGIN, Column, Role, reserved_columns
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision, best, combine, sorted_by_score
from rescore.errors import UserError
from rescore.lms.lexicon import Lexicon
from rescore.nbest import Header, Hypothesis, NbestList, own_indices, ranking
from rescore.options import OptionValues
from rescore.plan import resolve
from rescore.tuning import TuningOptions, Weights, tune_weights
from tests import stages
from tests.conftest import ROOT, Run, assert_one_line_error, read_report

OURS = FIRST_PASS_ORIGIN


def listed(
    *scored: tuple[str, float], reference: str = "right", name: str = "u"
) -> NbestList:
    return NbestList(
        name, [Hypothesis(text, {"s2s": score}) for text, score in scored], (reference,)
    )


def origins(nbest: NbestList) -> dict[str, str]:
    return {hypothesis.text: hypothesis.origin for hypothesis in nbest.hypotheses}


A = listed(("a b", -1.0), ("a c", -2.0))
B = listed(("right", -1.0))
C = listed(("other", -1.0))


def test_what_is_made_of_merged_lists_keeps_the_origins(tmp_path: Path) -> None:
    (more,) = combined({"a": [A], "b": [B], "c": [C]})
    assert origins(more) == {"a b": OURS, "a c": OURS, "right": MERGED, "other": MERGED}
    assert own_indices(more) == [0, 1]
    # a channel learns of the toolkit's own
    assert sum(collect([more]).values()) == sum(collect([A]).values())
    for file in ("l.json", "l.jsonl"):
        formats.write([more], str(tmp_path / file))
        (again,) = formats.read([tmp_path / file])
        assert again == more and origins(
            sorted_by_score(again, Choice({"s2s": 1.0}))
        ) == origins(more)


def test_combined_lists_have_one_oracle_and_a_best_system(
    rescore: Run, tmp_path: Path
) -> None:
    """No hypothesis of theirs is the toolkit's own more than others."""
    poor = [
        listed(("wrong", -1.0), ("odd", -2.0), name=f"u{index}") for index in range(6)
    ]
    good = [listed(("right", -1.0), name=f"u{index}") for index in range(6)]
    for name, lists in (("poor", poor), ("good", good)):
        formats.write(lists, str(tmp_path / f"{name}.jsonl"))
    assert (
        rescore("combine", "poor.jsonl", "good.jsonl", "-o", "both.jsonl").returncode
        == 0
    )
    done = rescore("both.jsonl", "--report", "r.json")
    assert done.returncode == 0, done.stderr
    report = read_report(tmp_path / "r.json")
    assert (report["oracle"], report["own_oracle"], report["best_system"]["value"]) == (
        0.0,
        None,
        0.0,
    )
    assert "\ngood  " in done.stdout and "toolkit's own" not in done.stdout


def test_an_oracle_is_not_beaten() -> None:
    """A chosen text is one of those that the oracle is the best of."""
    nbest = NbestList(
        "u",
        [
            Hypothesis("wrong", {"s2s": -1.0}),
            Hypothesis("right", {"s2s": -1.0, "x": 1.0}, RESPELLED),
        ],
        ("right",),
    )
    nbest.hypotheses[0].scores["x"] = 0.0
    results, _ = stages.evaluated([nbest], Weights({"s2s": 1.0, "x": 1.0}))
    assert (
        results.reranked == results.oracle == 0.0
        and results.metrics[0].own_oracle == 100.0
    )


def test_formats_without_origins_say_so(rescore: Run, tmp_path: Path) -> None:
    formats.write(list(combined({"a": [A], "b": [B]})), str(tmp_path / "l.jsonl"))
    done = rescore("convert", "l.jsonl", "-o", "l.csv")
    assert (
        done.returncode == 0
        and "which hypotheses the toolkit did not give" in done.stderr
    )


def test_of_equals_the_own_wins_everywhere(rescore: Run, tmp_path: Path) -> None:
    """First pass, decision, reranked lists, 1-best, tuning and a format without
    scores.
    """
    lists = [
        NbestList(
            f"u{index}",
            [
                Hypothesis("new", {"s2s": -1.0}, RESPELLED),
                Hypothesis("own", {"s2s": -1.0}),
            ],
            ("own",),
        )
        for index in range(3)
    ]
    assert ranking(lists[0], [-1.0, -1.0]) == [1, 0] and best(
        lists, Choice({"s2s": 1.0})
    ) == [
        1,
        1,
        1,
    ]
    for rule, scale in (("best", None), ("mbr", 1.0), ("rover", 1.0)):
        assert (
            Choice({"s2s": 1.0}, decision=Decision(rule, scale)).texts(
                metrics.choose_metric("wer", lists), Dataset.of(lists)
            )
            == ["own"] * 3
        )
    formats.write(lists, str(tmp_path / "l.jsonl"))
    (tmp_path / "w.json").write_text('{"weights": {"s2s": 1}}', encoding="utf-8")
    done = rescore(
        "rerank", "l.jsonl", "-o", "o.jsonl", "--best", "o.txt", "--report", "r.json"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o.txt").read_text().split() == ["own"] * 3
    assert [one.hypotheses[0].text for one in formats.read([tmp_path / "o.jsonl"])] == [
        "own"
    ] * 3
    report = read_report(tmp_path / "r.json")
    assert report["first_pass"] == report["reranked"] == 0.0
    # as a stream
    assert rescore("rerank", "l.jsonl").stdout.split()[1::2] == ["own"] * 3
    assert rescore("l.jsonl").stdout.count("0.00") >= 2
    tuned = tune_weights(
        metrics.choose_metric("wer", lists),
        Dataset.of(lists),
        [],
        options=TuningOptions(("words",)),
    )
    assert tuned.tuning.first_pass == 0.0


def test_recombined_lists_have_the_first_pass_of_the_lists(
    rescore: Run, tmp_path: Path
) -> None:
    """Without weights nothing changes, by no road."""
    lists = formats.read([ROOT / "data" / "dev.json"])[:40]
    formats.write(lists, str(tmp_path / "l.jsonl"))
    formats.write(
        list(
            stages.expanded(
                lists, pipeline.RunConfig(expanding=OptionValues(recombine=20))
            )
        ),
        str(tmp_path / "more.jsonl"),
    )
    plain = json.loads(rescore("eval", "l.jsonl", "--report", "-").stdout)["systems"][
        0
    ]["value"]
    assert (
        rescore(
            "rerank", "more.jsonl", "-o", "sorted.jsonl", "--best", "best.trn"
        ).returncode
        == 0
    )
    assert (
        json.loads(rescore("eval", "more.jsonl", "--report", "-").stdout)["systems"][0][
            "value"
        ]
        == plain
    )
    first = {
        one.id: one.hypotheses[0].text
        for one in formats.read([tmp_path / "sorted.jsonl"])
    }
    assert [first[one.id] for one in lists] == [
        one.hypotheses[best([one], Choice({"s2s": 1.0}))[0]].text for one in lists
    ]


def spelled() -> list[NbestList]:
    """Of each list the respelled hypotheses agree with each other: their expected loss
    is the least.
    """
    hypotheses = [
        Hypothesis("a b c d", {"s2s": -1.0, "channel": 0.0, "edits": 0.0}),
        Hypothesis("w b x y", {"s2s": -1.1, "channel": 0.0, "edits": 0.0}),
        Hypothesis("a b x d", {"s2s": -1.1, "channel": 0.0, "edits": 1.0}, RESPELLED),
    ]
    return [NbestList(f"u{index}", hypotheses, ("a b c d",)) for index in range(9)]


def test_what_is_excluded_neither_wins_nor_votes() -> None:
    lists, metric = spelled(), metrics.choose_metric("wer", spelled())
    weights = Weights({"s2s": 1.0}, excluded=frozenset({RESPELLED}))
    plain = [replace(nbest, hypotheses=nbest.hypotheses[:2]) for nbest in lists]
    for rule, scale in (("mbr", 0.01), ("mbr", 1.0), ("rover", 0.01), ("best", None)):
        decide = Decision(rule, scale)
        assert replace(weights, decision=decide).texts(
            metric, Dataset.of(lists)
        ) == replace(weights, decision=decide).texts(metric, Dataset.of(plain))
    assert combine(lists[0], weights).tolist() == [-1.0, -1.1, -np.inf]
    sorted_list = sorted_by_score(lists[0], weights)
    assert sorted_list.hypotheses[-1].origin == RESPELLED
    # written lists are JSON, which has no minus infinity
    assert np.isfinite([each.combined for each in sorted_list.hypotheses]).all()
    only = [replace(nbest, hypotheses=nbest.hypotheses[2:]) for nbest in lists]
    # nothing else is there
    assert weights.texts(metric, Dataset.of(only)) == ["a b x d"] * 9


def test_excluded_origins_are_in_the_weights_file(tmp_path: Path) -> None:
    weights = Weights({"s2s": 1.0}, excluded=frozenset({RESPELLED, MERGED}))
    weights.save(tmp_path / "w.json")
    assert Weights.load(tmp_path / "w.json") == weights
    assert weights.excluded == {RESPELLED, MERGED}
    assert weights.sorted_excluded == ("merged", "respelled")


def test_no_size_of_a_weight_is_a_mark() -> None:
    """Scores may have any unit: a penalty of thousands for each word excludes
    nothing.
    """

    def lists(unit: float) -> list[NbestList]:
        texts = {"a b c": -1.5, "a b c d": -1.0, "a b": -1.9, "a b c d e": -0.5}
        return [
            listed(
                *((text, unit * score) for text, score in texts.items()),
                reference="a b" if index % 4 else "a b c",
            )
            for index in range(40)
        ]

    metric = metrics.choose_metric("wer", lists(1.0))
    options = TuningOptions(("words",), decision=Decision("mbr"))
    small, large = (
        tune_weights(metric, Dataset.of(lists(unit)), [], options=options)
        for unit in (1.0, 1e4)
    )
    assert (
        small.value < 20
        and large.value == small.value
        and small.weights["words"] < -0.1
    )
    assert (
        large.weights["words"] == pytest.approx(1e4 * small.weights["words"], rel=1e-6)
        and not large.excluded
    )


def test_plain_and_respelled_lists_are_not_mixed(rescore: Run, tmp_path: Path) -> None:
    plain = [
        listed(("right", -1.0), ("wrong", -2.0), name=f"p{index}") for index in range(4)
    ]
    formats.write(plain, str(tmp_path / "plain.jsonl"))
    formats.write([listed(("right", -1.0), name="test")], str(tmp_path / "test.jsonl"))
    respelling = Respelling(5, Lexicon({"right": 5, "wrong": 3}, 8))
    formats.write(
        respelling(replace(one, id=f"r{one.id}") for one in plain),
        str(tmp_path / "respelled.jsonl"),
    )
    for files in (
        ("plain.jsonl", "respelled.jsonl"),
        ("respelled.jsonl", "plain.jsonl"),
    ):
        done = rescore("tune", *files, "--decide", "rover")
        assert_one_line_error(done, "add it to all lists, or none")
        assert "channel" in done.stderr
        done = rescore(
            "test.jsonl", "--dev", files[0], "--dev", files[1], "--decide", "rover"
        )
        assert_one_line_error(done, "add it to all lists, or none")


def test_the_order_of_fairseqs_file_is_no_mean(rescore: Run, tmp_path: Path) -> None:
    lines = [
        "S-0\tx",
        "T-0\ta b c",
        "H-0\t-1\ta b c",
        "P-0\t-1 -1 -1 -1",
        "H-0\t-2\ta b",
        "P-0\t-2 -2 -2",
    ]
    (tmp_path / "log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert formats.read([tmp_path / "log"])[0].header.scores_are_means
    ranked = formats.read([tmp_path / "log"], s2s="rank")
    assert (
        not ranked[0].header.scores_are_means
        and resolve(pipeline.RunConfig(), ranked).norm == "sum"
    )
    assert (
        ranked[0].hypotheses[1].scores["sum"] < 0 and ranked[0].columns(Role.LM) == []
    )


def test_scored_lists_are_not_merged(rescore: Run, tmp_path: Path) -> None:
    tta = Column("tta", "", "sum", "", Role.LM)
    scored = replace(
        A,
        hypotheses=[
            replace(one, scores=one.scores | {"tta": -1.0}) for one in A.hypotheses
        ],
        header=Header(records={"tta": tta}),
    )
    with pytest.raises(
        UserError, match="has scores tta already; combine lists before they are scored"
    ):
        list(combined({"a": [scored], "b": [B]}))


@pytest.mark.parametrize("name", ["channel", "words", "tokens", "edits", "combined"])
def test_reserved_names_are_not_taken(name: str, rescore: Run, tmp_path: Path) -> None:
    """A column of a table with the name of a column of this package has its role, as
    `convert` writes such tables; and a file called `words.json` counts nothing.
    """
    (tmp_path / "l.csv").write_text(
        f"id,text,score,{name}\nu,a b,-1,0.5\nu,a,-2,1\n", encoding="utf-8"
    )
    done = rescore("convert", "l.csv", "-o", "l.jsonl")
    if name == "combined":  # the name of no column that is written
        told = f"l.csv: utterance u: the name of the column {name} is reserved"
        assert_one_line_error(done, told)
    else:
        assert done.returncode == 0, done.stderr
        (table,) = formats.read([tmp_path / "l.jsonl"])
        role = Role.CHANNEL if name == "channel" else Role.COUNT
        assert table.role(name) is role and table.column(name) == [0.5, 1.0]
    formats.write([listed(("a b", -3.0))], str(tmp_path / f"{name}.json"))
    formats.write([listed(("a c", -3.0))], str(tmp_path / "l.json"))
    assert (
        rescore("combine", "l.json", f"{name}.json", "-o", "both.jsonl").returncode == 0
    )
    (both,) = formats.read([tmp_path / "both.jsonl"])
    assert both.columns(Role.SYSTEM) == ["l", f"{name}.2"]


def test_counts_are_no_first_pass(rescore: Run, tmp_path: Path) -> None:
    formats.write([A], str(tmp_path / "l.jsonl"))
    assert_one_line_error(rescore("l.jsonl", "--s2s", "words"), "no score 'words'")
    (tmp_path / "l.csv").write_text(
        "id,text,words\nu,a b,0.5\nu,a,1\n", encoding="utf-8"
    )
    (nbest,) = formats.read([tmp_path / "l.csv"], s2s="words")
    assert nbest.column("s2s") == [0.5, 1.0] and nbest.column("words") == [2.0, 1.0]


def test_a_scorer_called_score(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def score(texts):\n    return [-float(len(text)) for text in texts]\n"
    )
    from rescore.lms import with_own_columns
    from rescore.lms.function import FunctionModel

    def score(texts: list[str]) -> list[float]:
        return [-float(len(text)) for text in texts]

    (model,) = with_own_columns([FunctionModel(score)])
    assert model.name == "score.2"


def test_the_record_says_the_role() -> None:
    nbest = replace(
        listed(("a b", -1.0)),
        header=Header(
            records={
                "am": Column.component("kaldi"),
                "tokens": Column("tta", "ab", "count", "", Role.COUNT),
            }
        ),
    )
    for hypothesis in nbest.hypotheses:
        hypothesis.scores |= {"am": -1.0, "tokens": 2.0, "mine": 0.5, "sum": -3.0}
    assert nbest.columns(Role.LM) == ["mine"] and nbest.columns(Role.COMPONENT) == [
        "am"
    ]
    assert nbest.columns(Role.COUNT) == ["tokens"] and nbest.columns(
        Role.FIRST_PASS
    ) == ["s2s", "sum"]
    assert reserved_columns()["channel"].role is Role.CHANNEL


def test_minus_infinity_of_another_system_is_its_own_affair() -> None:
    """What a system calls impossible is possible for the others."""
    other = listed(("a c", -4.0), ("q", -np.inf), ("a b", -np.inf))
    (both,) = combined({"a": [A], "b": [other]})
    shares = np.exp(both.column("s2s"))
    assert [one.text for one in both.hypotheses] == ["a b", "a c", "q"] and shares[
        2
    ] == 0.0
    assert shares[0] == pytest.approx(
        1 / (1 + np.exp(-1)) / 2
    ) and shares.sum() == pytest.approx(1)
