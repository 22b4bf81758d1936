"""Fits the coefficients that ship, to tables of public measurements, and writes them into the package.

    python -m benchmarks.ship --fit DIR

It is `trainfare calibrate --data DIR` without a user's own profiles. How good they are says `benchmarks.accuracy`.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.estimator.calibration.document import to_json
from trainfare.estimator.calibration.fit import fit_calibration
from trainfare.measurements.read import fingerprint, read_measurements

SHIPPED = Path(__file__).parents[1] / "src" / "trainfare" / "catalog" / "data" / "calibration.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--fit", type=Path, required=True, metavar="DIR", help="the folder of measurements")
    options = parser.parse_args()
    found, left_out = fit_calibration(
        read_measurements(options.fit),
        load_gpus(),
        made_at=datetime.now(UTC),
        command="python -m benchmarks.ship --fit DIR",
        fingerprint=fingerprint(options.fit),
        on_progress=print,
    )
    SHIPPED.write_bytes(to_json(found))
    for part in left_out:
        print(f"{part.part}: {part.error:.1f} % off on {part.rows} rows")
    print(f"{SHIPPED.stat().st_size / 1000:.0f} kB from {dict(found.rows)}, tables {found.fingerprint}")


if __name__ == "__main__":
    main()
