"""The parts of the agent, one by one."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainfare.agent import agent
from trainfare.probe.loop import pack_doubles


def test_a_lease_lasts_as_long_as_it_did_when_it_was_read_if_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lease").write_text(str(time.time() + 100))
    lease = agent.LeaseClock(tmp_path / "lease")
    lease.read()
    before = lease.ends
    for jump in (-86_400, 86_400):
        now = time.time() + jump
        monkeypatch.setattr(time, "time", lambda now=now: now)
        lease.read()
        assert lease.ends == before
    assert lease.ends - agent.steady_seconds() == pytest.approx(100, abs=5)


def test_the_end_of_a_lease_is_a_moment_of_the_steady_clock() -> None:
    assert agent.moment_of("1060", wall=1000.0, steady=7.0) == 67.0
    assert agent.moment_of("soon", wall=1000.0, steady=7.0) is None


def test_a_lease_that_cannot_be_read_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "lease").write_text(str(time.time() + 100))
    lease = agent.LeaseClock(tmp_path / "lease")
    lease.read()
    before = lease.ends
    for text in ("", "soon"):
        (tmp_path / "lease").write_text(text)
        lease.read()
    (tmp_path / "lease").unlink()
    lease.read()
    assert lease.ends == before


def test_without_a_lease_the_time_is_over(tmp_path: Path) -> None:
    lease = agent.LeaseClock(tmp_path / "lease")
    lease.read()
    assert lease.ends < agent.steady_seconds()


def test_a_program_is_asked_its_grace_before_the_end_but_never_early_in_a_short_time() -> None:
    assert agent.time_to_ask(1000.0, span=900.0, grace=20.0) == 980.0
    assert agent.time_to_ask(1000.0, span=30.0, grace=20.0) == 997.0


def journal_lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_journal_goes_on_after_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    agent.Journal(path).add("heartbeat", seconds=1)
    path.write_bytes(path.read_bytes() + b'{"number": 2, "ti')
    agent.Journal(path).add("heartbeat", seconds=2)
    assert [(entry["number"], entry["seconds"]) for entry in journal_lines(path)] == [(1, 1), (2, 2)]


def test_entries_wait_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    journal = agent.Journal(path)
    write = agent.write_some
    monkeypatch.setattr(agent, "write_some", lambda file, data: write(file, data[:7]))
    monkeypatch.setattr(agent, "WAITING_ENTRIES", 3)
    journal.add("program", state="started")
    for second in range(5):
        journal.add("heartbeat", seconds=second)
    assert path.read_bytes() == b"", "no line is left half written"
    monkeypatch.setattr(agent, "write_some", write)
    journal.flush()
    assert [(entry["number"], entry["kind"], entry.get("seconds")) for entry in journal_lines(path)] == [
        (1, "program", None),
        (2, "heartbeat", 3),
        (3, "heartbeat", 4),
    ]


@pytest.mark.parametrize("after", [0, 1, 9_000, 19_998, 19_999, 20_000])
def test_the_entries_after_a_number_are_found_in_a_long_journal(tmp_path: Path, after: int) -> None:
    program = tmp_path / "agent.py"
    program.write_bytes(Path(agent.__file__).read_bytes())
    lines = [json.dumps({"number": n, "kind": "heartbeat", "time": 1.0}) + "\n" for n in range(1, 20_001)]
    (tmp_path / "journal.jsonl").write_text("".join(lines) + '{"number": 20001, "ki')
    printed = subprocess.run(
        (sys.executable, program, "entries", str(after)), capture_output=True, text=True, check=True
    )
    position, *found = printed.stdout.splitlines(keepends=True)
    assert found == lines[after:]
    assert int(position) == len("".join(lines[:after]))


def output_of(tmp_path: Path, secrets: list[str], *parts: bytes) -> bytes:
    path = tmp_path / "output"
    output = agent.Output(path, secrets)
    for part in parts:
        output.add(part)
    output.close()
    return path.read_bytes()


def test_a_secret_is_hidden_even_if_it_comes_in_parts(tmp_path: Path) -> None:
    parts = (b"key sec", b"ret-one, secret-", b"two and sec")
    assert output_of(tmp_path, ["secret-one", "secret-two"], *parts) == b"key ***, *** and sec"


def test_a_secret_of_a_letter_or_two_does_not_hide_the_output(tmp_path: Path) -> None:
    assert output_of(tmp_path, ["1", ""], b"epoch 1") == b"epoch 1"


def test_of_too_much_output_the_beginning_and_the_end_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "OUTPUT_LIMIT_BYTES", 20)
    monkeypatch.setattr(agent, "TAIL_BYTES", 10)
    kept = output_of(tmp_path, [], b"start " + b"." * 20, b"." * 50, b"ValueError")
    assert kept == b"start " + b"." * 14 + b"\n[trainfare: 56 bytes of output are left out here]\nValueError"


def event(kind: str, pid: int = 1, **facts: object) -> dict[str, object]:
    return {"event": kind, "pid": pid, **facts}


def iterations(first: int, spans: list[tuple[float, float]], pid: int = 1) -> dict[str, object]:
    numbers: list[float | None] = [number for start, end in spans for number in (start, end, 0.0, 1.0, 0.1)]
    return event("iterations", pid, first=first, packed=pack_doubles(numbers))


def test_the_time_of_an_iteration_is_without_validations_and_checkpoints() -> None:
    training = agent.Training()
    training.note(
        [iterations(1, [(0, 1), (1, 9)]), event("window", start=2, end=5), event("checkpoint", start=6, end=8)]
    )
    ((_, fields),) = training.entries()
    assert (fields["first"], fields["count"], fields["seconds"]) == (1, 2, [1.0, 3.0])


def test_the_parts_of_a_training_are_added_up_from_one_entry_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    training = agent.Training()
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    training.began()
    saved = [event("checkpoint", start=106, end=108), event("checkpoint", start=109, end=109.5)]
    training.note([iterations(1, [(103, 105), (105, 110)]), event("window", start=105, end=106), *saved])
    ((_, first),) = training.entries()
    assert first == {
        "first": 1,
        "count": 2,
        "seconds": [2.0, 1.5],
        "init_seconds": 3.0,
        "first_seconds": 2.0,
        "validations": 1.0,
        "validation_seconds": 1.0,
        "checkpoints": 2.0,
        "checkpoint_seconds": 2.5,
    }
    training.note([event("window", start=110, end=114)])
    ((_, last),) = training.entries()
    assert last == {"first": 3, "count": 0, "seconds": [], "validations": 1.0, "validation_seconds": 4.0}
    assert training.entries() == []


def test_only_one_of_several_processes_is_counted_and_the_next_goes_on() -> None:
    ended = subprocess.Popen(("true",))
    ended.wait()
    training = agent.Training()
    training.note([iterations(1, [(0, 1)], pid=1), iterations(1, [(0, 5)], pid=2)])
    ((_, fields),) = training.entries()
    assert (fields["first"], fields["count"], fields["seconds"]) == (1, 1, [1.0])
    training = agent.Training()
    training.note([iterations(1, [(0, 1), (1, 2)], pid=ended.pid)])
    training.entries()
    training.note([iterations(1, [(7, 9)], pid=1), event("losses", first=1, packed=pack_doubles([0.5, None]))])
    assert training.entries() == [
        ("iterations", {"first": 3, "count": 1, "seconds": [2.0]}),
        ("losses", {"first": 3, "count": 1, "values": [0.5]}),
    ]


def test_many_iterations_become_means_with_the_same_total() -> None:
    training = agent.Training()
    training.note([iterations(1, [(n, n + 1) for n in range(1000)])])
    ((_, fields),) = training.entries()
    assert (fields["first"], fields["count"], fields["seconds"]) == (1, 1000, [1.0] * 200)


def test_a_large_event_file_is_replaced_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "EVENT_FILE_BYTES", 1000)
    path = tmp_path / "events.jsonl"
    events, read = agent.Events(path), []
    for number in range(100):
        with path.open("a") as file:
            file.write(json.dumps(event("cpu", n=number)) + "\n")
        read += events.read()
        events.shorten()
    assert [found["n"] for found in read] == list(range(100))
    assert path.stat().st_size < 1100


def test_a_file_with_the_suffix_of_a_checkpoint_counts_once_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "before.ckpt").write_text("pretrained")
    checkpoints = agent.CheckpointWatch(tmp_path)
    checkpoints.began(agent.file_stamps(tmp_path))
    (tmp_path / "epoch.ckpt").write_text("state")
    (tmp_path / "train.log").write_text("log")
    (tmp_path / "begun.ckpt").touch()
    assert checkpoints.completed() == [], "it may still be being written"
    monkeypatch.setattr(agent, "CHECKPOINT_SECONDS", -1)
    saved = round((tmp_path / "epoch.ckpt").stat().st_mtime, 3)
    assert checkpoints.completed() == [{"path": "epoch.ckpt", "bytes": 5, "saved": saved}]
    assert checkpoints.completed() == []
    monkeypatch.setattr(agent, "CHECKPOINT_SECONDS", 5)
    (tmp_path / "last.ckpt").write_text("end")
    assert [each["path"] for each in checkpoints.completed(has_ended=True)] == ["last.ckpt"]


def test_a_checkpoint_that_was_renamed_when_it_was_complete_is_found(tmp_path: Path) -> None:
    (tmp_path / "last.pt").write_text("complete")
    (tmp_path / "old.pt").write_text("old")
    os.utime(tmp_path / "old.pt", (1, 1))
    now = time.monotonic()
    saved = event("checkpoint", start=now - 0.05, end=now, path=str(tmp_path / "last.pt.tmp"), iteration=40)
    (found,) = agent.CheckpointWatch(tmp_path).saved([saved])
    assert (found["path"], found["bytes"], found["iteration"]) == ("last.pt", 8, 40)
    assert abs(found["saved"] - time.time()) < 60


def test_a_checkpoint_may_be_a_folder_or_several_files_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-5").mkdir()
    (tmp_path / "checkpoint-5/optimizer.pt").write_text("12345")
    (tmp_path / "ck.index").write_text("123")
    (tmp_path / "ck.data-00000-of-00001").write_text("12")
    saved = [
        event("checkpoint", start=1.0, end=1.5, path=str(tmp_path / name))
        for name in ("checkpoint-5", "ck", "deleted.pt")
    ]
    assert [(found["path"], found["bytes"]) for found in agent.CheckpointWatch(tmp_path).saved(saved)] == [
        ("checkpoint-5", 5),
        ("ck", 5),
    ]


def test_gpu_readings_are_added_up_and_nonsense_is_left_out() -> None:
    assert agent.parse_gpu(b"90, 1024\n70, 512\n") == {"gpu_percent": 80.0, "gpu_memory_bytes": 1536 << 20}
    assert agent.parse_gpu(b"NVIDIA-SMI has failed\n") == agent.parse_gpu(b"") == {}
