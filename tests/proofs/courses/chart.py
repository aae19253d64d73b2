"""Charts as SVG, in light and dark: bars beside each other, and lines over time.

A chart has a title, two axes with units, a legend, and the same figures as text for screen readers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 860, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 74, 56
_TICKS: Final = 5
_LIGHT: Final = ("#0969da", "#1a7f37", "#bc4c00", "#8250df")
_DARK: Final = ("#4493f8", "#3fb950", "#f0883e", "#ab7df8")

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart(ABC):
    """What the charts have in common. `about` has the figures in words."""

    title: str
    x_label: str
    y_label: str
    about: str

    def svg(self) -> str:
        """Return the chart as a document."""
        names, most = self._names(), self._most()
        top = _ceiling(most)
        parts = [*_head(self.title, self.about), *_legend(names)]
        for tick in range(_TICKS + 1):
            value = top * tick / _TICKS
            y = _y(value, top)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f} H{_WIDTH - _RIGHT}"/>')
            parts.append(_text(_LEFT - 8, y + 4, _number(value), anchor="end"))
        parts += self._marks(top)
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        parts.append(_text(middle, _HEIGHT - 10, self.x_label, anchor="middle"))
        parts.append(
            f'<text class="small" text-anchor="middle" transform="translate(16'
            f' {(_TOP + _HEIGHT - _BOTTOM) / 2:.0f}) rotate(-90)">{escape(self.y_label)}</text>'
        )
        return "\n".join([*parts, "</svg>", ""])

    @abstractmethod
    def _names(self) -> Sequence[str]:
        """Return the names in the legend."""

    @abstractmethod
    def _most(self) -> float:
        """Return the highest value."""

    @abstractmethod
    def _marks(self, top: float) -> Iterator[str]:
        """Yield the elements of the figures; `top` is the highest value of the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars(Chart):
    """Groups of bars. `groups` maps the group to the series to the value."""

    groups: Mapping[str, Mapping[str, float]]

    def _names(self) -> Sequence[str]:
        return list(dict.fromkeys(name for group in self.groups.values() for name in group))

    def _most(self) -> float:
        return max(value for group in self.groups.values() for value in group.values())

    def _marks(self, top: float) -> Iterator[str]:
        names = self._names()
        room = (_WIDTH - _LEFT - _RIGHT) / len(self.groups)
        width = room * 0.8 / len(names)
        for at, (group, values) in enumerate(self.groups.items()):
            first = _LEFT + room * (at + 0.1)
            for name, value in values.items():
                number = names.index(name)
                x, y = first + width * number, _y(value, top)
                yield (
                    f'<rect class="fill{number}" x="{x:.1f}" y="{y:.1f}" width="{width - 4:.1f}"'
                    f' height="{_y(0, top) - y:.1f}" rx="2"/>'
                )
                yield _text(x + width / 2 - 2, y - 5, _number(value), anchor="middle")
            middle = first + width * len(names) / 2
            yield _text(middle, _HEIGHT - _BOTTOM + 18, group, anchor="middle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Chart):
    """Lines through points. `limits` are values to stay below; `events` are times."""

    series: Mapping[str, Sequence[Point]]
    limits: Mapping[str, float] = field(default_factory=dict)
    events: Sequence[float] = ()

    def _names(self) -> Sequence[str]:
        return list(self.series)

    def _most(self) -> float:
        values = [y for points in self.series.values() for _, y in points]
        return max([*values, *self.limits.values()])

    def _marks(self, top: float) -> Iterator[str]:
        every = [x for points in self.series.values() for x, _ in points]
        low, high = min([*every, *self.events]), max([*every, *self.events])

        def x_of(value: float) -> float:
            return _LEFT + (value - low) / ((high - low) or 1) * (_WIDTH - _LEFT - _RIGHT)

        for tick in range(_TICKS + 1):
            value = low + (high - low) * tick / _TICKS
            yield _text(x_of(value), _HEIGHT - _BOTTOM + 18, _number(value), anchor="middle")
        for event in self.events:
            yield f'<path class="event" d="M{x_of(event):.1f} {_TOP} V{_HEIGHT - _BOTTOM}"/>'
        for name, limit in self.limits.items():
            y = _y(limit, top)
            yield f'<path class="limit" d="M{_LEFT} {y:.1f} H{_WIDTH - _RIGHT}"/>'
            yield _text(_WIDTH - _RIGHT, y - 5, name, anchor="end")
        for number, points in enumerate(self.series.values()):
            path = " L".join(f"{x_of(x):.1f} {_y(y, top):.1f}" for x, y in points)
            yield f'<path class="line{number}" d="M{path}"/>'


def _head(title: str, about: str) -> list[str]:
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
        f'<title id="t">{escape(title)}</title>',
        f'<desc id="d">{escape(about)}</desc>',
        "<style>",
        'text { font: 14px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }',
        ".small { font-size: 12.5px; fill: #57606a }",
        ".title { font-weight: 600 }",
        ".grid { stroke: #d0d7de; stroke-width: 1 }",
        ".event { stroke: #cf222e; stroke-width: 1; stroke-dasharray: 2 3 }",
        ".limit { stroke: #57606a; stroke-width: 1.4; stroke-dasharray: 6 4 }",
        *_colours(_LIGHT),
        "@media (prefers-color-scheme: dark) {",
        "text { fill: #e6edf3 }",
        ".small { fill: #9198a1 }",
        ".grid { stroke: #30363d }",
        *_colours(_DARK),
        "}",
        "</style>",
        f'<text class="title" x="10" y="22">{escape(title)}</text>',
    ]


def _colours(colours: Sequence[str]) -> list[str]:
    return [
        f".fill{number} {{ fill: {colour} }}"
        f" .line{number} {{ stroke: {colour}; stroke-width: 2; fill: none }}"
        for number, colour in enumerate(colours)
    ]


def _legend(names: Sequence[str]) -> Iterator[str]:
    x = 10.0
    for number, name in enumerate(names):
        yield f'<rect class="fill{number}" x="{x:.0f}" y="38" width="14" height="14" rx="2"/>'
        yield _text(x + 20, 50, name)
        x += 50 + 7.5 * len(name)


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="small" {place}>{escape(text)}</text>'


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)


def _ceiling(most: float) -> float:
    """Return a round number that is not below the highest value.

    Example:
        >>> [_ceiling(value) for value in (0.07, 3.2, 18, 401)]
        [0.1, 5.0, 20.0, 500.0]
    """
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= most)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"
