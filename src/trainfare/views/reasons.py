"""The sentences of reasons and remarks: one small function for each code."""

from collections.abc import Mapping

from trainfare.model.reason import Reason
from trainfare.units import parse_duration
from trainfare.views import clusters, comparison, probing, queue_reasons, split
from trainfare.views.explain import assumptions, certainty, changes, charges, here, why
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, text


def python_arguments(arguments: Mapping[str, object]) -> str:
    """The arguments as Python takes them: `scope=Scope(spot=True), goal=Goal(deadline_seconds=15000), epochs=N`; text
    in capitals is a placeholder."""
    found: dict[str, list[str]] = {}
    for name, value in arguments.items():
        outer, inner = _FIELDS.get(name, ("", name))
        found.setdefault(outer, []).append(f"{inner}={_python_value(inner, value)}")
    plain = found.pop("", [])
    return ", ".join((*(f"{noun.lower()}={noun}({', '.join(fields)})" for noun, fields in found.items()), *plain))


_FIELDS = {
    "spot": ("Scope", "spot"),
    "reserved": ("Scope", "reserved"),
    "batch_sizes": ("Scope", "batch_sizes"),
    "exclude": ("Scope", "exclude"),
    "nodes": ("Scope", "nodes"),
    "deadline": ("Goal", "deadline_seconds"),
    "budget": ("Goal", "budget_usd"),
    "confidence": ("Goal", "confidence"),
    "boot": ("Overheads", "boot_seconds"),
    "setup": ("Overheads", "setup_seconds"),
}
"""Arguments of the command line that are fields of a noun in Python: the noun and the field."""
_TUPLES = ("batch_sizes", "exclude")


def _python_value(field: str, value: object) -> str:
    if isinstance(value, str) and value.isupper():
        return value
    if field in _TUPLES and not isinstance(value, tuple | list):
        return repr((value,))
    if field.endswith("_seconds") and isinstance(value, str):
        return f"{parse_duration(value):g}"
    return repr(value)


def sentence(reason: Reason, spell: SpellArguments = python_arguments) -> str:
    """The reason as one plain sentence without a full stop; only its code if a later release stored it."""
    find = _SENTENCES.get(reason.code)
    return reason.code if find is None else find(reason, spell)


def _text(values: Values) -> str:
    return text(values, "text")


_SENTENCES: Mapping[str, Sentence] = {
    **from_values({"text": _text}),
    **why.SENTENCES,
    **here.SENTENCES,
    **certainty.SENTENCES,
    **changes.SENTENCES,
    **charges.SENTENCES,
    **assumptions.SENTENCES,
    **split.SENTENCES,
    **probing.SENTENCES,
    **clusters.SENTENCES,
    **comparison.SENTENCES,
    **queue_reasons.SENTENCES,
}
