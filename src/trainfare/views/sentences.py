"""The type of the functions that turn a Reason into a sentence."""

from collections.abc import Callable, Mapping

from trainfare.model.reason import Reason, Scalar
from trainfare.views.values import Values

SpellArguments = Callable[[Mapping[str, Scalar]], str]
"""Spells arguments that would change a result: `spot=True` in Python, a flag on the command line."""

Sentence = Callable[[Reason, SpellArguments], str]
"""Returns a reason as one plain sentence without a full stop."""


def from_values(functions: Mapping[str, Callable[[Values], str]]) -> dict[str, Sentence]:
    """Sentences that need only the values of a reason, not its arguments."""
    return {code: _with_arguments_ignored(function) for code, function in functions.items()}


def _with_arguments_ignored(function: Callable[[Values], str]) -> Sentence:
    return lambda reason, _spell: function(reason.values)
