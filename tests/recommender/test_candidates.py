from datetime import date

from tests.makers import make_gpu, make_offer, make_profile, make_vm_type
from trainfare.recommender.candidates import candidates

TODAY = date(2026, 11, 16)


def test_every_rentable_offer_is_one_candidate_at_the_batch_of_the_profile() -> None:
    offer, retired = make_offer(), make_offer(region="eu-west-1", retired_on=TODAY)
    found = candidates([offer, retired], [make_profile(batch_size=32)], today=TODAY)
    assert [(c.offer, c.nodes, c.batch_size) for c in found.candidates] == [(offer, 1, 32)]


def test_pytorch_programs_are_not_sent_to_accelerators_they_do_not_know() -> None:
    tpu = make_offer(vm_type=make_vm_type(gpu=make_gpu(name="TPUv3", vendor="google")))
    found = candidates([tpu, make_offer()], [make_profile(framework="pytorch")], today=TODAY)
    assert (len(found.candidates), found.foreign) == (1, 1)
    assert candidates([tpu], [make_profile(framework="jax")], today=TODAY).foreign == 0
