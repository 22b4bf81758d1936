"""Start-up times for estimates, from the user's own runs."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from trainfare.errors import StoreError
from trainfare.estimator.cost.bill import SETUP_SECONDS
from trainfare.estimator.cost.start_times import StartTime, predict_boot, predict_for_program
from trainfare.model.bill import Billing, MeasuredStart, Terms
from trainfare.model.interval import Interval
from trainfare.model.offer import Offer
from trainfare.model.program import Program
from trainfare.model.run import Run
from trainfare.runner.observed import AttemptTimes, attempts_of
from trainfare.store.history import History

NEWEST_RUNS = 20
"""Older runs are not read: the machines, the networks and the programs of today count, and each takes 2 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedStarts:
    """The times of the user's runs that their programs did not take, each with its machine and its program."""

    boot: tuple[StartTime, ...] = ()
    setup: tuple[StartTime, ...] = ()
    collecting: tuple[StartTime, ...] = ()

    @property
    def machines(self) -> tuple[str, ...]:
        return tuple(sorted({time.machine for time in (*self.boot, *self.setup, *self.collecting)}))

    @property
    def providers(self) -> frozenset[str]:
        return frozenset(machine.partition("/")[0] for machine in self.machines)


NO_STARTS = ObservedStarts()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStarts:
    """The start-up times of one machine, for a program that has not run on it."""

    machine: str
    measured: MeasuredStart


def starts_by_machine(starts: ObservedStarts) -> tuple[MachineStarts, ...]:
    """The start-up times of each machine that runs were on, without assumptions."""
    return tuple(
        MachineStarts(machine=machine, measured=measured_start(starts, machine, _NEW_PROGRAM, _UNKNOWN))
        for machine in starts.machines
    )


def observed_starts(history: History) -> ObservedStarts:
    """The start-up times of the newest runs that have ended. Damaged ones are left out."""
    found: dict[str, list[StartTime]] = {"boot": [], "setup": [], "collecting": []}
    for run, attempt in _ended_attempts(history):
        for name, seconds in (
            ("boot", attempt.boot_seconds),
            ("setup", attempt.setup_seconds),
            ("collecting", attempt.collecting_seconds),
        ):
            if seconds:  # none if the clock at home was set meanwhile
                found[name].append(
                    StartTime(machine=attempt.machine, program=program_key(run.program), seconds=seconds)
                )
    return ObservedStarts(**{name: tuple(times) for name, times in found.items()})


def program_key(program: Program) -> str:
    return " ".join(program.command)


def terms_with_starts(
    find_terms: Callable[[Offer], Terms], starts: ObservedStarts, program: str
) -> Callable[[Offer], Terms]:
    """The terms of offers, with the start-up times of a program that runs have measured."""
    if not starts.machines:
        return find_terms
    known: dict[tuple[str, str, bool], Terms] = {}
    measured_machines, providers = frozenset(starts.machines), starts.providers

    def find(offer: Offer) -> Terms:
        machine, provider = offer.vm_type.key, offer.vm_type.provider
        terms = find_terms(offer)
        if provider not in providers:
            return terms
        key = (machine if machine in measured_machines else provider, terms.provider, offer.market == "own")
        if key not in known:
            known[key] = replace(terms, measured=measured_start(starts, machine, program, terms))
        return known[key]

    return find


def measured_start(starts: ObservedStarts, machine: str, program: str, terms: Terms) -> MeasuredStart:
    """The start-up times of a program on a machine."""
    own = not terms.boot_seconds.high
    nothing = Interval.exactly(0.0)
    return MeasuredStart(
        boot=predict_boot(starts.boot, machine, assumed=terms.boot_seconds),
        setup=predict_for_program(starts.setup, machine, program, assumed=nothing if own else SETUP_SECONDS),
        collecting=predict_for_program(starts.collecting, machine, program, assumed=nothing),
    )


_NEW_PROGRAM = "\0"
_UNKNOWN = Terms(provider="unknown", billing=Billing(), boot_seconds=Interval.exactly(0.0))


def _ended_attempts(history: History) -> Iterator[tuple[Run, AttemptTimes]]:
    for run_id in history.facts.ended_runs(limit=NEWEST_RUNS):
        with suppress(StoreError):  # the history reports it as damaged
            run, facts = history.runs.get(run_id), history.facts.of(run_id)
            seen = history.observations.of(run_id, kinds=("setup", "program"))
            for attempt in attempts_of(run, facts, seen):
                yield run, attempt
