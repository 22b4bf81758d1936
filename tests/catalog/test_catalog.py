import time
from datetime import date
from pathlib import Path

import pytest

from tests.makers import make_offer, make_vm_type
from trainfare.catalog import gpu_boards
from trainfare.catalog.bundled import load_historical_offers, load_offers
from trainfare.catalog.catalog import Catalog, load_catalog, merge_newest
from trainfare.catalog.cpu_facts import cpu_of_machine, load_cpus
from trainfare.catalog.gpu_boards import find_board, gpu_from_device_name
from trainfare.catalog.gpu_facts import load_gpu_facts, load_gpus
from trainfare.errors import NotFoundError, UsageError

TODAY = date(2026, 11, 16)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return load_catalog(tmp_path / "machines.toml", tmp_path / "prices")


def test_a_machine_is_found_with_and_without_its_provider(catalog: Catalog) -> None:
    assert catalog.find("aws/g4dn.xlarge") == catalog.find("g4dn.xlarge") == catalog.find("G4DN.xlarge")
    assert {offer.market for offer in catalog.find("g4dn.xlarge")} == {"on_demand", "spot"}


def test_an_unknown_machine_names_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(NotFoundError, match=r"no machine g4dn\.xlrge\. Did you mean g4dn\.xlarge\?"):
        catalog.find("g4dn.xlrge")
    with pytest.raises(NotFoundError, match=r"Did you mean aws/p3\.2xlarge\?"):
        catalog.find("aws/p3.2xlage")


def test_a_name_that_two_providers_use_needs_its_provider() -> None:
    offers = tuple(make_offer(vm_type=make_vm_type(provider=p, name="box")) for p in ("aws", "own"))
    catalog = Catalog(offers=offers, gpus={})
    with pytest.raises(UsageError, match="Write aws/box or own/box"):
        catalog.find("box")
    assert catalog.find("own/box") == (offers[1],)


def test_retired_machines_and_prices_of_papers_cannot_be_rented(catalog: Catalog) -> None:
    rentable = {offer.vm_type.name for offer in catalog.rentable_on(TODAY)}
    assert "g4dn.xlarge" in rentable
    assert not rentable & {"p2.xlarge", "p3.2xlarge", "t2.xlarge", "Standard_NC6"}
    assert catalog.find("p2.xlarge")


def test_the_users_machines_are_in_the_catalog(tmp_path: Path) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text('[bench]\nusd_per_hour = 0.35\ngpu = "RTX 3090"\n')
    catalog = load_catalog(machines, tmp_path / "prices")
    assert catalog.find("bench")[0] in catalog.rentable_on(TODAY)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("Tesla T4", "T4"),
        ("NVIDIA A10G", "A10G"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("GeForce RTX 3090", "RTX 3090"),
        ("rtx3090", "RTX 3090"),
        ("a100 80gb", "A100-80GB"),
    ],
)
def test_a_gpu_is_found_by_its_name_and_by_the_names_of_drivers(catalog: Catalog, alias: str, name: str) -> None:
    assert catalog.find_gpu(alias) == catalog.gpus[name]


def test_an_unknown_gpu_is_none(catalog: Catalog) -> None:
    assert catalog.find_gpu("Voodoo 2") is None
    assert gpu_from_device_name("Voodoo 2") is None
    assert find_board(provider="aws", machine="x", accelerator="Voodoo 2") is None


def test_a_newer_price_replaces_the_older_one() -> None:
    old = make_offer(seen_on=date(2026, 8, 22))
    new = make_offer(seen_on=date(2026, 11, 1), usd_per_hour=0.4, source="a newer table")
    assert merge_newest([old], [new]) == (new,)


def test_an_older_table_does_not_replace_a_newer_price() -> None:
    new = make_offer(seen_on=date(2026, 8, 22))
    old = make_offer(seen_on=date(2025, 1, 1), usd_per_hour=0.4, source="an older table")
    assert merge_newest([new], [old]) == (new,)


def test_on_the_same_day_the_imported_table_decides() -> None:
    bundled, imported = make_offer(), make_offer(usd_per_hour=0.4, source="imported")
    assert merge_newest([bundled], [imported]) == (imported,)


def test_a_newer_table_without_a_spot_price_removes_it_in_that_region_only() -> None:
    spot = make_offer(market="spot", usd_per_hour=0.2)
    elsewhere = make_offer(market="spot", usd_per_hour=0.2, region="us-west-2")
    new = make_offer(seen_on=date(2026, 11, 1), source="a newer table")
    assert set(merge_newest([make_offer(), spot, elsewhere], [new])) == {new, elsewhere}


def test_a_retired_machine_stays_retired_even_if_a_table_lists_it() -> None:
    retired = make_offer(retired_on=date(2025, 12, 20))
    listed = make_offer(seen_on=date(2026, 11, 1), source="a newer table")
    (offer,) = merge_newest([retired], [listed])
    assert offer.source == "a newer table"
    assert not offer.rentable_on(TODAY)


def test_loading_is_quick(tmp_path: Path) -> None:
    caches = (
        *(load_offers, load_historical_offers, load_gpus, load_gpu_facts, gpu_boards._board_rows),
        *(load_cpus, cpu_of_machine),
    )
    for cached in caches:
        cached.cache_clear()
    started = time.process_time()
    load_catalog(tmp_path / "machines.toml", tmp_path / "prices")
    # Measured: 30 ms. The rest is for a busy machine.
    assert time.process_time() - started < 0.2
