from dataclasses import replace

from tests.makers import NOON, make_candidate, make_estimate, make_gpu, make_offer, make_profile, make_vm_type
from trainfare.model.bill import Bill, Billing, BillLine, Interruptions
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.plan import Goal
from trainfare.recommender.crossovers import Stretch
from trainfare.recommender.explain import Case, reasons

A100 = make_vm_type(name="a2", gpu=make_gpu(name="A100"))
CHEAP = make_estimate(usd=Interval.within_factor(1.0, 2), limited_by="launches")
FAST = make_estimate(
    candidate=make_candidate(offer=make_offer(vm_type=A100)),
    usd=Interval.within_factor(3.0, 2),
    seconds=Interval.within_factor(1800.0, 2),
)


def case(*ordered: Estimate, **changes: object) -> Case:
    estimates = ordered or (CHEAP, FAST)
    plain = Case(
        goal=Goal(kind="cheapest"),
        profile=make_profile(),
        ordered=estimates,
        estimates=estimates,
        stretches=(Stretch(first=1, last=None, estimate=estimates[0]),),
        foreign=0,
        guessed_epochs=None,
        spot=False,
        today=NOON.date(),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # fields by name


def said(case: Case) -> str:
    return "\n".join(reasons(case))


def test_the_first_reason_says_out_of_how_many() -> None:
    assert reasons(case())[0] == "cheapest of 2 machine types (2 offers were estimated)"


def test_the_price_of_the_other_goal_is_told() -> None:
    assert "the fastest, aws a2, takes 0.5 × the time and costs 3 × as much" in said(case())
    assert "the cheapest, aws g4dn.xlarge" in said(case(FAST, CHEAP, goal=Goal(kind="fastest")))


def test_what_limits_an_iteration_is_told() -> None:
    assert "limited by launching kernels" in said(case())


def test_overlapping_intervals_of_different_gpus_are_not_told_apart() -> None:
    assert "aws a2 cannot be told apart from it" in said(case())


def test_the_same_gpu_with_the_same_basis_is_told_apart_by_its_price() -> None:
    dearer = replace(CHEAP, usd=Interval.within_factor(1.1, 2))
    assert "told apart" not in said(case(CHEAP, dearer))


def test_a_clear_winner_is_not_doubted() -> None:
    clear = replace(FAST, usd=Interval.within_factor(100.0, 2))
    assert "told apart" not in said(case(CHEAP, clear))


def test_the_machines_that_would_win_at_other_numbers_of_epochs_are_named() -> None:
    walk = (Stretch(first=1, last=30, estimate=FAST), Stretch(first=31, last=None, estimate=CHEAP))
    assert "with 30 epochs or fewer aws a2 would win" in said(case(stretches=walk))
    walk = (Stretch(first=1, last=30, estimate=CHEAP), Stretch(first=31, last=None, estimate=FAST))
    assert "from 31 epochs on aws a2 would win" in said(case(stretches=walk))
    assert "it is the cheapest whatever the number of epochs" in said(case())


def test_what_was_assumed_is_said() -> None:
    text = said(case(profile=make_profile(validation_seconds=()), guessed_epochs="10 epochs are assumed", foreign=9))
    assert "10 epochs are assumed" in text
    assert "validation is not in the estimate" in text
    assert "9 offers of TPUs and Trainium" in text
    assert "seen on 2026-08-22 (2 months old)" in text


def test_a_cheaper_spot_offer_is_mentioned_with_its_catch() -> None:
    spot = make_estimate(candidate=make_candidate(offer=make_offer(market="spot")), usd=Interval.within_factor(0.2, 2))
    text = said(case(CHEAP, FAST, estimates=(spot, CHEAP, FAST)))
    assert "aws g4dn.xlarge spot would cost 0.20 $" in text
    assert "only with --spot" in text


def test_each_basis_says_why_it_is_believed() -> None:
    for basis in ("measured", "scaled", "extrapolated"):
        assert f"{basis}:" in said(case(replace(CHEAP, basis=basis)))


def test_a_slice_is_moved_from_a_slice_not_from_a_gpu() -> None:
    slice_ = make_vm_type(provider="local", name="half", gpu=None, gpus=0, vcpus=0.5)
    moved = replace(CHEAP, basis="scaled", candidate=make_candidate(offer=make_offer(vm_type=slice_, market="own")))
    taken = make_profile(host=Host(name="here", vm_type="local/one"))
    assert "was taken on local/one and moved to this slice by the work" in said(case(moved, profile=taken))


def billed(estimate: Estimate, *lines: BillLine, **changes: object) -> Estimate:
    rest = BillLine(
        name="all else", usd=Interval.exactly(estimate.usd.value - sum(each.usd.value for each in lines)), how="rest"
    )
    bill = Bill(
        lines=(rest, *lines),
        usd=estimate.usd,
        billing=Billing(increment_seconds=60.0),
        billed_seconds=3600.0,
        usd_per_hour=1.0,
        prices_seen_on=NOON.date(),
    )
    return replace(estimate, bill=bill, **changes)  # type: ignore[arg-type]  # fields by name


def in_phases(estimate: Estimate, **seconds: float) -> tuple[Phase, ...]:
    rest = estimate.seconds.value - sum(seconds.values())
    named = {name.replace("_", " "): each for name, each in seconds.items()} | {"steady iterations": rest}
    return tuple(Phase(name=name, seconds=Interval.exactly(each)) for name, each in named.items())  # type: ignore[arg-type]


def test_a_start_that_takes_long_is_told() -> None:
    short = billed(CHEAP, phases=in_phases(CHEAP, boot=300.0, setup=900.0))
    assert "starting the machine takes 20 min of the 60 min" in said(case(short, FAST))
    assert "starting the machine" not in said(case(billed(CHEAP, phases=in_phases(CHEAP, boot=300.0)), FAST))


def test_rounding_that_costs_much_is_told() -> None:
    line = BillLine(name="minimum charge", usd=Interval.exactly(0.4), how="charged by the hour: 30 min more")
    assert "0.40 $ of the cost are for time it does not need: charged by the hour" in said(case(billed(CHEAP, line)))


def test_the_rule_of_charging_is_told_with_the_price() -> None:
    assert "(2 months old), charged by the minute" in said(case(billed(CHEAP), FAST))


def test_a_plan_of_before_there_were_bills_has_its_reasons() -> None:
    assert said(case()).endswith("seen on 2026-08-22 (2 months old)")


def test_spot_tells_how_often_it_will_be_interrupted_and_what_that_assumes() -> None:
    spot = billed(
        CHEAP,
        phases=in_phases(CHEAP, spot_rework=600.0),
        interruptions=Interval(value=1.62, low=0, high=4),
        checkpoint_every_seconds=840.0,
    )
    rate = Interruptions(per_hour=Interval.exactly(0.3), source="traces of 11 zones")
    text = said(case(spot, FAST, spot=True, interruptions=rate))
    assert "1.6 interruptions are expected (90 %: 0 to 4), which add 10 min; the rate is from traces of 11" in text
    assert "a checkpoint every 14 min is assumed" in text
    assert "its spot price is 2 months old: nine in ten of such age were within a factor of 1.9" in text


def test_iterations_that_the_program_counts_are_told_as_epochs() -> None:
    text = said(case(planned_iterations=10_000, iterations_per_epoch=391))
    assert "10000 of them are 25.6 epochs" in text


def test_a_scaled_time_says_from_where_it_was_moved() -> None:
    scaled = replace(CHEAP, basis="scaled")
    there = make_profile(host=Host(name="h", gpu="T4", gpus=1, vm_type="aws/g4dn.xlarge"), device="cuda", batch_size=32)
    assert "on this machine type at batch size 32" in said(case(scaled, profile=there))
    elsewhere = make_profile(host=Host(name="h", gpu="V100", gpus=1, vm_type="aws/p3.2xlarge"), device="cuda")
    assert "on V100 and moved to T4" in said(case(scaled, profile=elsewhere))
