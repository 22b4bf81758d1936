"""Sentences about memory: how much is needed, and what would make a training fit."""

from collections.abc import Sequence

from trainfare.estimator.memory import WayToFit
from trainfare.units import format_number, plural


def ways_phrases(ways: Sequence[WayToFit]) -> tuple[str, ...]:
    """One phrase for each change that would make it fit."""
    return tuple(_phrase(way) for way in ways)


def _phrase(way: WayToFit) -> str:
    then = "" if way.needed_gib is None else f" (about {format_number(way.needed_gib)} GiB)"
    samples = plural(way.micro_batch_size or 0, "sample")
    match way.way:
        case "smaller batch":
            return f"a batch of at most {samples} per GPU"
        case "accumulation":
            return f"{plural(way.steps or 0, 'accumulated step')} of {samples} per GPU, which make the same batch"
        case "checkpointing":
            return f"activation checkpointing{then}"
        case "adapters":
            return f"training adapters such as LoRA instead of all weights{then}"
        case "sharding":
            return f"weights and optimizer state divided over {way.gpus} GPUs, as FSDP does{then}"
        case "larger gpu":
            return f"a GPU with more memory{then}"
