"""Sentences about how certain an estimate and a choice are."""

from collections.abc import Mapping

from trainfare.units import format_duration, format_number, format_percent, format_ratio, plural
from trainfare.views.names import described_machine, machine
from trainfare.views.sentences import Sentence, from_values
from trainfare.views.values import Values, flag, integer, number, optional_number, optional_text, record, text

OBJECTIVES = {"cheapest": ("cost", "cheaper"), "fastest": ("time", "faster"), "weighted": ("score", "better")}
"""The quantity that a goal minimises, and the adjective for less of it."""


def _basis_measured(values: Values) -> str:
    kind = "" if flag(values, "here") else " type"
    return f"measured: profile {text(values, 'profile')} was taken on this machine{kind}"


def _basis_scaled_from_same_machine(values: Values) -> str:
    gpus, size = integer(values, "gpus"), optional_number(values, "batch_size")
    where = ("" if size is None else f" at batch size {size:.0f}") + ("" if gpus == 1 else f" on {gpus} GPUs")
    return (
        f"scaled: profile {text(values, 'profile')} was taken on this machine type{where}, and scaled to this "
        "configuration"
    )


def _basis_scaled_from_slice(values: Values) -> str:
    taken = optional_text(values, "machine") or "the whole machine"
    return (
        f"scaled: profile {text(values, 'profile')} was taken on {taken}, and scaled to this slice by the work of an "
        "iteration and the cores it used"
    )


def _basis_scaled_from_cpu(values: Values) -> str:
    cores, vcpus = optional_number(values, "from_cores"), optional_number(values, "vcpus")
    taken = optional_text(values, "from_cpu") or "another CPU"
    on = taken if cores is None else f"{plural(round(cores), 'core')} of {taken}"
    target = optional_text(values, "to_cpu") or "an unknown CPU"
    threads = optional_number(values, "threads_per_core") or 1
    shared = "" if vcpus is None or threads == 1 else f" ({plural(max(1, round(vcpus / threads)), 'core')})"
    to = target if vcpus is None else f"{format_number(vcpus)} vCPUs{shared} of {target}"
    untraced = values.get("by_operations") is False
    method = "the speed of their cores alone" if untraced else "what its operations would take on each"
    return f"scaled: profile {text(values, 'profile')} was taken on {on}, and scaled to {to} by {method}"


def _busy_profile(values: Values) -> str:
    return (
        f"the machine was busy with other work during profile {text(values, 'profile')}: the program waited for a CPU "
        f"{format_percent(round(number(values, 'share'), 2))} of the time; {_idle_here(values)}a profile on an idle "
        "machine would be more certain"
    )


def _idle_here(values: Values) -> str:
    idle = optional_number(values, "idle_here_seconds")
    return "" if idle is None else f"{time_on_idle_machine(idle)}; "


def time_on_idle_machine(seconds: float) -> str:
    """`without that work, training here would take about 9 min`."""
    return f"without that work, training here would take about {format_duration(seconds)}"


def _data_wait_uncertain(values: Values) -> str:
    workers = optional_number(values, "workers")
    how = (
        f"prepared by {plural(round(workers), 'worker')} of the loader"
        if workers
        else "prepared by one thread of the program, which more cores do not speed up"
    )
    return (
        f"most of an iteration waits for data, {how}: it is scaled from the host of profile {text(values, 'profile')} "
        "and is the least certain part"
    )


def _basis_scaled_from_gpu(values: Values) -> str:
    return (
        f"scaled: profile {text(values, 'profile')} was taken on {optional_text(values, 'from_gpu') or 'another GPU'}, "
        f"and scaled to {text(values, 'to_gpu')} by the ratio of their predicted speeds"
    )


def _basis_extrapolated(values: Values) -> str:
    wide = ", hence the wide interval" if flag(values, "wide") else ""
    on = optional_text(values, "profile_on")
    certain = f"; a profile taken on {on} would replace it by a measurement" if on else ""
    return (
        f"extrapolated: this program was never measured on {optional_text(values, 'gpu') or 'this machine'}; the time "
        f"is predicted from its operations and the nominal figures of the GPU{wide}{certain}"
    )


def _ranking_uncertain(values: Values) -> str:
    quantity, better = OBJECTIVES[text(values, "goal")]
    ratio = format_ratio(number(values, "ratio"))
    expected = f"about the same {quantity}" if ratio == "1x" else f"{ratio} the {quantity}"
    return (
        f"{machine(values)} may be {better} after all, with a probability of "
        f"{format_percent(round(number(values, 'probability'), 2))}: {expected} is expected, which is not a certain "
        f"difference at {format_percent(number(values, 'confidence'))} confidence{_others(values, quantity)}"
    )


def _others(values: Values, quantity: str) -> str:
    """`; the same holds for 3 others, of which aws a2 takes 0.31x the time`."""
    count, bargain = integer(values, "others"), record(values, "bargain")
    others = f"; the same holds for {plural(count, 'other')}" if count else ""
    if bargain is None:
        return others
    ratio = number(bargain, "ratio")
    trade = f"costs {format_ratio(ratio)} as much" if quantity == "time" else f"takes {format_ratio(ratio)} the time"
    if flag(bargain, "is_first"):
        return f"; it {trade}{others}"
    return f"{others}, of which {described_machine(bargain)} {trade}"


def _does_not_fit(values: Values) -> str:
    return (
        f"it does not fit: an iteration needs about {format_number(number(values, 'needed_gib'))} GiB of memory, and "
        f"{format_number(number(values, 'available_gib'))} GiB are available"
    )


SENTENCES: Mapping[str, Sentence] = from_values(
    {
        "basis_measured": _basis_measured,
        "basis_scaled_from_same_machine": _basis_scaled_from_same_machine,
        "basis_scaled_from_slice": _basis_scaled_from_slice,
        "basis_scaled_from_cpu": _basis_scaled_from_cpu,
        "busy_profile": _busy_profile,
        "data_wait_uncertain": _data_wait_uncertain,
        "basis_scaled_from_gpu": _basis_scaled_from_gpu,
        "basis_extrapolated": _basis_extrapolated,
        "ranking_uncertain": _ranking_uncertain,
        "does_not_fit": _does_not_fit,
    }
)
