"""Hosts with a real sshd, as namespaces of this machine.

    hub    10.77.0.254 ── bridge ─┬─ eth0 of h1    10.77.0.1      sshd on port 22
    (the ssh client runs here)    └─ eth0 of h2    10.77.0.2      sshd on port 22

Each host has network, mount, process and name of its own: it uses the programs of this machine read-only, and has its
own home folder, /tmp, /run and /dev/shm. There is no route to any other network. What a user has is a folder of its
own too: `bin/ssh` runs the client in the hub with a configuration that knows the hosts by name.

Nothing has a name that outlives it. Every namespace exists only through its processes, and these read from a pipe that
the test holds: if the test is killed, they end, and the kernel removes processes, mounts, links and namespaces.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
NETWORK = "10.77.0"
LONGEST_SECONDS = 3600
"""Hosts end after this time, whatever happens to the test."""
BURST_SECONDS, MIN_BURST_BYTES = 0.004, 24_000
"""Size of the token bucket: the burst of an idle link. The clock of the kernel may tick only every 4 ms."""
QUEUE = "100ms"
"""The longest wait of a packet in the queue of the bucket before it is dropped."""

HARDWARE = """
set -e
given=$1 home_mib=$2; shift 2
mount -t tmpfs -o mode=755 tmpfs /srv
mkdir /srv/etc /srv/bin /srv/home /srv/kept
cp -r "$given/." /srv/etc/
chmod -R go= /srv/etc
chmod 755 /srv/etc /srv/etc/bin 2>/dev/null || true
chmod 644 /srv/etc/passwd /srv/etc/hosts
mount -t tmpfs -o mode=700,size=${home_mib}m tmpfs /srv/home
mount --bind /srv/etc/passwd /etc/passwd
mount --bind /srv/etc/shadow /etc/shadow
mount --bind /srv/etc/hosts /etc/hosts
number=0
for path in "$@"; do  # folders of the project, which may be below /tmp
    number=$((number + 1))
    mkdir /srv/kept/$number
    mount --bind "$path" /srv/kept/$number
done
for path in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o mode=1777 tmpfs $path; done
mount -o remount,bind,ro /
number=0
for path in "$@"; do
    number=$((number + 1))
    case $path in /tmp/*|/var/tmp/*|/run/*) mkdir -p "$path";; esac
    mount --move /srv/kept/$number "$path"
    mount -o remount,bind,ro "$path"
done
mkdir /run/sshd
hostname "$HOST_NAME"
ip link set lo up
echo ready
exec timeout $LONGEST cat > /dev/null
"""
"""The mounts of a host; they last while this process does, through reboots of the host."""

BOOT = """
/usr/sbin/sshd -D -f /srv/etc/sshd_config -E /srv/etc/sshd.log < /dev/null > /dev/null 2>&1 &
echo ready
timeout $LONGEST cat > /dev/null
"""
"""The first process of a host: a shell, which waits for orphans as every first process must."""

SSHD = """
Port 22
ListenAddress 0.0.0.0
AddressFamily inet
HostKey /srv/etc/host_key
AuthorizedKeysFile /srv/etc/authorized_keys
PidFile none
UsePAM no
UseDNS no
PermitRootLogin yes
PasswordAuthentication no
PrintMotd no
MaxStartups 100
SetEnv PATH={path} LANG=C.UTF-8
Subsystem sftp internal-sftp
"""

USER_CONFIG = """
{hosts}
Host *
    User root
    IdentityFile {folder}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
"""


HUB = f"""
set -e
ip link set lo up
ip link add br0 type bridge
ip address add {NETWORK}.254/24 dev br0
ip link set br0 up
echo ready
exec timeout $LONGEST cat > /dev/null
"""

CLIENT = """#!/bin/sh
exec nsenter --net=/proc/{hub}/ns/net /usr/bin/ssh -F {folder}/ssh_config "$@"
"""


def missing_requirement() -> str | None:
    """The reason why no hosts can be created here; None if they can."""
    if sys.platform != "linux":
        return "hosts in namespaces need Linux"
    if os.geteuid() != 0:
        return "hosts in namespaces need root: run it as root, or in a privileged container"
    for program, package in {
        "ip": "iproute2",
        "tc": "iproute2",
        "unshare": "util-linux",
        "nsenter": "util-linux",
        "ssh": "openssh-client",
        "/usr/sbin/sshd": "openssh-server",
        "rsync": "rsync",
        "ps": "procps",
    }.items():
        if shutil.which(program) is None:
            return f"{program} is not installed: on Debian, apt-get install {package}"
    probe = ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/srv"]
    made = subprocess.run(probe, capture_output=True, text=True, check=False)
    return f"namespaces cannot be created: {made.stderr.strip()}" if made.returncode else None


@dataclass(slots=True)
class SshHost:
    """One host. Its name is one that the user's ssh configuration knows."""

    name: str
    address: str
    port: str
    """The port of the bridge, which is the other end of its cable."""
    hub: int
    hardware: subprocess.Popen[bytes]
    system: subprocess.Popen[bytes] | None = None

    def run(self, *command: str, given: bytes = b"") -> bytes:
        """Run a command on the host, without its network, and return the output."""
        done = subprocess.run([*self.entry(), *command], input=given, capture_output=True, check=False)
        if done.returncode:
            raise OSError(f"{self.name}: {' '.join(command)}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def entry(self) -> tuple[str, ...]:
        """The words before a command that run it on the host."""
        if self.system is None:
            return ("nsenter", f"--target={self.hardware.pid}", "--net", "--mount", "--uts", "--")
        return ("nsenter", f"--target={self._first_process()}", "--net", "--mount", "--uts", "--pid", "--")

    def add_program(self, name: str, source: str) -> None:
        """Install a script as a program of the host."""
        self.run("sh", "-c", 'cat > "$1" && chmod 755 "$1"', "sh", f"/srv/bin/{name}", given=source.encode())

    def limit(self, mbps: float | None) -> None:
        """Limit the bandwidth in each direction, in Mbit/s; None removes the limit."""
        for pid, device in ((self.hardware.pid, "eth0"), (self.hub, self.port)):
            _in(pid, "tc", "qdisc", "del", "dev", device, "root", check=False)
            if mbps is not None:
                burst = max(MIN_BURST_BYTES, round(mbps * 125_000 * BURST_SECONDS))
                _in(
                    pid,
                    *("tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{mbps * 1e6:.0f}bit"),
                    *("burst", str(burst), "latency", QUEUE),
                )

    def cut(self) -> None:
        """Unplug the cable: packets are lost, and open connections are not told."""
        _in(self.hub, "ip", "link", "set", self.port, "down")

    def restore(self) -> None:
        """Plug the cable in again."""
        _in(self.hub, "ip", "link", "set", self.port, "up")

    def power_off(self) -> None:
        """End every process of the host at once. Its disk and its cable remain."""
        system, self.system = self.system, None  # in one step: the thread of a test may do it while the rig is closed
        if system is not None:
            _end(system)

    def power_on(self) -> None:
        """Boot the host, with an empty /tmp, and return when its sshd answers."""
        self.run(
            "sh", "-c", "find /tmp -xdev -mindepth 1 -delete 2> /dev/null; true"
        )  # not the project, if it is there
        self.system = _start(
            [
                *("nsenter", f"--target={self.hardware.pid}", "--net", "--mount", "--uts", "--"),
                *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", BOOT),
            ]
        )
        wait_until(self._listens, 120.0)

    def reboot(self) -> None:
        self.power_off()
        self.power_on()

    def processes(self) -> list[str]:
        """The command lines of everything that runs on the host, except its first process and sshd."""
        lines = self.run("ps", "-eo", "pid=,ppid=,args=").decode().splitlines()
        rows = [line.split(None, 2) for line in lines]
        ours = ("sshd", "/usr/sbin/sshd", "timeout ", "cat", "ps -eo")
        return [row[2] for row in rows if len(row) == 3 and row[0] != "1" and not row[2].startswith(ours)]

    def _first_process(self) -> int:
        assert self.system is not None
        children = Path(f"/proc/{self.system.pid}/task/{self.system.pid}/children").read_text().split()
        return int(children[0])

    def _listens(self) -> bool:
        return b":22 " in self.run("ss", "-Hltn")


@dataclass(slots=True)
class HostRig:
    """Hosts, and a user who may log in on them."""

    folder: Path
    hub: subprocess.Popen[bytes]
    hosts: dict[str, SshHost] = field(default_factory=dict)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to be this user: the ssh client, and a folder for its sockets."""
        return {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "XDG_RUNTIME_DIR": str(self.folder / "s"),
            "SSH_AUTH_SOCK": "",
        }

    def add(
        self,
        name: str,
        *,
        mbps: float | None = None,
        home_mib: int = 2048,
        hidden: Sequence[str] = (),
        login_shell: str = "/bin/bash",
    ) -> SshHost:
        """Add a host and boot it. Programs whose names begin with one in `hidden` do not exist there."""
        number = len(self.hosts) + 1
        given = self.folder / name
        self._write_host_files(given, hidden, login_shell)
        (given / "hosts").write_text(f"127.0.0.1 localhost\n{NETWORK}.{number} {name}\n")
        kept = _outermost([ROOT, Path(sys.prefix), Path(sys.base_prefix)])
        hardware = _start(
            ["unshare", "--net", "--mount", "--uts", "bash", "-c", HARDWARE, "bash", str(given), str(home_mib), *kept],
            {"HOST_NAME": name},
        )
        host = SshHost(name, f"{NETWORK}.{number}", f"p{number}", self.hub.pid, hardware)
        self.hosts[name] = host
        link = ["ip", "link", "add", host.port, "type", "veth", "peer", "name", "eth0", "netns", str(hardware.pid)]
        _in(host.hub, *link)
        _in(host.hub, "ip", "link", "set", host.port, "master", "br0", "up")
        _in(hardware.pid, "ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        _in(hardware.pid, "ip", "link", "set", "eth0", "up")
        host.power_on()
        host.limit(mbps)
        self.trust(host)
        return host

    def trust(self, host: SshHost) -> None:
        """Let the user know the host by its name and its key."""
        key = (self.folder / host.name / "host_key.pub").read_text()
        with (self.folder / "known_hosts").open("a") as known:
            known.write(f"{host.address} {key}")
        self.write_configuration()

    def forget_keys(self) -> None:
        """The user has never logged in on any host."""
        (self.folder / "known_hosts").write_text("")

    def use_another_key(self) -> None:
        """The user has a key that no host accepts."""
        (self.folder / "user_key").unlink()
        _make_key(self.folder / "user_key")

    def close(self) -> None:
        with ExitStack() as closing:  # each step is done, whatever fails in another
            closing.callback(_end, self.hub)
            for pid in _processes_in(self.hub.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for host in self.hosts.values():
                closing.callback(_end, host.hardware)
                closing.callback(host.power_off)

    def _write_host_files(self, given: Path, hidden: Sequence[str], login_shell: str) -> None:
        given.mkdir()
        _make_key(given / "host_key")
        shutil.copy(self.folder / "user_key.pub", given / "authorized_keys")
        accounts = Path("/etc/passwd").read_text().splitlines()
        others = [line for line in accounts if not line.startswith("root:")]
        (given / "passwd").write_text("\n".join([f"root:x:0:0:root:/srv/home:{login_shell}", *others]) + "\n")
        (given / "shadow").write_text("root:*:19000:0:99999:7:::\n")
        folders = [Path(sys.prefix) / "bin", *map(Path, ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"))]
        if hidden:
            _link_programs(given / "bin", folders, hidden)
            folders = [Path("/srv/etc/bin")]
        path = ":".join(map(str, (Path("/srv/bin"), *folders)))
        (given / "sshd_config").write_text(SSHD.format(path=path))

    def write_configuration(self) -> None:
        entries = "\n".join(f"Host {host.name}\n    HostName {host.address}" for host in self.hosts.values())
        (self.folder / "ssh_config").write_text(USER_CONFIG.format(hosts=entries, folder=self.folder))


@contextmanager
def host_rig() -> Iterator[HostRig]:
    """A rig without hosts; everything ends with the block."""
    with short_folder() as folder:
        _make_key(folder / "user_key")
        for name in ("bin", "s"):
            (folder / name).mkdir(mode=0o700)
        (folder / "known_hosts").touch()
        hub = _start(["unshare", "--net", "bash", "-c", HUB])
        rig = HostRig(folder, hub)
        try:
            client = folder / "bin" / "ssh"
            client.write_text(CLIENT.format(hub=hub.pid, folder=folder))
            client.chmod(0o755)
            rig.write_configuration()
            yield rig
        finally:
            rig.close()


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder for keys and sockets, whose path must be short. Whoever makes one removes those of killed processes:
    folders whose lock nobody holds."""
    for left in Path("/tmp").glob("tfrig-*"):
        with suppress(OSError), (left / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left)
    folder = Path(tempfile.mkdtemp(prefix="tfrig-", dir="/tmp"))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.005)


def _start(command: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a process that ends when the pipe to it is closed, and wait until it is ready."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {}), "LONGEST": str(LONGEST_SECONDS)},
        start_new_session=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != b"ready\n":
        _, error = process.communicate()
        raise OSError(f"{' '.join(command[:6])}: {error.decode(errors='replace').strip()}")
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _processes_in(pid: int) -> list[int]:
    """The processes whose network is that of a process: here the ssh connections that clients left open."""
    network = Path(f"/proc/{pid}/ns/net").readlink()
    found = []
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if path.readlink() == network and int(path.parts[2]) != pid:
                found.append(int(path.parts[2]))
        except OSError:  # it has ended
            continue
    return found


def _link_programs(folder: Path, folders: Sequence[Path], hidden: Sequence[str]) -> None:
    folder.mkdir()
    for program in (path for each in folders for path in sorted(each.iterdir())):
        link = folder / program.name
        if not program.name.startswith(tuple(hidden)) and not link.is_symlink():
            link.symlink_to(program)


def _outermost(paths: Sequence[Path]) -> list[str]:
    """The folders among them that are in no other one and not in /usr."""
    real = sorted({path.resolve() for path in paths})
    return [
        str(path)
        for path in real
        if not path.is_relative_to("/usr") and not any(path != other and path.is_relative_to(other) for other in real)
    ]


def _make_key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rig", "-f", path], check=True)


def _in(pid: int, *command: str, check: bool = True) -> None:
    """Run a command in the network of a process."""
    done = subprocess.run(
        ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *command], capture_output=True, text=True, check=False
    )
    if check and done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
