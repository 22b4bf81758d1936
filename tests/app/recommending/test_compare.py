"""Comparison of measured machines, from a real store."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.makers import make_profile
from trainfare.app.recommending.compare import compare
from trainfare.errors import UsageError
from trainfare.model.machine import HERE, Host
from trainfare.model.profile import Epoch, Profile
from trainfare.model.program import Program
from trainfare.profiler.host import this_host_name
from trainfare.recommender.comparison import Comparison
from trainfare.settings import Settings
from trainfare.store.open import open_history
from trainfare.views.comparison import comparison_record, remark_sentence

MACHINES = """
[slow]
slice = true
usd_per_hour = 0.10
vcpus = 1

[fast]
slice = true
usd_per_hour = 0.30
vcpus = 2
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    machines = tmp_path / "machines.toml"
    machines.write_text(MACHINES)
    return Settings(store=str(tmp_path / "history.db"), machines=str(machines))


def on(machine: str | None, iteration: float, **changes: object) -> Profile:
    fields = {
        "id": f"p{machine}{changes.get('batch_size', 64)}".replace("/", ""),
        "host": Host(name="here", vm_type=machine),
        "init_seconds": 1.0,
        "iteration_seconds": (iteration,) * 20,
        "validation_seconds": (),
        "iterations_per_epoch": 10,
    }
    return make_profile(**(fields | changes))


def keep(settings: Settings, *profiles: Profile) -> None:
    with open_history(settings.store) as history:
        for profile in profiles:
            history.profiles.add(profile)


def test_machines_are_relative_to_the_best(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0), on("local/fast", 0.5, init_seconds=11.0))
    found = compare(epochs=(1, 5), settings=settings)
    by_machine = {s.estimate.candidate.offer.vm_type.name: s for s in found.by_iterations[5]}
    assert by_machine["fast"].estimate.seconds.value == pytest.approx(36)
    assert by_machine["slow"].relative_seconds.value == pytest.approx(51 / 36)
    assert by_machine["fast"].relative_usd.value == pytest.approx(36 * 3 / 51)
    assert by_machine["slow"].delta == 1
    assert by_machine["fast"].delta == pytest.approx((51 / 36) / (36 * 3 / 51))


def test_the_winner_can_change_with_the_number_of_epochs(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0), on("local/fast", 0.5, init_seconds=11.0))
    found = compare(settings=settings)
    assert [(s.first, s.last, s.estimate.candidate.offer.vm_type.name) for s in found.fastest] == [
        (1, 2, "slow"),
        (3, None, "fast"),
    ]
    assert [s.estimate.candidate.offer.vm_type.name for s in found.cheapest] == ["slow"]


def test_a_run_until_stable_and_two_epochs_elsewhere_give_machine_and_batch_size(settings: Settings) -> None:
    losses = [1.0, 0.5, 0.4, 0.41, 0.42, 0.43, 0.44, 0.45]
    curve = tuple(Epoch(number=n, seconds=10.0, loss=loss) for n, loss in enumerate(losses, start=1))
    stable = on("local/slow", 1.0, curve=curve)
    short = on("local/fast", 0.5, curve=tuple(replace(epoch, seconds=4.0) for epoch in curve[:2]))
    keep(settings, stable, short)
    found = compare(settings=settings).until_stable
    assert found is not None
    assert {(c.machine, c.epochs, round(c.seconds.value, 6)) for c in found.configurations} == {
        ("local/slow", 8.0, 81.0),
        ("local/fast", 8.0, 33.0),
    }
    benefit = {each.run.machine: each for each in found.cost_benefit}
    assert benefit["local/slow"].run.iterations == 40, "from epoch 4 on it stays near its last level"
    assert benefit["local/fast"].speedup.value == pytest.approx(41 / 17)
    assert benefit["local/fast"].cost_ratio == pytest.approx(17 * 0.3 / (41 * 0.1))
    assert not benefit["local/fast"].pays


def test_a_run_that_is_still_improving_is_not_stable(settings: Settings) -> None:
    curve = tuple(Epoch(number=n, seconds=10.0, loss=1 / n) for n in range(1, 9))
    keep(settings, on("local/slow", 1.0, curve=curve))
    assert compare(settings=settings).until_stable is None


def test_a_profile_without_a_known_price_is_left_out_and_named(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0), on(None, 0.5))
    found = compare(settings=settings)
    assert len(found.by_iterations[5]) == 1
    (remark,) = found.remarks
    assert (remark.code, remark.values) == ("profiles_without_price", {"profiles": ("pNone64",)})
    assert remark_sentence(remark).endswith("is not known: pNone64")


def test_without_any_known_price_the_error_says_what_to_do(settings: Settings) -> None:
    keep(settings, on(None, 0.5))
    with pytest.raises(UsageError, match="no machine with a known price") as raised:
        compare(settings=settings)
    (remedy,) = raised.value.remedies
    assert (remedy.command, remedy.arguments) == ("profile", {"on": "MACHINE"})


def on_this_machine(**changes: object) -> Profile:
    """A profile of this whole machine, which has no name."""
    return on(None, 0.25, host=Host(name=this_host_name()), **changes)


def seconds_on(found: Comparison, number: float) -> dict[str, float]:
    return {
        each.estimate.candidate.offer.vm_type.key: round(each.estimate.seconds.value, 6)
        for each in found.by_iterations[number]
    }


def test_the_whole_machine_at_hand_is_compared_at_no_cost(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0), on_this_machine())
    found = compare(epochs=[4], settings=settings)
    assert seconds_on(found, 4) == {HERE: 11.0, "local/slow": 41.0}
    assert found.remarks == ()
    assert found.cheapest[0].estimate.candidate.offer.vm_type.key == HERE


def test_a_run_until_stable_on_the_machine_at_hand_is_named_here(settings: Settings) -> None:
    losses = [1.0, 0.5, 0.4, 0.41, 0.42, 0.43, 0.44, 0.45]
    curve = tuple(Epoch(number=n, seconds=10.0, loss=loss) for n, loss in enumerate(losses, start=1))
    keep(settings, on_this_machine(curve=curve))
    found = compare(settings=settings).until_stable
    assert found is not None
    assert [each.machine for each in found.configurations] == [HERE]


def test_steps_and_parts_of_epochs_are_compared(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0), on("local/fast", 0.5, init_seconds=11.0))
    by_steps = compare(steps=[15, 40], settings=settings)
    assert by_steps.unit == "steps"
    assert seconds_on(by_steps, 15) == {"local/slow": 16.0, "local/fast": 18.5}
    assert seconds_on(by_steps, 40) == {"local/slow": 41.0, "local/fast": 31.0}
    assert [(won.first, won.last) for won in by_steps.fastest] == [(1, 20), (21, None)]
    assert seconds_on(compare(epochs=[1.5], settings=settings), 1.5) == seconds_on(by_steps, 15)


def test_steps_at_another_batch_size_train_as_many_samples(settings: Settings) -> None:
    half = on("local/slow", 0.5, id="p32", micro_batch_size=32, iterations_per_epoch=20)
    keep(settings, half, on("local/slow", 1.0))
    found = compare(steps=[40], settings=settings)
    assert {e.estimate.candidate.batch_size: e.estimate.iterations for e in found.by_iterations[40]} == {64: 40, 32: 80}
    (remark,) = found.remarks
    assert remark_sentence(remark) == "steps at batch size 64; at other sizes as many samples"


def test_tokens_are_compared_also_with_a_log_that_does_not_say_them(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0, tokens_per_sample=100), on("local/fast", 0.5))
    found = compare(tokens=[64_000], settings=settings)
    assert found.unit == "tokens"
    assert seconds_on(found, 64_000) == {"local/slow": 11.0, "local/fast": 6.0}


def test_a_program_that_counts_in_steps_is_compared_at_its_steps(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0, iterations_per_epoch=None, samples=None, planned_iterations=2000))
    found = compare(settings=settings)
    assert (found.unit, list(found.by_iterations)) == ("steps", [2000])


def test_a_program_of_unknown_length_is_compared_at_stated_steps(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0, iterations_per_epoch=None, samples=None))
    assert seconds_on(compare(steps=[10, 100], settings=settings), 10) == {"local/slow": 11.0}


def test_the_same_command_on_another_host_is_the_same_program(settings: Settings) -> None:
    elsewhere = Program(command=make_profile().program.command, directory="/home/other/project")
    keep(settings, on("local/slow", 1.0), on("aws/g4dn.xlarge", 0.1, host=Host(name="rented"), program=elsewhere))
    found = compare(settings=settings)
    assert {profile.host.name for profile in found.profiles} == {"here", "rented"}


def test_a_profile_of_a_busy_machine_is_named(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0, cpu_queue_share=0.5))
    (remark,) = compare(settings=settings).remarks
    assert remark_sentence(remark).endswith("because the machine was busy: plocalslow64")


def test_two_units_exclude_each_other(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0))
    with pytest.raises(UsageError, match="both set the length"):
        compare(epochs=[5], steps=[5], settings=settings)


@pytest.mark.parametrize("epochs", [(), (0,), (5, -1)])
def test_a_missing_or_nonpositive_number_of_epochs_is_refused(settings: Settings, epochs: tuple[int, ...]) -> None:
    keep(settings, on("local/slow", 1.0))
    with pytest.raises(UsageError):
        compare(epochs=epochs, settings=settings)


def test_the_record_has_all_machines_and_winners(settings: Settings) -> None:
    keep(settings, on("local/slow", 1.0), on("local/fast", 0.5, init_seconds=11.0))
    record = comparison_record(compare(settings=settings))
    assert len(record["by_iterations"]) == 6
    won = {"from_epochs": 3, "to_epochs": None, "machine": "local/fast", "batch_size": 64}
    assert record["fastest"][-1] == won | {"from": 3, "to": None}
    assert record["unit"] == "epochs"
    assert {row["length"] for row in record["by_iterations"]} == {5, 10, 20}
    assert record["until_stable"] is None
