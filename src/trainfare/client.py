"""A client of a Trainfare server: the same use cases as in Python and on the command line, over its REST API.

>>> client = trainfare.Client("http://localhost:8765", token)                          # doctest: +SKIP
>>> plan = client.recommend(["p7k2"], epochs=90)                                       # doctest: +SKIP
>>> run = client.start(plan=plan["plan"], budget_usd=20)                               # doctest: +SKIP
>>> client.run(run["id"])["state"]                                                     # doctest: +SKIP

Answers are the JSON records of the API. Its problem documents are raised as the errors of Trainfare that they were.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from uuid import uuid4

from trainfare.errors import ProgramError, UsageError
from trainfare.store.server import Record, ServerConnection, document_of, quoted

_POLL_SECONDS = 1.0


class Client:
    """Asks a server, in the role of a token."""

    def __init__(self, url: str, token: str, *, timeout_seconds: float = 60.0) -> None:
        self._server = ServerConnection(url, token, timeout_seconds=timeout_seconds)

    def close(self) -> None:
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def me(self) -> Record:
        """Whose token this is, and what it may do."""
        return self._record("GET", "/me")

    def profiles(self) -> Iterator[Record]:
        """All profiles, the newest first."""
        return self._pages("/profiles")

    def profile(self, profile_id: str) -> Record:
        """One profile."""
        return self._record("GET", f"/profiles/{quoted(profile_id)}")

    def profile_log(self, profile_id: str) -> str:
        """The output of the program of a profile while it was measured."""
        return str(self._record("GET", f"/profiles/{quoted(profile_id)}/log")["log"])

    def remove_profile(self, profile_id: str) -> None:
        """Remove a profile; plans that are based on it can still be shown."""
        self._server.send("DELETE", f"/profiles/{quoted(profile_id)}")

    def take_profile(self, command: Sequence[str], *, folder: str | None = None, **facts: Any) -> Record:
        """Profile a command on the server, in the background; the answer is a task."""
        return self._record("POST", "/profiles", {"command": list(command), "folder": folder, **facts})

    def upload(self, path: Path | str, arguments: Sequence[str] = (), **facts: int) -> Record:
        """Upload a script, a zip or a wheel and profile it in a sandbox, in the background; the answer is a task."""
        path = Path(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}.", field="path") from error
        answer = self._server.send(
            "POST",
            "/profiles/uploads",
            files={"file": (path.name, content)},
            data={"arguments": list(arguments), **facts},
        )
        return document_of(answer)

    def tasks(self) -> Iterator[Record]:
        """The newest tasks."""
        return self._pages("/tasks")

    def task(self, task_id: str) -> Record:
        """A task: its state, and the profile once it is taken."""
        return self._record("GET", f"/tasks/{quoted(task_id)}")

    def wait_for_task(self, task_id: str, *, on_task: Callable[[Record], None] = lambda _task: None) -> Record:
        """Wait until a task has ended. `ProgramError` if it failed or was cancelled."""
        while True:
            task = self.task(task_id)
            on_task(task)
            if task["state"] not in ("waiting", "running"):
                break
            time.sleep(_POLL_SECONDS)
        if task["state"] != "succeeded":
            raise ProgramError(task["message"] or f"The task {task_id} was {task['state']}.", field=task["field"])
        return task

    def cancel_task(self, task_id: str) -> Record:
        """Ask for the end of a task."""
        return self._record("POST", f"/tasks/{quoted(task_id)}/cancel")

    def recommend(self, profiles: Sequence[str] = (), **question: Any) -> Record:
        """Recommend a machine for profiles, or for the newest: `epochs=90, goal="fastest", budget_usd=20`, and more as
        the API has it."""
        return self._record("POST", "/recommendations", {"profiles": list(profiles), **question}, repeat=True)

    def estimate(self, on: str, **question: Any) -> Record:
        """Estimate time and cost on one machine."""
        return self._record("POST", "/estimates", {"on": on, **question}, repeat=True)

    def plans(self) -> Iterator[Record]:
        """All stored plans, the newest first, in short."""
        return self._pages("/plans")

    def plan(self, plan_id: str) -> Record:
        """A stored plan."""
        return self._record("GET", f"/plans/{quoted(plan_id)}")

    def offer(self, **terms: Any) -> Record:
        """The terms under which a run would be started; nothing starts."""
        return self._record("POST", "/runs/offers", terms, repeat=True)

    def start(self, *, key: str | None = None, **terms: Any) -> Record:
        """Start a run, once: it is sent again, under the same key, if there is no answer. Give a `key` to be safe also
        if this process ends."""
        headers = {"Idempotency-Key": key or uuid4().hex}
        return self._record("POST", "/runs", terms, headers=headers, repeat=True)

    def runs(self) -> Iterator[Record]:
        """All runs, the newest first, in short."""
        return self._pages("/runs")

    def run(self, run_id: str) -> Record:
        """A run as it is now."""
        return self._record("GET", f"/runs/{quoted(run_id)}")

    def wait_for_run(self, run_id: str) -> Record:
        """Wait until a run has ended."""
        while (run := self.run(run_id))["state"] != "ended":
            time.sleep(_POLL_SECONDS)
        return run

    def stop(self, run_id: str) -> Record:
        """Ask for the end of a run."""
        return self._record("POST", f"/runs/{quoted(run_id)}/stop", repeat=True)

    def output(self, run_id: str, *, offset: int = 0) -> Record:
        """The output of the program, from an offset on."""
        return self._record("GET", f"/runs/{quoted(run_id)}/output", params={"offset": offset})

    def files(self, run_id: str) -> list[Record]:
        """The result files of a run."""
        found: list[Record] = self._record("GET", f"/runs/{quoted(run_id)}/files")["files"]
        return found

    def download(self, run_id: str, number: int, to: Path | str) -> Path:
        """Download a result file, by its number in the list, to a file."""
        to = Path(to)
        part = to.with_name(f"{to.name}.part")
        with self._server.stream(f"/runs/{quoted(run_id)}/files/{number}") as answer, part.open("wb") as file:
            for chunk in answer.iter_bytes():
                file.write(chunk)
        return part.replace(to)

    def receipt(self, run_id: str) -> Record:
        """Predicted against paid, line by line."""
        return self._record("GET", f"/runs/{quoted(run_id)}/receipt")

    def costs(self, *, by: str = "day", days: int | None = None) -> Record:
        """The costs of runs."""
        return self._record("GET", "/costs", params={"by": by} | ({} if days is None else {"days": days}))

    def accuracy(self) -> Record:
        """Predicted against observed and paid, over all ended runs."""
        return self._record("GET", "/accuracy")

    def offers(self, **filters: Any) -> Iterator[Record]:
        """Machines that can be rented: `provider="aws"`, `gpu="A100"`, `spot=True`, and more as the API has it."""
        return self._pages("/offers", filters)

    def machine(self, name: str) -> Record:
        """Every known price of a machine."""
        return self._record("GET", f"/machines/{quote(name)}")

    def queue(self) -> Iterator[Record]:
        """The trainings in the queue, the newest first."""
        return self._pages("/queue")

    def submit(self, profiles: Sequence[str] = (), **question: Any) -> Record:
        """Submit a training to the queue."""
        return self._record("POST", "/queue", {"profiles": list(profiles), **question})

    def withdraw(self, submission_id: str) -> None:
        """Withdraw a training from the queue."""
        self._server.send("DELETE", f"/queue/{quoted(submission_id)}")

    def tokens(self) -> Iterator[Record]:
        """All valid tokens, for admins."""
        return self._pages("/tokens")

    def create_token(self, user: str, role: str = "member", **terms: Any) -> Record:
        """Create a token, for admins; its `secret` is shown only now."""
        return self._record("POST", "/tokens", {"user": user, "role": role, **terms})

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token, for admins."""
        self._server.send("DELETE", f"/tokens/{quoted(token_id)}")

    def _record(self, method: str, path: str, body: Mapping[str, Any] | None = None, **options: Any) -> Record:
        return self._server.record(method, path, body, **options)

    def _pages(self, path: str, filters: Mapping[str, Any] | None = None) -> Iterator[Record]:
        for page in self._server.pages(path, filters):
            yield from page["items"]
