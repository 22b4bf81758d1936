"""Attention as a GPU runs it: a call of `scaled_dot_product_attention` is one operation, with no matrix of scores.

A GPU has a fused kernel for every call. A CPU has none with dropout: there it runs operator by operator, and holds the
scores of all pairs of tokens. Such a call is recorded as the fused one: two products forward and five backward, and the
bytes of query, key, value and result. Its backward pass is recognised by the sequence numbers of the autograd nodes
made in the call.

A call stays as it is on a GPU, where the kernel that runs is the one to record, where the program switched the fused
kernels off, and where it put a function of its own in place of PyTorch's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

NAME = "scaled_dot_product_attention"
_MATH = 0
"""The number of PyTorch's choice that runs operator by operator."""
_END_OF_RECOMPUTING = "_StopRecomputationError"
"""Raised by activation checkpointing once all tensors are there that the backward pass needs. A fused kernel has then
run as a whole."""


@dataclass
class FusedCall:
    """One call that a GPU would run in one kernel."""

    first_node: int
    end_node: int = -1
    """The sequence numbers of its autograd nodes are below; -1 as long as it runs."""
    result: Any = None
    """The tensor that it returned, as long as the call is being recorded; an empty one if it returned none."""
    had_backward: bool = False
    shapes: tuple[tuple[int, ...], ...] = ()
    """Query, key, value, result, and the mask if there is one."""
    itemsize: int = 0
    dtype: str = ""

    @property
    def _tensor_bytes(self) -> int:
        return self.itemsize * sum(map(math.prod, self.shapes))

    @property
    def largest_bytes(self) -> int:
        """The size of the largest tensor that the fused kernel would make, too."""
        return self.itemsize * max(map(math.prod, self.shapes[:4]))

    def work(self, *, backward: bool) -> tuple[float, float]:
        """FLOPs and bytes. The backward pass reads what the forward pass moved, and as many gradients go in and out."""
        query, key, value = self.shapes[:3]
        pairs = math.prod(query[:-1]) * key[-2]
        products = 3 * query[-1] + 2 * value[-1] if backward else query[-1] + value[-1]
        return 2.0 * pairs * products, float((2 if backward else 1) * self._tensor_bytes)


class AttentionCalls:
    """Watches the calls of an iteration, between `enter` and `leave`."""

    def __init__(
        self, torch: ModuleType, recorded: Callable[[FusedCall], None], failed: Callable[[Exception], None]
    ) -> None:
        self._torch = torch
        self._functional: Any = torch.nn.functional
        self._recorded = recorded
        self._failed = failed
        self._sequence_number = getattr(torch.autograd, "_get_sequence_nr", lambda: 0)
        self._calls: list[FusedCall] = []
        self._original: Any = None
        self.running: FusedCall | None = None

    def enter(self) -> None:
        self._original = getattr(self._functional, NAME, None)
        own = getattr(self._torch._C._nn, NAME, None)  # noqa: SLF001 # it has no public name
        if own is not None and self._original is own and hasattr(self._torch, "_fused_sdp_choice"):
            setattr(self._functional, NAME, self._watched)

    def leave(self) -> None:
        if getattr(self._functional, NAME, None) == self._watched:
            setattr(self._functional, NAME, self._original)

    def _watched(self, *args: Any, **options: Any) -> Any:
        if self.running is not None or not self._is_taken_apart(args, options):
            return self._original(*args, **options)
        self.running = call = FusedCall(self._sequence_number())
        try:
            call.result = result = self._original(*args, **options)
        except Exception as error:  # every error is raised again; only one kind ends the call
            if type(error).__name__ == _END_OF_RECOMPUTING:
                self._finish(call, args, options)
            raise
        finally:
            self.running = None
        self._finish(call, args, options)
        return result

    def _finish(self, call: FusedCall, args: Any, options: dict[str, Any]) -> None:
        self.running = None
        call.end_node = self._sequence_number()
        try:
            self._describe(call, args, options)
            self._calls.append(call)
            self._recorded(call)
        except Exception as error:  # noqa: BLE001 # a call that the probe misreads must still return its result
            self._failed(error)
        call.result = None

    def _is_taken_apart(self, args: Any, options: dict[str, Any]) -> bool:
        """True if the call runs operator by operator here, and would run in one kernel on a GPU."""
        try:
            kernels = self._torch.backends.cuda
            query = args[0] if args else options["query"]
            if query.is_cuda or not (kernels.flash_sdp_enabled() or kernels.mem_efficient_sdp_enabled()):
                return False
            return int(self._torch._fused_sdp_choice(*args, **options)) == _MATH  # noqa: SLF001 # it has no public name
        except Exception:  # noqa: BLE001 # a call that the probe misreads must still run, and fail in its own words
            return False

    def _describe(self, call: FusedCall, args: Any, options: dict[str, Any]) -> None:
        names = ("query", "key", "value", "attn_mask")
        given = dict(zip(names, args)) | {name: options[name] for name in names if name in options}
        query, key, value, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
        if call.result is None:
            call.result = query.new_empty(0)
        shapes = [query.shape, key.shape, value.shape, (*query.shape[:-1], value.shape[-1])]
        call.shapes = tuple(map(tuple, shapes if mask is None else [*shapes, mask.shape]))
        call.itemsize = call.result.element_size()

    def backward_of(self, node: Any) -> FusedCall | None:
        """The call of which this autograd node is a part."""
        if node is None or not self._calls:
            return None
        number = node._sequence_nr()  # noqa: SLF001 # it has no public name
        return next((call for call in self._calls if call.first_node <= number < call.end_node), None)
