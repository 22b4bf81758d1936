"""A slice of this machine: some of its CPUs, a share of their time, so much memory.

Half a CPU is one CPU for half of the time. A program is started through a shell that joins the groups, keeps to the
slice's CPUs and then becomes the program: no process of ours stays between.
"""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from trainfare.clouds.cgroups import Group, find_group, make_group
from trainfare.errors import UsageError
from trainfare.model.machine import VmType
from trainfare.units import BYTES_PER_GIB

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "NPROC")
"""By these PyTorch, NumPy, TensorFlow and JAX (in this order) are told how many threads to take."""

_JOIN = 'for door in $1; do echo $$ > "$door" || exit 125; done; cpus=$2; shift 2; exec taskset -c "$cpus" "$@"'


@dataclass(frozen=True, slots=True)
class Slice:
    """How to start a program inside: `prefix` before its command, `environment` beside its own."""

    name: str
    prefix: tuple[str, ...]
    environment: Mapping[str, str]
    group: Group

    def remove(self) -> None:
        self.group.remove()


def make_slice(vm_type: VmType, name: str) -> Slice:
    """The slice that the machine type describes. `name` is free to choose; the same name is the same slice."""
    cpus = _cpus(vm_type)
    here = sorted(os.sched_getaffinity(0))
    threads = math.ceil(cpus)
    if threads > len(here):
        raise UsageError(f"{vm_type.key} is a slice of {cpus:g} CPUs, but this machine has {len(here)}.")
    memory = vm_type.memory_gib and int(vm_type.memory_gib * BYTES_PER_GIB)
    group = make_group(name, cpus=None if cpus == threads else cpus, memory_bytes=memory or None)
    # A space parts the doors; none stands in a path below /sys/fs/cgroup that we or a service manager name.
    doors = " ".join(map(str, group.doors))
    return Slice(
        name=name,
        prefix=("/bin/sh", "-c", _JOIN, "sh", doors, ",".join(map(str, here[:threads]))),
        environment={variable: str(threads) for variable in _THREADS},
        group=group,
    )


@contextmanager
def slice_for(vm_type: VmType, name: str) -> Iterator[Slice]:
    """A slice while it is needed; what still runs in it afterwards is ended."""
    made = make_slice(vm_type, name)
    try:
        yield made
    finally:
        made.remove()


def remove_slice(name: str) -> None:
    """Whatever is left under this name."""
    find_group(name).remove()


def is_slice(vm_type: VmType) -> bool:
    return vm_type.provider == "local"


def _cpus(vm_type: VmType) -> float:
    if vm_type.vcpus is None:
        raise UsageError(f"{vm_type.key} does not say how many CPUs it has: give it vcpus.")
    return vm_type.vcpus
