"""Equal operations together, and kernels out of a graph."""

from typing import Any

from trainfare.probe import operations
from trainfare.probe.operations import (
    BACKWARD,
    FORWARD,
    MATMUL,
    OPTIMIZER,
    POINTWISE,
    REDUCTION,
    Graph,
    Node,
    Tally,
    Value,
    convolution,
)

Row = dict[str, Any]


def value(*shape: int, view_of: Value | None = None) -> Value:
    return Value(shape, "float32", 4, view_of=view_of)


class Built:
    """A graph of nodes that each make one value of a hundred numbers."""

    def __init__(self) -> None:
        self.graph = Graph()

    def add(self, name: str, *inputs: Value, kind: str = POINTWISE, part: str = FORWARD, **facts: Any) -> Value:
        made = value(100)
        fuses = kind in (POINTWISE, REDUCTION)
        self.graph.nodes.append(Node(name, kind, list(inputs), [made], part=part, fuses=fuses, **facts))
        return made

    def rows(self, *outputs: Value) -> list[Row]:
        self.graph.outputs = list(outputs)
        return self.graph.tally()[0].rows()


def test_equal_operations_are_one_row_and_others_are_not() -> None:
    tally = Tally()
    for plane in ([4, 4], [4, 4], [2, 2]):
        tally.add("convolution", "float32", 10.0, 20.0, part=FORWARD, convolution={"plane": plane}, norm=None)
    assert [row["count"] for row in tally.rows()] == [2, 1]
    assert "norm" not in tally.rows()[0]


def test_past_many_different_ones_shapes_are_left_out() -> None:
    tally = Tally()
    for size in range(operations.MOST_ROWS + 500):
        tally.add("pointwise", "float32", 0.0, 8.0, inputs=[(size,)])
    rows = tally.rows()
    assert len(rows) == operations.MOST_ROWS + 1
    assert rows[-1]["count"] == 500
    assert "inputs" not in rows[-1]


def test_convolution_without_extent_has_no_shape() -> None:
    shape: dict[str, Any] = {"inward": 3, "outward": 4, "kernel": [3, 3], "stride": [1], "groups": 1}
    assert convolution(**shape, plane=[0, 5]) is None
    assert (convolution(**shape, plane=[2, 5]) or {})["stride"] == [1, 1]


def test_neighbours_become_one_kernel_that_keeps_nothing_between_them() -> None:
    built, given = Built(), value(100)
    last = built.add("tanh", built.add("exp", built.add("add", given)))
    (row,) = built.rows(last)
    assert (row["name"], row["kind"], row["bytes"], row["count"]) == ("fusion", "pointwise", 800.0, 1)


def test_reduction_ends_a_kernel() -> None:
    built, given = Built(), value(100)
    made = built.add("exp", given)
    total = built.add("sum", made, kind=REDUCTION)
    rows = built.rows(built.add("div", made, total))
    assert [(row["name"], row["kind"]) for row in rows] == [("fusion", "reduction"), ("div", "pointwise")]


def test_product_stands_alone() -> None:
    built, given = Built(), value(100)
    product = built.add("dot", built.add("exp", given), kind=MATMUL, flops=7.0)
    rows = built.rows(built.add("tanh", product))
    assert [(row["name"], row["flops"]) for row in rows] == [("exp", 0.0), ("dot", 7.0), ("tanh", 0.0)]


def test_two_that_take_the_same_tensor_read_it_once() -> None:
    built, given = Built(), value(100)
    rows = built.rows(built.add("exp", given), built.add("tanh", given))
    assert [row["bytes"] for row in rows] == [1200.0]


def test_what_nobody_wants_is_not_computed() -> None:
    built, given = Built(), value(100)
    built.add("gradient of the image", given, kind=MATMUL, flops=9.0)
    wanted = built.add("gradient of the weight", given, kind=MATMUL, flops=5.0)
    assert [row["flops"] for row in built.rows(wanted)] == [5.0]


def test_forward_and_backward_are_different_kernels_and_what_lies_between_is_kept() -> None:
    built, given = Built(), value(100)
    saved = built.add("exp", given)
    built.graph.outputs = [built.add("mul", saved, part=BACKWARD)]
    tally, kept = built.graph.tally()
    assert [row["part"] for row in tally.rows()] == ["forward", "backward"]
    assert kept == 400


def test_what_is_made_for_the_update_alone_belongs_to_it() -> None:
    built, moment, gradient = Built(), value(100), value(100)
    faded = built.add("mul", moment)
    (row,) = built.rows(built.add("sub", faded, gradient, part=OPTIMIZER))
    assert (row["kind"], row["part"], row["bytes"]) == ("optimizer", "optimizer", 1200.0)


def test_loop_counts_its_body_as_often_as_it_runs() -> None:
    inner, built = Built(), Built()
    inner.graph.outputs = [inner.add("dot", value(100), kind=MATMUL, flops=3.0)]
    out = built.add("scan", value(100), kind="copy", body=inner.graph, count=7)
    (row,) = built.rows(out)
    assert (row["name"], row["count"]) == ("dot", 7)
    assert built.graph.flops == 21.0


def test_broadcast_view_is_read_as_what_lies_in_memory() -> None:
    small = value(10)
    assert value(1000, 10, view_of=small).bytes == 40
