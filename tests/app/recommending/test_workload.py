import gc
from datetime import timedelta

import pytest

from tests.makers import NOON, make_profile
from trainfare.app.catalog.starts import ObservedStarts
from trainfare.app.recommending.recommend import recommend
from trainfare.app.recommending.workload import (
    MAX_RUNS_PER_MACHINE,
    TrainingLength,
    build_workload,
    gc_paused,
    select_profiles,
)
from trainfare.estimator.cost.start_times import StartTime
from trainfare.model.machine import Host
from trainfare.model.offer import Candidate
from trainfare.model.profile import Profile
from trainfare.model.scope import Scope
from trainfare.settings import read_settings
from trainfare.store.open import open_history


@gc_paused()
def failing_estimates() -> None:
    with gc_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()
    raise ValueError("nothing was estimated")


def test_garbage_collection_continues_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="nothing"):
        failing_estimates()
    assert gc.isenabled()


def test_the_uncertainty_of_epochs_counts_only_between_batch_sizes() -> None:
    """All machines need the same number of epochs at one batch size, whatever it is."""
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(activation_bytes=50_000_000, samples=6400))
    found = recommend(epochs=300, scope=Scope(batch_sizes=(64, 128, 256)))
    at_128, at_256 = (
        next(e.candidate for e in found.totals if e.candidate.batch_size == size and e.fits) for size in (128, 256)
    )
    first, second = found.workload.with_fixed_epochs([at_128, at_256])
    assert first.epochs_interval is None or first.epochs_interval.high - first.epochs_interval.low <= 1
    assert second.epochs_interval is not None
    assert second.epochs_interval.high > 1.1 * second.epochs


def test_totals_estimates_and_bills_agree() -> None:
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile(activation_bytes=50_000_000, samples=6400))
    found = recommend(epochs=30, scope=Scope(spot=True, providers=("aws",)))
    candidates = [each.candidate for each in found.totals]
    totals, unbilled, billed = (
        {each.candidate: (each.seconds, each.usd) for each in make(candidates)}
        for make in (found.workload.totals, found.workload.unbilled, found.workload.estimate)
    )
    assert totals == unbilled == billed
    assert set(totals) == set(candidates)


def profile_of_run(number: int, days: int = 0) -> Profile:
    host = Host(name="box", vm_type="ssh/box")
    return make_profile(
        id=f"pr{number}", origin="run", host=host, measured_at=NOON + timedelta(days=days, minutes=number)
    )


def test_a_profile_leads_before_those_of_later_runs_which_count_however_much_later_they_were() -> None:
    with open_history("memory:") as history:
        history.profiles.add(make_profile(host=Host(name="box", vm_type="ssh/box")))
        for number in range(MAX_RUNS_PER_MACHINE + 3):
            history.profiles.add(profile_of_run(number, days=40))
        leading, *others = select_profiles(history, ())
        assert leading.origin == "probe"
        assert [profile.id for profile in others] == ["pr7", "pr6", "pr5", "pr4", "pr3"], "the newest"
        assert select_profiles(history, ["pr2"])[0].id == "pr2", "a named one leads"


def test_a_run_before_the_profile_does_not_count_for_it() -> None:
    with open_history("memory:") as history:
        history.profiles.add(make_profile(host=Host(name="box", vm_type="ssh/box")))
        history.profiles.add(profile_of_run(1, days=-40))
        assert [profile.id for profile in select_profiles(history, ())] == ["p7k2"], "the code may have changed"


def test_measured_start_up_times_are_in_every_sum() -> None:
    profile = make_profile(activation_bytes=50_000_000, samples=6400)
    times = (StartTime(machine="aws/g4dn.xlarge", program="python train.py", seconds=7.0),)
    workload = build_workload(
        [profile],
        decide=lambda _profile, _iterations: TrainingLength(epochs=30),
        iterations_per_epoch=None,
        overheads=None,
        settings=read_settings(),
        starts=ObservedStarts(boot=times, setup=times, collecting=times),
    )
    offers = [offer for offer in workload.catalog.offers if offer.vm_type.provider == "aws" and offer.vm_type.gpu][:40]
    offers += [offer for offer in workload.catalog.offers if offer.vm_type.key == "aws/g4dn.xlarge"]
    candidates = [Candidate(offer=offer, nodes=1, batch_size=64) for offer in dict.fromkeys(offers)]
    totals, unbilled, billed = (
        {each.candidate: (each.seconds, each.usd) for each in make(candidates)}
        for make in (workload.totals, workload.unbilled, workload.estimate)
    )
    assert totals == unbilled == billed
    phases = {
        estimate.candidate.offer.vm_type.key: {phase.name: phase.seconds.value for phase in estimate.phases}
        for estimate in workload.estimate(candidates)
    }
    there, elsewhere = phases["aws/g4dn.xlarge"], next(each for key, each in phases.items() if key != "aws/g4dn.xlarge")
    assert there["setup"] == pytest.approx(7.0, rel=0.9)
    assert there["boot"] < elsewhere["boot"] < 90, "another machine of the provider is believed to be like it, less so"
    assert list(there)[-1] == "collecting"
