"""Line charts and scatter plots as SVG, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from rescore.files import opened

WIDTH = 640
"""Width of a chart in pixels."""
HEIGHT = 360
"""Height of a chart in pixels."""
LEFT = 76
"""Where the plotting area begins, from the left, in pixels."""
TOP = 36
"""Where the plotting area begins, from the top, in pixels."""
AREA_RIGHT = WIDTH - 150
"""Where the plotting area ends; the legend stands on its right."""
AREA_BOTTOM = HEIGHT - 52
"""Where the plotting area ends; the labels of the x axis stand below it."""
CENTRED = 'text-anchor="middle"'
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours that colour-blind readers can tell apart (Okabe and Ito 2008)."""
STEPS = (1, 2, 5, 10)
"""Distances of ticks, times a power of ten."""
MOST_TICKS = 8
"""Ticks of an axis."""
PADDING = 0.05
"""Space between the outermost points and the frame, as a share of an axis."""


@dataclass(frozen=True, slots=True)
class Series:
    """Named points of a chart."""

    name: str
    points: Sequence[tuple[float, float]]
    """Pairs (x, y). A point that is not finite is left out."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Series over two axes."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_ticks: Sequence[tuple[float, str]] = ()
    """Places and labels on the x axis; empty for round numbers."""
    x_log: bool = False
    """Whether the x axis is logarithmic."""
    y_log: bool = False
    """Whether the y axis is logarithmic."""
    lines: bool = True
    """Whether lines connect the points of a series."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A range of values, and their places along it."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, values: Sequence[float], log: bool) -> Axis:
        """Return the axis that has all values on it, with space beside them.

        Args:
            values: The values.
            log: Whether the axis is logarithmic.
        """
        scaled = [math.log10(value) for value in values] if log else values
        low = min(scaled)
        high = max(scaled)
        space = PADDING * (high - low) or 0.5
        return cls(low - space, high + space, log)

    def share(self, value: float) -> float:
        """Return the place of a value: 0 at the low end, 1 at the high end."""
        scaled = math.log10(value) if self.log else value
        return (scaled - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Return round values on the axis, with their labels."""
        if not self.log:
            return [(value, f"{value:g}") for value in self._round_values()]
        return [(value, f"{value:.3g}") for value in self._round_powers()]

    def _round_powers(self) -> list[float]:
        """Return 1, 2 and 5 times powers of ten; powers of ten if these values are too
        many, and values between them if they are too few.
        """
        powers = []
        values = []
        for exponent in range(math.floor(self.low), math.ceil(self.high) + 1):
            powers.append(10.0**exponent)
            values += [step * 10.0**exponent for step in STEPS[:-1]]
        inside = self._inside(values)
        if len(inside) < 2:
            return [10.0**value for value in self._round_values()]
        if len(inside) <= MOST_TICKS:
            return inside
        inside = self._inside(powers)
        return inside[:: math.ceil(len(inside) / MOST_TICKS)]

    def _inside(self, values: Sequence[float]) -> list[float]:
        """Return the values that are on the axis."""
        return [value for value in values if 0 <= self.share(value) <= 1]

    def _round_values(self) -> list[float]:
        """Return multiples of 1, 2 or 5 times a power of ten."""
        power = 10.0 ** math.floor(math.log10((self.high - self.low) / MOST_TICKS))
        wanted = (self.high - self.low) / MOST_TICKS
        step = next(step * power for step in STEPS if step * power >= wanted * 0.999)
        first = math.ceil(self.low / step)
        last = math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]


def svg(charts: Sequence[Chart]) -> str:
    """Return an SVG document with charts below each other.

    Args:
        charts: The charts. A chart without a finite point shows its title and frame.
    """
    height = HEIGHT * len(charts)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, chart in enumerate(charts):
        lines.append(f'<g transform="translate(0 {number * HEIGHT})">')
        lines += _drawn(chart)
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])


def write(charts: Sequence[Chart], path: str) -> None:
    """Write charts as an SVG file.

    Args:
        charts: The charts.
        path: The file; `-` is stdout.
    """
    with opened(path) as file:
        file.write(svg(charts))


def _drawn(chart: Chart) -> Iterator[str]:
    """Yield the elements of one chart."""
    yield _text(LEFT, TOP - 14, chart.title, 'font-weight="bold"')
    yield (
        f'<rect x="{LEFT}" y="{TOP}" width="{AREA_RIGHT - LEFT}"'
        f' height="{AREA_BOTTOM - TOP}" fill="none" stroke="#888"/>'
    )
    middle = (LEFT + AREA_RIGHT) / 2
    yield _text(middle, HEIGHT - 14, chart.x_label, CENTRED)
    middle = (TOP + AREA_BOTTOM) / 2
    turned = f'{CENTRED} transform="rotate(-90 16 {middle:g})"'
    yield _text(16, middle, chart.y_label, turned)
    places = []
    heights = []
    for series in chart.series:
        for x, y in _finite(series):
            places.append(x)
            heights.append(y)
    if not places:
        return
    places += [x for x, _ in chart.x_ticks]
    area = _Area(Axis.over(places, chart.x_log), Axis.over(heights, chart.y_log))
    yield from _ticks(chart, area)
    for number, series in enumerate(chart.series):
        yield from _points(series, number, area, chart.lines)


@dataclass(frozen=True, slots=True)
class _Area:
    """The plotting area: the places of values in pixels."""

    x_axis: Axis
    y_axis: Axis

    def across(self, value: float) -> float:
        """Return the place of a value on the x axis."""
        return LEFT + self.x_axis.share(value) * (AREA_RIGHT - LEFT)

    def down(self, value: float) -> float:
        """Return the place of a value on the y axis."""
        return AREA_BOTTOM - self.y_axis.share(value) * (AREA_BOTTOM - TOP)


def _ticks(chart: Chart, area: _Area) -> Iterator[str]:
    """Yield labels on both axes, and horizontal lines."""
    for value, label in chart.x_ticks or area.x_axis.ticks():
        yield _text(area.across(value), AREA_BOTTOM + 18, label, CENTRED)
    for value, label in area.y_axis.ticks():
        y = area.down(value)
        yield (
            f'<line x1="{LEFT}" x2="{AREA_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
            ' stroke="#ddd"/>'
        )
        yield _text(LEFT - 6, y + 4, label, 'text-anchor="end"')


def _points(series: Series, number: int, area: _Area, lines: bool) -> Iterator[str]:
    """Yield the points of a series, its lines, and its row of the legend."""
    colour = COLOURS[number % len(COLOURS)]
    pixels = [(area.across(x), area.down(y)) for x, y in _finite(series)]
    if lines and len(pixels) > 1:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}"/>'
    for x, y in pixels:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
    row = TOP + 12 + 18 * number
    yield f'<circle cx="{AREA_RIGHT + 14}" cy="{row - 4}" r="4" fill="{colour}"/>'
    yield _text(AREA_RIGHT + 24, row, series.name)


def _finite(series: Series) -> list[tuple[float, float]]:
    """Return the points of a series that can be drawn."""
    return [point for point in series.points if all(map(math.isfinite, point))]


def _text(x: float, y: float, content: str, attributes: str = "") -> str:
    """Return a text at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(content)}</text>'
