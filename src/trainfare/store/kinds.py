"""The kinds of nouns that have a table in history, and the rules of each."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from trainfare.model.access import Token
from trainfare.model.document import kind_of
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile
from trainfare.model.run import Run
from trainfare.model.submission import Submission
from trainfare.model.task import Task

N = TypeVar("N", bound=Profile | Plan | Run | Submission | Token | Task)


@dataclass(frozen=True, slots=True)
class Reference:
    """The kind and the id of a noun that another noun refers to."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NounKind(Generic[N]):
    """One kind of noun; both the memory and the SQL tables follow these rules."""

    noun_type: type[N]
    moment: Callable[[N], datetime]
    """The moment by which a list is ordered."""
    newest_first: bool = True
    references: Callable[[N], tuple[Reference, ...]] = lambda _noun: ()
    """Nouns that must be in history before this one is added; removed ones count."""
    restorable: bool = False
    """Adding a removed noun again, unchanged, restores it. Otherwise the id of a removed noun stays taken."""
    list_command: str | None = None
    """The command that lists the nouns of this kind."""
    remove_command: str | None = None
    """The command that takes a noun, damaged or not, off its list."""

    @property
    def name(self) -> str:
        return kind_of(self.noun_type)


PROFILE = NounKind(
    noun_type=Profile,
    moment=lambda profile: profile.measured_at,
    restorable=True,
    list_command="trainfare profiles list",
    remove_command="trainfare profiles rm",
)
PLAN = NounKind(
    noun_type=Plan,
    moment=lambda plan: plan.made_at,
    references=lambda plan: profile_references(e.profile_id for e in (plan.chosen, *plan.runners_up)),
    list_command="trainfare plans list",
)
RUN = NounKind(
    noun_type=Run,
    moment=lambda run: run.made_at,
    references=lambda run: () if run.plan_id is None else (Reference("plan", run.plan_id),),
    list_command="trainfare runs list",
)
SUBMISSION = NounKind(
    noun_type=Submission,
    moment=lambda submission: submission.submitted_at,
    newest_first=False,
    references=lambda submission: profile_references(submission.profile_ids),
    list_command="trainfare queue list",
    remove_command="trainfare queue cancel",
)
TOKEN = NounKind(
    noun_type=Token,
    moment=lambda token: token.made_at,
    list_command="trainfare token list",
    remove_command="trainfare token revoke",
)
TASK = NounKind(noun_type=Task, moment=lambda task: task.made_at)


def profile_references(profile_ids: Iterable[str]) -> tuple[Reference, ...]:
    """A reference to each profile, without repetition."""
    return tuple(Reference("profile", profile_id) for profile_id in dict.fromkeys(profile_ids))


def part_name(owner_id: str, *numbers: int) -> str:
    """The name of a part in messages and checksums: `n4t9/1`."""
    return "/".join((owner_id, *map(str, numbers)))
