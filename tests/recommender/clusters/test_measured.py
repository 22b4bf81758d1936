"""What a short run with one worker predicts of several."""

import pytest

from trainfare.recommender.clusters.measured import TriedWorkers, best_measured, predict_workers


def tried(workers: int, step_seconds: float | None, bytes_per_step: float | None = 2.5e6) -> TriedWorkers:
    return TriedWorkers(
        workers=workers,
        worker_mbps=100.0,
        server_mbps=100.0,
        step_seconds=step_seconds,
        bytes_per_step=bytes_per_step if step_seconds else None,
    )


def test_one_worker_is_predicted_as_it_was_measured() -> None:
    (one, two) = predict_workers(tried(1, 0.3), [1, 2], server_mbps=200.0)
    assert one.synchronous_seconds == one.asynchronous_seconds == pytest.approx(0.3)
    assert two.synchronous_seconds == pytest.approx(0.3 + 0.1 + 0.6 * 0.1), "one transfer more, and φ of another"
    assert 0.3 < two.asynchronous_seconds < two.synchronous_seconds


def test_nothing_is_predicted_from_iterations_that_were_not_counted() -> None:
    assert predict_workers(tried(1, None), [1, 2], server_mbps=200.0) == ()
    assert predict_workers(tried(2, 0.3), [1, 2], server_mbps=200.0) == ()


def test_the_best_number_is_the_fewest_that_reach_nearly_all_of_the_throughput() -> None:
    assert best_measured([tried(1, 0.3), tried(2, 0.35), tried(3, 0.5), tried(4, 0.66)]) == 2
    assert best_measured([tried(1, None)]) is None
