import pytest

from tests.makers import make_candidate, make_estimate, make_gpu, make_offer, make_vm_type
from trainfare.estimator.shared_error import shares_error
from trainfare.model.estimate import Basis, Estimate

T4, V100 = make_gpu(name="T4"), make_gpu(name="V100")


def estimate(
    *, machine: str = "small", gpu: str | None = "T4", basis: Basis = "scaled", nodes: int = 1, **changes: object
) -> Estimate:
    gpus = {"T4": T4, "V100": V100, None: None}
    vm_type = make_vm_type(name=machine, gpu=gpus[gpu], gpus=1 if gpu else 0)
    batch_size = changes.pop("batch_size", 64)
    offer = make_offer(vm_type=vm_type, region=changes.pop("region", "us-east-1"), usd_per_hour=changes.pop("usd", 1.0))
    candidate = make_candidate(offer=offer, nodes=nodes, batch_size=batch_size)
    return make_estimate(candidate=candidate, basis=basis, **changes)


def test_prices_regions_and_machines_with_one_gpu_share_the_error() -> None:
    assert shares_error(estimate(), estimate(region="eu-west-1", usd=2.0))
    assert shares_error(estimate(machine="small"), estimate(machine="large"))


@pytest.mark.parametrize(
    "other",
    [
        estimate(gpu="V100"),
        estimate(basis="extrapolated"),
        estimate(nodes=2),
        estimate(batch_size=128),
        estimate(profile_id="pother"),
    ],
    ids=["GPU", "basis", "nodes", "batch size", "profile"],
)
def test_another_prediction_has_its_own_error(other: Estimate) -> None:
    assert not shares_error(estimate(), other)


def test_measured_machines_and_machines_without_gpu_have_their_own_errors() -> None:
    assert not shares_error(estimate(machine="a", basis="measured"), estimate(machine="b", basis="measured"))
    assert not shares_error(estimate(machine="a", gpu=None), estimate(machine="b", gpu=None))
    assert shares_error(estimate(machine="a", gpu=None), estimate(machine="a", gpu=None, usd=3.0))
