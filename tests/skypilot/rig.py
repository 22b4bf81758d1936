"""The real SkyPilot against an EC2 service whose instances are hosts in namespaces of this machine.

    hub: moto, SkyPilot's API server, its client, the tests ── bridge ─┬─ instance i-1    172.31.x.y, 54.x.y.z
    (no route to any other network)                                   └─ instance i-2

`python rig.py FOLDER COMMAND…` must run as root, in network, mount and process namespaces of its own, which
`scripts/test-skypilot` makes: whatever happens, the kernel removes everything with them. It starts moto, turns every
instance that is launched there into a host with a real sshd, and runs the command.

An instance has the files of this machine below a layer of its own, so that SkyPilot may install and edit what it likes.
It is switched off when moto terminates or stops it; one that switches itself off is stopped, as on EC2.
"""

import base64
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import boto3  # of the environment that has moto
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

HERE = Path(__file__).parent
PORT = 5599
URL = f"http://127.0.0.1:{PORT}"
REGIONS = ("us-east-1", "us-west-2")
HUB = "172.31.255.254"
NO_CAPACITY = "no-capacity"
"""A file in the folder of the rig: regions without capacity, one on each line."""

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}  # of moto alone


class Cloud:
    """EC2 as moto has it, with capacity that can run out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        body = request.get_data(cache=True, parse_form_data=False)
        if b"Action=RunInstances" in body and self._is_full(request):
            error = "<Code>InsufficientInstanceCapacity</Code><Message>There is no capacity in this zone.</Message>"
            text = f"<Response><Errors><Error>{error}</Error></Errors><RequestID>r</RequestID></Response>"
            return Response(text, status=500, mimetype="text/xml")(environ, start_response)
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        return self._moto(environ, start_response)

    def _is_full(self, request: Request) -> bool:
        path = self._folder / NO_CAPACITY
        regions = path.read_text().split() if path.exists() else []
        return any(f"/{region}/" in request.headers.get("Authorization", "") for region in regions)


def client(service: str, region: str) -> Any:
    return boto3.client(
        service,
        region_name=region,
        endpoint_url=URL,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )


def make_account(home: Path) -> None:
    """What an account has before SkyPilot is used, and SkyPilot's lists of machines and images."""
    iam = client("iam", REGIONS[0])
    may = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [may]})
    iam.create_role(RoleName="skypilot-v1", AssumeRolePolicyDocument=policy)
    iam.create_instance_profile(InstanceProfileName="skypilot-v1")
    iam.add_role_to_instance_profile(InstanceProfileName="skypilot-v1", RoleName="skypilot-v1")
    vms = [
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,"
        "Arch,LocalDiskType,NVMeSupported,LocalDiskSize,LocalDiskCount,MaximumEfaInterfaces"
    ]
    images = ["Tag,Region,OS,OSVersion,ImageId,CreationDate,BaseImageId"]
    for region in REGIONS:
        ec2 = client("ec2", region)
        vpc = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        table = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"][0]
        ec2.create_route(RouteTableId=table["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
        zones = [zone["ZoneId"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]]
        vms += [f"m7i.large,,,2.0,8.0,,0.1008,0.0426,{region},{zone},x86_64,,,,," for zone in zones[:2]]
        image = ec2.describe_images()["Images"][0]["ImageId"]
        images.append(f"skypilot:custom-cpu-ubuntu,{region},ubuntu,22.04,{image},20260101,")
    catalog = home / ".sky/catalogs/v8/aws"
    catalog.mkdir(parents=True)
    (catalog / "vms.csv").write_text("\n".join(vms) + "\n")
    (catalog / "images.csv").write_text("\n".join(images) + "\n")
    (catalog / "instance_quota_mapping.csv").write_text("InstanceType,OnDemandInstanceCode,SpotInstanceCode\n")
    (home / ".aws").mkdir(exist_ok=True)
    keys = "\n".join(f"{name.lower()} = {value}" for name, value in CREDENTIALS.items())
    (home / ".aws/credentials").write_text(f"[default]\n{keys}\n")
    (home / ".aws/config").write_text("[default]\nregion = us-east-1\n")


class Hosts:
    """Turns the instances of the cloud into hosts, and back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hosts: dict[str, subprocess.Popen[bytes]] = {}
        self._clients = {region: client("ec2", region) for region in REGIONS}
        self._given = [os.environ[f"RIG_{name}"] for name in ("PYTHON", "WHEELS", "UV", "RUNTIME", "PYTORCH")]

    def poll(self) -> None:
        for ec2 in self._clients.values():
            for reservation in ec2.describe_instances()["Reservations"]:
                for instance in reservation["Instances"]:
                    self._match(ec2, instance)

    def _match(self, ec2: Any, instance: dict[str, Any]) -> None:
        name, state = instance["InstanceId"], instance["State"]["Name"]
        host = self._hosts.get(name)
        if state in ("pending", "running") and host is None:
            self._hosts[name] = self._boot(ec2, instance)
        elif state in ("pending", "running") and host is not None and host.poll() is not None:
            print(f"rig: {name} has switched itself off", flush=True)
            ec2.stop_instances(InstanceIds=[name])
        elif state not in ("pending", "running") and host is not None and host.poll() is None:
            print(f"rig: {name} is {state}", flush=True)
            host.kill()
            host.wait()

    def _boot(self, ec2: Any, instance: dict[str, Any]) -> "subprocess.Popen[bytes]":
        name = instance["InstanceId"]
        layer = self._folder / name
        layer.mkdir()
        data = ec2.describe_instance_attribute(InstanceId=name, Attribute="userData")["UserData"]["Value"]
        text = base64.b64decode(data).decode()
        keys = [line.strip() for line in text.splitlines() if line.strip().startswith("ssh-")]
        Path(f"{layer}.keys").write_text("\n".join(keys) + "\n")
        address = instance["PrivateIpAddress"], instance["PublicIpAddress"]
        words = [str(layer), f"ip-{address[0].replace('.', '-')}", *address, *self._given, f"http://{HUB}:{PORT}"]
        with Path(f"{layer}.log").open("wb") as log:
            host = subprocess.Popen(
                ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child",
                 "bash", str(HERE / "host.sh"), *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        own, link = Path("/proc/self/ns/net").stat().st_ino, f"v{len(self._hosts)}"
        while host.poll() is None and Path(f"/proc/{host.pid}/ns/net").stat().st_ino == own:
            time.sleep(0.01)
        _ip(f"link add {link} type veth peer name eth0 netns {host.pid}")
        _ip(f"link set {link} master sky0 up")
        print(
            f"rig: {name} is {address[0]}, {address[1]}, {instance.get('InstanceLifecycle', 'on demand')}", flush=True
        )
        return host

    def keep_polling(self) -> None:
        while True:
            try:
                self.poll()
            except Exception as error:  # noqa: BLE001 # the rig goes on, and says what happened
                print(f"rig: {error!r}", flush=True)
            time.sleep(1.0)


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


def make_home(folder: Path) -> Path:
    """A home folder whose changes are gone with the namespace: ssh finds its configuration there alone."""
    home = Path.home()
    upper, work = folder / "home", folder / "home.work"
    upper.mkdir()
    work.mkdir()
    options = f"lowerdir={home},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(home)], check=True)
    for name in (".sky", ".aws", ".ssh", ".config", ".local"):
        (home / name).mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", str(home / name)], check=True)
    return home


def main() -> int:
    folder, command = Path(sys.argv[1]), sys.argv[2:]
    if os.getpid() != 1:
        sys.exit("The rig must run in namespaces of its own: scripts/test-skypilot makes them.")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    # Layers of instances are on a file system that is not the one below them.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=12g", "tmpfs", str(folder)], check=True)
    home = make_home(folder)
    _ip("link set lo up")
    _ip("link add sky0 type bridge")
    _ip(f"address add {HUB}/16 dev sky0")
    _ip("link set sky0 up")
    _ip(f"route add 54.0.0.0/8 dev sky0 src {HUB}")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # Instances end themselves through it too.
    server = make_server("0.0.0.0", PORT, Cloud(folder), threaded=True)  # noqa: S104 # all of a namespace
    threading.Thread(target=server.serve_forever, daemon=True).start()
    urllib.request.urlopen(f"{URL}/moto-api/data.json", timeout=60).close()
    make_account(home)
    hosts = Hosts(folder)
    threading.Thread(target=hosts.keep_polling, daemon=True).start()
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": URL,
        "AWS_EC2_METADATA_DISABLED": "true",
        "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": os.environ["RIG_WHEELS"],
        "TRAINFARE_SKYPILOT_RIG": str(folder),
    }
    for name in list(environment):
        if name.startswith("RIG_"):
            del environment[name]
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        logs = os.environ.get("RIG_LOGS")
        if logs:
            shutil.copytree(
                home / ".sky",
                logs,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("wheels", "catalogs"),
                ignore_dangling_symlinks=True,
            )


if __name__ == "__main__":
    sys.exit(main())
