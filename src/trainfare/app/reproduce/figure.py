"""What a figure shows, before anybody draws it: points with their labels, and what is to be seen in them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points that belong together, labelled once, at their end."""

    label: str
    points: tuple[tuple[float, float], ...]
    deviations: tuple[float, ...] = ()
    """Of y, one a point, or none."""
    chosen: bool = False
    """What the figure is about; the others are its ground."""
    dashed: bool = False
    joined: bool = True
    names: tuple[str, ...] = ()
    """Of single points, one a point, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`name` as in `malta-4.3`; no series is a figure whose numbers are nowhere printed, and `why` says so."""

    name: str
    title: str
    x: str = ""
    y: str = ""
    series: tuple[Series, ...] = ()
    log_x: bool = False
    log_y: bool = False
    x_ticks: tuple[float, ...] = ()
    marks: tuple[tuple[float, str], ...] = ()
    """Values of x that are to be seen, each with its words."""
    front: tuple[tuple[float, float], ...] = ()
    """Points that no other beats in both, from the fastest to the cheapest."""
    why: str = ""
    """What it was made from, or why it cannot be made."""

    @property
    def drawable(self) -> bool:
        return bool(self.series)
