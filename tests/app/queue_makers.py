"""A queue in the store of the test: a program profiled on a T4, and submissions of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.makers import make_profile, make_program, make_submission
from trainfare.model.machine import Host
from trainfare.model.profile import Profile
from trainfare.model.submission import Submission
from trainfare.settings import read_settings
from trainfare.store.open import open_history

T4, T4X4, A10G = "aws/g4dn.xlarge", "aws/g4dn.12xlarge", "aws/g5.xlarge"
HOUR = timedelta(hours=1)


def store(*nouns: Profile | Submission) -> None:
    with open_history(read_settings().store) as history:
        for noun in nouns:
            if isinstance(noun, Profile):
                history.profiles.add(noun)
            else:
                history.submissions.add(noun)


def t4_profile(**changes: Any) -> Profile:
    """A profile on a T4 of a program that takes about an hour for 100 epochs there."""
    fields: dict[str, Any] = {
        "iteration_seconds": (3.0, *[1.5] * 9),
        "loss": (),
        "activation_bytes": 50_000_000,
        "device": "cuda",
        "host": Host(name="h", gpu="Tesla T4", gpus=1, vm_type=T4),
    }
    return make_profile(**(fields | changes))


def too_large_profile(**changes: Any) -> Profile:
    """A profile on another GPU of a program that does not fit on a T4."""
    host = Host(name="h", gpu="NVIDIA A100-SXM4-80GB", gpus=1, vm_type="gcp/a2-ultragpu-1g")
    program = make_program(command=("python", "huge.py"))
    return t4_profile(**({"host": host, "program": program, "activation_bytes": 10**12} | changes))


def store_submission(
    name: str, *, ago: timedelta = timedelta(0), within: timedelta | None = 6 * HOUR, **changes: Any
) -> None:
    """Stores a submission made `ago` before now, with a deadline `within` from now."""
    now = datetime.now(UTC)
    weight = {} if within is not None else {"late_usd_per_hour": 0.0}
    deadline = None if within is None else now + within
    fields: dict[str, Any] = {"epochs": 100, "submitted_at": now - ago, "deadline_at": deadline, **weight}
    store(make_submission(id=name, **(fields | changes)))
