"""Sentences about a program that has not ended its first iteration, and about its memory."""

from trainfare.model.startup import ConstructedModel, MemoryReading, StartUp
from trainfare.units import BYTES_PER_GIB, format_duration, format_large, format_number

_FRAMEWORK_NAMES = {"torch": "PyTorch", "keras": "Keras", "tf_keras": "Keras", "tensorflow": "TensorFlow", "jax": "JAX"}

_BYTES_PER_MIB = 2**20

SMALLER_OR_ELSEWHERE = (
    "Profile it with a smaller model or batch, or in lower precision; or profile it on a machine with more memory."
)


def format_bytes(amount: float) -> str:
    """Memory in the unit that fits: 24.4 GiB, 312 MiB, less than 1 MiB."""
    if amount >= BYTES_PER_GIB:
        return f"{format_number(amount / BYTES_PER_GIB)} GiB"
    return "less than 1 MiB" if amount < _BYTES_PER_MIB else f"{amount / _BYTES_PER_MIB:.0f} MiB"


def model_phrase(model: ConstructedModel) -> str:
    """`1.64G parameters (3.1M of them trainable)`."""
    frozen = model.trainable_parameters < model.parameters
    trainable = f" ({format_large(model.trainable_parameters)} of them trainable)" if frozen else ""
    several = f" in {model.processes} processes" if model.processes > 1 else ""
    return f"{format_large(model.parameters)} parameters{trainable}{several}"


def need_phrase(model: ConstructedModel) -> str:
    """`weights 6.1 GiB + gradients 6.1 GiB + state of AdamW 12.2 GiB = 24.4 GiB, without activations`."""
    parts = [("weights", model.host_weight_bytes), ("gradients", model.host_gradient_bytes)]
    if model.host_optimizer_bytes:
        parts.append((f"state of {model.optimizer}", model.host_optimizer_bytes))
    if model.host_bytes < _BYTES_PER_MIB:
        return f"{format_bytes(model.host_bytes)}, without activations"
    terms = " + ".join(f"{name} {format_bytes(amount)}" for name, amount in parts)
    return f"{terms} = {format_bytes(model.host_bytes)}, without activations"


def too_large_sentence(startup: StartUp) -> str:
    """Why a program that certainly needs more memory than the machine has was stopped."""
    assert startup.model is not None and startup.memory is not None  # noqa: S101, PT018 # it is certain only when both are known
    return (
        f"It made {model_phrase(startup.model)}, which need {need_phrase(startup.model)}; this machine has "
        f"{format_bytes(startup.memory.total_bytes)} of memory. It was stopped, because its first iteration would "
        f"swap or be killed. {SMALLER_OR_ELSEWHERE}"
    )


def waiting_sentences(startup: StartUp) -> str:
    """Sentences about a program that is still before the end of its first iteration."""
    return f"No iteration after {format_duration(startup.seconds)}. {seen_sentences(startup)}"


def seen_sentences(startup: StartUp) -> str:
    """Sentences about what the program has made, the memory that it needs, and what to do if that is too much."""
    frameworks = list(dict.fromkeys(_FRAMEWORK_NAMES.get(name, name) for name in startup.frameworks))
    if not frameworks:
        return f"It has imported no framework yet.{_use_sentence(startup.memory)}"
    if startup.model is None:
        made = f"It has imported {' and '.join(frameworks)}; no optimizer was seen yet."
        return f"{made}{_use_sentence(startup.memory)}"
    made = f"It has made {model_phrase(startup.model)}"
    if startup.memory is None:
        return f"{made}."
    if startup.model.host_bytes:
        made += f", which need {need_phrase(startup.model)}"
    free = f"{format_bytes(startup.memory.usable_bytes)} of {format_bytes(startup.memory.total_bytes)} can be used"
    verdict = f"{free}." if startup.probably_too_large else f"{free}, so memory is not short."
    return f"{made}; {verdict}{_use_sentence(startup.memory)}{_advice(startup)}"


def _use_sentence(memory: MemoryReading | None) -> str:
    if memory is None:
        return ""
    used = f" It uses {format_bytes(memory.program_bytes)} of memory now"
    if not memory.is_short:
        return f"{used}."
    swapping = (
        f", {format_large(memory.swap_bytes_per_second)}B/s to and from swap" if memory.swap_bytes_per_second else ""
    )
    return f"{used}, and the machine has no memory left{swapping}."


def _advice(startup: StartUp) -> str:
    if startup.probably_too_large:
        return f" It will swap or be killed. {SMALLER_OR_ELSEWHERE}"
    return " It may be loading data, compiling, or computing a long iteration."
