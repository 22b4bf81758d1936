"""A comparison of measured machines as a sentence and as a JSON record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from trainfare.model.reason import Reason
from trainfare.recommender.comparison import Comparison, LengthUnit, StableComparison
from trainfare.recommender.crossovers import WinningRange
from trainfare.recommender.options import Rankable
from trainfare.units import format_epochs, format_tokens, plural
from trainfare.views.estimates import estimate_record
from trainfare.views.intervals import time_with_interval, usd_with_interval
from trainfare.views.sentences import Sentence, from_values
from trainfare.views.values import Values, integer, texts


def _profiles_without_price(values: Values) -> str:
    return f"left out, because the price of the machine is not known: {', '.join(texts(values, 'profiles'))}"


def _profiles_without_times(values: Values) -> str:
    return f"left out, because the time of an iteration is not known: {', '.join(texts(values, 'profiles'))}"


def _steps_at_batch_size(values: Values) -> str:
    if values["batch_size"] is None:
        return "a step is an iteration of each profile, whatever its batch size, which is not known"
    return f"steps at batch size {integer(values, 'batch_size')}; at other sizes as many samples"


def _busy_profiles(values: Values) -> str:
    return f"too slow, perhaps, because the machine was busy: {', '.join(texts(values, 'profiles'))}"


SENTENCES: Mapping[str, Sentence] = from_values(
    {
        "profiles_without_price": _profiles_without_price,
        "profiles_without_times": _profiles_without_times,
        "busy_profiles": _busy_profiles,
        "steps_at_batch_size": _steps_at_batch_size,
    }
)
"""The sentence of each remark on a comparison, by its code."""


def remark_sentence(remark: Reason) -> str:
    """The sentence of a remark on a comparison."""
    return SENTENCES[remark.code](remark, lambda _: "")


def length_of(number: float, unit: LengthUnit) -> str:
    """A length in its unit: `1.5 epochs`, `2,000 steps`, `300B tokens`."""
    if unit == "epochs":
        return format_epochs(number)
    return plural(round(number), "step") if unit == "steps" else format_tokens(number)


def winners_sentence(goal: str, ranges: Sequence[WinningRange], unit: LengthUnit) -> str:
    """The machine that is the fastest or the cheapest at each length, in one sentence."""
    if len(ranges) == 1:
        return f"{goal}: {_machine(ranges[0].estimate)}, whatever the number of {unit}"
    parts = []
    for each in ranges:
        machine = _machine(each.estimate)
        if each.last is None:
            parts.append(f"from {length_of(each.first, unit)} on {machine}")
        elif each.first == each.last:
            parts.append(f"for {length_of(each.last, unit)} {machine}")
        else:
            parts.append(f"up to {length_of(each.last, unit)} {machine}")
    return f"{goal}: {', '.join(parts)}"


def longest_sentences(found: Comparison) -> Iterator[str]:
    """The fastest and the cheapest machine at the longest length, with their intervals."""
    number = max(found.by_iterations)
    estimates = [machine.estimate for machine in found.by_iterations[number]]
    fastest = min(estimates, key=lambda e: (e.seconds.value, e.usd.value))
    cheapest = min(estimates, key=lambda e: (e.usd.value, e.seconds.value))
    named = {"fastest": fastest, "cheapest": cheapest} if fastest is not cheapest else {"fastest and cheapest": fastest}
    for goal, best in named.items():
        yield (
            f"{length_of(number, found.unit)}, {goal}: {_machine(best)}, {time_with_interval(best.seconds)}, "
            f"{usd_with_interval(best.usd)}"
        )


def _machine(estimate: Rankable) -> str:
    size = estimate.candidate.batch_size
    return estimate.candidate.offer.vm_type.key + (f" at batch size {size}" if size else "")


def comparison_record(found: Comparison) -> dict[str, Any]:
    """Each machine at each number of epochs, the winners by number of epochs, and the trainings until stable."""
    return {
        "profiles": [profile.id for profile in found.profiles],
        "baseline": found.baseline,
        "unit": found.unit,
        "by_iterations": [
            {
                **estimate_record(machine.estimate),
                "length": number,
                "relative_seconds": machine.relative_seconds.value,
                "relative_usd": machine.relative_usd.value,
                "delta": machine.delta,
            }
            for number, machines in found.by_iterations.items()
            for machine in machines
        ],
        "fastest": [winning_range_record(each, found.unit) for each in found.fastest],
        "cheapest": [winning_range_record(each, found.unit) for each in found.cheapest],
        "until_stable": None if found.until_stable is None else _stable_record(found.until_stable),
        "remarks": [remark_sentence(remark) for remark in found.remarks],
    }


def _stable_record(found: StableComparison) -> dict[str, Any]:
    return {
        "configurations": [asdict(each) for each in found.configurations],
        "method_costs": [asdict(each) for each in found.method_costs],
        "cost_benefit": [asdict(each) | {"pays": each.pays} for each in found.cost_benefit],
    }


def winning_range_record(won: WinningRange, unit: LengthUnit) -> dict[str, Any]:
    """A range of lengths and the machine that wins in it; the keys of epochs are null in other units."""
    candidate = won.estimate.candidate
    in_epochs = unit == "epochs"
    return {
        "from": won.first,
        "to": won.last,
        "from_epochs": won.first if in_epochs else None,
        "to_epochs": won.last if in_epochs else None,
        "machine": candidate.offer.vm_type.key,
        "batch_size": candidate.batch_size,
    }
