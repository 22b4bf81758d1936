"""How long a program trains, read from the events of the probe: which number is used, and where it was read."""

from typing import Any

import pytest

from trainfare.profiler.length import read_length, settle_length

Event = dict[str, Any]


def event(kind: str, **facts: Any) -> Event:
    return {"event": kind, "pid": 1, "time": 0.0, **facts}


def loop(text: str, total: int, position: int, **changes: Any) -> dict[str, Any]:
    facts = {
        "key": text,
        "text": text,
        "where": "line 1 of train.py",
        "variable": text.split()[1],
        "total": total,
        "position": position,
        "resets": True,
    }
    return facts | changes


def readings(*loops_at: tuple[int, list[dict[str, Any]]]) -> list[Event]:
    return [event("loops", n=n, loops=loops) for n, loops in loops_at]


def named(*values: tuple[str, float, str, str]) -> Event:
    keys = ("name", "value", "kind", "source")
    return event("arguments", values=[dict(zip(keys, value, strict=True)) for value in values])


LOADER = event("loader", batch_size=8, samples=64, length=8)


def read(events: list[Event], *, seen: int = 5, finished: bool = False) -> tuple[dict[str, Any], dict[str, str]]:
    has_loader = any(e["event"] == "loader" for e in events)
    values, sources = read_length(events, [1 if has_loader else 0] * seen, seen, finished=finished)
    settle_length(values, seen, finished=finished)
    return values, sources


def test_a_range_that_stands_still_from_one_iteration_to_the_next_counts_epochs() -> None:
    epochs = [loop("for epoch in range(args.epochs)", 6, 0)]
    values, sources = read([LOADER, *readings((1, epochs), (2, epochs))])
    assert values["epochs"] == 6
    assert sources["epochs"] == "`for epoch in range(args.epochs)`, line 1 of train.py"
    assert "planned_iterations" not in values


def test_a_range_that_advances_with_each_iteration_counts_iterations() -> None:
    values, _ = read(
        readings((1, [loop("for step in range(500)", 500, 0)]), (2, [loop("for step in range(500)", 500, 1)]))
    )
    assert values["planned_iterations"] == 500
    assert "epochs" not in values


def test_one_reading_is_enough_for_a_loop_that_began_with_the_first_iteration() -> None:
    both = [loop("for epoch in range(6)", 6, 0), loop("for i in range(100)", 100, 1)]
    values, _ = read(readings((2, both)), seen=2)
    assert (values["epochs"], values["iterations_per_epoch"]) == (6, 100)


def test_iterations_inside_a_loop_of_epochs_are_those_of_an_epoch() -> None:
    outer = loop("for epoch in range(1, 7)", 6, 0)
    inner = [loop("for i in range(0, n, bptt)", 279, position) for position in (0, 1)]
    values, _ = read(readings((1, [outer, inner[0]]), (2, [outer, inner[1]])))
    assert (values["iterations_per_epoch"], values["epochs"]) == (279, 6)


def test_a_loop_over_micro_batches_counts_one_iteration_in_four() -> None:
    at = [loop("for i in range(400)", 400, position) for position in (3, 7)]
    values, _ = read(readings((1, at[:1]), (2, at[1:])))
    assert values["planned_iterations"] == 100


def test_a_loop_over_calls_that_run_five_iterations_each() -> None:
    outer = loop("for _ in range(3)", 3, 0)
    calls = [loop("for start in range(0, 1000, 50)", 20, position) for position in (0, 1, 2)]
    values, _ = read(readings(*((5 + 5 * at, [outer, call]) for at, call in enumerate(calls))), seen=15)
    assert (values["iterations_per_epoch"], values["epochs"]) == (100, 3)


def test_a_counter_of_the_whole_run_is_not_multiplied_by_the_epochs_around_it() -> None:
    epochs = loop("for epoch in range(100)", 100, 0)
    limit = [loop("while step < 20", 20, position, resets=False) for position in (0, 1)]
    values, _ = read([LOADER, *readings((1, [epochs, limit[0]]), (2, [epochs, limit[1]]))])
    assert values["planned_iterations"] == 20
    assert values["epochs"] == 3


def test_only_a_counter_of_epochs_counts_epochs_in_a_while_loop() -> None:
    epochs = loop("while epoch < 12", 12, 0, resets=False, variable="self.epoch")
    patience = loop("if bad > 5: break", 5, 0, resets=False, variable="bad")
    values, _ = read([LOADER, *readings((1, [epochs, patience]), (2, [epochs, patience]))])
    assert values["epochs"] == 12


def test_a_progress_bar_of_each_epoch_is_not_the_whole_run() -> None:
    epochs = loop("for epoch in range(6)", 6, 0)
    bars = [loop("tqdm of 8", 8, position, resets=False, variable="bar") for position in (0, 1)]
    values, _ = read([LOADER, *readings((1, [epochs, bars[0]]), (2, [epochs, bars[1]]))])
    assert (values["epochs"], values.get("planned_iterations")) == (6, None)


def test_two_bounds_of_one_counter_are_not_multiplied() -> None:
    both = [loop("while epoch < 12", 12, 0, resets=False, variable="epoch")]
    both.append(loop("if epoch > 9: break", 9, 0, resets=False, variable="epoch"))
    values, _ = read([LOADER, *readings((1, both), (2, both))])
    assert values["epochs"] == 9


def test_one_step_on_all_data_is_an_epoch_if_the_program_calls_it_so() -> None:
    at = [loop("for epoch in range(200)", 200, position) for position in (0, 1)]
    values, _ = read(readings((1, at[:1]), (2, at[1:])))
    assert (values["iterations_per_epoch"], values["epochs"]) == (1, 200)


def test_what_drives_the_loop_is_better_evidence_than_a_name() -> None:
    epochs = [loop("for epoch in range(3)", 3, 0)]
    values, _ = read(
        [LOADER, *readings((1, epochs), (2, epochs)), named(("epochs", 90, "epochs", "argument --epochs"))]
    )
    assert values["epochs"] == 3


def test_the_trainer_is_better_evidence_than_a_loop() -> None:
    folds = [loop("for fold in range(5)", 5, 0)]
    plan = event("plan", epochs=1.5, iterations=None, source="argument num_train_epochs of the Trainer")
    values, sources = read([LOADER, plan, *readings((1, folds), (2, folds))])
    assert values["epochs"] == 1.5
    assert values["planned_iterations"] == 12
    assert sources["epochs"] == "argument num_train_epochs of the Trainer"


def test_a_name_is_used_where_no_loop_tells() -> None:
    values, sources = read([LOADER, named(("num_epochs", 40, "epochs", "variable num_epochs of the main module"))])
    assert values["epochs"] == 40
    assert sources["epochs"] == "variable num_epochs of the main module"


@pytest.mark.parametrize(
    "name",
    [
        ("max_steps", 3, "steps", "cfg.max_steps"),  # fewer than were seen
        ("epochs", 1e6, "epochs", "cfg.epochs"),  # more than anyone trains
        ("steps", 2.5, "steps", "cfg.steps"),
        ("batch_size", 64, "batch_size", "cfg.batch_size"),
    ],
)
def test_numbers_that_contradict_the_run_are_not_used(name: tuple[str, float, str, str]) -> None:
    values, _ = read([LOADER, named(name)])
    assert "epochs" not in values
    assert "planned_iterations" not in values
    assert values["micro_batch_size"] == 8


def test_a_vague_name_does_not_limit_a_known_number_of_epochs() -> None:
    values, _ = read([LOADER, named(("steps", 100, "steps", "cfg.steps"), ("epochs", 6, "epochs", "cfg.epochs"))])
    assert values["epochs"] == 6
    assert "planned_iterations" not in values


def test_without_a_loader_the_first_dimension_is_the_batch_size() -> None:
    values, sources = read([event("input", shape=[12, 64], tokens=True, passes=2)])
    assert (values["micro_batch_size"], values["accumulation_steps"], values["tokens_per_sample"]) == (12, 2, 64)
    assert sources["micro_batch_size"] == "the first dimension of what the model is given"


def test_a_named_batch_size_wins_if_it_is_a_dimension_of_the_input() -> None:
    given = event("input", shape=[35, 20], tokens=True, passes=1)
    values, sources = read([given, named(("batch_size", 20, "batch_size", "argument --batch_size"))])
    assert (values["micro_batch_size"], values["tokens_per_sample"]) == (20, 35)
    assert sources["micro_batch_size"] == "argument --batch_size"
    values, _ = read([given, named(("batch_size", 16, "batch_size", "argument --batch_size"))])
    assert values["micro_batch_size"] == 35


def test_tokens_that_the_program_names_are_iterations() -> None:
    given = event("input", shape=[10, 100], tokens=True, passes=1)
    values, _ = read([given, named(("max_tokens", 1e6, "tokens", "cfg.max_tokens"))])
    assert values["planned_iterations"] == 1000


def test_a_run_that_ended_before_its_bound_was_as_long_as_it_was() -> None:
    """Early stopping leaves the loop."""
    epochs = [loop("for epoch in range(100)", 100, 0)]
    ends = [event("pass_end", start=n, end=n) for n in range(12)]
    recorded = [LOADER, *readings((1, epochs), (2, epochs)), *ends]
    values, sources = read([*recorded, event("exit")], seen=96, finished=True)
    assert (values["epochs"], sources["epochs"]) == (12, "its passes over the data")
    steps = [loop("for step in range(500)", 500, position) for position in (0, 1)]
    values, _ = read([*readings((1, steps[:1]), (2, steps[1:])), event("exit")], seen=200, finished=True)
    assert values["planned_iterations"] == 200


def test_a_process_that_was_ended_at_once_may_have_done_more_than_was_recorded() -> None:
    """The last events of a notebook are lost with its process: its loops count."""
    epochs = [loop("for epoch in range(100)", 100, 0)]
    ends = [event("pass_end", start=n, end=n) for n in range(12)]
    values, _ = read([LOADER, *readings((1, epochs), (2, epochs)), *ends], seen=96, finished=True)
    assert values["epochs"] == 100


def test_the_last_epoch_counts_if_its_end_was_not_recorded() -> None:
    """A notebook is ended right after its last epoch."""
    ends = [event("pass_end", start=n, end=n) for n in range(39)]
    values, sources = read([LOADER, *ends], seen=320, finished=True)
    assert values["epochs"] == 40
    assert sources["epochs"] == "its passes over the data"


def test_a_batch_fetched_ahead_of_the_only_iteration_is_no_accumulation() -> None:
    values, _ = read_length([LOADER, event("input", shape=[8, 3], passes=1)], [2], 1, finished=False)
    assert values["accumulation_steps"] == 1
    assert values["iterations_per_epoch"] == 8
