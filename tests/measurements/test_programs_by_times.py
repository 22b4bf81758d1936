"""The two tables that have only the times of programs."""

from pathlib import Path

import pytest

from trainfare.measurements.rented_gpus import rented_gpus
from trainfare.measurements.seven_models import seven_models

SEVEN = """gpu,servers,gpus,model,batch_size_per_gpu,steps_per_second_summed_over_workers
k80,one,1,ResNet-50,16,2.5
v100,one,8,ResNet-50,16,16
v100,many,4,LM,5,40
p100,one,1,A3C,,5
p100,one,1,LM,5,0
"""
RENTED = """system,gpus,precision,program,batch_size_per_gpu,throughput
LambdaCloud A100 40GB PCIe,1,fp32,resnet50,360,900
RTX 4090,1,fp16,resnet50,448,1344
RTX 4090,2,fp16,resnet50,448,2600
"""


def written(folder: Path, table: str, text: str) -> Path:
    (folder / table).mkdir()
    (folder / table / "throughput.csv").write_text(text, encoding="utf-8")
    return folder


def test_seconds_follow_from_the_summed_steps_of_the_workers(tmp_path: Path) -> None:
    rows = seven_models(written(tmp_path, "seven_models_k80_p100_v100", SEVEN))
    assert [row.seconds for row in rows] == [pytest.approx(s) for s in (0.4, 0.5, 0.1, 0.2)]
    assert [(row.gpu, row.gpus, row.nodes) for row in rows] == [
        ("K80", 1, 1),
        ("V100", 8, 1),
        ("V100", 4, 4),
        ("P100", 1, 1),
    ]
    assert rows[3].batch_size == 1


def test_rows_have_the_operations_of_their_program_and_batch_size(tmp_path: Path) -> None:
    """A batch size that was not traced has no operations; the gradient size is that of the traced network."""
    more = "k80,one,1,LM,7,20\nv100,one,1,LM,10,50\nv100,one,1,LM,5,80\nk80,one,1,CycleGAN,,0.5\n"
    *_, unknown, ten, five, pictures = seven_models(written(tmp_path, "seven_models_k80_p100_v100", SEVEN + more))
    assert unknown.operations == ()
    products = [sum(op.flops * op.count for op in row.operations if op.kind == "matmul") for row in (five, ten)]
    assert products[1] == pytest.approx(2 * products[0]) != 0
    assert pictures.gradient_bytes == pytest.approx(4 * 28.3e6, rel=0.01)


def test_fp32_is_tf32_and_only_single_gpus_are_read(tmp_path: Path) -> None:
    rows = rented_gpus(written(tmp_path, "rented_gpus", RENTED))
    assert [(row.gpu, row.dtype) for row in rows] == [("A100-PCIe", "tf32"), ("RTX 4090", "float16")]
    assert [row.seconds for row in rows] == [pytest.approx(0.4), pytest.approx(1 / 3)]


def test_missing_table_is_named_in_the_error(tmp_path: Path) -> None:
    for read in (seven_models, rented_gpus):
        with pytest.raises(FileNotFoundError, match=r"throughput\.csv"):
            read(tmp_path)
