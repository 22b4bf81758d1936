"""The sentences of reasons and remarks: one small function for each code."""

from collections.abc import Mapping

from trainfare.model.reason import Reason, Scalar
from trainfare.views import clusters, comparison, probing, queue_reasons, split
from trainfare.views.explain import assumptions, certainty, changes, charges, why
from trainfare.views.sentences import Sentence, SpellArguments, from_values
from trainfare.views.values import Values, text


def python_arguments(arguments: Mapping[str, Scalar]) -> str:
    """The arguments as Python keywords: `spot=True, deadline='4h10m', epochs=N`; text in capitals is a placeholder."""
    return ", ".join(
        f"{name}={value if isinstance(value, str) and value.isupper() else repr(value)}"
        for name, value in arguments.items()
    )


def sentence(reason: Reason, spell: SpellArguments = python_arguments) -> str:
    """The reason as one plain sentence without a full stop; only its code if a later release stored it."""
    find = _SENTENCES.get(reason.code)
    return reason.code if find is None else find(reason, spell)


def _text(values: Values) -> str:
    return text(values, "text")


_SENTENCES: Mapping[str, Sentence] = {
    **from_values({"text": _text}),
    **why.SENTENCES,
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
