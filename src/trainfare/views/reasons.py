"""The sentences of reasons and remarks: one small function for each code."""

from collections.abc import Callable, Mapping

from trainfare.model.reason import Reason, Scalar

SpellArguments = Callable[[Mapping[str, Scalar]], str]
"""Spells arguments that would change a plan: `spot=True` in Python, `--spot` on the command line."""


def python_arguments(arguments: Mapping[str, Scalar]) -> str:
    """The arguments as Python keywords: `spot=True, deadline='4h10m'`."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def sentence(reason: Reason, spell: SpellArguments = python_arguments) -> str:
    """The reason as one plain sentence without a full stop."""
    return _SENTENCES[reason.code](reason, spell)


def _text(reason: Reason, spell: SpellArguments) -> str:
    return str(reason.values["text"])


_SENTENCES: Mapping[str, Callable[[Reason, SpellArguments], str]] = {"text": _text}
