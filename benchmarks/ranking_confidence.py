"""Calibration of the ranking confidence: how often the better-looking of two machines was measured to be better.

    python -m benchmarks.ranking_confidence --data DIR [--json]

DIR holds the table of ten CNNs on K80, M60, T4 and V100 (`cnn_on_ec2`). Each step, profiled on one machine type, is
predicted for the three others with its family left out of the fit (as `benchmarks.accuracy other_vm` does), and each
two of these predictions are ranked: by time, and by cost at the prices of the bundled catalog.

P            the ranking confidence of `recommender/ranking_confidence.py`; right: the share of rankings that the
             measurements confirm
overlap      the rule that it replaces: a ranking is uncertain if the two 90% intervals overlap
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from benchmarks.accuracy.ec2_rows import TransferRow, predicted_rows
from trainfare.catalog.bundled import load_offers
from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal, GoalKind
from trainfare.recommender.choose import ideal_point
from trainfare.recommender.ranking_confidence import ranking_confidence

STEPS = 100_000
"""Iterations of a training, so that costs are dollars instead of millionths; no ratio depends on it."""
BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 1.0)
KINDS: tuple[GoalKind, ...] = ("fastest", "cheapest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The ranking of two predictions by one goal, and whether the measurements confirm it."""

    goal: GoalKind
    confidence: float
    overlap: bool
    right: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows, answers = predicted_rows(arguments.data, None, "family")
    table = [*summarise(list(pairs(rows, answers)))]
    if arguments.json:
        print(json.dumps({"correlation": correlation(rows, answers), "rows": table}, indent=1))
        return
    print(f"errors of one step on two machines correlate by {correlation(rows, answers):.2f}\n")
    print("| by | | pairs | mean P | right |\n| --- | --- | --- | --- | --- |")
    for row in table:
        print(
            "| " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row.values()) + " |"
        )


def pairs(rows: Sequence[TransferRow], answers: Sequence[Interval]) -> Iterator[Pair]:
    offers = _cheapest_offers()
    for group in _by_step(rows, answers).values():
        both = [(_estimate(row, answer, offers[row.to]), _truth(row, offers[row.to])) for row, answer in group]
        for (a, a_truth), (b, b_truth) in combinations(both, 2):
            for kind in KINDS:
                first_interval, second_interval = (e.usd if kind == "cheapest" else e.seconds for e in (a, b))
                first, second = (truth[kind] for truth in (a_truth, b_truth))
                yield Pair(
                    goal=kind,
                    confidence=ranking_confidence(a, b, Goal(kind=kind), ideal=ideal_point([a, b])),
                    overlap=first_interval.overlaps(second_interval),
                    right=(first_interval.value < second_interval.value) == (first < second),
                )


def summarise(found: Sequence[Pair]) -> Iterator[dict[str, object]]:
    for kind in KINDS:
        by_goal = [pair for pair in found if pair.goal == kind]
        for low, high in pairwise(BINS):
            part = [p for p in by_goal if low <= p.confidence < high or p.confidence == high == 1]
            yield _row(kind, f"P {low} – {high}", part)
        yield _row(kind, "uncertain at 90% (P < 0.9)", [p for p in by_goal if p.confidence < 0.9])
        yield _row(kind, "uncertain by overlap", [p for p in by_goal if p.overlap])


def _row(kind: str, what: str, part: Sequence[Pair]) -> dict[str, object]:
    n = len(part)
    mean = sum(p.confidence for p in part) / n if n else math.nan
    right = sum(p.right for p in part) / n if n else math.nan
    return {"goal": kind, "what": what, "pairs": n, "P": mean, "right": right}


def correlation(rows: Sequence[TransferRow], answers: Sequence[Interval]) -> float:
    """The correlation of the errors of one step on two machines, each in units of its own deviation."""
    both: list[tuple[float, float]] = []
    for group in _by_step(rows, answers).values():
        errors = [
            math.log(row.seconds / answer.value) / math.log(answer.high / answer.value)
            for row, answer in group
            if answer.high > answer.value
        ]
        both += combinations(errors, 2)
    return float(np.corrcoef(np.array(both).T)[0, 1])


Step = tuple[object, ...]


def _by_step(
    rows: Sequence[TransferRow], answers: Sequence[Interval]
) -> dict[Step, list[tuple[TransferRow, Interval]]]:
    found: dict[Step, list[tuple[TransferRow, Interval]]] = defaultdict(list)
    for row, answer in zip(rows, answers, strict=True):
        profile = row.profile
        found[profile.program, profile.image_side, profile.batch_size, profile.vm_type].append((row, answer))
    return found


def _cheapest_offers() -> dict[str, Offer]:
    """The cheapest offer on demand of each EC2 type."""
    found: dict[str, Offer] = {}
    for offer in sorted(load_offers(), key=lambda offer: offer.usd_per_hour):
        if offer.vm_type.provider == "aws" and offer.market == "on_demand":
            found.setdefault(offer.vm_type.name, offer)
    return found


def _estimate(row: TransferRow, answer: Interval, offer: Offer) -> Estimate:
    seconds = answer * STEPS
    return Estimate(
        candidate=Candidate(offer=offer, nodes=1, batch_size=int(row.profile.batch_size)),
        profile_id="profiled",
        epochs=1,
        basis="scaled",
        iteration_seconds=answer,
        phases=(Phase(name="steady iterations", seconds=seconds),),
        seconds=seconds,
        usd=seconds * (offer.usd_per_hour / 3600),
    )


def _truth(row: TransferRow, offer: Offer) -> dict[GoalKind, float]:
    return {"fastest": row.seconds, "cheapest": row.seconds * offer.usd_per_hour}


if __name__ == "__main__":
    main()
