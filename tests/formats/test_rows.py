"""Rows and their lists: a law for each question that `lists_of` answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from rescore.columns import FIRST_PASS, Role
from rescore.errors import UserError
from rescore.formats.rows import Joins, Row, RowFormat, as_list, lists_of
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.nbest import NbestList


class Plain(RowFormat):
    """A format without properties."""

    def sniff(self, source: Source) -> bool:
        return False

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        yield from ()


def lists(*rows: Row, rules: RowFormat | None = None) -> list[NbestList]:
    return list(lists_of(rows, rules or Plain(), InputWarnings()))


def row(name: str = "u", text: str | None = "a", **values: object) -> Row:
    return replace(Row(name, "f: line 1", text), **values)


def shape(made: list[NbestList]) -> list[tuple[str, int]]:
    return [(nbest.id, len(nbest.hypotheses)) for nbest in made]


def test_neighbours_of_one_id_are_one_list() -> None:
    assert shape(lists(row(), row(), row("v"), row())) == [("u", 2), ("v", 1), ("u", 1)]


def test_a_row_may_always_begin_a_list() -> None:
    begins = row(joins=Joins.NEVER)
    assert shape(lists(row(), begins, row())) == [("u", 1), ("u", 2)]


@pytest.mark.parametrize(
    "values",
    [
        {"total": -1.0},
        {"rank": 1},
        {"scores": {"lm": -1.0}},
        {"scores": {FIRST_PASS: 0.0}},
    ],
)
def test_scored_rows_of_a_table_are_one_list(values: dict[str, object]) -> None:
    first = row(joins=Joins.IF_SCORED, **values)
    second = row(
        joins=Joins.IF_SCORED, **{**values, **({"rank": 2} if "rank" in values else {})}
    )
    assert shape(lists(first, second)) == [("u", 2)]


def test_other_rows_of_a_table_are_utterances() -> None:
    own = [row(joins=Joins.IF_SCORED, references=("r",)) for _ in range(3)]
    assert shape(lists(*own)) == [("u", 1), ("u#2", 1), ("u#3", 1)]


def test_rows_of_one_utterance_without_references_are_an_error() -> None:
    with pytest.raises(UserError, match="utterance u is duplicated"):
        lists(row(joins=Joins.IF_SCORED), row(joins=Joins.IF_SCORED))


def test_references_stand_with_any_row() -> None:
    (nbest,) = lists(row(text=None, references=("r",)), row(), row("u", "b"))
    assert nbest.references == ("r",)
    assert [one.text for one in nbest.hypotheses] == ["a", "b"]


def test_different_references_contradict_each_other_or_add_up() -> None:
    rows = row(references=("r",)), row(references=("s",))
    with pytest.raises(UserError, match="its lines have different references"):
        lists(*rows)
    rules = Plain()
    rules.adds_references = True
    assert lists(*rows, rules=rules)[0].references == ("r", "s")


def test_different_sources_contradict_each_other() -> None:
    with pytest.raises(UserError, match="its lines have different sources"):
        lists(row(source="s"), row(source="t"))
    assert lists(row(), row(source="t"))[0].source == "t"


def test_ranks_are_the_order_of_lists_without_scores() -> None:
    (nbest,) = lists(row(rank=2), row("u", "b", rank=1))
    assert [one.text for one in nbest.hypotheses] == ["b", "a"]
    with pytest.raises(UserError, match="two hypotheses have the rank 1"):
        lists(row(rank=1), row(rank=1))


def test_what_differs_between_hypotheses_is_no_field_of_the_utterance() -> None:
    first = row(fields={"speaker": "x", "beam": "1"})
    second = row(fields={"speaker": "x", "beam": "2"})
    assert lists(first, second)[0].fields == {"speaker": "x"}


def test_columns_of_a_toolkit_are_components() -> None:
    rules = Plain()
    rules.components = "moses"
    (nbest,) = lists(row(total=-1.0, scores={"LM0": -2.0}), rules=rules)
    assert nbest.role("LM0") is Role.COMPONENT
    assert nbest.role(FIRST_PASS) is Role.FIRST_PASS


def test_marks_of_toolkits_are_undone_unless_texts_are_plain() -> None:
    (nbest,) = lists(row(text="a@@ b <eos>"), row(text="a@@ b", is_plain=True))
    assert [one.text for one in nbest.hypotheses] == ["ab", "a@@ b"]


def test_words_with_times() -> None:
    words = [("a", (0.0, 1.0)), ("b", (1.0, 1.5))]
    (nbest,) = lists(row(text="a b", words=words))
    assert nbest.hypotheses[0].times == ((0.0, 1.0), (1.0, 1.5))


def test_a_whole_list_is_yielded_before_the_next_row_is_read() -> None:
    def rows() -> Iterator[Row]:
        yield from as_list([row(), row("u", "b")])
        yield from as_list([row()])  # of the same id, and not joined
        raise UserError("damaged")

    read = lists_of(rows(), Plain(), InputWarnings())
    assert shape([next(read), next(read)]) == [("u", 2), ("u", 1)]
    with pytest.raises(UserError, match="damaged"):
        next(read)
