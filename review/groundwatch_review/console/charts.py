"""Geometry of the charts. Pure: numbers in, coordinates out; templates only draw and need no style attribute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .formats import clock, percent
from .overview import Overview, Step, VersionLine


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    step: Step
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    label: str
    anchor: str
    label_y: float


@dataclass(frozen=True, slots=True)
class Chart:
    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    bands: tuple[str, ...]  # one path per run of steps without a gap
    lines: tuple[str, ...]
    raw_lines: tuple[str, ...]
    points: tuple[Point, ...]
    marks: tuple[Mark, ...]


def rate_chart(overview: Overview, width: int, height: int) -> Chart | None:
    """The estimate with its band over time; None without a single estimate."""
    shown = [step for step in overview.steps if step.figure is not None]
    if not shown:
        return None
    frame = _Frame(shown, width, height, _ceiling(shown))
    runs = _runs(shown)
    return Chart(
        width=width,
        height=height,
        left=frame.left,
        right=frame.right,
        top=frame.top,
        bottom=frame.bottom,
        y_ticks=tuple(Tick(frame.y(v), percent(v, 0)) for v in _y_values(frame.ceiling)),
        x_ticks=frame.x_ticks(),
        bands=tuple(frame.band(run) for run in runs),
        lines=tuple(frame.line([(s, s.figure.rate) for s in run if s.figure]) for run in runs),
        raw_lines=tuple(frame.line([(s, s.figure.raw_mean) for s in run if s.figure]) for run in runs),
        points=tuple(frame.point(step) for step in shown),
        marks=_marks(frame, overview.versions),
    )


def _ceiling(steps: Sequence[Step]) -> float:
    """Top of the axis: round, above every line; the band of a thin step may be cut off at the top."""
    figures = [s.figure for s in steps if s.figure]
    tallest = max(max(f.rate, f.raw_mean) for f in figures)
    highs = sorted(f.high for f in figures)
    usual_high = highs[int(0.9 * (len(highs) - 1))]
    wanted = min(1.0, 1.08 * max(tallest, usual_high))
    return next(top for top in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0) if top >= wanted)


def _y_values(ceiling: float) -> list[float]:
    parts = {0.02: 2, 0.15: 3, 0.3: 3, 0.6: 3, 0.2: 4, 0.4: 4, 0.8: 4}.get(ceiling, 5)  # whole per cents
    return [ceiling * i / parts for i in range(parts + 1)]


def _runs(steps: Sequence[Step]) -> list[list[Step]]:
    """Split where time was skipped: a line across a gap would claim what nobody measured."""
    runs: list[list[Step]] = []
    for step in steps:
        if runs and step.start - runs[-1][-1].end < 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return runs


class _Frame:
    """Maps time and rate to coordinates."""

    def __init__(self, steps: Sequence[Step], width: int, height: int, ceiling: float) -> None:
        self.left, self.right = 44.0, width - 12.0
        self.top, self.bottom = 26.0, height - 26.0
        self.start, self.end = steps[0].start, steps[-1].end
        self.ceiling = ceiling

    def x(self, time: float) -> float:
        share = (time - self.start) / (self.end - self.start)
        return round(self.left + share * (self.right - self.left), 1)

    def y(self, rate: float) -> float:
        share = min(1.0, rate / self.ceiling)
        return round(self.bottom - share * (self.bottom - self.top), 1)

    def middle(self, step: Step) -> float:
        return self.x((step.start + step.end) / 2)

    def line(self, values: Sequence[tuple[Step, float]]) -> str:
        return "M" + " L".join(f"{self.middle(step)} {self.y(value)}" for step, value in values)

    def band(self, run: Sequence[Step]) -> str:
        figures = [(s, s.figure) for s in run if s.figure]
        if len(figures) == 1:  # a lone step has no width as a line: give it the width of its time
            step, only = figures[0]
            x1, x2, y1, y2 = self.x(step.start), self.x(step.end), self.y(only.high), self.y(only.low)
            return f"M{x1} {y1} L{x2} {y1} L{x2} {y2} L{x1} {y2} Z"
        over = [f"{self.middle(s)} {self.y(f.high)}" for s, f in figures]
        under = [f"{self.middle(s)} {self.y(f.low)}" for s, f in reversed(figures)]
        return "M" + " L".join([*over, *under]) + " Z"

    def point(self, step: Step) -> Point:
        rate = step.figure.rate if step.figure else 0.0
        left = self.x(step.start)
        return Point(self.middle(step), self.y(rate), step, left, round(self.x(step.end) - left, 1))

    def x_ticks(self) -> tuple[Tick, ...]:
        span = self.end - self.start
        wanted = max(2, int((self.right - self.left) / 120))
        steps = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800)
        every = next((s for s in steps if span / s <= wanted), math.ceil(span / wanted))
        first = math.ceil(self.start / every) * every
        times = range(int(first), int(self.end) + 1, int(every))
        return tuple(
            Tick(self.x(time), clock(time, span if every < 60 else max(span, 601.0)), self._anchor(self.x(time)))
            for time in times
        )

    def _anchor(self, x: float) -> str:
        if x > self.right - 16:
            return "end"
        return "start" if x < self.left + 4 else "middle"


def _marks(frame: _Frame, versions: Sequence[VersionLine]) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    for line in versions:
        if not frame.start < line.first_seen < frame.end:
            continue
        x = frame.x(line.first_seen)
        anchor = "end" if x > frame.right - 90 else "start"
        marks.append(Mark(x, line.version, anchor, 14.0))
    return tuple(marks)


@dataclass(frozen=True, slots=True)
class Strip:
    """A figure on a line: band, estimate and raw mean in units of 0 to 1000."""

    low: float
    span: float
    rate: float
    raw: float | None
    top: float  # the rate that 1000 stands for


def strip(low: float, rate: float, high: float, raw: float | None = None, top: float = 0.0) -> Strip:
    """Scale an interval (and the raw mean) to one line; *top* keeps several lines on one scale."""
    top = top or nice_top(max(high, raw or 0.0))
    x1, x2 = (round(1000 * min(1.0, value / top), 1) for value in (low, high))
    place = None if raw is None else round(1000 * min(1.0, raw / top), 1)
    return Strip(x1, max(6.0, round(x2 - x1, 1)), round(1000 * min(1.0, rate / top), 1), place, top)


def nice_top(value: float) -> float:
    steps = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
    return next((top for top in steps if top >= 1.02 * value), 1.0)
