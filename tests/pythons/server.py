"""The server of tests/pythons: imports modules, and runs each program that a client asks for in a fork.

    python server.py SOCKET OWNER AWAITED MODULE…

It ends with the process OWNER, or when no client has asked for a while: the modules take hundreds of megabytes.
AWAITED are the modules whose import the probe awaits. In a fork they are hidden until the program imports them, and
then come back in the order in which they were first imported, without being executed again.
"""

import contextlib
import fcntl
import gc
import importlib
import importlib.abc
import importlib.machinery
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

Request = tuple[list[str], dict[str, str], str]
IDLE_SECONDS = 300


class Order:
    """A finder that notes which of the modules `names` were imported inside which."""

    def __init__(self, names: Iterable[str]) -> None:
        self.inside: dict[str, list[str]] = {}
        self._names = set(names)
        self._open: list[str] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._names or name in self.inside:
            return None
        self.inside[name] = []
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target))), None)
        if spec is not None:
            loader: Any = spec.loader
            loader.exec_module = self._noting(name, loader)
        return spec

    def _noting(self, name: str, loader: Any) -> Callable[[ModuleType], None]:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            self._open.append(name)
            try:
                execute(module)
            finally:
                self._open.pop()
            if self._open:
                self.inside[self._open[-1]].append(name)

        return exec_module


class Hidden:
    """A finder of modules that were imported before the fork and are hidden until they are imported again."""

    def __init__(self, inside: dict[str, list[str]]) -> None:
        self._inside = inside
        packages = {name.partition(".")[0] for name in inside}
        self._modules = {
            name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in packages
        }

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._modules:
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(self, self._modules[name]))

    def show(self, module: ModuleType, name: str) -> None:
        """Show a module, with the rest of its package and with those that were imported inside it."""
        del self._modules[name]
        if "." not in name:
            for other in [other for other in self._modules if other.startswith(f"{name}.")]:
                if other not in self._inside:
                    sys.modules[other] = self._modules.pop(other)
        for other in self._inside.get(name, ()):
            importlib.import_module(other)


class _Loader(importlib.abc.Loader):
    """Loads one hidden module. The probe replaces its `exec_module`, as that of any loader."""

    def __init__(self, hidden: Hidden, module: ModuleType) -> None:
        self._hidden = hidden
        self._module = module
        self._spec = module.__spec__

    def create_module(self, _spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        name = module.__spec__.name if module.__spec__ else module.__name__
        module.__spec__ = self._spec
        self._hidden.show(module, name)


class Server:
    """Forks for each client that connects, and tells it how the program ended."""

    def __init__(self, path: str, owner: int) -> None:
        self._folder = Path(path).parent
        self._owner = os.pidfd_open(owner)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._programs: dict[int, tuple[int, socket.socket]] = {}
        """The file descriptor of a process → its id, and its client."""
        self._poll = select.poll()
        for file in (self._owner, self._listener):
            self._poll.register(file, select.POLLIN)

    def serve(self) -> tuple[Request, list[int]]:
        """Returns in each fork, with what its client asks for and the files of the client."""
        while True:
            ready = self._poll.poll(IDLE_SECONDS * 1000)
            if not ready and not self._programs:
                self._end_if_idle()
            for file, _ in ready:
                if file == self._owner:
                    self._end()
                elif file == self._listener.fileno():
                    if (asked := self._accept()) is not None:
                        return asked
                elif file in self._programs:
                    self._report(file)
                else:
                    self._kill_program_of(file)

    def _accept(self) -> tuple[Request, list[int]] | None:
        """What the client asks for, in the fork; None in the server."""
        client, _ = self._listener.accept()
        if (asked := _receive(client)) is None:
            client.close()
            return None
        with warnings.catch_warnings(action="ignore"):  # JAX warns of forks; nothing was computed yet
            pid = os.fork()
        if not pid:
            for opened in (self._listener, client, *(other for _, other in self._programs.values())):
                opened.close()
            for descriptor in (self._owner, *self._programs):
                os.close(descriptor)
            return asked
        for received in asked[1]:
            os.close(received)
        with contextlib.suppress(OSError):
            client.sendall(pid.to_bytes(8, "big"))
        descriptor = os.pidfd_open(pid)
        self._programs[descriptor] = pid, client
        self._poll.register(descriptor, select.POLLIN)
        self._poll.register(client, select.POLLIN)
        return None

    def _report(self, descriptor: int) -> None:
        pid, client = self._programs.pop(descriptor)
        self._poll.unregister(descriptor)
        with contextlib.suppress(KeyError):
            self._poll.unregister(client)
        os.close(descriptor)
        status = os.waitpid(pid, 0)[1]
        with contextlib.suppress(OSError):
            client.sendall(status.to_bytes(8, "big"))
        client.close()

    def _kill_program_of(self, file: int) -> None:
        """The client was killed: so is its program, which is reaped in another round."""
        for pid, client in self._programs.values():
            if client.fileno() == file:
                _kill(pid)
                self._poll.unregister(client)

    def _end_if_idle(self) -> None:
        """End, unless a client asks now: under the lock under which clients look for the server."""
        with self._folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._poll.poll(0):
                shutil.rmtree(self._folder, ignore_errors=True)
                os._exit(0)

    def _end(self) -> None:
        """End with the owner, and with all other servers."""
        for pid, _ in self._programs.values():
            _kill(pid)
        shutil.rmtree(self._folder.parent, ignore_errors=True)
        os._exit(0)


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _receive(client: socket.socket) -> tuple[Request, list[int]] | None:
    length, files, _, _ = socket.recv_fds(client, 8, 3)
    text = b""
    while length and len(text) < int.from_bytes(length, "big"):
        if not (part := client.recv(1 << 16)):
            return None
        text += part
    return (marshal.loads(text), files) if length else None  # noqa: S302 # from our own client


def become(request: Request, files: list[int], inside: dict[str, list[str]]) -> tuple[CodeType | None, str]:
    """Make this fork what a new Python would be; returns the code to run as __main__, or the name of a module."""
    words, environment, directory = request
    os.setsid()
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through="PYTHONUNBUFFERED" in environment)  # type: ignore[union-attr] # text files
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.meta_path.insert(0, Hidden(inside))
    sys.orig_argv = [sys.executable, *words]
    added = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = [*added, *sys.path[1:]]
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
    while words[0].startswith("-") and words[0] not in ("-c", "-m"):
        words = words[1:]
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path.insert(0, directory)
        return None, words[1]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        return compile(words[1], "<string>", "exec"), ""
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).resolve().parent))
    return compile(Path(words[0]).read_bytes(), words[0], "exec"), words[0]


def main() -> tuple[CodeType | None, str]:
    path, owner, awaited, *modules = sys.argv[1:]
    names = awaited.split(",")
    order = Order({*names, *(name.partition(".")[0] for name in names)})
    sys.meta_path.insert(0, order)
    for name in modules:
        importlib.import_module(name)
    sys.meta_path.remove(order)
    gc.freeze()
    server = Server(path, int(owner))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    return become(*server.serve(), order.inside)


if __name__ == "__main__":
    code, name = main()
    # Outside of every loop and function, because the probe reads the loops of the frames that call the program.
    if code is None:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = own = ModuleType("__main__")
        own.__dict__.update({"__file__": name} if name else {}, __builtins__=__builtins__)
        exec(code, own.__dict__)  # noqa: S102 # what a Python does
