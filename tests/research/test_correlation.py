"""Perplexities beside error rates: of models whose scores are known, and of files of
compare and run.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.lms import Question, TokenScores
from rescore.metrics.mt import Bleu
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.research.correlation import measure
from tests.conftest import ROOT, Run, assert_one_line_error, some_lists, write_json
from tests.lms.test_ngram import ARPA

LISTS = Dataset(
    [
        NbestList("one", [Hypothesis("a b c d", {"s2s": -1.0})], ("a b c d",)),
        NbestList("two", [Hypothesis("a x c d", {"s2s": -1.0})], ("a b c d e",)),
        NbestList("three", [Hypothesis("x y z", {"s2s": -1.0})], ("a b c",)),
        NbestList("four", [Hypothesis("x b c d e f", {"s2s": -1.0})], ("a b c d e f",)),
    ]
)
ERRORS = [0, 40, 100, 100 / 6]


class Known:
    """A model whose score of a text is a function of the text."""

    precision = "float32"

    def __init__(self, name: str, nats: Callable[[str], float]) -> None:
        """nats: minus the log-probability of each token of a text."""
        self.name = self.model = name
        self.fingerprint = name * 64
        self._nats = nats

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        texts = [question.text for question in questions]
        return [
            TokenScores(text.split(), np.full(len(text.split()), -self._nats(text)))
            for text in texts
        ]


def strange(text: str) -> float:
    """The number of words that are not in the references."""
    return sum(word in "xyz" for word in text.split())


def test_unlikely_sentences_have_errors() -> None:
    """`agrees` orders the sentences as their errors do, `differs` in reverse."""
    shares = {nbest.hypotheses[0].text: strange for nbest in LISTS}
    assert len(shares) == len(LISTS)
    by_text = {
        nbest.hypotheses[0].text: errors
        for nbest, errors in zip(LISTS, ERRORS, strict=True)
    }
    agrees = Known("a", lambda text: by_text.get(text, 1.0) / 100)
    differs = Known("d", lambda text: 2 - by_text.get(text, 1.0) / 100)
    constant = Known("c", lambda text: 1.0)
    models = [agrees, differs, constant]
    report = measure(models, LISTS, ErrorRate(), {})
    assert [model.with_errors for model in report.models] == [1.0, -1.0, 0.0]
    low, high = report.models[0].with_errors_interval
    assert low <= high == 1.0
    assert report.first_pass == pytest.approx(100 * (0 + 2 + 3 + 1) / 18)
    assert report.pearson == {} and report.models[0].error_rate is None


def test_short_references_are_unlikely() -> None:
    shorter = Known("s", lambda text: 10 - len(text.split()))
    report = measure([shorter], LISTS, ErrorRate(), {})
    assert report.models[0].with_length == -1.0


def test_perplexities_are_of_references() -> None:
    """Per token: of the whole text, and the mean and the median over sentences."""
    model = Known("m", lambda text: len(text.split()) / 3)
    (figures,) = measure([model], LISTS, ErrorRate(), {}).models
    lengths = np.array([4, 5, 3, 6])
    sentences = np.exp(lengths / 3)
    assert figures.perplexity.mean == pytest.approx(sentences.mean())
    assert figures.perplexity.median == pytest.approx(np.median(sentences))
    assert figures.perplexity.corpus == pytest.approx(
        math.exp((lengths * lengths / 3).sum() / lengths.sum())
    )


def test_models_with_a_low_median_have_few_errors() -> None:
    """The mean of a model is decided by one sentence, as the paper has it of a T-TA."""
    odd = LISTS[2].references[0]

    def nats(usual: float, of_odd: float) -> Callable[[str], float]:
        return lambda text: of_odd if text == odd else usual

    models = [
        Known("a", nats(1.0, 9.0)),
        Known("b", nats(2.0, 2.0)),
        Known("c", nats(3.0, 3.0)),
    ]
    rates = {"a" * 12: 10.0, "b" * 12: 11.0, "c" * 12: 12.0}
    report = measure(models, LISTS, ErrorRate(), rates)
    assert report.spearman["median"] == pytest.approx(1.0)
    assert report.spearman["mean"] == pytest.approx(-0.5)
    medians = [model.perplexity.median for model in report.models]
    expected = np.corrcoef(medians, [10, 11, 12])[0, 1]
    assert report.pearson["median"] == pytest.approx(expected)
    assert "over 3 models" in "\n".join(report.notes())
    assert [len(chart.series) for chart in report.charts()] == [3, 3]
    report = measure(models[:2], LISTS, ErrorRate(), rates)
    assert report.spearman == {} and "needs 3" in "\n".join(report.notes())


def test_error_rates_only() -> None:
    with pytest.raises(UserError, match="BLEU is no error rate"):
        measure([Known("a", strange)], LISTS, Bleu(), {})


@pytest.fixture
def lms(models: dict[str, Path]) -> list[str | Path]:
    kinds = ("tta", "unilm", "unilm-bw")
    return [item for kind in kinds for item in ("--lm", f"{kind}:{models[kind]}")]


def test_files_of_compare_and_run(
    rescore: Run, lms: list[str | Path], tmp_path: Path
) -> None:
    """Error rates are found by the fingerprint of the model."""
    lists, dev = some_lists(tmp_path, "test", 12), some_lists(tmp_path, "dev", 12)
    rescore("compare", lists, "--dev", dev, *lms, "-o", "compared.json")
    rescore(lists, "--dev", dev, *lms[:2], "--report", "run.json")
    compared = json.loads((tmp_path / "compared.json").read_text())
    rates = {row["name"]: row["value"] for row in compared["rows"]}
    # tokens are counted by the first masked model, for all models
    for row in compared["rows"]:
        row["signature"] += "|lm:tokens=bilm@0123456789ab,count,float32"
    write_json(tmp_path / "compared.json", compared)
    outputs = ["-o", "c.json", "-o", "c.csv", "--plot", "c.svg"]
    done = rescore("correlate", lists, *lms, "--results", "compared.json", *outputs)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "c.json").read_text())
    assert [model["error_rate"] for model in report["models"]] == [
        rates[name] for name in ("tta", "unilm", "unilm-bw")
    ]
    assert [model["pseudo"] for model in report["models"]] == [True, False, False]
    assert set(report["pearson"]) == {"corpus", "mean", "median"}
    table = list(csv.reader((tmp_path / "c.csv").open(encoding="utf-8")))
    assert [row[0] for row in table[1:]] == [
        "first pass",
        "tta",
        "unilm",
        "unilm-bw",
        "Pearson, models",
        "Spearman, models",
    ]
    assert "tta: pseudo-perplexity" in done.stdout
    assert (tmp_path / "c.svg").read_text(encoding="utf-8").count("<g ") == 2
    # the perplexity of `score --text`
    references = json.loads(lists.read_text(encoding="utf-8")).values()
    text = "\n".join(entry["ref"] for entry in references)
    (tmp_path / "refs").write_text(text + "\n", encoding="utf-8")
    scored = rescore("score", "--text", "refs", *lms[:2], "-o", "p.json")
    assert scored.returncode == 0, scored.stderr
    (score,) = json.loads((tmp_path / "p.json").read_text())
    assert report["models"][0]["perplexity"] == pytest.approx(score["by_token"])
    done = rescore("correlate", lists, *lms, "--results", "run.json", "--style", "json")
    assert done.returncode == 0, done.stderr
    found = [model["error_rate"] for model in json.loads(done.stdout)["models"]]
    run = json.loads((tmp_path / "run.json").read_text())["metrics"][0]["reranked"]
    assert found == [run, None, None]


def test_errors(rescore: Run, lms: list[str | Path], tmp_path: Path) -> None:
    lists, dev = some_lists(tmp_path, "test", 12), some_lists(tmp_path, "dev", 12)
    rescore("compare", lists, "--dev", dev, *lms[:2], "-o", "compared.json")
    write_json(tmp_path / "other.json", {"a": 1})
    done = rescore("correlate", lists, *lms, "--results", "other.json")
    assert_one_line_error(done, "other.json: has no WER of a single language model")
    done = rescore(
        "correlate", lists, *lms, "--results", "compared.json", "--metric", "cer"
    )
    assert_one_line_error(done, "compared.json: has no CER of a single language model")
    demo = ROOT / "data" / "test.json"
    done = rescore("correlate", demo, *lms, "--results", "compared.json")
    assert_one_line_error(done, "is of 12 utterances, and the lists have 116")
    done = rescore("correlate", lists, *lms, "--metric", "bleu")
    assert_one_line_error(done, "correlate: BLEU is no error rate", "wer or cer")


def test_intervals_do_not_depend_on_the_order(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    table = json.loads(some_lists(tmp_path, "test", 12).read_text(encoding="utf-8"))
    write_json(tmp_path / "back.json", dict(reversed(table.items())))
    said = []
    for name in ("test.json", "back.json"):
        done = rescore("correlate", name, "--lm", "ngram:lm.arpa")
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]
