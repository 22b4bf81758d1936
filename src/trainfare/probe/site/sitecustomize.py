"""The entry point of the probe: Python imports it at start-up because its folder is first on PYTHONPATH.

It removes its folder from `sys.path`, starts the probe and then runs the `sitecustomize` that it shadows.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _start_probe() -> None:
    folder = os.path.dirname(_HERE)
    spec = importlib.util.spec_from_file_location(
        "_trainfare_probe",
        os.path.join(folder, "__init__.py"),
        submodule_search_locations=[folder],
    )
    if spec is not None and spec.loader is not None:
        package = importlib.util.module_from_spec(spec)
        sys.modules["_trainfare_probe"] = package
        spec.loader.exec_module(package)
        importlib.import_module("_trainfare_probe.boot").start(os.environ)


def _run_shadowed() -> None:
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if entry != _HERE]
try:
    _start_probe()
except Exception as error:  # noqa: BLE001 # the program must start even if the probe fails
    sys.stderr.write(f"trainfare: the probe could not start: {error!r}\n")
_run_shadowed()
