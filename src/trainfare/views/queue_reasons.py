"""The sentences of reasons about queues: why a job waits, is excluded or cannot be planned, and what is assumed."""

from collections.abc import Mapping

from trainfare.model.reason import Reason
from trainfare.units import format_count, format_usd, plural
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, integer, number, optional_number, text, texts

UNITS = {
    "seconds": "its time in seconds",
    "submitted_seconds": "its submission in seconds",
    "deadline_seconds": "its deadline in seconds",
    "late_usd_per_second": "its cost of lateness in dollars per second",
    "log_error": "its log_error",
}
"""The numbers of a job that can be out of range."""


def _value_out_of_range(values: Values) -> str:
    high = optional_number(values, "high")
    limits = f"{number(values, 'low'):g} or more" if high is None else f"{number(values, 'low'):g} to {high:g}"
    return f"{UNITS[text(values, 'name')]} is {number(values, 'value'):g}; supported are {limits}"


def _no_slot_available(values: Values) -> str:
    quota = optional_number(values, "quota")
    limits = plural(integer(values, "nodes"), "node")
    if quota is not None:
        limits += f" and the quota of {plural(int(quota), 'GPU')} of {text(values, 'user')}"
    return f"it can never run: no slot that it has times for is available with {limits}"


def _quota_of_zero(values: Values) -> str:
    return f"the quota of {text(values, 'user')} is 0 GPUs; it needs at least 1"


def _takes_too_long(values: Values) -> str:
    epochs = optional_number(values, "epochs")
    length = "" if epochs is None else f" for {plural(int(epochs), 'epoch')}"
    return f"it would take more than ten years{length}: submit it with fewer epochs, or plan with faster machines"


def _out_of_memory(values: Values) -> str:
    machines = ", ".join(texts(values, "machines"))
    return f"it does not fit in the memory of {machines}: plan with a machine with more memory"


def _no_estimate(values: Values) -> str:
    machines = ", ".join(texts(values, "machines"))
    return f"its profile {text(values, 'profile')} gives no estimate for {machines}: profile the program there"


def _quota_used(values: Values) -> str:
    return f"{text(values, 'user')} uses the complete quota of {plural(integer(values, 'gpus'), 'GPU')}"


def _all_nodes_used(values: Values) -> str:
    nodes = integer(values, "nodes")
    return "the only node is in use" if nodes == 1 else f"all {format_count(nodes)} nodes are in use"


def _too_many_variables(values: Values) -> str:
    return (
        f"a model with a variable for each job on each node takes too long with more than {integer(values, 'nodes')} "
        "nodes; it runs if it is named"
    )


def _machines_chosen(values: Values) -> str:
    return (
        f"no machine is named, so the plan uses {plural(integer(values, 'types'), 'machine type')} from the time-cost "
        "fronts of the jobs"
    )


def _single_gpu_jobs(values: Values) -> str:
    return f"these jobs get one GPU each, because they have never run on several: {', '.join(texts(values, 'jobs'))}"


def _error(reason: Reason, spell: SpellArguments) -> str:
    remedy = f". Try `{spell(reason.arguments)}`" if reason.arguments else ""
    return f"{text(reason.values, 'message')}{remedy}"


def _default_lateness_cost(reason: Reason, spell: SpellArguments) -> str:
    usd = format_usd(number(reason.values, "usd_per_hour"))
    return f"an hour of lateness is assumed to cost {usd}; {spell(reason.arguments)} sets another cost"


def _single_gpu(reason: Reason, spell: SpellArguments) -> str:
    return f"it has never run on several GPUs, so it gets one; {spell(reason.arguments)} lets it use N"


SENTENCES: Mapping[str, Sentence] = {
    **from_values(
        {
            "value_out_of_range": _value_out_of_range,
            "no_slot_available": _no_slot_available,
            "quota_of_zero": _quota_of_zero,
            "takes_too_long": _takes_too_long,
            "out_of_memory": _out_of_memory,
            "no_suitable_machine": lambda _: "no machine that can be rented suits it: name machines",
            "no_estimate": _no_estimate,
            "quota_used": _quota_used,
            "all_nodes_used": _all_nodes_used,
            "all_machines_used": lambda _: "every machine is in use",
            "held_back": lambda _: "the policy holds it back, because it has time",
            "held_back_late": lambda _: "the policy holds it back, although it will be late",
            "held_back_without_deadline": lambda _: "the policy holds it back, because it has no deadline",
            "too_many_variables": _too_many_variables,
            "machines_chosen": _machines_chosen,
            "machines_unused": lambda values: f"no job can run on {', '.join(texts(values, 'machines'))}",
            "single_gpu_jobs": _single_gpu_jobs,
            "free_lateness": lambda _: "lateness costs nothing, so no money is spent to meet the deadline",
        }
    ),
    "error": _error,
    "default_lateness_cost": _default_lateness_cost,
    "single_gpu": _single_gpu,
}
