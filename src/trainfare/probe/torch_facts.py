"""Facts read from PyTorch's objects: model, optimizer, scheduler, loader, versions, compilation.

Nothing here changes an object, and only `learning_rate_of` is called in an ordinary iteration.
"""

# ruff: noqa: SLF001 # PyTorch has no public name for the parts of a scheduler
from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

LIBRARIES = ("numpy", "triton", "lightning", "pytorch_lightning", "transformers", "accelerate", "deepspeed")
"""Libraries whose version may affect the speed; recorded if the program has imported them."""


def model_facts(
    torch: ModuleType, parameters: list[Any], optimizers: Iterable[Any], *, device: str
) -> dict[str, Any] | None:
    """The facts of the `model` event; None if nothing is trained."""
    largest = max(parameters, key=lambda p: p.numel(), default=None)
    if largest is None:
        return None
    states = [value for o in optimizers for state in o.state.values() for value in tensors_in(state)]
    cuda = device == "cuda"
    distributed = is_distributed(torch)
    return {
        "parameters": sum(p.numel() for p in parameters),
        "dtype": str(largest.dtype).replace("torch.", ""),
        "device": device,
        "gpu": torch.cuda.get_device_name(largest.device) if cuda else None,
        "gpus": torch.cuda.device_count() if cuda else 0,
        "gradient_bytes": sum(bytes_of(p.grad) for p in parameters if p.grad is not None),
        "optimizer_bytes": sum(map(bytes_of, unique_tensors(states))),
        "world_size": torch.distributed.get_world_size() if distributed else 1,
        "rank": torch.distributed.get_rank() if distributed else 0,
        "threads": torch.get_num_threads(),
    }


def parameters_of(optimizers: Iterable[Any]) -> list[Any]:
    """The parameters that the optimizers train: programs with adapters often give them frozen ones too."""
    given = (p for o in optimizers for group in o.param_groups for p in group["params"])
    return unique_tensors(p for p in given if p.requires_grad or p.grad is not None)


def leaves_of(loss: Any) -> list[Any]:
    """The tensors that the gradient of the loss reaches."""
    waiting, seen, found = [loss.grad_fn], set(), []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        waiting += [following for following, _ in node.next_functions]
    return unique_tensors(found)


def learning_rate_of(optimizer: Any) -> float | None:
    """The learning rate of the first parameter group; None if it is a tensor, because reading one may wait."""
    rate = None if optimizer is None else optimizer.param_groups[0].get("lr")
    return rate if isinstance(rate, (int, float)) else None


def divisor_of(loss: Any) -> int | None:
    """The whole number by which the loss was divided last, as for gradient accumulation; None if there is none."""
    step = loss.grad_fn
    name = "" if step is None else step.name()
    if name not in ("DivBackward0", "MulBackward0"):
        return None
    other = getattr(step, "_saved_other", None)
    if other is None or other.numel() != 1 or other.device.type != "cpu":
        return None
    value = float(other)
    divisor = value if name == "DivBackward0" else 1 / value if value else 0.0
    return round(divisor) if divisor > 1 and abs(divisor - round(divisor)) < 1e-6 * divisor else None


def scheduler_of(optimizer: Any, schedulers: Iterable[Any]) -> Any:
    """The outermost of the optimizer's schedulers: a composite scheduler contains the others."""
    found = [one for one in schedulers if getattr(one, "optimizer", None) is optimizer]
    inside = {id(part) for one in found for part in getattr(one, "_schedulers", ())}
    return next((one for one in found if id(one) not in inside), None)


def is_distributed(torch: ModuleType) -> bool:
    """Several processes train together."""
    distributed = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized())


def compilation_facts() -> dict[str, Any] | None:
    """The seconds that `torch.compile` took, and whether its cache was warm. On a rented machine it is cold."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    seconds = 0.0 if dynamo is None else dynamo.calculate_time_spent().get("total_wall_time", 0.0)
    if dynamo is None or not seconds:
        return None
    counts = dynamo.counters["inductor"]
    hits, misses = counts["fxgraph_cache_hit"], counts["fxgraph_cache_miss"] + counts["fxgraph_cache_bypass"]
    return {"seconds": seconds, "cache_warm": hits > misses if hits + misses else None}


def versions(torch: ModuleType) -> dict[str, str]:
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in LIBRARIES}
    found["python"] = platform.python_version()
    found["cuda"], found["rocm"] = torch.version.cuda, getattr(torch.version, "hip", None)
    if torch.version.cuda:
        found["cudnn"] = torch.backends.cudnn.version()
    return {name: str(version) for name, version in found.items() if version}


def loader_facts(loader: Any) -> dict[str, Any]:
    return {
        "batch_size": loader.batch_size or getattr(loader.batch_sampler, "batch_size", None),
        "samples": _samples(loader),
        "length": _length(loader),
        "workers": loader.num_workers,
    }


def leading_dimension(batch: Any) -> int | None:
    """The batch size of a loader whose data set makes the batches itself."""
    first = next((tensor for tensor in tensors_in(batch) if tensor.dim()), None)
    return None if first is None else int(first.shape[0])


def _samples(loader: Any) -> int | None:
    """The samples of an epoch: the sampler may take only a part of the data set, or one share per rank."""
    sampler = getattr(loader, "sampler", None)
    dataset_makes_batches = loader.batch_size is None
    try:
        if dataset_makes_batches or not hasattr(sampler, "__len__"):
            return len(loader.dataset)
        return len(sampler) if not hasattr(sampler, "num_replicas") else len(loader.dataset)  # type: ignore[arg-type] # checked above
    except (TypeError, NotImplementedError):  # a stream has no length
        return None


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):  # a stream has no length
        return None


def unique_tensors(tensors: Iterable[Any]) -> list[Any]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def tensors_in(value: Any) -> list[Any]:
    """The tensors in a batch or an optimizer's state, at any depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return [value] if hasattr(value, "untyped_storage") else []


def bytes_of(tensor: Any) -> int:
    if tensor.is_sparse:
        tensor = tensor._values()
    return int(tensor.numel() * tensor.element_size())
