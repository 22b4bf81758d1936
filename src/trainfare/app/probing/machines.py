"""Takes probes on machines that are named: at once on different machines, one after another on the same one.

Machines behind a door are measured in threads, this machine and its slices in the calling one. Profiles are saved by
the calling thread alone. An interruption ends all probes; each ends its machine before this returns.
"""

import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.catalog.own_clusters import learn_cluster_of, own_partitions
from trainfare.app.catalog.own_hosts import destination_of, is_known, learn_host
from trainfare.app.ids import new_id
from trainfare.app.probing.distant import (
    ENDING_SECONDS,
    FEWEST_SECONDS,
    DistantProbe,
    MeasuredElsewhere,
    ProbeCancelledError,
    ProbeStatus,
)
from trainfare.app.probing.ledger import Ledger
from trainfare.app.profiling.failures import ProfilingError, ProfilingInterruptedError
from trainfare.app.profiling.options import ProfileOptions
from trainfare.app.profiling.profile import profile_command, save_measurement
from trainfare.app.programs.data import read_data
from trainfare.app.programs.sources import read_program
from trainfare.app.running.doors import open_door, open_doors
from trainfare.app.running.run import owner_name
from trainfare.app.running.send import check_sending
from trainfare.catalog.own_clusters import CLUSTERS
from trainfare.catalog.own_machines import HOSTS
from trainfare.errors import TrainfareError, UsageError
from trainfare.model.machine import HERE_PROVIDER
from trainfare.model.offer import Candidate, Offer
from trainfare.model.probing import PROBE_LAUNCH, MachineProbe
from trainfare.model.program import Program
from trainfare.model.run import Run
from trainfare.model.supplies import DataSource, Install
from trainfare.profiler.command import probe_blocking_flag
from trainfare.profiler.workspace import Workspace
from trainfare.settings import Settings

MOST_SECONDS = 1800.0
"""The longest time of a program in a probe, unless the user says otherwise or it trains until stable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTerms:
    """The terms of all probes of a call; None means no limit, or as for runs."""

    budget_usd: float | None = None
    """The most that all probes together may cost, by the prices of their machines."""
    setup: str | None = None
    secrets: tuple[str, ...] = ()
    install: Install | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    """Data that the program reads on hosts, as `NAME=SOURCE`."""
    allow_private: bool = False
    """URLs of data may lead to addresses that are not public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTask:
    """One measurement: a program on a machine, with the options of its profile."""

    machine: str
    command: tuple[str, ...]
    options: ProfileOptions
    batch_size: int | None = None
    expected_seconds: float | None = None
    """The time that it is expected to take; None if that is unknown."""


def read_command(command: Sequence[str], terms: ProbeTerms, settings: Settings) -> tuple[Program, ProbeTerms]:
    """The program of a command, an archive or a task file, and the terms with what is stated there."""
    source = read_program(command, settings)
    return source.program, replace(
        terms,
        setup=terms.setup or source.setup,
        variables={**source.variables, **terms.variables},
        secrets=tuple(dict.fromkeys((*source.secrets, *terms.secrets))),
        data=(*source.data, *terms.data),
    )


def with_time_limit(options: ProfileOptions) -> ProfileOptions:
    """The options with the longest time of a probe, if they have none and do not train until stable."""
    if options.longest_seconds is not None or options.until_stable:
        return options
    return replace(options, most_seconds=MOST_SECONDS)


def resolve_machines(names: Sequence[str], settings: Settings) -> tuple[str, ...]:
    """The keys of the machines, each once. `UsageError` for one that no door leads to."""
    keys = tuple(dict.fromkeys(_resolve(name.strip(), settings) for name in names if name.strip()))
    if not keys:
        raise UsageError("at least one machine must be named.", field="on")
    doors = open_doors(settings)
    for key in keys:
        provider = key.partition("/")[0]
        if provider not in doors:
            raise UsageError(
                f"Trainfare cannot start a program on {key}: it reaches the machines of {', '.join(sorted(doors))}.",
                field="on",
            )
    return keys


def learn_machines(keys: Sequence[str], settings: Settings) -> dict[str, str]:
    """Ask hosts and clusters that are used for the first time what they are, all at once. Returns what went wrong, by
    machine."""
    failures: dict[str, str] = {}

    def learn(key: str) -> None:
        try:
            (learn_cluster_of if key.partition("/")[0] == CLUSTERS else learn_host)(settings, key)
        except TrainfareError as error:
            failures[key] = error.message

    threads = [threading.Thread(target=learn, args=(key,), daemon=True) for key in keys if _is_unknown(key, settings)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def _is_unknown(key: str, settings: Settings) -> bool:
    """True for a host or a partition that never described itself."""
    provider = key.partition("/")[0]
    if provider == CLUSTERS:
        return key not in own_partitions(settings)
    return provider == HOSTS and not is_known(settings, key)


def offer_of(key: str, settings: Settings) -> Offer:
    """The offer of a machine that can be launched."""
    if key.partition("/")[0] == HERE_PROVIDER:
        return open_catalog(settings).find(key, field="on")[0]
    door = open_door(settings, key)
    offers = [offer for offer in door.offers() if offer.vm_type.key == key]
    if not offers:
        raise UsageError(f"there is no machine {key} to start a program on.", field="on")
    return min(offers, key=lambda offer: offer.usd_per_hour)


def _resolve(name: str, settings: Settings) -> str:
    """A name with its provider is taken as it is if it is a host: it need not be in a file."""
    provider = name.partition("/")[0]
    if "/" in name and provider != HERE_PROVIDER:
        return name
    return open_catalog(settings).find(name, field="on")[0].vm_type.key


@dataclass(slots=True, kw_only=True)
class ProbeCrew:
    """Takes several probes; `take` may be called once."""

    directory: Path
    terms: ProbeTerms
    settings: Settings
    on_status: Callable[[ProbeStatus], None] = lambda _status: None
    on_probe: Callable[[MachineProbe], None] = lambda _probe: None
    _ledger: Ledger = field(init=False)
    _data: tuple[DataSource, ...] = ()
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _results: "queue.SimpleQueue[tuple[ProbeTask, DistantProbe | None, Any] | None]" = field(
        default_factory=queue.SimpleQueue
    )

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.terms.budget_usd)

    def take(self, tasks: Sequence[ProbeTask]) -> tuple[MachineProbe, ...]:
        """The results, in the order of the tasks. A probe that fails is a result too."""
        for task in tasks:
            _require_probe_loads(task)
        groups: dict[str, list[ProbeTask]] = {}
        for task in tasks:
            groups.setdefault(_place(task.machine, self.settings), []).append(task)
        here = groups.pop(HERE_PROVIDER, [])
        if groups:
            self._check_sending(tasks[0])
        threads = [threading.Thread(target=self._work, args=(group,), daemon=True) for group in groups.values()]
        done: dict[int, MachineProbe] = {}
        try:
            for thread in threads:
                thread.start()
            for task in here:
                try:
                    result = self._take_here(task)
                except KeyboardInterrupt:
                    self._cancelled.set()
                    result = MachineProbe(machine=task.machine, failure="it was interrupted.", interrupted=True)
                self._keep(task, result, done)
            self._collect(len(threads), done)
        finally:
            self._cancelled.set()  # whatever happened, no machine is left running
            for thread in threads:
                thread.join()
        return tuple(done[id(task)] for task in tasks)

    def _check_sending(self, task: ProbeTask) -> None:
        """`UsageError` for what cannot be sent, before anything is launched."""
        for name in self.terms.secrets:
            if name not in os.environ:
                raise UsageError(f"The secret {name} is not set in the environment.", field="secret")
        self._data = read_data(
            self.terms.data, self.directory, allow_private=self.terms.allow_private, settings=self.settings
        )
        check_sending(Program(command=task.command, directory=str(self.directory)), self._data)

    def _collect(self, working: int, done: dict[int, MachineProbe]) -> None:
        """Save what the threads have measured, until all have ended."""
        while working:
            try:
                result = self._results.get()
                if result is None:
                    working -= 1
                else:
                    task, probe, outcome = result
                    self._keep(task, self._conclude(task, probe, outcome), done)
            except KeyboardInterrupt:
                if self._cancelled.is_set():
                    raise
                self._cancelled.set()

    def _keep(self, task: ProbeTask, result: MachineProbe, done: dict[int, MachineProbe]) -> None:
        done[id(task)] = replace(result, batch_size=task.batch_size)
        self.on_status(ProbeStatus(machine=task.machine, stage="ended"))
        self.on_probe(done[id(task)])

    # In a thread.

    def _work(self, group: Sequence[ProbeTask]) -> None:
        """Measure one after another on one machine. What goes wrong is a result, also a fault of ours: it must not
        keep others from being ended."""
        for task in group:
            probe = None
            outcome: object
            try:
                probe = self._distant_probe(task)
                outcome = probe.take()
            except Exception as error:  # noqa: BLE001 # it is raised again in the calling thread if it is not ours
                outcome = error
            self._results.put((task, probe, outcome))
        self._results.put(None)

    def _distant_probe(self, task: ProbeTask) -> DistantProbe:
        door = open_door(self.settings, task.machine)
        offer = offer_of(task.machine, self.settings)
        run = Run(
            id=f"{PROBE_LAUNCH}{new_id('')}{new_id('')}",
            made_at=datetime.now(UTC),
            owner=owner_name(self.settings),
            program=Program(command=task.command, directory=str(self.directory)),
            candidate=Candidate(offer=offer, nodes=1, batch_size=None),
            results_directory=str(self.directory),
            setup=self.terms.setup,
            secrets=self.terms.secrets,
            install=self.terms.install,
            variables=self.terms.variables,
            data=self._data,
        )
        return DistantProbe(
            door=door,
            run=run,
            options=task.options,
            settings=self.settings,
            ledger=self._ledger,
            cancelled=self._cancelled,
            expected_seconds=task.expected_seconds,
            on_status=self.on_status,
        )

    # In the calling thread.

    def _conclude(self, task: ProbeTask, probe: DistantProbe | None, outcome: object) -> MachineProbe:
        """Save what was measured elsewhere."""
        result = MachineProbe(machine=task.machine)
        if probe is not None:
            result = replace(result, seconds=probe.seconds, usd=probe.usd, left_behind=probe.left_behind)
        if isinstance(outcome, ProbeCancelledError):
            return replace(result, failure=outcome.message, interrupted=True)
        if isinstance(outcome, TrainfareError):
            return replace(result, failure=outcome.message)
        if not isinstance(outcome, MeasuredElsewhere):
            assert isinstance(outcome, BaseException)  # noqa: S101 # a thread puts nothing else
            raise outcome
        options, remark = task.options, probe.remark if probe is not None else None
        if probe is not None and outcome.run.ending == "time_limit":
            options = replace(options, most_seconds=probe.program_seconds)
        result = self._saved(
            result,
            lambda: save_measurement(
                outcome.run,
                Workspace(directory=self.directory, is_copy=False),
                program=Program(command=task.command, directory=str(self.directory)),
                machine=None,
                options=options,
                settings=self.settings,
                host=outcome.host,
            ),
        )
        return replace(result, failure=f"{remark} {result.failure}") if remark and result.failure else result

    def _take_here(self, task: ProbeTask) -> MachineProbe:
        """Measure on this machine, or on a slice of it."""
        result = MachineProbe(machine=task.machine)
        if self._cancelled.is_set():
            return replace(result, failure="it was interrupted before the program was started.", interrupted=True)
        try:
            price = offer_of(task.machine, self.settings).usd_per_hour
        except TrainfareError as error:
            return replace(result, failure=error.message)
        longest = task.options.longest_seconds or MOST_SECONDS
        least = task.expected_seconds or FEWEST_SECONDS
        name = f"here/{id(task)}"
        until = self._ledger.claim(name, price, seconds=longest + ENDING_SECONDS, least=least)
        if until is None:
            return replace(result, failure="it was not started: it costs more than what is left of the budget.")
        began = self._ledger.clock()
        options = task.options
        if price and self.terms.budget_usd is not None:
            options = replace(options, most_seconds=until - ENDING_SECONDS - began)
        options = replace(options, directory=self.directory, on=task.machine, settings=self.settings)
        self.on_status(ProbeStatus(machine=task.machine, stage="measuring"))
        options = replace(options, on_progress=self._progress_of(task.machine))
        try:
            result = self._saved(result, lambda: profile_command(task.command, options))
        finally:
            usd = self._ledger.settle(name)
        if result.interrupted:
            self._cancelled.set()
        return replace(result, usd=usd, seconds=self._ledger.clock() - began)

    def _progress_of(self, machine: str) -> Callable[[Any], None]:
        return lambda progress: self.on_status(ProbeStatus(machine=machine, stage="measuring", progress=progress))

    def _saved(self, result: MachineProbe, save: Callable[[], Any]) -> MachineProbe:
        try:
            profile = save()
        except ProfilingError as error:
            interrupted = isinstance(error, ProfilingInterruptedError)
            return replace(result, profile=error.profile, failure=error.message, interrupted=interrupted)
        except TrainfareError as error:
            return replace(result, failure=error.message)
        return replace(result, profile=profile, interrupted=profile.ending == "interrupted")


def _place(machine: str, settings: Settings) -> str:
    """Machines of the same place are measured one after another."""
    provider = machine.partition("/")[0]
    if provider == HERE_PROVIDER:
        return HERE_PROVIDER
    return f"{HOSTS}:{destination_of(settings, machine)}" if provider == HOSTS else machine


def _require_probe_loads(task: ProbeTask) -> None:
    if (flag := probe_blocking_flag(task.command)) is not None:
        raise UsageError(
            f"the program cannot be measured: with {flag} Python ignores PYTHONPATH or its site hooks, through which "
            f"the probe is loaded. Remove {flag} from the command; the program itself need not change.",
            field="command",
        )
