"""Finds the cause of a failure in the output of a program: a GPU that is not there, or memory that ran out.

Pure functions of the output. The messages are those of PyTorch, JAX and TensorFlow.
"""

import re
from collections import deque
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

Cause = Literal["no_gpu", "gpu_memory", "host_memory"]

_MESSAGES: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    (
        "no_gpu",
        re.compile(
            r"not compiled with CUDA enabled|Found no NVIDIA driver|No (?:CUDA|HIP) GPUs are available"
            r"|CUDA driver version is insufficient|NVIDIA driver on your system is too old"
            r"|on a CUDA device but torch\.cuda\.is_available\(\) is False|no CUDA-capable device is detected"
            r"|not linked with support for (?:mps|cuda|xpu) devices|Torch not compiled with XPU enabled"
            r"|Unable to initialize backend '(?:cuda|gpu|rocm|tpu)'|Unknown backend:? '?(?:cuda|gpu|rocm|tpu)"
            r"|Could not satisfy (?:explicit )?device specification.*GPU|assigned to .*GPU.* but available devices"
            r"|No supported gpu backend found|CUDAAccelerator. can not run on your system"
            r"|AssertionError: (?:CUDA|GPU) (?:is )?(?:not available|required)"
            r"|requires? (?:a|at least one|one) (?:CUDA )?GPU"
        ),
    ),
    (
        "gpu_memory",
        re.compile(r"(?:CUDA|HIP|XPU|MPS backend) out of memory|CUDA_ERROR_OUT_OF_MEMORY"),
    ),
    (
        "host_memory",
        re.compile(
            r"DefaultCPUAllocator: (?:can't|not enough) |^MemoryError\b|std::bad_alloc"
            r"|Unable to allocate .* for an array"
            r"|\[Errno 12\] Cannot allocate memory|DataLoader worker .* is killed by signal: Killed",
            re.MULTILINE,
        ),
    ),
)
_FRAME = re.compile(r'^\s*(?:\[rank\d+\]:\s*)?File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_LIBRARY_FOLDERS = {"site-packages", "dist-packages"}
_OPTION = re.compile(r"""["'](--(?:device|accelerator|use[-_]cpu|cpu|no[-_]cuda|no[-_]gpu|no[-_]accel))["']""")
_VALUES = {"device", "accelerator"}
"""Options that take the name of a device; the others are flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The cause of a failure, the message that shows it, and the last line of the user's own code on the way there."""

    cause: Cause
    message: str
    file: str | None = None
    line: int | None = None


def diagnose(output: str) -> Diagnosis | None:
    """The cause that the end of the output shows; None if it shows none that is known here.

    Only an output with a traceback counts: a program may print such a message as a warning and go on.
    """
    start = output.rfind("Traceback (most recent call last)")
    if start < 0:
        return None
    failure = output[start:]
    for cause, pattern in _MESSAGES:
        found = deque(pattern.finditer(failure), maxlen=1)  # the last: a traceback shows the source before the message
        if not found:
            continue
        position = found[0].start()
        file, line = _own_frame(failure[:position])
        return Diagnosis(cause=cause, message=_line_around(failure, position), file=file, line=line)
    return None


def cpu_option(source: str) -> str | None:
    """The words that make a program train on the CPU, if its source has an option for it, such as `--device cpu`."""
    found = _OPTION.search(source)
    if found is None:
        return None
    option = found[1]
    return f"{option} cpu" if option.lstrip("-") in _VALUES else option


def _own_frame(trace: str) -> tuple[str | None, int | None]:
    """The innermost frame that is not in an installed library or in Python itself."""
    own = [match for match in _FRAME.finditer(trace) if not _is_library(match["file"])]
    return (own[-1]["file"], int(own[-1]["line"])) if own else (None, None)


def _is_library(file: str) -> bool:
    parts = PurePath(file).parts
    in_python = any(re.fullmatch(r"python\d\.\d+", part) for part in parts[:-1]) and "lib" in parts
    return bool(_LIBRARY_FOLDERS.intersection(parts)) or in_python or file.startswith("<")


def _line_around(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[start : end if end >= 0 else len(text)].strip()[:300]
