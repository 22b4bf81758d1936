"""Axes of seconds, dollars and numbers: the pixel of a value, and round ticks with their labels.

    linear       pixel = (value − low)/(high − low)·length
    logarithmic  pixel = ln(value/low)/ln(high/low)·length

Ticks are round numbers of a unit: 15 minutes, 6 hours, $0.05; as many as have space for their labels.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trainfare.figures.look import LABEL_SIZE, Spec, text_width

Quantity = Literal["seconds", "usd", "count", "number"]
"""A count has ticks only at integers."""

LOG_SCALE_FROM = 8.0
"""If the largest value is this many times the smallest, small values would overlap on a linear axis from zero."""

MARGIN = 0.04
"""The share of its length that is left empty at an end that is not zero."""

TICK_GAP = 14.0
"""Pixels between the labels of two neighbouring ticks."""
VERTICAL_TICK_GAP = 34.0
"""Pixels from one tick to the next one above it, on a linear axis."""

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_UNITS = (("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", 1.0))
_MIN_UNITS = 2.0
"""A linear axis counts in the largest unit of which it holds at least this many."""
_STEPS = {
    "d": (1.0, 2.0, 5.0),
    "h": (1.0, 2.0, 3.0, 6.0, 12.0),
    "min": (1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    "s": (1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
}

# Ticks of a logarithmic axis of time; each level refines the levels before it. Fractions of a second and many days are
# counted in powers of ten.
_DECADES = (
    *(float(f"1e{exponent}") for exponent in range(-6, 0)),
    *(10.0**exponent * _DAY for exponent in range(1, 6)),
)
_TIME_TICKS: tuple[tuple[float, ...], ...] = (
    (*_DECADES, 1.0, _MINUTE, _HOUR, _DAY),
    (10.0, 10 * _MINUTE, 6 * _HOUR),
    (*(3 * ten for ten in _DECADES), 3.0, 30.0, 3 * _MINUTE, 30 * _MINUTE, 3 * _HOUR, 12 * _HOUR, 3 * _DAY),
    (2.0, 5.0, 20.0, 2 * _MINUTE, 5 * _MINUTE, 20 * _MINUTE, 2 * _HOUR, 4 * _HOUR, 8 * _HOUR, 2 * _DAY, 5 * _DAY),
    (*(2 * ten for ten in _DECADES), *(5 * ten for ten in _DECADES), 15.0, 40.0, 15 * _MINUTE, 40 * _MINUTE),
    (1.5 * _HOUR, 5 * _HOUR, 10 * _HOUR, 1.5 * _DAY, 4 * _DAY, 7 * _DAY),
)

_TITLE_SPACE = LABEL_SIZE + 4
"""Pixels of the title of a vertical axis."""

_MIN_LABEL_SPACE = 64
"""The least number of pixels for the labels of a vertical axis: the axes of stacked figures are then mostly aligned."""

Tick = tuple[float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis of `length` pixels from `low` to `high`."""

    low: float
    high: float
    length: float
    logarithmic: bool
    ticks: tuple[Tick, ...]

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.logarithmic and self.low <= 0) or self.length <= 0:
            raise ValueError(f"an axis of {self.length} pixels from {self.low} to {self.high} cannot be drawn")

    def pixel(self, value: float) -> float:
        """The pixel of a value, counted from the low end; values outside the axis have pixels outside of it."""
        if not self.logarithmic:
            return (value - self.low) / (self.high - self.low) * self.length
        if value <= 0:
            return -math.inf
        return math.log(value / self.low) / math.log(self.high / self.low) * self.length

    def encoding(self, field: str, title: str, *, label_space: float | None = None) -> Spec:
        """The Vega-Lite encoding of a channel. The tick labels are given, so that every renderer shows the same ones.
        `label_space` is the number of pixels for the labels and the title of a vertical axis."""
        values = [value for value, _ in self.ticks]
        axis: Spec = {
            "title": title,
            "values": values,
            "labelExpr": f"{_vega_list([label for _, label in self.ticks])}[indexof({values!r}, datum.value)]",
            "labelFlush": False,
            "labelOverlap": False,
            "grid": True,
        }
        if label_space is not None:
            axis |= {"minExtent": label_space - _TITLE_SPACE, "maxExtent": label_space - _TITLE_SPACE}
        scale = {
            "type": "log" if self.logarithmic else "linear",
            "domain": [self.low, self.high],
            "nice": False,
            "zero": False,
        }
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    @property
    def label_space(self) -> int:
        """Pixels for the tick labels and the title of a vertical axis."""
        labels = math.ceil(max((text_width(label) for _, label in self.ticks), default=0.0))
        return max(labels + 8 + _TITLE_SPACE, _MIN_LABEL_SPACE)


def needs_log_scale(values: Iterable[float]) -> bool:
    """True if small values would overlap on a linear axis."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) > LOG_SCALE_FROM * min(positive)


def build_axis(
    quantity: Quantity,
    values: Sequence[float],
    *,
    length: float,
    logarithmic: bool = False,
    from_zero: bool = True,
    vertical: bool = False,
    margin: float = MARGIN,
) -> Axis:
    """The axis that holds all values; on a `vertical` one the labels are above each other."""
    if logarithmic:
        low, high = _log_ends(values, margin)
        ticks = _log_ticks(quantity, low, high, length, vertical=vertical)
    else:
        low, high = _linear_ends(values, margin, from_zero=from_zero)
        ticks = _linear_ticks(quantity, low, high, length, vertical=vertical)
    return Axis(low=low, high=high, length=length, logarithmic=logarithmic, ticks=ticks)


def build_axis_with_ticks(
    tick_values: Sequence[float],
    values: Sequence[float],
    *,
    length: float,
    logarithmic: bool = True,
    margin: float = 0.06,
) -> Axis:
    """An axis with a tick at each of the given values that has space for its label, such as batch sizes."""
    low, high = _log_ends(values, margin) if logarithmic else _linear_ends(values, margin, from_zero=True)
    bare = Axis(low=low, high=high, length=length, logarithmic=logarithmic, ticks=())
    ticks: list[Tick] = []
    occupied_until = -math.inf
    for value in sorted(set(tick_values)):
        label = _format_tick_number(value)
        half = text_width(label) / 2
        if bare.pixel(value) - half - occupied_until >= TICK_GAP / 2:
            ticks.append((value, label))
            occupied_until = bare.pixel(value) + half
    return Axis(low=low, high=high, length=length, logarithmic=logarithmic, ticks=tuple(ticks))


def format_tick_duration(seconds: float) -> str:
    """A duration at a tick: 30 s, 15 min, 1.5 h, 2 d."""
    if 0 < seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if 0 < seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= size), ("s", 1.0))
    return _format_in_unit(seconds, unit, size)


def format_tick_usd(usd: float) -> str:
    """Dollars at a tick: $0.05, $20, $1,500."""
    return f"${_format_tick_number(float(f'{usd:.4g}'))}" if usd else "0"


def _format_in_unit(seconds: float, unit: str, size: float) -> str:
    return f"{_format_tick_number(float(f'{seconds / size:.4g}'))} {unit}" if seconds else "0"


def _format_tick_number(number: float) -> str:
    """A number at a tick, without an exponent: 15,000, 2,048, 0.05, 0.000002."""
    return f"{number:,.10f}".rstrip("0").rstrip(".")


def _tick_formatter(quantity: Quantity) -> Callable[[float], str]:
    if quantity == "seconds":
        return format_tick_duration
    return format_tick_usd if quantity == "usd" else _format_tick_number


def _log_ends(values: Sequence[float], margin: float) -> tuple[float, float]:
    """The ends of a logarithmic axis. They differ by at least a factor of four, so that there are round ticks."""
    positive = [value for value in values if value > 0]
    low, high = math.log(min(positive)), math.log(max(positive))
    half = max(high - low, math.log(4.0)) / 2 / (1 - 2 * margin)
    return math.exp((low + high) / 2 - half), math.exp((low + high) / 2 + half)


def _linear_ends(values: Sequence[float], margin: float, *, from_zero: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if from_zero and low >= 0:
        return 0.0, high / (1 - margin) if high > 0 else 1.0
    spread = (high - low) or abs(high) or 1.0
    return low - margin * spread, high + margin * spread


def _linear_ticks(quantity: Quantity, low: float, high: float, length: float, *, vertical: bool) -> tuple[Tick, ...]:
    """The ticks of the smallest step whose labels fit."""
    format_tick, steps = _tick_formatter(quantity), _decimal_steps(high - low)
    if quantity == "count":
        steps = [step for step in steps if step >= 1] or [1.0]
    if quantity == "seconds":
        unit, size = next(((unit, size) for unit, size in _UNITS if high >= _MIN_UNITS * size), ("s", 1.0))
        round_steps = _STEPS[unit]
        others = (step for step in _decimal_steps((high - low) / size) if step < 1 or step > round_steps[-1])
        steps = sorted(step * size for step in (*round_steps, *others))

        def in_unit(seconds: float) -> str:
            return _format_in_unit(seconds, unit, size)

        format_tick = in_unit
    ticks: tuple[Tick, ...] = ()
    for step in steps:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first > length / LABEL_SIZE:
            continue
        ticks = tuple((value, format_tick(value)) for value in (round(i * step, 12) for i in range(first, last + 1)))
        widest = max((text_width(label) for _, label in ticks), default=0.0)
        needed = VERTICAL_TICK_GAP if vertical else widest + 2 * TICK_GAP
        if step / (high - low) * length >= needed:
            break
    return ticks


def _decimal_steps(spread: float) -> list[float]:
    """1, 2 and 5 times the powers of ten up to the spread, in ascending order."""
    power = math.floor(math.log10(spread))
    return [float(f"{digit}e{exponent}") for exponent in range(power - 2, power + 1) for digit in (1, 2, 5)]


def _log_ticks(quantity: Quantity, low: float, high: float, length: float, *, vertical: bool) -> tuple[Tick, ...]:
    """The densest ticks whose labels fit."""
    format_tick = _tick_formatter(quantity)
    ticks: list[Tick] = []
    for choice in _log_tick_choices(quantity, low, high):
        ticks = [(value, format_tick(value)) for value in sorted(choice) if low <= value <= high]
        if _labels_fit(ticks, low, high, length, vertical=vertical):
            return tuple(ticks)
    while len(ticks) > 1 and not _labels_fit(ticks, low, high, length, vertical=vertical):
        ticks = ticks[::2]
    return tuple(ticks)


def _log_tick_choices(quantity: Quantity, low: float, high: float) -> list[list[float]]:
    if quantity == "seconds":
        counts = range(len(_TIME_TICKS), 0, -1)
        return [[value for level in _TIME_TICKS[:count] for value in level] for count in counts]
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (
        ((1, 2, 5), (1, 3), (1,)) if high > 10 * low else ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1,))
    )
    return [[float(f"{digit}e{exponent}") for exponent in exponents for digit in choice] for choice in digits]


def _labels_fit(ticks: Sequence[Tick], low: float, high: float, length: float, *, vertical: bool) -> bool:
    def ends(tick: Tick) -> tuple[float, float]:
        place = math.log(tick[0] / low) / math.log(high / low) * length
        half = LABEL_SIZE / 2 if vertical else text_width(tick[1]) / 2
        return place - half, place + half

    return all(ends(right)[0] - ends(left)[1] >= TICK_GAP for left, right in pairwise(ticks))


def _vega_list(labels: Sequence[str]) -> str:
    """A list of texts as a Vega expression."""
    return "[" + ", ".join("'" + label.replace("\\", "\\\\").replace("'", "\\'") + "'" for label in labels) + "]"
