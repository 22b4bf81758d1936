"""Nouns with good defaults: a test names only what it is about."""

from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from trainfare.model.estimate import Estimate, Phase
from trainfare.model.interval import Interval
from trainfare.model.machine import Gpu, Host, VmType
from trainfare.model.offer import Candidate, Offer
from trainfare.model.plan import Goal, Plan
from trainfare.model.profile import Operation, Profile
from trainfare.model.program import Program
from trainfare.model.reason import text_reason
from trainfare.model.rented import RentedMachine
from trainfare.model.run import Checkpoint, Fact, Observation, Run
from trainfare.model.submission import Submission

if TYPE_CHECKING:
    from trainfare.estimator.calibration.calibration import Calibration


@cache
def shipped_coefficients() -> "Calibration":
    """The coefficients of predictions, unless a user has fitted others."""
    from trainfare.catalog.calibrations import shipped_calibration
    from trainfare.estimator.calibration.document import from_json

    return from_json(shipped_calibration())


NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def make_gpu(**changes: Any) -> Gpu:
    fields: dict[str, Any] = {
        "name": "T4",
        "vendor": "nvidia",
        "architecture": "Turing",
        "launch_year": 2018,
        "memory_gib": 15.0,
        "memory_gb_per_second": 320.0,
        "fp32_tflops": 8.1,
        "fp16_tensor_tflops": 65.0,
        "interconnect": "PCIe 3.0 x16",
        "interconnect_gb_per_second": 15.75,
    }
    return Gpu(**(fields | changes))


def make_vm_type(**changes: Any) -> VmType:
    fields: dict[str, Any] = {
        "provider": "aws",
        "name": "g4dn.xlarge",
        "gpu": make_gpu(),
        "gpus": 1,
        "vcpus": 4.0,
        "memory_gib": 16.0,
    }
    return VmType(**(fields | changes))


def make_offer(**changes: Any) -> Offer:
    fields: dict[str, Any] = {
        "vm_type": make_vm_type(),
        "region": "us-east-1",
        "market": "on_demand",
        "usd_per_hour": 0.526,
        "seen_on": date(2026, 8, 22),
        "source": "a test",
    }
    return Offer(**(fields | changes))


def make_candidate(**changes: Any) -> Candidate:
    fields: dict[str, Any] = {"offer": make_offer(), "nodes": 1, "batch_size": 64}
    return Candidate(**(fields | changes))


def make_program(**changes: Any) -> Program:
    return Program(**({"command": ("python", "train.py"), "directory": "/home/ada/project"} | changes))


def make_profile(**changes: Any) -> Profile:
    fields: dict[str, Any] = {
        "id": "p7k2",
        "program": make_program(),
        "host": Host(name="laptop"),
        "measured_at": NOON,
        "framework": "pytorch",
        "device": "cpu",
        "dtype": "float32",
        "micro_batch_size": 64,
        "samples": 1437,
        "iterations_per_epoch": 23,
        "parameters": 100_000,
        "gradient_bytes": 400_000,
        "init_seconds": 2.0,
        "iteration_seconds": (1.0, 0.10, 0.11, 0.10, 0.09),
        "validation_seconds": (0.30, 0.20),
        "loss": (2.3, 2.2, 2.1, 2.0, 1.9),
        "operations": (
            Operation(kind="convolution", dtype="tf32", flops=3e9, bytes=2e7, count=4),
            Operation(kind="pointwise", dtype="float32", flops=0, bytes=1e7, count=30),
        ),
    }
    return Profile(**(fields | changes))


def make_estimate(**changes: Any) -> Estimate:
    seconds = changes.pop("seconds", Interval.within_factor(3600.0, 2))
    fields: dict[str, Any] = {
        "candidate": make_candidate(),
        "profile_id": "p7k2",
        "epochs": 10,
        "basis": "extrapolated",
        "iteration_seconds": Interval.within_factor(0.1, 2),
        "phases": (Phase(name="steady iterations", seconds=seconds),),
        "seconds": seconds,
        "usd": Interval.within_factor(0.526, 2),
    }
    return Estimate(**(fields | changes))


def make_plan(**changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "id": "n4t9",
        "made_at": NOON,
        "goal": Goal(kind="cheapest"),
        "chosen": make_estimate(),
        "runners_up": (make_estimate(usd=Interval.within_factor(0.7, 2)),),
        "considered": 2,
        "reasons": (text_reason("why", "cheapest of 2 candidates"),),
    }
    return Plan(**(fields | changes))


def make_run(**changes: Any) -> Run:
    fields: dict[str, Any] = {
        "id": "r93",
        "made_at": NOON,
        "owner": "ada@laptop",
        "program": make_program(),
        "candidate": make_candidate(),
        "results_directory": "/home/ada/results",
        "estimate": make_estimate(candidate=changes["candidate"]) if "candidate" in changes else make_estimate(),
        "plan_id": "n4t9",
    }
    return Run(**(fields | changes))


def make_machine(**changes: Any) -> RentedMachine:
    fields: dict[str, Any] = {
        "id": "i-0a1b",
        "owner": "ada@laptop",
        "run_id": "r93",
        "attempt": 1,
        "node": 0,
        "vm_type": make_vm_type().key,
        "state": "ready",
        "expires_at": NOON + timedelta(hours=6),
    }
    return RentedMachine(**(fields | changes))


def make_checkpoint(**changes: Any) -> Checkpoint:
    fields: dict[str, Any] = {
        "name": "1-7",
        "path": "out/last.pt",
        "files": ("out/last.pt",),
        "bytes": 1000,
        "saved_at": NOON,
        "iteration": 300,
        "save_seconds": 0.5,
        "fetch_seconds": 1.5,
    }
    return Checkpoint(**(fields | changes))


def make_fact(**changes: Any) -> Fact:
    """A fact with everything that its kind needs."""
    needed: dict[str, dict[str, Any]] = {
        "launch intended": {"attempt": 1, "candidate": make_candidate()},
        "machines seen": {"machines": (make_machine(state="booting"),)},
        "program ended": {"exit_code": 0},
        "run ended": {"outcome": "succeeded"},
        "stop asked": {"stop_reason": "user"},
        "move asked": {"candidate": make_candidate()},
        "checkpoint fetched": {"checkpoint": make_checkpoint()},
    }
    fields: dict[str, Any] = {
        "run_id": "r93",
        "number": 0,
        "seen_at": NOON,
        "kind": "launch intended",
        "text": "as it was told",
    }
    return Fact(**(fields | needed.get(changes.get("kind", fields["kind"]), {}) | changes))


def make_observation(**changes: Any) -> Observation:
    fields: dict[str, Any] = {
        "run_id": "r93",
        "attempt": 1,
        "node": 0,
        "number": 1,
        "at": NOON,
        "kind": "iterations",
        "values": {"first": 0, "seconds": [0.5, 0.1, 0.1]},
    }
    return Observation(**(fields | changes))


def make_submission(**changes: Any) -> Submission:
    fields: dict[str, Any] = {
        "id": "s5j8",
        "profile_ids": ("p7k2",),
        "program": "train.py",
        "submitted_at": NOON,
        "epochs": 10,
        "deadline_at": NOON + timedelta(hours=6),
        "late_usd_per_hour": 30.0,
        "user": "ada",
    }
    return Submission(**(fields | changes))
