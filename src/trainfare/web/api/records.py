"""The JSON objects that the API answers with, for its OpenAPI document. `views/` makes them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from trainfare.model.access import Role
from trainfare.model.run import Outcome, RunState
from trainfare.model.task import TaskState
from trainfare.web.api.paging import Record


class ProfileRecord(Record):
    """Facts that were measured in one short run of a program."""

    id: str
    name: str = Field(description="The program, for people.")
    command: str
    measured_at: str
    framework: str | None = None
    effective_batch_size: int | None = None
    median_iteration_seconds: float | None = None
    samples_per_second: float | None = None


class LogRecord(BaseModel):
    """The output of a program."""

    profile: str
    log: str


class TaskEventRecord(BaseModel):
    """Something that happened to a task."""

    number: int
    seen_at: str
    kind: str
    text: str
    iterations: int | None = None
    iteration_seconds: float | None = None


class TaskRecord(Record):
    """A profile that the server takes in the background."""

    id: str
    state: TaskState
    user: str
    made_at: str
    command: list[str]
    message: str = Field(description="What is done now, or how it ended.")
    field: str | None = Field(default=None, description="The argument at fault, if it failed because of one.")
    profile: str | None = Field(default=None, description="The id of the profile, once it is taken.")
    events: list[TaskEventRecord]


class EstimateRecord(Record):
    """Time and cost of a whole training on one machine."""

    provider: str
    machine: str
    region: str
    market: str
    nodes: int
    gpu: str | None
    batch_size: int | None
    epochs: int | float
    seconds: float
    seconds_low: float
    seconds_high: float
    usd: float
    usd_low: float
    usd_high: float
    confidence: float
    basis: str
    profile: str
    usd_per_hour: float


class PlanRecord(Record):
    """A recommendation: the chosen machine, others, and the reasons."""

    plan: str
    made_at: str
    goal: str
    chosen: EstimateRecord
    considered: int
    reasons: list[str]
    estimates: list[EstimateRecord]


class RecommendationRecord(PlanRecord):
    """A plan, and the estimates that it was chosen from."""

    stored: bool = Field(description="Whether the plan can be shown again and run.")
    documents: dict[str, Any] | None = Field(default=None, description="As the history has them, if asked for.")
    profiles: list[str]


class PlanSummary(BaseModel):
    """A stored plan in a list."""

    plan: str
    made_at: str
    goal: str
    profile: str
    machine: str
    epochs: int | float
    seconds: float
    usd: float


class RunRecord(Record):
    """A run as it is now."""

    id: str
    state: RunState
    outcome: Outcome | None
    message: str | None
    sentence: str = Field(description="The state in a few words.")
    user: str | None = Field(description="Who started it on this server; null if it was started elsewhere.")
    machine: str
    nodes: int
    made_at: str
    plan: str | None
    paid_usd: float


class RunSummary(BaseModel):
    """A run in a list."""

    id: str
    state: RunState
    outcome: Outcome | None
    sentence: str
    name: str
    machine: str
    nodes: int
    made_at: str
    plan: str | None
    paid_usd: float


class OfferRecord(BaseModel):
    """The terms of a run, to be agreed to."""

    sentence: str
    machine: str
    region: str
    market: str
    nodes: int
    usd_per_hour: float
    estimate: EstimateRecord | None = Field(description="Null if the program was never profiled.")
    budget_usd: float | None = Field(description="The most that the run may cost; null is without limit.")
    deadline: str | None
    document: dict[str, Any] = Field(description="The run as the history would store it.")


class OutputRecord(BaseModel):
    """Part of what a program printed."""

    offset: int
    next_offset: int = Field(description="Where the next part begins.")
    text: str
    ended: bool = Field(description="The run has ended: nothing follows after `next_offset`, unless this part is full.")


class FileRecord(BaseModel):
    """A result file; its number names it."""

    number: int
    path: str
    bytes: int
    sha256: str
    available: bool


class FileList(BaseModel):
    files: list[FileRecord]


class ReceiptLine(Record):
    part: str
    seconds: float
    paid_usd: float


class ReceiptRecord(Record):
    """Predicted against paid, line by line."""

    run: str
    machine: str
    usd_per_hour: float
    attempts: int
    lines: list[ReceiptLine]
    total: ReceiptLine


class CostGroupRecord(BaseModel):
    name: str
    runs: int
    machine_hours: float
    usd: float


class CostRecord(BaseModel):
    """The costs of runs."""

    by: str
    since: str | None
    rows: list[CostGroupRecord]
    usd: float
    reserved_usd: float
    caps: dict[str, float | None]


class AccuracyRecord(Record):
    """Predicted against observed and paid, over all ended runs."""

    runs: list[Record]
    summary: list[Record]


class CatalogRow(Record):
    """A machine in a region."""

    machine: str
    provider: str
    name: str
    gpu: str | None
    gpus: int
    region: str
    usd_per_hour: float | None
    spot_usd_per_hour: float | None
    seen_on: str


class MachineRecord(BaseModel):
    machine: str
    rows: list[CatalogRow]


class GpuRecord(Record):
    name: str
    memory_gib: float


class SubmissionRecord(Record):
    """A training in the queue."""

    id: str
    profile_ids: list[str]
    program: str
    submitted_at: str
    user: str
    remarks: list[str] = Field(default_factory=list)


class TokenRecord(BaseModel):
    """A token without its secret."""

    id: str
    user: str
    role: Role
    purpose: Literal["api", "browser", "link"]
    made_at: str
    expires_at: str | None
    budget_usd: float | None


class NewTokenRecord(TokenRecord):
    """A new token."""

    secret: str = Field(description="It is shown only here.")


class DocumentList(BaseModel):
    """Documents of the store."""

    items: list[dict[str, Any]]


class DocumentPage(DocumentList):
    """A page of documents."""

    next: str | None = None
    damaged: list[str]
    facts: dict[str, list[dict[str, Any]]] = Field(description="The facts of each run of the page.")


class IdList(BaseModel):
    items: list[str]


class BudgetRecord(BaseModel):
    """The cap of a user for some time, with the money that counts against it."""

    cap_usd: float | None
    spent_usd: float
    reserved_usd: float = Field(description="What runs that have not ended may still spend.")


class VisitorRecord(BaseModel):
    """The user who asks."""

    user: str
    role: Role
    budget_usd: float | None
    budgets: dict[Literal["day", "month", "total"], BudgetRecord]
    version: str = Field(description="The version of the server.")
