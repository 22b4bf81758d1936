from datetime import date
from pathlib import Path

import pytest

from tests.catalog.samples import GPUHUNT, SKYPILOT_AWS, SKYPILOT_GCP, write_skypilot
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.catalog.imports import read_price_table
from trainfare.errors import UsageError
from trainfare.model.catalog import ImportedTable, TableFormat
from trainfare.model.offer import Offer

PROVIDERS = ("aws", "azure", "gcp", "lambda")
DAY = date(2026, 11, 1)


def read(path: Path, provider: str | None = None, format_: TableFormat | None = None) -> ImportedTable:
    return read_price_table(
        path, gpus=load_gpus(), known_providers=PROVIDERS, seen_on=DAY, provider=provider, format_=format_
    )[1]


def prices_of(table: ImportedTable) -> dict[tuple[str, str, str], float]:
    return {offer.key: offer.usd_per_hour for offer in table.offers}


def find_offer(table: ImportedTable, machine: str) -> Offer:
    return next(offer for offer in table.offers if offer.vm_type.name == machine)


def test_skypilot_gives_the_cheapest_zone_of_a_region(tmp_path: Path) -> None:
    prices = prices_of(read(write_skypilot(tmp_path, "aws", SKYPILOT_AWS)))
    assert prices["aws/g4dn.xlarge", "us-east-1", "on_demand"] == 0.5
    assert prices["aws/g4dn.xlarge", "us-east-1", "spot"] == 0.2


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    table = read(write_skypilot(tmp_path, "aws", SKYPILOT_AWS))
    assert table.rows == 13
    assert table.without_gpu == 1
    assert table.without_price == 4
    assert dict(table.unknown_gpus) == {"Gaudi HL-205": 1}
    assert all(offer.usd_per_hour > 0 for offer in table.offers)


def test_a_share_of_a_gpu_is_that_of_the_bundled_table(tmp_path: Path) -> None:
    vm_type = find_offer(read(write_skypilot(tmp_path, "aws", SKYPILOT_AWS)), "g6f.large").vm_type
    assert vm_type.gpu == load_gpus()["L4/8"]
    assert vm_type.gpus == 1


def test_a_spot_price_as_high_as_on_demand_is_dropped(tmp_path: Path) -> None:
    prices = prices_of(read(write_skypilot(tmp_path, "aws", SKYPILOT_AWS)))
    assert ("aws/g6e.48xlarge", "us-east-1", "on_demand") in prices
    assert ("aws/g6e.48xlarge", "us-east-1", "spot") not in prices


def test_gcp_host_and_gpu_are_added_up_zone_by_zone(tmp_path: Path) -> None:
    table = read(write_skypilot(tmp_path, "gcp", SKYPILOT_GCP))
    prices = prices_of(table)
    assert prices["gcp/a2-highgpu-1g", "us-central1", "on_demand"] == pytest.approx(0.73948 + 2.933908)
    assert prices["gcp/n1-standard-8+1xT4", "us-central1", "on_demand"] == pytest.approx(0.729998)
    assert prices["gcp/n1-standard-8+1xT4", "us-central1", "spot"] == pytest.approx(0.08 + 0.11)
    assert find_offer(table, "n1-standard-8+1xT4").vm_type.memory_gib == 30


def test_gcp_lists_every_host_of_one_l4_and_spot_only_if_both_parts_have_a_price(tmp_path: Path) -> None:
    prices = prices_of(read(write_skypilot(tmp_path, "gcp", SKYPILOT_GCP)))
    assert prices["gcp/g2-standard-4", "us-central1", "on_demand"] == pytest.approx(0.706)
    assert prices["gcp/g2-standard-8", "us-central1", "on_demand"] == pytest.approx(0.853)
    assert ("gcp/g2-standard-4", "us-central1", "spot") not in prices


def test_gcp_leaves_out_tpus_and_gpus_without_a_host(tmp_path: Path) -> None:
    table = read(write_skypilot(tmp_path, "gcp", SKYPILOT_GCP))
    assert dict(table.unknown_gpus) == {"tpu-v6e": 2}
    assert table.without_host == 1
    assert table.without_gpu == 5


def test_gpuhunt_names_its_provider_and_the_memory_of_the_board(tmp_path: Path) -> None:
    path = tmp_path / "catalog.csv"
    path.write_text(GPUHUNT)
    table = read(path)
    prices = prices_of(table)
    assert prices["aws/p4d.24xlarge", "us-east-1", "spot"] == 9.0
    assert ("aws/p4de.24xlarge", "us-east-1", "spot") not in prices
    boards = {offer.vm_type.key: offer.vm_type.gpu.name for offer in table.offers if offer.vm_type.gpu}
    assert boards == {
        "aws/p4d.24xlarge": "A100",
        "aws/p4de.24xlarge": "A100-80GB",
        "aws/g6f.large": "L4/8",
        "lambda/gpu_1x_a100": "A100-PCIe",
    }
    assert (table.without_gpu, table.without_price) == (1, 1)
    assert dict(table.unknown_gpus) == {"a share of A10": 1}


def test_gpuhunt_without_a_provider_column_is_named_by_its_file(tmp_path: Path) -> None:
    text = "\n".join(line.rpartition(",")[0] for line in GPUHUNT.splitlines()[:3])
    path = tmp_path / "aws.csv"
    path.write_text(text)
    assert {offer.vm_type.provider for offer in read(path).offers} == {"aws"}
    other = tmp_path / "table.csv"
    other.write_text(text)
    with pytest.raises(UsageError) as caught:
        read(other)
    assert caught.value.field == "provider"
    assert {offer.vm_type.provider for offer in read(other, provider="runpod").offers} == {"runpod"}


def test_a_skypilot_table_needs_its_provider(tmp_path: Path) -> None:
    path = tmp_path / "vms.csv"
    path.write_text(SKYPILOT_AWS)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert caught.value.field == "provider"
    assert str(path) in str(caught.value)
    assert read(path, provider="aws").offers


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b" \n\n", "it is empty"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "it is not text"),
        (b"a\0b,c\n1,2\n", "it is not text"),
        (b"name,price\nT4,3\n", "neither a table of SkyPilot"),
        (b'InstanceType,"' + b"x" * 200_000, "is not a price table"),
    ],
)
def test_a_file_that_is_not_a_price_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "aws.csv"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert message in str(caught.value)
    assert "aws.csv" in str(caught.value)


def test_a_directory_or_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        read(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / "nothing.csv")


def test_a_table_of_another_format_than_requested_is_refused(tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    with pytest.raises(UsageError, match="not a table of gpuhunt: it has no column gpu_count"):
        read(path, format_="gpuhunt")


def test_empty_rows_are_ignored(tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS + ",,,,,,,,,,\n\n")
    assert len(read(path).offers) == 9


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", "")
    path.write_bytes(b"\xef\xbb\xbf" + SKYPILOT_AWS.replace("\n", "\r\n").encode())
    assert len(read(path).offers) == len(read(write_skypilot(tmp_path / "plain", "aws", SKYPILOT_AWS)).offers)
