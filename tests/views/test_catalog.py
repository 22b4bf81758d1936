"""JSON records of the catalog: their keys are public and do not change."""

import json
from datetime import date

import pytest

from tests.makers import make_gpu, make_offer, make_vm_type
from trainfare.catalog.gpu_facts import load_gpu_facts, load_gpus
from trainfare.model.catalog import ImportedTable, OfferRow, PriceChange, PriceImport
from trainfare.model.offer import Commitment
from trainfare.views.catalog import commitment_record, gpu_record, offer_row_record, price_import_record

DAY = date(2026, 11, 1)


def test_a_row_of_the_price_list() -> None:
    row = OfferRow(
        vm_type=make_vm_type(gpus=4),
        region="us-east-1",
        usd_per_hour=0.5,
        spot_usd_per_hour=None,
        seen_on=DAY,
        source="a table",
        retired_on=None,
    )
    record = offer_row_record(row, date(2026, 11, 16))
    assert json.loads(json.dumps(record)) == {
        "machine": "aws/g4dn.xlarge",
        "provider": "aws",
        "name": "g4dn.xlarge",
        "gpu": "T4",
        "gpus": 4,
        "gpu_memory_gib": 15.0,
        "cpu": None,
        "vcpus": 4.0,
        "memory_gib": 16.0,
        "region": "us-east-1",
        "usd_per_hour": 0.5,
        "spot_usd_per_hour": None,
        "seen_on": "2026-11-01",
        "age_days": 15,
        "is_old": False,
        "is_marketplace": False,
        "retired_on": None,
        "source": "a table",
    }


def test_a_commitment() -> None:
    commitment = Commitment(months=12, upfront_usd=876.0, usd_per_hour=0.3, held=True, on_demand_usd_per_hour=0.8)
    offer = make_offer(market="reserved", usd_per_hour=0.4, commitment=commitment, seen_on=DAY)
    assert json.loads(json.dumps(commitment_record(offer))) == {
        "machine": "aws/g4dn.xlarge",
        "region": "us-east-1",
        "months": 12,
        "upfront_usd": 876.0,
        "usd_per_hour": 0.3,
        "effective_usd_per_hour": pytest.approx(0.4),
        "on_demand_usd_per_hour": 0.8,
        "break_even_hours_a_month": pytest.approx(365.0),
        "already_paid": True,
        "until": None,
        "seen_on": "2026-11-01",
    }
    with pytest.raises(ValueError, match="not a commitment"):
        commitment_record(make_offer())


def test_a_gpu_has_the_sources_of_its_facts_if_they_are_known() -> None:
    assert "sources" not in gpu_record(make_gpu())
    record = gpu_record(load_gpus()["H100"], load_gpu_facts()["H100"])
    assert record["name"] == "H100"
    assert set(record["sources"]) <= set(record)
    assert set(record["sources"]["memory_gib"]) == {"key", "title", "publisher", "date", "checked"}


def test_an_import() -> None:
    cheaper = PriceChange(machine="aws/x", region="r", market="spot", before=2.0, after=1.0)
    more_expensive = PriceChange(machine="aws/y", region="r", market="spot", before=1.0, after=2.0)
    imported = PriceImport(
        format="skypilot",
        seen_on=DAY,
        table=ImportedTable(offers=(make_offer(),), rows=4, without_gpu=1, unknown_gpus={"Gaudi": 2}),
        providers=("aws",),
        new=(),
        cheaper=(cheaper,),
        more_expensive=(more_expensive,),
        gone=(),
        unchanged=7,
        saved=("/prices/aws.csv",),
    )
    assert json.loads(json.dumps(price_import_record(imported))) == {
        "format": "skypilot",
        "seen_on": "2026-11-01",
        "providers": ["aws"],
        "offers": 1,
        "machines": 1,
        "rows": 4,
        "without_gpu": 1,
        "without_price": 0,
        "without_host": 0,
        "unknown_gpus": {"Gaudi": 2},
        "new": [],
        "cheaper": [{"machine": "aws/x", "region": "r", "market": "spot", "before": 2.0, "after": 1.0}],
        "dearer": [{"machine": "aws/y", "region": "r", "market": "spot", "before": 1.0, "after": 2.0}],
        "gone": [],
        "same": 7,
        "kept": ["/prices/aws.csv"],
    }
