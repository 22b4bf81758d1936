"""Operations of the image models that `vision_models_rtx3090` has times of and no operations: traced here, and shipped.

    pip install --no-deps timm==1.0.19 huggingface_hub safetensors pyyaml pillow
    python -m benchmarks.traced.image_models --data DIR [--check N]

Each model of `train_amp_nchw.csv` is made anew by timm (Apache-2.0) on meta tensors, at the batch and image side of its
measurement, and one training iteration in half precision is followed through PyTorch's dispatcher: FLOPs and bytes of
every operator, as the table has them of other models. `--check N` traces N models that the table does have, and says
where the two differ; without it the file that `measurements/traced_models.py` reads is written. A name may mean another
network by now: what has another number of parameters than was measured is left out.

What is counted: of each operator the tensors that it reads and writes, each once. Views and allocations are none. A
convolution backward has the FLOPs of the forward pass for each of the two gradients that it makes.
"""

import argparse
import csv
import gzip
import json
import math
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trainfare.measurements.traced_models import IMAGE_MODELS, OWN_TRACES

Counts = Mapping[str, Counter[tuple[int, int]]]
"""By class: FLOPs and bytes of an operator, and how often it is launched."""

CLASSES = {
    "norm": ("native_batch_norm", "native_layer_norm", "native_group_norm"),
    "softmax": ("_softmax", "_log_softmax", "_safe_softmax"),
    "pool": ("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d"),
    "copy": ("copy_", "_to_copy", "clone", "cat", "constant_pad_nd", "index", "gather", "roll", "repeat", "flip"),
    "reduce": ("sum", "mean", "amax", "var_mean", "var", "std", "norm", "linalg_vector_norm", "max"),
}
"""Operators as the dispatcher names them; their backward passes have their class. What is nowhere is `elem`."""
FREE = (
    "alias", "as_strided", "detach", "empty", "empty_like", "empty_strided", "expand", "new_empty", "new_empty_strided",
    "permute", "randn", "select", "slice", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold",
    "unsqueeze", "view", "_unsafe_view", "zeros",
)  # fmt: skip
"""Views, and tensors that nothing is written to, or only once before the loop begins."""

SAME = 0.01
"""How far numbers of parameters may differ: heads and rounding."""

_CLASS_OF = {name: kind for kind, names in CLASSES.items() for name in names}


class Traced(TorchDispatchMode):
    """Counts what is launched while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
        self._held: list[Any] = []

    def __torch_dispatch__(
        self, operator: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = operator(*args, **(kwargs or {}))
        # A gradient without another reference becomes its parameter's; the table has the copy that is made otherwise.
        self._held.append(out)
        name = operator.overloadpacket.__name__
        if name not in FREE:
            tensors = {id(one): one for one in tree_leaves((args, kwargs, out)) if isinstance(one, torch.Tensor)}
            size = sum(one.numel() * one.element_size() for one in tensors.values())
            kind, flops = _kind_and_flops(name, args, out)
            self.counts[kind][flops, size] += 1
        return out


def _kind_and_flops(name: str, args: Sequence[Any], out: Any) -> tuple[str, int]:
    if name == "convolution":
        weight = args[1]
        return f"{_convolution(weight, groups=args[8])}_f", 2 * out.numel() * math.prod(weight.shape[1:])
    if name == "convolution_backward":
        gradient, weight, wanted = args[0], args[2], args[10]
        once = 2 * gradient.numel() * math.prod(weight.shape[1:])
        return f"{_convolution(weight, groups=args[9])}_b", once * (bool(wanted[0]) + bool(wanted[1]))
    if name in ("mm", "addmm", "bmm", "baddbmm"):
        left, right = args[-2:]
        return "bmm" if "bmm" in name else "mm", 2 * left.numel() * right.shape[-1]
    plain = name.removesuffix("_data").removesuffix("_backward")
    return _CLASS_OF.get(name) or _CLASS_OF.get(plain, "elem"), 0


def _convolution(weight: torch.Tensor, *, groups: int) -> str:
    if groups > 1:
        return "dw" if weight.shape[1] == 1 else "gconv"
    return "conv1x1" if all(side == 1 for side in weight.shape[2:]) else "conv"


def trace(model: torch.nn.Module, *, batch_size: int, side: int) -> Counts:
    """Of one iteration: forward, loss, backward, and an update that reads and writes each parameter once."""
    with Traced() as traced:
        images = torch.randn(batch_size, 3, side, side, device="meta", dtype=torch.half)
        out = model(images)
        scores = out[0] if isinstance(out, (tuple, list)) else out
        labels = torch.zeros(batch_size, device="meta", dtype=torch.long)
        torch.nn.functional.cross_entropy(scores.float(), labels).backward()
    size = sum(one.numel() * one.element_size() for one in model.parameters())
    return {**traced.counts, "opt": Counter({(0, 2 * size): 1})}


class Unfilled(TorchDispatchMode):
    """Weights are left as they come: drawing a billion of them takes longer than tracing what is done to them."""

    def __torch_dispatch__(
        self, operator: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        large = args and isinstance(args[0], torch.Tensor) and args[0].numel() > 10_000
        if large and operator.overloadpacket.__name__ in ("normal_", "uniform_", "erfinv_", "mul_", "add_", "clamp_"):
            return args[0]
        return operator(*args, **(kwargs or {}))


def _made(timm: Any, name: str) -> torch.nn.Module:
    with Unfilled():
        model: torch.nn.Module = timm.create_model(name)
    return model.to("meta").half().train()


def _timm() -> Any:
    """It wants torchvision to read pictures, which is not done here; a real one must fit the PyTorch at hand."""
    for name in ("", ".transforms", ".transforms.functional", ".datasets", ".ops", ".ops.misc", ".models"):
        sys.modules.setdefault(f"torchvision{name}", MagicMock())
    # The models were measured before attention was fused.
    os.environ["TIMM_FUSED_ATTN"] = "0"
    import timm  # type: ignore[import-not-found, unused-ignore] # installed by hand, see above

    return timm


class Asked(NamedTuple):
    """A line of the table of times."""

    model: str
    batch_size: int
    side: int
    parameters: float


def _asked(table: Path) -> Iterator[Asked]:
    with (table / "train_amp_nchw.csv").open(newline="", encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            sizes = int(line["train_batch_size"]), int(line["train_img_size"])
            yield Asked(line["model"], *sizes, 1e6 * float(line["param_count"]))


def _known(table: Path) -> dict[str, dict[str, Any]]:
    with gzip.open(table / "operations.jsonl.gz", "rt", encoding="utf-8") as lines:
        return {found["model"]: found for found in map(json.loads, lines)}


def _line(asked: Asked, timm: Any) -> dict[str, Any]:
    model = _made(timm, asked.model)
    parameters = sum(one.numel() for one in model.parameters())
    if abs(parameters / asked.parameters - 1) > SAME:
        raise ValueError(f"it has {parameters:,} parameters, {asked.parameters:,.0f} were measured")
    counts = trace(model, batch_size=asked.batch_size, side=asked.side)
    return {
        "model": asked.model,
        "batch_size": asked.batch_size,
        "params": parameters,
        "dtype": "float16",
        "launched": {kind: [[*pair, count] for pair, count in pairs.items()] for kind, pairs in counts.items()},
    }


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """By class: bytes and launches of ours over theirs, where they are not the same."""
    found = []
    for kind in sorted(set(ours["launched"]) | set(theirs["flops_and_bytes_by_class"])):
        mine = ours["launched"].get(kind, [])
        table = [pair for pair in theirs["flops_and_bytes_by_class"].get(kind, []) if any(pair)]
        launches, size = sum(n for *_, n in mine), sum(size * n for _, size, n in mine)
        if (launches, size) != (len(table), sum(size for _, size in table)):
            found.append(f"{kind} × {size / max(1, sum(size for _, size in table)):.3f} ({launches} for {len(table)})")
    return found


def _chosen(asked: Iterator[Asked], known: Mapping[str, object], check: int | None) -> Iterator[Asked]:
    if check is None:
        return (one for one in asked if one.model not in known)
    return islice((one for one in asked if one.model in known), check)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    parser.add_argument("--check", type=int, metavar="N", help="compare N models that the table has operations of")
    options = parser.parse_args()
    if find_spec("timm") is None:
        parser.error("timm is not installed; the head of this file says how")
    if not (options.data / IMAGE_MODELS).is_dir():
        parser.error(f"{options.data} has no folder {IMAGE_MODELS}")
    table, timm = options.data / IMAGE_MODELS, _timm()
    known, lines = _known(table), []
    for one in sorted(_chosen(_asked(table), known, options.check)):
        try:
            line = _line(one, timm)
        except Exception as error:  # noqa: BLE001 # of hundreds of models some are gone or not made for half precision: their names are printed
            print(f"{one.model}: {' '.join(str(error).split())[:90]}", flush=True)
            continue
        lines.append(line)
        if options.check:
            print(f"{one.model}: {', '.join(_differences(line, known[one.model])) or 'the same'}", flush=True)
        elif len(lines) % 20 == 0:
            print(f"{len(lines)} traced, the last {one.model}", file=sys.stderr, flush=True)
    if not options.check:
        # Without a time stamp: the same operations are the same file.
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        OWN_TRACES.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(lines)} traced", file=sys.stderr)


if __name__ == "__main__":
    main()
