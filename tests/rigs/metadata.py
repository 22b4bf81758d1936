"""The metadata service of a rented machine, as AWS, Google Cloud and Azure document it, on the loopback."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "a-token"  # noqa: S105 # not a secret: what the service of the test hands out
NAME = "trainer-0"


@dataclass
class Metadata:
    """One service of all three providers; `address` is its host and port."""

    address: str
    takes_back_at: float | None = None
    """Seconds since 1970; None until the provider announces something."""
    events_of: str = NAME
    """The machine that the events of Azure are about."""
    asked: list[str] = field(default_factory=list)

    def announce(self, seconds: float) -> None:
        """The provider takes the machine back so long from now."""
        self.takes_back_at = time.time() + seconds


@contextmanager
def metadata_service() -> Iterator[Metadata]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            has_lifetime = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "").isdigit()
            self._reply(TOKEN if self.path == "/latest/api/token" and has_lifetime else None)

        def do_GET(self) -> None:
            service.asked.append(self.path)
            if self.path == "/latest/meta-data/spot/instance-action":
                if self.headers.get("X-aws-ec2-metadata-token") != TOKEN:
                    return self._reply("Unauthorized", status=401)
                moment = service.takes_back_at
                written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) if moment else ""
                return self._reply(json.dumps({"action": "terminate", "time": written}) if moment else None)
            if self.path == "/computeMetadata/v1/instance/preempted":
                right = self.headers.get("Metadata-Flavor") == "Google"
                return self._reply("TRUE" if service.takes_back_at else "FALSE", status=200 if right else 403)
            if self.path.startswith("/metadata/") and self.headers.get("Metadata") == "true":
                return self._reply(NAME if "/compute/name?" in self.path else self._events())
            return self._reply(None)

        def _events(self) -> str:
            moment, events = service.takes_back_at, [{"EventType": "Reboot", "Resources": [NAME], "NotBefore": ""}]
            if moment:
                written = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(moment))
                events.append({"EventType": "Preempt", "Resources": [service.events_of], "NotBefore": written})
            return json.dumps({"DocumentIncarnation": 1, "Events": events})

        def _reply(self, text: str | None, *, status: int = 200) -> None:
            self.send_response(404 if text is None else status)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # the name that the library gives it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = Metadata(address=f"127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
