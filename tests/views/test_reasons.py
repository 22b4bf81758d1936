"""The sentences of reasons and remarks."""

from typing import Any, get_args

import pytest

from trainfare.model.reason import Reason, Scalar, Topic, Value, text_reason
from trainfare.recommender.explain.codes import Code, reason
from trainfare.views.explain.why import BOTTLENECKS, probability
from trainfare.views.reasons import python_arguments, sentence

G4DN: dict[str, Scalar] = {
    "provider": "aws",
    "machine": "g4dn.xlarge",
    "market": "on_demand",
    "held": False,
    "nodes": 1,
}
A2 = G4DN | {"machine": "a2", "nodes": 2, "batch_size": 256}
LIMITS: dict[str, Scalar] = {"deadline_seconds": 43_200.0, "budget_usd": 20.0, "confidence": 0.9}
COUNTS: dict[str, Scalar] = {
    "goal": "cheapest",
    "candidates": 1312,
    "machine_types": 181,
    "max_nodes": 4,
    "batch_sizes": 3,
    "beyond_limits": 0,
    "spot_too_risky": 0,
    "spot_not_checked": 0,
    "too_late_for_early_target": 0,
    "does_not_fit": 0,
}
RATIOS: dict[str, Scalar] = {"time_ratio": 0.5, "cost_ratio": 3.0}
TOTALS: dict[str, Value] = {"machine": A2, "seconds": 1800.0, "usd": 3.0}
COMMITMENT: dict[str, Scalar] = {"months": 12, "break_even_hours": 459.9, "on_demand_usd_per_hour": 1.0}
DATES: dict[str, Scalar] = {"seen_on": "2026-08-22", "today": "2026-11-16"}

EXAMPLES: dict[Code, tuple[Topic, dict[str, Value], dict[str, Scalar], str]] = {
    "no_single_machine_within_limits": (
        "why",
        {"candidates": 2, **LIMITS},
        {},
        "none of 2 candidates alone would end within 12 h and cost at most $20.00 with 90% confidence",
    ),
    "best_candidate": (
        "why",
        {
            **COUNTS,
            **LIMITS,
            "beyond_limits": 20,
            "spot_too_risky": 2,
            "too_late_for_early_target": 3,
            "does_not_fit": 1,
        },
        {},
        "cheapest of 1,312 candidates (181 machine types, up to 4 nodes, 3 batch sizes) that end within 12 h and cost "
        "at most $20.00 with 90% confidence; 20 more would not; 2 spot offers are rejected because of the risk of "
        "interruptions; 3 that would be better would reach the early target too late; 1 does not fit in memory",
    ),
    "weights": (
        "why",
        {"weight_time": 0.25, "time_ratio": 2.0, "cost_ratio": 1.0, "score": 1.25, "usd_per_hour": 2 / 3},
        {},
        "with weights of 0.25 for time and 0.75 for cost, it takes 2x the least time and costs 1x the least cost, a "
        "score of 1.25; these weights value an hour at $0.67",
    ),
    "limited_by": (
        "why",
        {"limited_by": "launches", "iteration_seconds": 0.1, "gpus": 8},
        {},
        "an iteration takes 100 ms on 8 GPUs, limited by launching kernels, not by the GPU: a faster GPU gains little",
    ),
    "train_here": (
        "why",
        {
            "rule": "soon",
            "goal": "cheapest",
            "usd": 0.0,
            "soon_seconds": 900.0,
            "rentals": 9,
            "rental": G4DN | {"seconds": 320.0, "usd": 0.017},
        },
        {},
        "it ends within 15 min here, at no cost; renting aws g4dn.xlarge would take 5 min 20 s and cost $0.017",
    ),
    "renting_compared_with_here": (
        "why",
        {
            "machine": G4DN,
            "chosen_is_here": False,
            "here_seconds": 28_800.0,
            "here_usd": 0.0,
            "saved_seconds": 22_200.0,
            "more_usd": 1.2,
            "usd_per_hour_saved": 0.1946,
        },
        {},
        "renting ends 6 h 10 min sooner than training here, for $1.20 ($0.19 an hour saved)",
    ),
    "last_bit_of_speed": (
        "why",
        {
            "machine": G4DN,
            "seconds": 600.0,
            "usd": 0.5,
            "saved_seconds": 60.0,
            "more_usd": 4.5,
            "usd_per_hour_saved": 270.0,
        },
        {},
        "aws g4dn.xlarge takes 10 min and costs $0.50: the last 1 min cost $4.50 ($270.00 an hour saved)",
    ),
    "rent_anyway": (
        "changes",
        {"machine": G4DN, "seconds": 320.0, "usd": 0.017},
        {"exclude": "here"},
        "with scope=Scope(exclude=('here',)): aws g4dn.xlarge (5 min 20 s, $0.017)",
    ),
    "rent_from_epochs": (
        "changes",
        {"epochs": 3400, "machine": G4DN},
        {},
        "with 3,400 epochs or more: rent aws g4dn.xlarge",
    ),
    "here_up_to_epochs": ("changes", {"epochs": 29}, {}, "with 29 epochs or fewer: train here"),
    "other_batch_size": (
        "changes",
        {"batch_size": 256, "epochs": 10, "machine": A2, "seconds": 1800.0, "usd": 3.0},
        {"batch_sizes": 256},
        "with scope=Scope(batch_sizes=(256,)): 2 × aws a2 at batch size 256 (30 min, $3.00), if 10 epochs are enough "
        "at that batch size too, which is a guess: so it is not chosen unasked",
    ),
    "price_is_old": (
        "assumptions",
        {"days": 87, "seen_on": "2026-08-22", "today": "2026-11-17"},
        {},
        "its price is 2 months old and may have changed: `trainfare catalog update` renews prices",
    ),
    "here_is_free": (
        "assumptions",
        {},
        {},
        "this machine is counted as free; a price of its hours can be stated in machines.toml, in a section [here]",
    ),
    "other_extreme": (
        "why",
        {"kind": "fastest", "machine": A2, **RATIOS},
        {},
        "the fastest, 2 × aws a2 at batch size 256, takes 0.5x the time and costs 3x as much",
    ),
    "runners_up": (
        "why",
        {
            "machines": (
                G4DN | {"more_seconds": -1800.0, "more_usd": 2.0, "time_ratio": 0.5, "cost_ratio": 3.0},
                A2 | {"more_seconds": 0.1, "more_usd": -0.12, "time_ratio": 1.0001, "cost_ratio": 0.9},
            )
        },
        {},
        "next: aws g4dn.xlarge (−30 min, +$2.00); 2 × aws a2 at batch size 256 (the same time, −$0.12)",
    ),
    "chosen_is_knee": (
        "why",
        {"front": 3},
        {},
        "it is the knee of the 3 candidates on the Pareto front: more speed costs much more",
    ),
    "knee": (
        "why",
        {"machine": G4DN, **RATIOS},
        {},
        "more speed costs much more beyond aws g4dn.xlarge, the knee of the Pareto front, which takes 0.5x the time "
        "and costs 3x as much",
    ),
    "chosen_is_baseline": ("why", {}, {}, "it is the baseline itself"),
    "compared_with_baseline": (
        "why",
        {"machine": G4DN, "speed_up": 2.0, "cost_ratio": 3.0, "delta": 2 / 3},
        {},
        "compared with aws g4dn.xlarge it is 2x as fast for 3x the cost: Δ, the speed-up divided by the cost ratio, is "
        "0.667",
    ),
    "spot_would_be_better": (
        "why",
        {"machine": G4DN | {"market": "spot"}, "usd": 0.2, "interruptions": 1.62},
        {"spot": True},
        "aws g4dn.xlarge spot would cost $0.20, including 1.6 expected interruptions; it can be taken away at any "
        "moment, so spot is considered only with scope=Scope(spot=True)",
    ),
    "commitment_would_be_better": (
        "why",
        {"machine": G4DN | {"market": "reserved"}, "usd": 0.5, **COMMITMENT},
        {"reserved": True},
        "with a commitment of 12 months, aws g4dn.xlarge reserved would cost $0.50; it pays off above 460 hours a "
        "month (63% of the time) compared with on demand at $1.00/h, so it is considered only with "
        "scope=Scope(reserved=True)",
    ),
    "held_machine_is_idle": (
        "why",
        {"machine": G4DN | {"market": "reserved", "held": True}, "time_ratio": 1.0, "usd": 4.0},
        {},
        "aws g4dn.xlarge (yours) is already paid for: it would take 1x the time and, if no other training needs it "
        "then, add nothing to its price; its share of what was paid is $4.00",
    ),
    "spot_deadline_risk": (
        "why",
        {
            "deadline_seconds": 64_800.0,
            "late": 0.24,
            "stay_seconds": 18_000.0,
            "wait_seconds": 3600.0,
            "source": "traces of 3 zones",
        },
        {},
        "on spot alone it ends after the deadline of 18 h with a probability of 24%: on average a machine stays for 5 "
        "h and the next one takes 1 h to arrive, according to traces of 3 zones",
    ),
    "no_time_for_spot": (
        "why",
        {"deadline_seconds": 64_800.0, "on_demand_seconds": 43_200.0, "on_demand_usd": 36.0},
        {},
        "the deadline of 18 h leaves no time to wait for spot: on demand takes 12 h and costs $36.00",
    ),
    "fallback_to_on_demand": (
        "why",
        {"latest_seconds": 16_200.0, "usd": 15.0, "saving": 1 - 15 / 36, "probability": 0.3},
        {},
        "with a fallback to on demand, at the latest 4 h 30 min after the start and later by the work that is saved by "
        "then, it costs $15.00 on average, 58% less than on demand alone; the fallback is needed with a probability of "
        "30%",
    ),
    "late_even_on_demand": (
        "why",
        {"deadline_seconds": 64_800.0, "late": 0.4},
        {},
        "even on demand it ends after the deadline of 18 h with a probability of 40%",
    ),
    "basis_measured": (
        "certainty",
        {"profile": "p1"},
        {},
        "measured: profile p1 was taken on this machine type",
    ),
    "basis_scaled_from_same_machine": (
        "certainty",
        {"profile": "p1", "batch_size": 32, "gpus": 2},
        {},
        "scaled: profile p1 was taken on this machine type at batch size 32 on 2 GPUs, and scaled to this "
        "configuration",
    ),
    "basis_scaled_from_slice": (
        "certainty",
        {"profile": "p1", "machine": "local/one"},
        {},
        "scaled: profile p1 was taken on local/one, and scaled to this slice by the work of an iteration and the cores "
        "it used",
    ),
    "basis_scaled_from_cpu": (
        "certainty",
        {
            "profile": "p1",
            "from_cpu": "Xeon 8375C",
            "from_cores": 2,
            "to_cpu": "EPYC 9R14",
            "vcpus": 8.0,
            "threads_per_core": 2,
        },
        {},
        "scaled: profile p1 was taken on 2 cores of Xeon 8375C, and scaled to 8 vCPUs (4 cores) of EPYC 9R14 by what "
        "its operations would take on each",
    ),
    "busy_profile": (
        "certainty",
        {"profile": "p1", "share": 0.4, "idle_here_seconds": 360.0},
        {},
        "the machine was busy with other work during profile p1: the program waited for a CPU 40% of the time; without "
        "that work, training here would take about 6 min; a profile on an idle machine would be more certain",
    ),
    "data_wait_uncertain": (
        "certainty",
        {"profile": "p1", "workers": 2},
        {},
        "most of an iteration waits for data, prepared by 2 workers of the loader: it is scaled from the host of "
        "profile p1 and is the least certain part",
    ),
    "basis_scaled_from_gpu": (
        "certainty",
        {"profile": "p1", "from_gpu": "V100", "to_gpu": "T4"},
        {},
        "scaled: profile p1 was taken on V100, and scaled to T4 by the ratio of their predicted speeds",
    ),
    "basis_extrapolated": (
        "certainty",
        {"gpu": "T4", "wide": True, "profile_on": "aws/g4dn.xlarge"},
        {},
        "extrapolated: this program was never measured on T4; the time is predicted from its operations and the "
        "nominal figures of the GPU, hence the wide interval; a profile taken on aws/g4dn.xlarge would replace it by a "
        "measurement",
    ),
    "ranking_uncertain": (
        "certainty",
        {
            "goal": "cheapest",
            "machine": G4DN,
            "confidence": 0.9,
            "ratio": 1.5,
            "probability": 0.248,
            "others": 3,
            "bargain": A2 | {"ratio": 0.31, "is_first": False},
        },
        {},
        "aws g4dn.xlarge may be cheaper after all, with a probability of 25%: 1.5x the cost is expected, which is not "
        "a certain difference at 90% confidence; the same holds for 3 others, of which 2 × aws a2 at batch size 256 "
        "takes 0.31x the time",
    ),
    "best_for_any_epochs": (
        "changes",
        {"goal": "cheapest", "batch_size": None},
        {},
        "it is the cheapest for any number of epochs",
    ),
    "fewer_epochs": (
        "changes",
        {"epochs": 3, "machine": G4DN, "batch_size": 64},
        {},
        "with 3 epochs or fewer at batch size 64: aws g4dn.xlarge",
    ),
    "more_epochs": (
        "changes",
        {"epochs": 3001, "machine": G4DN, "batch_size": None},
        {},
        "with 3,001 epochs or more: aws g4dn.xlarge",
    ),
    "epochs_within_deadline": ("changes", {"epochs": 15}, {}, "up to 15 epochs are within the deadline"),
    "looser_deadline": (
        "changes",
        TOTALS,
        {"deadline": "2h"},
        "with goal=Goal(deadline_seconds=7200): 2 × aws a2 at batch size 256 (30 min, $3.00)",
    ),
    "tighter_deadline": (
        "changes",
        {**TOTALS, "below": 7200.0},
        {"deadline": "1h"},
        "with a deadline below 2 h: 2 × aws a2 at batch size 256 (30 min, $3.00), down to "
        "goal=Goal(deadline_seconds=3600)",
    ),
    "looser_budget": (
        "changes",
        {**TOTALS, "machine": G4DN | {"market": "spot"}},
        {"budget": 6.0},
        "with goal=Goal(budget_usd=6.0): aws g4dn.xlarge spot (30 min, $3.00, unless interruptions delay it)",
    ),
    "tighter_budget": (
        "changes",
        {**TOTALS, "below": 6.0},
        {"budget": 2.0},
        "with a budget below $6.00: 2 × aws a2 at batch size 256 (30 min, $3.00), down to goal=Goal(budget_usd=2.0)",
    ),
    "price_rise": (
        "changes",
        {"machine": G4DN, "usd_per_hour": 0.526, "break_even_usd_per_hour": 1.578, "other": A2},
        {},
        "if the price of aws g4dn.xlarge rises above $1.578/h (now $0.526/h): 2 × aws a2 at batch size 256",
    ),
    "long_start": (
        "charges",
        {"starting_seconds": 1200.0, "seconds": 3600.0},
        {"boot": "TIME", "setup": "TIME"},
        "starting the machine (boot, setup, copying the data) takes 20 min of the 1 h; if yours starts faster, pass "
        "overheads=Overheads(boot_seconds=TIME, setup_seconds=TIME)",
    ),
    "unused_time": (
        "charges",
        {"usd": 0.4, "line": "rounding", "how": "charged by the hour: 30 min more than it takes"},
        {},
        "$0.40 of the cost is for time it does not need: charged by the hour: 30 min more than it takes",
    ),
    "held_commitment": (
        "charges",
        {"months": 12, "usd_per_hour": 0.63, "total_usd": 5518.8},
        {},
        "you hold it for 12 months, paid whether it is used or not: the cost is calculated at $0.63/h, its share of "
        "the $5,518.80 in total; apart from storage and egress, the run adds nothing to what you pay",
    ),
    "commitment_share": (
        "charges",
        {"months": 1, "usd_per_hour": 0.63, "total_usd": 459.9, "training_hours": 1.0, "commitment_hours": 730.0},
        {},
        "the cost is calculated at $0.63/h, its share of the $459.90 for 1 month of one machine, paid whether it is "
        "used or not; this training takes 1.0 of 730 hours",
    ),
    "commitment_break_even": (
        "charges",
        {**COMMITMENT, "break_even_hours": 876.0},
        {},
        "a commitment of 12 months never pays off compared with on demand at $1.00/h",
    ),
    "spot_interruptions": (
        "charges",
        {"interruptions": 1.62, "low": 0.0, "high": 4.0, "rework_seconds": 600.0, "source": "traces of 11 zones"},
        {},
        "on spot, 1.6 interruptions are expected (90%: 0 to 4), which add 10 min; the rate is from traces of 11 zones",
    ),
    "no_checkpoints": (
        "charges",
        {},
        {},
        "it writes no checkpoint in that time, so an interruption restarts it from the beginning",
    ),
    "own_checkpoints": (
        "charges",
        {"every_seconds": 840.0},
        {},
        "its own checkpoints are 14 min apart; after an interruption it must resume from the last one by itself",
    ),
    "assumed_checkpoints": (
        "charges",
        {"every_seconds": 840.0},
        {},
        "a checkpoint every 14 min is assumed, from which the program resumes; the profile saw none, and without one "
        "an interruption restarts it from the beginning",
    ),
    "spot_price_age": (
        "charges",
        {**DATES, "factor": 1.93},
        {},
        "its spot price is 2 months old: nine in ten prices of that age were within a factor of 1.9 of the current "
        "price, which the interval does not include",
    ),
    "iterations_planned": (
        "assumptions",
        {"iterations": 100_000, "epochs": 14_285.7},
        {},
        "the length is counted in iterations: 100,000 iterations are 14,286 epochs",
    ),
    "batch_larger_than_data_set": (
        "assumptions",
        {"batch_size": 64, "samples": 50},
        {},
        "a batch of 64 is larger than the data set of 50 samples: an epoch is one iteration",
    ),
    "cheapest_with_gpu": (
        "assumptions",
        {"provider": "aws", "machine": "p5.4xlarge", "gpu": "H100", "gpus": 1, "machines": 7},
        {},
        "aws/p5.4xlarge is the cheapest of 7 machines with 1 H100",
    ),
    "epochs_assumed": (
        "assumptions",
        {"epochs": 10},
        {"epochs": "N"},
        "10 epochs are assumed, because the program does not say how many it trains; to set the number, pass epochs=N",
    ),
    "epochs_expected": (
        "assumptions",
        {"epochs": 94, "low": 80, "high": 120, "rule": "schedule", "why": "the learning rate ends there"},
        {"epochs": "N"},
        "94 epochs are expected: the learning rate ends there; time and cost include the 90% interval of 80 – 120 "
        "epochs; to set another number, pass epochs=N",
    ),
    "epochs_at_batch_size": (
        "assumptions",
        {
            "batch_size": 256,
            "profiled_batch_size": 64,
            "epochs": 94,
            "otherwise": 90,
            "low": 80,
            "high": 120,
            "larger": True,
        },
        {"batch_sizes": 64},
        "at batch size 256 instead of 64, 94 epochs instead of 90 are expected (90%: 80 – 120) with a learning rate "
        "adapted to it; larger batches can lose accuracy; to keep the profiled batch size, pass "
        "scope=Scope(batch_sizes=(64,))",
    ),
    "same_epochs_at_batch_sizes": (
        "assumptions",
        {"batch_size": 64, "batch_sizes": (64, 128, 256)},
        {},
        "batch size 64 is the best of 64, 128 and 256; the same number of epochs is assumed for each, though large "
        "batches often need more",
    ),
    "epochs_by_batch_size": (
        "assumptions",
        {"batch_size": 64, "batch_sizes": (64, 256), "epochs": (10, 14)},
        {},
        "batch size 64 is the best of 64 and 256, for which 10 and 14 epochs are expected",
    ),
    "validation_not_measured": (
        "assumptions",
        {},
        {},
        "the estimate does not include validation, because the profile saw none",
    ),
    "memory_unknown": (
        "assumptions",
        {},
        {},
        "it is not known whether it fits in memory, because the profile has no memory figures",
    ),
    "several_gpus_assumed": (
        "assumptions",
        {"gpus": 8},
        {},
        "the profile was taken on one GPU; it is assumed that the program can train on 8 GPUs at once, each with its "
        "share of the batch",
    ),
    "idle_gpus": (
        "assumptions",
        {"used": 1, "available": 4},
        {},
        "it uses 1 of 4 GPUs; the whole machine is charged",
    ),
    "incompatible_offers": (
        "assumptions",
        {"offers": 9},
        {},
        "9 offers of TPUs and Trainium are left out, because the program would have to be changed for them",
    ),
    "gpus_unknown": (
        "assumptions",
        {"profile": "p1"},
        {},
        "no machine with a GPU is compared: profile p1 was taken on a CPU and has no operations to predict a GPU from; "
        "profile the program again until an iteration has been traced",
    ),
    "old_marketplace_offers": (
        "assumptions",
        {"offers": 9},
        {},
        "9 offers of marketplaces are left out, because their prices change by the hour and were seen long ago; they "
        "are considered if their provider is named",
    ),
    "refused_offers": (
        "assumptions",
        {**G4DN, "market": "spot", "region": "us-east-1", "cause": "capacity", "seconds": 3 * 3600.0, "others": 1},
        {},
        "aws g4dn.xlarge spot in us-east-1 is left out, like 1 other offer: it was refused for capacity 3 h ago; it is "
        "considered if the machine is named",
    ),
    "price_seen": (
        "assumptions",
        {**DATES, "billing": "by the minute"},
        {},
        "its price was seen on 2026-08-22 (2 months old), charged by the minute",
    ),
    "does_not_fit": (
        "certainty",
        {"needed_gib": 23.4, "available_gib": 15.0},
        {},
        "it does not fit: an iteration needs about 23.4 GiB of memory, and 15 GiB are available",
    ),
    "batch_shared_by_gpus": (
        "assumptions",
        {"batch_size": 256, "gpus": 4, "iteration_seconds": 0.1},
        {},
        "4 GPUs share the batch of 256 and add up their gradients in every iteration (100 ms); the program must be "
        "started accordingly (torchrun, DDP)",
    ),
    "same_epochs_as_profiled": (
        "assumptions",
        {},
        {},
        "the same number of epochs is assumed at this batch size as at the profiled one, though larger batches often "
        "need more; `trainfare epochs` estimates how many",
    ),
    "billing_assumed": (
        "charges",
        {"provider": "lambda"},
        {},
        "the billing rule of lambda is not known; billing by the minute is assumed",
    ),
    "no_longer_rentable": (
        "charges",
        {"machine": G4DN, "since": "2025-01-01"},
        {},
        "aws g4dn.xlarge can no longer be rented since 2025-01-01",
    ),
}
"""For each code an example and its sentence."""


def test_every_code_of_the_explanations_has_an_example() -> None:
    assert set(EXAMPLES) == set(get_args(Code))


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_sentence_of_a_code(code: Code) -> None:
    topic, values, arguments, expected = EXAMPLES[code]
    assert sentence(reason(topic, code, arguments, **values)) == expected


@pytest.mark.parametrize("code", EXAMPLES)
def test_no_sentence_names_a_command_line_flag(code: Code) -> None:
    topic, values, arguments, _ = EXAMPLES[code]
    assert "--" not in sentence(reason(topic, code, arguments, **values))


def test_arguments_are_spelled_by_the_caller() -> None:
    topic, values, arguments, _ = EXAMPLES["spot_would_be_better"]
    found = sentence(
        reason(topic, "spot_would_be_better", arguments, **values), lambda given: f"--{', --'.join(given)}"
    )
    assert found.endswith("considered only with --spot")


def test_python_arguments_show_placeholders_without_quotes() -> None:
    spelled = python_arguments({"spot": True, "deadline": "4h10m", "epochs": "N"})
    assert spelled == "scope=Scope(spot=True), goal=Goal(deadline_seconds=15000), epochs=N"


def test_python_arguments_are_code_that_runs() -> None:
    from trainfare import Goal, Overheads, Scope

    arguments = {
        "spot": True,
        "reserved": False,
        "batch_sizes": 64,
        "exclude": "here",
        "deadline": "2h",
        "budget": 3.5,
        "confidence": 0.8,
        "boot": "90s",
        "epochs": 3,
    }
    nouns = {"Goal": Goal, "Scope": Scope, "Overheads": Overheads}
    found = eval(f"dict({python_arguments(arguments)})", nouns)  # noqa: S307 # the code is ours
    assert found == {
        "scope": Scope(spot=True, reserved=False, batch_sizes=(64,), exclude=("here",)),
        "goal": Goal(deadline_seconds=7200.0, budget_usd=3.5, confidence=0.8),
        "overheads": Overheads(boot_seconds=90.0),
        "epochs": 3,
    }


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("no_sooner", "no machine to rent would end sooner than here, at no cost: the fastest, aws g4dn.xlarge would"),
        (
            "in_time",
            "here it would end within 12 h with 90% confidence, at no cost; renting aws g4dn.xlarge would take",
        ),
        ("best", "fastest of 10 candidates, at no cost; renting aws g4dn.xlarge would take 5 min"),
        ("only", "no machine to rent would end within 12 h with 90% confidence; here it would, at no cost"),
    ],
)
def test_the_rule_by_which_here_is_the_answer_is_said(rule: str, expected: str) -> None:
    values: dict[str, Value] = {
        "rule": rule,
        "goal": "fastest",
        "usd": 0.0,
        "soon_seconds": 900.0,
        "rentals": 9,
        "rental": G4DN | {"seconds": 300.0, "usd": 0.017},
        "deadline_seconds": 43_200.0,
        "budget_usd": None,
        "confidence": 0.9,
    }
    assert sentence(Reason(topic="why", code="train_here", values=values)).startswith(expected)


def test_a_rule_that_holds_only_without_other_work_says_so() -> None:
    values: dict[str, str | float] = {
        "rule": "soon",
        "goal": "cheapest",
        "usd": 0.0,
        "soon_seconds": 900.0,
        "rentals": 9,
        "idle_seconds": 480.0,
    }
    assert sentence(Reason(topic="why", code="train_here", values=values)) == (
        "without other work on this machine, about 8 min: it ends within 15 min here, at no cost"
    )


def test_an_old_reason_is_its_own_sentence() -> None:
    assert sentence(text_reason("why", "cheapest of 2 candidates")) == "cheapest of 2 candidates"


def test_a_reason_of_a_later_release_is_named_by_its_code() -> None:
    assert sentence(Reason(topic="why", code="invented_later")) == "invented_later"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {},
            "cheapest of 1 candidate (1 machine type) that ends within 12 h and costs at most $20.00 with 90% "
            "confidence",
        ),
        ({"deadline_seconds": None, "budget_usd": None}, "cheapest of 1 candidate (1 machine type)"),
        (
            {"goal": "weighted", "deadline_seconds": None},
            "best by these weights of 1 candidate (1 machine type) that costs at most $20.00 with 90% confidence",
        ),
    ],
)
def test_a_single_candidate_is_singular(changes: dict[str, Scalar], expected: str) -> None:
    values = {**COUNTS, **LIMITS, "candidates": 1, "machine_types": 1, "max_nodes": 1, "batch_sizes": 1, **changes}
    assert sentence(reason("why", "best_candidate", **values)) == expected


def test_an_uncertain_ranking_without_alternatives_is_short() -> None:
    values = dict(EXAMPLES["ranking_uncertain"][1])
    assert sentence(
        reason("certainty", "ranking_uncertain", **values | {"others": 0, "bargain": None, "ratio": 1.0004})
    ).endswith("25%: about the same cost is expected, which is not a certain difference at 90% confidence")
    first = values | {"goal": "fastest", "others": 0, "bargain": A2 | {"ratio": 0.31, "is_first": True}}
    assert sentence(reason("certainty", "ranking_uncertain", **first)).endswith("confidence; it costs 0.31x as much")


@pytest.mark.parametrize(
    ("iterations", "epochs", "expected"),
    [(2_000, 1.0, "2,000 in all"), (1, 0.5, "1 iteration is 0.5 epochs"), (150, 1.5, "150 iterations are 1.5 epochs")],
)
def test_iterations_are_spelled_as_epochs(iterations: int, epochs: float, expected: str) -> None:
    said = sentence(reason("assumptions", "iterations_planned", iterations=iterations, epochs=epochs))
    assert said.endswith(expected)


def test_a_single_epoch_is_singular() -> None:
    said = sentence(reason("changes", "fewer_epochs", epochs=1, machine=G4DN, batch_size=None))
    assert said == "with 1 epoch: aws g4dn.xlarge"


def test_an_old_price_is_compared_with_a_newer_one() -> None:
    days: dict[str, Any] = {"days": 430, "seen_on": "2025-09-13", "today": "2026-11-17", "machine": G4DN}
    newer: dict[str, Any] = {"newer": A2, "newer_days": 6, "newer_usd": 4.2, "newer_seconds": 3600.0}
    said = sentence(reason("assumptions", "price_is_old", **(days | newer)))
    assert said == (
        "the price of aws g4dn.xlarge is 14 months old and may have changed; by a price of 6 days ago, 2 × aws a2 at "
        "batch size 256 is the best: 1 h, $4.20; `trainfare catalog update` renews prices"
    )
    said = sentence(reason("assumptions", "price_is_old", **(days | {"renewable": False})))
    assert said.endswith("may have changed: `trainfare catalog update` has none of aws: look it up there")


def test_a_commitment_without_a_price_on_demand_cannot_be_compared() -> None:
    said = sentence(
        reason("charges", "commitment_break_even", months=12, break_even_hours=None, on_demand_usd_per_hour=None)
    )
    assert said == "a commitment of 12 months cannot be compared with on demand, which has no price there"


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "less than 1%"), (0.034, "3%"), (0.999, "more than 99%"), (0.5, "50%")]
)
def test_probabilities_have_no_more_digits_than_the_traces_support(value: float, text: str) -> None:
    assert probability(value) == text


def test_every_bottleneck_has_words() -> None:
    from trainfare.model.estimate import Bottleneck

    assert set(BOTTLENECKS) == set(get_args(Bottleneck))


def test_a_machine_without_a_gpu_is_not_told_about_faster_gpus() -> None:
    for limit in BOTTLENECKS:
        said = sentence(reason("why", "limited_by", limited_by=limit, iteration_seconds=0.1, gpus=0))
        assert "a faster GPU" not in said


def test_a_time_scaled_without_operations_does_not_claim_them() -> None:
    values: dict[str, Any] = {"profile": "p1", "to_cpu": "EPYC", "by_operations": False}
    said = sentence(reason("certainty", "basis_scaled_from_cpu", **values))
    assert said.endswith("by the speed of their cores alone")
    assert "operations" not in said
