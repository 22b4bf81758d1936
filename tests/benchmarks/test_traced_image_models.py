"""What one iteration of a network launches, followed through PyTorch's dispatcher."""

import pytest

from tests.needs import need

torch = need("torch")

from benchmarks.traced.image_models import trace  # noqa: E402 # imports torch at its head

BATCH, SIDE = 4, 8


@pytest.fixture(scope="module")
def counts() -> dict[str, dict[tuple[int, int], int]]:
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False),
        torch.nn.Conv2d(8, 16, 1, bias=False),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * SIDE**2, 10),
    )
    return {kind: dict(found) for kind, found in trace(network.half().to("meta"), batch_size=BATCH, side=SIDE).items()}


def test_convolutions_are_told_apart_by_kernel_and_groups(counts: dict[str, dict[tuple[int, int], int]]) -> None:
    assert {kind for kind in counts if kind.endswith("_f")} == {"conv_f", "dw_f", "conv1x1_f"}


def test_the_first_convolution_has_no_gradient_of_its_image(counts: dict[str, dict[tuple[int, int], int]]) -> None:
    ((forward, _),), ((backward, _),) = counts["conv_f"], counts["conv_b"]
    assert forward == backward == 2 * BATCH * 8 * SIDE**2 * 3 * 9


def test_a_later_one_has_both_gradients(counts: dict[str, dict[tuple[int, int], int]]) -> None:
    ((forward, _),), ((backward, _),) = counts["conv1x1_f"], counts["conv1x1_b"]
    assert backward == 2 * forward


def test_a_tensor_that_is_written_over_counts_once(counts: dict[str, dict[tuple[int, int], int]]) -> None:
    assert counts["elem"][0, 2 * BATCH * 8 * SIDE**2] == 1


def test_the_update_reads_and_writes_each_parameter(counts: dict[str, dict[tuple[int, int], int]]) -> None:
    parameters = 8 * 3 * 9 + 2 * 8 + 8 * 9 + 16 * 8 + 16 * SIDE**2 * 10 + 10
    assert counts["opt"] == {(0, 2 * 2 * parameters): 1}
