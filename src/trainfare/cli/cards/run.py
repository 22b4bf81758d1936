"""Prints runs: a line while one is watched, a table of all, and receipts."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.text import Text

from trainfare.cli.console import err, new_table, out, print_note
from trainfare.recommender.names import candidate_name
from trainfare.runner.receipt import Receipt
from trainfare.runner.status import RunStatus
from trainfare.units import format_ago, format_duration, format_large, format_usd, plural
from trainfare.views.runs import SizedFile, loss_sentence, receipt_rows, state_sentence

_BAR = 24
_FILES = 20
_LINE_SECONDS = 60.0


class RunScreen:
    """Shows a run while it is watched: a line that is rewritten on a terminal; elsewhere a line for each new state, and
    one a minute while it trains or its results come home."""

    def __init__(self) -> None:
        self._state: tuple[str, int] | None = None
        self._said = ""
        self._said_at: datetime | None = None
        self._warnings = 0
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, status: RunStatus) -> None:
        for warning in status.life.warnings[self._warnings :]:
            self._clear()
            print_note(f"note: {warning}")
        self._warnings = len(status.life.warnings)
        if self._is_terminal:
            sys.stderr.write("\r\033[K" + self._line(status)[: err().width - 1])
            sys.stderr.flush()
        elif self._is_news(status):
            self._said, self._said_at = state_sentence(status), status.now
            print_note(f"{status.run.id}: {self._said}")

    def close(self) -> None:
        self._clear()

    def _is_news(self, status: RunStatus) -> bool:
        state, self._state = self._state, (status.life.state, status.life.attempt)
        if state != self._state:
            return state_sentence(status) != self._said
        is_time = self._said_at is not None and (status.now - self._said_at).total_seconds() >= _LINE_SECONDS
        return status.life.state in ("training", "collecting") and is_time

    def _clear(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def _line(self, status: RunStatus) -> str:
        share = status.progress.share
        bar = (
            "" if share is None else "█" * round(share * _BAR) + "░" * (_BAR - round(share * _BAR)) + f" {share:.0%}  "
        )
        parts = [state_sentence(status), format_usd(status.receipt.total.paid_usd)]
        in_all = status.usd_in_all
        if in_all is not None and in_all.value:
            parts[-1] += f" of {format_usd(in_all.low)} to {format_usd(in_all.high)}"
        if status.progress.loss is not None:
            parts.append(f"loss {status.progress.loss:.4g}")
        return f"{status.run.id}  {bar}{' · '.join(parts)}"


def print_runs(runs: Sequence[RunStatus]) -> None:
    table = new_table()
    for name in ("run", "program", "machine", "state"):
        table.add_column(name, overflow="fold")
    for name in ("time", "paid"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("started", no_wrap=True)
    for status in runs:
        table.add_row(
            status.run.id,
            status.run.program.name,
            candidate_name(status.run.candidate),
            state_sentence(status),
            format_duration(status.receipt.total.seconds),
            format_usd(status.receipt.total.paid_usd),
            format_ago(status.run.made_at, datetime.now(UTC)),
        )
    out().print(table)


def print_receipt(receipt: Receipt) -> None:
    run = receipt.run
    title = f"run {run.id}  {run.program.command_line}  on {candidate_name(run.candidate)}"
    title += f"  in {receipt.attempts} attempts" if receipt.attempts > 1 else ""
    out().print(Text(title, style="bold"))
    table = new_table()
    for name in ("", "predicted", "observed", "predicted", "paid", "90% interval"):
        table.add_column(name, justify="left" if not name or "%" in name else "right", no_wrap=True)
    for row in receipt_rows(receipt):
        table.add_row(*row, style="bold" if row[0] == "in all" else None)
    out().print(table)
    if (losses := loss_sentence(receipt)) is not None:
        out().print(Text(losses))


def print_files(files: Mapping[str, SizedFile]) -> None:
    """Result files and their sizes, at most `_FILES` of them."""
    table = new_table()
    table.add_column("file", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    for name, file in sorted(files.items())[:_FILES]:
        table.add_row(Text(name), f"{format_large(file.bytes)}B")
    out().print(table)
    if len(files) > _FILES:
        print_note(f"and {plural(len(files) - _FILES, 'more file')}: --json lists all")
