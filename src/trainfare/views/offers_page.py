"""The offers of a page: machines by GPU and provider, the answer in a sentence, and reasons without flags or codes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trainfare.errors import Remedy
from trainfare.model.estimate import Basis, Estimate
from trainfare.model.machine import HERE, VmType
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal, Plan
from trainfare.model.profile import Profile
from trainfare.model.reason import Item, Reason, Topic, Value
from trainfare.units import (
    format_count,
    format_duration,
    format_large,
    format_percent,
    format_usd,
    parse_duration,
    plural,
)
from trainfare.views.reasons import sentence

PROVIDERS = {
    "aws": "AWS",
    "azure": "Azure",
    "cudo": "Cudo",
    "digitalocean": "DigitalOcean",
    "gcp": "Google Cloud",
    "hyperstack": "Hyperstack",
    "lambda": "Lambda",
    "nebius": "Nebius",
    "oci": "Oracle Cloud",
    "ovhcloud": "OVHcloud",
    "runpod": "RunPod",
    "scaleway": "Scaleway",
    "shadeform": "Shadeform",
    "vast": "Vast.ai",
    "verda": "Verda",
    "yotta": "Yotta",
}
"""Providers as they write themselves; another one is shown as its tables name it."""
TOPICS: Mapping[Topic, str] = {
    "why": "Why",
    "certainty": "How sure",
    "changes": "What would change it",
    "charges": "What is charged",
    "assumptions": "Assumed",
}
BASES: Mapping[Basis, tuple[str, int, str]] = {
    "measured": ("Measured", 3, "it ran on such a machine"),
    "scaled": ("Scaled", 2, "from a run on another machine"),
    "extrapolated": ("Extrapolated", 1, "never measured on such a machine"),
}
"""The word for each basis, how many of three steps of certainty it is, and what it means."""
_LIMITED_BY = {
    "compute": "arithmetic",
    "memory bandwidth": "memory bandwidth",
    "launches": "starting kernels, so a faster GPU gains little",
    "data": "waiting for data, so a faster GPU gains little",
    "network": "adding up gradients between GPUs",
}


_COMMAND = re.compile(r"[:;,]?\s*`trainfare[^`]*`[^.;]*\.?")
"""A part of a sentence that names a command: a page has buttons for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTitle:
    """A machine in words: what people know first, the type code second."""

    name: str
    """`T4`, `8 × H100`, `c8a.large`, `this computer`."""
    at: str
    """`AWS`; empty for the machine at hand."""
    code: str
    """`g4dn.xlarge`; empty if the name has it already."""

    @property
    def text(self) -> str:
        """`T4 at AWS`."""
        return f"{self.name} at {self.at}" if self.at else self.name

    @property
    def with_article(self) -> str:
        """`a T4 at AWS`, `an L4 at AWS`, `2 × T4 at AWS`, `c8a.large at AWS`, `this computer`."""
        word = self.name.split(" ")[0]
        if not self.at or not word[:1].isupper() or "." in word:
            return self.text
        spelled = word[:1] if not word.isalpha() or word.isupper() else ""
        return f"{'an' if spelled in _SPOKEN_WITH_VOWEL else 'a'} {self.text}"


_SPOKEN_WITH_VOWEL = tuple("AEFHILMNORSX")
"""Letters whose names begin with a vowel: an A100, an L4, an H100."""


def machine_title(candidate: Candidate) -> MachineTitle:
    """The title of a candidate, with its number of nodes and its market."""
    vm_type = candidate.offer.vm_type
    name, at, code = _names(vm_type)
    if candidate.nodes > 1:
        name = f"{candidate.nodes} × {name}"
    if candidate.offer.market == "spot":
        name = f"{name} on spot"
    if candidate.offer.held:
        name = f"{name} (yours)"
    return MachineTitle(name=name, at=at, code=code)


def _names(vm_type: VmType) -> tuple[str, str, str]:
    if vm_type.key == HERE:
        return "this computer", "", ""
    at = provider_name(vm_type.provider)
    if vm_type.gpu is None:
        cores = f", {vm_type.vcpus:g} vCPUs" if vm_type.vcpus else ""
        return vm_type.name, at, f"no GPU{cores}"
    return vm_type.gpu.name if vm_type.gpus == 1 else f"{vm_type.gpus} × {vm_type.gpu.name}", at, vm_type.name


def provider_name(provider: str) -> str:
    """The provider as it writes itself: `Google Cloud` for `gcp`."""
    return PROVIDERS.get(provider, provider)


def program_line(profile: Profile, epochs: int | None) -> str:
    """`train.py · PyTorch · 11.2M parameters · batch 128 · 200 epochs`."""
    found = [_script(profile), _FRAMEWORKS.get(profile.framework, profile.framework)]
    if profile.parameters:
        found.append(f"{format_large(profile.parameters)} parameters")
    if profile.effective_batch_size:
        found.append(f"batch {format_count(profile.effective_batch_size)}")
    if epochs:
        found.append(plural(epochs, "epoch"))
    return " · ".join(found)


_FRAMEWORKS = {"torch": "PyTorch", "keras": "Keras", "tensorflow": "TensorFlow", "jax": "JAX", "lightning": "Lightning"}


def _script(profile: Profile) -> str:
    named = [word for word in profile.program.command if word.endswith(".py")]
    return (named[0] if named else profile.program.command[0]).rsplit("/", 1)[-1]


def limits_phrase(goal: Goal) -> str:
    """`end within 2 h and cost at most $2.00`; empty without limits."""
    parts = []
    if goal.deadline_seconds is not None:
        parts.append(f"end within {format_duration(goal.deadline_seconds)}")
    if goal.budget_usd is not None:
        parts.append(f"cost at most {format_usd(goal.budget_usd)}")
    return " and ".join(parts)


def answer_lead(plan: Plan, *, within: int) -> str:
    """The sentence below the answer: why this one, what limits it, and how long the machine at hand would take."""
    goal, chosen = plan.goal, plan.chosen
    limits = limits_phrase(goal)
    best = {"cheapest": "The cheapest", "fastest": "The fastest", "weighted": "The best trade-off"}[goal.kind]
    if chosen.candidate.offer.is_here:
        why = f"It costs nothing here{' and would ' + limits if limits else ''}."
    elif limits:
        why = f"{best} of {plural(within, 'machine')} that {limits}, {format_percent(goal.confidence)} sure."
    else:
        why = f"{best} of {plural(within, 'machine')}."
    by = f" Limited by {_LIMITED_BY[chosen.limited_by]}." if chosen.limited_by else ""
    return why + by


def here_phrase(plan: Plan) -> str | None:
    """The time that the machine at hand would take; None if it is the answer, or not known."""
    if plan.here is None or plan.chosen == plan.here:
        return None
    return format_duration(plan.here.seconds.value)


def page_topics(plan: Plan, titles: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """The reasons by topic, as whole sentences. `titles` are the titles of machines by key."""
    found: dict[str, list[str]] = {}
    for reason in plan.reasons:
        found.setdefault(TOPICS[reason.topic], []).append(page_sentence(reason, titles))
    return [(topic, found[topic]) for topic in TOPICS.values() if topic in found]


def page_sentence(reason: Reason, titles: Mapping[str, str]) -> str:
    """One reason in the words of a page."""
    named = replace(reason, values={name: _named(value, titles) for name, value in reason.values.items()})
    return as_sentence(sentence(named, page_arguments))


def as_sentence(text: str) -> str:
    """The text with a capital letter and a full stop, and without the sentences that name a command."""
    text = _COMMAND.sub("", text).strip().removesuffix(":").removesuffix(",")
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _named(value: Value, titles: Mapping[str, str]) -> Value:
    """The value with machines by their titles. A described machine is spelled as provider, then name."""
    if isinstance(value, Mapping):
        provider, machine = value.get("provider"), value.get("machine")
        title = titles.get(f"{provider}/{machine}")
        if title is None:
            return value
        name, _, at = title.partition(" at ")
        return {**value, "provider": name, "machine": f"at {at}"} if at else value
    if isinstance(value, tuple | list):
        return tuple(_named_item(each, titles) for each in value)
    return value


def _named_item(item: Item, titles: Mapping[str, str]) -> Item:
    named = _named(item, titles)
    return named if isinstance(named, Mapping) or not isinstance(named, tuple) else item


def titles_of(estimates: Iterable[Estimate]) -> dict[str, str]:
    """The titles of machines by key; those of machines that share a title also name the type."""
    by_key: dict[str, MachineTitle] = {}
    for each in estimates:
        name, at, code = _names(each.candidate.offer.vm_type)
        by_key[each.candidate.offer.vm_type.key] = MachineTitle(name=name, at=at, code=code)
    return {key: title.text for key, title in by_key.items() if title.at}


def page_arguments(arguments: Mapping[str, object]) -> str:
    """The change in the words of a page: `spot machines too`, `a deadline of 86 min`."""
    return " and ".join(_argument(name, value) for name, value in arguments.items())


def _argument(name: str, value: object) -> str:
    placeholder = isinstance(value, str) and value.isupper()
    match name:
        case "deadline":
            return "a later deadline" if placeholder else f"a deadline of {format_duration(_seconds(value))}"
        case "budget":
            return "a larger budget" if placeholder else f"a budget of {format_usd(float(str(value)))}"
        case "confidence":
            return f"{format_percent(float(str(value)))} confidence"
        case "epochs":
            return "the number of epochs" if placeholder else plural(int(float(str(value))), "epoch")
        case "batch_sizes":
            size = value[0] if isinstance(value, tuple | list) else value
            return "another batch size" if placeholder else f"batch size {size}"
        case "exclude" if value == "here":
            return "only machines to rent"
        case _:
            said = _ARGUMENTS.get(name, name.replace("_", " "))
            return said if value is True or placeholder else f"{said} {value}"


_ARGUMENTS = {
    "spot": "spot machines too",
    "reserved": "commitments too",
    "split": "two machines in turn",
    "nodes": "several machines",
}


def _seconds(value: object) -> float:
    return parse_duration(value) if isinstance(value, str) else float(str(value))


def remedy_buttons(remedies: Iterable[Remedy]) -> list[tuple[str, dict[str, str]]]:
    """The text of a button for each remedy that a page can apply, and the fields that it sets."""
    found: list[tuple[str, dict[str, str]]] = []
    for remedy in remedies:
        fields = {name: _field_value(value) for name, value in remedy.arguments.items()}
        if remedy.command is None and fields and fields.keys() <= {"deadline", "budget", "spot", "confidence"}:
            text = page_arguments(remedy.arguments)
            found.append((_button(text), fields))
    return found


def _button(text: str) -> str:
    """`Deadline of 50 min and budget of $1.50` of `a deadline of 50 min and a budget of $1.50`."""
    short = text.removeprefix("a ").replace(" and a ", " and ")
    return short[:1].upper() + short[1:]


def _field_value(value: object) -> str:
    return "1" if value is True else f"{value:g}" if isinstance(value, float) else str(value)
