import json
from dataclasses import replace

import pytest

from tests.makers import shipped_coefficients
from trainfare.estimator.batch.larger import DEFAULT_LARGER_BATCH_FIT, GrowthParameters
from trainfare.estimator.calibration.document import from_json, to_json


def test_what_was_fitted_for_larger_batches_is_kept() -> None:
    shipped = shipped_coefficients()
    other = replace(shipped, larger_batch=replace(DEFAULT_LARGER_BATCH_FIT, growth=GrowthParameters(bend=1.5)))
    assert from_json(to_json(other)).larger_batch.growth.bend == 1.5


def test_a_calibration_made_before_larger_batches_were_fitted_is_read() -> None:
    document = json.loads(to_json(shipped_coefficients()))
    document.pop("larger_batch")
    assert from_json(json.dumps(document).encode()).larger_batch == DEFAULT_LARGER_BATCH_FIT


def test_what_is_no_calibration_is_said() -> None:
    with pytest.raises(ValueError, match="not a calibration"):
        from_json(b"[]")
