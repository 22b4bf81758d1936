"""Operations at another batch size, compared with operations that were traced there."""

import math
import time
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_profile
from tests.needs import need
from trainfare.estimator.batch.operations import operations_at, operations_by_batch
from trainfare.model.profile import Convolution, Operation, Profile


def op(kind: Any, *, inputs: Any = (), outputs: Any = (), itemsize: int = 4, **more: Any) -> Operation:
    """An operation that moves all of its inputs and outputs once."""
    moved = itemsize * sum(math.prod(shape) for shape in (*inputs, *outputs))
    fields = {"kind": kind, "dtype": "float32", "flops": 0.0, "bytes": float(moved), "part": "forward"}
    return Operation(**(fields | {"inputs": inputs, "outputs": outputs} | more))


def linear(rows: int, k: int, n: int) -> tuple[Operation, ...]:
    """A dense layer forward and backward, as PyTorch runs it."""
    flops = 2.0 * rows * k * n
    return (
        op("matmul", inputs=((n,), (rows, k), (k, n)), outputs=((rows, n),), flops=flops, name="aten.addmm"),
        op("matmul", inputs=((rows, n), (n, k)), outputs=((rows, k),), flops=flops, name="aten.mm", part="backward"),
        op("matmul", inputs=((n, rows), (rows, k)), outputs=((n, k),), flops=flops, name="aten.mm", part="backward"),
    )


def network(b: int, *, width: int = 64, tokens: int = 8) -> tuple[Operation, ...]:
    """A convolution, a norm, attention, two dense layers, an embedding and an optimizer, at batch b."""
    image, out, weight = (b, 3, 16, 16), (b, width, 16, 16), (width, 3, 3, 3)
    shape = Convolution(channels_in=3, channels_out=width, kernel=(3, 3), stride=(1, 1), plane=(16, 16))
    conv = 2.0 * 27 * math.prod(out)
    scores = (b * 4, tokens, tokens)
    heads = (b * 4, tokens, width // 4)
    attention = 2.0 * math.prod(scores) * width / 4
    row = b * 16 * 16
    return (
        op("convolution", inputs=(image, weight, (width,)), outputs=(out,), flops=conv, convolution=shape),
        op(
            "convolution",
            inputs=(out, image, weight),
            outputs=(weight, (width,)),
            flops=conv,
            convolution=shape,
            part="backward",
        ),
        op("norm", inputs=(out, (width,), (width,)), outputs=(out, (width,), (width,)), norm="batch", row=row),
        op("pointwise", inputs=((b, tokens, width), (1, tokens, width)), outputs=((b, tokens, width),)),
        op("matmul", inputs=(heads, (b * 4, width // 4, tokens)), outputs=(scores,), flops=attention, name="aten.bmm"),
        *linear(b * tokens, width, 4 * width),
        *linear(b, width, width),
        op("reduction", inputs=((b * tokens, width),), outputs=((1, width),), part="backward"),
        op("optimizer", inputs=((width, width), (width, width)), outputs=((width, width),), part="optimizer"),
    )


def traced(b: int, **options: Any) -> Profile:
    return make_profile(micro_batch_size=b, operations=network(b, **options))


def sums(operations: tuple[Operation, ...]) -> dict[str, tuple[float, float]]:
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in operations:
        found[one.kind][0] += one.count * one.flops
        found[one.kind][1] += one.count * one.bytes
    return {kind: (flops, moved) for kind, (flops, moved) in found.items()}


@pytest.mark.parametrize("known", [16, 48, 64, 128])
@pytest.mark.parametrize("target", [1, 32, 64, 100, 1024])
def test_shapes_at_one_batch_size_predict_the_trace_at_another(known: int, target: int) -> None:
    found, expected = sums(operations_at([traced(known)], target)), sums(network(target))
    for kind, (flops, moved) in expected.items():
        assert found[kind][0] == pytest.approx(flops), kind
        assert found[kind][1] == pytest.approx(moved), kind


def test_predicted_shapes_and_rows_are_those_of_the_other_batch_size() -> None:
    found = Counter((one.inputs, one.outputs, one.row) for one in operations_at([traced(48)], 96))
    assert found == Counter((one.inputs, one.outputs, one.row) for one in network(96))


def test_optimizer_work_does_not_depend_on_the_batch_size() -> None:
    before = next(one for one in network(64) if one.kind == "optimizer")
    assert before in operations_at([traced(64)], 4096)


@pytest.mark.parametrize("shapes", [{"inputs": ((64, 100),), "outputs": ((64, 100),)}, {"bytes": 1e6}])
def test_communication_does_not_depend_on_the_batch_size(shapes: dict[str, Any]) -> None:
    """Weights and gradients are sent, whatever their shapes look like."""
    collective = op("communication", name="c10d._allgather_base_", **shapes)
    profile = make_profile(micro_batch_size=64, operations=(*network(64), collective))
    assert collective in operations_at([profile], 4096)


def test_embedding_table_is_read_at_most_once() -> None:
    def looked_up(b: int) -> Operation:
        read = min(1000 * 64, b * 32 * 64)
        moved = 4.0 * (read + b * 32 * 64) + 8 * b * 32
        return op("embedding", inputs=((1000, 64), (b, 32)), outputs=((b, 32, 64),), bytes=moved)

    for known, target in ((16, 256), (256, 16), (64, 32)):
        (found,) = operations_at([make_profile(micro_batch_size=known, operations=(looked_up(known),))], target)
        assert found.bytes == pytest.approx(looked_up(target).bytes)


def test_products_without_shapes_read_the_same_weights_at_every_batch_size() -> None:
    recurrent = Operation(kind="rnn", dtype="float32", flops=1e9, bytes=1e6 + 64 * 1e5, part="forward")
    profile = make_profile(micro_batch_size=64, operations=(recurrent,), gradient_bytes=10**6)
    (found,) = operations_at([profile], 128)
    assert found.flops == pytest.approx(2e9)
    assert found.bytes == pytest.approx(1e6 + 128 * 1e5)


def test_two_batch_sizes_determine_bytes_that_no_shape_explains() -> None:

    def odd(b: int) -> Profile:
        one = op("pointwise", inputs=((7, 7),), outputs=((7, 7),), name="odd", bytes=5e5 + 300.0 * b)
        return make_profile(micro_batch_size=b, operations=(one, *network(b)))

    found = operations_at([odd(16), odd(64)], 512)
    assert found[0].bytes == pytest.approx(5e5 + 300 * 512)
    assert sums(found)["matmul"][1] == pytest.approx(sums(network(512))["matmul"][1])


def test_known_batch_size_returns_its_traced_operations() -> None:
    profiles = [traced(16), traced(64)]
    assert operations_at(profiles, 64) is profiles[1].operations


def test_profiles_without_operations_are_refused() -> None:
    with pytest.raises(ValueError, match="operations and a batch size"):
        operations_at([make_profile(micro_batch_size=None), make_profile(operations=())], 64)
    with pytest.raises(ValueError, match="positive"):
        operations_at([traced(16)], 0)


@given(st.integers(1, 512), st.integers(1, 4096), st.integers(1, 4096))
def test_work_never_falls_with_the_batch_size(known: int, one: int, other: int) -> None:
    at = operations_by_batch([traced(known, width=32)])
    for fewer, more in zip(at(min(one, other)), at(max(one, other)), strict=True):
        assert fewer.flops <= more.flops * (1 + 1e-12)
        assert fewer.bytes <= more.bytes * (1 + 1e-12)


def test_ten_batch_sizes_of_500_operations_take_less_than_a_quarter_second() -> None:
    operations = tuple(one for width in range(64, 64 + 36) for one in network(64, width=4 * width))
    profile = make_profile(micro_batch_size=64, operations=operations)
    began = time.process_time()
    at = operations_by_batch([profile])
    for batch in range(100, 110):
        assert len(at(batch)) == len(operations) > 450
    assert time.process_time() - began < 0.25  # 0.02 s on an idle core


# ---- compared with PyTorch


def trace(make: Any, batch_size: int) -> Profile:
    torch = need("torch")
    from trainfare.probe.torch_operations import Tracer

    torch.manual_seed(0)
    model, inputs, classes = make(torch, batch_size)
    optimizer = torch.optim.Adam(model.parameters())
    labels = torch.randint(0, classes, (batch_size,))
    tracer = Tracer(torch, lambda: True)
    tracer.enter()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    tracer.backward_started()
    loss.backward()
    tracer.backward_ended()
    tracer.step_started()
    optimizer.step()
    tracer.step_ended()
    rows = tracer.leave()["operations"]
    operations = tuple(
        Operation(
            **(
                row
                | {name: tuple(map(tuple, row.get(name, ()))) for name in ("inputs", "outputs")}
                | {"convolution": _convolution(row.get("convolution"))}
            )
        )
        for row in rows
    )
    weights = 4 * sum(p.numel() for p in model.parameters())
    return make_profile(micro_batch_size=batch_size, operations=operations, gradient_bytes=weights)


def _convolution(facts: Any) -> Convolution | None:
    if facts is None:
        return None
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}
    return Convolution(**fields)


def small_cnn(torch: Any, b: int) -> Any:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, groups=4, bias=False),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(288, 64),
        nn.Dropout(0.1),
        nn.ReLU(),
        nn.Linear(64, 10),
    )
    return model, torch.randn(b, 3, 8, 8), 10


def small_transformer(torch: Any, b: int) -> Any:
    class Pooled(torch.nn.Module):  # type: ignore[misc] # torch is Any where it may be missing
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(300, 32)
            self.layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
            self.head = torch.nn.Linear(32, 10)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.layer(self.table(tokens)).mean(dim=1))

    return Pooled(), torch.randint(0, 300, (b, 12)), 10


@pytest.mark.parametrize("make", [small_cnn, small_transformer])
@pytest.mark.parametrize(("known", "target"), [((16,), 64), ((64,), 16), ((16, 32), 64)])
def test_predicted_and_traced_work_agree_within_two_percent(make: Any, known: tuple[int, ...], target: int) -> None:
    expected = sums(trace(make, target).operations)
    found = sums(operations_at([trace(make, batch) for batch in known], target))
    for kind, (flops, moved) in expected.items():
        assert found[kind][0] == pytest.approx(flops, rel=0.001), kind
        assert found[kind][1] == pytest.approx(moved, rel=0.02), kind
