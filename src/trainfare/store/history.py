"""What every history promises, whether it is kept in memory, in SQLite or in PostgreSQL."""

from types import TracebackType
from typing import Protocol, Self

from trainfare.model.estimate import Estimate
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.run import Observation, Run
from trainfare.model.submission import Submission


class AlreadyKept(ValueError):
    """The name is taken: what has been kept is never overwritten."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name} is already in history")
        self.kind, self.name = kind, name


class History(Protocol):
    """Facts and beliefs, appended and never overwritten.

    What a method has added is there after a crash of the process or of the machine. Each `add_` is one
    transaction: all of it is kept or nothing. Adding what leans on something that is not in history (a plan
    or a submission on a profile, a run on a plan, an observation on a run) is a `ValueError`.

    A noun that cannot be read back as it was written is damaged. Asking for it by name raises `StoreError`;
    lists leave it out, go on with the others, and say so in `damaged`.
    """

    @property
    def damaged(self) -> tuple[str, ...]:
        """What lists have left out since opening: a sentence each, for the user."""
        ...

    def add_profile(self, profile: Profile) -> None:
        """`AlreadyKept` when the id is taken. Adding a removed profile again, unchanged, brings it back."""
        ...

    def profile(self, profile_id: str) -> Profile:
        """`NotFoundError` when it was never there or has been removed."""
        ...

    def profiles(self) -> tuple[Profile, ...]:
        """The newest first, without removed ones."""
        ...

    def remove_profile(self, profile_id: str) -> None:
        """Notes that it is removed. Its facts stay, because estimates lean on them."""
        ...

    def add_plan(self, plan: Plan) -> None:
        """Keeps the plan and each of its estimates."""
        ...

    def plan(self, plan_id: str) -> Plan: ...

    def plans(self) -> tuple[Plan, ...]:
        """The newest first."""
        ...

    def estimates(self, profile_id: str) -> tuple[Estimate, ...]:
        """Every estimate of a kept plan that leans on this profile, those of the newest plan first and, within
        a plan, the chosen one first. Empty where there is none."""
        ...

    def add_run(self, run: Run) -> None: ...

    def run(self, run_id: str) -> Run: ...

    def runs(self) -> tuple[Run, ...]:
        """The newest first."""
        ...

    def add_observation(self, observation: Observation) -> None:
        """`AlreadyKept` when the run has one of this number."""
        ...

    def observations(self, run_id: str) -> tuple[Observation, ...]:
        """In the order of their numbers. Empty where there is none."""
        ...

    def add_submission(self, submission: Submission) -> None:
        """Puts it into the queue. `AlreadyKept` when the id is taken, also by one that was withdrawn."""
        ...

    def submission(self, submission_id: str) -> Submission:
        """`NotFoundError` when it was never there or has been withdrawn."""
        ...

    def submissions(self) -> tuple[Submission, ...]:
        """What waits, in the order of submission: the oldest first."""
        ...

    def withdraw_submission(self, submission_id: str) -> None:
        """Notes that it no longer waits. `NotFoundError` as above."""
        ...

    def close(self) -> None:
        """Lets go of the database. A closed history is not used again."""
        ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


PROFILES_LISTED_BY = "trainfare profiles list"
PLANS_LISTED_BY = "trainfare plans list"
SUBMISSIONS_LISTED_BY = "trainfare schedule queue"
