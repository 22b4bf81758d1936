"""The plot of offers: every place is inside, also if a machine costs nothing."""

from trainfare.figures.offers_plot import PlotPoint, offers_plot
from trainfare.model.interval import Interval
from trainfare.model.plan import Goal


def make_point(key: str, seconds: float, usd: float, *, on_front: bool = False, chosen: bool = False) -> PlotPoint:
    return PlotPoint(
        key=key,
        title=key,
        short=key,
        seconds=Interval(value=seconds, low=seconds / 2, high=seconds * 2),
        usd=Interval(value=usd, low=usd / 2, high=usd * 2),
        on_front=on_front,
        chosen=chosen,
    )


def test_a_machine_that_costs_nothing_stands_at_the_foot() -> None:
    here = make_point("here", 12, 0, on_front=True, chosen=True)
    plot = offers_plot([here, make_point("a", 280, 0.01), make_point("b", 300, 0.02)], Goal(kind="cheapest"))
    assert plot.chosen is not None
    assert len(plot.others) == 2
    assert plot.chosen.y > max(dot.y for dot in plot.others)
    assert plot.not_drawn == 0


def test_only_machines_that_cost_nothing_can_be_drawn() -> None:
    plot = offers_plot([make_point("here", 12, 0, on_front=True, chosen=True)], Goal(kind="cheapest"))
    assert plot.chosen is not None
    assert 0 <= plot.chosen.y <= 100


def test_a_limit_far_beyond_the_front_does_not_squeeze_it() -> None:
    points = [make_point(str(n), 100 * n, 1 / n, on_front=True, chosen=n == 3) for n in (1, 2, 3)]
    assert offers_plot(points, Goal(kind="cheapest", deadline_seconds=1e6)).deadline is None
    assert offers_plot(points, Goal(kind="cheapest", deadline_seconds=400)).deadline is not None
