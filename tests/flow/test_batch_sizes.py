"""One meaning of batch size from profile to recommend, epochs and compare: accumulation, DDP, and both.

6,400 samples; the optimizer of each program below sees 256 samples a step, so an epoch has 25 iterations.
"""

import math
from pathlib import Path

import pytest

from tests.makers import make_profile, make_program
from trainfare.app.recommending.compare import compare
from trainfare.app.recommending.epochs import epochs
from trainfare.app.recommending.estimate import estimate
from trainfare.app.recommending.recommend import recommend
from trainfare.model.machine import Host
from trainfare.model.profile import Epoch, Operation, Profile
from trainfare.model.scope import Scope
from trainfare.settings import Settings
from trainfare.store.open import open_history

SAMPLES = 6_400
SHAPES = {
    "accumulation": {"micro_batch_size": 64, "accumulation_steps": 4, "world_size": 1},
    "ddp": {"micro_batch_size": 64, "accumulation_steps": 1, "world_size": 4},
    "both": {"micro_batch_size": 64, "accumulation_steps": 2, "world_size": 2},
}


def profile_of(shape: str, **changes: object) -> Profile:
    fields = {
        "id": f"p{shape[:3]}",
        "program": make_program(command=("python", "train.py", "--batch-size", "64")),
        "host": Host(name="rented", vm_type="aws/g4dn.xlarge", gpu="Tesla T4"),
        "device": "cuda",
        "samples": SAMPLES,
        "iterations_per_epoch": None,
        "parameters": 1_000_000,
        "gradient_bytes": 4_000_000,
        "activation_bytes": 10_000_000,
        "operations": (Operation(kind="matmul", dtype="float32", flops=1e12, bytes=1e9, count=4),),
        "iteration_seconds": (0.5, *([0.2] * 30)),
        "data_wait_seconds": (),
        "loss": (),
        "learning_rate": (),
        **SHAPES[shape],
    }
    return make_profile(**(fields | changes))


@pytest.fixture(params=sorted(SHAPES))
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Profile, Settings]:
    settings = Settings(store=str(tmp_path / "history.db"))
    curve = tuple(Epoch(number=n, seconds=5.0, loss=1.0 / n) for n in range(1, 4))
    profile = profile_of(request.param, curve=curve)
    with open_history(settings.store) as history:
        history.profiles.add(profile)
    return profile, settings


def test_effective_batch_size_is_what_the_optimizer_sees() -> None:
    assert {profile_of(shape).effective_batch_size for shape in SHAPES} == {256}


def test_an_epoch_has_as_many_iterations_as_its_samples_need(stored: tuple[Profile, Settings]) -> None:
    profile, settings = stored
    found = recommend([profile.id], epochs=10, scope=Scope(any_batch_size=True), settings=settings)
    sizes = {e.candidate.batch_size for e in found.estimates}
    assert {128, 256, 512} <= sizes
    for e in found.estimates:
        assert e.candidate.batch_size is not None
        steps = math.ceil(SAMPLES / e.candidate.batch_size)
        trained = sum(p.seconds.value for p in e.phases if p.name in ("first iteration", "steady iterations"))
        assert trained >= (e.epochs * steps - 1) * e.iteration_seconds.value * 0.999


def test_the_profiled_size_is_the_effective_one(stored: tuple[Profile, Settings]) -> None:
    profile, settings = stored
    assert recommend([profile.id], epochs=3, settings=settings).profiles == (profile,)
    on_one = estimate(profile.id, on="aws/g4dn.xlarge", epochs=3, settings=settings).estimate
    assert on_one.candidate.batch_size == 256
    assert epochs([profile.id], settings=settings).profiles[0].batch_size == 256


def test_accumulation_is_measured_as_it_ran(tmp_path: Path) -> None:
    """On the machine and at the effective batch size of the profile the estimate is measured, not scaled."""
    settings = Settings(store=str(tmp_path / "history.db"))
    profile = profile_of("accumulation")
    with open_history(settings.store) as history:
        history.profiles.add(profile)
    found = estimate(profile.id, on="aws/g4dn.xlarge", epochs=3, settings=settings).estimate
    assert found.basis == "measured"
    assert found.iteration_seconds.value == pytest.approx(0.2)
    half = estimate(profile.id, on="aws/g4dn.xlarge", epochs=3, batch_size=128, settings=settings).estimate
    assert 0.1 * 0.9 < half.iteration_seconds.value < 0.2  # half the samples in each of four passes


def test_compare_estimates_the_batch_size_that_ran(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "history.db"))
    with open_history(settings.store) as history:
        history.profiles.add(profile_of("accumulation"))
    (standing,) = compare(epochs=[4], settings=settings).by_iterations[4]
    assert standing.estimate.candidate.batch_size == 256
    assert standing.estimate.basis == "measured"
    steady = next(p.seconds.value for p in standing.estimate.phases if p.name == "steady iterations")
    assert steady == pytest.approx((4 * 25 - 1) * 0.2, rel=0.02)
