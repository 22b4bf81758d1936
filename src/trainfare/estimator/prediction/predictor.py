"""How long an iteration takes on a machine: the best basis that the profiles give, and what it leans on.

measured      a profile of this program was taken on that machine type, at that batch size
scaled        … there at another batch size, or on other GPUs: by what its operations take on them, and by what other
              programs gain between them (`two_ways.py`)
extrapolated  … on no GPU at all: the model of `physics.py` alone

    t(B) = t_device(operations at B) + wait for data · B/B₀          on one GPU
    t    = what `links.py` makes of t(B/K)                           on K GPUs that add up their gradients

A profile that was taken on a CPU is used for its operations, its start-up and its wait for data, never as an anchor of
the speed of a GPU; of another slice of the same machine it says what `slices.py` makes of it.

Initialisation, data loading and what the first iteration takes beyond a later one are the host's. Off the machine they
were measured on they are carried over as they were, within a factor of two.

Errors are independent of one another, so factors of error multiply as their logarithms add up as squares.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from trainfare.estimator.batch.larger import SHIPPED
from trainfare.estimator.batch.operations import operations_by_batch
from trainfare.estimator.batch.step_time import time_at
from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.gpu.by_operator import transferred
from trainfare.estimator.gpu.by_times import Mover, Timed
from trainfare.estimator.gpu.combined import both_ways
from trainfare.estimator.gpu.physics import StepModel, StepSeconds
from trainfare.estimator.memory import memory_need
from trainfare.estimator.parallel.links import HALF, Cluster, per_gpu_batch
from trainfare.estimator.parallel.ring import MeasuredStep, Placement, RingFit, fit_ring
from trainfare.estimator.step.measured import StepTimes, measured_times
from trainfare.estimator.step.slices import CpuSlice, predict_iteration, slice_measurements, predict_step_times
from trainfare.model.estimate import Basis, Limit
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu, VmType
from trainfare.model.measurement import OperatorProfile
from trainfare.model.prediction import Part
from trainfare.model.profile import Operation, Profile

FOREIGN_FACTOR = 1.5
"""What other frameworks may do better or worse than PyTorch's kernels, of which the coefficients are; an assumption."""
HOST_FACTOR = 2.0
"""How much faster or slower another host may be at the host's work; a guess until hosts are modelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One iteration on one GPU, or on several."""

    seconds: Interval
    basis: Basis
    profile: Profile
    """The one it leans on; the first of `runs` where several were measured there."""
    runs: int = 1
    limited_by: Limit | None = None
    parts: tuple[Part, ...] = ()
    leans_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What the profiles say about one machine, before it is multiplied by epochs and a price."""

    iteration: Iteration
    times: StepTimes

    @property
    def profile(self) -> Profile:
        return self.iteration.profile

    @property
    def basis(self) -> Basis:
        return self.iteration.basis


@dataclass(frozen=True, slots=True, kw_only=True)
class _Elsewhere:
    """What a profile measured on a GPU that we know."""

    profile: Profile
    gpu: Gpu
    measured: Interval
    wait: float
    """For data, in each iteration."""

    @property
    def device(self) -> float:
        return self.measured.value - self.wait


class StepTimePredictor:
    """Answers for many machines from the same profiles; what is alike is reckoned once.

    `gpu_called` finds the facts of a GPU by the name that a driver gives it. Without a calibration only what was
    measured is believed. `targets` are the GPUs that will be asked for: the model answers for all of them at once.
    `cores_of` says how many cores a slice of the machine at hand has.
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        *,
        gpu_called: Callable[[str], Gpu | None] = lambda _: None,
        calibration: Calibration | None = None,
        targets: Iterable[Gpu] = (),
        cores_of: Callable[[str], float | None] = lambda _: None,
    ) -> None:
        self.profiles = tuple(profiles)
        self._gpu_called = gpu_called
        self._calibration = calibration
        self._cores_of = cores_of
        self._targets = {gpu.name: gpu for gpu in targets}
        self._models: dict[str | None, tuple[tuple[str, ...], StepModel]] = {}
        self._steps: dict[int | None, dict[str, StepSeconds]] = {}
        self._traced = tuple(p for p in self.profiles if p.operations)
        sized = any(p.micro_batch_size is not None for p in self._traced)
        self._sized = operations_by_batch(self._traced) if sized else None
        self._iterations: dict[tuple[object, ...], Iteration | None] = {}
        self._beliefs: dict[tuple[object, ...], Belief | None] = {}
        self._clusters: dict[tuple[object, ...], Cluster] = {}
        self._sending: dict[float, Part] = {}
        self._times: dict[str, StepTimes] = {}
        self._hosts: dict[str, tuple[Interval, Interval]] = {}
        self._movers: dict[tuple[str, ...], Mover] = {}
        self._there: dict[str, list[Profile]] = {}
        for profile in self.profiles:
            if profile.host.vm_type is not None and profile.steady_iteration_seconds:
                self._there.setdefault(profile.host.vm_type, []).append(profile)

    def believe(
        self, vm_type: VmType, *, nodes: int = 1, gpus: int = 1, batch_size: int | None = None
    ) -> Belief | None:
        """`gpus` of each node share the work, `batch_size` is of all together. None where nothing can be said."""
        # Inside one machine nothing goes over its network.
        network = vm_type.network_gb_per_second if nodes > 1 else None
        key = (self._where(vm_type), vm_type.gpu and vm_type.gpu.name, nodes, gpus, batch_size, network)
        if key not in self._beliefs:
            iteration = self._iteration(vm_type, nodes, max(1, gpus), batch_size)
            self._beliefs[key] = None if iteration is None else self._belief(iteration, vm_type)
        return self._beliefs[key]

    def _where(self, vm_type: VmType) -> str | None:
        """Machine types count only where something was measured on them, or where they are no more than cores."""
        return vm_type.key if vm_type.gpu is None or self._measured_on(vm_type) else None

    def _iteration(self, vm_type: VmType, nodes: int, gpus: int, batch_size: int | None) -> Iteration | None:
        workers = nodes * gpus
        there = [p for p in self._measured_on(vm_type) if p.world_size == workers and nodes == 1]
        exact = [p for p in there if batch_size is None or p.effective_batch_size == batch_size]
        if exact:
            return _measured(exact)
        # The number of accumulated passes stays as profiled: what changes is how many samples each has.
        passes = self.profiles[0].accumulation_steps
        per_pass = None if batch_size is None else max(1, round(batch_size / passes))
        if workers == 1:
            return self._alone(vm_type, per_pass)
        return self._together(vm_type, nodes, gpus, per_pass)

    def _times_of(self, profile: Profile) -> StepTimes:
        if profile.id not in self._times:
            self._times[profile.id] = measured_times(profile)
        return self._times[profile.id]

    def _measured_on(self, vm_type: VmType) -> list[Profile]:
        return self._there.get(vm_type.key, []) if self._there else []

    # On one GPU.

    def _alone(self, vm_type: VmType, batch_size: int | None) -> Iteration | None:
        """`batch_size` is of one process."""
        key = (self._where(vm_type), vm_type.gpu and vm_type.gpu.name, batch_size)
        if key not in self._iterations:
            self._iterations[key] = self._on_one(vm_type, batch_size)
        return self._iterations[key]

    def _on_one(self, vm_type: VmType, batch_size: int | None) -> Iteration | None:
        there = [p for p in self._measured_on(vm_type) if p.world_size == 1]
        if there and batch_size is not None:
            return self._other_batch(there, vm_type, batch_size)
        if vm_type.gpu is None:
            return self._on_slice(vm_type, batch_size)
        if self._calibration is None:
            return None
        known = self._elsewhere(vm_type.gpu, batch_size)
        return self._scaled(known, vm_type.gpu, batch_size) if known else self._extrapolated(vm_type.gpu, batch_size)

    def _on_slice(self, vm_type: VmType, batch_size: int | None) -> Iteration | None:
        """More or fewer cores of a machine that was measured."""
        cores = self._cores_of(vm_type.key)
        alike = [p for p in self.profiles if batch_size is None or _per_pass(p) == batch_size]
        seen = slice_measurements(alike, self._cores_of) if cores else ()
        if not seen or not cores:
            return None
        slices = ", ".join(profile.host.vm_type or "all of it" for profile, _ in seen)
        return Iteration(
            seconds=predict_iteration(CpuSlice.of_cores(cores), [each for _, each in seen]),
            basis="scaled",
            profile=seen[0][0],
            leans_on=(f"measured on the same machine ({slices}), moved to {cores:g} of its cores",),
        )

    def _source(self, profile: Profile) -> Gpu | None:
        """The GPU that a profile was measured on, if it is one that we know and the program had it for itself."""
        on_gpu = profile.device == "cuda" and profile.host.gpu and profile.world_size == 1
        return self._gpu_called(profile.host.gpu) if on_gpu and profile.host.gpu else None

    def _other_batch(self, there: Sequence[Profile], vm_type: VmType, batch_size: int) -> Iteration | None:
        """Measured on that machine type, but at other batch sizes."""
        known = [(p.micro_batch_size, self._times_of(p).later.value) for p in there if p.micro_batch_size is not None]
        if not known:
            return None
        gpu = vm_type.gpu
        modelled = None
        if gpu is not None and self._traced and self._calibration is not None:
            modelled = lambda b: self._step(gpu, b).seconds  # noqa: E731 # handed on at once
        held = _held_share(there, gpu, batch_size)
        grows = SHIPPED if self._calibration is None else self._calibration.larger_batch
        seconds = time_at(known, batch_size, modelled=modelled, held_share=held, fit=grows)
        sizes = ", ".join(str(size) for size in sorted({size for size, _ in known}))
        step = self._step(gpu, batch_size) if gpu is not None and modelled is not None else None
        return Iteration(
            seconds=seconds,
            basis="scaled",
            profile=there[0],
            limited_by=step.limited_by if step else None,
            parts=_parts(step) if step else (),
            leans_on=(f"measured on {vm_type.key} at batch size {sizes}, and moved to {batch_size}",),
        )

    def _elsewhere(self, target: Gpu, batch_size: int | None) -> tuple[_Elsewhere, ...]:
        """One profile a GPU, that of the nearest batch, the nearest of all first; where the GPU itself was measured, in
        another machine, that alone."""
        found: dict[str, _Elsewhere] = {}
        for profile in sorted(self.profiles, key=lambda p: _apart(p.micro_batch_size, batch_size)):
            source = self._source(profile)
            if source is not None and source.name not in found and profile.steady_iteration_seconds:
                measured = self._times_of(profile).later
                wait = min(profile.usual_data_wait_seconds, 0.9 * measured.value)
                found[source.name] = _Elsewhere(profile=profile, gpu=source, measured=measured, wait=wait)
        return (found[target.name],) if target.name in found else tuple(found.values())

    def _scaled(self, known: Sequence[_Elsewhere], target: Gpu, batch_size: int | None) -> Iteration:
        """Measured on other GPUs: moved by its operations or by its timed operators, whichever is surer; only where
        neither is known, by what other programs gain alone. The wait for data goes by the batch."""
        leading = known[0]
        sized = leading.profile.micro_batch_size
        at = batch_size or sized
        ways = (self._by_operations(known, target, at), self._by_operators(leading, target, at))
        told = [way for way in ways if way is not None]
        found = min(told, key=lambda way: _spread(way.seconds)) if told else self._by_times(known, target, at)
        widened = replace(found, seconds=_widened(found.seconds, leading.measured))
        return _with_wait(widened, leading.wait * (at / sized if at and sized else 1.0))

    def _by_operations(self, known: Sequence[_Elsewhere], target: Gpu, at: int | None) -> Iteration | None:
        """To the same GPU in another machine by the ratio of the batches; to another one in two ways."""
        calibration, traced = self._calibration, [one for one in known if one.profile.operations]
        if calibration is None or not traced:
            return None
        there = self._corrected(target, at)
        foretold = [(self._corrected(one.gpu, one.profile.micro_batch_size), one.device) for one in traced]
        if traced[0].gpu.name == target.name:
            here, device = foretold[0]
            seconds = Interval.within_factor(device * there.seconds / here.seconds, calibration.same_gpu_factor)
            how = "moved by the ratio that its operations take on the two"
        else:
            times = self._by_times(known, target, at).seconds
            fit, least = calibration.physics, calibration.scaled_factor
            seconds = both_ways(there, target.name, foretold, fit, times, least=least)
            how = "moved by what its operations take there, and by what other programs gain"
        return Iteration(
            seconds=seconds,
            basis="scaled",
            profile=traced[0].profile,
            limited_by=there.limited_by,
            parts=_parts(there),
            leans_on=(f"{_named(traced)}, {how}",),
        )

    def _corrected(self, gpu: Gpu, batch_size: int | None) -> StepSeconds:
        """What the model says, as the user's own profiles on that GPU correct it."""
        step = self._step(gpu, batch_size)
        factor = self._calibration.corrections.factor(gpu.name) if self._calibration else 1.0
        return step if factor == 1.0 else replace(step, seconds=step.seconds * factor)

    def _by_operators(self, known: _Elsewhere, target: Gpu, at: int | None) -> Iteration | None:
        """Each operator's measured time by itself, where they were measured."""
        profile, source = known.profile, known.gpu
        if self._calibration is None or not profile.operator_seconds or at is None or at != profile.micro_batch_size:
            return None
        timed = OperatorProfile(
            program=profile.program.name,
            family=profile.program.name,
            vm_type=profile.host.vm_type or source.name,
            gpu=source.name,
            batch_size=at,
            image_side=1,
            optimizer=profile.optimizer or "",
            seconds=known.device,
            device_seconds=profile.operator_seconds,
            host_seconds=profile.operator_host_seconds,
        )
        return Iteration(
            seconds=transferred([timed], at, source, target, self._calibration.transfer),
            basis="scaled",
            profile=profile,
            leans_on=(f"the time of each operator in profile {profile.id} on {source.name}, moved one by one",),
        )

    def _by_times(self, known: Sequence[_Elsewhere], target: Gpu, at: int | None) -> Iteration:
        """By what other programs gain between these GPUs and that one."""
        if self._calibration is None:
            raise ValueError("what other programs gain is in the calibration")
        profile, key = known[0].profile, tuple(one.profile.id for one in known)
        if key not in self._movers:
            timed = [
                Timed(gpu=one.gpu, seconds=one.device, batch_size=float(one.profile.micro_batch_size or 1))
                for one in known
            ]
            self._movers[key] = Mover(timed, profile.dtype or "float32", self._calibration.programs)
        found = self._movers[key].to(target, batch_size=float(at or profile.micro_batch_size or 1))
        return Iteration(
            seconds=Interval(value=found.seconds, low=found.low, high=found.high),
            basis="scaled",
            profile=profile,
            leans_on=(f"{_named(known)}, moved by what other programs gain",),
        )

    def _extrapolated(self, target: Gpu, batch_size: int | None) -> Iteration | None:
        calibration = self._calibration
        ordered = sorted(self._traced, key=lambda p: p.micro_batch_size != batch_size)
        leading = next((p for p in ordered if p.steady_iteration_seconds), None)
        if leading is None or calibration is None:
            return None
        step = self._step(target, batch_size or leading.micro_batch_size)
        corrections = calibration.corrections
        factor = calibration.extrapolated_factor(step, target.name)
        leans_on = calibration.behind(target.name)
        if leading.framework != "pytorch":
            factor = math.exp(math.hypot(math.log(factor), math.log(FOREIGN_FACTOR)))
            leans_on += (f"kernels are taken to be PyTorch's; {leading.framework} may fuse them, so it is less sure",)
        seconds = step.seconds * corrections.factor(target.name, leading.program.name)
        grown = batch_size / leading.micro_batch_size if batch_size and leading.micro_batch_size else 1.0
        return _with_wait(
            Iteration(
                seconds=Interval.within_factor(seconds, factor),
                basis="extrapolated",
                profile=leading,
                limited_by=step.limited_by,
                parts=_parts(step),
                leans_on=leans_on,
            ),
            leading.usual_data_wait_seconds * grown,
        )

    def _step(self, gpu: Gpu, batch_size: int | None) -> StepSeconds:
        """What the model says of one iteration on that GPU.

        A batch never takes longer than one twice or four times as large: of small products the model knows least, and
        believes of some kinds of them that they are slower than larger ones.
        """
        step = self._modelled(gpu, batch_size)
        if batch_size is None or self._sized is None:
            return step
        least = min(self._modelled(gpu, larger).seconds for larger in (2 * batch_size, 4 * batch_size))
        if least >= step.seconds:
            return step
        share = least / step.seconds
        return replace(
            step,
            seconds=least,
            device_seconds=step.device_seconds * share,
            classes=tuple(replace(one, seconds=one.seconds * share) for one in step.classes),
        )

    def _modelled(self, gpu: Gpu, batch_size: int | None) -> StepSeconds:
        known = self._steps.setdefault(batch_size, {})
        if gpu.name not in known:
            names, model = self._model(gpu)
            known.update(zip(names, model.seconds(self._operations(batch_size)), strict=True))
        return known[gpu.name]

    def _model(self, gpu: Gpu) -> tuple[tuple[str, ...], StepModel]:
        """Of all targets together, since they share the work, and of the GPU where it is none of them; with their
        names."""
        if self._calibration is None:
            raise ValueError("a model needs its calibration")
        extra = None if self._targets.get(gpu.name) == gpu else gpu.name
        if extra not in self._models:
            asked = {**self._targets, gpu.name: gpu}
            self._models[extra] = tuple(asked), StepModel(tuple(asked.values()), self._calibration.physics)
        return self._models[extra]

    def _operations(self, batch_size: int | None) -> Sequence[Operation]:
        return self._traced[0].operations if batch_size is None or self._sized is None else self._sized(batch_size)

    # On several.

    def _together(self, vm_type: VmType, nodes: int, gpus: int, batch_size: int | None) -> Iteration | None:
        """The batch of all is shared out; gradients are added up around a ring."""
        workers = nodes * gpus
        leading = self.profiles[0]
        size = batch_size or _per_pass(leading)
        if self._calibration is None or vm_type.gpu is None or size is None or size < workers:
            return None
        own = max(1, round(per_gpu_batch(size, gpus=workers)))
        there = [p for p in self._measured_on(vm_type) if p.world_size == 1 and p.micro_batch_size == own]
        alone = _measured(there) if there else self._alone(vm_type, own)
        if alone is None:
            return None
        ring = self._ring(vm_type)
        cluster = self._cluster(vm_type.gpu, vm_type.network_gb_per_second, gpus, nodes)
        found = cluster.seconds(alone.seconds.value, ring)
        ratio = found.seconds / alone.seconds.value
        down = math.hypot(_log(alone.seconds.value, alone.seconds.low), _log(found.seconds, found.low))
        up = math.hypot(_log(alone.seconds.high, alone.seconds.value), _log(found.high, found.seconds))
        where = f"{gpus} GPUs" if nodes == 1 else f"{nodes} nodes of {gpus}" if gpus > 1 else f"{nodes} nodes"
        network = self._sending.get(found.sync_seconds)
        if network is None:
            network = Part(name="adding up gradients", seconds=found.sync_seconds, limited_by="network")
            self._sending[found.sync_seconds] = network
        return Iteration(
            seconds=Interval(
                value=alone.seconds.value * ratio,
                low=found.seconds * math.exp(-down),
                high=found.seconds * math.exp(up),
            ),
            basis="scaled" if alone.basis == "measured" else alone.basis,
            profile=alone.profile,
            runs=alone.runs,
            limited_by=alone.limited_by if found.limited_by == "computing" else "network",
            parts=(*alone.parts, network),
            leans_on=(
                *alone.leans_on,
                f"on {where} each iteration of {own} samples a GPU also adds up gradients, by what "
                f"{_told(ring, nodes)}",
            ),
        )

    def _cluster(self, gpu: Gpu, network_gb_per_second: float | None, gpus: int, nodes: int) -> Cluster:
        key = (gpu.name, network_gb_per_second, gpus, nodes)
        found = self._clusters.get(key)
        if found is None:
            if self._calibration is None:
                raise ValueError("a cluster needs its calibration")
            leading = self.profiles[0]
            found = self._clusters[key] = Cluster(
                gradient_bytes=leading.gradient_bytes or (4.0 * leading.parameters if leading.parameters else None),
                gpu=gpu,
                network_gb_per_second=network_gb_per_second,
                gpus_per_node=gpus,
                nodes=nodes,
                fit=self._calibration.links,
                half=leading.dtype in HALF,
            )
        return found

    def _ring(self, vm_type: VmType) -> RingFit | None:
        """What the program's own steps there say of its gradients, where it ran on one GPU and on several."""
        there = [p for p in self._measured_on(vm_type) if p.micro_batch_size is not None]
        if not {1} < {p.world_size for p in there}:
            return None
        return fit_ring(
            [
                MeasuredStep(
                    placement=Placement(nodes=1, gpus=p.world_size),
                    batch_size=float(p.micro_batch_size or 1),
                    seconds=self._times_of(p).later.value,
                )
                for p in there
            ]
        )

    # From an iteration to the whole training.

    def _belief(self, iteration: Iteration, vm_type: VmType) -> Belief:
        measured = self._times_of(iteration.profile)
        if iteration.basis == "measured":
            repeats = [p for p in self._measured_on(vm_type) if _what(p) == _what(iteration.profile)]
            return Belief(iteration=iteration, times=measured_times(iteration.profile, *repeats[1:]))
        if vm_type.gpu is None and (cores := self._cores_of(vm_type.key)) and not self._measured_on(vm_type):
            alike = [p for p in self.profiles if _what(p) == _what(iteration.profile)]
            return Belief(iteration=iteration, times=predict_step_times(CpuSlice.of_cores(cores), slice_measurements(alike, self._cores_of)))
        later = iteration.seconds
        init, beyond = self._by_the_host(iteration.profile)
        pace = self._pace(iteration, vm_type, measured)

        def paced(validation: Interval | None) -> Interval | None:
            """A validation is iterations without the backward pass on one GPU, at the batch size that it had."""
            if validation is None:
                return None
            value = validation.value * pace
            return Interval(value=value, low=value * later.low / later.value, high=value * later.high / later.value)

        return Belief(
            iteration=iteration,
            times=StepTimes(
                init=init,
                first=later + beyond,
                later=later,
                first_validation=paced(measured.first_validation),
                later_validation=paced(measured.later_validation),
            ),
        )

    def _by_the_host(self, profile: Profile) -> tuple[Interval, Interval]:
        """On another host: initialisation, and what the first iteration takes beyond a later one."""
        if profile.id not in self._hosts:
            measured = self._times_of(profile)
            beyond = max(0.0, measured.first.value - measured.later.value)
            self._hosts[profile.id] = (
                Interval.within_factor(measured.init.value, HOST_FACTOR),
                Interval.within_factor(beyond, HOST_FACTOR),
            )
        return self._hosts[profile.id]

    def _pace(self, iteration: Iteration, vm_type: VmType, measured: StepTimes) -> float:
        """How much longer the profiled iteration takes there."""
        profile = iteration.profile
        there = [p for p in self._measured_on(vm_type) if p.world_size == 1]
        if any(_what(p) == _what(profile) for p in there):
            return 1.0
        as_profiled = self._alone(vm_type, profile.micro_batch_size)
        return (as_profiled or iteration).seconds.value / measured.later.value


def _measured(runs: Sequence[Profile]) -> Iteration:
    at = f" at batch size {runs[0].effective_batch_size}" if runs[0].effective_batch_size else ""
    ids = ", ".join(run.id for run in runs)
    return Iteration(
        seconds=measured_times(*runs).later,
        basis="measured",
        profile=runs[0],
        runs=len(runs),
        leans_on=(f"profile{'s' if len(runs) > 1 else ''} {ids}, taken on this machine type{at}",),
    )


def _held_share(there: Sequence[Profile], gpu: Gpu | None, batch_size: int) -> float | None:
    """Of the GPU's memory, at that batch size; None where nobody knows."""
    need = memory_need(there[0], micro_batch_size=batch_size, others=there) if gpu is not None else None
    return None if need is None or gpu is None else need.tensors_gib / gpu.memory_gib


def _with_wait(iteration: Iteration, wait: float) -> Iteration:
    """The wait for data is the host's, and comes on top."""
    if not wait:
        return iteration
    device = iteration.seconds
    return replace(
        iteration,
        seconds=device + Interval.within_factor(wait, HOST_FACTOR),
        limited_by="data" if wait > device.value else iteration.limited_by,
        parts=(*iteration.parts, Part(name="waiting for data", seconds=wait, limited_by="data")),
    )


def _parts(step: StepSeconds) -> tuple[Part, ...]:
    classes = [Part(name=c.kind, seconds=c.seconds, limited_by=c.limited_by) for c in step.classes]
    host = Part(name="launching kernels", seconds=step.host_seconds, limited_by="launches")
    return tuple(sorted((part for part in (*classes, host) if part.seconds > 0), key=lambda part: -part.seconds))


def _per_pass(profile: Profile) -> int | None:
    """Samples that all processes together take through one forward pass."""
    return None if profile.micro_batch_size is None else profile.micro_batch_size * profile.world_size


def _what(profile: Profile) -> tuple[object, ...]:
    return profile.micro_batch_size, profile.world_size


def _apart(one: int | None, other: int | None) -> float:
    """How far batch sizes are from one another; one that nobody knows is far from every other."""
    if other is None or one == other:
        return 0.0
    return math.inf if one is None else abs(math.log(one / other))


def _told(ring: RingFit | None, nodes: int) -> str:
    """Who says how long gradients take; a ring was measured on one node."""
    others = "other programs took for it on such links"
    if ring is None:
        return others
    return "it took itself on fewer" if nodes == 1 else f"{others}, and half of what it took itself on one node"


def _named(known: Sequence[_Elsewhere]) -> str:
    several = "s" if len(known) > 1 else ""
    return f"profile{several} {', '.join(f'{one.profile.id} on {one.gpu.name}' for one in known)}"


def _widened(moved: Interval, measured: Interval) -> Interval:
    """By the error of the measurement that it leans on."""
    down = math.hypot(_log(moved.value, moved.low), _log(measured.value, measured.low))
    up = math.hypot(_log(moved.high, moved.value), _log(measured.high, measured.value))
    return Interval(value=moved.value, low=moved.value * math.exp(-down), high=moved.value * math.exp(up))


def _spread(interval: Interval) -> float:
    return interval.high / interval.low


def _log(more: float, less: float) -> float:
    return math.log(more / less) if more > less > 0 else 0.0
