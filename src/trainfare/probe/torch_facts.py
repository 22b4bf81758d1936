"""What is read off PyTorch's own things: model, optimizer, scheduler, loader, versions, compilation.

Nothing here changes anything, and nothing here is called in an ordinary iteration, except `learning_rate_of`.
"""

# ruff: noqa: SLF001 # PyTorch has no public name for the parts of a scheduler
from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

NOTED = ("numpy", "triton", "lightning", "pytorch_lightning", "transformers", "accelerate", "deepspeed")
"""Libraries whose version may decide the speed, where the program has imported them."""


def model_facts(
    torch: ModuleType, parameters: list[Any], optimizers: Iterable[Any], *, device: str
) -> dict[str, Any] | None:
    """None where nothing is trained."""
    largest = max(parameters, key=lambda p: p.numel(), default=None)
    if largest is None:
        return None
    states = [value for o in optimizers for state in o.state.values() for value in tensors_in(state)]
    cuda = device == "cuda"
    spread = is_spread(torch)
    return {
        "parameters": sum(p.numel() for p in parameters),
        "dtype": str(largest.dtype).replace("torch.", ""),
        "device": device,
        "gpu": torch.cuda.get_device_name(largest.device) if cuda else None,
        "gpus": torch.cuda.device_count() if cuda else 0,
        "gradient_bytes": sum(bytes_of(p.grad) for p in parameters if p.grad is not None),
        "optimizer_bytes": sum(map(bytes_of, unique(states))),
        "world_size": torch.distributed.get_world_size() if spread else 1,
        "rank": torch.distributed.get_rank() if spread else 0,
    }


def parameters_of(optimizers: Iterable[Any]) -> list[Any]:
    return unique(p for o in optimizers for group in o.param_groups for p in group["params"])


def leaves_of(loss: Any) -> list[Any]:
    """The tensors that the gradient of the loss flows to."""
    waiting, seen, found = [loss.grad_fn], set(), []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        waiting += [following for following, _ in node.next_functions]
    return unique(found)


def learning_rate_of(optimizer: Any) -> float | None:
    """Of the first group. One that lives on a device is not asked for: that would wait."""
    rate = None if optimizer is None else optimizer.param_groups[0].get("lr")
    return rate if isinstance(rate, (int, float)) else None


def scheduler_of(optimizer: Any, schedulers: Iterable[Any]) -> Any:
    """The outermost of the optimizer's schedulers: those that it is made of are inside it."""
    found = [one for one in schedulers if getattr(one, "optimizer", None) is optimizer]
    inside = {id(part) for one in found for part in getattr(one, "_schedulers", ())}
    return next((one for one in found if id(one) not in inside), None)


def is_spread(torch: ModuleType) -> bool:
    """Over several processes."""
    distributed = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized())


def compilation_facts() -> dict[str, Any] | None:
    """What `torch.compile` took, and whether it found code of an earlier run. A cold machine has none."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    seconds = 0.0 if dynamo is None else dynamo.calculate_time_spent().get("total_wall_time", 0.0)
    if dynamo is None or not seconds:
        return None
    counts = dynamo.counters["inductor"]
    hits, misses = counts["fxgraph_cache_hit"], counts["fxgraph_cache_miss"] + counts["fxgraph_cache_bypass"]
    return {"seconds": seconds, "cache_warm": hits > misses if hits + misses else None}


def versions(torch: ModuleType) -> dict[str, str]:
    found = {name: getattr(sys.modules.get(name), "__version__", None) for name in NOTED}
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
    """Of a loader whose data set makes the batches itself."""
    first = next((tensor for tensor in tensors_in(batch) if tensor.dim()), None)
    return None if first is None else int(first.shape[0])


def _samples(loader: Any) -> int | None:
    """The samples of an epoch: the sampler may take only a part of the data set, or a share of it on each rank."""
    sampler = getattr(loader, "sampler", None)
    own_batches = loader.batch_size is None
    try:
        if own_batches or not hasattr(sampler, "__len__"):
            return len(loader.dataset)
        return len(sampler) if not hasattr(sampler, "num_replicas") else len(loader.dataset)  # type: ignore[arg-type]  # it has a length: asked above
    except (TypeError, NotImplementedError):  # as a stream says that it has no length
        return None


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):  # as a stream says that it has no length
        return None


def unique(tensors: Iterable[Any]) -> list[Any]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def tensors_in(value: Any) -> list[Any]:
    """The tensors of a batch or of an optimizer's state, however nested."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return [value] if hasattr(value, "untyped_storage") else []


def bytes_of(tensor: Any) -> int:
    if tensor.is_sparse:
        tensor = tensor._values()
    return int(tensor.numel() * tensor.element_size())
