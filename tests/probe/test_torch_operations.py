"""FLOPs and bytes of small networks with known figures."""
# mypy: allow-untyped-calls

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trainfare.probe import operations
from trainfare.probe.torch_operations import Tracer, kind_of

BATCH = 4
Row = dict[str, Any]


def traced(work: Callable[[Tracer], object]) -> dict[str, Any]:
    tracer = Tracer(torch, lambda: True)
    tracer.enter()
    try:
        work(tracer)
    finally:
        facts = tracer.leave()
    return facts


def flops(facts: dict[str, Any], kind: str | None = None) -> float:
    return sum(float(row["flops"] * row["count"]) for row in facts["operations"] if kind in (None, row["kind"]))


def work(facts: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("kind", "dtype", "flops", "bytes", "count")) for row in facts["operations"]]


def named(facts: dict[str, Any], name: str) -> Row:
    (row,) = [row for row in facts["operations"] if row["name"] == f"aten.{name}"]
    return dict(row)


def forward_and_backward(model: nn.Module, *inputs: torch.Tensor) -> dict[str, Any]:
    def iteration(_tracer: Tracer) -> None:
        out = model(*inputs)
        (out[0] if isinstance(out, tuple) else out).sum().backward()

    return traced(iteration)


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_convolution_counts_each_filter_of_its_group_once(groups: int) -> None:
    model = nn.Conv2d(8, 16, kernel_size=3, padding=1, groups=groups)
    facts = traced(lambda _: model(torch.randn(BATCH, 8, 10, 10)))
    assert flops(facts, "convolution") == 2 * BATCH * 16 * 10 * 10 * (8 // groups) * 9


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_backward_of_a_convolution_is_twice_its_forward(groups: int) -> None:
    model = nn.Conv2d(8, 16, kernel_size=3, padding=1, groups=groups)
    facts = forward_and_backward(model, torch.randn(BATCH, 8, 10, 10, requires_grad=True))
    assert flops(facts, "convolution") == 3 * 2 * BATCH * 16 * 10 * 10 * (8 // groups) * 9


def test_first_convolution_computes_no_gradient_of_the_image() -> None:
    facts = forward_and_backward(nn.Conv2d(3, 4, kernel_size=1), torch.randn(BATCH, 3, 5, 5))
    assert flops(facts, "convolution") == 2 * 2 * BATCH * 4 * 25 * 3


def test_transposed_convolution_counts_each_input_once() -> None:
    model = nn.ConvTranspose2d(6, 4, kernel_size=2, stride=2, groups=2)
    facts = forward_and_backward(model, torch.randn(BATCH, 6, 5, 5, requires_grad=True))
    assert flops(facts, "convolution") == 3 * 2 * BATCH * 6 * 25 * (4 // 2) * 4


def test_linear_layer_is_three_products() -> None:
    facts = forward_and_backward(nn.Linear(32, 16), torch.randn(BATCH, 32, requires_grad=True))
    assert flops(facts, "matmul") == 3 * 2 * BATCH * 32 * 16


def test_batched_matmul_counts_every_batch() -> None:
    a, b = torch.randn(5, 6, 7), torch.randn(5, 7, 8)
    facts = traced(lambda _: torch.bmm(a, b))
    assert work(facts) == [("matmul", "float32", 2.0 * 5 * 6 * 7 * 8, 4.0 * 5 * (42 + 56 + 48), 1)]


def test_attention_is_two_products_forward_and_five_backward() -> None:
    query, key, value = (torch.randn(2, 3, length, 16, requires_grad=True) for length in (10, 12, 12))
    facts = traced(lambda _: functional.scaled_dot_product_attention(query, key, value).sum().backward())
    one_product = 2 * 2 * 3 * 10 * 12 * 16
    assert flops(facts, "attention") == 7 * one_product


def attention_with_dropout(**options: Any) -> Callable[[Tracer], object]:
    query, key, value = (torch.randn(2, 3, 64, 16, requires_grad=True) for _ in range(3))

    def iteration(_tracer: Tracer) -> None:
        functional.scaled_dot_product_attention(query, key, value, dropout_p=0.1, **options).sum().backward()

    return iteration


def test_attention_with_dropout_is_one_operation_each_way_as_on_a_gpu() -> None:
    facts = traced(attention_with_dropout(is_causal=True))
    one_product, tensor = 2 * 2 * 3 * 64 * 64 * 16, 4 * 2 * 3 * 64 * 16
    rows = [(row["part"], row["flops"], row["bytes"]) for row in facts["operations"] if row["kind"] == "attention"]
    assert rows == [("forward", 2 * one_product, 4 * tensor), ("backward", 5 * one_product, 8 * tensor)]
    assert flops(facts) == 7 * one_product
    assert not any("softmax" in row["name"] or "bernoulli" in row["name"] for row in facts["operations"])


def test_attention_with_dropout_holds_no_matrix_of_scores() -> None:
    scores = 4 * 2 * 3 * 64 * 64
    facts = traced(attention_with_dropout())
    assert facts["activation_bytes"] < scores
    assert max(fixed + growing for fixed, growing in facts["moments"]) < 1.5 * scores


def test_attention_whose_fused_kernels_are_switched_off_stays_as_it_is() -> None:
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        facts = traced(attention_with_dropout())
    assert flops(facts, "attention") == 0
    assert flops(facts, "matmul") > 0


def test_attention_is_restored_after_tracing() -> None:
    before = functional.scaled_dot_product_attention
    traced(attention_with_dropout())
    assert functional.scaled_dot_product_attention is before


def test_attention_that_fails_fails_in_its_own_words() -> None:
    wrong = torch.randn(2, 3, 64, 8)

    def iteration(_tracer: Tracer) -> None:
        with pytest.raises(RuntimeError):
            functional.scaled_dot_product_attention(torch.randn(2, 3, 64, 16), wrong, wrong, dropout_p=0.1)

    assert flops(traced(iteration), "attention") == 0


def test_recomputed_attention_counts_its_forward_pass_twice() -> None:
    x = torch.randn(2, 3, 64, 16, requires_grad=True)

    def attend(q: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, q, q, dropout_p=0.1)

    facts = traced(lambda _: checkpoint(attend, x, use_reentrant=False).sum().backward())
    assert flops(facts, "attention") == (2 + 2 + 5) * 2 * 2 * 3 * 64 * 64 * 16


def test_lstm_multiplies_every_token_by_every_weight() -> None:
    model = nn.LSTM(8, 16)
    facts = forward_and_backward(model, torch.randn(7, BATCH, 8, requires_grad=True))
    products = 2 * 7 * BATCH * (4 * 16 * 8 + 4 * 16 * 16)
    assert flops(facts) == 3 * products


@pytest.mark.parametrize(("layer", "gates"), [(nn.GRU, 3), (nn.RNN, 1)])
def test_recurrent_layer_is_one_operation_each_way(layer: Any, gates: int) -> None:
    """The gradient of the initial state is not computed, because it is not learnt."""
    facts = forward_and_backward(layer(8, 16), torch.randn(7, BATCH, 8, requires_grad=True))
    forward, backward = [row for row in facts["operations"] if row["kind"] == "rnn"]
    products = 2 * 7 * BATCH * gates * 16 * (8 + 16)
    assert (forward["part"], forward["count"], forward["flops"]) == ("forward", 1, products)
    assert (backward["part"], backward["count"]) == ("backward", 1)
    assert backward["flops"] == 2 * products - 2 * BATCH * gates * 16 * 16
    assert flops(facts) == forward["flops"] + backward["flops"]


def test_recurrent_functions_are_as_before_the_trace() -> None:
    before = torch._VF.gru
    traced(lambda _: None)
    assert torch._VF.gru is before
    assert "gru" not in vars(torch._VF)


def test_parts_are_distinguished() -> None:
    """The program updates the last layer itself."""
    last = nn.Linear(16, 3)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), last)
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)

    def iteration(tracer: Tracer) -> None:
        model(torch.randn(BATCH, 8)).square().mean().backward()
        tracer.step_started()
        optimizer.step()
        tracer.step_ended()
        with torch.no_grad():
            assert last.weight.grad is not None
            last.weight.sub_(last.weight.grad)

    parts = {
        (row["name"].removeprefix("aten."), row["part"]) for row in traced(iteration)["operations"] if "part" in row
    }
    assert {("addmm", "forward"), ("mm", "backward"), ("threshold_backward", "backward")} <= parts
    assert ("sub_", "optimizer") in parts
    assert {name for name, part in parts if part == "optimizer"} <= {"_foreach_add_", "add_", "sub_"}


@pytest.mark.parametrize("transposed", [False, True])
def test_shape_of_a_convolution_is_recorded_forward_and_backward(transposed: bool) -> None:
    make: Any = nn.ConvTranspose2d if transposed else nn.Conv2d
    facts = forward_and_backward(make(8, 4, kernel_size=(2, 4), stride=2, groups=4), torch.randn(BATCH, 8, 10, 12))
    expected = {"channels_in": 8, "channels_out": 4, "kernel": [2, 4], "stride": [2, 2], "groups": 4}
    expected |= {"plane": [20, 26], "transposed": True} if transposed else {"plane": [5, 5]}
    assert named(facts, "convolution")["convolution"] == expected
    assert named(facts, "convolution_backward")["convolution"] == expected


@pytest.mark.parametrize(
    ("layer", "norm", "row"),
    [
        (nn.BatchNorm2d(8), "batch", BATCH * 25),
        (nn.InstanceNorm2d(8), "instance", 25),
        (nn.GroupNorm(2, 8), "group", 4 * 25),
        (nn.LayerNorm([5, 5]), "layer", 25),
    ],
)
def test_norms_record_their_kind_and_the_elements_normalised_together(layer: nn.Module, norm: str, row: int) -> None:
    facts = forward_and_backward(layer, torch.randn(BATCH, 8, 5, 5, requires_grad=True))
    recorded = {(o["part"], o["norm"], o["row"]) for o in facts["operations"] if o["kind"] == "norm"}
    assert recorded == {("forward", norm, row), ("backward", norm, row)}


def test_softmax_records_the_length_of_its_row() -> None:
    logits = torch.randn(BATCH, 7, 3, requires_grad=True)
    facts = traced(lambda _: logits.softmax(1).square().sum().backward())
    assert named(facts, "_softmax")["row"] == named(facts, "_softmax_backward_data")["row"] == 7


def test_shapes_are_recorded_except_those_of_long_lists() -> None:
    image, weights = torch.randn(2, 3), [torch.randn(4) for _ in range(5)]
    facts = traced(lambda _: (image @ image.t(), torch._foreach_add(weights, 1.0)))
    product, added = facts["operations"]
    assert (product["inputs"], product["outputs"]) == ([(2, 3), (3, 2)], [(2, 2)])
    assert "inputs" not in added
    assert "outputs" not in added


def test_embedding_reads_only_the_selected_rows() -> None:
    table, tokens = nn.Embedding(1000, 16), torch.zeros(10, dtype=torch.int64)
    facts = traced(lambda _: table(tokens))
    assert named(facts, "embedding")["bytes"] == 10 * 8 + 2 * 10 * 16 * 4


def test_operator_that_autocast_keeps_in_float32_is_marked_forward_and_backward() -> None:
    """The cosine keeps the dtype of its input; an operator outside the context is not marked."""
    given = torch.randn(BATCH, 8, requires_grad=True)

    def iteration(_tracer: Tracer) -> None:
        outside = given.exp()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = torch.mm(outside, torch.ones(8, 8)).detach().float() + outside.cos()
        inside.sum().backward()

    rows = traced(iteration)["operations"]
    assert {(row["name"], row["part"]) for row in rows if row.get("autocast")} >= {
        ("aten.cos", "forward"),
        ("aten.sin", "backward"),
    }
    assert not any(row.get("autocast") for row in rows if row["name"] in ("aten.exp", "aten.mm"))


def test_disabled_autocast_marks_nothing() -> None:
    given = torch.randn(BATCH, 8)
    with torch.autocast("cpu", enabled=False):
        rows = traced(lambda _: given.exp())["operations"]
    assert not any(row.get("autocast") for row in rows)


def test_dtype_is_that_of_autocast() -> None:
    model = nn.Linear(32, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        facts = traced(lambda _: model(torch.randn(BATCH, 32)))
    assert {row["dtype"] for row in facts["operations"] if row["kind"] == "matmul"} == {"bfloat16"}


def test_views_move_nothing() -> None:
    tensor = torch.randn(4, 6)
    assert traced(lambda _: tensor.t()[1:].unsqueeze(0).expand(2, -1, -1).detach())["operations"] == []


def test_addition_in_place_reads_two_and_writes_one() -> None:
    a, b = torch.randn(100), torch.randn(100)
    assert work(traced(lambda _: a.add_(b))) == [("pointwise", "float32", 0.0, 1200.0, 1)]


def test_copy_does_not_read_its_target() -> None:
    a, b = torch.randn(100), torch.randn(100)
    assert work(traced(lambda _: a.copy_(b))) == [("copy", "float32", 0.0, 800.0, 1)]


def test_expanded_tensor_is_read_once() -> None:
    a, b = torch.randn(100), torch.randn(1).expand(100)
    assert work(traced(lambda _: a + b)) == [("pointwise", "float32", 0.0, 804.0, 1)]


def test_equal_operations_are_one_row() -> None:
    a = torch.randn(10)
    assert work(traced(lambda _: [a * 2 for _ in range(5)])) == [("pointwise", "float32", 0.0, 80.0, 5)]


def test_steps_of_an_optimizer_are_a_kind_of_their_own() -> None:
    """Three kernels: the buffer shrinks (2 × 400 bytes), takes the gradient (3 ×) and moves the weight (3 ×)."""
    weight = nn.Parameter(torch.randn(100))
    weight.grad = torch.randn(100)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, foreach=True)
    optimizer.step()

    def step(tracer: Tracer) -> None:
        tracer.step_started()
        optimizer.step()
        tracer.step_ended()

    rows = traced(step)["operations"]
    assert {(row["kind"], row["part"]) for row in rows} == {("optimizer", "optimizer")}
    assert sum(row["bytes"] * row["count"] for row in rows) == 8 * 400


def test_activations_are_the_tensors_that_backward_needs() -> None:
    """ReLU keeps its output, the second layer its input, which is the same tensor; sigmoid keeps its output."""
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 16), nn.Sigmoid())
    inputs = torch.randn(BATCH, 8)

    def iteration(tracer: Tracer) -> None:
        out = model(inputs)
        loss = out.sum()
        del out
        tracer.backward_started()
        loss.backward()
        tracer.backward_ended()

    activation_bytes = traced(iteration)["activation_bytes"]
    assert activation_bytes == pytest.approx(BATCH * (64 + 16) * 4, abs=64)


def test_operator_that_cannot_be_counted_still_runs() -> None:
    tracer = Tracer(torch, lambda: True)
    tracer._count = None  # type: ignore[assignment,method-assign] # a counter that fails is what is tested
    tracer.enter()
    total = torch.ones(3).sum()
    with pytest.raises(TypeError):
        tracer.leave()
    assert total.item() == 3
    assert torch.ones(2).sum().item() == 2


def test_compiled_function_is_compiled_again_after_the_trace() -> None:
    compiled_calls = []

    def backend(graph: Any, _inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            compiled_calls.append(1)
            return graph.forward(*args)

        return run

    function = torch.compile(lambda x: x * 2 + 1, backend=backend)
    function(torch.ones(3))
    facts = traced(lambda _: function(torch.ones(3)))
    assert len(facts["operations"]) > 0
    assert len(compiled_calls) == 1
    function(torch.ones(3))
    assert len(compiled_calls) == 2


def test_nothing_is_counted_while_paused() -> None:
    tracer = Tracer(torch, lambda: False)
    tracer.enter()
    _ = torch.ones(3) * 2
    assert tracer.leave()["operations"] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("native_layer_norm_backward", "norm"),
        ("cudnn_batch_norm", "norm"),
        ("linalg_vector_norm", "reduction"),
        ("_log_softmax_backward_data", "reduction"),
        ("nll_loss_forward", "reduction"),
        ("max_pool2d_with_indices", "reduction"),
        ("embedding_dense_backward", "embedding"),
        ("_scaled_dot_product_efficient_attention", "attention"),
        ("_cudnn_rnn", "rnn"),
        ("_to_copy", "copy"),
        ("threshold_backward", "pointwise"),
        ("_foreach_addcdiv_", "pointwise"),
    ],
)
def test_kind_follows_from_the_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_waiting_for_a_cpu_is_no_reason_to_give_up_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine makes counting take long, and not more work."""
    count = Tracer._count

    def interrupted(self: Tracer, *call: Any) -> None:
        time.sleep(0.3)
        count(self, *call)

    monkeypatch.setattr(Tracer, "_count", interrupted)
    monkeypatch.setattr(operations, "MAX_COUNTING_SECONDS", 0.2)
    assert traced(lambda _: torch.ones(4) + 1)["operations"]
