"""Options that several commands share, declared once as the fields of a dataclass."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter of a dataclass type replaced by the fields of that dataclass.

    Typer makes one option of each parameter in a signature. The fields stand where the parameter stood, so its place
    decides the order of options in the help.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            group_hints = get_type_hints(groups[name], include_extras=True)
            parameters |= {field.name: _parameter(field, group_hints[field.name]) for field in fields(groups[name])}
        else:
            parameters[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])

    def expanded(**values: Any) -> None:
        shared = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **shared)

    expanded.__name__, expanded.__doc__ = command.__name__, command.__doc__
    expanded.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    expanded.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined] # Typer reads it
    return expanded


def _parameter(field: "Field[Any]", annotation: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
