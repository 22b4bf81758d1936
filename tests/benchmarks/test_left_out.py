"""Data that a task cannot test are named in the note."""

from pathlib import Path

import pytest

from benchmarks.accuracy import epochs_from_curve, epochs_other_batch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two programs at five batch sizes and one at a single one; one curve is incomplete."""
    for program, sizes in {"a": (8, 16, 32, 64, 128), "b": (8, 16, 32, 64, 128), "alone": (8,)}.items():
        for size in sizes:
            lines = ["progress,iteration,metric,grad_sqr,grad_var"]
            for epoch in range(1, 21):
                metric = "nan" if (program, size, epoch) == ("a", 128, 20) else 1 - 0.9 / (epoch * 8 / size + 1)
                lines.append(f"{100 * epoch},{100 * epoch},{metric},1.0,{10 * size}")
            path = tmp_path / f"data_parallel_t4/{program}/validation-{size}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_incomplete_curve_is_named(folder: Path) -> None:
    notes = {judged.note for judged in epochs_from_curve.judge(folder, None)}
    assert len(notes) == 1
    assert "left out, without a value in every epoch: a 128" in notes.pop()


def test_program_with_too_few_batch_sizes_is_named(folder: Path) -> None:
    (folder / "epochs_to_target").mkdir()
    (folder / "epochs_to_target/reference_points.csv").write_text("round,bench,bs,n,mean_epochs,std\n1,c,64,1,9,\n")
    judged = [result for result in epochs_other_batch.judge(folder, None) if "data_parallel_t4" in result.key]
    assert judged
    assert all("too few sizes: alone" in result.note for result in judged)
