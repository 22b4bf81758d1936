"""The memory of one iteration of PyTorch, by the lifetime of its tensors, and the memory of the weights.

While an iteration is traced, every storage that it makes is noted with the moment of its end. Of all moments only those
are kept that could be the peak at some batch size: at each of them some bytes do not depend on the batch (gradients of
weights, and the copies of weights that autocast keeps), and the others grow with it.
"""

# ruff: noqa: SLF001 # PyTorch has no public name for the parts of FSDP and of quantised tensors
from __future__ import annotations

import gc
import math
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

MAX_MOMENTS = 12
"""At most this many moments are recorded: those with most bytes at the traced batch size."""


class StorageLog:
    """Notes when each storage was made and when it ended."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, int]] = []
        """Key of a storage and the bytes that it added or freed, in order."""
        self._known: dict[int, tuple[Any, int]] = {}
        """Address → a weak reference, and the key of the storage."""
        self._keys = 0
        self._sent: set[int] = set()
        self._copies: set[int] = set()
        self._divided = False
        self._gradients: set[int] = set()
        self._standing: dict[int, int] = {}
        """Address → bytes of gradients that were there before the iteration, and are kept."""

    def note(self, storages: Iterable[Any], made_from: Iterable[Any] = ()) -> None:
        """Storages that an operator returned. Those that it was given were made by another one."""
        given = {storage._cdata for storage in made_from}
        for storage in storages:
            address = storage._cdata
            known = self._known.get(address)
            if known is not None and known[0]() is not None:
                continue
            if address in given or not storage.nbytes():
                continue
            self._keys += 1
            key, size = self._keys, storage.nbytes()
            self._changes.append((key, size))
            self._known[address] = (weakref.ref(storage, self._ending(key, size)), key)

    def _ending(self, key: int, size: int) -> Any:
        changes = self._changes
        return lambda _reference: changes.append((key, -size))

    def note_sent(self, storages: Iterable[Any]) -> None:
        """Buffers of collectives, which exist only where the model is divided."""
        self._sent.update(self._keys_of(storages))

    def note_divided(self) -> None:
        """A collective gathered or scattered: the model is divided over processes."""
        self._divided = True

    def note_copies(self, storages: Iterable[Any]) -> None:
        """Copies of weights in another dtype."""
        self._copies.update(self._keys_of(storages))

    def note_gradients(self, storages: Iterable[Any]) -> None:
        for storage in storages:
            keys = self._keys_of([storage])
            self._gradients.update(keys)
            if not keys:
                self._standing[storage._cdata] = storage.nbytes()

    def _keys_of(self, storages: Iterable[Any]) -> list[int]:
        found = (self._known.get(storage._cdata) for storage in storages)
        return [one[1] for one in found if one is not None and one[0]() is not None]

    def facts(self) -> dict[str, Any]:
        """The moments, and the largest bytes of copies of weights at one moment."""
        changes, fixed_keys = list(self._changes), self._gradients | self._copies
        fixed, growing, copies, most_copies = sum(self._standing.values()), 0, 0, 0
        seen: set[tuple[int, int]] = set()
        for key, size in changes:
            if key in self._sent:
                continue
            if key in fixed_keys:
                fixed += size
            else:
                growing += size
            if key in self._copies:
                copies += size
                most_copies = max(most_copies, copies)
            if size > 0:
                seen.add((fixed, growing))
        # Where the model is divided, whole gradients exist for a moment, which do not grow with the batch.
        return {"moments": [] if self._divided else outer_moments(seen), "weight_copy_bytes": most_copies}


def outer_moments(moments: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The moments (fixed, growing) of which fixed + growing · x is the largest for some x, most growing first."""
    hull: list[tuple[int, int]] = []
    for moment in sorted(moments, key=lambda m: (-m[1], -m[0])):
        if hull and moment[0] <= hull[-1][0]:
            continue
        while len(hull) > 1 and _is_inside(hull[-2], hull[-1], moment):
            hull.pop()
        hull.append(moment)
    largest = sorted(hull, key=lambda m: -(m[0] + m[1]))[:MAX_MOMENTS]
    return [moment for moment in hull if moment in largest]


def _is_inside(before: tuple[int, int], middle: tuple[int, int], after: tuple[int, int]) -> bool:
    """The middle moment is never above both of its neighbours."""
    return (after[0] - before[0]) * (before[1] - middle[1]) >= (middle[0] - before[0]) * (before[1] - after[1])


def storages_of(tensors: Iterable[Any]) -> list[Any]:
    """The storages of ordinary tensors; a tensor of several parts, such as a sharded one, has none of its own."""
    return [t.untyped_storage() for t in tensors if str(t.layout) == "torch.strided" and _is_plain(t)]


def _is_plain(tensor: Any) -> bool:
    return not hasattr(tensor, "__tensor_flatten__")


def weight_facts(modules: Iterable[Any], trained: list[Any], *, device: str) -> dict[str, Any]:
    """Parameters and buffers of the modules on the device, trained and frozen, in numbers and in bytes as stored.

    Where the model is divided over processes these are the figures of the whole model. `shards` is then the number by
    which the sizes of the optimizer's tensors have to be multiplied.
    """
    modules = list({id(module): module for module in modules}.values())
    parameters = {id(p): p for p in trained}
    buffers: dict[int, Any] = {}
    for module in modules:
        parameters.update({id(p): p for p in module._parameters.values() if p is not None})
        buffers.update({id(buffer): buffer for buffer in module._buffers.values() if buffer is not None})
    updated, flat = {id(p) for p in trained}, _FlatParameters(modules)
    mine = [p for key, p in parameters.items() if key not in flat.inside and p.device.type == device]
    kept = [buffer for buffer in buffers.values() if buffer.device.type == device]
    return {
        "parameters": flat.trained + sum(_elements(p) for p in mine if id(p) in updated),
        "frozen_parameters": flat.frozen + sum(_elements(p) for p in mine if id(p) not in updated),
        "weight_bytes": flat.bytes + sum(map(stored_bytes, (*mine, *kept))),
        "zero_stage": flat.zero_stage or _zero_stage(trained),
        "shards": flat.shards,
    }


def all_modules(torch: ModuleType) -> list[Any]:
    """All modules of the program. Looking at every object takes a tenth of a second and more."""
    base = torch.nn.Module
    return [thing for thing in gc.get_objects() if issubclass(type(thing), base) and "_parameters" in vars(thing)]


def _elements(parameter: Any) -> int:
    """The number of weights; a tensor quantised to 4 bits packs two into one element."""
    shape = getattr(getattr(parameter, "quant_state", None), "shape", None)
    return int(parameter.numel()) if shape is None else math.prod(shape)


def stored_bytes(tensor: Any) -> int:
    """The bytes of a tensor as stored, with the scales of a quantised one; of a sharded one those of the whole."""
    if hasattr(tensor, "device_mesh"):  # a DTensor has the shape of the whole
        return int(tensor.numel() * tensor.element_size())
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        return sum(stored_bytes(getattr(tensor, name)) for name in flatten()[0])
    scales = [t for t in vars(getattr(tensor, "quant_state", type)).values() if hasattr(t, "untyped_storage")]
    extra = sum(t.numel() * t.element_size() for t in scales)
    if tensor.is_sparse:
        tensor = tensor._values()
    size = tensor.numel() * tensor.element_size()
    return int(min(size, tensor.untyped_storage().nbytes() or size) + extra)


class _FlatParameters:
    """The parameters that wrappers of FSDP made flat and divided: the figures of the whole model."""

    def __init__(self, modules: list[Any]) -> None:
        handles = {id(handle): handle for m in modules if (handle := getattr(m, "_handle", None)) is not None}
        self.inside: set[int] = set()
        """Parameters of PyTorch that are a part of them."""
        self.trained = self.frozen = self.bytes = self.zero_stage = 0
        whole = here = 0
        for handle in handles.values():
            flat = getattr(handle, "flat_param", None)
            if flat is None:
                continue
            own = getattr(flat, "_params", None)
            self.inside.update({id(flat)} if own is None else {id(flat), *map(id, own)})
            sizes = [math.prod(shape) for shape in flat._shapes]
            updated = [flat.requires_grad] * len(sizes) if own is None else [p.requires_grad for p in own]
            self.trained += sum(size for size, used in zip(sizes, updated) if used)
            self.frozen += sum(size for size, used in zip(sizes, updated) if not used)
            self.bytes += sum(sizes) * flat.element_size()
            whole, here = whole + sum(sizes), here + getattr(flat, "_local_shard", flat).numel()
            name = str(getattr(handle, "_sharding_strategy", ""))
            self.zero_stage = 0 if "NO_SHARD" in name else 2 if "SHARD_GRAD_OP" in name else 3
        self.shards = whole / here if here else 1.0


def _zero_stage(trained: list[Any]) -> int:
    """3 where FSDP divides each parameter, with its gradient and its state; otherwise nothing is divided."""
    placements = [place for p in trained for place in getattr(p, "placements", ())]
    return 3 if any(type(place).__name__ == "Shard" for place in placements) else 0


def steps_all_at_once(optimizer: Any) -> bool | None:
    """True if a step on a GPU takes all parameters at once, with temporary tensors as large as they are: PyTorch's own
    optimizers do, unless fused or with `foreach=False`. None without an optimizer."""
    if optimizer is None:
        return None
    options = getattr(optimizer, "defaults", {})
    own = type(optimizer).__module__.startswith("torch.optim")
    return own and not options.get("fused") and options.get("foreach") is not False
