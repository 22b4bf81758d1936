"""Commands and files over a real sshd, with the faults of real networks."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.rigs.fixtures import needs_hosts
from tests.rigs.hosts import ROOT, HostRig, SshHost, wait_until
from trainfare.clouds.door import MachineUnreachableError
from trainfare.clouds.ssh_connection import FolderGoneError, SshConnection
from trainfare.clouds.ssh_errors import CannotConnectError
from trainfare.clouds.ssh_shell import SshShell
from trainfare.errors import ExternalError, UsageError

pytestmark = needs_hosts

NAMES = ["plain.txt", "with space", "line\nbreak", "übung €", "-rf", "#comment", "sub folder/-n '\"$HOME`x`", "a*b?[c]"]


@pytest.fixture(scope="module")
def host(rig: HostRig) -> SshHost:
    return rig.add("h1")


@pytest.fixture
def shell(host: SshHost, user_of_rig: None, tmp_path: Path) -> SshShell:
    folder = f"launches/{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:8]}"
    host.run("mkdir", "-p", f"/srv/home/{folder}")
    return SshShell(SshConnection("h1"), folder)


def make_files(folder: Path, *names: str, size: int = 1000) -> dict[str, str]:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    return {name: digest(folder / name) for name in names}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_output_error_and_exit_code_are_those_of_the_command(shell: SshShell) -> None:
    done = shell.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.exit_code, done.output, done.error) == (3, b"out\n", b"err\n")


def test_exit_code_255_of_a_command_is_not_a_lost_connection(shell: SshShell) -> None:
    assert shell.run(["sh", "-c", "exit 255"]).exit_code == 255


def test_a_command_that_does_not_exist_has_exit_code_127(shell: SshShell) -> None:
    assert shell.run(["no-such-program"]).exit_code == 127


@pytest.mark.parametrize(
    "word", ["", "a b", "$HOME", "`id`", "a'b\"c", "line\nbreak", "-n", "*", "\\", "!x", "ü€", ";ls"]
)
def test_every_word_arrives_as_it_is(shell: SshShell, word: str) -> None:
    assert shell.run(["printf", "%s|", word, "end"]).output.decode() == f"{word}|end|"


def test_input_is_passed_on_byte_by_byte(shell: SshShell) -> None:
    content = bytes(range(256)) * 1000
    assert shell.run(["cat"], given=content).output == content


def test_text_that_the_login_shell_prints_is_not_output(shell: SshShell, host: SshHost) -> None:
    host.run("sh", "-c", "echo 'echo Welcome; echo to h1 >&2' > /srv/home/.bashrc")
    try:
        assert shell.run(["echo", "mine"]).output == b"mine\n"
    finally:
        host.run("rm", "/srv/home/.bashrc")


def test_a_folder_that_was_removed_is_reported(host: SshHost, user_of_rig: None) -> None:
    with pytest.raises(FolderGoneError, match=r"gone-folder does not exist on h1"):
        SshShell(SshConnection("h1"), "gone-folder").run(["true"])


def test_a_background_process_does_not_delay_the_answer(shell: SshShell, host: SshHost) -> None:
    started = time.monotonic()
    shell.run(["sh", "-c", "setsid sleep 47 > /dev/null 2>&1 < /dev/null &"], timeout_seconds=20)
    assert time.monotonic() - started < 20
    assert "sleep 47" in host.processes()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read(shell: SshShell, name: str) -> None:
    content = os.urandom(3000)
    shell.write(name, b"old")
    shell.write(name, content)
    assert shell.read(name) == content
    assert shell.read(name, offset=2990) == content[2990:]
    assert shell.read(name, offset=5, limit=7) == content[5:12]
    assert shell.read(name, offset=3000) == b""


def test_a_file_that_does_not_exist_is_empty(shell: SshShell) -> None:
    assert shell.read("nothing here") == b""


def test_files_are_private_and_leave_nothing_beside_them(shell: SshShell) -> None:
    shell.write("job.json", b"{}")
    assert shell.run(["ls", "-A"]).output == b"job.json\n"
    assert shell.run(["stat", "-c", "%a", "job.json"]).output == b"600\n"


def test_files_are_sent_and_fetched_with_any_name(shell: SshShell, tmp_path: Path) -> None:
    digests = make_files(tmp_path / "home", *NAMES)
    assert shell.send(tmp_path / "home", "work dir/x", files=NAMES) == 1000 * len(NAMES)
    assert shell.fetch("work dir/x", tmp_path / "back", files=digests) == 1000 * len(NAMES)
    assert {name: digest(tmp_path / "back" / name) for name in NAMES} == digests
    assert not list((tmp_path / "back").glob(".trainfare-*"))


def test_only_named_files_are_sent_and_links_as_what_they_lead_to(shell: SshShell, tmp_path: Path) -> None:
    make_files(tmp_path, "wanted", "secret")
    (tmp_path / "link").symlink_to("wanted")
    shell.send(tmp_path, "work", files=["wanted", "link"])
    assert (
        shell.run(["sh", "-c", "ls work; cmp work/wanted work/link && test ! -L work/link"]).output == b"link\nwanted\n"
    )


def test_files_that_are_there_are_not_sent_again(shell: SshShell, tmp_path: Path) -> None:
    make_files(tmp_path, "a", "b")
    assert shell.send(tmp_path, "work", files=["a", "b"]) == 2000
    assert shell.send(tmp_path, "work", files=["a", "b"]) == 0
    (tmp_path / "b").write_bytes(b"changed")
    assert shell.send(tmp_path, "work", files=["a", "b"]) == 7


def test_executable_files_stay_executable(shell: SshShell, tmp_path: Path) -> None:
    make_files(tmp_path, "run.sh")
    (tmp_path / "run.sh").chmod(0o755)
    shell.send(tmp_path, "work", files=["run.sh"])
    assert shell.run(["test", "-x", "work/run.sh"]).exit_code == 0


def test_files_at_home_that_match_are_not_fetched_again(shell: SshShell, tmp_path: Path) -> None:
    digests = make_files(tmp_path / "home", "a", "b")
    shell.send(tmp_path / "home", "work", files=["a", "b"])
    (tmp_path / "home" / "b").write_bytes(b"older")
    assert shell.fetch("work", tmp_path / "home", files=digests) == 1000


def test_a_file_that_is_not_what_was_reported_is_left_out(shell: SshShell, tmp_path: Path) -> None:
    digests = make_files(tmp_path / "home", "good", "bad")
    shell.send(tmp_path / "home", "work", files=["good", "bad"])
    shell.write("work/bad", b"something else")
    with pytest.raises(ExternalError, match="left out: bad"):
        shell.fetch("work", tmp_path / "back", files=digests)
    assert [path.name for path in (tmp_path / "back").iterdir()] == ["good"]


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", ""])
def test_names_that_lead_out_of_the_folder_are_refused(shell: SshShell, tmp_path: Path, name: str) -> None:
    with pytest.raises(ExternalError, match="leads out of its folder"):
        shell.fetch("work", tmp_path / "back", files={name: "0" * 64})


def test_a_link_on_the_machine_is_not_fetched(shell: SshShell, tmp_path: Path) -> None:
    shell.run(["sh", "-c", "mkdir -p work; ln -s /etc/hostname work/link"])
    with pytest.raises(ExternalError, match="left out: link"):
        shell.fetch("work", tmp_path, files={"link": digest(Path("/etc/hostname"))})
    assert not (tmp_path / "link").is_symlink()


def test_a_missing_file_is_named(shell: SshShell, tmp_path: Path) -> None:
    shell.run(["mkdir", "work"])
    with pytest.raises(ExternalError, match=r"vanished\.pt"):
        shell.fetch("work", tmp_path, files={"vanished.pt": "0" * 64})
    with pytest.raises(ExternalError, match=r"nowhere\.py"):
        shell.send(tmp_path, "work", files=["nowhere.py"])


@pytest.mark.parametrize("destination", ["-oProxyCommand=x", "a b", "", "h1:22", "ssh://h1", "u@-x", "a'b"])
def test_a_destination_is_never_an_option(destination: str) -> None:
    with pytest.raises(UsageError, match="not a host for ssh"):
        SshConnection(destination)


def test_limits_of_the_users_configuration_are_kept(fresh_rig: HostRig) -> None:
    config = fresh_rig.folder / "ssh_config"
    config.write_text(f"Host h1\n    ConnectTimeout 77\n    ServerAliveInterval 33\n{config.read_text()}")
    own = " ".join(SshConnection("h1").options())
    assert "ConnectTimeout" not in own
    assert "ServerAlive" not in own
    assert "ConnectTimeout=15" in " ".join(SshConnection("h2").options())


def test_a_jump_host_of_the_users_configuration_is_used(fresh_rig: HostRig) -> None:
    for name in ("gate", "inner"):
        fresh_rig.add(name)
    config = fresh_rig.folder / "ssh_config"
    config.write_text(f"Host inner\n    ProxyCommand ssh gate -W %h:%p\n{config.read_text()}")
    connection = SshConnection("inner")
    seen = connection.run(".", ["sh", "-c", "echo $SSH_CONNECTION"], given=b"", timeout_seconds=30).output
    assert seen.startswith(fresh_rig.hosts["gate"].address.encode())


class TestFaults:
    """Each test has hosts of its own."""

    @pytest.fixture
    def rig(self, fresh_rig: HostRig) -> HostRig:
        return fresh_rig

    def shell(self, name: str = "h1") -> SshShell:
        return SshShell(SshConnection(name), ".")

    def test_an_unknown_host_is_explained(self, rig: HostRig) -> None:
        with pytest.raises(CannotConnectError, match=r"nowhere: there is no host of that name.*~/\.ssh/config"):
            self.shell("nowhere").run(["true"])

    def test_an_unknown_host_key_is_explained(self, rig: HostRig) -> None:
        rig.add("h1")
        rig.forget_keys()
        with pytest.raises(CannotConnectError, match=r"key is not known here. Log in once with `ssh h1`"):
            self.shell().run(["true"])

    def test_a_changed_host_key_is_a_warning(self, rig: HostRig) -> None:
        host = rig.add("h1")
        key = rig.add("h2")
        other = (rig.folder / key.name / "host_key.pub").read_text()
        (rig.folder / "known_hosts").write_text(f"{host.address} {other}")
        with pytest.raises(CannotConnectError, match="not the one that it had before"):
            self.shell().run(["true"])

    def test_a_wrong_key_is_explained(self, rig: HostRig, tmp_path: Path) -> None:
        rig.add("h1")
        rig.use_another_key()
        with pytest.raises(CannotConnectError, match=r"refused the login.*ssh-copy-id h1"):
            self.shell().run(["true"])
        make_files(tmp_path, "a")
        with pytest.raises(CannotConnectError, match="refused the login"):
            self.shell().fetch(".", tmp_path, files={"b": "0" * 64})

    def test_a_host_that_is_off_is_unreachable_and_answers_after_it_is_on(self, rig: HostRig) -> None:
        host = rig.add("h1")
        shell = self.shell()
        shell.write("kept", b"on disk")
        host.power_off()
        with pytest.raises(MachineUnreachableError, match="h1"):
            shell.run(["true"])
        host.power_on()
        assert shell.read("kept") == b"on disk"

    def test_a_reboot_between_two_commands_is_not_noticed(self, rig: HostRig) -> None:
        host = rig.add("h1")
        shell = self.shell()
        assert shell.run(["true"]).exit_code == 0
        host.reboot()
        assert shell.run(["true"]).exit_code == 0

    def test_a_command_that_is_under_way_when_the_host_dies_is_unreachable(self, rig: HostRig) -> None:
        host = rig.add("h1")
        shell = self.shell()
        shell.run(["true"])
        threading.Timer(0.5, host.power_off).start()
        with pytest.raises(MachineUnreachableError, match="connection to h1 was lost") as raised:
            shell.run(["sleep", "60"])
        assert not isinstance(raised.value, CannotConnectError)

    def test_a_command_that_takes_too_long_is_given_up(self, rig: HostRig) -> None:
        rig.add("h1")
        with pytest.raises(MachineUnreachableError, match="h1 did not answer within 2 s"):
            self.shell().run(["sleep", "60"], timeout_seconds=2.0)

    def test_a_cut_cable_is_unreachable_and_heals(self, rig: HostRig) -> None:
        host = rig.add("h1")
        shell = self.shell()
        shell.run(["true"])
        host.cut()
        with pytest.raises(MachineUnreachableError):
            shell.run(["true"], timeout_seconds=1.0)
        host.restore()
        assert shell.run(["true"]).exit_code == 0

    def test_a_fetch_survives_a_short_cut(self, rig: HostRig, tmp_path: Path) -> None:
        host = rig.add("h1", mbps=200)
        digests = self.put_results(host, megabytes=20)
        cut = threading.Timer(0.3, host.cut)
        cut.start()
        threading.Timer(3.3, host.restore).start()
        assert self.shell().fetch("results", tmp_path / "back", files=digests) == 20_000_000

    def test_a_fetch_that_breaks_leaves_no_truncated_file_and_continues(self, rig: HostRig, tmp_path: Path) -> None:
        host = rig.add("h1", mbps=100)
        digests = self.put_results(host, megabytes=20)
        shell, back = self.shell(), tmp_path / "back"
        shell.run(["true"])

        def power_off_midway() -> None:
            wait_until(
                lambda: any(path.stat().st_size > 5_000_000 for path in back.rglob(".*.*") if path.is_file()), 30
            )
            host.power_off()

        failing = threading.Thread(target=power_off_midway)
        failing.start()
        with pytest.raises(MachineUnreachableError):
            shell.fetch("results", back, files=digests)
        failing.join()
        assert not (back / "model.pt").exists()
        (partial,) = list(back.rglob("model.pt"))
        assert 1_000_000 < partial.stat().st_size < 20_000_000
        host.power_on()
        assert shell.fetch("results", back, files=digests) == 20_000_000
        assert digest(back / "model.pt") == digests["model.pt"]
        assert [path.name for path in back.iterdir()] == ["model.pt"]

    def test_a_full_home_is_reported_and_the_old_file_stays(self, rig: HostRig, tmp_path: Path) -> None:
        rig.add("h1", home_mib=2)
        shell = self.shell()
        shell.write("state", b"old")
        with pytest.raises(ExternalError, match="No space left on device"):
            shell.write("state", b"x" * 5_000_000)
        assert shell.read("state") == b"old"
        assert shell.run(["ls"]).output == b"state\n"
        make_files(tmp_path, "large", size=5_000_000)
        with pytest.raises(ExternalError, match=r"disk is full.*h1"):
            shell.send(tmp_path, "work", files=["large"])

    def test_a_host_without_rsync_is_explained(self, rig: HostRig, tmp_path: Path) -> None:
        rig.add("h1", hidden=("rsync",))
        make_files(tmp_path, "a")
        shell = self.shell()
        shell.write("x", b"works")
        with pytest.raises(ExternalError, match="rsync is not installed on h1"):
            shell.send(tmp_path, "work", files=["a"])

    @pytest.mark.parametrize("login_shell", ["/bin/sh", "/usr/bin/zsh", "/usr/bin/fish", "/usr/bin/tcsh"])
    def test_the_login_shell_of_the_host_does_not_matter(self, rig: HostRig, tmp_path: Path, login_shell: str) -> None:
        if not Path(login_shell).exists():
            pytest.skip(f"{login_shell} is not installed")
        rig.add("h1", login_shell=login_shell)
        shell = self.shell()
        words = ["a b", "$HOME", "`id`", "a'b\"c", "line\nbreak", "\\", "\\\\n", "!x", "ü€", "{a,b}", "~", "%s"]
        assert shell.run(["printf", "%s|", *words]).output.decode() == "".join(f"{word}|" for word in words)
        digests = make_files(tmp_path / "home", *NAMES)
        shell.send(tmp_path / "home", "work dir", files=NAMES)
        assert shell.fetch("work dir", tmp_path / "back", files=digests) == 1000 * len(NAMES)

    def test_a_computer_without_ssh_is_explained(self, rig: HostRig, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(ExternalError, match="ssh is not installed here"):
            self.shell().run(["true"])

    def put_results(self, host: SshHost, *, megabytes: int) -> dict[str, str]:
        folder = "/srv/home/results"
        host.run("sh", "-c", f"mkdir {folder}; head -c {megabytes}000000 /dev/urandom > {folder}/model.pt")
        return {"model.pt": host.run("sha256sum", f"{folder}/model.pt").split()[0].decode()}


HOLD = """
import sys, time
from tests.rigs.hosts import host_rig
with host_rig() as rig:
    host = rig.add("h1")
    host.run("sh", "-c", "setsid sleep 86399 > /dev/null 2>&1 < /dev/null &")
    print(host.hardware.pid, host.system.pid, rig.hub.pid, rig.folder, flush=True)
    time.sleep(60)
"""


def test_nothing_is_left_when_a_test_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, cwd=ROOT) as holder:
        assert holder.stdout is not None
        *pids, folder = holder.stdout.readline().split()
        holder.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}/ns").exists() and _runs(pid) for pid in pids), 10)
    wait_until(lambda: "86399" not in _command_lines(), 10)
    from tests.rigs.hosts import host_rig

    with host_rig():
        assert not Path(folder).exists(), "the next rig removes the folder of the killed one"


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _command_lines() -> str:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_text(errors="replace"))
        except OSError:
            continue
    return "\n".join(line for line in lines if line.startswith("sleep"))
