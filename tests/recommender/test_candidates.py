from datetime import date
from typing import Any

import pytest

from tests.makers import make_candidate, make_fact, make_gpu, make_offer, make_profile, make_program, make_vm_type
from trainfare.model.offer import Offer
from trainfare.model.scope import Quota, Scope
from trainfare.recommender.candidates import Candidates, batch_option, candidates, sensible_batch_sizes

TODAY = date(2026, 11, 16)


def found(*offers: Offer, scope: Scope | None = None, world_size: int = 1, **profile: Any) -> Candidates:
    measured = make_profile(**({"micro_batch_size": 32} | profile), world_size=world_size)
    sizes = sensible_batch_sizes([measured], scope or Scope())
    return candidates(offers, [measured], today=TODAY, scope=scope or Scope(), batch_sizes=sizes)


def shapes(of: Candidates) -> list[tuple[int, int]]:
    return [(c.nodes, c.working_gpus_per_node) for c in of.candidates]


def test_each_rentable_offer_is_one_candidate_at_the_profiled_batch_size() -> None:
    offer, retired = make_offer(), make_offer(region="eu-west-1", retired_on=TODAY)
    assert [(c.offer, c.nodes, c.batch_size) for c in found(offer, retired).candidates] == [(offer, 1, 32)]


def test_pytorch_programs_get_no_accelerators_that_they_do_not_run_on() -> None:
    tpu = make_offer(vm_type=make_vm_type(gpu=make_gpu(name="TPUv3", vendor="google")))
    of_pytorch = found(tpu, make_offer(), framework="pytorch")
    assert (len(of_pytorch.candidates), of_pytorch.incompatible) == (1, 1)
    assert found(tpu, framework="jax").incompatible == 0


def test_only_the_cheapest_region_of_a_machine_is_a_candidate() -> None:
    expensive, cheap = make_offer(region="a", usd_per_hour=2.0), make_offer(region="b", usd_per_hour=1.0)
    assert [c.offer for c in found(expensive, cheap).candidates] == [cheap]


def test_on_spot_a_more_expensive_region_with_fewer_interruptions_is_a_candidate() -> None:
    regions = {"a": 0.3, "b": 0.4, "c": 0.5}
    offers = [make_offer(region=region, usd_per_hour=usd, market="spot") for region, usd in regions.items()]
    result = candidates(
        offers,
        [make_profile()],
        today=TODAY,
        scope=Scope(),
        batch_sizes=(32,),
        interruptions_per_hour=lambda offer: {"a": 0.2, "b": 0.2, "c": 0.1}[offer.region],
    )
    assert [c.offer.region for c in result.candidates] == ["a", "c"]


def test_an_offer_that_was_refused_within_a_day_is_left_out_unless_its_machine_is_named() -> None:
    here, there = make_offer(region="us-east-1", usd_per_hour=0.4), make_offer(region="us-west-2")

    def considered(scope: Scope, *offers: Offer, refusal: str = "capacity") -> tuple[list[str], int]:
        fact = make_fact(
            kind="launch refused", attempt=1, candidate=make_candidate(offer=here), refusal=refusal, text="no"
        )
        result = candidates(offers, [make_profile()], today=TODAY, scope=scope, batch_sizes=(32,), refusals=(fact,))
        return [candidate.offer.region for candidate in result.candidates], len(result.refused)

    assert considered(Scope(), here, there) == (["us-west-2"], 1)
    assert considered(Scope(), here, there, refusal="other") == (["us-east-1"], 0)
    assert considered(Scope(machines=(here.vm_type.key,)), here, there) == (["us-east-1"], 0)
    assert considered(Scope(), here) == (["us-east-1"], 0), "there is nothing else"


@pytest.mark.parametrize(
    ("scope", "machines"),
    [
        (Scope(), {"aws/small", "gcp/large"}),
        (Scope(providers=("gcp",)), {"gcp/large"}),
        (Scope(regions=("here",)), {"aws/small"}),
        (Scope(machines=("large",)), {"gcp/large"}),
        (Scope(machines=("aws/small",)), {"aws/small"}),
        (Scope(gpus=("T4",)), {"aws/small"}),
        (Scope(min_gpu_gib=40), {"gcp/large"}),
        (Scope(yours=True), set()),
        (Scope(quota=(Quota(name="A100", limit=7),)), {"aws/small"}),
        (Scope(quota=(Quota(name="aws", limit=0),)), {"gcp/large"}),
        (Scope(quota=(Quota(name="aws/small", limit=1),)), {"aws/small", "gcp/large"}),
    ],
)
def test_only_offers_in_scope_are_candidates(scope: Scope, machines: set[str]) -> None:
    t4, a100 = make_gpu(name="T4", memory_gib=16), make_gpu(name="A100", memory_gib=40)
    small = make_offer(vm_type=make_vm_type(provider="aws", name="small", gpu=t4, gpus=1), region="here")
    large = make_offer(vm_type=make_vm_type(provider="gcp", name="large", gpu=a100, gpus=8), region="there")
    of = found(small, large, scope=scope)
    assert {c.offer.vm_type.key for c in of.candidates} == machines
    assert of.outside == 2 - len(machines)


def test_a_program_that_used_one_gpu_gets_one_gpu() -> None:
    eight = make_offer(vm_type=make_vm_type(gpu=make_gpu(), gpus=8))
    assert shapes(found(eight)) == [(1, 1)]


def test_a_program_that_used_several_gpus_gets_clusters() -> None:
    four = make_offer(vm_type=make_vm_type(gpu=make_gpu(), gpus=4))
    assert shapes(found(four, world_size=2, micro_batch_size=32)) == [(1, 1), (1, 4), (2, 4), (4, 4), (8, 4)]
    assert shapes(found(four, scope=Scope(nodes=3), micro_batch_size=64)) == [(1, 1), (1, 4), (2, 4), (3, 4)]
    assert shapes(found(four, scope=Scope(nodes=1), world_size=2)) == [(1, 1), (1, 4)]


def test_an_old_price_of_a_marketplace_is_a_candidate_only_if_it_is_asked_for() -> None:
    """It changes by the hour: the lowest of last year would win against every price that still holds."""
    machine = make_vm_type(provider="vast", name="box")
    old, fresh = make_offer(vm_type=machine, seen_on=date(2025, 10, 27)), make_offer(vm_type=machine, seen_on=TODAY)
    assert (found(old).candidates, found(old).old_marketplace, found(old).outside) == ((), 1, 0)
    assert len(found(fresh).candidates) == 1
    for scope in (Scope(providers=("vast",)), Scope(machines=("box",)), Scope(machines=("vast/box",))):
        assert len(found(old, scope=scope).candidates) == 1
    ordinary = make_offer(seen_on=date(2025, 9, 11))
    assert len(found(ordinary).candidates) == 1, "a price list of a provider still says something"


@pytest.mark.parametrize("provider", ["vast", "shadeform", "runpod", "yotta"])
def test_machines_without_a_network_between_them_are_not_joined_to_a_cluster(provider: str) -> None:
    """They stand with different hosts, or are single containers."""
    four = make_offer(vm_type=make_vm_type(provider=provider, gpus=4), seen_on=TODAY)
    assert shapes(found(four, scope=Scope(nodes=3), micro_batch_size=64)) == [(1, 1), (1, 4)]


def test_a_quota_limits_the_number_of_nodes() -> None:
    four = make_offer(vm_type=make_vm_type(gpu=make_gpu(name="T4"), gpus=4))
    scope = Scope(nodes=8, quota=(Quota(name="T4", limit=11),))
    assert shapes(found(four, scope=scope, micro_batch_size=64)) == [(1, 1), (1, 4), (2, 4)]


def test_a_batch_is_never_shared_by_more_gpus_than_samples() -> None:
    four = make_offer(vm_type=make_vm_type(gpu=make_gpu(), gpus=4))
    assert shapes(found(four, scope=Scope(nodes=2), micro_batch_size=5)) == [(1, 1), (1, 4)]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("python", "train.py", "--batch-size", "32"), "--batch-size {}"),
        (("python", "train.py", "--train_batch_size=32"), "--train_batch_size={}"),
        (("python", "train.py", "-b", "32"), "-b {}"),
        (("python", "train.py", "data.batch_size=32"), "data.batch_size={}"),
        (("python", "train.py", "--bs", "32"), "--bs {}"),
        (("python", "train.py", "--batch-size", "64"), None),
        (("python", "train.py", "--epochs", "32"), None),
        (("python", "train.py", "32"), None),
        (("python", "train.py"), None),
    ],
)
def test_the_option_that_sets_the_batch_size_is_found_in_the_command(
    command: tuple[str, ...], option: str | None
) -> None:
    assert batch_option(make_program(command=command), 32) == option


def test_other_batch_sizes_are_considered_if_the_command_can_set_them() -> None:
    adjustable = make_profile(
        program=make_program(command=("python", "t.py", "--batch-size", "32")), micro_batch_size=32
    )
    fixed = make_profile(program=make_program(command=("python", "t.py")), micro_batch_size=32)
    assert sensible_batch_sizes([adjustable], Scope()) == (32, 8, 16, 64, 128)
    assert sensible_batch_sizes([fixed], Scope()) == (32,)
    assert sensible_batch_sizes([fixed], Scope(any_batch_size=True)) == (32, 8, 16, 64, 128)
    assert sensible_batch_sizes([adjustable], Scope(batch_sizes=(48,))) == (48,)


def test_no_batch_is_larger_than_the_data_set() -> None:
    small = make_profile(micro_batch_size=32, samples=100)
    assert max(size or 0 for size in sensible_batch_sizes([small], Scope(any_batch_size=True))) == 64
