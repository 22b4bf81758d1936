"""What ssh and rsync print when they fail, as errors that say which host, what happened, and what to do."""

from trainfare.clouds.door import MachineUnreachableError
from trainfare.errors import ExternalError


class CannotConnectError(MachineUnreachableError):
    """No connection was made: it is certain that nothing was started on the host."""


_NO_CONNECTION = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its key is not the one that it had before. If you know why, remove the old key with `ssh-keygen -R` and its"
        " address, and log in once with `ssh {host}`; if not, do not connect",
    ),
    (
        "Host key verification failed",
        "its key is not known here. Log in once with `ssh {host}`, compare the key, and accept it",
    ),
    (
        "Permission denied (",
        "it refused the login. `ssh {host}` must work without a password: install your key with `ssh-copy-id {host}`,"
        " and load it with `ssh-add` if it has a passphrase",
    ),
    (
        "Too many authentication failures",
        "it refused the login after too many keys. Name the right one with IdentityFile and IdentitiesOnly in"
        " ~/.ssh/config",
    ),
    (
        "Could not resolve hostname",
        "there is no host of that name. Correct the name, or add it to ~/.ssh/config with its HostName",
    ),
    ("Connection refused", "no ssh server answers on its port. Start sshd there, or set Port in ~/.ssh/config"),
    ("No route to host", "it cannot be reached from here. Check that it is switched on, and your network or VPN"),
    ("Network is unreachable", "it cannot be reached from here. Check your network or VPN"),
    ("timed out", "it did not answer in time. Check that it is switched on, and your network or VPN"),
    ("Bad configuration option", "your ssh configuration has an error. `ssh -G {host}` shows it"),
    ("terminating,", "your ssh configuration has an error. `ssh -G {host}` shows it"),
)
"""Messages of ssh before a connection exists, and their meaning."""

_CONNECT_PHASE = ("ssh: connect to host", "ssh: Could not resolve", "Host key verification", "Permission denied (",
                  "Too many authentication", "banner exchange", "kex_exchange", "IDENTIFICATION HAS CHANGED",
                  "Bad configuration option", "terminating,")  # fmt: skip
"""Messages after which it is certain that no command was started."""


def ssh_error(host: str, printed: str) -> MachineUnreachableError:
    """The error for an ssh client that ended without the answer of the host; `printed` is what it wrote."""
    if not any(text in printed for text in _CONNECT_PHASE):
        return MachineUnreachableError(
            f"The connection to {host} was lost: {_last_line(printed) or 'ssh ended without a message'}."
            " Check that it is switched on, and your network or VPN."
        )
    meaning = next((meaning for text, meaning in _NO_CONNECTION if text in printed), "ssh gave up. Try `ssh {host}`")
    # A shared connection that broke while it was asked may have passed the command on.
    kind = MachineUnreachableError if "mux_client" in printed else CannotConnectError
    return kind(f"ssh cannot connect to {host}: {meaning.format(host=host)}. ({_last_line(printed)})")


_LOST = (10, 12, 30, 35, 255)
"""Exit codes of rsync for a connection that broke or fell silent."""


def rsync_error(host: str, exit_code: int, printed: str) -> ExternalError:
    """The error for an rsync that did not end well."""
    if "rsync: command not found" in printed or "rsync: not found" in printed or exit_code == 127:
        return ExternalError(
            f"rsync is not installed on {host}, and files cannot be sent. On Debian: apt install rsync"
        )
    if any(text in printed for text in _CONNECT_PHASE):
        return ssh_error(host, printed)
    if "No space left on device" in printed or "Disk quota exceeded" in printed:
        return ExternalError(f"A disk is full, at home or on {host}: {_first_line(printed)}. Free some space.")
    if "is your shell clean" in printed:
        return ExternalError(
            f"The login shell of {host} prints text, which disturbs rsync. Make its start-up files (such as ~/.bashrc)"
            " print nothing in shells that are not interactive."
        )
    if exit_code in _LOST:
        return MachineUnreachableError(
            f"The connection to {host} was lost while files were copied: {_first_line(printed)}."
            " Check that it is switched on, and your network or VPN."
        )
    return ExternalError(f"rsync could not copy all files between here and {host}: {_first_line(printed)}.")


def _lines(printed: str) -> list[str]:
    return [line.strip().rstrip(".") for line in printed.splitlines() if line.strip()]


def _last_line(printed: str) -> str:
    return next(iter(reversed(_lines(printed))), "")


def _first_line(printed: str) -> str:
    return next(iter(_lines(printed)), "no message")
