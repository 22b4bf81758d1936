"""The times of operators, measured by PyTorch's profiler after the iterations."""

from statistics import median

from tests.frameworks.runs import PROGRAMS, profile_from
from tests.pythons import python_with
from trainfare.model.profile import Profile
from trainfare.model.program import Program
from trainfare.profiler.events import summarize_events
from trainfare.profiler.measure import measure


def profiled(*, operator_times: bool) -> Profile:
    measured = measure(
        Program(
            command=(python_with("torch", "torch._dynamo"), "torch_shapes.py", "stream", "with_compiler"),
            directory=str(PROGRAMS),
        ),
        iterations=6,
        stall_seconds=120,
        trace_operations=True,
        operator_times=operator_times,
        on_progress=lambda _: None,
        on_output=None,
    )
    assert summarize_events(measured.events).troubles == ()
    assert measured.ending == "enough"
    return profile_from(measured)


def test_operators_are_timed_after_the_measured_iterations() -> None:
    profile = profiled(operator_times=True)
    assert len(profile.iteration_seconds) == 6
    assert profile.operations
    assert not profile.operator_seconds  # the host is the only device
    assert any("addmm" in name or "conv" in name for name in profile.operator_host_seconds)
    # Slowed by the profiler, but of the order of one iteration, not of five.
    assert sum(profile.operator_host_seconds.values()) < 20 * median(profile.steady_iteration_seconds) + 0.05


def test_operators_are_timed_only_on_request() -> None:
    assert not profiled(operator_times=False).operator_host_seconds
