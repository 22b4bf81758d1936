"""How long the program means to train, and in which batches: from the events of the probe. Pure functions.

Each number comes from the first of these that has it, and its source is named:

1. the trainer or `fit` that runs the loop (Transformers, Lightning, Keras), and the loader that gives the batches;
2. the loops around the iteration: what drives the loop is better evidence than a name;
3. numbers with the usual names: arguments, configurations, variables of the program.

A loop counts iterations if it advances by a whole number with each of them; any other loop around the iteration counts
epochs. A number that contradicts what was measured is not used: fewer iterations or epochs than were seen, a batch size
that is not a dimension of what the model is given, or more epochs or iterations than anyone trains.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

Event = dict[str, Any]

MAX_EPOCHS = 100_000
MAX_ITERATIONS = 100_000_000
"""A loop that goes further has no end of its own."""
GIVEN = "the first dimension of what the model is given"
VAGUE_NAMES = ("steps", "iters", "iterations", "num_steps", "n_steps", "batch", "max_iter")
"""Names that may stand for something else, such as the steps of an epoch: used only if nothing else is known."""


@dataclass(frozen=True, slots=True)
class LoopFact:
    """A loop around the iteration, and how far it advances in one iteration."""

    text: str
    where: str
    variable: str
    total: int
    per_iteration: float
    """The change of its counter in one iteration: 0 for a loop over epochs."""
    resets: bool
    """It counts anew in each round of the loop around it."""
    is_steady: bool = False
    """It advanced equally from each reading to the next."""

    @property
    def counts_iterations(self) -> bool:
        """It advances with each iteration, or with each call that runs several."""
        rounds = self.per_iteration if self.per_iteration >= 1 else 1 / (self.per_iteration or math.inf)
        return rounds >= 1 and math.isclose(rounds, round(rounds)) and (self.per_iteration >= 1 or self.is_steady)

    @property
    def counts_epochs(self) -> bool:
        """A range around the iteration, or a counter of that name: others may count failures or retries."""
        inside = self.per_iteration >= 1 or self.counts_iterations
        return not inside and (self.resets or "epoch" in self.variable.lower())

    @property
    def iterations(self) -> int:
        """The iterations of one run of this loop."""
        return math.ceil(self.total / (self.per_iteration or 1.0))

    @property
    def source(self) -> str:
        return f"`{self.text}`, {self.where}"


@dataclass(slots=True)
class Length:
    """The length that is known so far; what is set first stays."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def set(self, name: str, value: float | None, source: str) -> None:
        if value and self.values.get(name) is None:
            self.values[name], self.sources[name] = value, source

    def replace(self, name: str, value: float, source: str) -> None:
        self.values[name], self.sources[name] = value, source

    def __getitem__(self, name: str) -> Any:
        return self.values.get(name)


def read_length(
    events: Sequence[Event], batches: Sequence[int], iterations_seen: int, *, finished: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields of a Profile that tell its length and batch size, and the source of each.

    `batches` are those that each iteration took from a loader. Iterations per epoch that only the course of the run
    tells, such as its passes and validations, are added by the caller.
    """
    loader, plan, given = (last_event(events, kind) for kind in ("loader", "plan", "input"))
    loops = list(read_loops(events))
    length = Length()
    if len(batches) == 1 and given.get("passes"):
        batches = [min(batches[0], given["passes"])]  # a loader may be asked for a batch ahead of the first iteration
    _read_loader(length, loader, batches)
    planned = plan.get("source", "the trainer")
    length.set("epochs", plan.get("epochs"), planned)
    length.set("planned_iterations", plan.get("iterations"), planned)
    drives_itself = bool(plan.get("epochs") or plan.get("iterations"))
    if not drives_itself:
        _read_loops(length, loops, iterations_seen)
    named = [value for event in events if event["event"] == "arguments" for value in event["values"]]
    _read_batch_size(length, given, named)
    if not drives_itself:
        _read_names(length, named, iterations_seen, passes=count_passes(events))
    if finished and not drives_itself:
        is_whole = any(event["event"] == "exit" for event in events)
        _read_finished_run(length, count_passes(events), iterations_seen, is_whole=is_whole)
    return length.values, length.sources


def _read_finished_run(length: Length, passes: int, seen: int, *, is_whole: bool) -> None:
    """The length of a run that ended by itself: what it did, if that is less than its loops would have done. A program
    whose process was ended at once, as that of a notebook is, may have done more than was recorded: then its loops
    count."""
    if not is_whole and (length["planned_iterations"] or length["epochs"]):
        return
    complete = max(passes, int(seen // (length["iterations_per_epoch"] or math.inf)))
    if length["planned_iterations"] and seen < length["planned_iterations"]:
        length.replace("planned_iterations", seen, "the run, which ended by itself")
    elif length["epochs"] and 0 < complete < length["epochs"] - 1:
        length.replace("epochs", complete, "its passes over the data")
    elif not length["planned_iterations"]:
        length.set("epochs", complete, "its passes over the data")


def settle_length(values: dict[str, Any], iterations_seen: int, *, finished: bool) -> None:
    """Make epochs and iterations agree once the length of an epoch is known: the one that ends first counts."""
    epochs, iterations, length = (values.get(name) for name in ("epochs", "planned_iterations", "iterations_per_epoch"))
    if length is None and finished and epochs and not iterations and iterations_seen % epochs == 0:
        values["iterations_per_epoch"] = length = int(iterations_seen / epochs)
    if length is None:
        return
    if iterations:
        if epochs and epochs * length <= iterations:
            values["planned_iterations"] = iterations = None  # the epochs end first
        else:
            values["epochs"] = -(-iterations // length)
    if iterations is None and epochs and epochs != int(epochs):
        values["planned_iterations"] = math.ceil(epochs * length)


def count_passes(events: Iterable[Event]) -> int:
    """The complete passes over the data."""
    return sum(event["event"] == "pass_end" for event in events)


def read_loops(events: Sequence[Event]) -> Iterator[LoopFact]:
    """The loops around the iterations, the outermost first."""
    readings = [event for event in events if event["event"] == "loops"]
    by_key: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for reading in readings:
        for loop in reading["loops"]:
            by_key.setdefault(loop["key"], []).append((reading["n"], loop))
    for found in by_key.values():
        rates = _advances([(n, loop["position"]) for n, loop in found])
        last = found[-1][1]
        # A loop that had another bound in between was left and entered anew.
        if rates and 0 < last["total"] <= MAX_ITERATIONS:
            yield LoopFact(
                text=last["text"],
                where=last["where"],
                variable=last["variable"],
                total=last["total"],
                per_iteration=rates.most_common(1)[0][0],
                resets=last["resets"],
                is_steady=len(rates) == 1 and rates.total() > 1,
            )


def _advances(positions: Sequence[tuple[int, int]]) -> Counter[float]:
    """The changes of position in one iteration; readings between which a loop began anew do not count.

    With one reading only, the loop is taken to have begun with the first iteration.
    """
    if len(positions) == 1:
        positions = [(1, 0), *positions]
    return Counter(
        (later - earlier) / (n - before)
        for (before, earlier), (n, later) in pairwise(positions)
        if n > before and later >= earlier
    )


def _read_loader(length: Length, loader: Event, batches: Sequence[int]) -> None:
    """Batch size, samples and iterations of an epoch. A step may use several batches (gradient accumulation); if steps
    use less than one, the length of an epoch is unknown."""
    source = "the data loader" if loader.get("waits", True) else GIVEN
    length.set("micro_batch_size", loader.get("batch_size"), source)
    length.set("samples", loader.get("samples"), source)
    batches_per_step = median(batches) if batches else 0
    if loader and batches_per_step >= 1:
        accumulated = round(batches_per_step)
        length.values["accumulation_steps"] = accumulated
        batches_per_epoch = loader.get("length")
        length.set("iterations_per_epoch", batches_per_epoch and -(-batches_per_epoch // accumulated), source)


def _read_loops(length: Length, loops: Sequence[LoopFact], seen: int) -> None:
    driving = [loop for loop in loops if loop.counts_iterations and (loop.resets or loop.iterations >= seen)]
    if not driving:
        _set_epochs(length, [loop for loop in loops if loop.counts_epochs])
        return
    # A progress bar that is made anew in each epoch counts the batches of one.
    is_epoch = any(loop.counts_epochs for loop in loops)
    of_epoch = length["iterations_per_epoch"] if is_epoch else None
    whole_run = [loop for loop in driving if not loop.resets and loop.iterations != of_epoch]
    inner = [loop for loop in driving if loop.resets]
    if whole_run:
        shortest = min(whole_run, key=lambda loop: loop.iterations)
        length.set("planned_iterations", shortest.iterations, shortest.source)
        _set_epochs(length, [loop for loop in loops if loop.counts_epochs])
        return
    if not inner:
        _set_epochs(length, [loop for loop in loops if loop.counts_epochs])
        return
    loop = min(inner, key=lambda one: one.iterations)
    around = [one for one in loops[: loops.index(loop)] if one.counts_epochs]
    if around:
        if length["iterations_per_epoch"] not in (None, loop.iterations):  # its rounds are not those of the loader
            rounds = math.prod(one.total for one in around)
            length.set("planned_iterations", rounds * loop.iterations, f"{around[-1].source} and {loop.source}")
            return
        length.set("iterations_per_epoch", loop.iterations, loop.source)
        _set_epochs(length, around)
    elif "epoch" in loop.variable.lower() and length["iterations_per_epoch"] in (None, 1):
        length.set("iterations_per_epoch", 1, loop.source)
        _set_epochs(length, [loop])
    elif loop.iterations >= seen:
        length.set("planned_iterations", loop.iterations, loop.source)


def _set_epochs(length: Length, loops: Sequence[LoopFact]) -> None:
    """The rounds of all loops around an epoch; of two bounds of one counter, the one that is reached first."""
    by_counter: dict[str, LoopFact] = {}
    for loop in loops:
        known = by_counter.get(loop.variable)
        by_counter[loop.variable] = loop if known is None or loop.total < known.total else known
    loops = list(by_counter.values())
    rounds = math.prod(loop.total for loop in loops)
    if loops and rounds <= MAX_EPOCHS:
        length.set("epochs", rounds, " and ".join(loop.source for loop in loops))


def _read_batch_size(length: Length, given: Event, named: Sequence[Mapping[str, Any]]) -> None:
    """Without a loader: the batch size that has a name and is a dimension of the input, else its first dimension."""
    shape = given.get("shape")
    if not shape:
        return
    known = length["micro_batch_size"]
    if known is None:
        for one in named:
            if one["kind"] == "batch_size" and one["value"] in shape[:2]:
                length.set("micro_batch_size", one["value"], one["source"])
                break
        length.set("micro_batch_size", shape[0], GIVEN)
        length.values["accumulation_steps"] = given.get("passes") or 1
    if given.get("tokens") and len(shape) == 2:
        size = length["micro_batch_size"]
        rows = size if size in shape else shape[0]
        length.set("tokens_per_sample", math.prod(shape) // rows, "the sequence that the model is given")


def _read_names(length: Length, named: Sequence[Mapping[str, Any]], seen: int, *, passes: int) -> None:
    """Epochs or iterations that have one of the usual names; vague names only if nothing else is known."""
    for vague in (False, True):
        for one in named:
            if (one["name"] in VAGUE_NAMES) is not vague:
                continue
            known = length["epochs"] or length["planned_iterations"]
            if one["kind"] == "epochs" and not known and max(1, passes) <= one["value"] <= MAX_EPOCHS:
                length.set("epochs", one["value"], one["source"])
            elif one["kind"] == "steps" and _is_plausible_step_count(length, one, seen):
                length.set("planned_iterations", one["value"], one["source"])
            elif one["kind"] == "tokens" and not known and (tokens := _tokens_per_iteration(length)):
                length.set("planned_iterations", math.ceil(one["value"] / tokens), one["source"])


def _is_plausible_step_count(length: Length, one: Mapping[str, Any], seen: int) -> bool:
    """A whole number of at least the iterations seen. Next to a number of epochs only a limit counts: `max_steps`."""
    value = one["value"]
    if value != int(value) or not seen <= value <= MAX_ITERATIONS or length["planned_iterations"]:
        return False
    return not length["epochs"] or (one["name"].startswith("max_") and one["name"] not in VAGUE_NAMES)


def _tokens_per_iteration(length: Length) -> int | None:
    size, tokens = length["micro_batch_size"], length["tokens_per_sample"]
    return size * tokens * (length["accumulation_steps"] or 1) if size and tokens else None


def last_event(events: Iterable[Event], kind: str) -> Event:
    """The last event of a kind; an empty one if there is none."""
    found: Event = {}
    for event in events:
        if event["event"] == kind:
            found = event
    return found
