"""One host that is reached by ssh: a connection that every command shares, and copies of files by rsync.

The user's own client does the work, so that ~/.ssh/config, agents, jump hosts and hardware keys are honoured. The first
command opens a connection that later commands of every process share for some minutes (ControlMaster).
"""

import base64
import os
import re
import secrets
import shlex
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from trainfare.clouds.door import Completed, MachineUnreachableError
from trainfare.clouds.ssh_errors import rsync_error, ssh_error
from trainfare.errors import ExternalError, UsageError
from trainfare.units import format_duration

_KEPT_SECONDS = 300
"""An idle connection stays open for so long, for the next command."""
_CONNECT_SECONDS = 15
_ALIVE_SECONDS, _ALIVE_COUNT = 5, 3
"""A connection on which the host is silent for 15 s is lost."""
_SILENT_SECONDS = 60
"""The longest silence of rsync before it gives up."""
_SOCKET_FOLDER_LENGTH = 48
"""Unix allows 107 characters for the path of a socket: 41 are its name, and ssh adds 17 for a moment."""

_SCRIPT = """printf %s {mark}
if cd -- {folder} 2>/dev/null; then
{words}
printf '\\n%s%d' {mark} $? >&2
else printf '\\n%s%s' {mark} gone >&2
fi"""
"""The marks say where the output begins and that the command has ended: ssh itself exits with 255 if the connection
breaks, but so may the command."""


class FolderGoneError(MachineUnreachableError):
    """The host answered, and the folder does not exist on it."""


class SshConnection:
    """The way to one host: `destination` is a name of ~/.ssh/config, a host, or user@host."""

    def __init__(self, destination: str) -> None:
        if not re.fullmatch(r"([^\s@/:'\"-][^\s@/:'\"]*@)?[^\s@/:'\"-][^\s@/:'\"]*", destination):
            raise UsageError(
                f"{destination!r} is not a host for ssh: write a name or user@name; put a port, or an address with"
                " colons, into ~/.ssh/config."
            )
        self.destination = destination
        self._options: tuple[str, ...] | None = None

    def options(self) -> tuple[str, ...]:
        """The options of every command. Time limits of the user's own configuration are kept."""
        if self._options is None:
            own = self._own_configuration()
            given = {
                "BatchMode": "yes",
                "ControlMaster": "auto",
                "ControlPath": f"{_socket_folder()}/%C",
                "ControlPersist": str(_KEPT_SECONDS),
            }
            if own.get("connecttimeout", "none") == "none":
                given["ConnectTimeout"] = str(_CONNECT_SECONDS)
            if own.get("serveraliveinterval", "0") == "0":
                given |= {"ServerAliveInterval": str(_ALIVE_SECONDS), "ServerAliveCountMax": str(_ALIVE_COUNT)}
            self._options = tuple(word for name, value in given.items() for word in ("-o", f"{name}={value}"))
        return self._options

    def run(self, folder: str, command: Sequence[str], *, given: bytes, timeout_seconds: float) -> Completed:
        """Run a command in a folder of the host. `FolderGoneError` if the folder does not exist."""
        mark = f"@{secrets.token_hex(8)}@"
        script = _SCRIPT.format(mark=mark, folder=shlex.quote(folder), words=shlex.join(command))
        done = self._ssh([_for_any_shell(script)], given=given, timeout_seconds=timeout_seconds)
        error, found, ending = done.error.rpartition(f"\n{mark}".encode())
        if not found:
            raise ssh_error(self.destination, done.error.decode(errors="replace"))
        if ending == b"gone":
            raise FolderGoneError(f"The folder {folder} does not exist on {self.destination}: it was removed.")
        _, _, output = done.output.partition(mark.encode())  # what start-up files of the login shell print comes before
        return Completed(exit_code=int(ending), output=output, error=error)

    def close(self) -> None:
        """End the shared connection, for every process."""
        self._execute(["ssh", *self.options(), "-O", "exit", "--", self.destination], timeout_seconds=5.0)

    def copy(self, sources: Sequence[str], target: str, *, files: Iterable[str], options: Sequence[str] = ()) -> int:
        """Copy the named files with rsync; returns the bytes of all files that were copied."""
        listed = b"".join(b"./" + os.fsencode(name) + b"\0" for name in files)  # a name with # would be a comment
        done = self._execute(
            [
                *("rsync", "--files-from=-", "--from0", "--times", "--perms", "--partial", "--protect-args", "--stats"),
                *("--no-human-readable", f"--timeout={_SILENT_SECONDS}", *options),
                *("--rsh", shlex.join(("ssh", *self.options())), "--", *sources, target),
            ],
            given=listed,
        )
        if done.exit_code:
            raise rsync_error(self.destination, done.exit_code, done.error.decode(errors="replace"))
        counted = re.search(rb"Total transferred file size: ([\d,.]+)", done.output)
        return int(re.sub(rb"\D", b"", counted[1])) if counted else 0

    def _ssh(self, words: Sequence[str], *, given: bytes, timeout_seconds: float) -> Completed:
        command = ["ssh", *self.options(), "-T", "--", self.destination, *words]
        return self._execute(command, given=given, timeout_seconds=timeout_seconds)

    def _own_configuration(self) -> Mapping[str, str]:
        done = self._execute(["ssh", "-G", "--", self.destination], timeout_seconds=_CONNECT_SECONDS)
        if done.exit_code:
            raise ssh_error(self.destination, done.error.decode(errors="replace"))
        lines = (line.partition(" ") for line in done.output.decode(errors="replace").splitlines())
        return {name: value for name, _, value in lines}

    def _execute(
        self, command: Sequence[str], *, given: bytes = b"", timeout_seconds: float | None = None
    ) -> Completed:
        """Run a program here. Its output goes to files: a shared connection that it opens in the background would keep
        a pipe open."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                    stdout=output,
                    stderr=error,
                    start_new_session=True,
                )
            except FileNotFoundError as missing:
                raise ExternalError(
                    f"{command[0]} is not installed here. On Debian: apt install openssh-client rsync"
                ) from missing
            if not _wait(process, given, timeout_seconds):
                raise MachineUnreachableError(
                    f"{self.destination} did not answer within {format_duration(timeout_seconds or 0.0)}."
                )
            return Completed(exit_code=process.returncode, output=_content(output), error=_content(error))


def _for_any_shell(script: str) -> str:
    """A command line that runs a script with sh, whatever the login shell of the host is: fish and tcsh read quotes,
    backslashes and line ends in their own ways."""
    encoded = base64.b64encode(os.fsencode(script)).decode()
    return f"""exec sh -c 'eval "$(printf %s {encoded} | base64 -d)"'"""


def _wait(process: subprocess.Popen[bytes], given: bytes, timeout_seconds: float | None) -> bool:
    """Wait for the end of a process; False if it had to be killed. `Popen.wait` with a time limit would look only every
    30 ms, which is as long as a command takes."""
    killed = threading.Event()

    def kill() -> None:
        killed.set()
        process.kill()

    timer = threading.Timer(timeout_seconds, kill) if timeout_seconds is not None else None
    try:
        if timer:
            timer.start()
        process.communicate(given or None)
    except BaseException:  # interrupted by the user: nothing must be left running
        process.kill()
        process.wait()
        raise
    finally:
        if timer:
            timer.cancel()
    return not killed.is_set()


def _socket_folder() -> Path:
    """A private folder for the sockets of shared connections, with a short name."""
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or "/") / "trainfare"
    usable = folder.parent.is_dir() and os.access(folder.parent, os.W_OK) and folder.parent != Path("/")
    if not usable or len(str(folder)) > _SOCKET_FOLDER_LENGTH or re.search(r"[\s%'\"]", str(folder)):
        folder = Path("/tmp") / f"trainfare-{os.getuid()}"  # noqa: S108 # that it is private is checked below
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise ExternalError(f"{folder} is not a private folder of yours, and ssh cannot use it. Remove it.")
    return folder


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()
