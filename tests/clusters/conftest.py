"""These tests need Spark or Ray, which are large.

`scripts/test-spark` and `scripts/test-ray` run them, nothing else.
"""

import os

SPARK, RAY = "TRAINFARE_TEST_SPARK", "TRAINFARE_TEST_RAY"
"""Each names the folder of a Python environment."""

_NEEDED = {"test_spark.py": SPARK, "test_ray.py": RAY}

collect_ignore = [name for name, variable in _NEEDED.items() if variable not in os.environ]
