"""Equal operations are counted together, and graphs are split into kernels."""

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
    OperatorNode,
    Tally,
    Value,
    convolution_shape,
)

Row = dict[str, Any]


def value(*shape: int, view_of: Value | None = None) -> Value:
    return Value(shape, "float32", 4, view_of=view_of)


class GraphBuilder:
    """Builds a graph of nodes that each make one value of a hundred numbers."""

    def __init__(self) -> None:
        self.graph = Graph()

    def add(self, name: str, *inputs: Value, kind: str = POINTWISE, part: str = FORWARD, **facts: Any) -> Value:
        made = value(100)
        can_fuse = kind in (POINTWISE, REDUCTION)
        self.graph.nodes.append(OperatorNode(name, kind, list(inputs), [made], part=part, can_fuse=can_fuse, **facts))
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


def test_shapes_are_dropped_beyond_the_maximum_number_of_rows() -> None:
    tally = Tally()
    for size in range(operations.MAX_ROWS + 500):
        tally.add("pointwise", "float32", 0.0, 8.0, inputs=[(size,)])
    rows = tally.rows()
    assert len(rows) == operations.MAX_ROWS + 1
    assert rows[-1]["count"] == 500
    assert "inputs" not in rows[-1]


def test_convolution_without_extent_has_no_shape() -> None:
    shape: dict[str, Any] = {"channels_in": 3, "channels_out": 4, "kernel": [3, 3], "stride": [1], "groups": 1}
    assert convolution_shape(**shape, plane=[0, 5]) is None
    assert (convolution_shape(**shape, plane=[2, 5]) or {})["stride"] == [1, 1]


def test_pointwise_neighbours_are_fused_into_one_kernel() -> None:
    built, given = GraphBuilder(), value(100)
    last = built.add("tanh", built.add("exp", built.add("add", given)))
    (row,) = built.rows(last)
    assert (row["name"], row["kind"], row["bytes"], row["count"]) == ("fusion", "pointwise", 800.0, 1)


def test_reduction_ends_a_kernel() -> None:
    built, given = GraphBuilder(), value(100)
    made = built.add("exp", given)
    total = built.add("sum", made, kind=REDUCTION)
    rows = built.rows(built.add("div", made, total))
    assert [(row["name"], row["kind"]) for row in rows] == [("fusion", "reduction"), ("div", "pointwise")]


def test_product_is_never_fused() -> None:
    built, given = GraphBuilder(), value(100)
    product = built.add("dot", built.add("exp", given), kind=MATMUL, flops=7.0)
    rows = built.rows(built.add("tanh", product))
    assert [(row["name"], row["flops"]) for row in rows] == [("exp", 0.0), ("dot", 7.0), ("tanh", 0.0)]


def test_two_operators_on_the_same_tensor_read_it_once() -> None:
    built, given = GraphBuilder(), value(100)
    rows = built.rows(built.add("exp", given), built.add("tanh", given))
    assert [row["bytes"] for row in rows] == [1200.0]


def test_unused_results_are_not_counted() -> None:
    built, given = GraphBuilder(), value(100)
    built.add("gradient of the image", given, kind=MATMUL, flops=9.0)
    used = built.add("gradient of the weight", given, kind=MATMUL, flops=5.0)
    assert [row["flops"] for row in built.rows(used)] == [5.0]


def test_activations_between_forward_and_backward_are_counted() -> None:
    built, given = GraphBuilder(), value(100)
    saved = built.add("exp", given)
    built.graph.outputs = [built.add("mul", saved, part=BACKWARD)]
    tally, activation_bytes = built.graph.tally()
    assert [row["part"] for row in tally.rows()] == ["forward", "backward"]
    assert activation_bytes == 400


def test_operator_used_only_by_the_update_belongs_to_the_optimizer() -> None:
    built, moment, gradient = GraphBuilder(), value(100), value(100)
    faded = built.add("mul", moment)
    (row,) = built.rows(built.add("sub", faded, gradient, part=OPTIMIZER))
    assert (row["kind"], row["part"], row["bytes"]) == ("optimizer", "optimizer", 1200.0)


def test_loop_counts_its_body_as_often_as_it_runs() -> None:
    inner, built = GraphBuilder(), GraphBuilder()
    inner.graph.outputs = [inner.add("dot", value(100), kind=MATMUL, flops=3.0)]
    out = built.add("scan", value(100), kind="copy", body=inner.graph, count=7)
    (row,) = built.rows(out)
    assert (row["name"], row["count"]) == ("dot", 7)
    assert built.graph.flops == 21.0


def test_broadcast_view_counts_the_bytes_in_memory() -> None:
    small = value(10)
    assert value(1000, 10, view_of=small).bytes == 40
