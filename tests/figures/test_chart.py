"""Charts: labels at the ends of lines, symbols, bars, marks, shaded ranges and tooltips."""

from itertools import combinations

import pytest

from tests.figures.reading import dots, labels, layers, subtitle, ticks, title
from trainfare.figures.chart import MAX_MARKED_POINTS, SYMBOLS, Chart, Series, chart_figure, chart_views
from trainfare.figures.look import ACCENT, PAPER, STRONG, WIDE, Spec, text_width

FLAT = Series(label="flat", points=((0.0, 1.0), (5.0, 1.0), (10.0, 1.0)))
STEEP = Series(label="steep", points=((0.0, 0.0), (5.0, 2.0), (10.0, 4.0)), chosen=True)


def make_chart(*series: Series, **changes: object) -> Chart:
    fields: dict[str, object] = {"name": "chart", "title": "A title", "x": "epochs", "y": "loss"}
    return Chart(series=series or (FLAT, STEEP), **(fields | changes))  # type: ignore[arg-type] # fields by name, of several types


def lines(spec: Spec) -> list[Spec]:
    return list(layers(spec, "line"))


def test_title_subtitle_and_axis_titles_are_shown() -> None:
    spec = chart_figure(make_chart(subtitle="how to read it"))
    assert (title(spec), subtitle(spec)) == ("A title", "how to read it")
    (points,) = layers(spec, "point")
    assert points["encoding"]["x"]["axis"]["title"] == "epochs"
    assert points["encoding"]["y"]["axis"]["title"] == "loss"
    assert spec["usermeta"]["width"] == WIDE


def test_a_chart_without_series_is_refused_with_its_note() -> None:
    empty = Chart(name="malta-9.9", title="", note="the numbers are not printed")
    assert not empty.drawable
    with pytest.raises(ValueError, match=r"malta-9\.9 cannot be drawn: the numbers are not printed"):
        chart_figure(empty)


def test_each_line_has_one_label_in_the_margin() -> None:
    spec = chart_figure(make_chart())
    assert sorted(labels(spec)) == ["flat", "steep"]
    field_width = spec["width"]
    for layer in layers(spec, "text"):
        assert all(row["x"] > 0.9 * field_width for row in layer["data"]["values"])


def test_labels_of_lines_that_end_together_do_not_overlap() -> None:
    close = [Series(label=f"line {i}", points=((0.0, 0.0), (10.0, 5 + i / 100))) for i in range(6)]
    spec = chart_figure(make_chart(*close))
    boxes = {
        row["label"]: (row["y"] - 12, row["y"])
        for layer in layers(spec, "text")
        if layer["mark"].get("fill") != PAPER
        for row in layer["data"]["values"]
    }
    assert len(boxes) == 6
    assert all(a[1] <= b[0] or b[1] <= a[0] for a, b in combinations(boxes.values(), 2))


def test_a_long_label_is_shortened_and_fits_in_the_figure() -> None:
    spec = chart_figure(make_chart(Series(label="a very long name of a machine type", points=((0.0, 1.0), (1.0, 2.0)))))
    (label,) = labels(spec)
    assert "…" in label
    assert text_width(label) < WIDE - spec["width"]


def test_only_the_chosen_series_has_the_accent_colour() -> None:
    drawn = {layer["mark"]["color"]: layer["mark"]["strokeWidth"] for layer in lines(chart_figure(make_chart()))}
    assert set(drawn) == {ACCENT, STRONG}
    assert drawn[ACCENT] > drawn[STRONG]
    assert lines(chart_figure(make_chart()))[-1]["mark"]["color"] == ACCENT, "it is drawn on top"


def test_series_differ_by_symbols() -> None:
    many = [Series(label=str(i), points=((float(i), 1.0),), joined=False) for i in range(4)]
    assert [row["symbol"] for row in dots(chart_figure(make_chart(*many)))] == list(SYMBOLS[:4])


def test_a_ring_is_hollow_and_a_cross_is_a_path() -> None:
    series = Series(label="", points=((1.0, 1.0), (2.0, 1.0), (3.0, 1.0)), symbols=("circle", "ring", "x"))
    filled, ring, cross = dots(chart_figure(make_chart(series)))
    assert (filled["fill"], ring["fill"], ring["symbol"]) == (STRONG, PAPER, "circle")
    assert cross["symbol"].startswith("M")


@pytest.mark.parametrize(("count", "seen"), [(MAX_MARKED_POINTS, 1), (MAX_MARKED_POINTS + 1, 0)])
def test_the_points_of_a_long_line_are_invisible(count: int, seen: int) -> None:
    series = Series(label="long", points=tuple((float(i), 1.0) for i in range(count)))
    assert {row["seen"] for row in dots(chart_figure(make_chart(series)))} == {seen}


def test_a_line_is_thick_exactly_where_it_wins() -> None:
    series = Series(label="wins", points=tuple((float(i), 1.0) for i in range(11)), winning=((2.0, 4.0), (7.0, 10.0)))
    normal, *thick = lines(chart_figure(make_chart(series)))
    assert len(normal["data"]["values"]) == 11
    assert [[row["x"] for row in layer["data"]["values"]] for layer in thick] == [[2, 3, 4], [7, 8, 9, 10]]
    assert all(layer["mark"]["strokeWidth"] > 2 * normal["mark"]["strokeWidth"] for layer in thick)


def test_a_dashed_series_has_dashes() -> None:
    (line,) = lines(chart_figure(make_chart(Series(label="", points=((0.0, 1.0), (1.0, 2.0)), dashed=True))))
    assert line["mark"]["strokeDash"]


def test_points_that_are_not_joined_have_no_line() -> None:
    assert not lines(chart_figure(make_chart(Series(label="", points=((0.0, 1.0), (1.0, 2.0)), joined=False))))


@pytest.mark.parametrize(
    "series",
    [
        Series(label="", points=((1.0, 5.0), (2.0, 6.0)), bars=((4.0, 7.0), (5.0, 8.0))),
        Series(label="", points=((1.0, 5.5), (2.0, 6.5)), deviations=(1.5, 1.5)),
    ],
)
def test_intervals_and_deviations_are_bars_inside_the_axis(series: Series) -> None:
    spec = chart_figure(make_chart(series))
    (bars,) = (layer for layer in layers(spec, "rule") if "y2" in layer["encoding"])
    assert [(row["low"], row["high"]) for row in bars["data"]["values"]] == [(4.0, 7.0), (5.0, 8.0)]
    (points,) = layers(spec, "point")
    low, high = points["encoding"]["y"]["scale"]["domain"]
    assert low <= 4
    assert high >= 8


def test_marks_are_vertical_lines_with_labels() -> None:
    spec = chart_figure(make_chart(marks=((3.0, "three\nepochs"), (8.0, "eight"))))
    (rules,) = (layer for layer in layers(spec, "rule") if set(layer["encoding"]) == {"x"})
    assert [row["x"] for row in rules["data"]["values"]] == [3.0, 8.0]
    assert {"three", "epochs", "eight"} <= set(labels(spec))


def test_the_label_of_a_mark_at_the_right_edge_is_right_aligned_at_its_line() -> None:
    spec = chart_figure(make_chart(marks=((10.0, "the last\nof all ten epochs"),)))
    found = {
        row["label"]: (layer["mark"]["align"], row["x"])
        for layer in layers(spec, "text")
        for row in layer["data"]["values"]
        if row["label"] in ("the last", "of all ten epochs")
    }
    assert {align for align, _ in found.values()} == {"right"}
    assert len({x for _, x in found.values()}) == 1


def test_a_range_to_infinity_ends_with_the_axis() -> None:
    spec = chart_figure(make_chart(ranges=((6.0, float("inf")),)))
    (shaded,) = layers(spec, "rect")
    (points,) = layers(spec, "point")
    assert shaded["encoding"]["x"]["datum"] == 6.0
    assert shaded["encoding"]["x2"]["datum"] == points["encoding"]["x"]["scale"]["domain"][1]


def test_the_axis_can_end_after_the_last_point() -> None:
    (points,) = layers(chart_figure(make_chart(x_end=40.0)), "point")
    assert points["encoding"]["x"]["scale"]["domain"][1] >= 40


def test_a_logarithmic_axis_says_so_unless_its_ticks_are_given() -> None:
    positive = Series(label="", points=((1.0, 1.0), (1000.0, 100.0)))
    (points,) = layers(chart_figure(make_chart(positive, log_x=True, log_y=True)), "point")
    assert points["encoding"]["x"]["axis"]["title"] == "epochs, logarithmic"
    assert points["encoding"]["y"]["scale"]["type"] == "log"
    spec = chart_figure(make_chart(positive, log_x=True, x_ticks=(1.0, 32.0, 1000.0)))
    (given,) = layers(spec, "point")
    assert given["encoding"]["x"]["axis"]["title"] == "epochs"
    assert ticks(spec, "x").startswith("['1', '32', '1,000']")


def test_single_points_are_labelled_by_name() -> None:
    series = Series(label="", points=((1.0, 1.0), (9.0, 3.0)), joined=False, names=("first", "second"))
    assert sorted(labels(chart_figure(make_chart(series)))) == ["first", "second"]


def test_the_default_tooltip_has_the_name_and_both_values_in_their_units() -> None:
    series = Series(label="p2.xlarge", points=((1500.0, 12.24),), joined=False)
    chart = make_chart(series, x="images", y="cost", y_quantity="usd")
    (row,) = dots(chart_figure(chart))
    assert (row["label"], row["images"], row["cost"]) == ("p2.xlarge", "1,500", "$12.24")


def test_own_tooltips_replace_the_default_one() -> None:
    series = Series(label="p2.xlarge", points=((1.0, 2.0),), joined=False, tooltips=({"machine": "p2.xlarge"},))
    spec = chart_figure(make_chart(series))
    (row,) = dots(spec)
    assert row["machine"] == "p2.xlarge"
    assert "label" not in row
    (points,) = layers(spec, "point")
    assert [each["field"] for each in points["encoding"]["tooltip"]] == ["machine"]


def test_the_front_is_a_line_in_the_accent_colour() -> None:
    series = Series(label="", points=((1.0, 3.0), (2.0, 2.0), (3.0, 2.5)), joined=False)
    (front,) = lines(chart_figure(make_chart(series, front=((1.0, 3.0), (2.0, 2.0)))))
    assert front["mark"]["color"] == ACCENT
    assert [row["x"] for row in front["data"]["values"]] == [1.0, 2.0]


def test_stacked_charts_have_aligned_vertical_axes() -> None:
    large = Series(label="", points=((0.0, 1_000_000.0), (1.0, 2_000_000.0)))
    first, second = chart_views([make_chart(), make_chart(large)])
    extents = [next(layers(view, "point"))["encoding"]["y"]["axis"]["minExtent"] for view in (first, second)]
    assert extents[0] == extents[1]


def test_a_narrow_chart_is_narrower() -> None:
    wide, narrow = (chart_figure(make_chart(), width=width) for width in (600, 360))
    assert narrow["width"] < wide["width"]
    assert narrow["usermeta"]["width"] == 360
