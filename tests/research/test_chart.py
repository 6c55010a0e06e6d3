"""Charts are SVG documents with a mark for each finite point."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescore.research.chart import MOST_TICKS, Axis, Chart, Series, svg

NAMESPACE = "{http://www.w3.org/2000/svg}"


def elements(chart: Chart, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg([chart])).iter(f"{NAMESPACE}{tag}"))


def test_a_line_and_a_mark_for_each_point() -> None:
    series = [Series("a", [(1, 2), (2, 4), (3, math.inf)]), Series("<b>", [(1, 1)])]
    chart = Chart("title", "across", "up", series)
    texts = [element.text for element in elements(chart, "text")]
    assert {"title", "across", "up", "a", "<b>"} <= set(texts)
    # three finite points and two marks of the legend
    assert len(elements(chart, "circle")) == 5
    (line,) = elements(chart, "polyline")
    first, second = (
        [float(number) for number in pair.split(",")]
        for pair in line.attrib["points"].split()
    )
    assert first[0] < second[0] and first[1] > second[1]


def test_points_without_lines() -> None:
    chart = Chart("t", "x", "y", [Series("a", [(1, 2), (2, 4)])], lines=False)
    assert not elements(chart, "polyline") and len(elements(chart, "circle")) == 3


def test_a_chart_without_points() -> None:
    chart = Chart("t", "x", "y", [Series("a", [(1, math.nan)]), Series("b", [])])
    assert not elements(chart, "circle")


def test_charts_below_each_other() -> None:
    chart = Chart("t", "x", "y", [Series("a", [(1, 2)])])
    root = ElementTree.fromstring(svg([chart, chart]))
    assert len(root.findall(f"{NAMESPACE}g")) == 2
    assert float(root.attrib["height"]) == 2 * float(
        ElementTree.fromstring(svg([chart])).attrib["height"]
    )


@given(
    st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=5),
    st.booleans(),
)
def test_every_value_is_on_the_axis(values: list[float], log: bool) -> None:
    axis = Axis.over(values, log)
    shares = [axis.share(value) for value in values]
    assert all(0 <= share <= 1 for share in shares)
    assert sorted(values) == sorted(
        values, key=lambda value: (axis.share(value), value)
    )
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= MOST_TICKS + 1
    assert all(-1e-9 <= axis.share(value) <= 1 + 1e-9 for value, _ in ticks)


@pytest.mark.parametrize(
    ("values", "log", "labels"),
    [
        ([0, 10], False, ["0", "2", "4", "6", "8", "10"]),
        ([1, 90], True, ["1", "2", "5", "10", "20", "50", "100"]),
        ([1, 1e6], True, ["1", "10", "100", "1e+03", "1e+04", "1e+05", "1e+06"]),
    ],
)
def test_ticks_are_round(values: list[float], log: bool, labels: list[str]) -> None:
    assert [label for _, label in Axis.over(values, log).ticks()] == labels
