"""A server on this machine that publishes a catalog as gpuhunt does, and can misbehave as servers do."""

import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HEADER = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,"
    "provider_data"
)
AWS = f"""{HEADER}
g4dn.xlarge,us-east-1,0.5,4,16.0,1,T4,16.0,False,,nvidia,,x86,{{}}
g4dn.xlarge,us-east-1,0.2,4,16.0,1,T4,16.0,True,,nvidia,,x86,{{}}
g5.xlarge,us-east-1,1.1,4,16.0,1,A10G,24.0,False,,nvidia,,x86,{{}}
p4d.24xlarge,us-east-1,20.0,96,1152.0,8,A100,40.0,False,,nvidia,,x86,{{}}
c7a.large,us-east-1,0.09,2,4.0,0,,,False,,,,x86,{{}}
c7a.large,us-east-1,0.03,2,4.0,0,,,True,,,,x86,{{}}
c7a.large,ap-south-2,0.09,2,4.0,0,,,False,,,,x86,{{}}
z1d.large,us-east-1,0.19,2,16.0,0,,,False,,,,x86,{{}}
"""
LAMBDA = f"""{HEADER}
gpu_1x_a10,us-west-1,1.2,30,200.0,1,A10,24.0,False,,nvidia,,x86,{{}}
"""
GCP = f"""{HEADER}
n1-standard-8,us-central1-a,0.8,8,30.0,1,T4,16.0,False,,nvidia,,x86,"{{""is_dws_calendar_mode"": false}}"
n1-standard-8,us-central1-b,0.7,8,30.0,1,T4,16.0,False,,nvidia,,x86,"{{""is_dws_calendar_mode"": false}}"
n1-highmem-2,us-central1-b,0.5,2,13.0,1,T4,16.0,False,,nvidia,,x86,"{{""is_dws_calendar_mode"": false}}"
a2-highgpu-1g,us-central1-a,3.5,12,85.0,1,A100,40.0,False,,nvidia,,x86,"{{""is_dws_calendar_mode"": false}}"
a2-highgpu-1g,us-central1-a,0.5,12,85.0,1,A100,40.0,False,,nvidia,,x86,"{{""is_dws_calendar_mode"": true}}"
n2-standard-8,us-central1-a,0.4,8,32.0,0,,,False,,,,x86,"{{""is_dws_calendar_mode"": false}}"
"""
RUNPOD = f"""{HEADER}
NVIDIA A100 80GB PCIe,EU-RO-1,1.49,8,117,1,A100,80.0,False,,nvidia,,x86,{{}}
NVIDIA A100 80GB PCIe,US-KS-2,1.45,8,117,1,A100,80.0,False,,nvidia,,x86,{{}}
NVIDIA A100 80GB PCIe,CA,0.99,8,117,1,A100,80.0,False,,nvidia,,x86,{{}}
NVIDIA A100-SXM4-80GB,US-KS-2,3.2,32,234,2,A100,80.0,False,,nvidia,,x86,{{}}
NVIDIA A100-SXM4-80GB,US-KS-2,9.2,32,234,8,A100,80.0,False,,nvidia,runpod-cluster,x86,"{{""pod_counts"": [2, 3]}}"
AMD Instinct MI300X OAM,EU-RO-1,2.5,24,283,1,MI300X,192.0,False,,amd,,x86,{{}}
NVIDIA RTX A5000,EU-RO-1,0.9,9,75,3,A5000,24.0,False,,nvidia,,x86,{{}}
"""
NEBIUS = f"""{HEADER}
gpu-h100-sxm 8gpu-128vcpu-1600gb,eu-north1,23.0,128,1600.0,8,H100,80.0,False,,nvidia,,x86,{{}}
"""
TABLES = {"aws": AWS, "lambdalabs": LAMBDA, "gcp": GCP, "runpod": RUNPOD, "nebius": NEBIUS}
VERSION = "20261115-7"


@dataclass
class PublishedCatalog:
    """The files of the server, and how it answers."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    stalled: set[str] = field(default_factory=set)
    """Paths of which only half is sent before the server falls silent."""
    requested: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def publish(self, provider: str, table: str, version: str = VERSION) -> None:
        self.files[f"/v3/{provider}/version"] = f"{version}\n".encode()
        self.files[f"/v3/{provider}/{version}/catalog.zip"] = archive({f"{provider}.csv": table})


def archive(members: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in members.items():
            packed.writestr(name, text)
    return content.getvalue()


@contextmanager
def publishing() -> Iterator[PublishedCatalog]:
    """The server with a table of five providers; others are missing."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # A proxy is asked for the whole address.
            path = self.path.partition("://")[2].partition("/")[2] if "://" in self.path else self.path[1:]
            catalog.requested.append(self.path)
            content = catalog.files.get(f"/{path}")
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            for name, value in ({"Content-Length": str(len(content))} | catalog.headers.get(f"/{path}", {})).items():
                self.send_header(name, value)
            self.end_headers()
            if f"/{path}" in catalog.stalled:
                self.wfile.write(content[: len(content) // 2])
                self.wfile.flush()
                catalog.released.wait(30)
                return
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    catalog = PublishedCatalog(url=f"http://127.0.0.1:{server.server_port}/v3")
    for provider, table in TABLES.items():
        catalog.publish(provider, table)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield catalog
    finally:
        catalog.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
