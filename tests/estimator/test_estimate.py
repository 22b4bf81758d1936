import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.makers import make_candidate, make_gpu, make_offer, make_profile, make_vm_type, shipped_coefficients
from trainfare.estimator.estimate import estimate_all
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.estimate import Estimate
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile

T4 = make_gpu()
A100 = make_gpu(name="A100", fp32_tflops=19.5, memory_gb_per_second=1555.0, memory_gib=40.0)
GPUS = {"Tesla T4": T4, "A100": A100}


def on(gpu_name: str | None = "T4", **changes: object) -> Candidate:
    gpu = {"T4": T4, "A100": A100, None: None}[gpu_name]
    vm_type = make_vm_type(**({"gpu": gpu, "gpus": 1 if gpu else 0, "name": f"with-{gpu_name}"} | changes))
    return make_candidate(offer=make_offer(vm_type=vm_type))


def estimates(
    profiles: list[Profile], *candidates: Candidate, epochs: int = 10, between: tuple[int, int] | None = None
) -> tuple[Estimate, ...]:
    interval = Interval(value=epochs, low=between[0], high=between[1]) if between else None
    predictor = StepTimePredictor(profiles, gpus=GPUS, calibration=shipped_coefficients())
    return estimate_all(predictor, candidates, iterations_per_epoch=23, epochs=epochs, epochs_interval=interval)


def test_a_profile_taken_on_the_machine_makes_it_measured() -> None:
    profile = make_profile(host=Host(name="h", vm_type="aws/with-T4"))
    (estimate,) = estimates([profile], on("T4"))
    assert estimate.basis == "measured"
    assert estimate.seconds.value == pytest.approx(2 + 1 + 22 * 0.1 + 0.3 + 9 * (2.3 + 0.2))


def test_each_machine_is_judged_by_its_own_profile() -> None:
    """Malta's second method: a few iterations on each machine."""
    slow = make_profile(id="pslow", host=Host(name="a", vm_type="aws/with-T4"))
    fast = make_profile(
        id="pfast", host=Host(name="b", vm_type="aws/with-A100"), iteration_seconds=(1.0, 0.01, 0.01, 0.01)
    )
    first, second = estimates([slow, fast], on("T4"), on("A100"))
    assert (first.profile_id, second.profile_id) == ("pslow", "pfast")
    assert first.basis == second.basis == "measured"
    assert second.seconds.value < first.seconds.value


def test_machines_are_estimated_together_as_alone() -> None:
    """Machine types on which a program takes as long are computed once: here two with one GPU, on one of which a
    profile ran that has no iteration yet."""
    ran_there = make_profile(
        id="pran",
        host=Host(name="a", vm_type="aws/one"),
        device="cuda",
        iteration_seconds=(1.0,),
        validation_seconds=(),
    )
    profiles = [make_profile(), ran_there]
    names = ("one", "two", "three")
    machines = [on("T4", name=name, network_gb_per_second=1.0 + (name == "three")) for name in names]
    together = estimates(profiles, *machines)
    assert together == tuple(estimate for machine in machines for estimate in estimates(profiles, machine))


def test_a_profile_of_a_cpu_never_anchors_the_speed_of_a_gpu() -> None:
    quick, slow = make_profile(), make_profile(iteration_seconds=(1.0, *[0.9] * 4), validation_seconds=())
    (a,), (b,) = estimates([quick], on()), estimates([slow], on())
    assert a.basis == b.basis == "extrapolated"
    assert a.iteration_seconds == b.iteration_seconds


def test_a_profile_of_another_gpu_is_scaled() -> None:
    profile = make_profile(device="cuda", host=Host(name="h", gpu="Tesla T4", gpus=1))
    same, better = estimates([profile], on("T4"), on("A100"))
    assert same.basis == better.basis == "scaled"
    assert same.iteration_seconds.value == pytest.approx(0.1)
    assert better.iteration_seconds.value < same.iteration_seconds.value


def test_how_sure_goes_with_the_basis() -> None:
    measured = make_profile(host=Host(name="h", vm_type="aws/with-T4"))
    scaled = make_profile(device="cuda", host=Host(name="h", gpu="Tesla T4", gpus=1))
    widths = []
    for profile, candidate in ((measured, on("T4")), (scaled, on("T4")), (scaled, on("A100")), (make_profile(), on())):
        (estimate,) = estimates([profile], candidate)
        widths.append(estimate.iteration_seconds.high / estimate.iteration_seconds.low)
    assert widths == sorted(widths)
    assert len(set(widths)) == 4


def test_without_operations_only_measured_machines_are_estimated() -> None:
    profile = make_profile(operations=(), host=Host(name="h", vm_type="aws/with-T4"))
    assert [e.candidate for e in estimates([profile], on("T4"), on("A100"))] == [on("T4")]


def test_a_machine_without_a_gpu_is_estimated_only_where_it_was_measured() -> None:
    own = on(None, provider="own", name="bench")
    assert estimates([make_profile()], own) == ()
    (estimate,) = estimates([make_profile(host=Host(name="bench", vm_type="own/bench"))], own)
    assert estimate.basis == "measured"


def test_waiting_for_data_does_not_shrink_on_a_faster_gpu() -> None:
    profile = make_profile(data_wait_seconds=(0.08,) * 5)
    for estimate in estimates([profile], on("T4"), on("A100")):
        assert estimate.iteration_seconds.value > 0.08
        assert estimate.limited_by == "data"


def test_one_iteration_is_too_few() -> None:
    assert estimates([make_profile(iteration_seconds=(1.0,), loss=())], on()) == ()


def test_memory_that_is_needed_grows_with_activations() -> None:
    small, large = (
        estimates([make_profile(activation_bytes=activations)], on())[0].memory for activations in (10**9, 40 * 10**9)
    )
    assert small is not None
    assert large is not None
    assert small.verdict == "fits"
    assert large.verdict == "does not fit"


def test_a_run_that_happened_fits_there_and_not_on_another_machine_of_that_size() -> None:
    there, elsewhere = on("T4"), on("T4", name="other-T4")
    ran = make_profile(
        activation_bytes=40 * 10**9, device=None, origin="csv", host=Host(name="h", vm_type=there.offer.vm_type.key)
    )
    here, other = estimates([ran], there, elsewhere)
    assert (here.basis, here.fits) == ("measured", True)
    assert other.fits is False


@given(
    epochs=st.integers(1, 200),
    price=st.floats(0.01, 100),
    nodes=st.integers(1, 8),
    iteration=st.floats(1e-3, 10),
)
def test_cost_is_price_times_time_times_nodes(epochs: int, price: float, nodes: int, iteration: float) -> None:
    vm_type = make_vm_type(name="with-T4")
    candidate = make_candidate(offer=make_offer(vm_type=vm_type, usd_per_hour=price), nodes=nodes)
    profile = make_profile(
        measured_at=datetime(2026, 1, 1, tzinfo=UTC),
        host=Host(name="h", vm_type="aws/with-T4"),
        iteration_seconds=(1.0, iteration, iteration),
        loss=(),
    )
    (estimate,) = estimates([profile], candidate, epochs=epochs)
    for part in ("value", "low", "high"):
        expected = price * getattr(estimate.seconds, part) / 3600 * nodes
        assert getattr(estimate.usd, part) == pytest.approx(expected)


MEASURED_THERE = make_profile(host=Host(name="h", vm_type="aws/with-T4"), validation_seconds=(), init_seconds=0.0)


@given(
    epochs=st.integers(1, 200),
    fewer=st.integers(0, 199),
    more=st.integers(0, 1000),
)
def test_epochs_in_doubt_widen_time_and_cost_and_move_neither(epochs: int, fewer: int, more: int) -> None:
    low, high = max(1, epochs - fewer), epochs + more
    (sure,) = estimates([MEASURED_THERE], on("T4"), epochs=epochs)
    (found,) = estimates([MEASURED_THERE], on("T4"), epochs=epochs, between=(low, high))
    (few,), (many,) = (estimates([MEASURED_THERE], on("T4"), epochs=n) for n in (low, high))
    for part in ("seconds", "usd"):
        exactly, allowing = getattr(sure, part), getattr(found, part)
        assert allowing.value == exactly.value
        assert allowing.low <= min(exactly.low, getattr(few, part).value) * (1 + 1e-9)
        assert allowing.high >= max(exactly.high, getattr(many, part).value) * (1 - 1e-9)
        assert allowing.low >= getattr(few, part).value * exactly.low / exactly.value * (1 - 1e-9)
        assert allowing.high <= getattr(many, part).value * exactly.high / exactly.value * (1 + 1e-9)


def test_errors_of_the_epochs_and_of_an_iteration_add_as_squares_of_logarithms() -> None:
    (sure,) = estimates([MEASURED_THERE], on("T4"), epochs=100)
    (found,) = estimates([MEASURED_THERE], on("T4"), epochs=100, between=(50, 300))
    exactly, steady = (
        next(phase.seconds for phase in each.phases if phase.name == "steady iterations") for each in (sure, found)
    )
    of_time, of_epochs = math.log(exactly.high / exactly.value), math.log((23 * 300 - 1) / (23 * 100 - 1))
    assert math.log(steady.high / steady.value) == pytest.approx(math.hypot(of_time, of_epochs))
    assert found.epochs_interval == Interval(value=100, low=50, high=300)


def test_what_happens_once_is_as_sure_as_before_when_epochs_are_in_doubt() -> None:
    (sure,) = estimates([make_profile()], on(), epochs=20)
    (found,) = estimates([make_profile()], on(), epochs=20, between=(5, 80))
    for before, after in zip(sure.phases, found.phases, strict=True):
        once = before.name in ("initialisation", "first iteration")
        ends = (after.seconds.low, after.seconds.high)
        assert (ends == pytest.approx((before.seconds.low, before.seconds.high))) is once
