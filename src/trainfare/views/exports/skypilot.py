"""A training as a task of SkyPilot.

SkyPilot's server refuses fields under `config` that it does not know, so what only Trainfare understands stands in
comments.
"""

import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from trainfare.model.training_export import TrainingExport
from trainfare.views.exports.steps import (
    data_lines,
    environment_lines,
    heading,
    program_line,
    use_environment_lines,
    variable_lines,
)

CLOUDS = {
    "aws": "aws",
    "azure": "azure",
    "cudo": "cudo",
    "digitalocean": "do",
    "gcp": "gcp",
    "lambda": "lambda",
    "nebius": "nebius",
    "oci": "oci",
    "runpod": "runpod",
    "shadeform": "shadeform",
    "vast": "vast",
}
"""The providers of the catalog that SkyPilot knows, by its own names."""
_BY_TYPE = frozenset({"aws", "azure", "gcp"})
"""Clouds whose names of machines are the same in SkyPilot; elsewhere a machine is found by its GPUs."""
_SENT = "~/trainfare-data"
_IDLE_MINUTES = 5


class _Dumper(yaml.SafeDumper):  # type: ignore[misc] # PyYAML has no types
    """Scripts are written line by line."""


def _represent_text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def skypilot_text(export: TrainingExport) -> str:
    head = "\n".join((*heading(export), *_remarks(export)))
    return f"{head}\n{yaml.dump(task_of(export), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)}"


def task_of(export: TrainingExport) -> dict[str, Any]:
    """The fields of the task."""
    setup = "\n".join(_setup_lines(export))
    task: dict[str, Any] = {
        "name": "trainfare-" + export.id,
        "workdir": export.program.directory,
        "num_nodes": export.candidate.nodes,
        "resources": _resources(export),
        "envs": dict(export.variables),
        "secrets": dict.fromkeys(export.secrets),
        "file_mounts": {f"{_SENT}/{each.name}": each.source for each in export.data if each.kind == "sent"},
        "setup": f"{setup}\n" if setup else "",
        "run": "\n".join(_run_lines(export)) + "\n",
    }
    return {name: value for name, value in task.items() if value not in ({}, "")}


def _remarks(export: TrainingExport) -> Iterator[str]:
    provider = export.candidate.offer.vm_type.provider
    if provider == "ssh":
        yield "# SkyPilot reaches hosts of yours as a pool of its own: name it in ~/.sky/ssh_node_pools.yaml."
    elif provider not in CLOUDS:
        yield f"# SkyPilot does not know {provider}: the machine is described by its hardware."
    if export.limits.budget_usd is not None:
        yield f"# budget: ${export.limits.budget_usd:g}, kept by the time limit of the program"


def _resources(export: TrainingExport) -> dict[str, Any]:
    offer = export.candidate.offer
    vm_type, cloud = offer.vm_type, CLOUDS.get(offer.vm_type.provider)
    found: dict[str, Any] = {}
    if vm_type.provider == "ssh":
        found["infra"] = f"ssh/{vm_type.name}"
    elif cloud is not None:
        found["infra"] = f"{cloud}/{offer.region}" if cloud in _BY_TYPE else cloud
    if cloud in _BY_TYPE:
        found["instance_type"] = vm_type.name
    elif vm_type.gpu is not None:
        found["accelerators"] = f"{vm_type.gpu.name.replace(' ', '-')}:{vm_type.gpus}"
    elif vm_type.vcpus and cloud is not None:
        found["cpus"] = f"{vm_type.vcpus:g}+"
        if vm_type.memory_gib:
            found["memory"] = f"{vm_type.memory_gib:g}+"
    if offer.market == "spot":
        found["use_spot"] = True
    if cloud is not None:
        found["autostop"] = {"idle_minutes": _IDLE_MINUTES, "down": True}
    return found


def _setup_lines(export: TrainingExport) -> Iterator[str]:
    installation = export.installation
    installs = installation is not None and (installation.arguments or installation.locked)
    lines = [*environment_lines(installation)] if installs else []
    if export.setup:
        lines.append(f"bash -c {shlex.quote(export.setup)}")
    if lines:
        yield "set -e"
        yield from lines


def _run_lines(export: TrainingExport) -> Iterator[str]:
    yield "set -e"
    yield from (line for line in variable_lines(export) if line.startswith(":"))  # the others are in `envs`
    yield from use_environment_lines(export.installation)
    for line in data_lines(export.data):
        yield _at_its_place(line, export)
    yield program_line(export)


def _at_its_place(line: str, export: TrainingExport) -> str:
    """Data that SkyPilot sends is where it was mounted, not at its path at home."""
    for source in export.data:
        if source.kind == "sent":
            line = line.replace(shlex.quote(source.source), f'"$HOME"/{shlex.quote(f"{_SENT[2:]}/{source.name}")}')
    return line
