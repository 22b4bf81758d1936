"""What to measure next, and what it is expected to save."""

from dataclasses import dataclass

from trainfare.model.checks import require_not_negative
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A few iterations on a machine that might be better than the one believed best."""

    candidate: Candidate
    seconds: float
    """Boot and setup of the machine included."""
    usd: float
    """What it costs beyond the training; nothing on the machine that the training starts on anyway."""
    expected_saving_usd: float
    """Of the training, before what the probe costs. Below zero where the goal buys time with money."""
    expected_saving_seconds: float
    why: str

    def __post_init__(self) -> None:
        require_not_negative(seconds=self.seconds, usd=self.usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """Where to begin, what to measure after that as long as measurements come out as expected, and when to stop."""

    goal: Goal
    start: Probe
    """The machine believed best: the training begins there, and its first iterations are a measurement for nothing."""
    probes: tuple[Probe, ...]
    stop_when: str
    expected_usd: float
    """Of the training and the probes together."""
    expected_seconds: float
    """Of the training alone."""
    unprobed_usd: float
    """Of the training on the machine believed best, with nothing measured."""
    unprobed_seconds: float
    sentences: tuple[str, ...]

    def __post_init__(self) -> None:
        require_not_negative(
            expected_usd=self.expected_usd,
            expected_seconds=self.expected_seconds,
            unprobed_usd=self.unprobed_usd,
            unprobed_seconds=self.unprobed_seconds,
        )
