"""What the API takes: request bodies, and what they mean to `app/`."""

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from trainfare.app.recommending.question import Question
from trainfare.app.running.run import RunOptions
from trainfare.app.stated import LengthKeywords, StatedLength
from trainfare.errors import UsageError
from trainfare.model.plan import Goal, GoalKind, Target
from trainfare.model.scope import Quota, Scope

T = TypeVar("T")

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Names = Annotated[list[Name], Field(max_length=50)]
Count = Annotated[int, Field(ge=1, le=10**12)]
Positive = Annotated[float, Field(gt=0, le=1e15)]
Usd = Annotated[float, Field(gt=0, le=1e9)]
Seconds = Annotated[float, Field(gt=0, le=3.2e9)]
Text = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]


class Body(BaseModel):
    """A request body: unknown members are mistakes, and so are numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class LengthBody(Body):
    """The length of the training, and facts of the profile that were not measured; null is as the profile says."""

    epochs: Annotated[float, Field(gt=0, le=1e9)] | None = None
    steps: Count | None = None
    tokens: Positive | None = None
    samples: Count | None = None
    profiled_batch_size: Annotated[int, Field(ge=1, le=10**9)] | None = None
    iterations_per_epoch: Count | None = None

    @property
    def keywords(self) -> LengthKeywords:
        return {
            "epochs": self.epochs,
            "steps": self.steps,
            "tokens": self.tokens,
            "samples": self.samples,
            "profiled_batch_size": self.profiled_batch_size,
            "iterations_per_epoch": self.iterations_per_epoch,
        }


class TargetBody(Body):
    metric: Name
    value: float


class QuotaBody(Body):
    name: Name
    limit: Annotated[int, Field(ge=0, le=10**6)]


class ScopeBody(Body):
    """Restrictions on machines. An empty list is no restriction."""

    providers: Names = []
    regions: Names = []
    gpus: Names = []
    machines: Names = []
    also: Names = []
    exclude: Names = []
    min_gpu_gib: Positive | None = None
    yours: bool = False
    quota: Annotated[list[QuotaBody], Field(max_length=50)] = []
    nodes: Annotated[int, Field(ge=1, le=1024)] | None = None
    batch_sizes: Annotated[list[Annotated[int, Field(ge=1, le=10**9)]], Field(max_length=20)] = []
    any_batch_size: bool = False
    spot: bool = False
    reserved: bool | None = None

    def scope(self) -> Scope:
        return checked(
            lambda: Scope(
                providers=tuple(self.providers),
                regions=tuple(self.regions),
                gpus=tuple(self.gpus),
                machines=tuple(self.machines),
                also=tuple(self.also),
                exclude=tuple(self.exclude),
                min_gpu_gib=self.min_gpu_gib,
                yours=self.yours,
                quota=tuple(Quota(name=each.name, limit=each.limit) for each in self.quota),
                nodes=self.nodes,
                batch_sizes=tuple(self.batch_sizes),
                any_batch_size=self.any_batch_size,
                spot=self.spot,
                reserved=self.reserved,
            ),
            field="scope",
        )


class RecommendationBody(LengthBody):
    """A question for the machine to train on."""

    profiles: Annotated[list[Name], Field(max_length=20, description="By default the newest.")] = []
    goal: GoalKind | None = Field(default=None, description="By default that of the server's settings.")
    weight_time: Annotated[float, Field(ge=0, le=1)] | None = None
    deadline_seconds: Seconds | None = None
    budget_usd: Usd | None = None
    value_of_time_usd_per_hour: Usd | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.9
    target: TargetBody | None = None
    scope: ScopeBody = ScopeBody()
    split: bool = False
    baseline: Name | None = None
    store: bool = Field(default=True, description="Store the plan, so that it can be shown again and run.")
    documents: bool = Field(
        default=False,
        description="Answer also with the plan, the profiles and the best estimate of every machine as documents of "
        "the history, and with the best machine that the server can launch.",
    )
    every_machine: bool = Field(default=False, description="Answer with the best estimate of every machine.")

    def question(self, default_goal: Literal["cheapest", "fastest"]) -> Question:
        goal = checked(
            lambda: Goal(
                kind=self.goal or default_goal,
                weight_time=self.weight_time,
                deadline_seconds=self.deadline_seconds,
                budget_usd=self.budget_usd,
                value_of_time_usd_per_hour=self.value_of_time_usd_per_hour,
                confidence=self.confidence,
                target=None if self.target is None else Target(metric=self.target.metric, value=self.target.value),
            ),
            field="goal",
        )
        return Question(
            goal=goal,
            scope=self.scope.scope(),
            length=StatedLength(**self.keywords),
            split=self.split,
            baseline=self.baseline,
        )


class EstimateBody(LengthBody):
    """A question for time and cost on one machine."""

    on: Name
    profile: Name | None = Field(default=None, description="By default the newest.")
    region: Name | None = None
    spot: bool = False
    reserved: bool | None = None
    nodes: Annotated[int, Field(ge=1, le=1024)] = 1
    gpus: Annotated[int, Field(ge=1, le=1024)] | None = None
    batch_size: Annotated[int, Field(ge=1, le=10**9)] | None = None


class ProfileBody(Body):
    """A profile to take of a program that is on the server."""

    command: Annotated[list[Text], Field(min_length=1, max_length=200, description="The program and its arguments.")]
    folder: Text | None = Field(default=None, description="The folder on the server in which it starts.")
    batch_size: Annotated[int, Field(ge=1, le=10**9)] | None = None
    samples: Count | None = None
    steps: Count | None = None
    max_seconds: Seconds | None = None


class TermsBody(Body):
    """The terms of a run: of a stored plan, or of a profile on a machine that is named."""

    plan: Name | None = None
    profile: Name | None = None
    on: Name | None = Field(default=None, description="The key of a machine; by default the one that the plan chose.")
    nodes: Annotated[int, Field(ge=1, le=1024)] | None = None
    budget_usd: Usd | None = None
    deadline_seconds: Seconds | None = None
    longest_seconds: Seconds | None = None
    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    resume_flag: Text | None = None
    auto_move: bool = False
    split: bool = False

    def options(self, user: str | None = None) -> RunOptions:
        if self.plan is None and self.profile is None:
            raise UsageError("A run needs a plan, or a profile and a machine.", field="plan")
        return RunOptions(
            plan_id=self.plan,
            profile_id=self.profile,
            on=self.on,
            nodes=self.nodes,
            budget_usd=self.budget_usd,
            deadline_seconds=self.deadline_seconds,
            longest_seconds=self.longest_seconds,
            attempts=self.attempts,
            resume_flag=self.resume_flag,
            auto_move=self.auto_move,
            split=self.split,
            user=user,
        )


class StartBody(TermsBody):
    """The terms of a run that is started now."""

    at_most_usd_per_hour: Annotated[float, Field(ge=0, le=1e9)] | None = Field(
        default=None, description="The price that was agreed to; a run that would cost more is not started."
    )


class SubmissionBody(LengthBody):
    """A training for the queue."""

    profiles: Annotated[list[Name], Field(max_length=20)] = []
    gpus: Annotated[int, Field(ge=1, le=1024)] | None = None
    deadline_seconds: Seconds | None = Field(default=None, description="From now.")
    late_usd_per_hour: Annotated[float, Field(ge=0, le=1e9)] | None = None


class TokenBody(Body):
    """A token for a user."""

    user: Name
    role: Literal["viewer", "member", "admin"] = "member"
    expires_seconds: Seconds | None = None
    budget_usd: Usd | None = None


def checked(make: Callable[[], T], *, field: str) -> T:
    """The result of `make`; a UsageError instead of the ValueError of a noun that cannot be."""
    try:
        return make()
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"{error}.", field=field) from error
