"""Calibrations as documents, those of earlier versions included."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.makers import shipped_coefficients
from trainfare.catalog.calibrations import shipped_calibration
from trainfare.estimator.batch.larger import DEFAULT_LARGER_BATCH_FIT, GrowthParameters
from trainfare.estimator.calibration.corrections import Corrections
from trainfare.estimator.calibration.document import VERSION, from_json, to_json


def test_larger_batch_fit_round_trips_through_json() -> None:
    shipped = shipped_coefficients()
    other = replace(shipped, larger_batch=replace(DEFAULT_LARGER_BATCH_FIT, growth=GrowthParameters(bend=1.5)))
    assert from_json(to_json(other)).larger_batch.growth.bend == 1.5


def test_document_without_larger_batches_gets_the_default() -> None:
    document = json.loads(to_json(shipped_coefficients()))
    document.pop("larger_batch")
    assert from_json(json.dumps(document).encode()).larger_batch == DEFAULT_LARGER_BATCH_FIT


def test_other_documents_are_refused() -> None:
    with pytest.raises(ValueError, match="not a calibration"):
        from_json(b"[]")


def version_1() -> dict[str, Any]:
    """The shipped calibration with some corrections, as version 1 wrote it."""
    corrections = Corrections(gpus={"L4": 0.2}, programs={"train.py": 0.1}, remaining_deviation={"L4": 0.4})
    document: dict[str, Any] = json.loads(to_json(replace(shipped_coefficients(), corrections=corrections)))
    old = json.dumps(document).replace("in layer-norm networks", "beside layer norms")
    document = json.loads(old) | {"version": 1}
    for gpu in document["programs"]["gpus"].values():
        gpu["place"] = gpu.pop("coordinates")
    document["transfer"]["beyond_facts"] = document["transfer"].pop("gpu_offsets")
    links = document["links"]
    for old_name, name in (
        ("usual_gradient", "typical_gradient"),
        ("at_half", "half_factor"),
        ("of_gpu", "gpu_factors"),
    ):
        links[old_name] = links.pop(name)
    for part in ("one_node", "several_nodes"):
        links[part]["calm"] = links[part].pop("base_width")
        links[part]["unrest"] = links[part].pop("relative_errors")
    document["corrections"]["doubt"] = document["corrections"].pop("remaining_deviation")
    return document


def test_document_of_version_1_is_upgraded() -> None:
    old = version_1()
    assert "pointwise beside layer norms" in old["physics"]["coefficients"]
    found, shipped = from_json(json.dumps(old).encode()), shipped_coefficients()
    assert replace(found, corrections=shipped.corrections) == shipped
    assert found.corrections.remaining_deviation == {"L4": 0.4}


@pytest.mark.parametrize("part", ["physics", "links", "programs", "transfer", "corrections"])
def test_damaged_document_of_version_1_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        from_json(json.dumps(version_1() | {part: 3}).encode())


@pytest.mark.parametrize("version", [None, 0, 99, "2"])
def test_unknown_version_is_refused(version: object) -> None:
    document = json.loads(to_json(shipped_coefficients())) | {"version": version}
    with pytest.raises(ValueError, match="reads versions 1 to 2"):
        from_json(json.dumps(document).encode())


def test_shipped_document_has_the_current_version() -> None:
    assert json.loads(shipped_calibration())["version"] == VERSION
