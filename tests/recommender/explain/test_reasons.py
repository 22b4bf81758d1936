from dataclasses import replace

from tests.makers import NOON, make_candidate, make_estimate, make_gpu, make_offer, make_profile, make_vm_type
from trainfare.model.bill import Bill, Billing, BillLine, Interruptions
from trainfare.model.estimate import Estimate, MemoryFit, Phase
from trainfare.model.interval import Interval
from trainfare.model.machine import Host
from trainfare.model.plan import Goal
from trainfare.recommender.crossovers import WinningRange
from trainfare.recommender.explain.reasons import Case, grouped, reasons
from trainfare.recommender.pareto import front, knee

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
        winning_ranges=(WinningRange(first=1, last=None, estimate=estimates[0]),),
        foreign=0,
        guessed_epochs=None,
        spot=False,
        today=NOON.date(),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # fields by name


def said(case: Case) -> str:
    return "\n".join(reasons(case))


def test_the_first_reason_says_out_of_how_many() -> None:
    assert reasons(case())[0] == "cheapest of 2 candidates (2 machine types)"


def test_nodes_batch_sizes_and_limits_are_part_of_how_many() -> None:
    four = replace(FAST, candidate=replace(FAST.candidate, nodes=4, batch_size=128))
    late = make_estimate(seconds=Interval.within_factor(99_000.0, 2))
    huge = make_estimate(memory=MemoryFit(needed_gib=Interval.exactly(99.0), available_gib=16))
    goal = Goal(kind="cheapest", deadline_seconds=43_200.0, budget_usd=20.0)
    text = said(case(CHEAP, FAST, goal=goal, may=(CHEAP, FAST, four, late), estimates=(CHEAP, FAST, four, late, huge)))
    assert text.splitlines()[0] == (
        "cheapest of 3 candidates (2 machine types, up to 4 nodes, 2 batch sizes) that end within 12 h and cost "
        "at most 20.00 $ with 90 % confidence; 1 more would not, 1 does not fit in memory"
    )


def test_the_price_of_the_other_goal_is_told() -> None:
    assert "the fastest, aws a2, takes 0.5 × the time and costs 3 × as much" in said(case())
    assert "the cheapest, aws g4dn.xlarge" in said(case(FAST, CHEAP, goal=Goal(kind="fastest")))


def test_what_limits_an_iteration_is_told() -> None:
    assert "limited by launching kernels" in said(case())


def test_what_may_well_be_cheaper_is_not_told_apart() -> None:
    near = replace(FAST, usd=Interval.within_factor(1.5, 2))
    assert (
        "aws a2 cannot be told apart from it at 90 % confidence: 1.5 × the cost is expected, and it is cheaper after "
        "all with 25 % probability"
    ) in said(case(CHEAP, near))
    nearly = replace(near, candidate=replace(near.candidate, batch_size=128))
    assert "probability; it takes 0.5 × the time; nor can 1 other" in said(case(CHEAP, near, nearly))
    slow = make_estimate(candidate=near.candidate, usd=near.usd)
    assert "; nor can 1 other; of these aws a2 at batch 128 takes 0.5 × the time" in said(case(CHEAP, slow, nearly))
    equal = replace(near, usd=Interval.within_factor(1.0004, 2))
    assert "confidence: about the same cost is expected, and it is cheaper" in said(case(CHEAP, equal))
    assert "probability; it takes 0.5 × the time" in said(case(CHEAP, near))
    surer = Goal(kind="cheapest", confidence=0.7)
    assert "told apart" not in said(case(CHEAP, near, goal=surer))


def test_the_same_gpu_with_the_same_basis_is_told_apart_by_its_price() -> None:
    dearer = replace(CHEAP, usd=Interval.within_factor(1.1, 2))
    assert "told apart" not in said(case(CHEAP, dearer))


def test_a_clear_winner_is_not_doubted() -> None:
    clear = replace(FAST, usd=Interval.within_factor(100.0, 2))
    assert "told apart" not in said(case(CHEAP, clear))


def test_the_machines_that_would_win_at_other_numbers_of_epochs_are_named() -> None:
    walk = (WinningRange(first=1, last=3, estimate=FAST), WinningRange(first=4, last=None, estimate=CHEAP))
    assert "with 3 epochs or fewer aws a2 would win" in said(case(winning_ranges=walk))
    walk = (WinningRange(first=1, last=1, estimate=FAST), WinningRange(first=2, last=None, estimate=CHEAP))
    assert "with 1 epoch aws a2 would win" in said(case(winning_ranges=walk))
    walk = (WinningRange(first=1, last=3000, estimate=CHEAP), WinningRange(first=3001, last=None, estimate=FAST))
    assert "from 3 001 epochs on aws a2 would win" in said(case(winning_ranges=walk))
    assert "it is the cheapest whatever the number of epochs" in said(case())


def test_other_numbers_of_epochs_are_told_only_where_all_else_stays_as_it_is() -> None:
    walk = (WinningRange(first=1, last=30, estimate=CHEAP), WinningRange(first=31, last=None, estimate=FAST))
    for goal in (Goal(deadline_seconds=9e9), Goal(budget_usd=9e9)):  # with fewer epochs others would keep them too
        assert (
            "epochs" not in said(case(winning_ranges=walk, goal=goal)).replace("up to", "").split("keeps the deadline")[-1]
        )
        assert "whatever the number" not in said(case(goal=goal))
    assert "whatever the number" not in said(case(CHEAP))  # of one
    wrong = (WinningRange(first=1, last=30, estimate=FAST), WinningRange(first=31, last=None, estimate=CHEAP))
    assert "would win" not in said(case(winning_ranges=wrong))  # of 10 epochs it is not the best: rounding has chosen it
    larger = replace(FAST, candidate=replace(FAST.candidate, batch_size=256))
    assert "from 31 epochs on, at batch 64, aws a2 would win" in said(case(CHEAP, FAST, larger, winning_ranges=walk))


def test_a_limit_that_rounds_up_to_where_the_chosen_one_keeps_it_too_is_not_told() -> None:
    a_second_less = make_estimate(candidate=FAST.candidate, usd=FAST.usd, seconds=Interval.within_factor(3599.9, 2))
    assert "with a deadline below" not in said(case(CHEAP, a_second_less))
    assert "with a deadline below 2 h: aws a2, 30 min, 3.00 $, which keeps --deadline 1h" in said(case())
    a_cent_less = replace(CHEAP, usd=Interval.within_factor(2.9999, 2))
    assert "with a budget below" not in said(case(FAST, a_cent_less, goal=Goal(kind="fastest")))


def test_what_an_early_figure_leaves_out_is_not_called_spot() -> None:
    better = make_estimate(usd=Interval.within_factor(0.5, 2))
    assert "1 that would be better is too late for what is wanted early" in said(case(CHEAP, FAST, may=(better, CHEAP)))
    spot = replace(better, candidate=replace(better.candidate, offer=make_offer(market="spot")))
    assert "1 spot offer that would be better is not relied on" in said(case(CHEAP, FAST, may=(spot, CHEAP)))


def test_a_single_candidate_is_spoken_of_as_one() -> None:
    goal = Goal(deadline_seconds=43_200.0, budget_usd=20.0)
    assert said(case(CHEAP, goal=goal)).startswith(
        "cheapest of 1 candidate (1 machine type) that ends within 12 h and costs at most 20.00 $ with 90 % confidence"
    )


def test_the_baseline_itself_is_named_as_such() -> None:
    assert "it is the baseline itself" in said(case(baseline=CHEAP, delta=1.0))


def test_a_program_that_counts_in_iterations() -> None:
    text = said(case(planned_iterations=100_000, iterations_per_epoch=7))
    assert "the program counts in iterations: 100 000 of them are 14 286 epochs" in text
    assert "1 iteration is 1 epoch" in said(case(planned_iterations=1, iterations_per_epoch=1))
    assert "150 of them are 1.5 epochs" in said(case(planned_iterations=150, iterations_per_epoch=100))


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


def test_only_a_wide_interval_is_called_so() -> None:
    narrow = replace(CHEAP, iteration_seconds=Interval.within_factor(0.1, 1.2))
    assert "hence the wide interval" in said(case(CHEAP))
    assert "hence the wide interval" not in said(case(narrow))


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
    return tuple(Phase(name=name, seconds=Interval.exactly(each)) for name, each in named.items())  # type: ignore[arg-type] # a name that mypy cannot narrow


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
    assert "10 000 of them are 25.6 epochs" in text


def test_a_scaled_time_says_from_where_it_was_moved() -> None:
    scaled = replace(CHEAP, basis="scaled")
    there = make_profile(
        host=Host(name="h", gpu="T4", gpus=1, vm_type="aws/g4dn.xlarge"), device="cuda", micro_batch_size=32
    )
    assert "on this machine type at batch size 32" in said(case(scaled, profile=there))
    elsewhere = make_profile(host=Host(name="h", gpu="V100", gpus=1, vm_type="aws/p3.2xlarge"), device="cuda")
    assert "on V100 and moved to T4" in said(case(scaled, profile=elsewhere))


def test_sentences_come_by_topic_and_flat_in_the_same_order() -> None:
    whole = case(billed(CHEAP), FAST, probe="8 minutes on aws a2 (0.14 $) would settle it", foreign=3)
    by_topic = grouped(whole)
    assert list(by_topic) == ["why", "sure?", "what would change it", "charged", "assumed"]
    assert reasons(whole) == tuple(sentence for group in by_topic.values() for sentence in group)
    assert by_topic["sure?"][-1] == "8 minutes on aws a2 (0.14 $) would settle it"
    assert by_topic["assumed"][-1].startswith("its price was seen on")


def test_a_probe_that_is_offered_stands_in_for_the_general_advice() -> None:
    assert "trainfare profile --on" in said(case())
    assert "trainfare profile --on" not in said(case(probe="8 minutes on aws a2 (0.14 $) would settle it"))


def test_a_full_house_stays_readable() -> None:
    """At most about a dozen sentences where everything is there to be told."""
    middle = make_estimate(
        candidate=make_candidate(offer=make_offer(vm_type=make_vm_type(name="mid", gpu=make_gpu(name="L4")))),
        usd=Interval.within_factor(1.2, 1.1),
        seconds=Interval.within_factor(2000.0, 1.1),
    )
    every = (CHEAP, middle, FAST)
    walk = (WinningRange(first=1, last=30, estimate=FAST), WinningRange(first=31, last=None, estimate=CHEAP))
    full = case(
        *every,
        goal=Goal(kind="cheapest", deadline_seconds=9000.0),
        front=front(every),
        knee=knee(front(every)),
        baseline=FAST,
        delta=1.5,
        winning_ranges=walk,
        probe="8 minutes on aws a2 (0.14 $) would settle it",
        guessed_epochs="10 epochs are assumed",
        foreign=12,
    )
    assert 10 <= len(reasons(full)) <= 14


def test_what_the_weights_meant_is_told_in_time_and_money() -> None:
    """IdealPoint time 1800 s, least cost 1 $: with 0.25 an hour is worth 1/3 · 2 $; 0.25·2 + 0.75·1 = 1.25."""
    goal = Goal(kind="weighted", weight_time=0.25)
    text = said(case(CHEAP, FAST, goal=goal))
    assert text.startswith("best by these weights of 2 candidates")
    assert (
        "with time weighed at 0.25 and cost at 0.75: it takes 2 × the least time and costs 1 × the least cost" in text
    )
    assert "1.25 in all; so weighed, an hour less is worth 0.67 $" in text
    assert "the fastest, aws a2, takes 0.5 × the time and costs 3 × as much" in text
    assert "epochs" not in "".join(grouped(case(CHEAP, FAST, goal=goal))["what would change it"])


def test_the_next_best_are_told_with_what_they_lose() -> None:
    assert "next: aws a2 (−30 min, +2.00 $)" in said(case())


def test_the_knee_is_named_or_is_the_choice() -> None:
    middle = make_estimate(
        candidate=make_candidate(offer=make_offer(vm_type=make_vm_type(name="mid"))),
        usd=Interval.within_factor(1.2, 2),
        seconds=Interval.within_factor(2000.0, 2),
    )
    every = front((CHEAP, middle, FAST))
    assert "begins to cost much from aws mid on, which takes 0.56 × the time and costs 1.2 × as much" in said(
        case(CHEAP, middle, FAST, front=every, knee=knee(every))
    )
    assert "of the 3 on the Pareto front it is where more speed begins to cost much" in said(
        case(middle, CHEAP, FAST, goal=Goal(kind="weighted", weight_time=0.5), front=every, knee=knee(every))
    )


def test_a_baseline_is_answered_with_the_speed_up_for_each_fold_of_cost() -> None:
    """Twice as fast for three times the cost: Δ = 2/3."""
    text = said(case(FAST, CHEAP, goal=Goal(kind="fastest"), baseline=CHEAP, delta=2 / 3))
    assert "against aws g4dn.xlarge it is 2 × as fast for 3 × the cost: Δ, the speed-up for each fold of cost" in text
    assert text.count("is 0.67") == 1


def changed(case: Case) -> str:
    return "".join(grouped(case)["what would change it"])


def test_a_shorter_deadline_names_who_would_keep_it() -> None:
    """CHEAP takes 2 h at the most, FAST 1 h."""
    assert "with a deadline below 2 h: aws a2, 30 min, 3.00 $, which keeps --deadline 1h" in changed(case())


def test_with_time_to_spare_more_epochs_are_told_of() -> None:
    """10 epochs take 2 h at the most: 3 h are enough for 15."""
    assert "up to 15 epochs it keeps the deadline" in changed(case(goal=Goal(deadline_seconds=10_800.0)))
    assert "up to" not in changed(case(goal=Goal(deadline_seconds=7500.0)))
    assert "up to" not in changed(case())


def test_a_deadline_that_costs_money_names_the_one_that_would_not() -> None:
    goal = Goal(kind="cheapest", deadline_seconds=4000.0)
    assert "with --deadline 2h: aws g4dn.xlarge, 60 min, 1.00 $" in changed(case(FAST, goal=goal, may=(CHEAP, FAST)))


def test_a_budget_likewise() -> None:
    fastest = Goal(kind="fastest")
    assert ("with a budget below 6.00 $: aws g4dn.xlarge, 60 min, 1.00 $, which keeps --budget 2.00") in changed(
        case(FAST, CHEAP, goal=fastest)
    )
    goal = Goal(kind="fastest", budget_usd=3.0)
    assert "with --budget 6.00: aws a2, 30 min, 3.00 $" in changed(case(CHEAP, goal=goal, may=(CHEAP, FAST)))


def test_the_price_at_which_another_would_be_cheaper_is_told() -> None:
    """Three times the cost: 3 × 0.526 $/h."""
    assert "if aws g4dn.xlarge rises above 1.58 $/h (now 0.526): aws a2" in changed(case())
    assert "rises" not in changed(case(FAST, CHEAP, goal=Goal(kind="fastest")))
    own = replace(CHEAP, candidate=make_candidate(offer=make_offer(market="own")))
    assert "rises" not in changed(case(own, FAST))


def test_several_gpus_are_told_and_what_that_assumes() -> None:
    big = make_offer(vm_type=make_vm_type(name="big", gpus=4))
    four = replace(CHEAP, candidate=make_candidate(offer=big, nodes=2))
    text = said(case(four, FAST))
    assert "an iteration takes 100 ms on 8 GPUs" in text
    assert "it was profiled on one GPU: that the program can train on 8 at once" in text
    assert "2 × aws big" in said(case(CHEAP, four))
    one = replace(CHEAP, candidate=make_candidate(offer=big))
    assert "it uses 1 of 4 GPUs: the machine is charged in full and the rest stands idle" in said(case(one, FAST))


def test_batch_sizes_that_were_compared_are_told_with_their_epochs() -> None:
    larger = replace(FAST, candidate=replace(FAST.candidate, batch_size=256))
    same = said(case(CHEAP, larger))
    assert "batch size 64 is the best of 64 and 256; the same number of epochs is assumed at each" in same
    assert "aws a2 at batch 256" in same
    more = said(case(CHEAP, replace(larger, epochs=14)))
    assert "batch size 64 is the best of 64 and 256, at which 10 and 14 epochs are expected" in more
    assert "as told" in said(case(CHEAP, larger, batch_epochs="as told"))


def test_legs_are_told_as_they_are_given() -> None:
    assert "in two legs: epochs 1 – 5 on aws a2" in said(case(legs=("in two legs: epochs 1 – 5 on aws a2",)))


def test_a_spot_offer_that_misses_the_deadline_is_not_praised() -> None:
    spot = make_estimate(
        candidate=make_candidate(offer=make_offer(market="spot")),
        usd=Interval.within_factor(0.2, 2),
        seconds=Interval.within_factor(9000.0, 2),
    )
    goal = Goal(kind="cheapest", deadline_seconds=10_000.0)
    assert "on spot" not in said(case(CHEAP, FAST, goal=goal, estimates=(spot, CHEAP, FAST)))


def test_where_only_legs_keep_the_limits_nothing_else_is_praised() -> None:
    goal = Goal(kind="cheapest", deadline_seconds=3000.0)
    alone = case(FAST, goal=goal, may=(CHEAP, FAST), legs=("in two legs: …",))
    assert grouped(alone)["why"] == (
        "none of 2 candidates alone would end within 50 min with 90 % confidence",
        "in two legs: …",
    )
    assert changed(alone) == "with --deadline 2h: aws g4dn.xlarge, 60 min, 1.00 $"


def test_the_fastest_is_one_that_keeps_the_limits() -> None:
    goal = Goal(kind="cheapest", budget_usd=5.0)
    assert "the fastest" not in said(case(CHEAP, goal=goal, may=(CHEAP, FAST), front=(FAST, CHEAP)))


def test_what_looks_better_and_was_not_taken_is_not_relied_on() -> None:
    """A spot machine that keeps the deadline by its interval, and whose interruptions spoke against it."""
    spot = make_estimate(
        candidate=make_candidate(offer=make_offer(market="spot")),
        usd=Interval.within_factor(0.2, 2),
        seconds=Interval.within_factor(3000.0, 2),
    )
    found = case(CHEAP, FAST, goal=Goal(deadline_seconds=9000.0), spot=True, may=(spot, CHEAP, FAST))
    text = said(found)
    assert "cheapest of 2 candidates" in text
    assert "1 spot offer that would be better is not relied on" in text
    assert "spot" not in changed(found)


def test_equals_are_told_without_a_number() -> None:
    assert "next: aws a2 (the same time, the same cost)" in said(
        case(CHEAP, replace(FAST, usd=CHEAP.usd, seconds=CHEAP.seconds, phases=CHEAP.phases))
    )


def test_among_equally_fast_ones_the_bargain_is_told() -> None:
    nearly = replace(CHEAP, seconds=Interval.within_factor(2000.0, 2), phases=in_phases_of(2000.0))
    assert "; it costs 0.33 × as much" in said(case(FAST, nearly, goal=Goal(kind="fastest")))
    as_dear = replace(nearly, usd=FAST.usd)
    assert "as much" not in grouped(case(FAST, as_dear, goal=Goal(kind="fastest")))["sure?"][-1]


def in_phases_of(seconds: float) -> tuple[Phase, ...]:
    return (Phase(name="steady iterations", seconds=Interval.within_factor(seconds, 2)),)
