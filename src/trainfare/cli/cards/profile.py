"""Prints a profile: three lines of what was measured."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median, quantiles

from rich.text import Text

from trainfare.cli.console import out
from trainfare.model.profile import Profile
from trainfare.units import (
    BYTES_PER_GIB,
    format_count,
    format_duration,
    format_epochs,
    format_large,
    format_number,
    format_percent,
    format_spread,
    plural,
)
from trainfare.views.profile import busy_sentence, per_second, source_sentences

_FRAMEWORKS = {
    "pytorch": "PyTorch",
    "torch": "PyTorch",
    "lightning": "Lightning",
    "transformers": "Transformers",
    "keras": "Keras",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "sklearn": "scikit-learn",
    "unknown": "framework unknown",
}
_DROPS = 4
"""Number of drops of the learning rate that are listed."""
_BARS = "▁▂▃▄▅▆▇█"
_BAR_COUNT = 18
_LARGE_BYTES = 100 * 2**20
"""From this size of the weights on, the card shows what the tensors of the training need."""
_STEADY_WITHIN = 0.05
"""Largest relative difference between the halves of a steady run: about that of two runs on a quiet host."""


def print_card(profile: Profile) -> None:
    """Print the facts of a profile; lines break between facts, not within them."""

    for line in card_lines(profile, width=out().width):
        out().print(Text(line))


def card_lines(profile: Profile, *, width: int) -> tuple[str, ...]:
    busy = busy_sentence(profile)
    groups = (
        _program_facts(profile),
        source_sentences(profile),
        _time_facts(profile),
        [busy] if busy else [],
        _other_facts(profile),
    )
    return tuple(line for facts in groups for line in _packed(facts, width))


def iteration_time(profile: Profile) -> str:
    """`214 ms ± 2 ms`: the median of the steady iterations and half the range of their middle half."""
    steady = profile.steady_iteration_seconds
    if not steady:
        return "–"
    if len(steady) < 4:
        return format_duration(median(steady))
    low, middle, high = quantiles(steady, n=4, method="inclusive")
    return format_spread(middle, (high - low) / 2)


def _program_facts(profile: Profile) -> list[str]:
    framework = _FRAMEWORKS.get(profile.framework.lower(), profile.framework)
    facts = [f"{framework} {profile.framework_version or ''}".rstrip()]
    if profile.device:
        facts.append(f"on {_device(profile)}")
    if profile.parameters:
        facts.append(_parameters(profile))
    size = profile.effective_batch_size
    tokens = f" × {plural(profile.tokens_per_sample, 'token')}" if profile.tokens_per_sample else ""
    facts.append(f"batch {size}{tokens}" if size else "batch size unknown")
    return [*facts, *_length_facts(profile)]


def _length_facts(profile: Profile) -> Iterator[str]:
    """The length of an epoch and of the whole training, as far as they are known."""
    planned = profile.planned_iterations
    if profile.iterations_per_epoch:
        samples = f" ({format_count(profile.samples)} samples)" if profile.samples else ""
        yield f"{plural(profile.iterations_per_epoch, 'iteration')} per epoch{samples}"
    elif not planned:
        yield "length of an epoch unknown"
    in_epochs = profile.epochs and (not planned or profile.epochs != int(profile.epochs))
    if in_epochs:
        yield format_epochs(profile.epochs or 0)
    elif planned:
        yield f"{plural(planned, 'iteration')} in all"
    else:
        yield "number of epochs unknown"


def _parameters(profile: Profile) -> str:
    """`124M parameters`, or `4.19M of 1.24G parameters are trained`."""
    trained, total = format_large(profile.parameters or 0), format_large(profile.total_parameters or 0)
    return f"{trained} of {total} parameters are trained" if profile.frozen_parameters else f"{trained} parameters"


def _tensors(profile: Profile) -> str:
    """`weights 3.1 GiB, gradients 16 MiB, optimizer state 32 MiB, activations 1.1 GiB`."""
    parts = {
        "weights": profile.weight_bytes,
        "gradients": profile.gradient_bytes,
        "optimizer state": profile.optimizer_bytes,
        "activations": profile.activation_bytes,
    }
    return ", ".join(f"{name} {_gib(size)}" for name, size in parts.items() if size)


def _device(profile: Profile) -> str:
    if profile.device == "cpu":
        cores = profile.host.cores
        return f"CPU ({plural(cores, 'core')})" if cores else "CPU"
    name = profile.host.gpu or str(profile.device).upper()
    return f"{profile.world_size} × {name}" if profile.world_size > 1 else name


def _time_facts(profile: Profile) -> list[str]:
    facts = []
    if profile.init_seconds is not None:
        facts.append(f"start-up {format_duration(profile.init_seconds)}")
    if profile.first_iteration_seconds is None:
        facts.append("iteration time unknown")
        return facts
    facts.append(f"first iteration {format_duration(profile.first_iteration_seconds)}")
    steady = profile.steady_iteration_seconds
    if not steady:
        facts.append("only one iteration was measured")
        return facts
    count = (profile.run_iterations or 0) - 1 if profile.origin == "run" else len(steady)  # a run has means of several
    seen = f"{plural(count, 'iteration')}{_verdict(steady)}"
    facts.append(f"then {iteration_time(profile)}  {_bars(steady)} {seen}")
    for amount, name in ((profile.effective_batch_size, "samples"), (profile.tokens_per_iteration, "tokens")):
        if (rate := per_second(profile, amount)) is not None:
            facts.append(f"{format_number(rate)} {name}/s")
    if profile.data_wait_seconds and (share := sum(profile.data_wait_seconds[1:]) / sum(steady)) >= 0.05:
        facts.append(f"{format_percent(round(share, 2))} of it waits for data")
    return facts


def _other_facts(profile: Profile) -> list[str]:
    facts = []
    if profile.validation_seconds:
        times = f", {len(profile.validation_seconds)} times" if len(profile.validation_seconds) > 1 else ""
        facts.append(f"validation {format_duration(median(profile.validation_seconds))}{times}")
    if profile.peak_device_bytes:
        facts.append(f"peak memory {_gib(profile.peak_device_bytes)} on the GPU")
    elif profile.peak_host_bytes:
        facts.append(f"peak memory {_gib(profile.peak_host_bytes)}")
    if profile.weight_bytes and profile.weight_bytes >= _LARGE_BYTES:
        facts.append(_tensors(profile))
    losses = [value for value in profile.loss if value is not None]
    if losses:
        facts.append(f"loss {losses[0]:.3g} → {losses[-1]:.3g}" if len(losses) > 1 else f"loss {losses[0]:.3g}")
    if profile.learning_rate_plan:
        facts.append(f"learning rate: {_schedule(profile)}")
    if profile.gradient_noise is not None:
        facts.append(f"gradient noise {profile.gradient_noise:.2g}")
    if profile.operations:
        flops = [(operation.kind, operation.flops * operation.count) for operation in profile.operations]
        moved = [(operation.kind, operation.bytes * operation.count) for operation in profile.operations]
        facts.append(f"operations traced: {_amount(flops, 'FLOP')}, {_amount(moved, 'B')} per iteration")
    else:
        facts.append("operations not traced")
    timed = profile.operator_seconds or profile.operator_host_seconds
    if timed:
        longest = sorted(timed, key=lambda name: -timed[name])[:2]
        where = "the device" if profile.operator_seconds else "the host"
        facts.append(f"operators timed: {len(timed)}, most of {where} for {' and '.join(longest)}")
    return facts


def _amount(parts: Iterable[tuple[str, float]], unit: str) -> str:
    """The total and the kinds of operation with at least a quarter of it: `380MB (pointwise, convolution)`."""
    by_kind: dict[str, float] = {}
    for kind, amount in parts:
        by_kind[kind] = by_kind.get(kind, 0.0) + amount
    total = sum(by_kind.values())
    large = [kind for kind in sorted(by_kind, key=lambda kind: -by_kind[kind]) if by_kind[kind] >= total / 4 > 0]
    return f"{format_large(total)}{unit}" + (f" ({', '.join(large)})" if large else "")


def _schedule(profile: Profile) -> str:
    """The learning-rate schedule in a few words: `StepLR, drops after epochs 30, 60`."""
    plan = profile.learning_rate_plan
    changes = [epoch for epoch in range(1, len(plan)) if plan[epoch] != plan[epoch - 1]]
    name = profile.learning_rate_schedule or "as planned"
    if not changes:
        return f"{name}, {plan[0]:.3g} throughout"
    drops = all(plan[epoch] < plan[epoch - 1] for epoch in changes)
    if drops and len(changes) <= len(plan) / 4:
        more = " …" if len(changes) > _DROPS else ""
        epochs = ", ".join(map(str, changes[:_DROPS]))
        return f"{name}, drops after {'epoch' if len(changes) == 1 else 'epochs'} {epochs}{more}"
    top, last = max(plan), len(plan)
    rise = "" if plan[0] == top else f"up to {top:.3g} in epoch {plan.index(top) + 1}, then "
    return f"{name}, {plan[0]:.3g}, {rise}{plan[-1]:.3g} in epoch {last}"


def _bars(seconds: tuple[float, ...]) -> str:
    """A bar chart of iteration times; each bar is the median of neighbouring iterations, its height from zero."""
    count = min(_BAR_COUNT, len(seconds))
    edges = [round(i * len(seconds) / count) for i in range(count + 1)]
    heights = [median(seconds[start:end]) for start, end in pairwise(edges)]
    top = max(heights)
    return "".join(_BARS[min(7, round(8 * height / top) - 1) if height > top / 16 else 0] for height in heights)


def _verdict(seconds: tuple[float, ...]) -> str:
    """The trend of the iteration times; empty for fewer than eight."""
    if len(seconds) < 8:
        return ""
    early, late = median(seconds[: len(seconds) // 2]), median(seconds[len(seconds) // 2 :])
    if abs(late - early) <= _STEADY_WITHIN * median(seconds):
        return ", steady"
    return ", getting slower" if late > early else ", getting faster"


def _packed(facts: Iterable[str], width: int) -> list[str]:
    lines: list[str] = []
    for fact in facts:
        if lines and len(lines[-1]) + 3 + len(fact) <= width:
            lines[-1] += f" · {fact}"
        else:
            lines.append(fact)
    return lines


def _gib(size: int) -> str:
    gib = size / BYTES_PER_GIB
    return f"{gib:.1f} GiB" if gib >= 1 else f"{gib * 1024:.0f} MiB"
