"""Launches as tasks of SkyPilot, and its answers as states of machines."""

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.makers import make_candidate, make_gpu, make_offer, make_vm_type
from tests.rigs.skypilot import ANSWERS
from trainfare.clouds.door import Launch
from trainfare.clouds.skypilot_api import ApiRequest, SkyPilotError, parse_requests, plain_reason
from trainfare.clouds.skypilot_launch import (
    MARGIN,
    SkyPilotCluster,
    lasting,
    machine_state,
    node_name,
    paid_until,
    parse_clusters,
    rest_timer,
    task_of,
)
from trainfare.clouds.skypilot_setup import SkyPilotInstallation, parse_enabled
from trainfare.errors import ExternalError
from trainfare.model.offer import Offer

NOW = datetime(2026, 11, 18, 8, 0, tzinfo=UTC)


def launch(offer: Offer, *, nodes: int = 1) -> Launch:
    return Launch(
        owner="Ada@home/5f2b",
        run_id="r7k2m",
        attempt=2,
        candidate=make_candidate(offer=offer, nodes=nodes),
        expires_at=NOW + timedelta(minutes=90, seconds=1),
    )


def offer(provider: str = "aws", name: str = "g5.xlarge", region: str = "us-east-1", **fields: Any) -> Offer:
    kind = {key: fields.pop(key) for key in ("gpu", "gpus") if key in fields}
    return make_offer(vm_type=make_vm_type(provider=provider, name=name, **kind), region=region, **fields)


class TestTask:
    def test_a_task_names_the_machine_its_place_its_timer_and_whose_it_is(self) -> None:
        chosen = offer(market="spot")
        task = task_of(launch(chosen, nodes=2), [chosen], now=NOW)
        assert (task["name"], task["num_nodes"], "run" in task) == ("trainfare-r7k2m-2", 2, False)
        assert task["resources"] == {
            "instance_type": "g5.xlarge",
            "infra": "aws/us-east-1",
            "use_spot": True,
            "labels": {
                "trainfare-owner": "ada_home_5f2b",
                "trainfare-run": "r7k2m",
                "trainfare-expires": "2026-11-18_09-30",
            },
            "autostop": {"idle_minutes": 91, "down": True, "wait_for": "none"},
        }

    @pytest.mark.parametrize("minutes", [0, 4, 20, 90])
    def test_the_time_that_is_paid_for_follows_from_the_lease_of_the_agent(self, minutes: float) -> None:
        wanted = replace(launch(offer()), expires_at=NOW + timedelta(minutes=minutes))
        lease = lasting(wanted, now=NOW).expires_at
        assert paid_until(lease, asked_at=NOW) == wanted.expires_at

    def test_the_timer_of_machines_that_are_up_ends_within_what_is_paid_for(self) -> None:
        until = NOW + timedelta(minutes=90, seconds=59)
        assert rest_timer(until, now=NOW)["idle_minutes"] == 90
        assert rest_timer(until, now=until + timedelta(hours=1))["idle_minutes"] == 1

    def test_the_note_of_a_task_comes_back_with_the_cluster(self) -> None:
        chosen = offer(market="spot")
        text = yaml.safe_dump(task_of(launch(chosen, nodes=2), [chosen], now=NOW))
        (cluster,) = parse_clusters([{**ANSWERS["cluster UP"], "last_creation_yaml": text}])
        assert cluster.note is not None
        assert cluster.note.spot
        assert cluster.note.expires_at == launch(chosen).expires_at - MARGIN, "the program ends before its machines"
        machines = cluster.note.machines()
        assert [(m.id, m.owner, m.vm_type) for m in machines] == [
            ("r7k2m-2/0", "Ada@home/5f2b", "aws/g5.xlarge"),
            ("r7k2m-2/1", "Ada@home/5f2b", "aws/g5.xlarge"),
        ]

    def test_gpus_that_are_sold_apart_are_named(self) -> None:
        gpu = make_gpu(name="T4")
        attached = offer("gcp", "n1-standard-8+1xT4", "us-central1", gpu=gpu, gpus=1)
        task = task_of(launch(attached), [attached], now=NOW)
        assert task["resources"]["instance_type"] == "n1-standard-8"
        assert task["resources"]["accelerators"] == {"T4": 1}

    def test_a_provider_that_chooses_the_region_is_asked_for_none(self) -> None:
        anywhere = offer("runpod", "1x_A100", "any")
        assert task_of(launch(anywhere), [anywhere], now=NOW)["resources"]["infra"] == "runpod"

    def test_nodes_have_the_names_of_skypilots_ssh_configuration(self) -> None:
        assert [node_name("trainfare-r1-1", node) for node in (0, 1)] == ["trainfare-r1-1", "trainfare-r1-1-worker1"]


class TestAnswers:
    def test_recorded_clusters_are_read(self) -> None:
        init, up = parse_clusters([ANSWERS["cluster INIT"], ANSWERS["cluster UP"], {"name": "someone-elses"}])
        assert (init.status, init.ever_up, init.reason) == ("INIT", False, "Instances launched on aws in us-east-1")
        assert (up.status, up.ever_up, up.timer_minutes) == ("UP", True, 65)
        assert up.launched_at is not None
        assert up.note is not None
        assert (up.note.owner, up.note.run_id) == ("ada@home", "r1")

    def test_a_cluster_with_a_damaged_task_has_no_note(self) -> None:
        for text in (None, "", "{", "a: b", "envs: {TRAINFARE_NOTE: '{}'}", "envs: 3"):
            (cluster,) = parse_clusters([{**ANSWERS["cluster UP"], "last_creation_yaml": text}])
            assert cluster.note is None

    def test_requests_are_listed_with_the_newest_first(self) -> None:
        (recorded,) = ANSWERS["/api/status"]
        older = {**recorded, "request_id": "old", "created_at": 1.0}
        assert [each.id for each in parse_requests([older, recorded])] == [recorded["request_id"], "old"]

    def test_a_reason_is_one_plain_sentence(self) -> None:
        assert plain_reason("\x1b[31m\n────\nNo cloud is enabled.\x1b[0m\nRun sky check.") == "No cloud is enabled."
        recorded = json.loads(ANSWERS["launch without capacity"]["error"])["message"]
        assert plain_reason(recorded) == "There is no capacity, or no quota, in any zone of us-east-1, us-west-2."

    def test_clouds_that_can_only_store_are_not_rented_from(self) -> None:
        assert parse_enabled(ANSWERS["/check"], {"aws": "aws"}) == ("aws",)
        answer = {"default": {"AWS": ["compute", "storage"], "GCP": ["storage"], "Lambda": ["compute"]}}
        assert parse_enabled(answer, {"aws": "aws", "gcp": "gcp"}) == ("aws",)
        assert parse_enabled({}, {"aws": "aws"}) == parse_enabled(None, {"aws": "aws"}) == ()


def a_request(status: str) -> ApiRequest:
    return ApiRequest(id="q", name="sky.launch", status=status)


def a_cluster(status: str, **fields: Any) -> SkyPilotCluster:
    return SkyPilotCluster(name="trainfare-r1-1", status=status, **fields)


@pytest.mark.parametrize(
    ("cluster", "request_status", "state"),
    [
        (None, "PENDING", "booting"),
        (None, "RUNNING", "booting"),
        (None, "FAILED", "failed"),
        (None, "CANCELLED", "failed"),
        (None, "SUCCEEDED", "preempted"),
        (None, None, None),
        (a_cluster("INIT"), "RUNNING", "booting"),
        (a_cluster("INIT"), "FAILED", "failed"),
        (a_cluster("INIT", ever_up=True), "SUCCEEDED", "preempted"),
        (a_cluster("INIT", is_unhealthy=True), None, "preempted"),
        (a_cluster("UP"), "RUNNING", "booting"),
        (a_cluster("UP", timer_minutes=65), "RUNNING", "ready"),
        (a_cluster("UP"), "FAILED", "ready"),
        (a_cluster("UP"), "SUCCEEDED", "ready"),
        (a_cluster("STOPPED"), "SUCCEEDED", "preempted"),
        (a_cluster("AUTOSTOPPING", ever_up=True), "SUCCEEDED", "failed"),
        (a_cluster("SOMETHING NEW"), "SUCCEEDED", "unreachable"),
    ],
)
def test_the_cluster_counts_first_and_then_its_launch(
    cluster: SkyPilotCluster | None, request_status: str | None, state: str | None
) -> None:
    launched = a_request(request_status) if request_status else None
    assert machine_state(cluster, launched, spot=True, failure=None)[0] == state


def test_a_machine_on_demand_that_is_gone_has_failed() -> None:
    assert machine_state(None, a_request("SUCCEEDED"), spot=False, failure=None)[0] == "failed"


class TestSetup:
    @pytest.fixture
    def uv(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A program in the place of uv, which notes its calls."""
        program = tmp_path / "bin/uv"
        program.parent.mkdir()
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        return program

    def write(self, program: Path, source: str) -> None:
        program.write_text(f"#!{sys.executable}\n{source}")
        program.chmod(0o755)

    def test_it_is_installed_once_and_again_for_more_clouds(self, uv: Path, tmp_path: Path) -> None:
        env = tmp_path / "sky/env"
        source = f"import sys, pathlib\nopen({str(tmp_path / 'calls')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        source += (
            f"p = pathlib.Path({str(env)!r}) / 'bin/sky'\np.parent.mkdir(parents=True, exist_ok=True)\np.touch()\n"
        )
        self.write(uv, source)
        skypilot = SkyPilotInstallation(tmp_path / "sky")
        assert skypilot.installed() is None
        skypilot.install(("aws",), lambda _: None)
        skypilot.install(("aws",), lambda _: None)
        done = skypilot.install(("gcp",), lambda _: None)
        assert skypilot.installed() == done
        calls = (tmp_path / "calls").read_text().splitlines()
        assert [call.split()[-1] for call in calls if call.startswith("pip install")] == [
            "skypilot[aws]==0.14.1",
            "skypilot[aws,gcp]==0.14.1",
        ]
        assert " pip setuptools wheel skypilot" in calls[-1], "SkyPilot builds a wheel with pip"

    def test_a_failed_installation_says_why_and_is_not_there(self, uv: Path, tmp_path: Path) -> None:
        self.write(uv, "print('No space left on device'); raise SystemExit(2)")
        skypilot = SkyPilotInstallation(tmp_path / "sky")
        lines: list[str] = []
        with pytest.raises(ExternalError, match="No space left on device"):
            skypilot.install(("aws",), lines.append)
        assert lines == ["No space left on device"]
        assert skypilot.installed() is None

    def test_clouds_that_were_enabled_are_remembered(self, tmp_path: Path) -> None:
        skypilot = SkyPilotInstallation(tmp_path)
        assert skypilot.enabled() == ()
        (tmp_path / "clouds.json").write_text(json.dumps(["aws", "unknown"]))
        assert skypilot.enabled() == ("aws",)


def test_an_error_keeps_the_name_that_skypilot_gave_it() -> None:
    assert SkyPilotError("It failed.", kind="ClusterDoesNotExist").kind == "ClusterDoesNotExist"
