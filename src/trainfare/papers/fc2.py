"""FC2 (Ta 2019): its price tables, the fifteen clusters that section 8 recommends, and their savings.

Scala-Opt needs the traffic of one worker, b_t, and no b_t is printed. But every recommendation restricts the b_t of
every type that was considered: the network holds exactly that many of the winner and at least as many of the others. So
each recommendation gives a range for the b_t of a (type, batch size), and the ranges of all recommendations must
overlap. Within the overlap the algorithm is run again, at every combination of ends. For the seven recommendations
below the limit this shows only that some b_t gives them and that they do not contradict each other; it is no
prediction.

A stricter check: a step sends the same bytes at every batch size B, and its time is linear in B, so one line
1/b_t = c₀ + c₁·B, with c₀ and c₁ not negative, must pass through all ranges of a type. `ranges_on_a_line` finds them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

from trainfare.catalog.bundled import load_offers
from trainfare.estimator.cost.delta import relative_excess
from trainfare.estimator.cost.relative import relative_saving
from trainfare.model.cluster import Cluster, ClusterLimit, Server, Worker
from trainfare.model.offer import Offer
from trainfare.papers.judge import judge_number, not_recomputable
from trainfare.papers.printed import PrintedNumber
from trainfare.papers.published import PublishedCell, tables
from trainfare.papers.row import Row
from trainfare.recommender.clusters.fc2 import cost_opt, mbps_range_for, scala_opt, time_opt, training_usd

SERVERS, WORKERS, RECOMMENDED, SAVED = "fc2-1", "fc2-2", "fc2-recommendations", "fc2-savings"

LIMIT = ClusterLimit(workers=6)
"""Section 8.1: "a limit of 6 workers per cluster"; it also holds in the later sections."""

JUST_ABOVE = 1 + 1e-6
"""A factor for the low end of a range, which is not part of it."""

HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """The server and the types of workers of one section."""

    server: str
    workers: tuple[str, ...]


SCENARIOS = {
    "8.1": Scenario("m4.large", ("m4.xlarge", "t2.xlarge", "c4.xlarge")),
    "8.2": Scenario("m4.large", ("t2.xlarge", "m4.xlarge", "c4.xlarge", "p2.xlarge")),
    "8.3": Scenario("m4.2xlarge", ("g3.4xlarge", "p2.xlarge", "c4.8xlarge")),
    "8.4": Scenario("m4.10xlarge", ("g3.4xlarge", "p2.xlarge", "c4.8xlarge")),
}

NOT_PRINTED = {
    "$/h": "a price in Singapore of August 2018; no other price list of that day is available",
    "ECU": "a number of the provider, who no longer publishes it",
    "network": "a description by the provider",
    "network in the text (Mbps)": "measured",
    "memory (GiB)": "a number of the provider; the catalog has no machine of this type",
    "GPUs": "a number of the provider; the catalog has no machine of this type",
}


@dataclass(frozen=True, slots=True)
class BandwidthRange:
    """The possible b_t, above `low` and up to `high`, and the recommendations that it follows from."""

    low: float
    high: float
    sources: tuple[str, ...]

    def intersect(self, other: "BandwidthRange") -> "BandwidthRange":
        """The values in both ranges."""
        return BandwidthRange(max(self.low, other.low), min(self.high, other.high), (*self.sources, *other.sources))

    @property
    def text(self) -> str:
        return f"{self.low:.4g} to {self.high:.4g} Mbps" if self.low else f"at most {self.high:.4g} Mbps"


def rows() -> tuple[Row, ...]:
    """Every number, in the order of the page."""
    page = tables("fc2")
    return (
        *(_price_row(cell) for name in (SERVERS, WORKERS) for cell in page[name].cells.values()),
        *(_recommendation_row(cell) for cell in page[RECOMMENDED].cells.values()),
        *(_saving_row(cell) for cell in page[SAVED].cells.values()),
    )


def _price_row(cell: PublishedCell) -> Row:
    cell_name = f"{cell.row}: {cell.column}"
    if cell.column == "times the price of m4.2xlarge":
        ours = PrintedNumber.exactly(_server(cell.row).usd_per_hour / _server("m4.2xlarge").usd_per_hour)
        return judge_number(cell.table, cell_name, cell.printed, ours, method="ratio of the prices", misprints={})
    offer = next((o for o in load_offers() if o.vm_type.key == f"aws/{cell.row}"), None)
    value = _catalog_has(offer, cell.column) if offer else None
    if value is None:
        return not_recomputable(cell.table, cell_name, cell.printed, NOT_PRINTED[cell.column])
    return judge_number(
        cell.table, cell_name, cell.printed, PrintedNumber.exactly(value), method="from the catalog", misprints={}
    )


def _catalog_has(offer: Offer, column: str) -> float | None:
    """A fact of the machine in the catalog, which is independent of this document; prices differ by day and region."""
    return {"memory (GiB)": offer.vm_type.memory_gib, "GPUs": float(offer.vm_type.gpus)}.get(column)


def _server(name: str) -> Server:
    page = tables("fc2")[SERVERS]
    return Server(
        name=name,
        usd_per_hour=page.number(name, "$/h").value,
        mbps=page.number(name, "network in the text (Mbps)").value,
    )


def _worker(name: str, mbps: float | None = None) -> Worker:
    return Worker(name=name, usd_per_hour=tables("fc2")[WORKERS].number(name, "$/h").value, mbps=mbps)


def _recommendation_row(cell: PublishedCell) -> Row:
    section, batch = _section_and_batch(cell)
    scenario = SCENARIOS[section]
    server = _server(scenario.server)
    if cell.column == "scala-opt":
        found, why = _scala_opt(cell)
    else:
        solve = cost_opt if cell.column == "cost-opt" else time_opt
        found = {_cluster_text(solve(server, [_worker(name) for name in scenario.workers], LIMIT))}
        extreme = "cheapest" if cell.column == "cost-opt" else "most expensive"
        why = f"the {extreme} of {', '.join(scenario.workers)}, up to the limit of {LIMIT.workers}"
    ours = " or ".join(sorted(found))
    return Row(
        table=RECOMMENDED,
        row=f"{section}, batch {batch}: {cell.column}",
        published=cell.printed,
        ours=ours,
        verdict="equal" if ours == cell.printed else "differs",
        why=why,
    )


def _scala_opt(cell: PublishedCell) -> tuple[set[str], str]:
    """The results at every combination of the ends of the ranges, and a description of the ranges."""
    section, batch = _section_and_batch(cell)
    scenario = SCENARIOS[section]
    workers, winner = _printed_cluster(cell)
    ranges = bandwidths()
    found = set()
    for ends in product(*(_ends(ranges[name, batch]) for name in scenario.workers)):
        types = [_worker(name, mbps) for name, mbps in zip(scenario.workers, ends, strict=True)]
        found.add(_cluster_text(scala_opt(_server(scenario.server), types, LIMIT)))
    own = ranges[winner, batch]
    others = "; ".join(f"{name} {ranges[name, batch].text}" for name in scenario.workers if name != winner)
    here = f"{section}, batch {batch}"
    elsewhere = [said for said in own.sources if said != here]
    if workers == LIMIT.workers:
        why = (
            f"the traffic of one worker is not printed; the range from {' and '.join(elsewhere)} for {winner}, "
            f"{own.text}, gives this recommendation too, with the limit of {LIMIT.workers} applied to the winner. "
            "Applied to every type before the comparison, all would have as many, and the first, c4.8xlarge, would win"
        )
    else:
        agrees = (
            f"{' and '.join(elsewhere)} has the same type and batch size and agrees"
            if elsewhere
            else "no other recommendation has that type and batch size"
        )
        why = (
            "the traffic of one worker is not printed, so it was inferred from the recommendation, which follows if "
            f"one {winner} sends {own.text}; {agrees}"
        )
    line = ranges_on_a_line()[winner, batch]
    batches = sorted(size for name, size in ranges if name == winner)
    if len(batches) > 1:
        why += (
            f". One line through all its batch sizes ({', '.join(map(str, batches))}) allows "
            f"{line.text if line.text != own.text else 'the same range'}"
        )
    return found, f"{why}. Other types: {others}"


@cache
def bandwidths() -> dict[tuple[str, int], BandwidthRange]:
    """The ranges of b_t by type and batch size that follow from all recommendations of Scala-Opt."""
    found: dict[tuple[str, int], BandwidthRange] = {}
    for cell in tables("fc2")[RECOMMENDED].cells.values():
        if cell.column == "scala-opt":
            for key, said in _ranges_from(cell):
                found[key] = found[key].intersect(said) if key in found else said
    for (name, batch), common in found.items():
        if not common.low < common.high:
            raise ValueError(f"{name} at batch {batch}: {' and '.join(common.sources)} contradict each other")
    return found


@cache
def ranges_on_a_line() -> dict[tuple[str, int], BandwidthRange]:
    """The ranges of b_t by type and batch size if all batch sizes of a type must be on one line.

    The possible lines are a polygon of (c₀, c₁), and the extremes of c₀ + c₁·B are at its corners. For a type that
    never won, no range has a low end and the polygon is open: c₀ can be arbitrarily large, and b_t arbitrarily small.
    """
    found = {}
    ranges = bandwidths()
    for name in dict.fromkeys(name for name, _ in ranges):
        of_type = {batch: range_ for (other, batch), range_ in ranges.items() if other == name}
        corners = _corners(of_type)
        if not corners:
            raise ValueError(f"no line passes through the ranges of {name}")
        closed = any(known.low for known in of_type.values())
        for batch, known in of_type.items():
            inverse = [c0 + c1 * batch for c0, c1 in corners]
            low = 1 / max(inverse) if closed else 0.0
            found[name, batch] = BandwidthRange(max(known.low, low), min(known.high, 1 / min(inverse)), known.sources)
    return found


def _corners(ranges: Mapping[int, BandwidthRange]) -> list[tuple[float, float]]:
    """The corners of the polygon of all a·c₀ + b·c₁ ≤ d."""
    sides = [(-1.0, 0.0, 0.0), (0.0, -1.0, 0.0)]
    for batch, known in ranges.items():
        sides.append((-1.0, -float(batch), -1 / known.high))
        if known.low:
            sides.append((1.0, float(batch), 1 / known.low))
    corners = []
    for (a, b, d), (e, f, g) in combinations(sides, 2):
        area = a * f - b * e
        if area:
            c0, c1 = (d * f - b * g) / area, (a * g - d * e) / area
            if all(p * c0 + q * c1 <= r + 1e-12 for p, q, r in sides):
                corners.append((c0, c1))
    return corners


def _ranges_from(cell: PublishedCell) -> Iterator[tuple[tuple[str, int], BandwidthRange]]:
    """The ranges that follow from one recommendation.

    A recommendation at the limit shows only that the network holds that many workers, because types were compared
    before the limit was applied.
    """
    section, batch = _section_and_batch(cell)
    scenario, cell_name = SCENARIOS[section], f"{section}, batch {batch}"
    server = _server(scenario.server)
    workers, winner = _printed_cluster(cell)
    low, high = mbps_range_for(workers, server)
    if workers == LIMIT.workers:
        yield (winner, batch), BandwidthRange(0.0, high, (cell_name,))
        return
    yield (winner, batch), BandwidthRange(low, high, (cell_name,))
    for name in scenario.workers:
        if name != winner:
            # A more expensive type was considered before and had to hold more; a cheaper one may hold as many.
            expensive = _worker(name).usd_per_hour > _worker(winner).usd_per_hour
            yield (name, batch), BandwidthRange(0.0, low if expensive else high, (cell_name,))


def _ends(found: BandwidthRange) -> tuple[float, ...]:
    """The ends to try. A range without a low end has only its high end: with hardly any traffic a type never wins."""
    return (found.low * JUST_ABOVE, found.high) if found.low else (found.high,)


def _saving_row(cell: PublishedCell) -> Row:
    cell_name = f"{cell.row}: {cell.column}"
    section = cell.row.split(",")[0]
    if cell.column == "time-opt slower by (%)":
        return not_recomputable(SAVED, cell_name, cell.printed, "training times are only in figures")
    if cell.column.startswith("scala-opt-m"):
        return _scala_opt_m_row(cell, cell_name)
    scala, expensive = _usd_per_hour(cell.row, "scala-opt"), _usd_per_hour(section, "time-opt")
    if section == "8.3":
        slower = 1 + tables("fc2")[SAVED].number(cell.row, "time-opt slower by (%)").value / 100
        ours = 100 * relative_excess(expensive * slower, scala)
        method = (
            "price × time, with the 30% longer time of time-opt. At equal times it is "
            f"{100 * relative_excess(expensive, scala):.1f}%, close to the printed number: the longer time seems to be "
            "left out. With 30% less work in the same time it is "
            f"{100 * relative_excess(expensive / (2 - slower), scala):.1f}%"
        )
    else:
        ours = 100 * relative_saving(scala, expensive)
        method = "ratio of the hourly prices at equal training time, which the text calls similar"
    about = PrintedNumber.read(cell.printed)
    # "around 65 %", and all of these are multiples of five, so they are taken as rounded to five.
    if PrintedNumber(about.value, about.value - 2.5, about.value + 2.5).agrees_with(PrintedNumber.exactly(ours)):
        return _saving_verdict(
            cell_name, about.value, ours, method + '; the text says "around", taken as rounded to five'
        )
    if section != "8.3":
        needed = (1 - about.value / 100) / (scala / expensive)
        method += f". The printed number requires that scala-opt takes {needed:.2f} of the time, which is not printed"
    return _saving_verdict(cell_name, about.value, ours, method, verdict_differs=True)


def _saving_verdict(cell_name: str, published: float, ours: float, why: str, *, verdict_differs: bool = False) -> Row:
    return Row(
        table=SAVED,
        row=cell_name,
        published=published,
        ours=float(f"{ours:.4g}"),
        verdict="differs" if verdict_differs else "equal",
        why=why,
    )


def _scala_opt_m_row(cell: PublishedCell, cell_name: str) -> Row:
    """The number of workers is not printed; five would explain the saving."""
    server, five = _server("m4.large"), 5 * _worker("m4.xlarge").usd_per_hour
    would = 100 * relative_saving(server.usd_per_hour + five, _usd_per_hour("8.1", "time-opt"))
    why = f"the number of workers of scala-opt-m is not printed; five m4.xlarge at equal time would save {would:.1f}%"
    return not_recomputable(SAVED, cell_name, cell.printed, why)


def _usd_per_hour(row: str, algorithm: str) -> float:
    """The hourly price of a recommended cluster; that of time-opt is the same at every batch size."""
    cell = next(
        cell
        for (name, column), cell in tables("fc2")[RECOMMENDED].cells.items()
        if column == algorithm and name.startswith(row)
    )
    workers, name = _printed_cluster(cell)
    section, _ = _section_and_batch(cell)
    cluster = Cluster(
        algorithm="scala-opt" if algorithm == "scala-opt" else "time-opt",
        server=_server(SCENARIOS[section].server),
        worker=_worker(name),
        workers=workers,
        fill=1.0,
        limit=LIMIT,
        considered=(),
    )
    return training_usd(cluster, HOUR_SECONDS)


def _section_and_batch(cell: PublishedCell) -> tuple[str, int]:
    section, _, batch = cell.row.partition(", batch ")
    return section, int(batch)


def _printed_cluster(cell: PublishedCell) -> tuple[int, str]:
    workers, name = cell.printed.split(" × ")
    return int(workers), name


def _cluster_text(cluster: Cluster) -> str:
    return f"{cluster.workers} × {cluster.worker.name}"
