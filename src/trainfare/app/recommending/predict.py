"""How long one iteration takes somewhere, what it is made of, and how that changes with batch size and GPUs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainfare.app.catalog.calibrations import calibration_in_use
from trainfare.app.catalog.offers import open_catalog
from trainfare.app.recommending.workload import select_profiles
from trainfare.catalog.catalog import Catalog
from trainfare.errors import InfeasibleError, NotFoundError, UsageError
from trainfare.estimator.batch.step_time import batch_line
from trainfare.estimator.memory import LargestBatch, accumulation, largest_batch, memory_fit
from trainfare.estimator.parallel.parameter_server import ParameterServerSeconds, parameter_server_seconds
from trainfare.estimator.prediction.predictor import StepTimePrediction, StepTimePredictor
from trainfare.model.machine import VmType
from trainfare.model.prediction import Prediction
from trainfare.model.profile import Profile
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_history

BATCH_POWERS = range(-3, 7)
"""Batch sizes shown: the one asked for, halved three times and doubled six."""
INSIDE, NODES = (1, 2, 4, 8), (2, 4, 8)
"""GPUs of one machine, and machines with all of theirs, that are shown."""
WORKERS = (1, 2, 4, 8, 16, 32)
BYTES_PER_MEGABIT = 125_000.0
ANY = "any"
"""The provider of a machine of which only the GPU is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """So many workers of one GPU, each with the batch that was asked for, behind one parameter server."""

    workers: int
    seconds: ParameterServerSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionReport:
    """The iteration that was asked for, and what lies around it."""

    prediction: Prediction
    batches: tuple[Prediction, ...]
    """On the same GPUs at other batch sizes, the smallest first; those that do not fit in memory are among them."""
    strong: tuple[Prediction, ...]
    """On more GPUs and nodes of that type, the batch of all staying the same."""
    weak: tuple[Prediction, ...]
    """Likewise, the batch of each GPU staying the same."""
    served: tuple[Served, ...]
    """Workers behind a parameter server, where its network is told."""
    largest_batch: LargestBatch | None
    """Of one GPU, that fits in its memory; None where that is not known."""
    saturation_batch: float | None
    """Of one GPU, at which it reaches 90 % of the samples a second that it ever will."""
    profiles: tuple[Profile, ...]
    remarks: tuple[str, ...]


def predict(
    profile_ids: Sequence[str] = (),
    *,
    on: str,
    batch_size: int | None = None,
    gpus: int | None = None,
    nodes: int = 1,
    server_mbps: float | None = None,
    settings: Settings | None = None,
) -> PredictionReport:
    """Of the named profiles, or of the newest, one iteration on the machine or GPU `on`.

    `gpus` of each of `nodes` machines share the work: one unless said, and all where there are several nodes.
    `batch_size` is of all of them together, as profiled unless said. `server_mbps` is the network of a parameter
    server, in megabits a second: then workers behind it are reckoned too.
    """
    settings = settings or read_settings()
    with open_history(settings.store) as history:
        profiles = select_profiles(history, profile_ids)
    catalog = open_catalog(settings)
    vm_type = _machine(catalog, on)
    size = profiles[0].effective_batch_size if batch_size is None else batch_size
    gpus = gpus_used(vm_type, gpus, nodes, size)
    predictor = StepTimePredictor(
        profiles,
        gpu_called=catalog.gpu_called,
        calibration=calibration_in_use(settings),
        cores_of=catalog.slice_cores,
    )
    asker = _Asker(predictor=predictor, vm_type=vm_type)
    found = asker.ask(nodes=nodes, gpus=gpus, batch_size=size)
    if found is None:
        raise nothing_known(profiles[0], vm_type)
    batches = tuple(asker.at_batches(nodes, gpus, size)) if size else ()
    alone = tuple(asker.at_batches(1, min(1, gpus), size)) if size else ()
    return PredictionReport(
        prediction=found,
        batches=batches,
        strong=tuple(asker.on_clusters(size, weak=False)) if vm_type.gpus else (),
        weak=tuple(asker.on_clusters(size, weak=True)) if vm_type.gpus else (),
        served=tuple(_served(profiles[0], asker, size, server_mbps)) if server_mbps else (),
        largest_batch=largest_batch(profiles, vm_type),
        saturation_batch=_saturation(alone),
        profiles=profiles,
        remarks=tuple(_remarks(found, profiles, vm_type)),
    )


def _served(profile: Profile, asker: "_Asker", batch_size: int | None, server_mbps: float) -> Iterator[Served]:
    alone = asker.ask(nodes=1, gpus=min(1, asker.vm_type.gpus), batch_size=batch_size)
    gradient = profile.gradient_bytes or 4 * (profile.parameters or 0)
    if alone is None or not gradient:
        raise UsageError(f"profile {profile.id} does not tell how large its gradients are: leave --server-mbps out.")
    network = asker.vm_type.network_gb_per_second
    for workers in WORKERS:
        yield Served(
            workers=workers,
            seconds=parameter_server_seconds(
                alone.iteration_seconds.value,
                gradient_bytes=gradient,
                workers=workers,
                server_bytes_per_second=server_mbps * BYTES_PER_MEGABIT,
                worker_bytes_per_second=network * 1e9 if network else None,
            ),
        )


def _saturation(alone: Sequence[Prediction]) -> float | None:
    points = [(float(one.batch_size), one.iteration_seconds.value) for one in alone if one.batch_size]
    return batch_line(points).saturating_batch() if len(points) > 1 else None


def nothing_known(profile: Profile, vm_type: VmType) -> InfeasibleError:
    """Why the profiles say nothing of a machine, and what would."""
    if vm_type.gpu is None:
        why = f"{vm_type.key} has no GPU, and a machine without one is estimated only where a profile was taken on it"
    elif len(profile.iteration_seconds) < 2:
        why = "it has fewer than two iterations"
    else:
        why = "it has no operations, so it speaks only of the machine type that it was taken on"
    return InfeasibleError(
        f"profile {profile.id} says nothing of {vm_type.key}: {why}. "
        f"Take one there: trainfare profile --on {vm_type.key} -- …"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asker:
    predictor: StepTimePredictor
    vm_type: VmType

    def ask(self, *, nodes: int, gpus: int, batch_size: int | None) -> Prediction | None:
        belief = self.predictor.predict(self.vm_type, nodes=nodes, gpus=gpus, batch_size=batch_size)
        return None if belief is None else self._prediction(belief, nodes, gpus, batch_size)

    def at_batches(self, nodes: int, gpus: int, batch_size: int) -> Iterator[Prediction]:
        workers = nodes * max(1, gpus)
        most = max(batch_size, self.predictor.profiles[0].samples or math.inf)
        for size in dict.fromkeys(round(batch_size * 2.0**power) for power in BATCH_POWERS):
            found = self.ask(nodes=nodes, gpus=gpus, batch_size=size) if workers <= size <= most else None
            if found is not None:
                yield found

    def on_clusters(self, batch_size: int | None, *, weak: bool) -> Iterator[Prediction]:
        every = self.vm_type.gpus
        inside = [(1, gpus) for gpus in INSIDE if gpus < every]
        for nodes, gpus in (*inside, (1, every), *((nodes, every) for nodes in NODES)):
            size = batch_size * nodes * gpus if weak and batch_size else batch_size
            found = self.ask(nodes=nodes, gpus=gpus, batch_size=size)
            if found is not None:
                yield found

    def _prediction(self, belief: StepTimePrediction, nodes: int, gpus: int, batch_size: int | None) -> Prediction:
        iteration = belief.iteration
        return Prediction(
            vm_type=self.vm_type,
            gpus=gpus,
            nodes=nodes,
            batch_size=batch_size,
            basis=iteration.basis,
            iteration_seconds=iteration.seconds,
            limited_by=iteration.limited_by,
            parts=iteration.parts,
            leans_on=iteration.leans_on,
            memory=memory_fit(
                belief.profile,
                self.vm_type,
                batch_size=batch_size,
                gpus=max(1, nodes * gpus),
                others=self.predictor.profiles,
            ),
        )


def _machine(catalog: Catalog, name: str) -> VmType:
    """A machine by its name; or a GPU by its own, as if in a machine by itself."""
    try:
        return catalog.find(name)[0].vm_type
    except NotFoundError as error:
        gpu = catalog.find_gpu(name)
        if gpu is None:
            raise error from None
        return VmType(provider=ANY, name=gpu.name, gpu=gpu, gpus=1, vcpus=None, memory_gib=None)


def gpus_used(vm_type: VmType, stated: int | None, nodes: int, batch_size: int | None) -> int:
    """Of each machine, as asked for; 0 where it has none."""
    if nodes < 1:
        raise UsageError(f"nodes must be at least 1, got {nodes}.")
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"a batch has at least one sample, got {batch_size}.")
    if stated is not None and not 1 <= stated <= vm_type.gpus:
        has = "no GPU" if vm_type.gpus == 0 else "1 GPU" if vm_type.gpus == 1 else f"{vm_type.gpus} GPUs"
        raise UsageError(f"{vm_type.key} has {has}, not {stated}. More machines are --nodes.")
    gpus = stated or (vm_type.gpus if nodes > 1 else min(1, vm_type.gpus))
    if batch_size is not None and batch_size < nodes * gpus:
        raise UsageError(f"a batch of {batch_size} cannot be shared by {nodes * gpus} GPUs.")
    return gpus


def _remarks(found: Prediction, profiles: Sequence[Profile], vm_type: VmType) -> Iterator[str]:
    first, *others = found.leans_on
    yield f"{found.basis}: {first}"
    yield from others
    memory = found.memory
    if memory is not None and memory.verdict != "fits":
        yield (
            f"memory: {memory.verdict}: about {memory.needed_gib.value:.3g} GiB a GPU are needed "
            f"(90 %: {memory.needed_gib.low:.3g} – {memory.needed_gib.high:.3g}), there are {memory.available_gib:.3g}"
        )
        workers = max(1, found.gpus * found.nodes)
        advice = accumulation(profiles, vm_type, found.batch_size, gpus=workers) if found.batch_size else None
        if advice is not None and advice.steps > 1:
            yield f"{advice.steps} accumulated steps of {advice.per_gpu} samples a GPU make the same batch and fit"
    if found.basis == "extrapolated" and vm_type.provider != ANY:
        yield f"a profile taken there settles it: trainfare profile --on {vm_type.key} -- …"
