"""A slice of this machine: some of its CPUs, a share of their time, and an amount of memory.

Half a CPU is one CPU for half of the time. A program is started through a shell that joins the control groups, binds
itself to the slice's CPUs and then becomes the program, so that no process of ours remains in between.
"""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from trainfare.clouds.cgroups import ControlGroup, find_group, make_group
from trainfare.errors import UsageError
from trainfare.model.machine import HERE, HERE_PROVIDER, VmType
from trainfare.units import BYTES_PER_GIB

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "NPROC")
"""Environment variables with the number of threads of PyTorch, NumPy, TensorFlow and JAX, in this order."""

_JOIN = 'for file in $1; do echo $$ > "$file" || exit 125; done; cpus=$2; shift 2; exec taskset -c "$cpus" "$@"'


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice: a program is started in it with `prefix` before its command and `environment` added to its own."""

    name: str
    prefix: tuple[str, ...]
    environment: Mapping[str, str]
    group: ControlGroup

    def remove(self) -> None:
        self.group.remove()


def make_slice(vm_type: VmType, name: str) -> Slice:
    """Create the slice that the machine type describes. `name` is arbitrary; the same name is the same slice."""
    cpus = _cpus(vm_type)
    available = sorted(os.sched_getaffinity(0))
    threads = math.ceil(cpus)
    if threads > len(available):
        raise UsageError(f"{vm_type.key} is a slice of {cpus:g} CPUs, but this machine has {len(available)}.")
    memory = vm_type.memory_gib and int(vm_type.memory_gib * BYTES_PER_GIB)
    group = make_group(name, cpus=None if cpus == threads else cpus, memory_bytes=memory or None)
    # The files are separated by spaces: paths below /sys/fs/cgroup contain none.
    files = " ".join(map(str, group.process_files))
    return Slice(
        name=name,
        prefix=("/bin/sh", "-c", _JOIN, "sh", files, ",".join(map(str, available[:threads]))),
        environment={variable: str(threads) for variable in _THREAD_VARIABLES},
        group=group,
    )


@contextmanager
def slice_for(vm_type: VmType, name: str) -> Iterator[Slice]:
    """A slice for the duration of the block; processes that still run in it afterwards are killed."""
    made = make_slice(vm_type, name)
    try:
        yield made
    finally:
        made.remove()


def remove_slice(name: str) -> None:
    """Remove a slice by its name, if it exists."""
    find_group(name).remove()


def is_slice(vm_type: VmType) -> bool:
    """True if the machine is a slice of this machine, and not all of it."""
    return vm_type.provider == HERE_PROVIDER and vm_type.key != HERE


def _cpus(vm_type: VmType) -> float:
    if vm_type.vcpus is None:
        raise UsageError(f"{vm_type.key} does not state its number of CPUs: give it vcpus.")
    return vm_type.vcpus
