"""Phrases of what would make a training fit."""

from trainfare.estimator.memory import WayToFit
from trainfare.views.memory import ways_phrases


def test_each_way_to_fit_has_a_plain_phrase() -> None:
    ways = (
        WayToFit(way="smaller batch", micro_batch_size=8),
        WayToFit(way="accumulation", micro_batch_size=8, steps=4),
        WayToFit(way="checkpointing", needed_gib=21.3),
        WayToFit(way="adapters", needed_gib=17.0),
        WayToFit(way="sharding", needed_gib=12.0, gpus=4),
        WayToFit(way="larger gpu", needed_gib=67.5),
    )
    assert ways_phrases(ways) == (
        "a batch of at most 8 samples per GPU",
        "4 accumulated steps of 8 samples per GPU, which make the same batch",
        "activation checkpointing (about 21.3 GiB)",
        "training adapters such as LoRA instead of all weights (about 17 GiB)",
        "weights and optimizer state divided over 4 GPUs, as FSDP does (about 12 GiB)",
        "a GPU with more memory (about 67.5 GiB)",
    )
