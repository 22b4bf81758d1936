"""Tables of traced networks, read as the operations that our own tracer would have recorded."""

import csv
import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from trainfare.measurements.families import family_of
from trainfare.measurements.traced_models import UPLOAD, read_image_models, read_own_image_traces, read_torchvision
from trainfare.model.profile import Convolution, Operation

SHARED = Path(__file__).parents[2].parent / "shared" / "measurements"
BATCH, ITEMSIZE = 16, 2

Pair = list[float]


def convolved(
    inward: int, outward: int, kernel: int, side: int, *, stride: int = 1, groups: int = 1, bias: bool = False,
    first: bool = False,
) -> tuple[Pair, Pair]:  # fmt: skip
    """FLOPs and bytes, forward and backward, as the tables count them."""
    out = side // stride
    image, made = BATCH * inward * side**2, BATCH * outward * out**2
    weight = outward * inward // groups * kernel**2
    flops = 2 * made * (inward // groups) * kernel**2
    small = outward if bias else 0
    forward = image + weight + made + small
    backward = (1 if first else 2) * image + 2 * weight + made + small
    return [flops, ITEMSIZE * forward], [flops * (1 if first else 2), ITEMSIZE * backward]


def batch_norm(channels: int, side: int) -> tuple[Pair, Pair]:
    tensor = BATCH * channels * side**2
    return [0, ITEMSIZE * (2 * tensor + 8 * channels)], [0, ITEMSIZE * (3 * tensor + 9 * channels)]


def layer_norm(rows: int, width: int) -> tuple[Pair, Pair]:
    tensor = BATCH * rows * width
    return (
        [0, ITEMSIZE * (2 * tensor + 2 * width) + 8 * BATCH * rows],
        [0, ITEMSIZE * (3 * tensor + 4 * width) + 8 * BATCH * rows],
    )


def write_image_models(folder: Path, classes: dict[str, list[Pair]], model: str = "resnet9") -> None:
    table = folder / "vision_models_rtx3090"
    table.mkdir(parents=True)
    traced = {"model": model, "batch_size": BATCH, "dtype": "float16", "params": 1000}
    with gzip.open(table / "operations.jsonl.gz", "wt") as file:
        file.write(json.dumps({**traced, "flops_and_bytes_by_class": classes}) + "\n")
    (table / "train_amp_nchw.csv").write_text(f"model,train_step_time,train_batch_size\n{model},12.5,{BATCH}\n")


def test_models_with_times_alone_get_our_own_traces(tmp_path: Path) -> None:
    write_image_models(tmp_path, {"mm": [[2e6, 3e4]]}, model="resnet101")
    table = tmp_path / "vision_models_rtx3090" / "train_amp_nchw.csv"
    table.write_text(
        f"model,train_step_time,train_batch_size\nresnet101,9.5,{BATCH}\nresnet34,12.5,512\nuntraced,1,2\n"
    )
    (found,) = read_own_image_traces(tmp_path)
    assert (found.program, found.family, found.seconds) == ("resnet34", "resnet", 0.0125)
    forward = [op for op in found.operations if op.convolution and op.part == "forward"]
    assert sum(op.count for op in forward) == 36  # He 2015: 33 of three by three and the first, three of one by one
    assert sum(op.flops * op.count for op in forward) == pytest.approx(512 * 7.3e9, rel=0.02)


def read_one(folder: Path, classes: dict[str, list[Pair]]) -> tuple[Operation, ...]:
    write_image_models(folder, {**classes, "opt": [[0, 4000]]})
    (row,) = read_image_models(folder)
    return row.operations


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("conv", {"inward": 64, "outward": 128, "kernel": 3, "side": 56}),
        ("conv", {"inward": 64, "outward": 128, "kernel": 3, "side": 56, "stride": 2, "bias": True}),
        ("conv", {"inward": 3, "outward": 64, "kernel": 7, "side": 224, "stride": 2, "first": True}),
        ("conv1x1", {"inward": 256, "outward": 64, "kernel": 1, "side": 28}),
        ("conv1x1", {"inward": 256, "outward": 512, "kernel": 1, "side": 28, "stride": 2}),
        ("dw", {"inward": 96, "outward": 96, "kernel": 5, "side": 28, "groups": 96}),
        ("gconv", {"inward": 128, "outward": 128, "kernel": 3, "side": 28, "groups": 32}),
    ],
)
def test_shape_of_a_convolution_is_reconstructed(tmp_path: Path, name: str, shape: dict[str, Any]) -> None:
    forward, backward = convolved(**shape)
    operations = read_one(tmp_path, {f"{name}_f": [forward], f"{name}_b": [backward]})
    found = [op for op in operations if op.kind == "convolution"]
    side = shape["side"] // shape.get("stride", 1)
    wanted = Convolution(
        channels_in=shape["inward"],
        channels_out=shape["outward"],
        kernel=(shape["kernel"],) * 2,
        stride=(shape.get("stride", 1),) * 2,
        plane=(side, side),
        groups=shape.get("groups", 1),
    )
    assert [(op.part, op.convolution) for op in found] == [("forward", wanted), ("backward", wanted)]
    assert [op.flops for op in found] == [forward[0], backward[0]]


def test_norms_are_distinguished_by_their_statistics(tmp_path: Path) -> None:
    pairs = [*batch_norm(64, 56), *layer_norm(196, 384)]
    norms = [op for op in read_one(tmp_path, {"norm": pairs, "elem": [[0, 100.0]]}) if op.kind == "norm"]
    assert [(op.norm, op.part, op.row) for op in norms] == [
        ("batch", "forward", BATCH * 56**2),
        ("batch", "backward", BATCH * 56**2),
        ("layer", "forward", 384),
        ("layer", "backward", 384),
    ]


def test_autocast_keeps_layer_norms_in_float32_with_twice_the_bytes(tmp_path: Path) -> None:
    forward, _ = layer_norm(196, 384)
    norm, *_ = read_one(tmp_path, {"norm": [forward]})
    assert (norm.dtype, norm.autocast, norm.bytes) == ("float32", True, 2 * forward[1])


def test_equal_operations_are_counted_together(tmp_path: Path) -> None:
    (op,) = [o for o in read_one(tmp_path, {"elem": [[0, 8192.0]] * 7 + [[0, 0]]}) if o.kind == "pointwise"]
    assert (op.count, op.bytes) == (7, 8192.0)


def test_steps_of_a_recurrent_layer_become_one_kernel(tmp_path: Path) -> None:
    operations = read_one(tmp_path, {"mm": [[2e6, 3e4]] * 600, "elem": [[0, 4096.0]] * 600})
    recurrent = [op for op in operations if op.kind == "rnn"]
    assert sum(op.flops * op.count for op in recurrent) == pytest.approx(600 * 2e6)
    assert sum(op.count for op in operations if op.kind != "optimizer") < 10


def test_torchvision_rows_upload_the_batch_and_have_no_update(tmp_path: Path) -> None:
    table = tmp_path / "torchvision_models_six_gpus"
    table.mkdir()
    traced = {"model": "vgg11", "batch_size": BATCH, "dtype": "float16"}
    with gzip.open(table / "operations.jsonl.gz", "wt") as file:
        file.write(json.dumps({**traced, "flops_and_bytes_by_class": {"elem": [[0, 64.0]], "opt": [[0, 4000]]}}) + "\n")
    fields = ("gpu", "gpus", "dtype", "model", "batch_size_per_gpu", "median_ms", "folder")
    with (table / "training.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(fields)
        for folder in ("one", "the same again"):
            writer.writerow(["Tesla T4", 1, "float16", "vgg11", BATCH, 20.0, folder])
    (row,) = read_torchvision(tmp_path)
    assert (row.gpu, row.family, row.seconds, row.machine) == ("T4", "vgg", 0.02, "one")
    assert [op.name for op in row.operations if op.kind in ("copy", "optimizer")] == ["aten.zero_", UPLOAD]


def test_missing_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="vision_models_rtx3090"):
        read_image_models(tmp_path)


def test_family_of_a_name_that_contains_another_is_the_longer() -> None:
    assert [
        family_of(name) for name in ("seresnext50_32x4d", "legacy_seresnet34", "vit_tiny", "deit_tiny", "foo3b")
    ] == [
        "resnext",
        "resnet",
        "vit",
        "vit",
        "foo",
    ]


@pytest.mark.skipif(not (SHARED / "vision_models_rtx3090").is_dir(), reason="the public tables are not here")
def test_nearly_all_real_convolutions_get_a_shape_quickly() -> None:
    start = time.perf_counter()
    rows = read_image_models(SHARED)
    assert time.perf_counter() - start < 20
    convolutions = [op for row in rows for op in row.operations if op.kind == "convolution"]
    known = sum(op.flops * op.count for op in convolutions if op.convolution is not None)
    assert known > 0.999 * sum(op.flops * op.count for op in convolutions)
