"""Probes: short measurements that are worth taking, and the result of taking them."""

from dataclasses import dataclass

from trainfare.model.checks import require_not_negative
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal, Plan
from trainfare.model.profile import Profile
from trainfare.model.reason import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A few iterations on a machine that may be better than the one expected to be best."""

    candidate: Candidate
    seconds: float
    """Including boot and setup of the machine."""
    usd: float
    """The cost on top of the training; zero on the machine that the training starts on."""
    expected_saving_usd: float
    """The expected saving of the training, before the cost of the probe. Negative if the goal buys time with money."""
    expected_saving_seconds: float
    reason: Reason

    def __post_init__(self) -> None:
        require_not_negative(seconds=self.seconds, usd=self.usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """The machine to start on, the probes after that as long as measurements come out as expected, and when to stop."""

    goal: Goal
    start: Probe
    """The machine expected to be best: the training starts there, and its first iterations are a free measurement."""
    probes: tuple[Probe, ...]
    stop: Reason
    """The rule that ends the probing."""
    keeps_work: bool
    """True if a migration keeps the work done so far, because the program writes checkpoints."""
    expected_usd: float
    """The expected cost of the training and the probes together."""
    expected_seconds: float
    """The expected time of the training alone."""
    unprobed_usd: float
    """The expected cost of the training on the machine expected to be best, without any probe."""
    unprobed_seconds: float

    def __post_init__(self) -> None:
        require_not_negative(
            expected_usd=self.expected_usd,
            expected_seconds=self.expected_seconds,
            unprobed_usd=self.unprobed_usd,
            unprobed_seconds=self.unprobed_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbingPlan:
    """The probes worth taking, and those on machines that `run_probes` cannot reach."""

    plan: ProbePlan
    profiles: tuple[Profile, ...]
    unreachable: tuple[Probe, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """One probe that was taken: its profile, or why there is none."""

    probe: Probe
    profile: Profile | None = None
    failure: str | None = None
    chosen: Estimate | None = None
    """The estimate that is recommended with the new profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbingResult:
    """The probes that were taken, why the probing ended, and the plan after them."""

    steps: tuple[ProbeResult, ...]
    stopped: Reason
    interrupted: bool
    unreachable: tuple[Probe, ...]
    """Probes that would pay on machines that cannot be reached."""
    plan: Plan


PROBE_LAUNCH = "probe-"
"""The beginning of the name of every launch that is a probe and belongs to no run."""


def is_probe_launch(run_id: str) -> bool:
    """True for the machine of a probe, which no run in the store needs. It is in use until its lease ends, because the
    process that follows the probe renews it all the time."""
    return run_id.startswith(PROBE_LAUNCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProbe:
    """One measurement on a machine that the user named: its profile, or why there is none."""

    machine: str
    """The key of its VmType."""
    profile: Profile | None = None
    failure: str | None = None
    """The reason of a failure; a profile may have been saved all the same."""
    interrupted: bool = False
    batch_size: int | None = None
    """The batch size that was requested, if one was."""
    seconds: float = 0.0
    """From the launch of the machine to its end."""
    usd: float = 0.0
    left_behind: str | None = None
    """A sentence if something may still be on the machine."""

    def __post_init__(self) -> None:
        require_not_negative(seconds=self.seconds, usd=self.usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProbing:
    """The measurements on machines that the user named, and the recommendation before and after them."""

    probes: tuple[MachineProbe, ...]
    before: Plan | None = None
    """It does not exist if the program was not profiled before."""
    after: Plan | None = None
    """It does not exist if nothing was measured, or nothing can be recommended."""
    estimates_before: tuple[Estimate, ...] = ()
    """The named machines as they were predicted."""
    estimates_after: tuple[Estimate, ...] = ()
    """The named machines as they are now."""
    no_recommendation: str | None = None
    """The reason why nothing can be recommended although something was measured."""
    budget_usd: float | None = None

    @property
    def interrupted(self) -> bool:
        return any(probe.interrupted for probe in self.probes)

    @property
    def usd(self) -> float:
        """The cost of all probes."""
        return sum(probe.usd for probe in self.probes)
