"""Causes of failures in real outputs."""

import pytest

from trainfare.profiler.diagnosis import cpu_option, diagnose

NO_GPU = """
Traceback (most recent call last):
  File "/tmp/copy/home/ada/train.py", line 5, in <module>
    model = build()
  File "/tmp/copy/home/ada/models.py", line 4, in build
    return torch.nn.Linear(4, 4).to(device)
  File "/usr/lib/python3.11/site-packages/torch/cuda/__init__.py", line 522, in _lazy_init
    raise AssertionError("Torch not compiled with CUDA enabled")
AssertionError: Torch not compiled with CUDA enabled
"""
TORCHRUN = """
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/ada/train.py", line 12, in <module>
[rank0]:     torch.cuda.set_device(0)
[rank0]:   File "/opt/lib/python3.12/site-packages/torch/cuda/__init__.py", line 584, in set_device
[rank0]:     torch._C._cuda_setDevice(device)
[rank0]: RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU
E1117 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) local_rank: 0
"""


def test_the_line_of_the_program_that_asks_for_a_gpu_is_named() -> None:
    found = diagnose(NO_GPU)
    assert found is not None
    assert (found.cause, found.file, found.line) == ("no_gpu", "/tmp/copy/home/ada/models.py", 4)
    assert found.message == "AssertionError: Torch not compiled with CUDA enabled"


def test_the_output_of_torchrun_is_read_too() -> None:
    found = diagnose(TORCHRUN)
    assert found is not None
    assert (found.cause, found.file, found.line) == ("no_gpu", "/home/ada/train.py", 12)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("RuntimeError: No CUDA GPUs are available", "no_gpu"),
        ("RuntimeError: Unknown backend: 'gpu' requested, but no platforms that are instances of gpu", "no_gpu"),
        ("Error: deserialize object on a CUDA device but torch.cuda.is_available() is False", "no_gpu"),
        ("lightning.fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend found!", "no_gpu"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "gpu_memory"),
        ("RuntimeError: [enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory", "host_memory"),
        ("MemoryError", "host_memory"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 745. GiB for an array", "host_memory"),
        ("ValueError: loss is NaN", None),
    ],
)  # fmt: skip
def test_each_framework_has_its_own_words(message: str, cause: str | None) -> None:
    found = diagnose(f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n{message}\n')
    assert (found and found.cause) == cause


def test_a_warning_is_not_the_cause() -> None:
    assert diagnose("UserWarning: Found no NVIDIA driver on your system; training on the CPU") is None
    warned = "RuntimeError: No CUDA GPUs are available (ignored)\nTraceback (most recent call last):\nValueError: 3"
    assert diagnose(warned) is None


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ('parser.add_argument("--device", default="cuda")', "--device cpu"),
        ("parser.add_argument('--no-cuda', action='store_true')", "--no-cuda"),
        ('parser.add_argument("--accelerator")', "--accelerator cpu"),
        ('device = "cuda"', None),
    ],
)
def test_an_option_for_the_cpu_is_found_in_the_source(source: str, option: str | None) -> None:
    assert cpu_option(source) == option
