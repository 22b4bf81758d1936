"""What a machine gets for a run, in sentences."""

from collections.abc import Iterator
from typing import Any

from trainfare.model.run import Run
from trainfare.model.supplies import DataSource, SendingSummary
from trainfare.units import format_large, plural
from trainfare.views.estimates import estimate_record


def sending_sentences(summary: SendingSummary) -> Iterator[str]:
    """Sentences that the user reads before agreeing."""
    yield f"sends {plural(summary.files, 'file')} ({format_large(summary.bytes)}B) of {summary.folder}"
    if summary.outside_links:
        links = ", ".join(summary.outside_links[:5])
        yield f"does not send links that lead out of the folder: {links}"
    if summary.installs:
        yield f"installs what {summary.installs} names, unless the machine has it from an earlier run"
    if summary.not_installed:
        yield f"does not install what {summary.not_installed} names: a setup command can do that"
    for source in summary.data:
        yield f"data {source.name}: {_data_phrase(source)}"


def proposal_record(run: Run) -> dict[str, Any]:
    """A run that was not started: the terms to agree to."""
    return {
        "program": list(run.program.command),
        "directory": run.program.directory,
        "machine": run.candidate.offer.vm_type.key,
        "nodes": run.candidate.nodes,
        "launcher": run.launcher,
        "usd_per_hour": run.candidate.usd_per_hour,
        "results": run.results_directory,
        "setup": run.setup,
        "variables": dict(run.variables),
        "secrets": list(run.secrets),
        "estimate": estimate_record(run.estimate) if run.estimate else None,
    }


def sending_record(summary: SendingSummary) -> dict[str, Any]:
    """The same for programs that read it."""
    return {
        "folder": summary.folder,
        "files": summary.files,
        "bytes": summary.bytes,
        "outside_links": list(summary.outside_links),
        "installs": summary.installs,
        "not_installed": summary.not_installed,
        "data": [
            {"name": each.name, "kind": each.kind, "source": each.source, "sha256": each.sha256, "bytes": each.bytes}
            for each in summary.data
        ],
    }


def _data_phrase(source: DataSource) -> str:
    match source.kind:
        case "sent":
            size = f" ({format_large(source.bytes)}B)" if source.bytes is not None else ""
            return f"{source.source}{size}, sent unless the machine has it from an earlier run"
        case "fetched":
            verified = "verified" if source.sha256 else "not verified, because its SHA-256 is not stated"
            return f"fetched from {source.source.partition('?')[0]}, {verified}"
        case "there":
            return f"{source.source} on the machine"
