"""The Python API: its examples run, and it says what the command line says."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rescore
from rescore import api, border, pipeline
from rescore.asked import OF_LOADING
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.tuning import Tuning, Weights
from tests.conftest import ROOT, Run, read_report
from tests.lms.test_ngram import ARPA


def test_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testmod(api)
    assert tried >= 8 and failed == 0


def test_import_costs_nothing() -> None:
    code = (
        "import sys, rescore; print([name for name in ('torch', 'numpy', 'click') if"
        " name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_same_figures_as_the_command_line(
    run_in: Run, models: dict[str, Path], tmp_path: Path
) -> None:
    lm = f"unilm:{models['unilm']}"
    lists = rescore.score(rescore.read(ROOT / "data" / "test.json")[:30], lm)
    weights = rescore.tune(lists)
    results = rescore.evaluate(lists, weights)
    rescore.rerank(lists, weights)
    from rescore import formats

    formats.write(lists, str(tmp_path / "l.json"))
    done = run_in("tune", "l.json")
    assert json.loads(done.stdout)["weights"] == pytest.approx(weights.weights)
    (tmp_path / "w.json").write_text(done.stdout)
    done = run_in("rerank", "l.json", "--weights", "w.json", "--report", "r.json")
    assert done.stdout.replace("l.json", "dev") == f"{results}\n".replace(
        str(ROOT / "data" / "test.json"), "dev"
    )
    done = run_in(
        "l.json",
        "--lm",
        lm,
        "--weight",
        str(weights.weights["unilm"]),
        "--report",
        "r.json",
    )
    assert done.returncode == 0, done.stderr
    report = read_report(tmp_path / "r.json")
    assert (report["first_pass"], report["reranked"]) == (
        results.first_pass,
        results.reranked,
    )
    assert rescore.evaluate(lists).reranked == results.first_pass
    with pytest.raises(rescore.UserError, match="no such file"):
        rescore.read("nowhere.json")


@pytest.fixture
def run_in(request: pytest.FixtureRequest) -> Run:
    """The fixture `rescore`, under a name that leaves the package its own."""
    return request.getfixturevalue("rescore")


LISTS = [
    rescore.NbestList(
        name,
        [rescore.Hypothesis(text, {"s2s": score}) for text, score in hypotheses],
        (reference,),
    )
    for name, hypotheses, reference in (
        ("u1", [("a b", -1.0), ("a", -1.5)], "a"),
        ("u2", [("c d", -1.0), ("d", -3.0)], "c d"),
    )
]


def brevity(sentences: Sequence[str]) -> list[float]:
    return [-float(len(sentence.split())) for sentence in sentences]


def test_functions_dictionaries_and_plain_texts() -> None:
    scored = rescore.score(LISTS, brevity)
    assert scored[0].hypotheses[0].scores == {"s2s": -1.0, "brevity": -2.0}
    assert scored[0].header.records["brevity"].model == "brevity"
    for weights in (
        {"s2s": 0.5, "brevity": 0.5},
        0.5,
        rescore.Weights({"s2s": 0.5, "brevity": 0.5}),
    ):
        assert rescore.rerank(scored, weights)[0].hypotheses[0].text == "a"
        assert rescore.evaluate(scored, weights).reranked == 0.0
    assert (
        rescore.score([["a b", "a"], ["c"]], brevity)[0].hypotheses[1].scores["s2s"] < 0
    )
    with pytest.raises(rescore.UserError, match="one number is the weight of one LM"):
        rescore.rerank(LISTS, 0.5)
    with pytest.raises(rescore.UserError, match="returned 1 score for 4 sentences"):
        rescore.score(LISTS, lambda sentences: [0.0])


def test_error_rates_are_jiwers_in_percent() -> None:
    import jiwer

    references, hypotheses = (
        ["the old clock ticked", "a house"],
        ["the clock sticked", "a house"],
    )
    assert rescore.wer(references, hypotheses) == pytest.approx(
        100 * jiwer.wer(references, hypotheses)
    )
    texts = zip(hypotheses, references, strict=True)
    lists = [
        rescore.NbestList(
            ref, [rescore.Hypothesis(text, {"s2s": 0.0})], references=(ref,)
        )
        for text, ref in texts
    ]
    assert rescore.wer(references, hypotheses) == rescore.evaluate(lists).first_pass
    assert rescore.cer("abc", "abd") == pytest.approx(100 * jiwer.cer("abc", "abd"))
    assert rescore.wer("The clock", "the clock") == 0.0
    with pytest.raises(rescore.UserError, match="1 hypothesis for 2 references"):
        rescore.wer(references, "a")


def test_hypotheses_and_scores_of_other_types() -> None:
    with pytest.raises(rescore.UserError, match="utterance u has a str as hypothesis"):
        rescore.evaluate(
            [rescore.NbestList("u", ["a", "b"], references=("a",))], {"s2s": 1}
        )  # type: ignore[list-item]

    def words(sentences: Sequence[str]) -> list[str]:
        return ["x"] * len(sentences)

    with pytest.raises(rescore.UserError, match="returned scores that are no numbers"):
        rescore.score(LISTS, words)  # type: ignore[arg-type]


def test_results_in_a_notebook() -> None:
    results = rescore.evaluate(LISTS)
    assert repr(results) == "<Results: WER 33.33 -> 33.33 (oracle 0.00), 2 lists>"
    shown = results._repr_html_()
    assert "<th>WER</th><th>95 % CI</th>" in shown and results.signature in shown
    assert '<td style="text-align:left">first pass</td><td>33.33</td>' in shown
    assert "<p>2 utterances, 4 hypotheses</p>" in shown
    compared = rescore.compare(LISTS, LISTS, brevity)
    assert (
        ">first pass</td>" in compared._repr_html_()
        and "<b>0.00</b>" not in compared._repr_html_()
    )
    assert "weights tuned on dev; p against the first pass" in compared._repr_html_()
    assert (
        "1 list without"
        in rescore.evaluate([rescore.NbestList("u", LISTS[0].hypotheses)])._repr_html_()
    )


def test_to_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module(ModuleType):
        DataFrame = staticmethod(list)

    monkeypatch.setitem(sys.modules, "pandas", Module("pandas"))
    rows = rescore.evaluate(LISTS).to_frame()
    assert [row["id"] for row in rows] == [nbest.id for nbest in LISTS]
    texts = ("reference", "first_pass", "chosen")
    assert [*rows[0]][:7] == [
        "id",
        *texts,
        "first_pass_errors",
        "chosen_errors",
        "changed",
    ] and rows[0]["s2s"] < 0
    assert sum(row["first_pass_errors"] for row in rows) == 1 and not rows[0]["changed"]
    table = rescore.compare(LISTS, LISTS, brevity).to_frame()
    assert (
        table[1]["name"] == "first pass"
        and table[1]["WER"] == pytest.approx(100 / 3)
        and table[1]["p"] is None
    )
    assert isinstance(table[2]["p"], float) and list(table[2])[:3] == [
        "name",
        "weight",
        "dev WER",
    ]
    rows = rescore.to_frame(LISTS)
    assert rows[1] == {
        "id": "u1",
        "rank": 2,
        "text": "a",
        "s2s": -1.5,
        "reference": "a",
        "source": None,
    }
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        rescore.UserError,
        match="pandas or polars; install one of them: pip install pandas",
    ):
        rescore.to_frame(LISTS)


def test_types_are_told() -> None:
    """What users write type-checks without stubs of their own."""
    assert (ROOT / "rescore" / "py.typed").is_file()
    for name in rescore.__all__:
        assert getattr(rescore, name) is not None
    with pytest.raises(AttributeError):
        _ = rescore.nothing


def test_a_model_takes_sentences_and_questions(tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    lm = rescore.load(f"ngram:{tmp_path / 'lm.arpa'}")
    plain, asked = lm.score(
        ["the old clock", rescore.Question("the old clock", source="die alte uhr")]
    )
    assert plain.sum == asked.sum < 0
    (scored,) = rescore.score([["the old clock"]], lm)
    assert scored.hypotheses[0].scores["ngram"] == plain.sum


def test_a_model_of_your_own_is_asked_what_it_reads() -> None:
    class Reader:
        """Says how many characters it was shown beside the text."""

        name = model = "reader"
        precision, fingerprint = "float64", "0" * 64
        reads_source, context = True, (1, 2)

        def score(self, questions: list[rescore.Question]) -> list[rescore.TokenScores]:
            shown = [
                len("".join((one.source or "", *one.before, *one.after)))
                for one in questions
            ]
            return [
                rescore.TokenScores(["x"], np.array([-float(number)]))
                for number in shown
            ]

    lists = [
        rescore.NbestList(
            f"a-{rank}", [rescore.Hypothesis(text, {"s2s": -1.0})], source="12"
        )
        for rank, text in enumerate(["3", "44", "555", "6666"])
    ]
    scored = rescore.score(lists, Reader())
    assert [one.hypotheses[0].scores["reader"] for one in scored] == [
        -2 - 2 - 3,
        -2 - 1 - 3 - 4,
        -2 - 2 - 4,
        -2 - 3,
    ]


def test_what_is_asked_for_is_read(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text(
        "key,hyp,logp\nu,a b,-1\nu,a,-2\n", encoding="utf-8"
    )
    for name, text in (("one", "u a\n"), ("two", "u a b\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    field = {"id": "key", "text": "hyp", "score": "logp"}
    (read,) = rescore.read(
        tmp_path / "l.csv",
        [tmp_path / "one", tmp_path / "two"],
        format="csv",
        field=field,
    )
    assert read.references == ("a", "a b") and read.hypotheses[1].scores["s2s"] == -2.0
    (tmp_path / "l.txt").write_text("a b\na\n", encoding="utf-8")
    assert (
        len(
            rescore.read(
                tmp_path / "l.txt", format="opennmt", nbest_size=2, s2s="rank"
            )[0].hypotheses
        )
        == 2
    )
    (tmp_path / "twice.csv").write_text(
        "key,hyp,logp\nu,a,-1\nu,a,-2\n", encoding="utf-8"
    )
    assert rescore.read(tmp_path / "twice.csv", field=field)
    with pytest.raises(rescore.UserError):
        rescore.read(tmp_path / "twice.csv", field=field, strict=True)


def test_two_models_of_one_kind_have_a_column_each(models: dict[str, Path]) -> None:
    lms = [
        rescore.load(f"tta:{path}")
        for path in (models["tta"], ROOT / "models" / "tta-small")
    ]
    for lists in (
        rescore.score(LISTS, *lms),
        rescore.score(rescore.score(LISTS, lms[0]), lms[1]),
    ):
        assert lists[0].header.records["tta"].fingerprint == lms[0].fingerprint
        assert lists[0].header.records["tta.2"].fingerprint == lms[1].fingerprint
        assert (
            lists[0].hypotheses[0].scores["tta"]
            != lists[0].hypotheses[0].scores["tta.2"]
        )
    again = rescore.score(lists, lms[0])
    assert "tta.3" not in again[0].header.records and [lm.name for lm in lms] == [
        "tta",
        "tta",
    ]


def test_names_give_the_columns_of_the_command_line(
    models: dict[str, Path], run_in: Run, tmp_path: Path
) -> None:
    from rescore import formats

    names = [f"tta:{models['tta']}", "tta-small"]
    formats.write(LISTS, str(tmp_path / "l.jsonl"))
    assert (
        run_in(
            "score", "l.jsonl", "--lm", names[0], "--lm", names[1], "-o", "s.jsonl"
        ).returncode
        == 0
    )
    (first, *_), scored = (
        rescore.read(tmp_path / "s.jsonl"),
        rescore.score(LISTS, *names),
    )
    assert (
        scored[0].header.records == first.header.records
        and "tta.2" not in first.header.records
    )
    rows = rescore.compare(LISTS, LISTS, *names).rows
    assert {row.name for row in rows[:2]} == set(first.header.records) - {"tokens"}


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, sentences: Sequence[str]) -> list[float]:
        return [self.factor * score for score in brevity(sentences)]

    def bound(self, sentences: Sequence[str]) -> list[float]:
        return self(sentences)


def scaled(factor: float, sentences: Sequence[str]) -> list[float]:
    return [factor * score for score in brevity(sentences)]


def closed(factor: float) -> object:
    def inner(sentences: Sequence[str]) -> list[float]:
        return [(lambda score: factor * score)(score) for score in brevity(sentences)]

    return inner


def test_whatever_can_be_called_scores() -> None:
    found = rescore.score(
        LISTS, partial(scaled, 2.0), Scaled(3.0), Scaled(4.0).bound, closed(5.0)
    )  # type: ignore[arg-type]
    assert found[0].hypotheses[0].scores == {
        "s2s": -1.0,
        "scaled": -4.0,
        "Scaled": -6.0,
        "bound": -8.0,
        "inner": -10.0,
    }
    with pytest.raises(
        rescore.UserError, match="a model or a function of sentences, found int"
    ):
        rescore.score(LISTS, 3)  # type: ignore[arg-type]


def test_a_lambda_has_no_name_of_its_own() -> None:
    scored = rescore.score(LISTS, lambda texts: [-1.0] * len(texts))
    assert list(scored[0].hypotheses[0].scores) == ["s2s", "function"]


def test_a_function_has_the_fingerprint_of_its_caller(tmp_path: Path) -> None:
    from rescore.lms.cache import Cached
    from rescore.lms.function import FunctionModel

    assert rescore.score(LISTS, brevity)[0].header.records["brevity"].fingerprint == ""
    calls: list[str] = []

    def counted(sentences: Sequence[str]) -> list[float]:
        calls.extend(sentences)
        return [0.0 for _ in sentences]

    for _ in range(2):
        Cached(FunctionModel(counted, fingerprint="v1"), tmp_path).score(
            [rescore.Question("a b")]
        )
    assert calls == ["a b"]
    with pytest.raises(rescore.UserError, match="counted: has no fingerprint"):
        Cached(FunctionModel(counted), tmp_path).score([rescore.Question("a b")])


def test_what_are_no_lists_is_said_in_one_line() -> None:
    class DataFrame:
        iloc = None

        def __iter__(self) -> Iterator[str]:
            return iter(["id", "text"])

    for function in (
        rescore.tune,
        rescore.evaluate,
        rescore.spread,
        rescore.to_frame,
        lambda lists: rescore.rerank(lists, 0.5),
    ):
        for wrong in (["a b", "c"], DataFrame(), LISTS[0], "lists.json", 3):
            with pytest.raises(
                rescore.UserError,
                match=r"^rescore\.\w+: expected N-best lists .*, found [^\n]*$",
            ):
                function(wrong)  # type: ignore[arg-type]
    with pytest.raises(rescore.UserError, match="found a str in place 1"):
        rescore.score(["a b", "c"], brevity)
    for empty in (rescore.tune, rescore.evaluate):
        with pytest.raises(rescore.UserError, match="no lists to"):
            empty([])
    assert rescore.evaluate(iter(LISTS)).reranked == rescore.evaluate(LISTS).reranked


def with_score(score: object) -> list[rescore.NbestList]:
    return [
        rescore.NbestList(
            "u1", [rescore.Hypothesis("a", {"s2s": score, "lm": -1.0})], ("a",)
        )
    ]  # type: ignore[dict-item]


TAKE_LISTS = {
    "score": lambda lists: rescore.score(lists, brevity),
    "tune": rescore.tune,
    "rerank": lambda lists: rescore.rerank(lists, 0.5),
    "evaluate": rescore.evaluate,
    "compare": lambda lists: rescore.compare(LISTS, lists, brevity),
    "confidence": lambda lists: rescore.confidence(lists, {"s2s": 1.0}),
    "confidence dev": lambda lists: rescore.confidence(LISTS, {"s2s": 1.0}, lists),
    "spread": rescore.spread,
    "to_frame": rescore.to_frame,
    "choose_all": (
        lambda lists: rescore.Rescorer(brevity, {"s2s": 1.0}).choose_all(lists)
    ),
    "choose": lambda lists: rescore.Rescorer(brevity, {"s2s": 1.0}).choose(lists[0]),
    "Rescorer dev": lambda lists: rescore.Rescorer(brevity, {"s2s": 1.0}, dev=lists),
}


@pytest.mark.parametrize("take", TAKE_LISTS.values(), ids=list(TAKE_LISTS))
def test_lists_that_no_file_may_have_are_refused(
    take: Callable[[list[rescore.NbestList]], object],
) -> None:
    for score in (float("nan"), float("inf"), np.float64("nan"), "-1", None):
        with pytest.raises(
            rescore.UserError,
            match=r"^[^\n]*utterance u1, hypothesis 1: score s2s is [^\n]*; [^\n]*$",
        ):
            take(with_score(score))
    with pytest.raises(rescore.UserError, match=r"utterance u1: no hypotheses; give"):
        take([rescore.NbestList("u1", [], ("a",))])
    letters = with_score(-1.0)
    letters[0].references = "a b"  # type: ignore[assignment]
    with pytest.raises(
        rescore.UserError,
        match=r"^utterance u1: references is the text 'a b'; give a tuple",
    ):
        take(letters)


def test_references_are_a_tuple() -> None:
    with pytest.raises(
        rescore.UserError,
        match=r"^utterance u1: references is the text 'a b'; give a tuple",
    ):
        rescore.NbestList(
            "u1", [rescore.Hypothesis("a", {"s2s": -1.0})], references="a b"
        )  # type: ignore[arg-type]
    of_a_list = rescore.NbestList(
        "u1", [rescore.Hypothesis("a", {"s2s": -1.0})], references=["a b"]
    )  # type: ignore[arg-type]
    assert (
        of_a_list.references == ("a b",)
        and rescore.evaluate([of_a_list]).first_pass == 50.0
    )


def test_weights_are_numbers(tmp_path: Path) -> None:
    scored = rescore.score(LISTS, brevity)
    nan = float("nan")
    for wrong in (nan, float("inf"), "0.5", None):
        for make in (
            lambda weight: rescore.Weights({"s2s": 1.0, "brevity": weight}),
            lambda weight: rescore.rerank(scored, {"s2s": 1.0, "brevity": weight}),
            lambda weight: rescore.evaluate(scored, {"s2s": 1.0, "brevity": weight}),
            lambda weight: rescore.confidence(scored, {"s2s": 1.0, "brevity": weight}),
            lambda weight: rescore.Rescorer(brevity, {"s2s": 1.0, "brevity": weight}),
        ):
            with pytest.raises(
                rescore.UserError,
                match=r"^weight of brevity is .*, not a number; [^\n]*$",
            ):
                make(wrong)  # type: ignore[no-untyped-call]
    for wrong in ("w.json", [0.5], nan):
        with pytest.raises(rescore.UserError, match=r"^weight"):
            rescore.rerank(scored, wrong)  # type: ignore[arg-type]
    (tmp_path / "w.json").write_text(
        '{"weights": {"s2s": 1.0, "brevity": NaN}}', encoding="utf-8"
    )
    with pytest.raises(
        rescore.UserError, match=r"w.json: weight of brevity is nan, not a number"
    ):
        rescore.load_weights(tmp_path / "w.json")
    with pytest.raises(
        rescore.UserError, match=r"columns 'brevity': expected a list of texts, such"
    ):
        rescore.tune(scored, "brevity")
    assert (
        rescore.rerank(scored, {"s2s": np.float32(0.5), "brevity": np.int64(1)})[0]
        .hypotheses[0]
        .text
        == "a"
    )  # type: ignore[dict-item]


def test_what_counts_as_a_word_is_said_as_on_the_command_line(tmp_path: Path) -> None:
    lists = [
        rescore.NbestList(
            f"u{number}",
            [
                rescore.Hypothesis("a well-known brandvolt", {"s2s": -1.0}),
                rescore.Hypothesis("a cat", {"s2s": -2.0}),
            ],
            ("a well known brandvold",),
        )
        for number in range(4)
    ]
    (tmp_path / "words").write_text("brandvold\n", encoding="utf-8")
    parts = rescore.Normaliser(split_hyphens=True)
    words = tmp_path / "words"
    assert rescore.evaluate(lists).first_pass == 75.0
    assert rescore.evaluate(lists, normaliser=parts).first_pass == 25.0
    assert rescore.evaluate(lists, metric="bwer", words=words).first_pass == 100.0
    scored = rescore.score(lists, brevity)
    weights = rescore.tune(scored, metric="bwer", words=words, normaliser=parts)
    assert "words" in weights.tuning.settings
    assert weights.tuning.settings["split_hyphens"] is True
    assert (
        rescore.evaluate(scored, weights).signature
        == rescore.evaluate(
            scored, weights, "bwer", words=words, normaliser=parts
        ).signature
    )
    assert rescore.compare(lists, lists, brevity, normaliser=parts).first_pass == 25.0
    respelled = rescore.score(lists, respell=4, channel="shipped", words=words)
    assert any("brandvold" in hypothesis.text for hypothesis in respelled[0].hypotheses)
    with pytest.raises(rescore.UserError, match="nowhere: "):
        rescore.tune(scored, words=tmp_path / "nowhere")


def test_decisions_and_comparisons() -> None:
    lists = rescore.score([*LISTS, *LISTS], brevity)
    weights = rescore.tune(lists, decision="mbr")
    assert weights.decision.name == "mbr" and weights.decision.scale
    results = rescore.evaluate(lists, weights)
    assert results.choice.decision == Decision("mbr", weights.decision.scale)
    assert rescore.evaluate(lists, weights, decision="best").choice.decision.is_best
    voted = rescore.evaluate(lists, decision="rover", scale=2.0)
    assert voted.choice.decision.scale == 2.0
    found = rescore.compare(iter(LISTS), LISTS, brevity, partial(scaled, 2.0))
    names = ["brevity", "scaled", "brevity + scaled"]
    assert [row.name for row in found.rows] == names
    assert found.first_pass == pytest.approx(100 / 3)


def test_what_a_shell_shows() -> None:
    assert dir(rescore) == sorted(rescore.__all__)
    assert repr(LISTS[0]) == "<NbestList u1: 2 hypotheses, 'a b'>"
    assert (
        repr(rescore.Weights({"s2s": 0.75, "tta": 0.25}))
        == "<Weights: s2s 0.75, tta 0.25 (given)>"
    )
    assert (
        repr(rescore.TokenScores(["a", "b"], np.array([-0.5, -1.0])))
        == "<TokenScores -1.5000: 'a b'>"
    )
    assert re.fullmatch(
        r"<LanguageModel tta-small: [0-9a-f]{12}, float32>",
        repr(rescore.load("tta-small")),
    )


def test_read_may_leave_out_references(tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "a", "hyps": [{"text": "x", "score": -1}]}\n', encoding="utf-8"
    )
    (tmp_path / "ref").write_text("a x\nb y\n", encoding="utf-8")
    with pytest.raises(rescore.UserError, match="no list for 1 of its 2 utterances"):
        rescore.read(tmp_path / "l.jsonl", tmp_path / "ref")
    (found,) = rescore.read(tmp_path / "l.jsonl", tmp_path / "ref", allow_missing=True)
    assert found.references == ("x",)


def test_confidences_and_new_hypotheses_are_those_of_the_commands(
    run_in: Run, tmp_path: Path
) -> None:
    from rescore import formats
    from rescore.formats.writing import as_json

    lists = rescore.read(ROOT / "data" / "test.json")[:6]
    formats.write(lists, str(tmp_path / "l.jsonl"))
    weights = rescore.Weights({"s2s": 0.25})
    rescore.save_weights(weights, tmp_path / "w.json")
    assert rescore.load_weights(str(tmp_path / "w.json")) == weights
    assert (
        run_in(
            "confidence", "l.jsonl", "--weights", "w.json", "-o", "c.jsonl"
        ).returncode
        == 0
    )
    rows = [
        json.loads(line)["words"]
        for line in (tmp_path / "c.jsonl").read_text().splitlines()
    ]
    words = rescore.confidence(lists, weights)
    assert [[(one["word"], one["confidence"]) for one in row] for row in rows] == [
        [(one.text, round(one.confidence, 4)) for one in row] for row in words
    ]
    assert rescore.confidence([], weights) == []
    for option, made in (
        ("--recombine", rescore.score(lists, recombine=5)),
        ("--respell", rescore.score(lists, respell=5, channel="shipped")),
    ):
        done = run_in("score", "l.jsonl", "--lm", "tta-small", option, "5")
        expected = [json.loads(line) for line in done.stdout.splitlines()]
        assert [[one["text"] for one in row["hyps"]] for row in expected] == [
            [one["text"] for one in as_json(nbest)["hyps"]] for nbest in made
        ]
        assert any(
            len(new.hypotheses) > len(old.hypotheses)
            for new, old in zip(made, lists, strict=True)
        )


def test_confidences_under_weights_of_another_model() -> None:
    lists = rescore.score(LISTS, brevity)
    column = replace(lists[0].header.records["brevity"], fingerprint="0" * 64)
    weights = rescore.Weights(
        {"s2s": 0.5, "brevity": 0.5}, tuning=Tuning(columns={"brevity": column})
    )
    with pytest.raises(rescore.UserError, match="column brevity comes from"):
        rescore.confidence(lists, weights)


def test_sizes_inside_a_configuration_have_limits(tmp_path: Path) -> None:
    from rescore.large.hub import check_sizes

    inner = {"text_config": {"num_hidden_layers": 10**9}}
    (tmp_path / "config.json").write_text(json.dumps(inner), encoding="utf-8")
    with pytest.raises(rescore.UserError, match="num_hidden_layers is 1000000000"):
        check_sizes(tmp_path)


def test_options_of_metrics_and_of_expansions() -> None:
    config = border.config_of(
        "tune", "bleu", tokenise="char", drop_punctuation=True, recombine=5
    )
    assert (
        config.measuring.values["tokenise"] == "char"
        and config.measuring.values["normaliser"].drop_punctuation
    )
    assert config.expanding.values == {"recombine": 5}
    with pytest.raises(
        rescore.UserError, match="tokenize is not an option; did you mean tokenise"
    ):
        border.config_of("tune", "bleu", tokenize="char")


def test_a_call_takes_fields_by_their_own_names() -> None:
    """Fields of `RunConfig` that arguments fill may be given, too; options are added to
    those of a field.
    """
    before = border.config_of("compare", nfkc=True, recombine=5)
    config = border.config_of(
        "compare",
        metrics=("cer",),
        decide="mbr",
        measuring=before.measuring,
        expanding=before.expanding,
        split_hyphens=True,
        respell=3,
        lexicon="words",
    )
    assert config.metrics == ("cer",) and config.decide == "mbr"
    normaliser = config.measuring.values["normaliser"]
    assert normaliser.nfkc and normaliser.split_hyphens
    assert config.expanding.values == {"recombine": 5, "respell": 3, "lexicon": "words"}


def test_tuning_has_one_road(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python callers and commands call the same stage."""
    expected = Weights({"s2s": 0.5, "lm": 0.5})
    monkeypatch.setattr(pipeline, "tune", lambda plan, lists: expected)
    hypotheses = [Hypothesis("a", {"s2s": -1.0, "lm": -1.0})]
    assert rescore.tune([NbestList("u", hypotheses, ("a",))]) is expected


def test_texts_are_those_of_the_decision() -> None:
    hyps = [
        Hypothesis(text, {"s2s": score})
        for text, score in (("a b c", -1.0), ("x b d", -1.1), ("x b e", -1.2))
    ]
    lists = [NbestList(str(number), list(hyps), ("x b d",)) for number in range(4)]
    weights = replace(
        rescore.tune(lists, decision="mbr"), decision=Decision("mbr", 1.0)
    )
    chosen = Choice({"s2s": 1.0}, decision=Decision("mbr", 1.0)).texts(
        ErrorRate(), Dataset.of(lists)
    )
    assert rescore.texts(lists, weights) == chosen == ["x b d"] * 4
    assert rescore.rerank(lists, weights)[0].hypotheses[0].text == "a b c"


@pytest.mark.parametrize(
    "name", ["device", "precision", "batch_tokens", "cache", "prompt"]
)
def test_arguments_of_a_model_are_named(name: str) -> None:
    with pytest.raises(
        rescore.UserError, match=f"{name} is not an option; rescore.load, rescore.score"
    ):
        rescore.tune(LISTS, **{name: "x"})


GOOD_OPTIONS: dict[str, Any] = {
    "device": "cpu",
    "precision": "float32",
    "batch_tokens": 100,
    "cache": "kept",
    "prompt": "{text}",
}


@pytest.mark.parametrize("name", sorted(OF_LOADING))
def test_options_of_loading_in_score_are_those_of_load(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each option of `load` has in `score` and `compare` the effect that it has in
    `load`, and is refused if no model is loaded.
    """
    monkeypatch.chdir(tmp_path)
    seen: list[Any] = []

    def as_seen(lm: str, cache: Any = None, **options: Any) -> Any:
        seen.append({"lm": lm, "cache": cache} | options)
        raise rescore.UserError("seen")

    monkeypatch.setattr(border, "loaded", as_seen)
    given = {name: GOOD_OPTIONS[name]}
    calls: list[Any] = [
        lambda: rescore.score(LISTS, "tta", **given),
        lambda: rescore.compare(LISTS, LISTS, "tta", **given),
    ]
    for call in calls:
        with pytest.raises(rescore.UserError, match="seen"):
            call()
        assert seen.pop() == {"lm": "tta", "cache": None} | given
    with pytest.raises(rescore.UserError, match=f"{name}: is an option of models"):
        rescore.score(LISTS, brevity, **given)


@pytest.mark.parametrize("name", ["metric", "decision"])
def test_a_part_that_is_no_name_says_how_it_gets_a_name(name: str) -> None:
    for value in (brevity, ErrorRate, ErrorRate()):
        for function in (rescore.tune, rescore.evaluate):
            with pytest.raises(rescore.UserError, match=r"\.register\(") as refused:
                function(LISTS, **{name: value})
            assert len(str(refused.value)) < 300


def test_token_scores_take_plain_lists() -> None:
    scores = rescore.TokenScores(["a", "b"], [-1.0, -2.5])  # type: ignore[arg-type]
    assert scores.sum == -3.5 and scores.log_probs.tolist() == [-1.0, -2.5]


@pytest.mark.parametrize("norm", [None, "sum", "mean"])
@pytest.mark.parametrize("means", [True, False])
def test_a_line_says_that_numbers_of_a_function_are_divided(
    means: bool, norm: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    header = Header(scores_are_means=means)
    hypotheses = [Hypothesis("a b", {"s2s": -1.0}), Hypothesis("a", {"s2s": -2.0})]
    lists = [NbestList("u", hypotheses, ("a b",), header=header)]
    scored = rescore.score(lists, lambda texts: [-4.0] * len(texts), lm_norm=norm)
    (score,) = [
        value for name, value in scored[0].hypotheses[0].scores.items() if name != "s2s"
    ]
    is_divided = norm == "mean" or (means and norm is None)
    assert score == (-2.0 if is_divided else -4.0)
    assert ("divided by the number of words" in caplog.text) == (means and norm is None)
