"""The tables of this task as programs, each on one machine, on one GPU and on several."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.parallel.links import HALF_DTYPES, ClusterStep
from trainfare.estimator.parallel.ring import GpuPlacement, MeasuredStep
from trainfare.measurements import data_parallel, published_scaling, seven_models, torchvision_gpus
from trainfare.model.machine import Gpu
from trainfare.model.measurement import MeasuredIteration

DGX_NETWORK_GB_PER_SECOND = {"V100": 50.0, "A100": 200.0}
"""By the beginning of the GPU's name: four InfiniBand adapters of 100 Gbit/s in a DGX-1, eight of 200 in a DGX A100."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledProgram:
    """A program on one machine, with its rows at batch sizes that were also timed on one GPU."""

    name: str
    family: str
    machine: str
    gpu: Gpu
    rows: tuple[MeasuredIteration, ...]
    gradient_bytes: float | None = None
    network_gb_per_second: float | None = None

    @property
    def steps(self) -> list[MeasuredStep]:
        return [step_of(row) for row in self.rows]

    def cluster_steps(self) -> list[ClusterStep]:
        """The steps on more than one GPU."""
        alone = {row.batch_size: row.seconds for row in self.rows if row.gpus == 1}
        return [
            ClusterStep(
                program=self.name,
                family=self.family,
                gpu=self.gpu,
                gpus=row.gpus,
                nodes=row.nodes,
                single_gpu_seconds=alone[row.batch_size],
                seconds=row.seconds,
                gradient_bytes=self.gradient_bytes,
                network_gb_per_second=self.network_gb_per_second,
                machine=self.machine,
                half=row.dtype in HALF_DTYPES,
            )
            for row in self.rows
            if row.gpus > 1
        ]


def step_of(row: MeasuredIteration) -> MeasuredStep:
    return MeasuredStep(
        placement=GpuPlacement(nodes=row.nodes, gpus=row.gpus), batch_size=row.batch_size, seconds=row.seconds
    )


def programs_of(
    rows: Iterable[MeasuredIteration],
    *,
    machine: Callable[[MeasuredIteration], str],
    network: Callable[[MeasuredIteration], float | None] = lambda row: row.network_gb_per_second,
    experiment: Callable[[MeasuredIteration], str] = lambda _row: "",
) -> tuple[list[ScaledProgram], set[str]]:
    """The programs, and the GPUs that are not in the catalog, whose rows are skipped."""
    gpus = load_gpus()
    groups: dict[tuple[str, ...], list[MeasuredIteration]] = defaultdict(list)
    for row in rows:
        groups[row.program, machine(row), row.gpu, experiment(row)].append(row)
    found = []
    for own in groups.values():
        alone = {row.batch_size for row in own if row.gpus == 1}
        usable = tuple(row for row in own if row.batch_size in alone)
        if own[0].gpu in gpus and any(row.gpus > 1 for row in usable):
            found.append(
                ScaledProgram(
                    name=own[0].program,
                    family=own[0].family,
                    machine=machine(own[0]),
                    gpu=gpus[own[0].gpu],
                    rows=usable,
                    gradient_bytes=own[0].gradient_bytes,
                    network_gb_per_second=network(own[0]),
                )
            )
    return found, {own[0].gpu for own in groups.values() if own[0].gpu not in gpus}


def t4_programs(folder: Path) -> list[ScaledProgram]:
    found, _ = programs_of(
        data_parallel.data_parallel_t4(folder),
        machine=lambda row: row.gpu,
    )
    return found


def seven_programs(folder: Path) -> list[ScaledProgram]:
    found, _ = programs_of(
        seven_models.seven_models(folder),
        machine=lambda row: f"{row.gpu}, {row.machine}",
    )
    return found


def published_programs(folder: Path) -> list[ScaledProgram]:
    """The programs, each experiment separately. Gradients, and often the definition of a step, are not stated."""
    found, _ = programs_of(
        _with_smaller_batches(published_scaling.published_scaling(folder)),
        machine=lambda row: f"DGX {row.gpu}",
        network=lambda row: DGX_NETWORK_GB_PER_SECOND.get(row.gpu.partition("-")[0]),
        experiment=lambda row: row.machine or "",
    )
    return found


def weakly_published_programs(folder: Path) -> list[ScaledProgram]:
    """The programs with weak scaling; the others were not timed on one GPU at their batch."""
    return [program for program in published_programs(folder) if len({row.batch_size for row in program.rows}) == 1]


def torchvision_programs(folder: Path) -> list[ScaledProgram]:
    return torchvision_programs_and_unknown_gpus(folder)[0]


def torchvision_programs_and_unknown_gpus(folder: Path) -> tuple[list[ScaledProgram], set[str]]:
    return programs_of(
        torchvision_gpus.torchvision_gpus(folder),
        machine=lambda row: f"{row.machine}, {row.dtype}",
    )


def _with_smaller_batches(rows: tuple[MeasuredIteration, ...]) -> tuple[MeasuredIteration, ...]:
    """Add steps of one GPU at smaller batches, in proportion, for experiments with a constant global batch."""
    alone = {row.machine: row for row in rows if row.gpus == 1}
    timed = {(row.machine, row.batch_size) for row in rows if row.gpus == 1}
    assumed = {}
    for row in rows:
        if (row.machine, row.batch_size) not in timed:
            one = alone[row.machine]
            shrunk = one.seconds * row.batch_size / one.batch_size
            assumed[row.machine, row.batch_size] = replace(one, batch_size=row.batch_size, seconds=shrunk)
    return (*rows, *assumed.values())
