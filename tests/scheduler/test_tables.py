"""A queue as arrays: what is left of each job on each slot."""

import numpy as np
import pytest

from tests.scheduler.makers import AZURE, K80, make_fleet, make_job, make_state
from trainfare.model.queue import QueuedJob
from trainfare.scheduler.tables import corrected_remaining_seconds, remaining_seconds, slot_table

FLEET = make_fleet(types=AZURE)
M60_SLOTS = [slot.type.startswith("NV") for slot in FLEET.slots]


def test_what_is_left_shrinks_with_what_is_done() -> None:
    job = make_job()
    left = remaining_seconds(make_state([job, QueuedJob(job=make_job("half"), done=0.5, expected_done=0.5)]))
    assert left[0] == pytest.approx(job.seconds)
    assert left[1] == pytest.approx(left[0] / 2)


def test_a_job_that_is_twice_as_slow_as_predicted_needs_twice_the_rest() -> None:
    state = make_state([QueuedJob(job=make_job(), done=0.2, expected_done=0.4)])
    assert corrected_remaining_seconds(state) == pytest.approx(2 * remaining_seconds(state))


def test_a_job_that_was_hardly_seen_is_planned_with_caution() -> None:
    state = make_state([QueuedJob(job=make_job(log_error=0.4), done=0.001, expected_done=0.1)])
    assert corrected_remaining_seconds(state, quantile=0.5) == pytest.approx(np.exp(0.2) * remaining_seconds(state))


def test_what_was_seen_on_one_gpu_does_not_blame_another_that_was_seen_too() -> None:
    """As predicted on the K80, and three times as slow on the M60."""
    job = make_job(types=AZURE)
    seen = (("K80", 0.3, 0.3), ("M60", 0.1, 0.3))
    state = make_state([QueuedJob(job=job, done=0.4, expected_done=0.6, seen=seen)], FLEET)
    factors = (corrected_remaining_seconds(state) / remaining_seconds(state))[0]
    assert factors[M60_SLOTS] == pytest.approx(3.0)
    assert factors[np.logical_not(M60_SLOTS)] == pytest.approx(1.0)


def test_what_was_seen_on_one_gpu_counts_on_those_that_were_not() -> None:
    job = make_job(types=AZURE)
    state = make_state([QueuedJob(job=job, done=0.2, expected_done=0.3, seen=(("K80", 0.2, 0.3),))], FLEET)
    assert corrected_remaining_seconds(state) == pytest.approx(1.5 * remaining_seconds(state))


def test_the_gpus_of_a_slot_cost_their_share_of_the_node() -> None:
    table = slot_table(make_fleet(types=K80))
    assert table.share[-1] == pytest.approx(2.25 / 3600)
    assert table.share[-4] == pytest.approx(table.share[-1] / 4)
    assert table.fraction[-4] == 0.25
