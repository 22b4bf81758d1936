import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.samples import GPUHUNT, SKYPILOT_AWS, SKYPILOT_GCP, write_skypilot
from trainfare.app.catalog.offers import (
    Change,
    Sort,
    import_prices,
    list_gpus,
    list_offers,
    open_catalog,
    show_gpu,
    show_machine,
)
from trainfare.errors import NotFoundError, UsageError
from trainfare.settings import Settings

TODAY = date(2026, 11, 16)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(machines=str(tmp_path / "machines.toml"), prices=str(tmp_path / "prices"))


def kept_files(settings: Settings) -> dict[str, bytes]:
    directory = Path(settings.prices)
    return {path.name: path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}


def test_a_list_has_one_line_a_machine_in_its_cheapest_region_by_price(settings: Settings) -> None:
    listing = list_offers(settings=settings, today=TODAY)
    keys = [line.vm_type.key for line in listing.lines]
    assert len(keys) == len(set(keys)) == listing.machines >= 140
    prices = [line.leading_usd_per_hour for line in listing.lines]
    assert prices == sorted(prices)
    p4de = next(line for line in listing.lines if line.vm_type.name == "p4de.24xlarge")
    everywhere = list_offers(settings=settings, today=TODAY, every_region=True)
    there = [line.leading_usd_per_hour for line in everywhere.lines if line.vm_type == p4de.vm_type]
    assert p4de.leading_usd_per_hour == min(there)
    assert len(everywhere.lines) == len(listing.lines) + listing.regions_hidden


def test_a_list_shows_only_what_can_be_rented_and_history_only_what_cannot(settings: Settings) -> None:
    now = {line.vm_type.key for line in list_offers(settings=settings, today=TODAY).lines}
    past = {line.vm_type.key for line in list_offers(settings=settings, today=TODAY, past=True).lines}
    assert "aws/p3.2xlarge" in past - now
    assert "aws/g4dn.xlarge" in now - past
    assert "in-house/server-2" in past


def test_history_keeps_the_prices_of_each_document_apart(settings: Settings) -> None:
    lines = list_offers(settings=settings, today=TODAY, past=True).lines
    assert {line.source for line in lines if line.vm_type.name == "Standard_NC6"} == {
        "public price table",
        "Malta 2021, table 3.3",
        "Ardagna 2019, slides",
    }


def test_a_gpu_means_its_whole_family_but_not_its_namesakes(settings: Settings) -> None:
    def names(gpu: str) -> set[str]:
        lines = list_offers(settings=settings, today=TODAY, gpu=gpu).lines
        return {line.vm_type.gpu.name for line in lines if line.vm_type.gpu}

    assert names("a100") == {"A100", "A100-80GB", "A100-PCIe", "A100-80GB-PCIe"}
    assert names("A100-80GB") == {"A100-80GB", "A100-80GB-PCIe"}
    assert names("A10") == {"A10"}
    assert names("RTX 3090") == set()


def test_spot_only_and_on_demand_only(settings: Settings) -> None:
    spot = list_offers(settings=settings, today=TODAY, spot=True).lines
    assert all(line.usd_per_hour is None and line.spot_usd_per_hour for line in spot)
    on_demand = list_offers(settings=settings, today=TODAY, spot=False).lines
    assert all(line.usd_per_hour and line.spot_usd_per_hour is None for line in on_demand)
    assert not any(line.vm_type.provider == "lambda" for line in spot)


@pytest.mark.parametrize("sort", ["price", "gpu-price", "gpu-memory", "age", "name"])
def test_every_order_shows_the_same_machines(settings: Settings, sort: Sort) -> None:
    by_price = {line.vm_type.key for line in list_offers(settings=settings, today=TODAY).lines}
    assert {line.vm_type.key for line in list_offers(settings=settings, today=TODAY, sort=sort).lines} == by_price


@pytest.mark.parametrize(
    ("asked", "near"),
    [({"provider": "awz"}, "aws"), ({"region": "us-eas-1"}, "us-east-1"), ({"gpu": "H10O"}, "H100")],
)
def test_what_is_asked_for_and_unknown_has_a_near_match(settings: Settings, asked: dict[str, Any], near: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        list_offers(settings=settings, **asked)
    assert caught.value.near == near


def test_an_unknown_gpu_has_a_near_match(settings: Settings) -> None:
    with pytest.raises(NotFoundError) as caught:
        show_gpu("T44", settings=settings)
    assert caught.value.near == "T4"


def test_a_machine_shows_every_region_and_the_past_last(settings: Settings) -> None:
    found = show_machine("g4dn.xlarge", today=TODAY, settings=settings)
    assert found.vm_type.key == "aws/g4dn.xlarge"
    assert len(found.lines) == 6
    past = [line.is_past(TODAY) for line in show_machine("p2.xlarge", today=TODAY, settings=settings).lines]
    assert all(past)


def test_every_figure_of_a_gpu_has_a_source(settings: Settings) -> None:
    found = show_gpu("NVIDIA A10G", settings=settings)
    assert found.gpu.name == "A10G"
    assert {figure.fact for figure in found.figures} >= {"memory_gib", "fp32_tflops", "fp16_tensor_tflops"}
    assert len(list_gpus(settings=settings)) >= 40


def test_an_import_shows_what_changed(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    imported = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    on_demand = Change(machine="aws/g4dn.xlarge", region="us-east-1", market="on_demand", before=0.526, after=0.5)
    assert on_demand in imported.cheaper
    assert [change.machine for change in imported.new] == ["aws/g9.new"]
    assert "aws/g6f.large" in {change.machine for change in imported.dearer}
    gone = {(change.machine, change.region, change.market) for change in imported.gone}
    assert ("aws/g6e.48xlarge", "us-east-1", "spot") in gone
    assert not any(change.machine == "aws/p3.2xlarge" for change in imported.new)


def test_an_imported_price_is_the_one_that_is_listed(settings: Settings, tmp_path: Path) -> None:
    import_prices(write_skypilot(tmp_path, "aws", SKYPILOT_AWS), settings=settings, today=TODAY, seen_on=TODAY)
    lines = {line.region: line for line in show_machine("g4dn.xlarge", today=TODAY, settings=settings).lines}
    assert lines["us-east-1"].usd_per_hour == 0.5
    assert lines["us-east-1"].seen_on == TODAY
    assert lines["us-east-2"].usd_per_hour == 0.526
    assert lines["us-east-2"].spot_usd_per_hour is None
    assert lines["us-west-2"].seen_on < TODAY
    keys = [offer.key for offer in open_catalog(settings).rentable_on(TODAY)]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(("provider", "text"), [("aws", SKYPILOT_AWS), ("gcp", SKYPILOT_GCP)])
def test_importing_twice_changes_nothing(settings: Settings, tmp_path: Path, provider: str, text: str) -> None:
    path = write_skypilot(tmp_path, provider, text)
    first = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    files = kept_files(settings)
    second = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    assert (second.new, second.cheaper, second.dearer) == ((), (), ())
    assert second.reading == first.reading
    assert kept_files(settings) == files
    assert set(files) == {f"{provider}.csv"}


def test_a_dry_run_keeps_nothing(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    dry = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY, dry_run=True)
    assert kept_files(settings) == {}
    wet = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    assert (dry.new, dry.cheaper, dry.dearer, dry.gone) == (wet.new, wet.cheaper, wet.dearer, wet.gone)


def test_a_table_of_several_providers_is_kept_provider_by_provider(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "catalog.csv"
    path.write_text(GPUHUNT)
    imported = import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    assert set(imported.providers) == {"aws", "lambda"}
    assert set(kept_files(settings)) == {"aws.csv", "lambda.csv"}


def test_a_table_is_as_old_as_its_file_where_nothing_is_said(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    noon = datetime(2026, 10, 5, 12, tzinfo=UTC).timestamp()
    os.utime(path, (noon, noon))
    assert import_prices(path, settings=settings, today=TODAY).seen_on == date(2026, 10, 5)


def test_an_older_table_is_used_only_where_nothing_newer_is_known(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    imported = import_prices(path, settings=settings, today=TODAY, seen_on=date(2026, 1, 1))
    assert [change.machine for change in imported.new] == ["aws/g9.new"]
    assert (imported.cheaper, imported.dearer) == ((), ())
    prices = {
        line.region: line.usd_per_hour for line in show_machine("g4dn.xlarge", today=TODAY, settings=settings).lines
    }
    assert prices["us-east-1"] == 0.526


def test_a_kept_table_does_not_give_way_to_an_older_one(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    import_prices(path, settings=settings, today=TODAY, seen_on=TODAY)
    files = kept_files(settings)
    with pytest.raises(UsageError, match="nothing kept"):
        import_prices(path, settings=settings, today=TODAY, seen_on=date(2026, 11, 1))
    assert kept_files(settings) == files


def test_a_table_from_the_future_or_without_a_price_is_refused(settings: Settings, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    with pytest.raises(UsageError, match="still to come"):
        import_prices(path, settings=settings, today=TODAY, seen_on=date(2026, 11, 17))
    empty = write_skypilot(tmp_path, "aws", "\n".join(SKYPILOT_AWS.splitlines()[:2]))
    with pytest.raises(UsageError, match="no GPU machine with a price in its 1 row"):
        import_prices(empty, settings=settings, today=TODAY, seen_on=TODAY)
    assert kept_files(settings) == {}
