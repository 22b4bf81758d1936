"""Lists which facts are recorded for which framework: profiles every program below and writes docs/frameworks.md.

    python -m tests.frameworks.table

The tests in this folder compare these facts with what the programs report themselves.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.frameworks.runs import BIN, run_profiled, run_profiled_command
from trainfare.model.profile import Profile

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"

FOLDER = "{folder}"
"""Placeholder for a new temporary folder."""

PROGRAMS: dict[str, dict[str, Sequence[str]]] = {
    "PyTorch": {
        "a plain loop": ["plain.py"],
        "gradient accumulation, AMP": ["accumulate.py"],
        "two optimizers": ["gan.py"],
        "torch.compile": ["compiled.py"],
        "autocast": ["torch_shapes.py", "autocast"],
        "GradScaler": ["torch_shapes.py", "scaler"],
        "LBFGS closures": ["torch_shapes.py", "lbfgs"],
        "no DataLoader": ["torch_shapes.py", "no_loader"],
        "IterableDataset": ["torch_shapes.py", "stream"],
        "checkpoints, schedule": ["torch_shapes.py", "checkpoints"],
        "an optimizer of its own": ["torch_shapes.py", "own_optimizer"],
        "a step inside backward": ["torch_shapes.py", "in_backward"],
        "DataParallel": ["torch_shapes.py", "data_parallel"],
        "activation checkpointing": ["torch_shapes.py", "recomputed"],
        "persistent loader workers": ["torch_shapes.py", "persistent_workers"],
    },
    "PyTorch, two processes": {
        "DDP by torchrun": [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2", "torch_distributed.py"],
        "DDP by mp.spawn": ["torch_distributed.py", "spawn"],
    },
    "Lightning": {"Trainer.fit": ["lightning_fit.py"]},
    "Transformers": {"Trainer": ["hf_trainer.py"], "accelerate, own loop": ["hf_accelerate.py"]},
    "Keras on TensorFlow": {
        "fit": ["KERAS_BACKEND=tensorflow", "keras_fit.py", "--schedule", "optimizer", "--save", FOLDER],
        "own loop": ["KERAS_BACKEND=tensorflow", "keras_own_loop.py"],
    },
    "Keras on JAX": {"fit": ["KERAS_BACKEND=jax", "keras_fit.py", "--schedule", "optimizer", "--save", FOLDER]},
    "Keras on torch": {
        "fit": ["KERAS_BACKEND=torch", "keras_fit.py", "--schedule", "optimizer", "--save", FOLDER],
        "a stream": ["KERAS_BACKEND=torch", "keras_stream.py"],
    },
    "TensorFlow": {
        "GradientTape, eager": ["tf_tape.py", "eager"],
        "GradientTape in tf.function": ["tf_tape.py", "function"],
        "a loop inside tf.function": ["tf_tape.py", "loop"],
    },
    "JAX": {
        "jit and optax": ["jax_optax.py", "step"],
        "optax, eager": ["jax_optax.py", "eager"],
        "updates by hand": ["jax_optax.py", "by-hand"],
        "lax.scan": ["jax_optax.py", "scan"],
    },
}

FACTS: dict[str, Callable[[Profile], object]] = {
    "start-up, iterations": lambda p: p.init_seconds and p.iteration_seconds,
    "wait for data": lambda p: p.data_wait_seconds,
    "validation": lambda p: p.validation_seconds,
    "checkpoint saves": lambda p: p.checkpoint_seconds,
    "micro batch size": lambda p: p.micro_batch_size,
    "effective batch size": lambda p: p.effective_batch_size,
    "samples": lambda p: p.samples,
    "validation samples": lambda p: p.validation_samples,
    "iterations per epoch": lambda p: p.iterations_per_epoch,
    "epochs": lambda p: p.epochs,
    "early stopping": lambda p: p.early_stopping,
    "loss per iteration": lambda p: p.loss,
    "metrics per epoch": lambda p: any(epoch.metrics for epoch in p.curve),
    "optimizer": lambda p: p.optimizer,
    "learning rate": lambda p: any(rate is not None for rate in p.learning_rate),
    "learning-rate schedule": lambda p: p.learning_rate_schedule,
    "parameters": lambda p: p.parameters,
    "gradient bytes": lambda p: p.gradient_bytes,
    "dtype, device": lambda p: p.dtype and p.device,
    "peak memory": lambda p: p.peak_host_bytes,
    "network bytes": lambda p: p.sent_bytes,
    "CPU use": lambda p: p.cpu_use,
    "compile time": lambda p: p.compile_seconds,
    "versions": lambda p: p.framework_version,
    "operations": lambda p: p.operations,
}


def profile_program(words: Sequence[str]) -> Profile:
    with tempfile.TemporaryDirectory() as folder:
        return _profile_words([folder if word == FOLDER else word for word in words])


def _profile_words(words: Sequence[str]) -> Profile:
    if "torchrun" in words[0]:
        return run_profiled_command(words).profile
    if "=" in words[0]:
        return run_profiled(*words[1:], backend=words[0].partition("=")[2]).profile
    return run_profiled(*words).profile


def verdict(profiles: Sequence[Profile], fact: Callable[[Profile], object]) -> str:
    count = sum(bool(fact(profile)) for profile in profiles)
    return "yes" if count == len(profiles) else "partly" if count else "no"


def page(profiles: dict[str, list[Profile]]) -> str:
    rows = [
        "# Which facts are measured in which framework",
        "",
        f"Written by `python -m tests.frameworks.table` on {datetime.now(UTC):%Y-%m-%d}, on a CPU. It profiles each",
        "program below and lists which facts the profile has. *Partly* means in some of the programs; most of the",
        "others do not have that fact, such as a loop without a loader. The tests in `tests/frameworks/` compare the",
        "facts with what each program reports itself. `gpu_use` and everything on a GPU were not tested.",
        "",
        "| fact | " + " | ".join(profiles) + " |",
        "| --- |" + " --- |" * len(profiles),
        *(
            f"| {name} | " + " | ".join(verdict(group, fact) for group in profiles.values()) + " |"
            for name, fact in FACTS.items()
        ),
        "",
        "The programs are in `tests/programs/`:",
        "",
        *(f"- {framework}: {'; '.join(programs)}" for framework, programs in PROGRAMS.items()),
        "",
        "`tests/frameworks/test_launchers.py` also starts programs with `python -m`, a shell script, `env`, a console",
        "script, `uv run`, `accelerate launch` and `torchrun`.",
    ]
    return "\n".join(rows) + "\n"


def main() -> None:
    profiles: dict[str, list[Profile]] = {}
    for framework, programs in PROGRAMS.items():
        for name, words in programs.items():
            sys.stderr.write(f"{framework}: {name}\n")
            profiles.setdefault(framework, []).append(profile_program(words))
    PAGE.write_text(page(profiles), encoding="utf-8")


if __name__ == "__main__":
    main()
