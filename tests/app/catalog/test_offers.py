import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.samples import GPUHUNT, SKYPILOT_AWS, SKYPILOT_GCP, write_skypilot
from trainfare.app.catalog.import_prices import import_prices
from trainfare.app.catalog.offers import (
    Sort,
    list_gpus,
    list_offers,
    open_catalog,
    show_gpu,
    show_machine,
)
from trainfare.errors import NotFoundError, UsageError
from trainfare.model.catalog import PriceChange
from trainfare.settings import Settings

TODAY = date(2026, 11, 16)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(machines=str(tmp_path / "machines.toml"), prices=str(tmp_path / "prices"))


def saved_files(settings: Settings) -> dict[str, bytes]:
    directory = Path(settings.prices)
    return {path.name: path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}


def test_a_list_has_one_row_a_machine_in_its_cheapest_region_ordered_by_price(settings: Settings) -> None:
    listing = list_offers(settings=settings, today=TODAY)
    keys = [row.vm_type.key for row in listing.rows]
    assert len(keys) == len(set(keys)) == listing.machines >= 140
    prices = [row.leading_usd_per_hour for row in listing.rows]
    assert prices == sorted(prices)
    p4de = next(row for row in listing.rows if row.vm_type.name == "p4de.24xlarge")
    everywhere = list_offers(settings=settings, today=TODAY, every_region=True)
    there = [row.leading_usd_per_hour for row in everywhere.rows if row.vm_type == p4de.vm_type]
    assert p4de.leading_usd_per_hour == min(there)
    assert len(everywhere.rows) == len(listing.rows) + listing.regions_hidden


def test_a_list_has_rentable_machines_and_the_past_list_the_others(settings: Settings) -> None:
    now = {row.vm_type.key for row in list_offers(settings=settings, today=TODAY).rows}
    past = {row.vm_type.key for row in list_offers(settings=settings, today=TODAY, past=True).rows}
    assert "aws/p3.2xlarge" in past - now
    assert "aws/g4dn.xlarge" in now - past
    assert "in-house/server-2" in past


def test_the_past_list_has_the_price_of_each_source(settings: Settings) -> None:
    rows = list_offers(settings=settings, today=TODAY, past=True).rows
    assert {row.source for row in rows if row.vm_type.name == "Standard_NC6"} == {
        "public price table",
        "Malta 2021, table 3.3",
        "Ardagna 2019, slides",
    }


def test_the_name_of_a_gpu_means_its_family_but_not_other_gpus_with_that_prefix(settings: Settings) -> None:
    def names(gpu: str) -> set[str]:
        rows = list_offers(settings=settings, today=TODAY, gpu=gpu).rows
        return {row.vm_type.gpu.name for row in rows if row.vm_type.gpu}

    assert names("a100") == {"A100", "A100-80GB", "A100-PCIe", "A100-80GB-PCIe"}
    assert names("A100-80GB") == {"A100-80GB", "A100-80GB-PCIe"}
    assert names("A10") == {"A10"}
    assert names("RTX 3090") == {"RTX 3090"}
    assert names("RTX 2080 Ti") == set(), "known, and not offered"


def test_spot_only_and_on_demand_only(settings: Settings) -> None:
    spot = list_offers(settings=settings, today=TODAY, spot=True).rows
    assert all(row.usd_per_hour is None and row.spot_usd_per_hour for row in spot)
    on_demand = list_offers(settings=settings, today=TODAY, spot=False).rows
    assert all(row.usd_per_hour and row.spot_usd_per_hour is None for row in on_demand)
    assert not any(row.vm_type.provider == "lambda" for row in spot)


@pytest.mark.parametrize("sort", ["price", "gpu-price", "gpu-memory", "age", "name"])
def test_every_order_shows_the_same_machines(settings: Settings, sort: Sort) -> None:
    by_price = {row.vm_type.key for row in list_offers(settings=settings, today=TODAY).rows}
    assert {row.vm_type.key for row in list_offers(settings=settings, today=TODAY, sort=sort).rows} == by_price


@pytest.mark.parametrize(
    ("filters", "near"),
    [({"provider": "awz"}, "aws"), ({"region": "us-eas-1"}, "us-east-1"), ({"gpu": "H10O"}, "H100")],
)
def test_an_unknown_filter_names_the_nearest(settings: Settings, filters: dict[str, Any], near: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        list_offers(settings=settings, **filters)
    assert caught.value.near == near


def test_an_unknown_gpu_names_the_nearest(settings: Settings) -> None:
    with pytest.raises(NotFoundError) as caught:
        show_gpu("T44", settings=settings)
    assert caught.value.near == "T4"


def test_a_machine_has_every_region_and_past_prices_last(settings: Settings) -> None:
    found = show_machine("g4dn.xlarge", today=TODAY, settings=settings)
    assert found.vm_type.key == "aws/g4dn.xlarge"
    assert len(found.rows) == 6
    past = [row.is_past(TODAY) for row in show_machine("p2.xlarge", today=TODAY, settings=settings).rows]
    assert all(past)


def test_every_fact_of_a_gpu_has_a_source(settings: Settings) -> None:
    found = show_gpu("NVIDIA A10G", settings=settings)
    assert found.gpu.name == "A10G"
    assert {fact.fact for fact in found.facts} >= {"memory_gib", "fp32_tflops", "fp16_tensor_tflops"}
    assert len(list_gpus(settings=settings)) >= 40


def test_an_import_reports_the_changes(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    imported = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    on_demand = PriceChange(machine="aws/g4dn.xlarge", region="us-east-1", market="on_demand", before=0.526, after=0.5)
    assert on_demand in imported.cheaper
    assert [change.machine for change in imported.new] == ["aws/g9.new"]
    assert "aws/g6f.large" in {change.machine for change in imported.more_expensive}
    gone = {(change.machine, change.region, change.market) for change in imported.gone}
    assert ("aws/g6e.48xlarge", "us-east-1", "spot") in gone
    assert not any(change.machine == "aws/p3.2xlarge" for change in imported.new)


def test_an_imported_price_is_the_one_that_is_listed(settings: Settings, tmp_path: Path) -> None:
    import_prices(write_skypilot(tmp_path, "aws", SKYPILOT_AWS), settings=settings, today=TODAY, seen_on=TODAY)
    rows = {row.region: row for row in show_machine("g4dn.xlarge", today=TODAY, settings=settings).rows}
    assert rows["us-east-1"].usd_per_hour == 0.5
    assert rows["us-east-1"].seen_on == TODAY
    assert rows["us-east-2"].usd_per_hour == 0.526
    assert rows["us-east-2"].spot_usd_per_hour is None
    assert rows["us-west-2"].seen_on < TODAY
    keys = [offer.key for offer in open_catalog(settings).rentable_on(TODAY)]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(("provider", "text"), [("aws", SKYPILOT_AWS), ("gcp", SKYPILOT_GCP)])
def test_importing_twice_changes_nothing(settings: Settings, tmp_path: Path, provider: str, text: str) -> None:
    path = write_skypilot(tmp_path, provider, text)
    first = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    files = saved_files(settings)
    second = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    assert (second.new, second.cheaper, second.more_expensive) == ((), (), ())
    assert second.table == first.table
    assert saved_files(settings) == files
    assert set(files) == {f"{provider}.csv"}


def test_a_dry_run_saves_nothing(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    dry = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY, dry_run=True)
    assert saved_files(settings) == {}
    wet = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    assert (dry.new, dry.cheaper, dry.more_expensive, dry.gone) == (wet.new, wet.cheaper, wet.more_expensive, wet.gone)


def test_a_table_of_several_providers_is_saved_in_a_file_each(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "catalog.csv"
    path.write_text(GPUHUNT)
    imported = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    assert set(imported.providers) == {"aws", "lambda"}
    assert set(saved_files(settings)) == {"aws.csv", "lambda.csv"}


def test_without_a_day_a_table_is_as_old_as_its_file(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    noon = datetime(2026, 10, 5, 12, tzinfo=UTC).timestamp()
    os.utime(path, (noon, noon))
    assert import_prices(path, settings=settings, today=TODAY).seen_on == date(2026, 10, 5)


def test_an_older_table_is_used_only_for_prices_without_a_newer_one(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    imported = import_prices(path, settings=settings, today=TODAY, seen_on=date(2026, 1, 1))
    assert [change.machine for change in imported.new] == ["aws/g9.new"]
    assert (imported.cheaper, imported.more_expensive) == ((), ())
    prices = {row.region: row.usd_per_hour for row in show_machine("g4dn.xlarge", today=TODAY, settings=settings).rows}
    assert prices["us-east-1"] == 0.526


def test_a_saved_table_is_not_replaced_by_an_older_one(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    files = saved_files(settings)
    with pytest.raises(UsageError, match="nothing was saved"):
        import_prices(path, settings=settings, today=TODAY, seen_on=date(2026, 11, 1))
    assert saved_files(settings) == files


def test_a_table_from_the_future_or_without_a_price_is_refused(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    with pytest.raises(UsageError, match="in the future"):
        import_prices(path, settings=settings, today=TODAY, seen_on=date(2026, 11, 17))
    header, *rows = SKYPILOT_AWS.splitlines()
    free = next(row for row in rows if row.startswith("g5.xlarge"))
    empty = write_skypilot(tmp_path, "aws", f"{header}\n{free}\n")
    with pytest.raises(UsageError, match="no machine with a price in 1 row:"):
        import_prices(empty, settings=settings, today=TODAY, seen_on=TODAY)
    assert saved_files(settings) == {}
