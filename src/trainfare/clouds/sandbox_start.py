"""Replaces itself by bubblewrap with the command that follows `--`; run by `sandbox.py`, with Python alone.

The command sees its current folder, the file or folder to which the probe writes, and read-only the system, this Python
and the probe. Pid 1 of the sandbox is bubblewrap itself, and its variables can be read in /proc. So it is started with
a clean environment.
"""

import os
import sys
from pathlib import Path

PASSED = ("LANG", "LC_ALL", "PYTHONPATH", "PYTHONUNBUFFERED", "PWD", "TERM", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TZ")
PROBE = "TRAINFARE_PROBE_"
EVENTS = "TRAINFARE_PROBE_EVENTS"
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")
OF_PROFILER = "trainfare-"
"""The profiler makes a folder for the events alone; the folder of an agent has more, and only the file is shown."""
PATH = ("/usr/local/bin", "/usr/bin", "/bin")
TEMPORARY = "/tmp"  # noqa: S108 # a new one, in the sandbox
BYTES_OF_TEMPORARY = 1 << 30


def arguments(environ: "dict[str, str]", words: "list[str]") -> "list[str]":
    """The command line of bubblewrap."""
    processes, file_bytes = words[:2]
    command = words[words.index("--") + 1 :]
    here = str(Path.cwd())
    paths = environ.get("PYTHONPATH", "").split(os.pathsep)
    probe = [str(Path(path).parent) for path in paths if Path(path).name == "site"]
    made = ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"]
    made += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    made += ["--tmpfs", "/", "--proc", "/proc", "--dev", "/dev"]
    for folder in (TEMPORARY, "/dev/shm"):  # noqa: S108 # new ones, in the sandbox
        made += ["--size", str(BYTES_OF_TEMPORARY), "--tmpfs", folder]
    for path in dict.fromkeys([*SYSTEM, sys.prefix, sys.base_prefix, *probe]):
        if Path(path).exists():
            made += ["--ro-bind", path, path]
    for writable in (_events(environ.get(EVENTS)), here):
        if writable:
            made += ["--bind", writable, writable]
    made += ["--setenv", "HOME", TEMPORARY, "--chdir", here, "--"]
    return ["prlimit", "--nproc=" + processes, "--fsize=" + file_bytes, "--core=0", *made, *command]


def _events(path: "str | None") -> "str | None":
    """The file or folder that the probe writes to: the file, or its folder if that has nothing else."""
    if not path:
        return None
    folder = Path(path).parent
    if folder.name.startswith(OF_PROFILER):
        return str(folder)
    Path(path).touch(mode=0o600)
    return path


def clean(environ: "dict[str, str]") -> "dict[str, str]":
    """The variables that the program may see. The Python of the server comes first: it has the frameworks."""
    passed = {name: value for name, value in environ.items() if name in PASSED or name.startswith(PROBE)}
    return {**passed, "PATH": os.pathsep.join((str(Path(sys.executable).parent), *PATH))}


if __name__ == "__main__":
    line = arguments(dict(os.environ), sys.argv[1:])
    os.execvpe(line[0], line, clean(dict(os.environ)))  # noqa: S606 # bubblewrap takes the place of this process
