"""Law: no two rows of a comparison have the same models, and the head of the column of
p-values names the row that each row is compared with.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import rescore
from rescore.columns import FIRST_PASS, units
from rescore.lms.function import FunctionModel
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import STYLES
from rescore.reports import files
from rescore.reports.comparison import ABOVE, Comparison, render
from rescore.reports.overview import LAYOUTS, render_overview

WORDS = ("a", "b", "c", "d")
MODELS = len(WORDS)
BESIDE_P = "(without: all models)"


def lists() -> list[NbestList]:
    """Return lists in which each model likes another word."""
    every = []
    for number in range(12):
        texts = [f"{word} x{number}" for word in WORDS]
        hypotheses = []
        for rank, text in enumerate(texts):
            hypotheses.append(Hypothesis(text, {FIRST_PASS: -float(rank)}))
        every.append(NbestList(f"u{number}", hypotheses, (texts[number % 4],)))
    return every


def model(word: str) -> FunctionModel:
    """Return a model that likes one word."""

    def score(texts: list[str]) -> list[float]:
        return [-1.0 if word in text else -3.0 for text in texts]

    lm = FunctionModel(score, fingerprint=word)
    lm.name = f"likes_{word}"
    return lm


def compared(number: int, against: str | None) -> Comparison:
    """Return the comparison of a number of models."""
    models = [model(word) for word in WORDS[:number]]
    return rescore.compare(lists(), lists(), *models, against=against, bagging=False)


def models_of(weights: dict[str, float]) -> frozenset[str]:
    """Return the models of a row."""
    return frozenset(weights) - {FIRST_PASS, *units()}


@pytest.mark.parametrize("number", range(1, MODELS + 1))
@pytest.mark.parametrize("against", [None, ABOVE, FIRST_PASS, "likes_a"])
def test_rows(number: int, against: str | None) -> None:
    if against == FIRST_PASS:
        against = "first pass"
    comparison = compared(number, against)
    every = [models_of(row.weights) for row in comparison.rows]
    assert len(set(every)) == len(every), [row.name for row in comparison.rows]
    alone = number
    together = min(number - 1, 1)
    all_but_one = number if number > 2 else 0
    assert len(every) == alone + together + all_but_one
    all_models = max(comparison.rows, key=lambda row: len(models_of(row.weights)))
    previous = comparison.baseline
    for row in comparison.rows:
        named = {
            f"p against {row.against}",
            "p against row above" if row.against == previous else "",
        }
        if row.name.startswith("without ") and row.against == all_models.name:
            named.add(f"p against {comparison.baseline} {BESIDE_P}")
        if all_but_one and row.against == comparison.baseline:
            named.add(f"p against {comparison.baseline} {BESIDE_P}")
        assert comparison.p_header in named
        previous = row.name


@pytest.mark.parametrize("style", STYLES.names)
def test_tables(style: str, tmp_path: Path) -> None:
    """A table for people has this head; a table for programs has `p`. Python writes
    the tables of the command line.
    """
    comparison = compared(3, None)
    table = comparison.table(style)
    assert table == render(comparison, style)
    head = "p against first pass"
    assert (head in table) is (style != "csv")
    ending = {"text": "txt", "markdown": "md", "latex": "tex"}.get(style, style)
    comparison.save(tmp_path / f"t.{ending}")
    assert (tmp_path / f"t.{ending}").read_text("utf-8") == table + "\n"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("style", STYLES.names)
def test_tables_of_results(style: str, layout: str, tmp_path: Path) -> None:
    """Python writes the results file and the tables of the command line."""
    results = rescore.evaluate(lists(), {FIRST_PASS: 1.0})
    results.dataset = "mine"
    results.save(tmp_path / "r.json")
    read = files.read(tmp_path / "r.json")
    assert results.table(style, layout) == render_overview([read], layout, style)
    with pytest.raises(rescore.UserError, match="is not one of"):
        results.table("tex")
    with pytest.raises(rescore.UserError, match="is not one of"):
        results.table(layout="thesis")
