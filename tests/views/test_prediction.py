"""Predictions as JSON records, and their evidence in sentences."""

import pytest

from tests.makers import make_vm_type
from trainfare.model.estimate import MemoryFit
from trainfare.model.evidence import (
    DataWait,
    Evidence,
    GradientSync,
    MeasuredAtOtherBatchSizes,
    MeasuredOnMachine,
    MeasuredOnOtherCpu,
    MeasuredOnOtherGpus,
    MeasuredOnSlices,
    OperationsAlone,
    OperatorTimes,
    OtherFramework,
)
from trainfare.model.interval import Interval
from trainfare.model.prediction import IterationPart, Prediction
from trainfare.views.prediction import evidence_sentence, prediction_record, prediction_remarks

TWO_PROFILES = MeasuredOnMachine(profile_ids=("p1", "p2"), batch_size=64)


def make_prediction(*evidence: Evidence, memory: MemoryFit | None = None) -> Prediction:
    return Prediction(
        vm_type=make_vm_type(),
        gpus=1,
        nodes=1,
        batch_size=64,
        basis="measured",
        iteration_seconds=Interval(value=0.1, low=0.08, high=0.12),
        limited_by="compute",
        parts=(IterationPart(name="matmul", seconds=0.1, limited_by="compute"),),
        evidence=evidence or (TWO_PROFILES,),
        memory=memory,
    )


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        (TWO_PROFILES, "profiles p1, p2, taken on this machine type at batch size 64"),
        (MeasuredOnMachine(profile_ids=("p1",), batch_size=None), "profile p1, taken on this machine type"),
        (
            MeasuredAtOtherBatchSizes(machine="aws/x", measured_batch_sizes=(32, 64), batch_size=128),
            "measured on aws/x at batch size 32, 64, and scaled to 128",
        ),
        (
            MeasuredOnSlices(slices=(None, "local/half"), cores=0.5),
            "measured on the same machine (the whole machine, local/half), scaled to 0.5 of its cores",
        ),
        (
            MeasuredOnOtherCpu(
                profile_ids=("p1",),
                cpu="Xeon 8375C",
                cores=2,
                target_cpu="Graviton3",
                target_cores=16,
                by_operations=True,
            ),
            "profile p1 on 2 cores of Xeon 8375C, scaled to 16 cores of Graviton3 by the times predicted from its "
            "operations",
        ),
        (
            MeasuredOnOtherCpu(
                profile_ids=("p1", "p2"),
                cpu="Xeon 8375C",
                cores=2,
                target_cpu="a CPU of unknown type",
                target_cores=1,
                by_operations=False,
                busy_share=0.4,
            ),
            "profiles p1, p2 on 2 cores of Xeon 8375C, scaled to 1 core of a CPU of unknown type by the speed of their "
            "cores alone; the profiled machine was busy with other work (the program waited for a CPU 40% of the "
            "time), so a profile on an idle machine would be more certain",
        ),
        (
            DataWait(profile_id="p1", share=0.42, workers=4, cores=2.6),
            "waiting for data, 42% of the iteration, is the least certain part: it is the work of 4 workers of the "
            "loader on 2.6 cores, as in profile p1",
        ),
        (
            DataWait(profile_id="p1", share=0.42, workers=0, cores=2.6),
            "waiting for data, 42% of the iteration, is the least certain part: it is the work of one thread of the "
            "program, which more cores do not speed up, as in profile p1",
        ),
        (
            MeasuredOnOtherGpus(profiles=(("p1", "T4"),), method="operations"),
            "profile p1 on T4, scaled by the times predicted from its operations",
        ),
        (
            MeasuredOnOtherGpus(profiles=(("p1", "T4"), ("p2", "V100")), method="other programs"),
            "profiles p1 on T4, p2 on V100, scaled by how other programs speed up between these GPUs",
        ),
        (
            OperatorTimes(profile_id="p1", gpu="K80"),
            "the time of each operator in profile p1 on K80, scaled operator by operator",
        ),
        (
            OperationsAlone(gpu="T4", gpu_measured=True, corrected=False),
            "the operations of one iteration, by measurements of other programs on T4",
        ),
        (
            OperationsAlone(gpu="L4", gpu_measured=False, corrected=True),
            "the operations of one iteration and the nominal figures of L4, which was not measured, corrected by your "
            "own profiles there",
        ),
        (
            OtherFramework(framework="jax"),
            "the kernels are assumed to be PyTorch's; jax may fuse them, so the interval is wider",
        ),
        (
            GradientSync(nodes=1, gpus=8, samples_per_gpu=16, own_runs=True),
            "on 8 GPUs each iteration of 16 samples per GPU also synchronises gradients, predicted from the program's "
            "own runs on fewer GPUs",
        ),
        (
            GradientSync(nodes=2, gpus=1, samples_per_gpu=1, own_runs=False),
            "on 2 nodes each iteration of 1 sample per GPU also synchronises gradients, predicted from other "
            "programs on such links",
        ),
        (
            GradientSync(nodes=2, gpus=4, samples_per_gpu=16, own_runs=True),
            "on 2 nodes of 4 GPUs each iteration of 16 samples per GPU also synchronises gradients, predicted from "
            "other programs on such links and, at half weight, the program's own runs on one node",
        ),
    ],
)
def test_each_kind_of_evidence_is_one_sentence(evidence: Evidence, sentence: str) -> None:
    assert evidence_sentence(evidence) == sentence


def test_record_has_the_evidence_under_its_stable_key() -> None:
    record = prediction_record(make_prediction())
    assert record["leans_on"] == [evidence_sentence(TWO_PROFILES)]
    assert (record["iteration_seconds"], record["iteration_seconds_low"]) == (0.1, 0.08)
    assert record["parts"] == [{"name": "matmul", "seconds": 0.1, "limited_by": "compute"}]


def test_remarks_begin_with_the_basis() -> None:
    other = OtherFramework(framework="jax")
    assert list(prediction_remarks(make_prediction(TWO_PROFILES, other))) == [
        f"measured: {evidence_sentence(TWO_PROFILES)}",
        evidence_sentence(other),
    ]


def test_remarks_report_memory_that_does_not_fit() -> None:
    short = MemoryFit(needed_gib=Interval(value=20.0, low=18.0, high=25.0), available_gib=15.0)
    *_, memory = prediction_remarks(make_prediction(memory=short))
    assert memory == "memory: does not fit: each GPU needs about 20 GiB (90%: 18 – 25) and has 15 GiB"
