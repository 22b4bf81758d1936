"""The use cases that a command asks for at home, or of a server: `trainfare --server URL …`.

What only reads the store needs no choice: `open_history` opens the store of a server like any other. Each function here
asks `trainfare.Client` if the store is that of a server, and `app/` otherwise, so a command has one body for both.
"""

import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from trainfare.client import Client
from trainfare.errors import UsageError
from trainfare.model.document import from_document
from trainfare.model.estimate import Estimate
from trainfare.model.plan import Goal, Plan
from trainfare.model.profile import Profile
from trainfare.model.run import Run
from trainfare.model.scope import Scope
from trainfare.model.submission import Submission
from trainfare.settings import Settings
from trainfare.store.open import open_history
from trainfare.store.server import is_server, read_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainfare.app.programs.sources import ProgramSource
    from trainfare.app.recommending.recommend import Recommendation
    from trainfare.app.running.run import RunOptions
    from trainfare.app.stated import LengthKeywords
    from trainfare.clouds.driver import ResultFile
    from trainfare.runner.status import RunStatus

POLL_SECONDS = 1.0
TERMS = (
    "on",
    "nodes",
    "budget_usd",
    "deadline_seconds",
    "longest_seconds",
    "attempts",
    "resume_flag",
    "auto_move",
    "split",
)
"""The options of a run that a server takes, apart from its plan and its profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRecommendation:
    """The recommendation of a server."""

    plan: Plan
    profiles: tuple[Profile, ...]
    machines: tuple[Estimate, ...]
    """The best estimate of each machine and market, best first, eligible or not."""
    reachable: str | None
    """The best machine that the server can launch."""

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        return self.machines


@contextmanager
def asking(settings: Settings) -> "Iterator[Client]":
    """A client of the server of the settings."""
    with Client(settings.store, read_token(settings.store)) as client:
        yield client


def refuse_on_server(settings: Settings, **given: object) -> None:
    """Refuse the first option that was given and that a server does not take."""
    for name, value in given.items():
        if is_server(settings.store) and value not in (None, False, (), [], {}):
            raise UsageError("is not possible with a server. Leave it out, or work without --server.", field=name)


def recommend(
    profile_ids: Sequence[str], *, goal: Goal, scope: Scope, settings: Settings, **question: Any
) -> "Recommendation | RemoteRecommendation":
    """Recommend a machine, and store the plan."""
    if not is_server(settings.store):
        from trainfare.app.recommending.recommend import recommend as recommend_at_home

        return recommend_at_home(profile_ids, goal=goal, scope=scope, settings=settings, **question)
    stated = {"goal" if name == "kind" else name: value for name, value in asdict(goal).items()}
    limits = {name: value for name, value in msgspec.to_builtins(scope).items() if value is not None}
    with asking(settings) as client:
        found = client.recommend(profile_ids, **stated, scope=limits, documents=True, **question)
    documents = found["documents"]
    return RemoteRecommendation(
        plan=from_document(Plan, documents["plan"]),
        profiles=tuple(from_document(Profile, each) for each in documents["profiles"]),
        machines=tuple(from_document(Estimate, each) for each in documents["machines"]),
        reachable=documents["reachable"],
    )


def profile_on_server(
    source: "ProgramSource", settings: Settings, *, on_message: Callable[[str], None], **facts: int | None
) -> Profile:
    """Upload a program with its folder, have it profiled in the sandbox of the server, and return the profile."""
    with asking(settings) as client, tempfile.TemporaryDirectory() as folder:
        path, words = _packed(source, Path(folder))
        stated = {name: number for name, number in facts.items() if number is not None}
        task = client.upload(path, words, **stated)
        said = ""

        def say(record: Mapping[str, Any]) -> None:
            nonlocal said
            if record["message"] != said:
                said = record["message"]
                on_message(said)

        profile_id = client.wait_for_task(task["id"], on_task=say)["profile"]
    from trainfare.app.profiling.profiles import show_profile

    return show_profile(profile_id, settings=settings)


def _packed(source: "ProgramSource", folder: Path) -> tuple[Path, Sequence[str]]:
    """The program as a zip, and the words that start it there."""
    from trainfare.clouds.code_files import list_code_files

    code = list_code_files(Path(source.program.directory))
    path = folder / "program.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in code.files:
            archive.write(code.folder / name, name)
    first, *rest = source.program.command
    is_python = PurePosixPath(first).name.startswith("python")
    return path, rest if is_python else source.program.command


def agree(source: "ProgramSource | None", options: "RunOptions", *, settings: Settings) -> Run:
    """The run that would be started, with its price and its prediction."""
    if not is_server(settings.store):
        from trainfare.app.running.run import agree as agree_at_home

        return agree_at_home(source, options, settings=settings)
    if source is not None:
        raise UsageError(
            "A server runs programs that it has profiled: trainfare --server URL profile -- COMMAND, then run it with "
            "--profile and --on.",
            field="profile",
        )
    with asking(settings) as client:
        return from_document(Run, client.offer(**_terms(options, settings))["document"])


def start_run(agreed: Run, options: "RunOptions", *, settings: Settings) -> str:
    """Start what was agreed to, at no higher price. Returns the id of the run."""
    if not is_server(settings.store):
        from trainfare.app.running.run import start_run as start_at_home

        start_at_home(agreed, settings=settings)
        return agreed.id
    with asking(settings) as client:
        price = agreed.candidate.usd_per_hour
        return str(client.start(**_terms(options, settings), at_most_usd_per_hour=price, key=agreed.id)["id"])


def _terms(options: "RunOptions", settings: Settings) -> dict[str, Any]:
    from trainfare.app.running.run import RunOptions

    usual = RunOptions()
    others = [each.name for each in fields(options) if each.name not in (*TERMS, "plan_id", "profile_id", "folder")]
    refuse_on_server(
        settings, **{name: getattr(options, name) for name in others if getattr(options, name) != getattr(usual, name)}
    )
    terms = {name: getattr(options, name) for name in TERMS}
    return {**terms, "plan": options.plan_id, "profile": options.profile_id}


def attend(
    run_id: str, *, settings: Settings, on_status: "Callable[[RunStatus], None]", until_started: bool = False
) -> "RunStatus":
    """Follow a run until it has ended, or only until its program runs; at home, supervise it too."""
    if not is_server(settings.store):
        from trainfare.app.running.run import attend as attend_at_home

        return attend_at_home(run_id, settings=settings, on_status=on_status, until_started=until_started)
    from trainfare.app.running.status import show_run

    while True:
        status = show_run(run_id, settings=settings)
        on_status(status)
        if status.life.state == "ended" or (until_started and status.life.is_running):
            return status
        time.sleep(POLL_SECONDS)


def stop_run(run_id: str, *, settings: Settings) -> "RunStatus":
    """Ask for the end of a run, and wait for it."""
    if not is_server(settings.store):
        from trainfare.app.running.run import stop_run as stop_at_home

        return stop_at_home(run_id, settings=settings)
    with asking(settings) as client:
        client.stop(run_id)
    return attend(run_id, settings=settings, on_status=lambda _status: None)


def read_output(run_id: str, *, settings: Settings, offset: int = 0) -> tuple[bytes, int]:
    """Part of what a program printed, and where the next part begins."""
    if not is_server(settings.store):
        from trainfare.app.running.status import read_output as read_at_home

        text = read_at_home(run_id, settings=settings, offset=offset)
        return text, offset + len(text)
    with asking(settings) as client:
        parts = []
        while True:
            part = client.output(run_id, offset=offset)
            parts.append(part["text"].encode())
            if part["next_offset"] == offset:
                return b"".join(parts), offset
            offset = part["next_offset"]


def last_lines(status: "RunStatus", *, settings: Settings) -> list[str]:
    """The last lines that a run printed."""
    if not is_server(settings.store):
        from trainfare.app.running.last_lines import last_lines as lines_at_home

        return lines_at_home(status, settings=settings)
    return read_output(status.run.id, settings=settings)[0].decode(errors="replace").splitlines()[-10:]


def result_files(run_id: str, *, settings: Settings) -> "dict[str, ResultFile]":
    """The result files of a run by their paths."""
    from trainfare.app.running.results import result_files as files_at_home
    from trainfare.clouds.driver import ResultFile

    if not is_server(settings.store):
        return files_at_home(run_id, settings=settings)
    with asking(settings) as client:
        return {each["path"]: ResultFile(bytes=each["bytes"], sha256=each["sha256"]) for each in client.files(run_id)}


def fetch_results(run_id: str, folder: Path, *, settings: Settings) -> "tuple[dict[str, ResultFile], bool, str | None]":
    """Bring the results of a run to a folder, verified: the files, whether they are all, and which were given up."""
    from trainfare.app.running.results import fetch_results as fetch_at_home

    if not is_server(settings.store):
        found = fetch_at_home(run_id, folder, settings=settings)
        return found.files, found.complete, found.lost
    from trainfare.app.running.results import save_download
    from trainfare.app.running.status import show_run

    files = result_files(run_id, settings=settings)
    complete = show_run(run_id, settings=settings).life.state == "ended"
    with asking(settings) as client:
        for number, name in enumerate(sorted(files)):
            save_download(folder, name, files[name], lambda path, number=number: client.download(run_id, number, path))  # type: ignore[misc] # mypy does not infer lambdas with defaults
    return files, complete, None


def submit_on_server(
    profile_ids: Sequence[str], *, settings: Settings, deadline: timedelta | datetime | None, **question: Any
) -> Submission:
    """Submit a training to the queue of a server."""
    left = deadline - datetime.now(UTC) if isinstance(deadline, datetime) else deadline
    seconds = None if left is None else left.total_seconds()
    with asking(settings) as client:
        made = client.submit(profile_ids, deadline_seconds=seconds, **question)
    with open_history(settings.store) as history:
        return history.submissions.get(made["id"])


def show_log(profile_id: str, *, settings: Settings) -> str:
    """The output of a program while it was measured."""
    if not is_server(settings.store):
        from trainfare.app.profiling.profiles import show_log as log_at_home

        return log_at_home(profile_id, settings=settings)
    with asking(settings) as client:
        return client.profile_log(profile_id)


def remote_proposal(
    source: "ProgramSource",
    options: "RunOptions",
    *,
    goal: Goal,
    length: "LengthKeywords",
    settings: Settings,
    on_message: Callable[[str], None],
) -> "tuple[RemoteRecommendation, RunOptions]":
    """Profile a program on a server and recommend a machine that it can launch, as options of a run."""
    profile = profile_on_server(source, settings, on_message=on_message)
    found = recommend((profile.id,), goal=goal, scope=Scope(), settings=settings, **length)
    assert isinstance(found, RemoteRecommendation)  # noqa: S101 # the store is that of a server
    if found.reachable is None:
        raise UsageError("The server can launch no machine that suits. Ask its admin for a door.", field="server")
    return found, replace(options, plan_id=found.plan.id, profile_id=profile.id, on=found.reachable)
