"""The loops of a program as the probe reads them from its source and its variables."""

import argparse
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from trainfare.probe import arguments
from trainfare.probe.loop_bounds import LoopReader

Loops = list[dict[str, Any]]


def totals(loops: Loops) -> list[tuple[int, int]]:
    """Total and position of each loop of this file, the outermost first."""
    return [(loop["total"], loop["position"]) for loop in loops if "test_loop_bounds" in loop["where"]]


def test_nested_ranges_are_read_from_all_functions_on_the_stack() -> None:
    args = argparse.Namespace(epochs=6)

    def train(reader: LoopReader) -> Iterator[Loops]:
        for _batch, start in enumerate(range(0, 100, 20)):
            assert start >= 0
            yield reader.read()

    for epoch in range(1, args.epochs + 1):
        if epoch == 2:
            assert totals(list(train(LoopReader()))[3]) == [(6, 1), (5, 3)]


def test_the_source_of_a_bound_is_named() -> None:
    for step in range(10):
        (loop,) = [one for one in LoopReader().read() if one["variable"] == "step"]
        assert loop["text"] == "for step in range(10)"
        assert loop["where"].endswith("of test_loop_bounds.py")
        assert loop["position"] == step


def test_a_condition_bounds_a_loop_without_a_range() -> None:
    step, limit = 0, 7
    while step < limit:
        assert totals(LoopReader().read()) == [(7, step)]
        step += 1


def test_a_condition_for_leaving_bounds_an_endless_loop() -> None:
    config, step = {"train": {"max_iters": 3}}, 0
    while True:
        assert totals(LoopReader().read()) == [(3, step)]
        step += 1
        if step > config["train"]["max_iters"]:
            break


def test_a_break_out_of_another_loop_is_no_bound() -> None:
    step = 0
    while step < 1:
        for number in range(10):
            if number > 4:
                break
        assert totals(LoopReader().read()) == [(1, 0)]
        step += 1


class Counted:
    """A setting that notes when it is read."""

    def __init__(self) -> None:
        self.reads = 0

    @property
    def epochs(self) -> int:
        self.reads += 1
        return 4


def test_no_property_of_the_program_is_run() -> None:
    settings = Counted()
    for _ in range(settings.epochs):
        assert totals(LoopReader().read()) == []
    assert settings.reads == 1


def test_a_bound_that_cannot_be_evaluated_is_left_out() -> None:
    def limit() -> int:
        return 3

    for _ in range(limit()):
        assert totals(LoopReader().read()) == []


def test_code_without_source_has_no_loops() -> None:
    found: list[Loops] = []
    cell = compile("for epoch in range(5): found.append(read())", "<cell>", "exec")
    exec(cell, {"found": found, "read": LoopReader().read})  # noqa: S102 # as a notebook does
    assert [totals(loops) for loops in found] == [[]] * 5


def test_progress_bars_that_the_program_updates_are_read() -> None:
    class tqdm:  # noqa: N801 # the name of the class decides
        def __init__(self) -> None:
            self.total, self.n, self.iterable = 300, 12, None

    bar = tqdm()
    loops = [one for one in LoopReader().read() if one["variable"] == "bar"]
    assert [(one["total"], one["position"]) for one in loops] == [(bar.total, bar.n)]


def test_a_progress_bar_over_a_range_is_that_range() -> None:
    class tqdm:  # noqa: N801 # the name of the class decides
        def __init__(self, iterable: range) -> None:
            self.total, self.n, self.iterable = len(iterable), 0, iterable

        def __iter__(self) -> Iterator[int]:
            return iter(self.iterable)

    bar = tqdm(range(5))
    for epoch in bar:
        assert (5, epoch) in totals(LoopReader().read())
    for epoch in (again := tqdm(range(4))):
        assert (again.total, epoch) in totals(LoopReader().read())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, tuple[float, str]]]:
    monkeypatch.setattr(arguments, "_namespaces", [])

    def read(*words: str) -> dict[str, tuple[float, str]]:
        monkeypatch.setattr(sys, "argv", ["train.py", *words])
        found: dict[str, tuple[float, str]] = {}
        for one in arguments.read_arguments():
            found.setdefault(one["name"], (one["value"], one["source"]))
        return found

    return read


Read = Callable[..., dict[str, tuple[float, str]]]


def test_words_of_the_command_line_are_read(read: Read) -> None:
    found = read("--max_iters=2000", "--batch-size", "12", "train.epochs=6", "--device=cpu", "--lr", "0.1")
    assert {name: found.get(name) for name in ("max_iters", "batch_size", "epochs", "lr")} == {
        "max_iters": (2000, "argument --max_iters"),
        "batch_size": (12, "argument --batch-size"),
        "epochs": (6, "argument train.epochs"),
        "lr": None,
    }


def test_a_word_that_the_program_overrode_is_not_used(read: Read) -> None:
    max_iters = 500
    found = read("--max_iters=2000")
    assert found["max_iters"][0] == max_iters
    assert found["max_iters"][1].startswith("variable max_iters in ")


def test_name_spaces_of_argparse_are_noted(read: Read) -> None:
    module = SimpleNamespace(ArgumentParser=type("Parser", (argparse.ArgumentParser,), {}))
    arguments.watch_argparse(module)  # type: ignore[arg-type] # as much of a module as is used
    parser = module.ArgumentParser()
    parser.add_argument("--num-epochs", type=int, default=14)
    parsed = parser.parse_args([])
    assert read()["num_epochs"] == (parsed.num_epochs, "argument num_epochs")


def test_configurations_are_searched(read: Read) -> None:
    cfg: dict[str, Any] = {"train": {"max_steps": 400, "epochs": True}, "note": "epochs"}
    found = read()
    assert found["max_steps"] == (cfg["train"]["max_steps"], "cfg.train.max_steps")
    assert "epochs" not in found
