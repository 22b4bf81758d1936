"""`catalog update`: newer prices of every provider in one call; what is wrong is refused and changes nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from tests.catalog.published_server import AWS, GCP, HEADER, TABLES, PublishedCatalog, archive, publishing
from tests.catalog.samples import SKYPILOT_AWS, write_skypilot
from trainfare.app.catalog.import_prices import import_prices
from trainfare.app.catalog.offers import open_catalog, show_machine
from trainfare.app.catalog.update_prices import update_prices
from trainfare.errors import ExternalError, NotFoundError, UsageError
from trainfare.model.catalog import OfferRow, PriceUpdate, UpdatedTable
from trainfare.settings import Settings

TODAY = date(2026, 11, 16)
SEEN = date(2026, 11, 15)

pytestmark = pytest.mark.loopback


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[PublishedCatalog]:
    with publishing() as catalog:
        yield catalog


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(machines=str(tmp_path / "machines.toml"), prices=str(tmp_path / "prices"))


def saved_files(settings: Settings) -> dict[str, str]:
    return {path.name: path.read_text() for path in Path(settings.prices).glob("*")}


def update(server: PublishedCatalog, settings: Settings, *providers: str, dry_run: bool = False) -> PriceUpdate:
    return update_prices(
        source=server.url, providers=providers, today=TODAY, settings=settings, timeout_seconds=5, dry_run=dry_run
    )


def prices(machine: str, settings: Settings) -> dict[str, OfferRow]:
    return {row.region: row for row in show_machine(machine, today=TODAY, settings=settings).rows}


def test_one_call_renews_every_provider_and_reports_each(server: PublishedCatalog, settings: Settings) -> None:
    seen: list[str] = []
    done = update_prices(
        source=server.url, today=TODAY, settings=settings, progress=lambda outcome: seen.append(outcome.name)
    )
    assert [table.name for table in done.updated] == ["aws", "gcp", "lambda", "nebius", "runpod"]
    assert [failure.name for failure in done.failed] == ["azure", "oci", "verda"]
    assert all("404" in failure.problem for failure in done.failed)
    assert sorted(seen) == sorted([*(t.name for t in done.updated), *(f.name for f in done.failed)])
    assert {table.version for table in done.updated} == {"20261115-7"}
    assert set(saved_files(settings)) == {"aws.csv", "gcp.csv", "lambda.csv", "nebius.csv", "runpod.csv"}
    row = prices("aws/g4dn.xlarge", settings)["us-east-1"]
    assert (row.usd_per_hour, row.spot_usd_per_hour, row.seen_on) == (0.5, 0.2, SEEN)


def test_machines_without_a_gpu_are_renewed_where_the_catalog_has_them(
    server: PublishedCatalog, settings: Settings
) -> None:
    before = prices("aws/c7a.large", settings)
    assert before["us-east-1"].vm_type.cpu is not None
    update(server, settings, "aws", "gcp")
    row = prices("aws/c7a.large", settings)["us-east-1"]
    assert (row.usd_per_hour, row.spot_usd_per_hour, row.seen_on) == (0.09, 0.03, SEEN)
    assert row.vm_type == before["us-east-1"].vm_type
    assert set(prices("aws/c7a.large", settings)) == set(before)
    assert prices("gcp/n2-standard-8", settings)["us-central1"].usd_per_hour == 0.4
    with pytest.raises(NotFoundError):
        show_machine("aws/z1d.large", today=TODAY, settings=settings)


def test_names_of_the_published_catalog_are_those_of_the_bundled_one(
    server: PublishedCatalog, settings: Settings
) -> None:
    bundled = {offer.vm_type.key for offer in open_catalog(settings).offers}
    done = update(server, settings, "gcp", "runpod", "nebius", "lambda")
    machines = {offer.vm_type.key for table in done.updated for offer in table.imported.table.offers}
    assert machines == {
        "gcp/n1-standard-8+1xT4",
        "gcp/a2-highgpu-1g",
        "gcp/n2-standard-8",
        "runpod/1x_A100-80GB_SECURE",
        "runpod/2x_A100-80GB-SXM_SECURE",
        "runpod/1x_MI300X_SECURE",
        "nebius/gpu-h100-sxm_8gpu-128vcpu-1600gb",
        "lambda/gpu_1x_a10",
    }
    assert machines <= bundled
    assert prices("gcp/n1-standard-8+1xT4", settings)["us-central1"].usd_per_hour == 0.7, "the cheaper zone"
    assert prices("gcp/a2-highgpu-1g", settings)["us-central1"].usd_per_hour == 3.5, "not the calendar mode"
    row = prices("runpod/1x_A100-80GB_SECURE", settings)["any"]
    assert row.usd_per_hour == 1.45, "the cheapest data centre, no host of the community"
    assert row.vm_type.gpu is not None
    assert row.vm_type.gpu.name == "A100-80GB-PCIe"


def test_a_second_update_changes_nothing(server: PublishedCatalog, settings: Settings) -> None:
    update(server, settings)
    files = saved_files(settings)
    again = update(server, settings)
    assert saved_files(settings) == files
    for table in again.updated:
        imported = table.imported
        assert (imported.new, imported.cheaper, imported.more_expensive) == ((), (), ())


def test_a_dry_run_saves_nothing(server: PublishedCatalog, settings: Settings) -> None:
    done = update(server, settings, dry_run=True)
    assert saved_files(settings) == {}
    assert done.updated[0].imported.cheaper


def test_an_older_catalog_does_not_replace_a_newer_one(server: PublishedCatalog, settings: Settings) -> None:
    update(server, settings, "aws")
    files = saved_files(settings)
    server.publish("aws", AWS, version="20260901-1")
    with pytest.raises(ExternalError, match="later than these"):
        update(server, settings, "aws")
    assert saved_files(settings) == files


def test_tables_and_machines_of_the_user_stay(server: PublishedCatalog, settings: Settings, tmp_path: Path) -> None:
    Path(settings.machines).write_text('[bench]\nusd_per_hour = 0.35\ngpu = "RTX 3090"\n')
    mine = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    import_prices(mine, settings=settings, today=TODAY, seen_on=date(2026, 11, 1))
    update(server, settings, "aws")
    assert prices("aws/g9.new", settings)["us-east-1"].usd_per_hour == 0.9, "only in the imported table"
    assert prices("aws/g4dn.xlarge", settings)["us-east-1"].usd_per_hour == 0.5, "newer"
    assert prices("own/bench", settings)["here"].usd_per_hour == 0.35


def scaled(table: str, factor: float) -> str:
    lines = [line.split(",") for line in table.splitlines()[1:]]
    return "\n".join([HEADER, *(",".join([*c[:2], f"{float(c[2]) * factor:g}", *c[3:]]) for c in lines)])


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (HEADER + "\n", "no machine with a price in 0 rows"),
        ("", "it is empty"),
        ("<html>sign in</html>", "neither a table of SkyPilot"),
        (AWS.replace("0.", "0.0").replace(",1.1,", ",0,").replace(",20.0,", ",0,"), "changed by more than a factor"),
        (scaled(AWS, 100), "changed by more than a factor of 10"),
        (scaled(AWS, 0.01), "changed by more than a factor of 10"),
    ],
)
def test_an_absurd_table_is_refused_and_others_are_saved(
    server: PublishedCatalog, settings: Settings, table: str, problem: str
) -> None:
    server.publish("aws", table)
    done = update(server, settings, "aws", "lambda")
    assert [failure.name for failure in done.failed] == ["aws"]
    assert problem in done.failed[0].problem
    assert set(saved_files(settings)) == {"lambda.csv"}


def test_a_few_prices_that_moved_far_are_accepted(server: PublishedCatalog, settings: Settings) -> None:
    server.publish("aws", AWS.replace("20.0", "0.9"))
    assert update(server, settings, "aws").updated


def test_a_table_that_lost_most_machines_is_refused(server: PublishedCatalog, settings: Settings) -> None:
    many = [f"g4dn.{n}xlarge,us-east-1,{n}.5,4,16.0,1,T4,16.0,False,,nvidia,,x86,{{}}" for n in range(30, 50)]
    server.publish("aws", AWS + "\n".join(many))
    update(server, settings, "aws")
    files = saved_files(settings)
    server.publish("aws", AWS, version="20261116-1")
    with pytest.raises(ExternalError, match="has 4 machines where the last one had 24"):
        update(server, settings, "aws")
    assert saved_files(settings) == files


@pytest.mark.parametrize("damage", ["truncated", "checksum", "no archive", "other member", "version"])
def test_a_damaged_archive_is_refused(server: PublishedCatalog, settings: Settings, damage: str) -> None:
    path = "/v3/aws/20261115-7/catalog.zip"
    whole = server.files[path]
    server.files |= {
        "truncated": {path: whole[: len(whole) // 2]},
        "checksum": {path: whole[:60] + bytes([whole[60] ^ 255]) + whole[61:]},
        "no archive": {path: b"<html>sign in</html>"},
        "other member": {path: archive({"gcp.csv": GCP})},
        "version": {"/v3/aws/version": b"<html>sign in</html>"},
    }[damage]
    with pytest.raises(ExternalError, match="no price was renewed"):
        update(server, settings, "aws")
    assert saved_files(settings) == {}


def test_a_server_that_is_not_there_is_one_error_and_changes_nothing(settings: Settings) -> None:
    with publishing() as gone:
        pass
    started = time.monotonic()
    with pytest.raises(ExternalError, match=r"cannot be reached.*The prices stay as they were") as caught:
        update(gone, settings)
    assert time.monotonic() - started < 5, "the other providers are not tried"
    assert "source='aws.csv'" in str(caught.value)
    assert saved_files(settings) == {}


def test_an_unknown_provider_names_the_nearest(server: PublishedCatalog, settings: Settings) -> None:
    with pytest.raises(NotFoundError) as caught:
        update(server, settings, "lamda")
    assert (caught.value.near, caught.value.field) == ("lambda", "providers")
    assert server.requested == []


def test_a_single_table_an_archive_and_a_folder_are_sources_too(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "aws.csv").write_text(AWS)
    (tmp_path / "in" / "lambdalabs.csv").write_text(TABLES["lambdalabs"])
    (tmp_path / "catalog.zip").write_bytes(archive({"aws.csv": AWS, "lambdalabs.csv": TABLES["lambdalabs"]}))
    for source in ("in", "catalog.zip", "in/aws.csv"):
        done = update_prices(source=str(tmp_path / source), seen_on=SEEN, today=TODAY, settings=settings)
        assert {p for table in done.updated for p in table.imported.providers} == (
            {"aws"} if source.endswith("csv") else {"aws", "lambda"}
        )
        assert {table.imported.seen_on for table in done.updated} == {SEEN}
    with pytest.raises(UsageError, match="cannot be read"):
        update_prices(source=str(tmp_path / "nothing.csv"), today=TODAY, settings=settings)


def test_a_table_on_a_server_is_dated_by_its_address_or_by_the_server(
    server: PublishedCatalog, settings: Settings
) -> None:
    server.files |= {
        "/v2/20261110-3/catalog.zip": archive({"aws.csv": AWS}),
        "/lambda.csv": TABLES["lambdalabs"].encode(),
    }
    server.headers["/lambda.csv"] = {"Last-Modified": "Thu, 12 Nov 2026 08:00:00 GMT"}
    base = server.url.removesuffix("/v3")
    for address, day in (("/v2/20261110-3/catalog.zip", date(2026, 11, 10)), ("/lambda.csv", date(2026, 11, 12))):
        (table,) = update_prices(source=base + address, today=TODAY, settings=settings).updated
        assert table.imported.seen_on == day


def test_a_version_of_tomorrow_is_refused(server: PublishedCatalog, settings: Settings) -> None:
    server.publish("aws", AWS, version="20261201-1")
    with pytest.raises(ExternalError, match="in the future"):
        update(server, settings, "aws")


def test_a_killed_update_leaves_the_old_prices(server: PublishedCatalog, settings: Settings, tmp_path: Path) -> None:
    update(server, settings, "aws")
    files = saved_files(settings)
    server.publish("aws", AWS.replace("0.5,", "0.4,"), version="20261116-1")
    stalled = "/v3/aws/20261116-1/catalog.zip"
    server.stalled.add(stalled)
    start = "from trainfare.cli.main import run; run()"
    command = [sys.executable, "-c", start, "catalog", "update", "--from", server.url, "--provider", "aws"]
    environment = os.environ | {"TRAINFARE_PRICES": settings.prices, "TRAINFARE_MACHINES": settings.machines}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 600
        while stalled not in server.requested and time.monotonic() < deadline:
            time.sleep(0.02)
        assert stalled in server.requested
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert saved_files(settings) == files
    assert prices("aws/g4dn.xlarge", settings)["us-east-1"].usd_per_hour == 0.5


def test_what_was_received_can_be_checked(server: PublishedCatalog, settings: Settings) -> None:
    (table,) = update(server, settings, "lambda").updated
    assert isinstance(table, UpdatedTable)
    assert len(table.sha256) == 64
    assert (table.imported.table.rows, len(table.imported.table.offers)) == (1, 1)
