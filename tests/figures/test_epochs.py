"""Lines by number of epochs; bold where no other machine is better."""

import pytest

from tests.figures.reading import dots, estimate, labels, layers, subtitle, title, views
from trainfare.figures.epochs import MAX_LINES, epochs_figure
from trainfare.figures.look import Spec
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal
from trainfare.recommender.crossovers import winning_ranges

GPUS = ("T4", "V100", "A10G", "L4", "A100", "H100", "B200", "K80")


def machine(name: str, start: float, per_epoch: float, usd: float, gpu: str) -> tuple[Estimate, Estimate]:
    """Hours, and dollars an hour."""
    one, two = (
        estimate(name, hours=start + per_epoch * n, usd=usd * (start + per_epoch * n), epochs=n, gpu=gpu)
        for n in (1, 2)
    )
    return one, two


# The second starts an hour later and takes half the time per epoch, at 1.5 times the price.
SLOW, QUICK = machine("p2.xlarge", 0.1, 0.2, 1.0, "K80"), machine("p3.2xlarge", 1.15, 0.1, 1.5, "V100")


def figure(*pairs: tuple[Estimate, Estimate], epochs: int = 20, chosen: int = 0, width: int = 600) -> Spec:
    once, twice = [one for one, _ in pairs], [two for _, two in pairs]
    return epochs_figure(
        once,
        twice,
        chosen=once[chosen].candidate,
        epochs=epochs,
        fastest=winning_ranges(once, twice, Goal(kind="fastest")),
        cheapest=winning_ranges(once, twice, Goal(kind="cheapest")),
        width=width,
    )


def test_changes_of_the_winner_after_the_planned_epochs_are_drawn() -> None:
    assert {"from 11", "from 33"} <= set(labels(figure(SLOW, QUICK)))


def test_the_title_names_the_winners() -> None:
    time, cost = views(figure(SLOW, QUICK))
    assert title(time) == "Fastest: aws p2.xlarge; from 11 epochs on, aws p3.2xlarge"
    assert title(cost).startswith("Cheapest: aws p2.xlarge; from ")
    assert subtitle(time) == "bold where no other machine is faster"


def test_each_line_is_labelled_at_its_end_in_both_panels() -> None:
    found = labels(figure(SLOW, QUICK))
    assert found.count("aws p2.xlarge") >= 2
    assert found.count("aws p3.2xlarge") >= 2
    assert found.count("20 epochs") == 2
    assert "from 11" in found


def test_a_line_is_bold_exactly_where_it_wins() -> None:
    time = views(figure(SLOW, QUICK))[0]
    heavy = [layer for layer in layers(time, "line") if layer["mark"]["strokeWidth"] > 3]
    reach = sorted(
        (min(r["x"] for r in layer["data"]["values"]), max(r["x"] for r in layer["data"]["values"])) for layer in heavy
    )
    assert reach == [(1, 11), (11, 42)]


def test_lines_are_straight_through_one_and_two_epochs() -> None:
    shown = [row for row in dots(views(figure(SLOW, QUICK))[0]) if row["machine"] == "aws p3.2xlarge"]
    assert shown[0]["x"] == 0
    assert all(row["y"] == pytest.approx(3600 * (1.15 + 0.1 * row["x"])) for row in shown)
    assert shown[-1]["x"] == 42
    assert shown[-1]["time"] == "5 h 21 min"


def test_an_early_change_of_the_winner_makes_the_axes_logarithmic() -> None:
    late = views(figure(SLOW, QUICK, epochs=20))[0]
    early = views(figure(SLOW, QUICK, epochs=500))[0]
    kinds = [next(layers(view, "point"))["encoding"]["x"]["scale"]["type"] for view in (late, early)]
    assert kinds == ["linear", "log"]


def test_few_lines_are_drawn_one_per_gpu_and_always_the_chosen_one() -> None:
    many = [machine(f"m{i}", 0.1 + i / 50, 0.2 + i / 50, 1.0 + i / 10, GPUS[i % 8]) for i in range(30)]
    spec = figure(*many, chosen=29)
    drawn = {row["machine"] for row in dots(spec)}
    assert len(drawn) == MAX_LINES
    assert "aws m29" in drawn


def test_one_epoch_of_one_machine_can_be_drawn() -> None:
    time, _ = views(figure(SLOW, epochs=1, width=360))
    assert title(time) == "Fastest: aws p2.xlarge"
