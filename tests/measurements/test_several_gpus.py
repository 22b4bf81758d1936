"""Readers of steps on several GPUs, on made-up tables."""

from pathlib import Path

import pytest

from trainfare.measurements.data_parallel import data_parallel_t4
from trainfare.measurements.published_scaling import count_rows, published_scaling
from trainfare.measurements.torchvision_gpus import torchvision_gpus


def written(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# data_parallel_t4


def test_placement_has_the_gpus_of_each_node(tmp_path: Path) -> None:
    written(
        tmp_path / "data_parallel_t4/ncf/placements.csv",
        "placement,local_bsz,step_time,sync_time",
        "1,32,0.01,0",
        "14,32,0.02,0.01",
    )
    written(
        tmp_path / "data_parallel_t4/ncf/scalability.csv",
        "num_nodes,num_replicas,local_bsz,step_time,sync_time",
        "6,24,32,0.03,0.02",
    )
    rows = data_parallel_t4(tmp_path)
    assert [(row.nodes, row.gpus, row.seconds) for row in rows] == [(1, 1, 0.01), (2, 5, 0.02), (6, 24, 0.03)]
    assert {(row.program, row.gpu, row.batch_size) for row in rows} == {("ncf", "T4", 32.0)}


def test_programs_with_only_curves_have_no_steps(tmp_path: Path) -> None:
    written(tmp_path / "data_parallel_t4/ncf/validation-32.csv", "progress,iteration,metric,grad_sqr,grad_var")
    with pytest.raises(FileNotFoundError, match=r"placements\.csv"):
        data_parallel_t4(tmp_path)


# published_scaling_1_to_16

HEADER = "model,system_section,gpus,batch,column,raw,throughput"


def published(tmp_path: Path, *lines: str) -> list[tuple[str | None, int, float, float]]:
    written(tmp_path / "published_scaling_1_to_16/throughput.csv", HEADER, *lines)
    found = published_scaling(tmp_path)
    names = {name: str(i) for i, name in enumerate(dict.fromkeys(row.machine for row in found))}
    return [(names[row.machine], row.gpus, row.batch_size, round(row.seconds, 6)) for row in found]


def line(gpus: int, throughput: float, *, batch: str = "32", section: str = "DGX-1 (8x V100 16GB)") -> str:
    return f"PyTorch/Detection/SSD,{section},{gpus},{batch},Throughput - FP32,{throughput},{throughput}"


def test_seconds_are_those_of_the_batch_per_gpu(tmp_path: Path) -> None:
    assert published(tmp_path, line(1, 320), line(8, 2048)) == [("0", 1, 32, 0.1), ("0", 8, 32, 0.125)]


def test_rows_that_repeat_a_gpu_count_are_separated_by_their_order(tmp_path: Path) -> None:
    interleaved = published(tmp_path, line(1, 320), line(1, 640), line(8, 2048), line(8, 4096))
    assert [row[:2] for row in interleaved] == [("0", 1), ("0", 8), ("1", 1), ("1", 8)]
    runs = published(tmp_path, line(1, 320), line(8, 2048), line(1, 640), line(8, 4096), line(16, 8000))
    assert [row[:2] for row in runs] == [("0", 1), ("0", 8), ("1", 1), ("1", 8), ("1", 16)]


def test_rows_that_cannot_be_separated_are_left_out(tmp_path: Path) -> None:
    assert published(tmp_path, line(1, 320), line(1, 640), line(8, 2048), line(8, 4096), line(4, 1000)) == []
    assert count_rows(tmp_path) == 5


def test_rows_with_the_same_global_batch_belong_together(tmp_path: Path) -> None:
    found = published(tmp_path, line(1, 320, batch='"1,024"'), line(4, 1024, batch="256"))
    assert found == [("0", 1, 1024, 3.2), ("0", 4, 256, 1.0)]


def test_changed_batch_sizes_and_misprints_are_left_out(tmp_path: Path) -> None:
    assert published(tmp_path, line(1, 100), line(8, 1700)) == [], "17 times as fast on 8"
    assert [row[1] for row in published(tmp_path, line(1, 320), line(8, 2048), line(32, 9000))] == [1, 8]


def test_heading_names_the_gpu_and_rows_without_one_are_left_out(tmp_path: Path) -> None:
    nameless = [line(gpus, 320 * gpus, section="Training").replace("FP32", "mixed") for gpus in (1, 8)]
    named = [line(1, 320, section="8x H100"), line(8, 2048, section="8x H100")]
    written(tmp_path / "published_scaling_1_to_16/throughput.csv", HEADER, *nameless, *named)
    assert [row.gpu for row in published_scaling(tmp_path)] == ["H100", "H100"]


def test_number_of_nodes_follows_from_the_machine(tmp_path: Path) -> None:
    written(
        tmp_path / "published_scaling_1_to_16/throughput.csv",
        HEADER,
        *(
            line(gpus, 320 * gpus, section=s)
            for s in ("DGX A100 (8x A100 80GB)", "DGX-2 (16x V100 32GB)")
            for gpus in (1, 16)
        ),
    )
    assert [(row.gpu, row.gpus, row.nodes) for row in published_scaling(tmp_path)] == [
        ("A100-80GB", 1, 1),
        ("A100-80GB", 16, 2),
        ("V100-32GB", 1, 1),
        ("V100-32GB", 16, 1),
    ]


def gradients(
    tmp_path: Path, model: str, *, batch: str = "32", section: str = "DGX-1 (8x V100 16GB)", unit: str = ""
) -> list[tuple[str, float, float, float | None]]:
    """Of float32 and of half precision on one GPU: batch, seconds, megabytes."""
    lines = [
        f'{model},{section},{gpus},"{batch}",Throughput - {precision}{unit},,{320 * gpus}'
        for precision in ("FP32", "mixed precision")
        for gpus in (1, 8)
    ]
    written(tmp_path / "published_scaling_1_to_16/throughput.csv", HEADER, *lines)
    return [
        (row.dtype, row.batch_size, round(row.seconds, 6), row.gradient_bytes and round(row.gradient_bytes / 1e6, 3))
        for row in published_scaling(tmp_path)
        if row.gpus == 1
    ]


def test_half_precision_sends_two_bytes_per_parameter(tmp_path: Path) -> None:
    found = gradients(tmp_path, "PyTorch/Detection/SSD")
    assert found == [("float32", 32, 0.1, 91.6), ("float16", 32, 0.1, 45.8)]


@pytest.mark.parametrize("batch", ["16 , 8", "8 and 16", "8 : 16", "16/8", "8 (FP32) / 16 (AMP)", "16,8"])
def test_larger_of_two_batch_sizes_is_that_of_half_precision(tmp_path: Path, batch: str) -> None:
    found = gradients(tmp_path, "TensorFlow/LanguageModeling/BERT", batch=batch, section="Fine-tuning on DGX-1 16GB")
    assert [row[1] for row in found] == [8, 16]


def test_batch_size_may_come_from_the_column_or_the_settings(tmp_path: Path) -> None:
    found = gradients(tmp_path, "TensorFlow2/Detection/Efficientdet", batch="", unit=" (BS=40)")
    assert [row[1:] for row in found] == [(40, 0.125, 15.6), (40, 0.125, 7.8)]
    assert [row[1] for row in gradients(tmp_path, "MxNet/Classification/RN50v1.5", batch="")] == [96, 192]


def test_tokens_are_converted_to_sequences(tmp_path: Path) -> None:
    model = "PyTorch/LanguageModeling/Transformer-XL"
    for section, tokens, parameters in (("Base model", 192, 192), ("Large model", 384, 285)):
        found = gradients(tmp_path, model, batch="16", section=section, unit=" (tok/s)")
        assert found[0][2:] == (16 * tokens / 320, 4 * parameters)


def test_pretraining_accumulates_thousands_of_sequences(tmp_path: Path) -> None:
    found = gradients(
        tmp_path, "PyTorch/LanguageModeling/BERT", batch="128 and 256", section="Pre-training NVIDIA DGX-1"
    )
    assert [row[1:] for row in found] == [(4096, 12.8, 1360), (4096, 12.8, 680)]


@pytest.mark.parametrize(
    ("model", "batch"),
    [
        ("CUDA-Optimized/FastSpeech", "32"),
        ("TensorFlow/Recommendation/NCF", "1024"),
        ("TensorFlow/Segmentation/UNet_3D_Medical", "2"),
        ("PyTorch/Classification/ConvNets/efficientnet", ""),
        ("PaddlePaddle/Classification/RN50v1.5", ""),
    ],
)
def test_gradient_size_is_unknown_without_a_step_or_a_model_size(tmp_path: Path, model: str, batch: str) -> None:
    assert {row[3] for row in gradients(tmp_path, model, batch=batch)} == {None}


# torchvision_models_six_gpus


def test_copied_folder_is_read_once_and_programs_on_one_gpu_are_skipped(tmp_path: Path) -> None:
    written(
        tmp_path / "torchvision_models_six_gpus/training.csv",
        "gpu,gpus,dtype,model,batch_size_per_gpu,iterations,median_ms,folder",
        "GeForce RTX 2080 Ti,1,float32,resnet18,12,50,20,first",
        "GeForce RTX 2080 Ti,2,float32,resnet18,12,50,40,first",
        "GeForce RTX 2080 Ti,1,float32,resnet18,12,50,20,copy",
        "GeForce RTX 2080 Ti,2,float32,resnet18,12,50,40,copy",
        "TITAN V,1,float32,resnet18,12,50,21,alone",
    )
    rows = torchvision_gpus(tmp_path)
    assert sorted((row.gpu, row.gpus, row.seconds, row.machine) for row in rows) == [
        ("RTX 2080 Ti", 1, 0.02, "first"),
        ("RTX 2080 Ti", 2, 0.04, "first"),
    ]
    assert {row.gradient_bytes for row in rows} == {4 * 11.69e6}
