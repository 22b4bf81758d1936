"""The calibrated models as one program needs them; what several machines share is computed once."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainfare.estimator.batch.operations import operations_by_batch
from trainfare.estimator.calibration.calibration import Calibration
from trainfare.estimator.gpu.by_times import ProgramTimeModel, TimedRun
from trainfare.estimator.gpu.physics import StepColumns, StepModel, StepSeconds, on_other_hosts
from trainfare.estimator.parallel.links import HALF_DTYPES, ClusterPredictor
from trainfare.estimator.prediction.profile_index import GpuMeasurement, ProfileIndex
from trainfare.model.machine import Gpu
from trainfare.model.profile import Operation, Profile


class ProgramModels:
    """Models of one program: its step on a GPU by its operations, by its times elsewhere, and on a cluster.

    `targets` are the GPUs that will be asked about: the step model evaluates all of them at once.
    """

    def __init__(self, index: ProfileIndex, calibration: Calibration, targets: Iterable[Gpu] = ()) -> None:
        self.calibration = calibration
        self._physics = on_other_hosts(calibration.physics)
        self._index = index
        self._targets = {gpu.name: gpu for gpu in targets}
        sized = any(profile.micro_batch_size is not None for profile in index.traced)
        self._operations_at = operations_by_batch(index.traced) if sized else None
        self._step_models: dict[str | None, tuple[dict[str, int], StepModel]] = {}
        self._columns: dict[tuple[str | None, int | None], StepColumns] = {}
        self._steps: dict[tuple[str, int | None], StepSeconds] = {}
        self._program_names: dict[str, str] = {}
        self._time_models: dict[tuple[str, ...], ProgramTimeModel] = {}
        self._clusters: dict[tuple[object, ...], ClusterPredictor] = {}

    def step(self, gpu: Gpu, batch_size: int | None) -> StepSeconds:
        """The time of one iteration by its operations; at least one profile must list them.

            t(B) = min(model(B), model(2B), model(4B))

        A batch takes no longer than one twice or four times as large. The model is least accurate for small matrix
        products, and for some kinds of them it gives more time than for larger ones.
        """
        key = (gpu.name, batch_size)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._step(gpu, batch_size)
        return found

    def _step(self, gpu: Gpu, batch_size: int | None) -> StepSeconds:
        columns, row = self._modelled(gpu, batch_size)
        step = columns.step(row)
        if batch_size is None or self._operations_at is None:
            return step
        larger = (self._modelled(gpu, more * batch_size)[0] for more in (2, 4))
        shortest = min(columns.seconds[row] for columns in larger)
        if shortest >= step.seconds:
            return step
        share = shortest / step.seconds
        return replace(
            step,
            seconds=shortest,
            device_seconds=step.device_seconds * share,
            classes=tuple(replace(one, seconds=one.seconds * share) for one in step.classes),
        )

    def corrected_step(self, gpu: Gpu, batch_size: int | None) -> StepSeconds:
        """`step`, with the correction that the user's own profiles on that GPU give."""
        step = self.step(gpu, batch_size)
        factor = self.calibration.corrections.factor(gpu.name)
        return step if factor == 1.0 else replace(step, seconds=step.seconds * factor)

    def program_correction(self, gpu: Gpu, profile: Profile) -> float:
        """The correction that the user's own profiles give on that GPU and for that program."""
        name = self._program_names.get(profile.id)
        if name is None:
            name = self._program_names[profile.id] = profile.program.name
        return self.calibration.corrections.factor(gpu.name, name)

    def time_model(self, measured: Sequence[GpuMeasurement], dtype: str | None = None) -> ProgramTimeModel:
        """The model of how other programs speed up between GPUs, fitted to the program's own measurements; `dtype` is
        that of the profile by default."""
        dtype = dtype or measured[0].profile.dtype or "float32"
        key = (dtype, *(one.profile.id for one in measured))
        if key not in self._time_models:
            runs = [
                TimedRun(gpu=one.gpu, seconds=one.device_seconds, batch_size=float(one.profile.micro_batch_size or 1))
                for one in measured
            ]
            self._time_models[key] = ProgramTimeModel(runs, dtype, self.calibration.programs)
        return self._time_models[key]

    def cluster(self, gpu: Gpu, *, network_gb_per_second: float | None, gpus: int, nodes: int) -> ClusterPredictor:
        """The cost of synchronising the leading profile's gradients over `gpus` on each of `nodes`."""
        key = (gpu.name, network_gb_per_second, gpus, nodes)
        found = self._clusters.get(key)
        if found is None:
            leading = self._index.leading
            found = self._clusters[key] = ClusterPredictor(
                gradient_bytes=leading.gradient_bytes or (4.0 * leading.parameters if leading.parameters else None),
                gpu=gpu,
                network_gb_per_second=network_gb_per_second,
                gpus_per_node=gpus,
                nodes=nodes,
                fit=self.calibration.links,
                half=leading.dtype in HALF_DTYPES,
            )
        return found

    def _modelled(self, gpu: Gpu, batch_size: int | None) -> tuple[StepColumns, int]:
        """The model of all targets, and of `gpu` if it is none of them; with the row of `gpu`."""
        target = self._targets.get(gpu.name)
        extra = None if target is gpu or target == gpu else gpu.name
        if extra not in self._step_models:
            gpus = {**self._targets, gpu.name: gpu}
            rows = {name: row for row, name in enumerate(gpus)}
            self._step_models[extra] = rows, StepModel(tuple(gpus.values()), self._physics)
        rows, model = self._step_models[extra]
        columns = self._columns.get((extra, batch_size))
        if columns is None:
            columns = self._columns[extra, batch_size] = model.columns(self._operations(batch_size))
        return columns, rows[gpu.name]

    def _operations(self, batch_size: int | None) -> Sequence[Operation]:
        if batch_size is None or self._operations_at is None:
            return self._index.traced[0].operations
        return self._operations_at(batch_size)
