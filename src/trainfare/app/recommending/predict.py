"""Predict one iteration on a machine: its time and its parts, and how they change with batch size and GPUs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainfare.app.catalog.offers import open_catalog
from trainfare.app.recommending.workload import build_predictor, select_profiles
from trainfare.app.stated import StatedLength
from trainfare.catalog.catalog import Catalog
from trainfare.errors import InfeasibleError, NotFoundError, Remedy, UsageError
from trainfare.estimator.batch.step_time import batch_line
from trainfare.estimator.memory import accumulation, largest_batch, memory_fit, ways_to_fit
from trainfare.estimator.parallel.parameter_server import parameter_server_seconds
from trainfare.estimator.prediction.iteration import StepTimePrediction
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.model.machine import Gpu, VmType
from trainfare.model.offer import Offer
from trainfare.model.prediction import Prediction, PredictionReport, ServedWorkers
from trainfare.model.profile import Profile
from trainfare.settings import Settings, read_settings
from trainfare.store.open import open_existing_history
from trainfare.units import BYTES_PER_MEGABIT, plural
from trainfare.views.memory import ways_phrases
from trainfare.views.prediction import prediction_remarks

BATCH_POWERS = range(-3, 7)
"""Batch sizes shown: the requested one, halved up to three times and doubled up to six times."""
GPU_COUNTS, NODE_COUNTS = (1, 2, 4, 8), (2, 4, 8)
"""Shown numbers of GPUs of one machine, and of machines with all their GPUs."""
WORKER_COUNTS = (1, 2, 4, 8, 16, 32)
ANY_PROVIDER = "any"
"""The provider of a machine of which only the GPU is named."""


def predict(
    profile_ids: Sequence[str] = (),
    *,
    on: str,
    batch_size: int | None = None,
    profiled_batch_size: int | None = None,
    gpus: int | None = None,
    nodes: int = 1,
    server_mbps: float | None = None,
    settings: Settings | None = None,
) -> PredictionReport:
    """Predict one iteration of the named profiles, or of the newest, on the machine type or GPU `on`.

    `gpus` of each of `nodes` machines share the work: one by default, and all of them with several nodes. `batch_size`
    is that of all GPUs together, by default the profiled one, which `profiled_batch_size` states if the profile does
    not know it. `server_mbps` is the network of a parameter server in
    megabits per second: then workers behind it are predicted too.
    """
    settings = settings or read_settings()
    with open_existing_history(settings.store) as history:
        profiles = StatedLength(profiled_batch_size=profiled_batch_size).apply(select_profiles(history, profile_ids))
    require_batch_size(profiles[0], batch_size)
    catalog = open_catalog(settings)
    vm_type = _find_machine(catalog, on)
    size = profiles[0].effective_batch_size if batch_size is None else batch_size
    gpus = resolve_gpus(vm_type, gpus, nodes, size)
    machine = _MachinePredictor(predictor=build_predictor(profiles, catalog, settings, targets=()), vm_type=vm_type)
    prediction = machine.predict(nodes=nodes, gpus=gpus, batch_size=size)
    if prediction is None:
        raise no_prediction_error(profiles[0], vm_type)
    single_gpu = tuple(machine.at_batch_sizes(1, min(1, gpus), size)) if size else ()
    return PredictionReport(
        prediction=prediction,
        batches=tuple(machine.at_batch_sizes(nodes, gpus, size)) if size else (),
        strong=tuple(machine.on_clusters(size, weak=False)) if vm_type.gpus else (),
        weak=tuple(machine.on_clusters(size, weak=True)) if vm_type.gpus else (),
        served=tuple(_served_workers(profiles[0], machine, size, server_mbps)) if server_mbps else (),
        largest_batch=largest_batch(profiles, vm_type),
        saturation_batch=_saturation_batch(single_gpu),
        profiles=profiles,
        remarks=(*prediction_remarks(prediction), *_advice(prediction, profiles)),
    )


def require_batch_size(profile: Profile, batch_size: int | None) -> None:
    """Raises UsageError if another batch size is asked for and that of the profile is unknown."""
    if batch_size is not None and profile.effective_batch_size is None:
        raise UsageError(
            f"Profile {profile.id} has no batch size, so an iteration at batch size {batch_size} cannot be predicted "
            "from it. State the batch size that it used, or profile the program again.",
            field="batch_size",
            remedies=[
                Remedy({"profiled_batch_size": "B"}),
                Remedy(command="profile", program=profile.program.command_line),
            ],
        )


def no_prediction_error(profile: Profile, vm_type: VmType) -> InfeasibleError:
    """The error that the profiles say nothing about a machine, with the reason and the profile that would help."""
    if vm_type.gpu is None:
        why = f"{vm_type.key} has no GPU, and a machine without GPUs is estimated only if a profile was taken on it"
    elif len(profile.iteration_seconds) < 2:
        return InfeasibleError(
            f"Profile {profile.id} contains only the first iteration, which says nothing about the following ones. "
            "Profile more iterations.",
            remedies=[Remedy({"iterations": 6}, command="profile", program=profile.program.command_line)],
        )
    else:
        why = "it has no operations, so it only applies to the machine type that it was taken on"
    return InfeasibleError(
        f"Profile {profile.id} says nothing about {vm_type.key}: {why}. Profile the program there.",
        remedies=[
            Remedy(
                {"on": "MACHINE" if vm_type.provider == ANY_PROVIDER else vm_type.key},
                command="profile",
                program=profile.program.command_line,
            )
        ],
    )


def resolve_gpus(vm_type: VmType, requested: int | None, nodes: int, batch_size: int | None) -> int:
    """The number of GPUs of each machine to use; 0 if it has none. Raises UsageError for an impossible request."""
    if nodes < 1:
        raise UsageError(f"There must be at least 1 node, got {nodes}.", field="nodes")
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"A batch has at least 1 sample, got {batch_size}.", field="batch_size")
    if requested is not None and not 1 <= requested <= vm_type.gpus:
        has = "no GPU" if vm_type.gpus == 0 else plural(vm_type.gpus, "GPU")
        raise UsageError(f"{vm_type.key} has {has}, not {requested}. Use more nodes for more GPUs.", field="gpus")
    gpus = requested or (vm_type.gpus if nodes > 1 else min(1, vm_type.gpus))
    if batch_size is not None and batch_size < nodes * gpus:
        raise UsageError(f"A batch of {batch_size} cannot be shared by {nodes * gpus} GPUs.", field="batch_size")
    return gpus


def find_machine_or_gpu(catalog: Catalog, name: str) -> tuple[Offer, ...] | Gpu:
    """The offers of the machine type with that name; or the GPU of that name."""
    try:
        return catalog.find(name, field="on")
    except NotFoundError as error:
        gpu = catalog.find_gpu(name)
        if gpu is None and "/" in name:
            raise error from None
        if gpu is None:
            known = (*catalog.gpus, *sorted({offer.vm_type.name for offer in catalog.offers}))
            raise NotFoundError("machine or GPU", name, known, listed_by="trainfare catalog list", field="on") from None
        return gpu


def _find_machine(catalog: Catalog, name: str) -> VmType:
    """The machine type with that name; or a machine with one GPU of that name."""
    found = find_machine_or_gpu(catalog, name)
    if isinstance(found, Gpu):
        return VmType(provider=ANY_PROVIDER, name=found.name, gpu=found, gpus=1, vcpus=None, memory_gib=None)
    return found[0].vm_type


@dataclass(frozen=True, slots=True, kw_only=True)
class _MachinePredictor:
    """Predictions for one machine type."""

    predictor: StepTimePredictor
    vm_type: VmType

    def predict(self, *, nodes: int, gpus: int, batch_size: int | None) -> Prediction | None:
        found = self.predictor.predict(self.vm_type, nodes=nodes, gpus=gpus, batch_size=batch_size)
        return None if found is None else self._prediction(found, nodes, gpus, batch_size)

    def at_batch_sizes(self, nodes: int, gpus: int, batch_size: int) -> Iterator[Prediction]:
        """Sizes around `batch_size` that give each accumulation step of each GPU one sample or more."""
        profile = self.predictor.profiles[0]
        smallest = min(batch_size, nodes * max(1, gpus) * (profile.accumulation_steps or 1))
        largest = max(batch_size, profile.samples or math.inf)
        for size in dict.fromkeys(round(batch_size * 2.0**power) for power in BATCH_POWERS):
            found = self.predict(nodes=nodes, gpus=gpus, batch_size=size) if smallest <= size <= largest else None
            if found is not None:
                yield found

    def on_clusters(self, batch_size: int | None, *, weak: bool) -> Iterator[Prediction]:
        """With weak scaling the batch size per GPU stays, otherwise that of all GPUs together."""
        every = self.vm_type.gpus
        single_node = [(1, gpus) for gpus in GPU_COUNTS if gpus < every]
        for nodes, gpus in (*single_node, (1, every), *((nodes, every) for nodes in NODE_COUNTS)):
            size = batch_size * nodes * gpus if weak and batch_size else batch_size
            found = self.predict(nodes=nodes, gpus=gpus, batch_size=size)
            if found is not None:
                yield found

    def _prediction(self, found: StepTimePrediction, nodes: int, gpus: int, batch_size: int | None) -> Prediction:
        iteration = found.iteration
        return Prediction(
            vm_type=self.vm_type,
            gpus=gpus,
            nodes=nodes,
            batch_size=batch_size,
            basis=iteration.basis,
            iteration_seconds=iteration.seconds,
            limited_by=iteration.limited_by,
            parts=iteration.parts,
            evidence=iteration.evidence,
            tokens_per_sample=found.profile.tokens_per_sample,
            memory=memory_fit(
                found.profile,
                self.vm_type,
                batch_size=batch_size,
                gpus=max(1, nodes * gpus),
                others=self.predictor.profiles,
            ),
        )


def _served_workers(
    profile: Profile, machine: _MachinePredictor, batch_size: int | None, server_mbps: float
) -> Iterator[ServedWorkers]:
    single = machine.predict(nodes=1, gpus=min(1, machine.vm_type.gpus), batch_size=batch_size)
    gradient_bytes = profile.gradient_bytes or 4 * (profile.parameters or 0)
    if single is None or not gradient_bytes:
        raise UsageError(
            f"Profile {profile.id} does not have the size of its gradients, so a parameter server cannot be predicted.",
            field="server_mbps",
        )
    network = machine.vm_type.network_gb_per_second
    for workers in WORKER_COUNTS:
        step = parameter_server_seconds(
            single.iteration_seconds.value,
            gradient_bytes=gradient_bytes,
            workers=workers,
            server_bytes_per_second=server_mbps * BYTES_PER_MEGABIT,
            worker_bytes_per_second=network * 1e9 if network else None,
        )
        yield ServedWorkers(
            workers=workers,
            synchronous=step.synchronous,
            asynchronous=step.asynchronous,
            knee=step.knee,
            saturated=step.saturated,
        )


def _saturation_batch(single_gpu: Sequence[Prediction]) -> float | None:
    points = [(float(one.batch_size), one.iteration_seconds.value) for one in single_gpu if one.batch_size]
    return batch_line(points).saturating_batch() if len(points) > 1 else None


def _advice(prediction: Prediction, profiles: Sequence[Profile]) -> Iterator[str]:
    """Remarks about making the batch fit in memory and the prediction more accurate."""
    memory, vm_type = prediction.memory, prediction.vm_type
    if memory is not None and memory.verdict != "fits" and prediction.batch_size:
        workers = max(1, prediction.gpus * prediction.nodes)
        advice = accumulation(profiles, vm_type, prediction.batch_size, gpus=workers)
        if advice is not None and advice.steps > 1:
            steps = f"{advice.steps} accumulated steps of {plural(advice.micro_batch_size, 'sample')} per GPU"
            yield f"{steps} make the same batch and fit"
        ways = ways_to_fit(profiles, vm_type, batch_size=prediction.batch_size, gpus=workers)
        other = [way for way in ways if way.way not in ("accumulation", "smaller batch", "larger gpu")]
        if memory.verdict == "does not fit" and other:
            yield f"it would also fit with: {'; '.join(ways_phrases(other))}"
    if prediction.basis == "extrapolated" and vm_type.provider != ANY_PROVIDER:
        yield f"a profile taken on {vm_type.key} would replace this extrapolation by a measurement"
