"""FC2 (Ta 2019): its price tables, the fifteen clusters that section 8 recommends, and what they save.

Scala-Opt counts by the bandwidth of one worker, b_t, and no b_t is printed. But every recommendation says something of
the b_t of every type that was considered: the winner's network holds exactly that many, the others' at least as many.
So each leaves a range for the b_t of a (type, batch size), and the ranges of all recommendations must have a common
part. Within it the algorithm is run again, at every combination of ends. For the seven recommendations below the limit
that shows only that some b_t gives them and that they do not contradict each other; it is no prediction.

A stronger demand: a step sends the same bytes at every batch size B and lasts as long as a line in B, so one line
1/b_t = c₀ + c₁·B, c₀ and c₁ not negative, must go through all ranges of a type. `on_a_line` finds all that do.
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
from trainfare.papers.judge import judged, not_recomputable
from trainfare.papers.printed import Printed
from trainfare.papers.published import Cell, tables
from trainfare.papers.row import Row
from trainfare.recommender.clusters.fc2 import cost_opt, mbps_range_for, scala_opt, time_opt, training_usd

SERVERS, WORKERS, RECOMMENDED, SAVED = "fc2-1", "fc2-2", "fc2-recommendations", "fc2-savings"

LIMIT = ClusterLimit(workers=6)
"""Section 8.1: "a limit of 6 workers per cluster"; the later sections keep it."""

ABOVE = 1 + 1e-6
"""The low end of a range is not in it."""

AN_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Scenario:
    server: str
    workers: tuple[str, ...]


SCENARIOS = {
    "8.1": Scenario("m4.large", ("m4.xlarge", "t2.xlarge", "c4.xlarge")),
    "8.2": Scenario("m4.large", ("t2.xlarge", "m4.xlarge", "c4.xlarge", "p2.xlarge")),
    "8.3": Scenario("m4.2xlarge", ("g3.4xlarge", "p2.xlarge", "c4.8xlarge")),
    "8.4": Scenario("m4.10xlarge", ("g3.4xlarge", "p2.xlarge", "c4.8xlarge")),
}

NOT_PRINTED = {
    "$/h": "a price of Singapore in August 2018; no other price list of that day is at hand",
    "ECU": "a figure of the provider's, who no longer gives it",
    "network": "a word of the provider's",
    "network in the text (Mbps)": "measured",
    "memory (GiB)": "a figure of the provider's; the catalog lists no machine of this kind",
    "GPUs": "a figure of the provider's; the catalog lists no machine of this kind",
}


@dataclass(frozen=True, slots=True)
class Range:
    """What b_t may be: above `low`, up to `high`; with the recommendations that say so."""

    low: float
    high: float
    said_by: tuple[str, ...]

    def also(self, other: "Range") -> "Range":
        return Range(max(self.low, other.low), min(self.high, other.high), (*self.said_by, *other.said_by))

    @property
    def words(self) -> str:
        return f"{self.low:.4g} to {self.high:.4g} Mbps" if self.low else f"at most {self.high:.4g} Mbps"


def rows() -> tuple[Row, ...]:
    """Every number, in the order of the page."""
    page = tables("fc2")
    return (
        *(_price_row(cell) for name in (SERVERS, WORKERS) for cell in page[name].cells.values()),
        *(_recommendation_row(cell) for cell in page[RECOMMENDED].cells.values()),
        *(_saving_row(cell) for cell in page[SAVED].cells.values()),
    )


def _price_row(cell: Cell) -> Row:
    where = f"{cell.row}: {cell.column}"
    if cell.column == "times the price of m4.2xlarge":
        ours = Printed.exactly(_server(cell.row).usd_per_hour / _server("m4.2xlarge").usd_per_hour)
        return judged(cell.table, where, cell.printed, ours, how="one price over the other", misprints={})
    offer = next((o for o in load_offers() if o.vm_type.key == f"aws/{cell.row}"), None)
    value = _catalog_has(offer, cell.column) if offer else None
    if value is None:
        return not_recomputable(cell.table, where, cell.printed, NOT_PRINTED[cell.column])
    return judged(cell.table, where, cell.printed, Printed.exactly(value), how="the catalog's machine", misprints={})


def _catalog_has(offer: Offer, column: str) -> float | None:
    """The tables of offers were not taken from this document; the price of another day and region is another."""
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


def _recommendation_row(cell: Cell) -> Row:
    section, batch = _section_and_batch(cell)
    scenario = SCENARIOS[section]
    server = _server(scenario.server)
    if cell.column == "scala-opt":
        found, why = _scala_opt(cell)
    else:
        solve = cost_opt if cell.column == "cost-opt" else time_opt
        found = {_words(solve(server, [_worker(name) for name in scenario.workers], LIMIT))}
        extreme = "cheapest" if cell.column == "cost-opt" else "most expensive"
        why = f"the {extreme} of {', '.join(scenario.workers)}, as many as the limit of {LIMIT.workers}"
    ours = " or ".join(sorted(found))
    return Row(
        table=RECOMMENDED,
        row=f"{section}, batch {batch}: {cell.column}",
        published=cell.printed,
        ours=ours,
        verdict="equal" if ours == cell.printed else "differs",
        why=why,
    )


def _scala_opt(cell: Cell) -> tuple[set[str], str]:
    """What comes out at every combination of the ends of the ranges, and what the ranges are."""
    section, batch = _section_and_batch(cell)
    scenario = SCENARIOS[section]
    workers, winner = _printed_cluster(cell)
    ranges = bandwidths()
    found = set()
    for ends in product(*(_ends(ranges[name, batch]) for name in scenario.workers)):
        types = [_worker(name, mbps) for name, mbps in zip(scenario.workers, ends, strict=True)]
        found.add(_words(scala_opt(_server(scenario.server), types, LIMIT)))
    mine = ranges[winner, batch]
    others = "; ".join(f"{name} {ranges[name, batch].words}" for name in scenario.workers if name != winner)
    here = f"{section}, batch {batch}"
    elsewhere = [said for said in mine.said_by if said != here]
    if workers == LIMIT.workers:
        why = (
            f"the bandwidth of one worker is not printed; what {' and '.join(elsewhere)} leaves for {winner}, "
            f"{mine.words}, gives this too, with the limit of {LIMIT.workers} applied to the winner. Applied to every "
            "type before they are compared, all would have as many, and the first, c4.8xlarge, would stay"
        )
    else:
        agrees = (
            f"{' and '.join(elsewhere)} speaks of the same type and batch size and agrees"
            if elsewhere
            else "no other recommendation speaks of that type and batch size"
        )
        why = (
            f"the bandwidth of one worker is not printed, so it was read off the recommendation: it comes out where "
            f"{winner} sends {mine.words}; {agrees}"
        )
    line = on_a_line()[winner, batch]
    batches = sorted(size for name, size in ranges if name == winner)
    if len(batches) > 1:
        why += (
            f". One line through all its batch sizes ({', '.join(map(str, batches))}), as steps grow with the batch, "
            f"{'leaves ' + line.words if line.words != mine.words else 'leaves all of it'}"
        )
    return found, f"{why}. The others: {others}"


@cache
def bandwidths() -> dict[tuple[str, int], Range]:
    """By type and batch size, the common part of what all recommendations of Scala-Opt say."""
    found: dict[tuple[str, int], Range] = {}
    for cell in tables("fc2")[RECOMMENDED].cells.values():
        if cell.column == "scala-opt":
            for key, said in _said_by(cell):
                found[key] = found[key].also(said) if key in found else said
    for (name, batch), common in found.items():
        if not common.low < common.high:
            raise ValueError(f"{name} at batch {batch}: {' and '.join(common.said_by)} contradict each other")
    return found


@cache
def on_a_line() -> dict[tuple[str, int], Range]:
    """By type and batch size, what is left of b_t when all batch sizes of the type must lie on one line.

    The lines that do are a polygon of (c₀, c₁), and the extremes of c₀ + c₁·B lie at its corners. Of a type that never
    won, no range has a low end, and the polygon is open: c₀ may grow for ever, and b_t be next to nothing.
    """
    found = {}
    ranges = bandwidths()
    for name in dict.fromkeys(name for name, _ in ranges):
        of_type = {batch: range_ for (other, batch), range_ in ranges.items() if other == name}
        corners = _corners(of_type)
        if not corners:
            raise ValueError(f"no line goes through the ranges of {name}")
        closed = any(known.low for known in of_type.values())
        for batch, known in of_type.items():
            inverse = [c0 + c1 * batch for c0, c1 in corners]
            low = 1 / max(inverse) if closed else 0.0
            found[name, batch] = Range(max(known.low, low), min(known.high, 1 / min(inverse)), known.said_by)
    return found


def _corners(ranges: Mapping[int, Range]) -> list[tuple[float, float]]:
    """Of the polygon of a·c₀ + b·c₁ ≤ d."""
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


def _said_by(cell: Cell) -> Iterator[tuple[tuple[str, int], Range]]:
    """A recommendation at the limit says only that the network holds that many: types were compared above it."""
    section, batch = _section_and_batch(cell)
    scenario, where = SCENARIOS[section], f"{section}, batch {batch}"
    server = _server(scenario.server)
    workers, winner = _printed_cluster(cell)
    low, high = mbps_range_for(workers, server)
    if workers == LIMIT.workers:
        yield (winner, batch), Range(0.0, high, (where,))
        return
    yield (winner, batch), Range(low, high, (where,))
    for name in scenario.workers:
        if name != winner:
            # A dearer type was seen before and had to hold more; a cheaper one may hold as many.
            dearer = _worker(name).usd_per_hour > _worker(winner).usd_per_hour
            yield (name, batch), Range(0.0, low if dearer else high, (where,))


def _ends(found: Range) -> tuple[float, ...]:
    """A type that sends next to nothing holds any number of workers: only its high end can win."""
    return (found.low * ABOVE, found.high) if found.low else (found.high,)


def _saving_row(cell: Cell) -> Row:
    where = f"{cell.row}: {cell.column}"
    section = cell.row.split(",")[0]
    if cell.column == "time-opt slower by (%)":
        return not_recomputable(SAVED, where, cell.printed, "training times stand in figures only")
    if cell.column.startswith("scala-opt-m"):
        return _manual_row(cell, where)
    scala, dearer = _usd_an_hour(cell.row, "scala-opt"), _usd_an_hour(section, "time-opt")
    if section == "8.3":
        slower = 1 + tables("fc2")[SAVED].number(cell.row, "time-opt slower by (%)").value / 100
        ours = 100 * relative_excess(dearer * slower, scala)
        how = (
            "price × time, with the 30 % that time-opt takes longer. At equal times it is "
            f"{100 * relative_excess(dearer, scala):.1f} %, which is about what is printed: the longer time seems left out. "
            f"Read as 30 % less work in the same time it is {100 * relative_excess(dearer / (2 - slower), scala):.1f} %"
        )
    else:
        ours = 100 * relative_saving(scala, dearer)
        how = "the price an hour of the two clusters at equal training time, which the text calls similar"
    about = Printed.read(cell.printed)
    # "around 65 %", and every one of these is a multiple of five: read as rounded to five.
    if Printed(about.value, about.value - 2.5, about.value + 2.5).agrees_with(Printed.exactly(ours)):
        return _judged_saving(where, about.value, ours, how + '; the text says "around", read as to the nearest five')
    if section != "8.3":
        needed = (1 - about.value / 100) / (scala / dearer)
        how += f". The printed number needs scala-opt to take {needed:.2f} of the time, which no printed number tells"
    return _judged_saving(where, about.value, ours, how, verdict_differs=True)


def _judged_saving(where: str, published: float, ours: float, why: str, *, verdict_differs: bool = False) -> Row:
    return Row(
        table=SAVED,
        row=where,
        published=published,
        ours=float(f"{ours:.4g}"),
        verdict="differs" if verdict_differs else "equal",
        why=why,
    )


def _manual_row(cell: Cell, where: str) -> Row:
    """The number of workers is not printed; five would do it."""
    server, five = _server("m4.large"), 5 * _worker("m4.xlarge").usd_per_hour
    would = 100 * relative_saving(server.usd_per_hour + five, _usd_an_hour("8.1", "time-opt"))
    why = f"how many workers scala-opt-m took is not printed; five m4.xlarge at equal time would save {would:.1f} %"
    return not_recomputable(SAVED, where, cell.printed, why)


def _usd_an_hour(row: str, algorithm: str) -> float:
    """Of the cluster that is recommended; time-opt's is the same at every batch size."""
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
    return training_usd(cluster, AN_HOUR)


def _section_and_batch(cell: Cell) -> tuple[str, int]:
    section, _, batch = cell.row.partition(", batch ")
    return section, int(batch)


def _printed_cluster(cell: Cell) -> tuple[int, str]:
    workers, name = cell.printed.split(" × ")
    return int(workers), name


def _words(cluster: Cluster) -> str:
    return f"{cluster.workers} × {cluster.worker.name}"
