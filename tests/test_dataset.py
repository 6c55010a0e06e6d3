"""Sets of lists: what holds for all lists of a set."""

from __future__ import annotations

from dataclasses import replace

from rescore import formats
from rescore.columns import Column, Role
from rescore.dataset import Dataset
from rescore.nbest import Header, Hypothesis, NbestList
from tests.conftest import ROOT

COLUMNS = {
    "lm": Column("tta", "ab12", "mean", "float32"),
    "tokens": Column("tta", "ab12", "count", "", Role.COUNT),
}
HYPOTHESIS = Hypothesis("a b", {"s2s": -1.0, "lm": -2.0, "tokens": 3.0, "odd": 0.0})


def test_a_set_knows_its_columns() -> None:
    header = Header("file", COLUMNS, scores_are_means=True)
    lists = Dataset([NbestList("u", [HYPOTHESIS], header=header)])
    assert lists.header is header
    assert lists.score_names == ["s2s", "lm", "tokens", "odd"]
    assert lists.columns(Role.COUNT) == ["tokens"]
    assert lists.columns(Role.LM) == ["lm", "odd"]
    assert lists.model_columns == ["lm"]


def test_without_records_all_columns_are_of_models() -> None:
    lists = Dataset([NbestList("u", [HYPOTHESIS])])
    assert lists.model_columns == ["lm", "odd"]


def test_an_empty_set() -> None:
    lists = Dataset()
    assert not lists.header.records and not lists.header.systems
    assert lists.score_names == lists.columns(*Role) == lists.model_columns == []


def test_a_set_is_returned_as_it_is() -> None:
    lists = formats.read([ROOT / "data" / "dev.json"])
    assert Dataset.of(lists) is lists
    some = Dataset.of(replace(nbest) for nbest in lists[:3])
    assert some == lists[:3] and some.header.prefix.endswith("dev.json: ")
