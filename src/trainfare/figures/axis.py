"""Axes of seconds, dollars and plain numbers: where a value stands on the page, and ticks that a person would write.

    linear       pixel = (value − low)/(high − low)·length
    logarithmic  pixel = ln(value/low)/ln(high/low)·length

Ticks are multiples of what a clock or a purse has: 15 minutes, 6 hours, 0.05 $; as many as have room for their words.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from trainfare.figures.look import LABEL_SIZE, Spec, text_width

Quantity = Literal["seconds", "usd", "count", "number"]
"""A count has no ticks between whole numbers."""

LOGARITHMIC_FROM = 8.0
"""Where the largest is so many times the smallest, from zero the small ones would lie on each other."""

MARGIN = 0.04
"""Of its length, left empty at an end that is not zero."""

TICK_GAP = 14.0
"""Pixels between the words of two ticks beside each other."""
UPRIGHT_GAP = 34.0
"""Pixels from one tick to the next above it, on a linear axis."""

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_UNITS = (("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", 1.0))
_COUNTED_IN = 2.0
"""A linear axis counts in the largest unit of which it holds so many."""
_STEPS = {
    "d": (1.0, 2.0, 5.0),
    "h": (1.0, 2.0, 3.0, 6.0, 12.0),
    "min": (1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    "s": (1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
}

# Ticks of a logarithmic axis of time, each level between those of the levels before; parts of a second and many days
# are counted in tens.
_TENS = (*(float(f"1e{exponent}") for exponent in range(-6, 0)), *(10.0**exponent * _DAY for exponent in range(1, 6)))
_TIMES: tuple[tuple[float, ...], ...] = (
    (*_TENS, 1.0, _MINUTE, _HOUR, _DAY),
    (10.0, 10 * _MINUTE, 6 * _HOUR),
    (*(3 * ten for ten in _TENS), 3.0, 30.0, 3 * _MINUTE, 30 * _MINUTE, 3 * _HOUR, 12 * _HOUR, 3 * _DAY),
    (2.0, 5.0, 20.0, 2 * _MINUTE, 5 * _MINUTE, 20 * _MINUTE, 2 * _HOUR, 4 * _HOUR, 8 * _HOUR, 2 * _DAY, 5 * _DAY),
    (*(2 * ten for ten in _TENS), *(5 * ten for ten in _TENS), 15.0, 40.0, 15 * _MINUTE, 40 * _MINUTE),
    (1.5 * _HOUR, 5 * _HOUR, 10 * _HOUR, 1.5 * _DAY, 4 * _DAY, 7 * _DAY),
)

_TITLE_ROOM = LABEL_SIZE + 4
"""Pixels of the title of an upright axis."""

_LEAST_ROOM = 64
"""Pixels beside an upright axis, at least: figures below each other then mostly have their axes in one line."""

Tick = tuple[float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """`length` pixels from `low` to `high`."""

    low: float
    high: float
    length: float
    logarithmic: bool
    ticks: tuple[Tick, ...]

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.logarithmic and self.low <= 0) or self.length <= 0:
            raise ValueError(f"no axis of {self.length} pixels from {self.low} to {self.high}")

    def pixel(self, value: float) -> float:
        """From the low end; what lies outside is outside of the axis too."""
        if not self.logarithmic:
            return (value - self.low) / (self.high - self.low) * self.length
        if value <= 0:
            return -math.inf
        return math.log(value / self.low) / math.log(self.high / self.low) * self.length

    def encoding(self, field: str, title: str, *, room: float | None = None) -> Spec:
        """Of a channel; the words of the ticks are ours, so that every renderer has the same. `room` is what an
        upright axis takes beside it."""
        values = [value for value, _ in self.ticks]
        axis: Spec = {
            "title": title,
            "values": values,
            "labelExpr": f"{_literal([word for _, word in self.ticks])}[indexof({values!r}, datum.value)]",
            "labelFlush": False,
            "labelOverlap": False,
            "grid": True,
        }
        if room is not None:
            axis |= {"minExtent": room - _TITLE_ROOM, "maxExtent": room - _TITLE_ROOM}
        scale = {
            "type": "log" if self.logarithmic else "linear",
            "domain": [self.low, self.high],
            "nice": False,
            "zero": False,
        }
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}

    @property
    def room(self) -> int:
        """Pixels beside an upright axis: the words of the ticks and the title."""
        words = math.ceil(max((text_width(word) for _, word in self.ticks), default=0.0))
        return max(words + 8 + _TITLE_ROOM, _LEAST_ROOM)


def spans_widely(values: Iterable[float]) -> bool:
    """Whether a linear axis would press the smaller ones together."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) > LOGARITHMIC_FROM * min(positive)


def axis(
    quantity: Quantity,
    values: Sequence[float],
    *,
    length: float,
    logarithmic: bool = False,
    from_zero: bool = True,
    upright: bool = False,
    margin: float = MARGIN,
) -> Axis:
    """That holds all values; `upright` is a y axis, whose words stand above each other."""
    if logarithmic:
        low, high = _logarithmic_ends(values, margin)
        ticks = _logarithmic_ticks(quantity, low, high, length, upright=upright)
    else:
        low, high = _linear_ends(values, margin, from_zero=from_zero)
        ticks = _linear_ticks(quantity, low, high, length, upright=upright)
    return Axis(low=low, high=high, length=length, logarithmic=logarithmic, ticks=ticks)


def axis_at(
    places: Sequence[float], values: Sequence[float], *, length: float, logarithmic: bool = True, margin: float = 0.06
) -> Axis:
    """With a tick at each of the places that has room: batch sizes, that double."""
    low, high = _logarithmic_ends(values, margin) if logarithmic else _linear_ends(values, margin, from_zero=True)
    bare = Axis(low=low, high=high, length=length, logarithmic=logarithmic, ticks=())
    ticks: list[Tick] = []
    taken = -math.inf
    for value in sorted(set(places)):
        word = _plain(value)
        half = text_width(word) / 2
        if bare.pixel(value) - half - taken >= TICK_GAP / 2:
            ticks.append((value, word))
            taken = bare.pixel(value) + half
    return Axis(low=low, high=high, length=length, logarithmic=logarithmic, ticks=tuple(ticks))


def duration_words(seconds: float) -> str:
    """At a tick: 30 s, 15 min, 1.5 h, 2 d."""
    if 0 < seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if 0 < seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= size), ("s", 1.0))
    return _in_unit(seconds, unit, size)


def usd_words(usd: float) -> str:
    """At a tick: 0.05 $, 20 $, 1 500 $."""
    if usd >= 1000:
        return f"{usd:,.0f} $".replace(",", " ")
    return f"{_plain(float(f'{usd:.4g}'))} $" if usd else "0"


def _in_unit(seconds: float, unit: str, size: float) -> str:
    return f"{_plain(float(f'{seconds / size:.4g}'))} {unit}" if seconds else "0"


def _plain(number: float) -> str:
    """Without an exponent: 15 000, 2048, 0.05, 0.000002."""
    if abs(number) >= 10_000:
        return f"{number:,.0f}".replace(",", " ")
    return f"{number:.10f}".rstrip("0").rstrip(".")


def _words(quantity: Quantity) -> Callable[[float], str]:
    return {"seconds": duration_words, "usd": usd_words, "count": _plain, "number": _plain}[quantity]


def _logarithmic_ends(values: Sequence[float], margin: float) -> tuple[float, float]:
    """At least fourfold: of less, the ticks would have nothing round to stand at."""
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


def _linear_ticks(quantity: Quantity, low: float, high: float, length: float, *, upright: bool) -> tuple[Tick, ...]:
    """The finest step whose ticks have room."""
    words, steps = _words(quantity), _decimal_steps(high - low)
    if quantity == "count":
        steps = [step for step in steps if step >= 1] or [1.0]
    if quantity == "seconds":
        unit, size = next(((unit, size) for unit, size in _UNITS if high >= _COUNTED_IN * size), ("s", 1.0))
        round_steps = _STEPS[unit]
        others = (step for step in _decimal_steps((high - low) / size) if step < 1 or step > round_steps[-1])
        steps = sorted(step * size for step in (*round_steps, *others))

        def in_unit(seconds: float) -> str:
            return _in_unit(seconds, unit, size)

        words = in_unit
    ticks: tuple[Tick, ...] = ()
    for step in steps:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first > length / LABEL_SIZE:
            continue
        ticks = tuple((value, words(value)) for value in (round(i * step, 12) for i in range(first, last + 1)))
        needed = UPRIGHT_GAP if upright else max((text_width(word) for _, word in ticks), default=0.0) + 2 * TICK_GAP
        if step / (high - low) * length >= needed:
            break
    return ticks


def _decimal_steps(spread: float) -> list[float]:
    """1, 2 and 5 times the powers of ten up to the spread, ascending."""
    power = math.floor(math.log10(spread))
    return [float(f"{digit}e{exponent}") for exponent in range(power - 2, power + 1) for digit in (1, 2, 5)]


def _logarithmic_ticks(
    quantity: Quantity, low: float, high: float, length: float, *, upright: bool
) -> tuple[Tick, ...]:
    """The densest choice whose words have room."""
    words = _words(quantity)
    ticks: list[Tick] = []
    for choice in _choices(quantity, low, high):
        ticks = [(value, words(value)) for value in sorted(choice) if low <= value <= high]
        if _have_room(ticks, low, high, length, upright=upright):
            return tuple(ticks)
    while len(ticks) > 1 and not _have_room(ticks, low, high, length, upright=upright):
        ticks = ticks[::2]
    return tuple(ticks)


def _choices(quantity: Quantity, low: float, high: float) -> list[list[float]]:
    if quantity == "seconds":
        return [[value for level in _TIMES[:levels] for value in level] for levels in range(len(_TIMES), 0, -1)]
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (
        ((1, 2, 5), (1, 3), (1,)) if high > 10 * low else ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1,))
    )
    return [[float(f"{digit}e{exponent}") for exponent in exponents for digit in choice] for choice in digits]


def _have_room(ticks: Sequence[Tick], low: float, high: float, length: float, *, upright: bool) -> bool:
    def ends(tick: Tick) -> tuple[float, float]:
        place = math.log(tick[0] / low) / math.log(high / low) * length
        half = LABEL_SIZE / 2 if upright else text_width(tick[1]) / 2
        return place - half, place + half

    return all(ends(right)[0] - ends(left)[1] >= TICK_GAP for left, right in pairwise(ticks))


def _literal(words: Sequence[str]) -> str:
    """As the expressions of Vega write a list of texts."""
    return "[" + ", ".join("'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" for word in words) + "]"
