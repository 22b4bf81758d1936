"""The Profile that follows from events of the probe."""

from typing import Any

import pytest

from tests.makers import NOON, make_program
from trainfare.model.machine import Host
from trainfare.model.profile import Convolution, EarlyStopping, Epoch, Operation, Profile
from trainfare.profiler.events import (
    Event,
    add_reported_metrics,
    build_profile,
    bytes_per_iteration,
    computing_dtype,
    cpu_queue_share,
    cpu_use,
    iteration_seconds,
    iterations_between_validations,
    iterations_per_pass,
    leading_process_events,
    loader_cpu_seconds,
    merge_spans,
    parse_events,
    read_operations,
    seconds_by_position,
    subtract_spans,
    summarize_events,
)


def event(kind: str, **facts: Any) -> Event:
    return {"event": kind, "pid": 1, "time": 0.0, **facts}


def iteration(n: int, start: float, end: float, **changes: Any) -> Event:
    facts = {"n": n, "start": start, "end": end, "wait": 0.1, "batches": 1, "learning_rate": 0.1}
    return event("iteration", **(facts | changes))


IMPORT = event("import", name="torch", version="2.13.0+cpu")


def profile_from(events: list[Event]) -> Profile:
    return build_profile(
        [IMPORT, *events],
        id="p7k2",
        program=make_program(),
        host=Host(name="laptop"),
        measured_at=NOON,
        ending="enough",
        started=10.0,
    )


def test_incomplete_and_foreign_lines_are_dropped() -> None:
    assert parse_events(b'{"event": "python"}\nnot json\n[1]\n{"event": "itera') == [{"event": "python"}]


def test_iteration_is_its_span_without_the_validation_in_it() -> None:
    assert iteration_seconds([(0, 1), (1, 5)], [(1.5, 4)]) == (1, 1.5)


def test_validations_between_the_same_iterations_are_one() -> None:
    spans = [(0.0, 1.0), (1.0, 5.0), (5.0, 6.0)]
    assert seconds_by_position(spans, [(1.5, 2), (3, 4), (6, 7)]) == (1.5, 1)


def test_window_before_the_first_iteration_is_left_out() -> None:
    assert seconds_by_position([(2.0, 3.0)], [(0, 1)]) == ()


def test_overlapping_windows_count_once() -> None:
    assert merge_spans([(3, 5), (1, 2), (4, 6)]) == [(1, 2), (3, 6)]


def test_init_runs_from_the_start_of_the_program_to_the_first_iteration() -> None:
    assert profile_from([iteration(1, 12.5, 13)]).init_seconds == 2.5


def test_accumulation_steps_multiply_the_batch_size() -> None:
    loader = event("loader", batch_size=8, samples=100, length=13)
    model = event("model", world_size=2)
    found = profile_from([loader, model, *(iteration(n, n + 10, n + 11, batches=4) for n in range(1, 4))])
    assert (found.micro_batch_size, found.effective_batch_size) == (8, 64)
    assert (found.iterations_per_epoch, found.samples) == (4, 100)


def test_epoch_is_unknown_if_steps_use_no_batch() -> None:
    loader = event("loader", batch_size=8, samples=100, length=13)
    found = profile_from([loader, *(iteration(n, n + 10, n + 11, batches=0) for n in range(1, 4))])
    assert found.iterations_per_epoch is None
    assert found.data_wait_seconds == ()


def test_cpu_use_is_the_average_number_of_cores() -> None:
    events = [event("cpu", seconds=1.0) | {"time": 10.0}, event("cpu", seconds=4.0) | {"time": 12.0}]
    assert cpu_use(events) == 1.5
    assert cpu_use(events[:1]) is None


def test_share_of_the_time_without_a_cpu() -> None:
    events = [event("cpu", seconds=1.0, queued=q) | {"time": t} for t, q in ((10.0, 3.0), (12.0, 3.5))]
    assert cpu_queue_share(events) == 0.25
    assert cpu_queue_share(events[:1]) is None
    assert cpu_queue_share([event("cpu", seconds=1.0) | {"time": 10.0}] * 2) is None


def test_cpu_time_of_loader_workers_is_counted_from_the_first_iteration() -> None:
    readings = [event("cpu", seconds=1.0, n=n, workers=w) | {"time": 1.0} for n, w in ((0, 0.0), (1, 9.0), (11, 11.0))]
    assert loader_cpu_seconds([event("loader", workers=2), *readings]) == 0.2
    assert loader_cpu_seconds([event("loader", workers=0), *readings]) is None
    assert loader_cpu_seconds([event("loader", workers=2), *readings[:2]]) is None


def test_threads_and_workers_are_facts_of_the_profile() -> None:
    found = profile_from(
        [iteration(1, 10, 11), iteration(2, 11, 12), event("model", threads=4), event("loader", workers=3)]
    )
    assert (found.threads, found.loader_workers, found.loader_cpu_seconds) == (4, 3, None)


def test_missing_losses_are_none() -> None:
    found = profile_from([iteration(1, 10, 11), iteration(2, 11, 12), event("losses", first=1, values=[0.5, None])])
    assert found.loss == (0.5, None)


def test_events_of_the_process_with_most_iterations_are_used() -> None:
    events = [iteration(1, 0, 1) | {"pid": 7}, iteration(1, 0, 1), iteration(2, 1, 2)]
    assert {e["pid"] for e in leading_process_events(events)} == {1}


def test_of_processes_with_as_many_iterations_that_of_least_rank_leads() -> None:
    steps = [{"event": "iteration", "pid": pid, "n": 1, "start": 0.0, "end": 1.0} for pid in (7, 8)]
    models = [{"event": "model", "pid": pid, "rank": rank} for pid, rank in ((7, 1), (8, 0))]
    assert {e["pid"] for e in leading_process_events([*steps, *models])} == {8}


def test_dtype_is_that_with_most_flops() -> None:
    operations = [
        Operation(kind="matmul", dtype="bfloat16", flops=100, bytes=1, count=3),
        Operation(kind="matmul", dtype="float32", flops=200, bytes=1),
        Operation(kind="pointwise", dtype="float64", flops=0, bytes=1e9),
    ]
    assert computing_dtype(operations) == "bfloat16"
    assert computing_dtype(operations[2:]) is None


def test_tf32_is_float32_where_there_is_no_gpu() -> None:
    operations = [Operation(kind="matmul", dtype="tf32", flops=100, bytes=1)]
    assert computing_dtype(operations, "cpu") == "float32"
    assert computing_dtype(operations, "cuda") == "tf32"


def test_version_has_no_build_suffix() -> None:
    found = profile_from([iteration(1, 10, 11)])
    assert (found.framework, found.framework_version) == ("pytorch", "2.13.0")


def test_trouble_is_summarised_by_its_last_line() -> None:
    trouble = event("trouble", where="step", what="Traceback …\n  File …\nValueError: no\n")
    assert summarize_events([trouble]).troubles == ("step: ValueError: no",)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_device_is_that_of_the_framework(device: str) -> None:
    assert profile_from([iteration(1, 10, 11), event("model", device=device)]).device == device


def test_unknown_device_is_none() -> None:
    assert profile_from([iteration(1, 10, 11), event("model", device="hpu")]).device is None


def test_checkpoint_is_neither_iteration_nor_validation() -> None:
    events = [
        iteration(1, 10, 11),
        iteration(2, 11, 20),
        event("window", start=12.0, end=18.0),
        event("checkpoint", start=13.0, end=14.0),
        event("checkpoint", start=17.5, end=18.5),
    ]
    found = profile_from(events)
    assert list(found.iteration_seconds) == [1, 2.5]
    assert list(found.validation_seconds) == [4.5]
    assert list(found.checkpoint_seconds) == [2]


def test_holes_are_subtracted() -> None:
    assert subtract_spans([(0, 10)], [(2, 3), (9, 11)]) == [(0, 2), (3, 9)]
    assert subtract_spans([(0, 1), (4, 5)], [(0, 4)]) == [(4, 5)]


def test_length_of_a_stream_is_that_of_its_first_complete_pass() -> None:
    moments = [("pass", 10.0), ("pass", 11.0), ("pass_end", 14.0), ("pass", 14.0), ("pass", 16.0)]
    passes = [event(kind, start=at, end=at) for kind, at in moments]
    spans = [(float(at), at + 1.0) for at in range(10, 17)]
    assert iterations_per_pass(passes, spans) == 3
    assert iterations_per_pass(passes[:3], spans) is None


def test_validations_at_equal_distances_mark_epochs() -> None:
    def after(*positions: int) -> list[Event]:
        return [event("window", start=float(position), end=position + 0.5, after=position) for position in positions]

    assert iterations_between_validations(after(3, 6, 9)) == 3
    assert iterations_between_validations(after(3, 6, 9, 15, 18)) == 3, "one was missed"
    assert iterations_between_validations(after(3, 6)) is None, "two may be a coincidence"
    assert iterations_between_validations(after(3, 6, 9, 11)) is None, "unequal distances"
    assert iterations_between_validations([event("window", start=1.0, end=2.0)]) is None


def test_bytes_are_those_between_the_first_and_the_last_reading() -> None:
    readings = [event("network", n=2, sent=1000, received=500), event("network", n=12, sent=21000, received=500)]
    assert bytes_per_iteration(readings) == {"sent_bytes": 2000, "received_bytes": 0}
    assert bytes_per_iteration(readings[:1]) == {}


def test_plan_by_iterations_is_rounded_up_to_epochs() -> None:
    loader = event("loader", batch_size=8, samples=80, length=10)
    steps = [iteration(n, n + 10, n + 11) for n in range(1, 4)]
    assert profile_from([loader, *steps, event("plan", epochs=None, iterations=31)]).epochs == 4
    assert profile_from([loader, *steps, event("plan", epochs=2, iterations=31)]).epochs == 2
    assert profile_from([loader, *steps]).epochs is None


def test_early_stopping_of_the_program_is_recorded() -> None:
    plan = event("plan", epochs=5, early_stopping={"metric": "val_loss", "patience": 3})
    assert profile_from([iteration(1, 10, 11), plan]).early_stopping == EarlyStopping(metric="val_loss", patience=3)


def test_last_value_of_a_metric_counts_and_missing_values_are_left_out() -> None:
    reported = [
        event("epoch", number=1, metrics={"val": 0.5, "bad": None}),
        event("epoch", number=1, metrics={"val": 0.4}),
        event("epoch", number=2, metrics={"val": 0.3}),
    ]
    curve = add_reported_metrics([Epoch(number=1, seconds=9.0)], reported)
    assert [(epoch.seconds, dict(epoch.metrics)) for epoch in curve] == [(9.0, {"val": 0.4}), (None, {"val": 0.3})]


def test_compilation_and_versions_are_recorded() -> None:
    facts = [event("compilation", seconds=3.5, cache_warm=False), event("versions", versions={"numpy": "2.4.6"})]
    found = profile_from([iteration(1, 10, 11), *facts])
    assert (found.compile_seconds, found.compile_cache_warm, dict(found.versions)) == (3.5, False, {"numpy": "2.4.6"})


def test_operations_are_read_with_their_known_fields() -> None:
    plain = {"kind": "matmul", "dtype": "float32", "flops": 8.0, "bytes": 4.0, "count": 3}
    shape = {"channels_in": 3, "channels_out": 8, "kernel": [3, 3], "stride": [2, 2], "plane": [4, 4]}
    reported = {"name": "aten.convolution", "part": "forward", "inputs": [[4, 3, 8, 8]], "convolution": shape}
    rows = [plain, {**plain, "kind": "convolution", **reported}]
    first, second = read_operations({"operations": rows})
    assert first == Operation(kind="matmul", dtype="float32", flops=8.0, bytes=4.0, count=3)
    assert second.inputs == ((4, 3, 8, 8),)
    assert second.convolution == Convolution(
        channels_in=3, channels_out=8, kernel=(3, 3), stride=(2, 2), plane=(4, 4), groups=1
    )
    assert read_operations({}) == ()
