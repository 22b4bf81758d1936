"""SkyPilot's API server, replayed: its real answers, recorded from release 0.14.1, about clusters that tests make.

`skypilot_answers.json` has one answer of each kind as the server gave it, without the pickles in it and the paths of
the machine on which it was recorded. The nodes of a cluster are folders of a host with a real sshd.
`scripts/test-skypilot` uses the real server.
"""

import json
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.rigs.hosts import SshHost

ANSWERS = json.loads((Path(__file__).parent / "skypilot_answers.json").read_text())

SKY = """#!/bin/sh
# SkyPilot's command, of which only `sky status NAME` is used: it writes how ssh reaches a cluster.
[ "$1" = status ] && mkdir -p ~/.sky/generated/ssh && touch ~/.sky/generated/ssh/"$2"
"""
START = """
if [ "$1 $2" = "api start" ]; then echo x >> {file}.starts; sleep {seconds}; rm -f {file}; fi
"""
"""SkyPilot's command starts its server, which takes some seconds."""
END = """
for node in "$1"/*; do
    [ ! -e "$node/agent.py" ] || (cd "$node" && python3 -I agent.py end)
done
rm -rf "$1"
"""
NAMES = """
Host trainfare-*
    HostName {address}
"""


@dataclass(slots=True)
class Replay:
    """A server that knows clusters and requests; all are ready at once unless it is told otherwise."""

    host: SshHost
    url: str = ""
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    has_capacity: bool = True
    holds: str = "cluster UP"
    """The answer that describes a cluster after its launch."""
    fails_after_up: bool = False
    """A launch fails, and the cluster is up nevertheless."""
    away: Path = field(default_factory=lambda: Path("/nonexistent"))
    """The server is away while this file exists."""

    def launch(self, body: dict[str, Any]) -> dict[str, Any]:
        name, task = body["cluster_name"], yaml.safe_load(body["task"])
        request = self._request("sky.launch", name)
        if not self.has_capacity:
            failed = ANSWERS["launch without capacity"]
            request |= {name: failed[name] for name in ("status", "error")}
            return request
        text = yaml.safe_dump(task)
        self.clusters[name] = {
            **ANSWERS[self.holds],
            "name": name,
            "nodes": task["num_nodes"],
            "launched_at": int(time.time()),
            "last_creation_yaml": text,
        }
        if self.holds != "cluster UP":
            request["status"] = "RUNNING"
        if self.fails_after_up:
            return self._fail(request, "CommandError", "Failed to set up SkyPilot runtime.")
        return request

    def down(self, name: str) -> dict[str, Any]:
        request = self._request("sky.down", name)
        if self.clusters.pop(name, None) is None:
            return self._fail(request, "ClusterDoesNotExist", f"Cluster {name} does not exist.")
        self.end_machines(name)
        return request

    def end_machines(self, name: str) -> None:
        """What the cloud does: nothing of the machines is left."""
        folder = f"/srv/home/.trainfare/{name.removeprefix('trainfare-')}"
        self.host.run("sh", "-c", END, "sh", folder)

    def take_back(self, name: str) -> None:
        """The provider takes the machines of a cluster back, and SkyPilot has noticed."""
        self.end_machines(name)
        del self.clusters[name]

    def status(self, patterns: list[str]) -> dict[str, Any]:
        found = [
            cluster
            for name, cluster in self.clusters.items()
            if any(name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in patterns)
        ]
        request = self._request("sky.status", None)
        request["return_value"] = json.dumps(found)
        return request

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any, str]:
        """The status, the JSON and the number of the request of an answer."""
        if self.away.exists():
            raise ConnectionAbortedError("The server is away.")  # the connection is closed without an answer
        parts = urllib.parse.urlsplit(path)
        query = urllib.parse.parse_qs(parts.query)
        self.asked.append((parts.path, body))
        match parts.path:
            case "/api/health":
                return 200, ANSWERS["/api/health"], ""
            case "/api/get":
                request = self.requests[query["request_id"][0]]
                return (500, {"detail": request}, "") if request["error"] != "null" else (200, request, "")
            case "/api/status":
                wanted = [each for each in self.requests.values() if each["cluster_name"] == query["cluster_name"][0]]
                return 200, [{**each, "error": "null", "return_value": "null"} for each in wanted], ""
            case "/launch":
                request = self.launch(body)
            case "/down":
                request = self.down(body["cluster_name"])
            case "/status":
                request = self.status(body["cluster_names"])
            case "/check":
                request = self._request("sky.check", None)
                request["return_value"] = json.dumps(ANSWERS["/check"])
            case "/api/cancel":
                for number in body["request_ids"]:
                    self.requests[number]["status"] = "CANCELLED"
                request = self._request("sky.api_cancel", None)
            case "/autostop":
                self.clusters[body["cluster_name"]] |= {"autostop": body["idle_minutes"], "to_down": body["down"]}
                request = self._request("sky.autostop", body["cluster_name"])
            case _:
                return 404, {"detail": "Not Found"}, ""
        return 200, None, request["request_id"]

    def _request(self, name: str, cluster: str | None) -> dict[str, Any]:
        number = str(uuid.uuid4())
        made = {**ANSWERS["/api/get"], "request_id": number, "name": name, "cluster_name": cluster}
        self.requests[number] = made | {"created_at": time.time()}
        return self.requests[number]

    def _fail(self, request: dict[str, Any], kind: str, message: str) -> dict[str, Any]:
        error = {"object": "not a pickle: decoding it would fail", "type": kind, "message": message}
        request |= {"status": "FAILED", "error": json.dumps(error)}
        return request


@contextmanager
def replay(host: SshHost, environment: Path, server: Replay | None = None) -> Iterator[Replay]:
    """A server in a thread, and SkyPilot's command in the folder of an environment."""
    made = server or Replay(host)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, method: str) -> None:
            given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                with lock:
                    status, answer, number = made.answer(method, self.path, json.loads(given or b"{}"))
            except ConnectionAbortedError:  # the server is away: the connection ends without an answer
                self.close_connection = True
                return
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("X-Skypilot-Request-ID", number)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{listener.server_address[1]}"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/sky").write_text(SKY)
    (environment / "bin/sky").chmod(0o755)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
