"""What Slurm's commands print is read as it is: partitions, GPUs, time limits and the states of jobs."""

import pytest

from trainfare.clouds.slurm_answers import parse_gres, parse_jobs, parse_limit, parse_partitions
from trainfare.errors import ExternalError


def test_partitions_are_read_and_nodes_of_a_kind_are_joined() -> None:
    lines = [
        "cpu|up|1-00:00:00|2|64|256000|(null)",
        "cpu|up|1-00:00:00|1|48|192000|(null)",
        "old|down|1:00|4|8|1|(null)",
    ]
    (found,) = parse_partitions("lab", lines)
    assert (found.name, found.nodes, found.cpus, found.memory_mib) == ("lab-cpu", 3, 48, 192000)
    assert found.longest_seconds == 86400


def test_nodes_with_different_gpus_are_different_machines() -> None:
    lines = [
        "gpu|up|infinite|2|64|512000|gpu:a100:4(S:0-1)",
        "gpu|up|infinite|1|64|512000|gpu:a100:8",
        "gpu|up|infinite|3|32|256000|gpu:v100:2",
        "gpu|up|infinite|1|32|256000|(null)",
        "gpu|up|infinite|0|0|0|(null)",
    ]
    found = parse_partitions("lab", lines)
    assert [(each.name, each.gpu, each.gpus) for each in found] == [
        ("lab-gpu-a100x4", "a100", 4),
        ("lab-gpu-a100x8", "a100", 8),
        ("lab-gpu-v100", "v100", 2),
        ("lab-gpu-cpu", None, 0),
    ]


def test_partitions_that_cannot_be_read_are_named() -> None:
    with pytest.raises(ExternalError, match="The partitions of lab cannot be read"):
        parse_partitions("lab", ["cpu|up|infinite|3|many|1|(null)"])


@pytest.mark.parametrize(
    ("text", "gpu", "count"),
    [
        ("(null)", None, 0),
        ("gpu:4", None, 4),
        ("gpu:a100:4(S:0-1),nvme:1", "a100", 4),
        ("nvme:1,gpu:nvidia_a100-sxm4-80gb:2(IDX:0-1)", "nvidia_a100-sxm4-80gb", 2),
        ("gpu:a100", "a100", 1),
        ("gpu:0", None, 0),
    ],
)
def test_gpus_are_read(text: str, gpu: str | None, count: int) -> None:
    assert parse_gres(text) == (gpu, count)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("infinite", None), ("30:00", 1800.0), ("2:00:00", 7200.0), ("1-12:00:00", 129600.0), ("5", 5.0)],
)
def test_time_limits_are_read(text: str, seconds: float | None) -> None:
    assert parse_limit(text) == seconds


def test_jobs_are_read_and_a_state_that_is_not_known_is_active() -> None:
    lines = [
        "7|PENDING|N/A|N/A|trainfare-r1-1|ada@home slurm/lab-cpu|ReqNodeNotAvail, UnavailableNodes:n1",
        "8|SOMETHING_NEW|100|200|trainfare-r2-1|x|None",
        "9|PREEMPTED|100|200|trainfare-r3-1|x|None",
        "not a job",
    ]
    waits, new, preempted = parse_jobs(lines)
    assert (waits.phase, waits.started, waits.reason) == ("waits", None, "ReqNodeNotAvail, UnavailableNodes:n1")
    assert (new.phase, new.is_active, new.started) == (None, True, 100.0)
    assert (preempted.is_active, preempted.ending) == (False, "The job 9 was preempted by another job.")
