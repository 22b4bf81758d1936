"""Server-sent events of a run: a snapshot first, then whatever changes.

Every event holds the live parts of the page in full, so a watcher that was cut off misses nothing: the first event of
its next connection is the state of that moment. All watchers of a run in this process share one reader of the store,
which reads while the run is watched, and only what is new.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from trainfare.app.running.curves import CurveReader
from trainfare.app.running.last_lines import last_lines
from trainfare.app.running.reading import SeenReader
from trainfare.app.running.status import load_status, show_run
from trainfare.errors import TrainfareError
from trainfare.settings import Settings
from trainfare.store.open import open_existing_history
from trainfare.web.context import ServerSettings
from trainfare.web.pages.runs import LINES, RunId, live_fragment, watch_context
from trainfare.web.visitors import Viewer

if TYPE_CHECKING:
    from trainfare.store.history import History

router = APIRouter()
POLL_SECONDS = 1.0
QUIET_SECONDS = 15.0
"""A comment is sent after so long without a change, so that proxies keep the connection."""


class RunReader:
    """Reads one run from the store, again and again."""

    def __init__(self, run_id: str, settings: Settings) -> None:
        self._settings = settings
        self._history: History = open_existing_history(settings.store)
        self._run = self._history.runs.get(run_id)
        self._seen, self._curves = SeenReader(self._history, run_id), CurveReader(self._history, run_id)

    def read(self) -> tuple[str, bool]:
        """The live parts as they are now, and whether the run has ended."""
        status = load_status(self._history, self._run, now=datetime.now(UTC), reader=self._seen)
        lines = last_lines(status, settings=self._settings, count=LINES)
        fragment = live_fragment(watch_context(status, self._curves.read(status.life.attempt), lines))
        return fragment, status.life.state == "ended"

    def close(self) -> None:
        self._history.close()


class Channel:
    """The last state of one run, and those who wait for the next."""

    def __init__(self) -> None:
        self.watchers = 0
        self.number = 0
        self.fragment = ""
        self.ended = False
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    async def publish(self, fragment: str, *, ended: bool) -> None:
        if fragment == self.fragment and ended == self.ended and self.number:
            return
        async with self._changed:
            self.number, self.fragment, self.ended = self.number + 1, fragment, ended
            self._changed.notify_all()

    async def after(self, number: int) -> bool:
        """Wait for a state after this one; False if there was none for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self.number > number)
                return True
        return False


class Channels:
    """The channels of one application, by run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_run: dict[str, Channel] = {}

    def join(self, run_id: str) -> Channel:
        channel = self._by_run.setdefault(run_id, Channel())
        channel.watchers += 1
        if channel.task is None or channel.task.done():
            channel.task = asyncio.create_task(self._follow(run_id, channel))
        return channel

    def leave(self, run_id: str, channel: Channel) -> None:
        channel.watchers -= 1
        if not channel.watchers:
            self._by_run.pop(run_id, None)
            if channel.task is not None:
                channel.task.cancel()

    async def _follow(self, run_id: str, channel: Channel) -> None:
        reader: RunReader | None = None
        try:
            while not channel.ended:
                with suppress(TrainfareError):  # a store that does not answer now may answer soon
                    if reader is None:
                        reader = await run_in_threadpool(RunReader, run_id, self._settings)
                    fragment, ended = await run_in_threadpool(reader.read)
                    await channel.publish(fragment, ended=ended)
                await asyncio.sleep(POLL_SECONDS)
        finally:
            if reader is not None:
                reader.close()


@router.get("/runs/{run_id}/events")
async def events(request: Request, _visitor: Viewer, settings: ServerSettings, run_id: RunId) -> StreamingResponse:
    """The live parts of the page of a run, as they change."""
    await run_in_threadpool(show_run, run_id, settings=settings)
    state = request.app.state
    if getattr(state, "run_channels", None) is None:
        state.run_channels = Channels(settings)
    return StreamingResponse(
        _stream(state.run_channels, run_id),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _stream(channels: Channels, run_id: str) -> AsyncIterator[str]:
    channel = channels.join(run_id)
    number = 0
    try:
        yield "retry: 2000\n\n"
        while True:
            if not await channel.after(number):
                yield ": still here\n\n"
                continue
            number = channel.number
            yield _event("state", channel.fragment, number)
            if channel.ended:
                yield _event("ended", run_id, number)
                return
    finally:
        channels.leave(run_id, channel)


def _event(kind: str, text: str, number: int) -> str:
    data = "".join(f"data: {line}\n" for line in text.replace("\r", "\n").split("\n"))
    return f"event: {kind}\nid: {number}\n{data}\n"
