"""The terms of providers: complete, dated and sourced, with cautious assumptions for gaps."""

from datetime import date
from pathlib import Path

import pytest

from tests.makers import make_gpu, make_offer, make_vm_type
from trainfare.catalog.bundled import load_offers
from trainfare.catalog.terms import find_interruptions, find_terms, load_term_facts, load_terms

BUILT_ON = date(2026, 11, 16)


def test_every_provider_of_the_catalog_has_terms() -> None:
    assert set(load_terms()) == {offer.vm_type.provider for offer in load_offers()}


@pytest.mark.parametrize("provider", sorted(load_term_facts()))
def test_every_fact_is_stated_once_on_a_day_with_a_source(provider: str) -> None:
    facts = load_term_facts()[provider]
    assert len({term.fact for term in facts}) == len(facts)
    assert all(term.seen_on <= BUILT_ON for term in facts)
    assert all(float(term.value) >= 0 for term in facts)


def test_terms_are_plausible() -> None:
    for terms in load_terms().values():
        assert 1 <= terms.billing.increment_seconds <= 3600
        assert 20 <= terms.boot_seconds.value <= 600
        assert terms.boot_seconds.low < terms.boot_seconds.high
        assert terms.disk_usd_per_gib_month < 0.5
        assert terms.egress_usd_per_gib < 0.2
        assert not terms.assumed


def test_an_own_machine_has_no_charges() -> None:
    terms = find_terms(make_offer(market="own", vm_type=make_vm_type(provider="own", name="bench")))
    assert (terms.boot_seconds.high, terms.egress_usd_per_gib, terms.disk_usd_per_gib_month) == (0, 0, 0)


def test_an_unknown_provider_gets_cautious_terms() -> None:
    terms = find_terms(make_offer(vm_type=make_vm_type(provider="nowhere", name="x")))
    assert terms.assumed
    assert terms.egress_usd_per_gib == max(known.egress_usd_per_gib for known in load_terms().values())


def test_a_traced_machine_has_the_rate_of_its_traces() -> None:
    found = find_interruptions(make_vm_type(name="p3.2xlarge", gpu=make_gpu(name="V100")))
    assert found.per_hour.low < found.per_hour.value == 0.299 < found.per_hour.high
    assert "2022-10-26 to 2023-04-01" in found.source


def test_a_machine_without_traces_has_an_assumed_rate_with_a_wide_interval() -> None:
    one, eight = (find_interruptions(make_vm_type(gpu=make_gpu(name="H100"), gpus=gpus)) for gpus in (1, 8))
    assert "assumption" in one.source
    assert one.per_hour.high / one.per_hour.low > 50
    assert one.per_hour.value < eight.per_hour.value <= eight.per_hour.high


def test_the_manual_prints_the_terms_that_are_shipped() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bill.md").read_text(encoding="utf-8")
    for provider, terms in load_terms().items():
        row = next(line for line in page.splitlines() if line.startswith(f"| {provider} |"))
        cells = [cell.replace("*not certain*", "").strip() for cell in row.strip("| ").split("|")]
        boot = terms.boot_seconds
        free = f"{terms.free_egress_gib:g} GiB" if terms.free_egress_gib else "–"
        assert cells == [
            provider,
            terms.billing.description,
            f"{boot.value:g} s ({boot.low:g} – {boot.high:g})",
            f"{terms.disk_usd_per_gib_month:g}",
            f"{terms.egress_usd_per_gib:g}",
            free,
        ]
