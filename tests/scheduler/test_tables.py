"""The queue as arrays: the remaining seconds of each job on each slot."""

import numpy as np
import pytest

from tests.scheduler.makers import AZURE, K80, make_fleet, make_job, make_state
from trainfare.model.queue import QueuedJob
from trainfare.scheduler.tables import corrected_remaining_seconds, remaining_seconds, slot_table

FLEET = make_fleet(types=AZURE)
M60_SLOTS = [slot.type.startswith("NV") for slot in FLEET.slots]


def test_remaining_time_falls_with_progress() -> None:
    job = make_job()
    seconds = remaining_seconds(make_state([job, QueuedJob(job=make_job("half"), done=0.5, expected_done=0.5)]))
    assert seconds[0] == pytest.approx(job.seconds)
    assert seconds[1] == pytest.approx(seconds[0] / 2)


def test_job_twice_as_slow_as_predicted_needs_twice_the_remaining_time() -> None:
    state = make_state([QueuedJob(job=make_job(), done=0.2, expected_done=0.4)])
    assert corrected_remaining_seconds(state) == pytest.approx(2 * remaining_seconds(state))


def test_job_without_progress_is_planned_at_the_quantile() -> None:
    state = make_state([QueuedJob(job=make_job(log_error=0.4), done=0.001, expected_done=0.1)])
    assert corrected_remaining_seconds(state, quantile=0.5) == pytest.approx(np.exp(0.2) * remaining_seconds(state))


def test_correction_is_separate_for_each_observed_gpu() -> None:
    """The job is as fast as predicted on the K80 and three times as slow on the M60."""
    job = make_job(types=AZURE)
    progress = (("K80", 0.3, 0.3), ("M60", 0.1, 0.3))
    state = make_state([QueuedJob(job=job, done=0.4, expected_done=0.6, progress_by_gpu=progress)], FLEET)
    factors = (corrected_remaining_seconds(state) / remaining_seconds(state))[0]
    assert factors[M60_SLOTS] == pytest.approx(3.0)
    assert factors[np.logical_not(M60_SLOTS)] == pytest.approx(1.0)


def test_correction_of_one_gpu_applies_to_unobserved_gpus() -> None:
    job = make_job(types=AZURE)
    state = make_state([QueuedJob(job=job, done=0.2, expected_done=0.3, progress_by_gpu=(("K80", 0.2, 0.3),))], FLEET)
    assert corrected_remaining_seconds(state) == pytest.approx(1.5 * remaining_seconds(state))


def test_gpus_of_a_slot_cost_their_share_of_the_node() -> None:
    table = slot_table(make_fleet(types=K80))
    assert table.share[-1] == pytest.approx(2.25 / 3600)
    assert table.share[-4] == pytest.approx(table.share[-1] / 4)
    assert table.fraction[-4] == 0.25
