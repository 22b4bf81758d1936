"""A launch as a task of SkyPilot, and a cluster of SkyPilot as machines of a launch. Nothing is asked or done here.

One launch is one cluster with the name `trainfare-KEY`. Its task has no command: SkyPilot makes the machines, and the
agent runs the program, as on any host. The task carries a note in a variable, which SkyPilot returns with the state of
the cluster, so that whoever lists clusters knows whose they are.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import yaml

from trainfare.clouds.door import Launch
from trainfare.clouds.launch_memory import safe_key
from trainfare.clouds.skypilot_api import ApiRequest
from trainfare.model.offer import Offer
from trainfare.model.rented import MachineState, RentedMachine

PREFIX = "trainfare-"
NOTE = "TRAINFARE_NOTE"
"""The variable of the task that has the note."""
ANYWHERE = "any"
"""The region of offers whose provider chooses it."""
MOST_REGIONS = 8
MARGIN = timedelta(minutes=5)
"""SkyPilot's own timer ends the machines so long after the agent has ended the program."""

CLOUDS: Mapping[str, str] = {
    **{name: name for name in ("aws", "azure", "cudo", "gcp", "hyperbolic", "lambda", "nebius", "oci", "runpod")},
    **{name: name for name in ("shadeform", "vast", "verda", "yotta")},
    "digitalocean": "do",
}
"""SkyPilot's name of each provider of the catalog that it can rent from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchNote:
    """The tags of a launch."""

    owner: str
    run_id: str
    attempt: int
    nodes: int
    vm_type: str
    expires_at: datetime
    spot: bool

    def machines(self) -> tuple[RentedMachine, ...]:
        return tuple(
            RentedMachine(
                id=f"{self.run_id}-{self.attempt}/{node}",
                owner=self.owner,
                run_id=self.run_id,
                attempt=self.attempt,
                node=node,
                vm_type=self.vm_type,
                state="booting",
                expires_at=self.expires_at,
            )
            for node in range(self.nodes)
        )


def cluster_name(key: str) -> str:
    return f"{PREFIX}{safe_key(key)}"


def key_of(cluster: str) -> str:
    return cluster.removeprefix(PREFIX)


def node_name(cluster: str, node: int) -> str:
    """The name that SkyPilot gives a node in its configuration of ssh."""
    return cluster if node == 0 else f"{cluster}-worker{node}"


def note_of(launch: Launch) -> LaunchNote:
    return LaunchNote(
        owner=launch.owner,
        run_id=launch.run_id,
        attempt=launch.attempt,
        nodes=launch.candidate.nodes,
        vm_type=launch.candidate.offer.vm_type.key,
        expires_at=launch.expires_at,
        spot=launch.candidate.offer.market == "spot",
    )


def same_price_offers(chosen: Offer, offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """The chosen offer, then the same machine in other regions that do not cost more: the agreed price is a cap."""
    others = [
        offer
        for offer in offers
        if (offer.vm_type.key, offer.market) == (chosen.vm_type.key, chosen.market)
        and offer.region != chosen.region
        and offer.usd_per_hour <= chosen.usd_per_hour
    ]
    others.sort(key=lambda offer: (offer.usd_per_hour, offer.region))
    return (chosen, *others[: MOST_REGIONS - 1])


def lasting(launch: Launch, *, now: datetime) -> Launch:
    """The launch with the lease of the agent: it ends the program before SkyPilot's timer ends the machines at the time
    that was paid for, or after three quarters of a short time."""
    left = max(timedelta(), launch.expires_at - now)
    return replace(launch, expires_at=launch.expires_at - min(MARGIN, left / 4))


def timer(expires_at: datetime, *, now: datetime) -> dict[str, Any]:
    """SkyPilot's own timer for machines that are paid for until then. It waits for nothing: neither for jobs, of which
    there are none, nor for connections of ssh, which stay open."""
    minutes = math.ceil(max(MARGIN, expires_at - now).total_seconds() / 60)
    return {"idle_minutes": minutes, "down": True, "wait_for": "none"}


def paid_until(lease_ends_at: datetime, *, asked_at: datetime) -> datetime:
    """The time that a launch was paid for: that of which `lasting`, when it was asked for, left the agent its lease."""
    lease = max(timedelta(), lease_ends_at - asked_at)
    return asked_at + min(lease + MARGIN, lease * 4 / 3)


def rest_timer(paid_until: datetime, *, now: datetime) -> dict[str, Any]:
    """SkyPilot's timer for machines that are up: it counts from now, in whole minutes, and ends within what is paid
    for. The one of the launch counts from the moment at which they were up, so it would add their boot."""
    minutes = math.floor((paid_until - now).total_seconds() / 60)
    return {"idle_minutes": max(1, minutes), "down": True, "wait_for": "none"}


def task_of(launch: Launch, offers: Iterable[Offer], *, now: datetime) -> dict[str, Any]:
    """The task of a launch: the machine in each region that may be tried, in their order, with SkyPilot's timer."""
    chosen = launch.candidate.offer
    machine = {
        **_machine(chosen),
        "use_spot": chosen.market == "spot",
        "labels": _labels(launch),
        "autostop": timer(launch.expires_at, now=now),
    }
    places = [{"infra": _infra(offer)} for offer in same_price_offers(chosen, offers)]
    return {
        "name": cluster_name(launch.key),
        "num_nodes": launch.candidate.nodes,
        "resources": {**machine, **places[0]} if len(places) == 1 else {**machine, "ordered": places},
        "envs": {NOTE: msgspec.json.encode(note_of(lasting(launch, now=now))).decode()},
    }


def launch_body(launch: Launch, offers: Iterable[Offer], *, now: datetime) -> dict[str, Any]:
    """The body of SkyPilot's request. JSON is YAML."""
    return {"task": json.dumps(task_of(launch, offers, now=now)), "cluster_name": cluster_name(launch.key)}


def _machine(offer: Offer) -> dict[str, Any]:
    """The machine in SkyPilot's words. GCP sells GPUs apart: the catalog writes `n1-standard-8+1xT4` for a host and
    its GPUs."""
    host, _, attached = offer.vm_type.name.partition("+")
    if offer.vm_type.provider != "gcp" or offer.vm_type.gpu is None:
        return {"instance_type": offer.vm_type.name}
    count, _, name = attached.partition("x")
    gpus = {name: int(count)} if attached else {offer.vm_type.gpu.name: offer.vm_type.gpus}
    return {"instance_type": host, "accelerators": gpus}


def _infra(offer: Offer) -> str:
    cloud = CLOUDS[offer.vm_type.provider]
    return cloud if offer.region == ANYWHERE else f"{cloud}/{offer.region}"


def _labels(launch: Launch) -> dict[str, str]:
    """Tags of the machines in the provider's own console, in the characters that every provider allows."""
    values = {"owner": launch.owner, "run": launch.run_id, "expires": f"{launch.expires_at:%Y-%m-%d_%H-%M}"}
    allowed = "abcdefghijklmnopqrstuvwxyz0123456789-_"
    return {
        f"trainfare-{name}": "".join(each if each in allowed else "_" for each in value.lower())[:63]
        for name, value in values.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SkyPilotCluster:
    """A cluster as SkyPilot lists it: its plain fields."""

    name: str
    status: str
    launched_at: datetime | None = None
    ever_up: bool = False
    is_unhealthy: bool = False
    """It was up, and SkyPilot found nodes missing."""
    reason: str | None = None
    timer_minutes: int | None = None
    """SkyPilot removes its machines so long after its timer was set; None if it has no timer that removes them."""
    note: LaunchNote | None = None
    """The note of its launch; None if it was not launched by us."""

    @property
    def has_timer(self) -> bool:
        return self.timer_minutes is not None


def parse_clusters(answer: Any) -> tuple[SkyPilotCluster, ...]:
    """The clusters of ours in an answer of `/status`. The handle of each is a pickle, and left alone."""
    records = [record for record in answer or () if str(record.get("name", "")).startswith(PREFIX)]
    return tuple(
        SkyPilotCluster(
            name=record["name"],
            status=str(record.get("status", "")),
            launched_at=_moment(record.get("launched_at")),
            ever_up=bool(record.get("cluster_ever_up")),
            is_unhealthy=record.get("init_kind") == "unhealthy",
            reason=record.get("init_status_reason") or None,
            timer_minutes=_timer_minutes(record),
            note=_note(record.get("last_creation_yaml")),
        )
        for record in records
    )


def _timer_minutes(record: Mapping[str, Any]) -> int | None:
    minutes = int(record.get("autostop", -1))
    return minutes if minutes >= 0 and record.get("to_down") else None


def _moment(seconds: Any) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) and seconds > 0 else None


def _note(text: Any) -> LaunchNote | None:
    try:
        task = yaml.safe_load(text) if isinstance(text, str) else None
        return msgspec.json.decode(task["envs"][NOTE], type=LaunchNote) if task else None
    except (yaml.YAMLError, msgspec.MsgspecError, LookupError, TypeError):
        return None


def machine_state(
    cluster: SkyPilotCluster | None, launched: ApiRequest | None, *, spot: bool, failure: str | None
) -> tuple[MachineState | None, str | None]:
    """The state of the machines of a launch, and why; None if nothing of it exists. An exit of the launch says nothing
    alone: what counts first is the cluster. `failure` is the reason of a launch that failed."""
    gone: MachineState = "preempted" if spot else "failed"
    is_launching = launched is not None and launched.is_active
    if cluster is None:
        if is_launching:
            return "booting", "SkyPilot looks for machines."
        if launched is not None and launched.status == "SUCCEEDED":
            return gone, "It no longer exists: the provider has taken it back, or it was ended elsewhere."
        return (None, None) if launched is None else ("failed", failure or "SkyPilot could not launch it.")
    match cluster.status:
        case "UP" if is_launching and not cluster.has_timer:
            return "booting", "SkyPilot sets its timer."
        case "UP":
            return "ready", None
        case "INIT" | "PENDING" if is_launching:
            return "booting", cluster.reason
        case "INIT" if cluster.is_unhealthy or cluster.ever_up:
            return gone, cluster.reason or "Some of its machines no longer exist."
        case "INIT" | "PENDING":
            return "failed", failure or cluster.reason or "Its launch has ended, and it is not up."
        case "STOPPED":
            return gone, "It was switched off."
        case "AUTOSTOPPING":
            return "failed", "Its time is over, and SkyPilot ends it."
        case _:
            return "unreachable", f"SkyPilot says that it is {cluster.status}."


def in_state(
    machines: Iterable[RentedMachine], state: MachineState, reason: str | None, *, launched_at: datetime | None
) -> tuple[RentedMachine, ...]:
    return tuple(replace(each, state=state, reason=reason, launched_at=launched_at) for each in machines)
