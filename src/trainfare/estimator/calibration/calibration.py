"""All coefficients that predictions use, with the tables and the command that they were fitted from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trainfare.estimator.batch.larger import DEFAULT_LARGER_BATCH_FIT, LargerBatchFit
from trainfare.estimator.calibration.corrections import Corrections
from trainfare.estimator.gpu.by_operator import TransferFit
from trainfare.estimator.gpu.by_times import ProgramsFit
from trainfare.estimator.gpu.physics import PhysicsFit, StepSeconds, other_host_factor
from trainfare.estimator.parallel.links import ScalingFit
from trainfare.model.checks import require_aware, require_positive, require_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Fitted coefficients and their origin. The tables are not stored: a fingerprint identifies them."""

    made_at: datetime
    command: str
    fingerprint: str
    """Fingerprint of the tables that it was fitted to."""
    rows: Mapping[str, int]
    """The number of rows, by table."""
    physics: PhysicsFit
    links: ScalingFit
    programs: ProgramsFit
    transfer: TransferFit
    scaled_factor: float
    """The factor of the 90% interval of a time measured on one GPU and scaled to another by the model."""
    same_gpu_factor: float
    """The same for the same GPU in another machine."""
    larger_batch: LargerBatchFit = DEFAULT_LARGER_BATCH_FIT
    """The growth of a step above the measured batch sizes; the default for calibrations made before it was fitted."""
    corrections: Corrections = field(default_factory=Corrections)
    """From the user's own profiles."""
    learned_from: int = 0
    """The number of runs behind the corrections."""

    def __post_init__(self) -> None:
        require_aware(made_at=self.made_at)
        require_text(command=self.command, fingerprint=self.fingerprint)
        require_positive(scaled_factor=self.scaled_factor, same_gpu_factor=self.same_gpu_factor)
        if min(self.scaled_factor, self.same_gpu_factor) < 1:
            raise ValueError("a factor of error is at least 1")

    def extrapolated_factor(self, step: StepSeconds, gpu: str) -> float:
        """The factor of the 90% interval of a step known by its operations alone, on a machine that was not measured.

        It is smaller on a GPU without public measurements that the user's own profiles have corrected.
        """
        factor = other_host_factor(step, gpu, self.physics)
        remaining = self.corrections.remaining_deviation.get(gpu, 1.0)
        if gpu in self.physics.gpus or remaining == 1.0:
            return factor
        known, unknown = math.log(self.physics.factor_new_program), math.log(factor)
        return math.exp(math.hypot(known, remaining * math.sqrt(max(0.0, unknown**2 - known**2))))
