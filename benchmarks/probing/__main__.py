"""What finding the machine and training there costs, against an oracle that knew: every policy on real tables.

    python -m benchmarks.probing --fit DIR [--json] [--settings]

DIR holds public measurements: `cnn_on_ec2/`, `seven_models_k80_p100_v100/`, `rented_gpus/`, `data_parallel_t4/` and
`prices/`; Malta's tables are in the project. Jobs of 0.5 to 500 $. A machine boots for 90 s before it does anything, a
probe takes 30 s after that, two epochs a tenth of the training: assumptions (`--start` says another boot). Numbers are
percent over the oracle, the mean over jobs, then over settings; one setting stands apart, where the batch is to be
found along with the machine. Chosen in sight of these tables: `DOUBT` and the conditioning of `recommender/probing/next_probe.py`,
that a profile on several GPUs is not moved to others by our models, the two lengths, and which setting stands apart
(docs/experiments/0093 has what each changed). On `cnn_on_ec2` one machine is always the cheapest: it tells policies
that waste money, not beliefs that are right.
"""

import argparse
import json
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.probing import policies
from benchmarks.probing.problem import BOOT_SECONDS, Problem
from benchmarks.probing.tables import problems

SIZES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
SMALL, LARGE = (0.5, 1.0), (200.0, 500.0)
POLICIES: dict[str, policies.Policy] = {
    "ours, belief as sure as 0.15": policies.ours_if_so_sure(0.15),
    "ours, a profile at hand": policies.ours_with_a_profile,
    "ours, models from the first iterations": policies.ours_by_models,
    "ours, GPU facts": policies.ours_by_facts,
    "no probing, a profile at hand": policies.models_unprobed,
    "no probing, GPU facts": policies.no_probing,
    "three at random": policies.at_random,
    "CherryPick": policies.cherrypick,
    "a few iterations everywhere (Malta 2)": policies.everywhere,
    "two epochs everywhere (Malta 1)": policies.two_epochs,
}
PUBLISHED = {
    "ours, belief as sure as 0.15": 0.7,
    "ours, GPU facts": 3.7,
    "no probing, GPU facts": 16.0,
    "CherryPick": 37.0,
    "a few iterations everywhere (Malta 2)": 62.0,
    "two epochs everywhere (Malta 1)": 310.0,
}
"""Total over the oracle in an earlier comparison, on nine settings of its own."""
APART = ("Malta machine × batch",)
"""Settings that are in no mean."""


@dataclass(frozen=True, slots=True)
class Row:
    policy: str
    setting: str
    usd: float
    regret: float
    total: float
    probes: int
    spent: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fit", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--settings", action="store_true", help="each setting by itself too")
    parser.add_argument("--start", type=float, default=BOOT_SECONDS, metavar="SECONDS", help="until a machine is up")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.fit.is_dir():
        parser.error(f"{options.fit} is not a folder")
    rows = play(problems(options.fit), SIZES, options.start)
    if not rows:
        sys.exit("nothing could be asked: the folder has none of the tables")
    table = summary(rows)
    if options.json:
        print(json.dumps({"rows": table, "settings": by_setting(rows)}, indent=2, ensure_ascii=False))
        return
    print(_text(table))
    if options.settings:
        print("\ntotal over the oracle, %, by setting\n" + _text(by_setting(rows)))


def play(asked: Iterable[Problem], sizes: Sequence[float], start: float) -> list[Row]:
    """Every policy on every problem at every size, each with noise of its own that is the same every time."""
    rows = []
    for problem in asked:
        for usd in sizes:
            job = problem.sized(usd, start)
            for name, policy in POLICIES.items():
                seed = zlib.crc32(f"{name} {problem.setting} {problem.name} {usd}".encode())
                played = policy(job, np.random.default_rng(seed))
                rows.append(
                    Row(
                        policy=name,
                        setting=problem.setting,
                        usd=usd,
                        regret=100 * (float(job.whole[played.trained_on]) / job.oracle - 1),
                        total=100 * (played.paid / job.oracle - 1),
                        probes=played.probes,
                        spent=100 * played.for_probes / job.oracle,
                    )
                )
    return rows


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "policy": policy,
            "regret": _mean(own, "regret"),
            "total": _mean(own, "total"),
            "probes": _mean(own, "probes"),
            "spent on probes": _mean(own, "spent"),
            "jobs ≤ 1 $": _mean([row for row in own if row.usd in SMALL], "total"),
            "200–500 $": _mean([row for row in own if row.usd in LARGE], "total"),
            "published": PUBLISHED.get(policy),
        }
        for policy in POLICIES
        if (own := [row for row in rows if row.policy == policy and row.setting not in APART])
    ]


def by_setting(rows: Sequence[Row]) -> list[dict[str, Any]]:
    settings = dict.fromkeys(row.setting for row in rows)
    return [
        {
            "setting": setting,
            **{p: fmean(r.total for r in rows if r.setting == setting and r.policy == p) for p in POLICIES},
        }
        for setting in settings
    ]


def _mean(rows: Sequence[Row], field: str) -> float:
    """Every setting counts alike."""
    of: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        of[row.setting].append(getattr(row, field))
    return fmean(fmean(values) for values in of.values()) if of else 0.0


def _text(table: Sequence[dict[str, Any]]) -> str:
    names = list(table[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in table)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
