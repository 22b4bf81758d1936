"""Event logs of Spark: jobs are iterations. The sample is of `examples/spark_mllib.py`, its other events left out."""

import json
from pathlib import Path

import pytest

from trainfare.errors import UsageError
from trainfare.profiler.past_runs.build_profile import profile_from_log
from trainfare.profiler.past_runs.run_log import RunOverrides
from trainfare.profiler.past_runs.spark import read

SAMPLE = Path(__file__).parent / "samples" / "spark"


def events(*jobs: tuple[int, int, int]) -> str:
    lines: list[dict[str, object]] = []
    for number, start, end in jobs:
        lines.append({"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": start})
        lines.append({"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": end})
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_a_real_log_has_a_job_for_each_iteration_of_the_solver() -> None:
    profile, _ = profile_from_log(read(SAMPLE), RunOverrides(), id="p1")
    assert (profile.origin, profile.framework, profile.ending) == ("spark", "spark", "finished")
    assert len(profile.iteration_seconds) == profile.run_iterations == 11, "8 of the solver, and those before them"
    assert all(seconds > 0 for seconds in profile.iteration_seconds)
    assert sum(profile.iteration_seconds) < (profile.run_seconds or 0)


def test_iterations_go_from_the_end_of_one_job_to_that_of_the_next(tmp_path: Path) -> None:
    (tmp_path / "app-1").write_text(events((0, 1_000, 3_000), (1, 3_100, 4_000), (2, 4_000, 4_500)) + '{"Event": "Spa')
    profile, notes = profile_from_log(read(tmp_path / "app-1"), RunOverrides(), id="p1")
    assert profile.iteration_seconds == pytest.approx((2.0, 1.0, 0.5))
    assert profile.ending == "enough", "it has no end"
    assert "each job of Spark is taken to be one iteration." in notes


def test_the_parts_of_one_application_are_read_in_their_order(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "events_10_app-1").write_text(events((1, 2_000, 3_000)))
    (folder / "events_2_app-1").write_text(events((0, 1_000, 2_000)))
    assert list(read(tmp_path).by_step["job"].steps) == [1, 2]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [("app-1", "{}\n", "is not an event log of Spark"), ("app-1.zstd", "x", "is compressed"), ("x.log", "", "no run")],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        read(tmp_path)
