"""The JSON records and the sentences of runs: their state, their progress, and their receipts."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trainfare.model.interval import Interval
from trainfare.model.offer import Candidate
from trainfare.model.run import Checkpoint, Fact, Run
from trainfare.recommender.names import candidate_name, machine_name
from trainfare.runner.collecting import Arrivals
from trainfare.runner.receipt import Line, Receipt
from trainfare.runner.status import RunStatus
from trainfare.runner.traffic import NodeTraffic
from trainfare.units import format_duration, format_usd, plural
from trainfare.views.estimates import estimate_record, spread


class SizedFile(Protocol):
    """A file that was fetched."""

    @property
    def bytes(self) -> int: ...
    @property
    def sha256(self) -> str: ...


def run_record(status: RunStatus) -> dict[str, Any]:
    """A run as it is now."""
    run, life, progress = status.run, status.life, status.progress
    return {
        "id": run.id,
        "state": life.state,
        "outcome": life.outcome,
        "message": life.message,
        "program": list(run.program.command),
        "directory": run.program.directory,
        "machine": (life.candidate or run.candidate).offer.vm_type.key,
        "nodes": (life.candidate or run.candidate).nodes,
        "launcher": run.launcher,
        "made_at": run.made_at.isoformat(),
        "plan": run.plan_id,
        "attempt": life.attempt,
        "moves": life.moves,
        "moving_to": life.move_to.offer.vm_type.key if life.move_to else None,
        "resume_flag": run.resume_flag,
        "checkpoint": _checkpoint_record(life.checkpoint),
        "resumed_from": _checkpoint_record(life.resumed_from),
        "exit_code": life.exit_code,
        "stop_reason": life.stop_reason,
        "silent_since": life.silent_since.isoformat() if life.silent_since else None,
        "warnings": list(life.warnings),
        "iterations": progress.iterations,
        "total_iterations": progress.total_iterations,
        "loss": progress.loss,
        **_optional("remaining_seconds", progress.remaining_seconds),
        "paid_usd": status.receipt.total.paid_usd,
        **_optional("usd_in_all", status.usd_in_all),
        "results": run.results_directory,
        "arrivals": _arrivals_record(status.arrivals),
        "traffic": traffic_records(status.traffic),
        "setup": run.setup,
        "install": run.install,
        "variables": dict(run.variables),
        "secrets": list(run.secrets),
        "data": [{"name": each.name, "kind": each.kind, "source": each.source} for each in run.data],
        "limits": {
            "budget_usd": run.limits.budget_usd,
            "deadline": run.limits.deadline.isoformat() if run.limits.deadline else None,
            "longest_seconds": run.limits.longest_seconds,
        },
        "due": run.due.isoformat() if run.due else None,
        "patience_seconds": run.patience_seconds,
        "estimate": estimate_record(run.estimate) if run.estimate else None,
        "facts": [_fact_record(fact) for fact in status.facts],
    }


def receipt_record(receipt: Receipt) -> dict[str, Any]:
    """The receipt, line by line."""
    return {
        "run": receipt.run.id,
        "machine": receipt.run.candidate.offer.vm_type.key,
        "usd_per_hour": receipt.run.candidate.usd_per_hour,
        "attempts": receipt.attempts,
        "reclaims": receipt.reclaims,
        "lost_seconds": receipt.lost_seconds,
        "lost_usd": receipt.lost_usd,
        "lines": [_line_record(line) for line in receipt.lines],
        "total": _line_record(receipt.total),
    }


def traffic_records(traffic: Sequence[NodeTraffic]) -> list[dict[str, Any]]:
    """The traffic of each node of several."""
    return [
        {
            "node": each.node,
            "host": each.host,
            "sent_bytes": each.sent_bytes,
            "received_bytes": each.received_bytes,
            "seconds": each.seconds,
            "iterations": each.iterations,
            "sent_mbps": each.sent_mbps,
            "received_mbps": each.received_mbps,
        }
        for each in traffic
    ]


def traffic_sentences(traffic: Sequence[NodeTraffic]) -> list[str]:
    """A line for each node: how much of its network the program used."""
    return [
        f"node {each.node}{f' ({each.host})' if each.host else ''}: sent {each.sent_mbps:.3g} Mbit/s, "
        f"received {each.received_mbps:.3g} Mbit/s"
        for each in traffic
    ]


def file_records(files: Mapping[str, SizedFile]) -> list[dict[str, Any]]:
    """Result files with their sizes and checksums."""
    return [{"path": name, "bytes": file.bytes, "sha256": file.sha256} for name, file in sorted(files.items())]


def offer_sentence(run: Run) -> str:
    """The terms that the user agrees to."""
    candidate, estimate = run.candidate, run.estimate
    machine = candidate_name(candidate)
    price = "at no cost" if not candidate.usd_per_hour else f"at {format_usd(candidate.usd_per_hour)} an hour"
    if run.launcher is not None:
        price += f", nodes joined by {run.launcher}"
    if estimate is None:
        return f"{run.program.command_line} on {machine}, {price}; how long it takes is unknown"
    seconds, usd = estimate.seconds, estimate.usd
    if run.then is not None:
        seconds, usd = seconds + run.then.seconds, usd + run.then.usd
        machine += f", then on {candidate_name(run.then.candidate)}"
    in_time = "; on demand, which costs more, if its deadline needs it" if run.due is not None else ""
    return (
        f"{run.program.command_line} on {machine}, {price}: {format_duration(seconds.value)} "
        f"({format_duration(seconds.low)} to {format_duration(seconds.high)}), {format_usd(usd.value)}{in_time}"
    )


def move_sentence(run: Run, machines: Candidate, to: Candidate) -> str:
    """The terms of a move that the user agrees to."""
    names = [f"{machine_name(each.offer)} ({_price(each)})" for each in (machines, to)]
    return f"{run.id} moves from {names[0]} to {names[1]}: it saves, its machine ends, it goes on from its checkpoint"


def _price(candidate: Candidate) -> str:
    return "at no cost" if not candidate.usd_per_hour else f"{format_usd(candidate.usd_per_hour)} an hour"


def state_sentence(status: RunStatus) -> str:
    """The state in a few words, with what matters in it."""
    life, progress = status.life, status.progress
    if life.state == "ended":
        return f"{life.outcome}: {life.message}"
    if life.state == "planned" and life.attempt:
        return "between two machines" if life.interrupted or life.move_to else "ending"
    if life.silent_since is not None:
        silence = format_duration(max(0.0, (status.now - life.silent_since).total_seconds()))
        return f"{life.state}; its machine has not answered for {silence}"
    if life.state == "booting" and any(machine.state == "queued" for machine in life.machines):
        return "waits in the queue"
    if life.state == "collecting" and status.arrivals is not None:
        return f"collecting, {status.arrivals.text}"
    if life.state != "training":
        return life.state
    done = f"iteration {progress.iterations:,}"
    if progress.total_iterations is not None:
        done += f" of {progress.total_iterations:,}"
    left = progress.remaining_seconds
    ends = "" if left is None else f", {format_duration(left.low)} to {format_duration(left.high)} left"
    return f"training, {done}{ends}"


def receipt_rows(receipt: Receipt) -> list[tuple[str, str, str, str, str, str]]:
    """The cells of a receipt: part, predicted time, time, predicted cost, paid, verdict."""
    return [_cells(line) for line in (*receipt.lines, receipt.total)]


def loss_sentence(receipt: Receipt) -> str | None:
    """The work that was lost with machines; None if there was none."""
    if not receipt.reclaims and not receipt.lost_seconds:
        return None
    taken = f"The provider took machines back {plural(receipt.reclaims, 'time')}. " if receipt.reclaims else ""
    cost = f", {format_usd(receipt.lost_usd)} of what was paid" if receipt.lost_usd else ""
    return f"{taken}Done again after losses: {format_duration(receipt.lost_seconds)} of training{cost}."


def _cells(line: Line) -> tuple[str, str, str, str, str, str]:
    verdict = {True: "inside", False: "outside", None: ""}[line.is_inside]
    return (
        line.part,
        _seconds_range(line.predicted_seconds),
        format_duration(line.seconds),
        "" if line.predicted_usd is None else format_usd(line.predicted_usd.value),
        format_usd(line.paid_usd),
        verdict,
    )


def _seconds_range(predicted: Interval | None) -> str:
    if predicted is None:
        return ""
    return f"{format_duration(predicted.value)} ({format_duration(predicted.low)} – {format_duration(predicted.high)})"


def _line_record(line: Line) -> dict[str, Any]:
    return {
        "part": line.part,
        **_optional("predicted_seconds", line.predicted_seconds),
        "seconds": line.seconds,
        **_optional("predicted_usd", line.predicted_usd),
        "paid_usd": line.paid_usd,
        "inside": line.is_inside,
        "cost_inside": line.is_cost_inside,
    }


def _arrivals_record(arrivals: Arrivals | None) -> dict[str, Any] | None:
    if arrivals is None:
        return None
    return {
        "files": arrivals.files,
        "bytes": arrivals.bytes,
        "whole_files": arrivals.whole_files,
        "arrived_bytes": arrivals.arrived_bytes,
    }


def _checkpoint_record(checkpoint: Checkpoint | None) -> dict[str, Any] | None:
    if checkpoint is None:
        return None
    return {
        "name": checkpoint.name,
        "path": checkpoint.path,
        "files": len(checkpoint.files),
        "bytes": checkpoint.bytes,
        "saved_at": checkpoint.saved_at.isoformat(),
        "iteration": checkpoint.iteration,
        "save_seconds": checkpoint.save_seconds,
        "fetch_seconds": checkpoint.fetch_seconds,
    }


def _fact_record(fact: Fact) -> dict[str, Any]:
    return {
        "number": fact.number,
        "seen_at": fact.seen_at.isoformat(),
        "kind": fact.kind,
        "attempt": fact.attempt,
        "text": fact.text,
        "exit_code": fact.exit_code,
        "files": fact.collected_files,
        "bytes": fact.collected_bytes,
        "machine": fact.candidate.offer.vm_type.key if fact.candidate else None,
        "checkpoint": _checkpoint_record(fact.checkpoint),
    }


def _optional(name: str, interval: Interval | None) -> dict[str, float | None]:
    if interval is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {**spread(name, interval)}
