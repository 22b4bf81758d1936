"""A comparison of measured machines as a sentence and as a JSON record."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from trainfare.model.reason import Reason
from trainfare.recommender.comparison import Comparison, StableComparison
from trainfare.recommender.crossovers import WinningRange
from trainfare.views.estimates import estimate_record
from trainfare.views.sentences import Sentence, from_values
from trainfare.views.values import Values, texts


def _profiles_without_price(values: Values) -> str:
    return f"left out, because the price of the machine is not known: {', '.join(texts(values, 'profiles'))}"


SENTENCES: Mapping[str, Sentence] = from_values({"profiles_without_price": _profiles_without_price})
"""The sentence of each remark on a comparison, by its code."""


def remark_sentence(remark: Reason) -> str:
    """The sentence of a remark on a comparison."""
    return SENTENCES[remark.code](remark, lambda _: "")


def comparison_record(found: Comparison) -> dict[str, Any]:
    """Each machine at each number of epochs, the winners by number of epochs, and the trainings until stable."""
    return {
        "profiles": [profile.id for profile in found.profiles],
        "baseline": found.baseline,
        "by_iterations": [
            {
                **estimate_record(machine.estimate),
                "relative_seconds": machine.relative_seconds.value,
                "relative_usd": machine.relative_usd.value,
                "delta": machine.delta,
            }
            for machines in found.by_iterations.values()
            for machine in machines
        ],
        "fastest": [winning_range_record(each) for each in found.fastest],
        "cheapest": [winning_range_record(each) for each in found.cheapest],
        "until_stable": None if found.until_stable is None else _stable_record(found.until_stable),
        "remarks": [remark_sentence(remark) for remark in found.remarks],
    }


def _stable_record(found: StableComparison) -> dict[str, Any]:
    return {
        "configurations": [asdict(each) for each in found.configurations],
        "method_costs": [asdict(each) for each in found.method_costs],
        "cost_benefit": [asdict(each) | {"pays": each.pays} for each in found.cost_benefit],
    }


def winning_range_record(won: WinningRange) -> dict[str, Any]:
    """A range of epochs and the machine that wins in it."""
    candidate = won.estimate.candidate
    return {
        "from_epochs": won.first,
        "to_epochs": won.last,
        "machine": candidate.offer.vm_type.key,
        "batch_size": candidate.batch_size,
    }
