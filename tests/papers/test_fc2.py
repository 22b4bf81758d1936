"""FC2's recommendations follow from the algorithms, with inferred bandwidths."""

import pytest

from trainfare.model.cluster import Server, Worker
from trainfare.papers.fc2 import LIMIT, bandwidths, ranges_on_a_line, rows
from trainfare.papers.published import tables
from trainfare.papers.row import Row
from trainfare.recommender.clusters.fc2 import scala_opt

ROWS = {(row.table, row.row): row for row in rows()}


def of(table: str) -> list[Row]:
    return [row for (name, _), row in ROWS.items() if name == table]


def test_every_printed_cell_is_a_row() -> None:
    assert len(ROWS) == len(rows()) == sum(len(table.cells) for table in tables("fc2").values())


def test_the_fifteen_recommendations_are_reproduced() -> None:
    assert len(of("fc2-recommendations")) == 15
    assert {row.verdict for row in of("fc2-recommendations")} == {"equal"}


def test_inferred_bandwidths_are_marked() -> None:
    inferred = [row for row in of("fc2-recommendations") if "inferred from the recommendation" in row.why]
    assert len(inferred) == 7


def test_ranges_of_one_type_and_batch_size_overlap() -> None:
    ranges = bandwidths()
    assert all(found.low < found.high for found in ranges.values())
    p2 = ranges["p2.xlarge", 128]
    assert [p2.low, p2.high] == pytest.approx([142.5, 213.75])
    assert p2.sources == ("8.2, batch 128", "8.3, batch 128")


def test_a_line_in_the_batch_size_passes_through_all_ranges_of_each_type() -> None:
    """p2.xlarge has three ranges, each below the other: two coefficients need not fit them."""
    lines = ranges_on_a_line()
    assert lines.keys() == bandwidths().keys()
    for key, found in lines.items():
        assert bandwidths()[key].low <= found.low < found.high <= bandwidths()[key].high
    assert lines["p2.xlarge", 512].low > 0


def test_the_line_narrows_the_range_of_p2_xlarge() -> None:
    """By hand: the slowest at 128 and 1280 and the fastest at 512 are not on a growing line."""
    found = ranges_on_a_line()["p2.xlarge", 512]
    slow, slower = bandwidths()["p2.xlarge", 128].low, bandwidths()["p2.xlarge", 1280].low
    steepest = 1 / slow + (1 / slower - 1 / slow) * (512 - 128) / (1280 - 128)
    assert found.low >= 1 / steepest * (1 - 1e-9)


def test_no_single_bandwidth_fits_every_batch_size() -> None:
    small, large = bandwidths()["t2.xlarge", 64], bandwidths()["t2.xlarge", 128]
    assert large.high <= small.low


def test_a_bandwidth_outside_its_range_does_not_give_the_recommendation() -> None:
    server = Server(name="m4.large", usd_per_hour=0.125, mbps=450)
    found = bandwidths()["t2.xlarge", 64]
    for mbps in (found.low * 0.99, found.high * 1.01):
        assert scala_opt(server, [Worker(name="t2.xlarge", usd_per_hour=0.2336, mbps=mbps)], LIMIT).workers != 2


def test_faster_gpus_send_more_and_larger_batches_less() -> None:
    """Statements of the text that were not used to find the ranges."""
    ranges = bandwidths()
    assert ranges["p2.xlarge", 1280].high <= ranges["p2.xlarge", 512].low <= ranges["p2.xlarge", 128].low
    assert ranges["g3.4xlarge", 128].low > ranges["p2.xlarge", 128].high


def test_savings_that_do_not_follow_differ_and_name_what_they_require() -> None:
    row = ROWS["fc2-savings", "8.2, batch 128: scala-opt under time-opt (%)"]
    assert (row.published, row.ours, row.verdict) == (80.0, 65.87, "differs")
    assert "0.59 of the time" in row.why
    assert ROWS["fc2-savings", "8.1, batch 64: scala-opt under time-opt (%)"].verdict == "equal"


def test_prices_are_inputs() -> None:
    assert ROWS["fc2-2", "p2.xlarge: $/h"].verdict == "not-recomputable"
    assert ROWS["fc2-2", "p2.xlarge: memory (GiB)"].ours == 61
