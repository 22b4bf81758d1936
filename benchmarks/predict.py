"""The time to predict one profile on the complete catalog, at ten batch sizes and six cluster sizes.

    python -m benchmarks.predict [--json]

Measured after Python, its libraries and the coefficients are loaded, in a new process for each round, since a second
call would use caches. The profile has 400 different operations, about as many as a ResNet-50.
"""

import argparse
import json
import subprocess
import sys
from statistics import median

AIM_SECONDS = 1.0
WORK = """
import json, sys, time
from trainfare.catalog.bundled import load_offers
from trainfare.catalog.calibrations import shipped_calibration
from trainfare.estimator.prediction.predictor import StepTimePredictor
from trainfare.estimator.calibration.document import from_json
from benchmarks.recommend import profile

machines = {offer.vm_type.key: offer.vm_type for offer in load_offers() if offer.vm_type.gpu}
calibration = from_json(shipped_calibration())
known = profile()
started = time.perf_counter()
predictor = StepTimePredictor([known], calibration=calibration, targets=[m.gpu for m in machines.values()])
count = 0
for power in range(10):
    for machine in machines.values():
        for nodes, share in ((1, 1), (1, 2), (1, 4), (2, 4), (4, 4), (8, 4)):
            gpus = max(1, machine.gpus * share // 4) if nodes == 1 else machine.gpus
            count += predictor.predict(machine, nodes=nodes, gpus=gpus, batch_size=64 * 2**power) is not None
print(json.dumps({"seconds": time.perf_counter() - started, "predictions": count, "machines": len(machines)}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds = [
        json.loads(subprocess.run([sys.executable, "-c", WORK], check=True, capture_output=True).stdout)
        for _ in range(options.rounds)
    ]
    row = {**rounds[0], "seconds": median(r["seconds"] for r in rounds), "aim": AIM_SECONDS}
    if options.json:
        print(json.dumps(row, indent=2))
    else:
        count, machines, seconds = row["predictions"], row["machines"], row["seconds"]
        print(f"predict: {count:,} predictions of {machines} machines in {seconds:.2f} s (aim ≤ {AIM_SECONDS:g} s)")


if __name__ == "__main__":
    main()
