"""The traces of zones: consistent with the pooled rates, and used for their region."""

from pathlib import Path

import pytest

from tests.makers import make_gpu, make_vm_type
from trainfare.catalog.gpu_facts import bundled_rows
from trainfare.catalog.spot_zones import find_spot_market, load_zone_traces
from trainfare.catalog.terms import find_interruptions
from trainfare.model.spot import pool_histories

V100 = make_vm_type(name="p3.2xlarge", gpu=make_gpu(name="V100"))


@pytest.mark.parametrize("row", list(bundled_rows("interruptions.csv")), ids=lambda row: f"{row['gpus']}_{row['gpu']}")
def test_the_zones_add_up_to_the_pooled_rate(row: dict[str, str]) -> None:
    key = (row["provider"], row["gpu"], int(row["gpus"]))
    histories = [trace.history for trace in load_zone_traces() if trace.key == key]
    assert len(histories) == int(row["zones"])
    losses, hours = sum(sum(h.losses) for h in histories), sum(sum(h.up_hours) for h in histories)
    assert losses / hours == pytest.approx(float(row["per_hour"]), abs=6e-4)


def test_the_rate_of_loss_falls_with_age() -> None:
    for vm_type in (V100, make_vm_type(gpu=make_gpu(name="H100"), gpus=8)):
        rates = find_spot_market(vm_type).pooled.lost_per_hour
        assert list(rates) == sorted(rates, reverse=True)


def test_a_region_that_was_traced_has_its_own_rates() -> None:
    west, east, elsewhere = (find_spot_market(V100, region) for region in ("us-west-2", "us-east-1", "eu-west-1"))
    assert "of us-west-2" in west.source
    assert west.pooled.share > 0.8 > 0.5 > east.pooled.share
    assert elsewhere == find_spot_market(V100)
    assert west.pooled.share > elsewhere.pooled.share > east.pooled.share
    assert len(elsewhere.zones) > 2


def test_interruptions_are_those_of_the_region_too() -> None:
    west, east, pooled = (find_interruptions(V100, region) for region in ("us-west-2", "us-east-1", None))
    assert west.per_hour.value < pooled.per_hour.value < east.per_hour.value
    assert west.per_hour.low < west.per_hour.value < west.per_hour.high
    assert find_interruptions(V100, "eu-west-1") == pooled


def test_a_machine_without_traces_uses_those_of_machines_of_its_size() -> None:
    one, eight = (find_spot_market(make_vm_type(gpu=make_gpu(name="H100"), gpus=gpus)) for gpus in (1, 8))
    assert "assumption" in one.source
    assert "8 GPUs" in eight.source
    assert eight.pooled.stay_hours < one.pooled.stay_hours


def test_the_manual_prints_the_rates_that_are_shipped() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spot.md").read_text(encoding="utf-8")
    for provider, gpu, gpus, region in {(*zone.key, zone.region) for zone in load_zone_traces()}:
        own = [z.history for z in load_zone_traces() if z.key == (provider, gpu, gpus) and z.region == region]
        found = pool_histories(own, region).availability()
        row = next(line for line in page.splitlines() if line.startswith(f"| {gpus} × {gpu}, {region} |"))
        cells = [cell.strip() for cell in row.strip("| ").split("|")]
        assert cells[1:] == [
            str(len({history.zone for history in own})),
            ", ".join(f"{rate:.2f}" for rate in found.lost_per_hour),
            ", ".join(f"{rate:.2f}" for rate in found.return_per_hour),
            f"{found.stay_hours:.1f} h",
            f"{found.wait_hours:.1f} h",
            f"{100 * found.share:.0f}%",
        ]
