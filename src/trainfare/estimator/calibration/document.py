"""A Calibration as a JSON document and back; documents of earlier versions are upgraded when they are read."""

from collections.abc import Callable, Mapping

import msgspec

from trainfare.estimator.calibration.calibration import Calibration

VERSION = 2

Document = dict[str, object]


def to_json(calibration: Calibration) -> bytes:
    """The document of a calibration, in the current version."""
    document = {"kind": "calibration", "version": VERSION, **msgspec.to_builtins(calibration)}
    return msgspec.json.encode(document)


def from_json(content: bytes) -> Calibration:
    """The calibration of a document; a `ValueError` says why it cannot be read."""
    try:
        document = msgspec.json.decode(content)
        if not isinstance(document, dict) or document.get("kind") != "calibration":
            raise ValueError("it is not a calibration")
        return msgspec.convert(_upgrade(document), Calibration)
    except msgspec.MsgspecError as error:
        raise ValueError(f"it cannot be read: {error}") from error


def _upgrade(document: Document) -> Document:
    """The document in the current version."""
    version = document.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise ValueError(f"it has version {version}, and this trainfare reads versions 1 to {VERSION}")
    for number in range(version, VERSION):
        document = _UPGRADES[number](document)
    return document


def _from_version_1(document: Document) -> Document:
    """Version 2 renames fields of the links, the programs, the transfer and the corrections, and the features of
    layer-norm networks."""

    def renamed(name: str) -> str:
        return name.replace("beside layer norms", "in layer-norm networks")

    def rename_features(residuals: object) -> object:
        return _changed(residuals, {"features": lambda names: [renamed(name) for name in _list(names)]})

    def rename_in_gpu(gpu: object) -> object:
        return _changed(gpu, {"residuals": rename_features})

    physics = _changed(
        document.get("physics"),
        {
            "coefficients": lambda found: {renamed(name): value for name, value in _dict(found).items()},
            "familiar": lambda names: [renamed(name) for name in _list(names)],
            "residuals": rename_features,
            "gpus": lambda gpus: {name: rename_in_gpu(gpu) for name, gpu in _dict(gpus).items()},
        },
    )
    programs = _changed(
        document.get("programs"),
        {"gpus": lambda gpus: {name: _with_keys(gpu, {"place": "coordinates"}) for name, gpu in _dict(gpus).items()}},
    )
    links = _with_keys(
        _changed(document.get("links"), {"one_node": _rename_residuals, "several_nodes": _rename_residuals}),
        {"usual_gradient": "typical_gradient", "at_half": "half_factor", "of_gpu": "gpu_factors"},
    )
    return {
        **document,
        "version": 2,
        "physics": physics,
        "links": links,
        "programs": programs,
        "transfer": _with_keys(document.get("transfer"), {"beyond_facts": "gpu_offsets"}),
        "corrections": _with_keys(document.get("corrections", {}), {"doubt": "remaining_deviation"}),
    }


def _rename_residuals(residuals: object) -> object:
    return _with_keys(residuals, {"calm": "base_width", "unrest": "relative_errors"})


_UPGRADES: Mapping[int, Callable[[Document], Document]] = {1: _from_version_1}
"""From each version to the next."""


def _changed(part: object, changes: Mapping[str, Callable[[object], object]]) -> object:
    """The part with some of its values changed; what is no object stays, for the conversion to report."""
    if not isinstance(part, dict):
        return part
    return {key: changes[key](value) if key in changes else value for key, value in part.items()}


def _with_keys(part: object, names: Mapping[str, str]) -> object:
    """The part with some of its keys renamed."""
    if not isinstance(part, dict):
        return part
    return {names.get(key, key): value for key, value in part.items()}


def _dict(value: object) -> Document:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[str]:
    return value if isinstance(value, list) else []
