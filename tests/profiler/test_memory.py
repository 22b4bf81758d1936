"""The memory of this machine and of real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainfare.profiler.memory import MemoryWatch, descendants, has_accelerator

pytestmark = pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="the kernel shows no memory")

GRANDCHILD = "block = bytearray(200_000_000); print('ready', flush=True); input()"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {GRANDCHILD!r}])"


def test_the_memory_of_children_is_that_of_the_program() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        watch = MemoryWatch(program.pid)
        reading = watch.read()
        assert len(list(descendants(program.pid))) == 2
        program.communicate("\n")
        later = watch.read()
    assert reading is not None
    assert later is not None
    assert 200e6 < reading.program_bytes < reading.total_bytes
    assert later.program_bytes < 200e6
    assert later.peak_program_bytes == reading.program_bytes


def test_this_machine_has_memory() -> None:
    reading = MemoryWatch(os.getpid()).read()
    assert reading is not None
    assert 0 < reading.available_bytes <= reading.total_bytes
    assert reading.usable_bytes <= reading.total_bytes


def test_an_accelerator_is_a_device_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "nvidia-caps").touch()
    assert not has_accelerator(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert has_accelerator(tmp_path)
