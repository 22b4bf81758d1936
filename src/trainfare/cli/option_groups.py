"""Options that several commands share, declared once as the fields of a dataclass."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its parameter of a dataclass type replaced by the fields of that dataclass.

    Typer makes one option of each parameter in a signature. The fields stand where the parameter stood, so its place
    decides the order of options in the help.
    """
    hints = get_type_hints(command, include_extras=True)
    ((group_name, group),) = [
        (name, hint) for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    ]
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if name == group_name:
            group_hints = get_type_hints(group, include_extras=True)
            parameters |= {field.name: _parameter(field, group_hints[field.name]) for field in fields(group)}
        else:
            parameters[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])

    def expanded(**values: Any) -> None:
        shared = {field.name: values.pop(field.name) for field in fields(group)}
        command(**values, **{group_name: group(**shared)})

    expanded.__name__, expanded.__doc__ = command.__name__, command.__doc__
    expanded.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    expanded.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined] # Typer reads it
    return expanded


def _parameter(field: "Field[Any]", annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
