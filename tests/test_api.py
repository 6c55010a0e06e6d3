"""The Python API: its examples run, and it says what the command line says."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import rescore
from rescore import api
from tests.conftest import ROOT, Run, read_report
from tests.scoring.test_ngram import ARPA


def test_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testmod(api)
    assert tried >= 8 and failed == 0


def test_import_costs_nothing() -> None:
    code = "import sys, rescore; print([name for name in ('torch', 'numpy', 'click') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_same_figures_as_the_command_line(run_in: Run, models: dict[str, Path], tmp_path: Path) -> None:
    lm = f"unilm:{models['unilm']}"
    lists = rescore.score(rescore.read(ROOT / "data" / "test.json")[:30], lm)
    weights = rescore.tune(lists)
    results = rescore.evaluate(lists, weights)
    rescore.rerank(lists, weights)
    from rescore import formats

    formats.write(lists, str(tmp_path / "l.json"))
    done = run_in("tune", "l.json")
    assert json.loads(done.stdout)["weights"] == pytest.approx(weights.weights)
    done = run_in("l.json", "--lm", lm, "--weight", str(weights.weights["unilm"]), "--report", "r.json")
    assert done.returncode == 0, done.stderr
    report = read_report(tmp_path / "r.json")
    assert (report["first_pass"], report["reranked"]) == (results.first_pass, results.reranked)
    assert rescore.evaluate(lists).reranked == results.first_pass
    with pytest.raises(rescore.UserError, match="no such file"):
        rescore.read("nowhere.json")


@pytest.fixture
def run_in(request: pytest.FixtureRequest) -> Run:
    """The fixture `rescore`, under a name that leaves the package its own."""
    return request.getfixturevalue("rescore")


LISTS = [
    rescore.NbestList(name, [rescore.Hypothesis(text, {"s2s": score}) for text, score in hypotheses], (reference,))
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
    assert scored[0].columns["brevity"].model == "brevity"
    for weights in ({"s2s": 0.5, "brevity": 0.5}, 0.5, rescore.Weights({"s2s": 0.5, "brevity": 0.5}, "given")):
        assert rescore.rerank(scored, weights)[0].hypotheses[0].text == "a"
        assert rescore.evaluate(scored, weights).reranked == 0.0
    assert rescore.score([["a b", "a"], ["c"]], brevity)[0].hypotheses[1].scores["s2s"] < 0
    with pytest.raises(rescore.UserError, match="one number is the weight of one LM"):
        rescore.rerank(LISTS, 0.5)
    with pytest.raises(rescore.UserError, match="returned 1 scores for 4 sentences"):
        rescore.score(LISTS, lambda sentences: [0.0])


def test_error_rates_as_jiwer_gives_them() -> None:
    import jiwer

    references, hypotheses = ["the old clock ticked", "a house"], ["the clock sticked", "a house"]
    assert rescore.wer(references, hypotheses) == pytest.approx(jiwer.wer(references, hypotheses))
    assert rescore.cer("abc", "abd") == pytest.approx(jiwer.cer("abc", "abd"))
    assert rescore.wer("The clock", "the clock") == 0.0
    with pytest.raises(rescore.UserError, match="1 hypotheses for 2 references"):
        rescore.wer(references, "a")


def test_results_in_a_notebook() -> None:
    results = rescore.evaluate(LISTS)
    assert repr(results) == "<Results: WER 33.33 -> 33.33 (oracle 0.00), 2 lists>"
    assert "<td>first pass</td><td>33.33</td>" in results._repr_html_() and results.signature in results._repr_html_()


def test_to_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module(ModuleType):
        DataFrame = staticmethod(list)

    monkeypatch.setitem(sys.modules, "pandas", Module("pandas"))
    rows = rescore.to_frame(LISTS)
    assert rows[1] == {"id": "u1", "rank": 2, "text": "a", "s2s": -1.5, "reference": "a", "source": None}
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(rescore.UserError, match="pandas or polars"):
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
    plain, asked = lm.score(["the old clock", rescore.Question("the old clock", source="die alte uhr")])
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
            shown = [len("".join((one.source or "", *one.before, *one.after))) for one in questions]
            return [rescore.TokenScores(["x"], np.array([-float(number)])) for number in shown]

    lists = [
        rescore.NbestList(f"a-{rank}", [rescore.Hypothesis(text, {"s2s": -1.0})], source="12")
        for rank, text in enumerate(["3", "44", "555", "6666"])
    ]
    scored = rescore.score(lists, Reader())
    assert [one.hypotheses[0].scores["reader"] for one in scored] == [-2 - 2 - 3, -2 - 1 - 3 - 4, -2 - 2 - 4, -2 - 3]
