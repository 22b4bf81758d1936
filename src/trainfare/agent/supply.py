"""Supplies a launch with its Python environment and its data, before the program starts. One file, Python 3.8 or
newer, no packages.

    python3 supply.py missing     print the numbers of the data in supply.json that must be sent from home
    python3 supply.py             make everything ready that supply.json names, and write supplied.json
    python3 supply.py cache       print what is kept on this host, as JSON
    python3 supply.py clean SECONDS BYTES
                                  remove what was not used for so long, and the oldest until so much is left; print it

    supply.json    what the program needs                      written before the start
    arriving/N     data number N, as it is sent from home
    supplied.json  the variables of the program's environment, which the agent adds
    data/          links to the data by their names
    bin/           the scripts that the project of the program defines

Environments and data are made once on a host and used by every later launch that needs the same. They are kept in the
cache folder ($TRAINFARE_CACHE, or `trainfare` in $XDG_CACHE_HOME or ~/.cache), which may be removed at any time:

    environments/KEY/     a virtual environment; KEY depends on the files that define it and on this Python
    data/KEY/content      a file or folder; KEY is the hash of its content, or of the URL that it came from; data/KEY.2
                          if a program has changed it
    …/KEY/complete        written last: without it the environment is made, or the data taken, anew
    …/KEY.lock            locked while that happens
    …/KEY.users           the folders of launches that use it; its time is that of the last use

Whatever no launch uses is removed when it was not used for 90 days, or when all takes more than a quarter of the disk,
the longest unused first.

A URL is fetched from the address that was checked, and each redirect is checked again: an address that is not public
is refused unless supply.json allows it, so that a URL cannot reach services of this machine or its network.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List  # noqa: UP035 # Python 3.8 has no dict[…] outside of annotations

FORMAT = 1
"""Part of every key: another way to make an environment is another environment."""

MAX_REDIRECTS = 8
SILENT_SECONDS = 60.0
"""A server that says nothing for so long is given up."""
ROOM_BYTES = 64 << 20
"""Data without a stated size is fetched as long as so much room is left on the disk."""
NO_ENVIRONMENT = "no virtual environment could be made"

UNUSED_SECONDS = 90 * 86400.0
SHARE_OF_DISK = 0.25
"""The cache may take so much of the disk that it is on."""

Record = Dict[str, Any]  # noqa: UP006 # it is evaluated by Python 3.8
Words = List[str]  # noqa: UP006 # it is evaluated by Python 3.8


class SupplyError(Exception):
    """The program cannot be supplied; the text is for the user."""


def say(text: str) -> None:
    print(f"trainfare: {text}", flush=True)  # noqa: T201 # its output is that of the setup


def cache_folder() -> Path:
    """The folder of what later launches on this host use again; it is private to the user."""
    own = os.environ.get("TRAINFARE_CACHE")
    usual = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(own) if own else Path(usual) / "trainfare"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock of a file; the kernel frees it when its holder ends, in whatever way."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run that makes the same.")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(str(path))
    elif path.exists() or path.is_symlink():
        path.unlink()


def read_text(path: Path) -> str:
    """The content of a file; empty if it does not exist."""
    return path.read_text() if path.exists() else ""


def is_complete(folder: Path) -> bool:
    return (folder / "complete").exists()


def mark_complete(folder: Path, record: Record) -> None:
    """Written last and in one step: a folder without it is as good as absent."""
    fresh = folder / "complete.new"
    with fresh.open("w") as file:
        json.dump(record, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / "complete")


# What is kept.


def note_use(place: Path, launch: Path) -> None:
    """Note that a launch uses a place, whose lock is held; those that have ended are forgotten."""
    users = place.with_name(place.name + ".users")
    users.write_text("".join(f"{user}\n" for user in [*(user for user in users_of(place) if user != launch), launch]))


def users_of(place: Path) -> list[Path]:
    """The folders of launches that use a place and have not been removed."""
    named = read_text(place.with_name(place.name + ".users")).splitlines()
    return [Path(user) for user in named if Path(user).exists()]


def tree_bytes(path: Path) -> int:
    """The room that a folder takes on the disk."""
    total = 0
    for parent, _, names in os.walk(str(path)):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 # of many files
    return total


def cached() -> list[Record]:
    """Everything that is kept on this host, the longest unused first."""
    found = []
    for kind in ("environments", "data"):
        folder = cache_folder() / kind
        for place in sorted(folder.iterdir()) if folder.is_dir() else []:
            if not place.is_dir():
                continue
            record = json.loads(read_text(place / "complete") or "{}")
            users = place.with_name(place.name + ".users")
            size = record.get("size")
            found.append(
                {
                    "kind": kind,
                    "key": place.name,
                    "name": record.get("named_by") or record.get("source") or place.name[:8],
                    "bytes": tree_bytes(place) if size is None else size,
                    "unused_seconds": max(0.0, time.time() - (users if users.exists() else place).stat().st_mtime),
                    "in_use": bool(users_of(place)),
                }
            )
    return sorted(found, key=lambda each: -each["unused_seconds"])


def clean(unused_seconds: float, keep_bytes: float) -> list[Record]:
    """Remove what no launch uses: what was not used for so long, and the longest unused until at most so many bytes
    are left. Returns what was removed."""
    kept = cached()
    total, removed = sum(each["bytes"] for each in kept), []
    for each in kept:
        place = cache_folder() / each["kind"] / each["key"]
        if (each["unused_seconds"] >= unused_seconds or total > keep_bytes) and remove_unused(place):
            total -= each["bytes"]
            removed.append(each)
    return removed


def remove_unused(place: Path) -> bool:
    """Remove a place unless a launch uses it or is just making it."""
    with place.with_name(place.name + ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if users_of(place):
            return False
        remove(place)
        remove(place.with_name(place.name + ".users"))
    return True


def trim() -> None:
    """Keep the cache within its bounds."""
    with contextlib.suppress(OSError, ValueError):  # the next launch tries again
        total = shutil.disk_usage(str(cache_folder())).total
        for each in clean(UNUSED_SECONDS, SHARE_OF_DISK * total):
            days = each["unused_seconds"] / 86400
            say(f"removed {each['name']} ({each['key'][:8]}), which was not used for {days:.0f} days.")


# The environment.


def find_uv() -> str | None:
    """The program uv, also where its installer places it: a shell without a login does not look there."""
    found = shutil.which("uv")
    usual = Path.home() / ".local" / "bin" / "uv"
    return found or (str(usual) if os.access(str(usual), os.X_OK) else None)


def make_environment(recipe: Record, folder: Path) -> Record:
    """Make the environment of a recipe, or find it made; returns the variables that it needs."""
    work = folder / "work"
    variables: Record = {"PYTHONPATH": [str(work / root) for root in recipe["source_roots"]], "PATH": []}
    python = Path(sys.executable)
    if recipe["arguments"] or recipe["locked"]:
        uv = find_uv()
        key = environment_key(recipe, uv)
        place = cache_folder() / "environments" / key if recipe["reusable"] else folder / "environment"
        with locked(place.with_name(place.name + ".lock")):
            if recipe["reusable"]:
                note_use(place, folder)
            if is_complete(place) and (place / "bin" / "python").exists():
                say(f"the environment of {recipe['named_by']} is there already ({key[:8]}).")
            else:
                began = time.monotonic()
                remove(place)
                install(recipe, place, work, uv)
                record = {"named_by": recipe["named_by"], "python": sys.version, "size": tree_bytes(place)}
                mark_complete(place, record)
                say(
                    f"the environment of {recipe['named_by']} was made in {time.monotonic() - began:.1f} s ({key[:8]})."
                )
        variables["PATH"].append(str(place / "bin"))
        variables["VIRTUAL_ENV"] = str(place)
        python = place / "bin" / "python"
    if recipe["scripts"]:
        write_scripts(recipe["scripts"], folder / "bin", python)
        variables["PATH"].insert(0, str(folder / "bin"))
    return variables


def environment_key(recipe: Record, uv: str | None) -> str:
    parts = [FORMAT, recipe["digest"], bool(uv), sys.version, sys.base_prefix, platform.machine(), platform.libc_ver()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def install(recipe: Record, place: Path, work: Path, uv: str | None) -> None:
    """Make a virtual environment and install into it what the recipe names."""
    named_by = recipe["named_by"]
    if recipe["locked"] and uv:
        words = [uv, "sync", "--frozen", "--no-progress", *(["--no-install-project"] if recipe["reusable"] else [])]
        run(words, work, f"what {named_by} locks could not be installed", UV_PROJECT_ENVIRONMENT=str(place))
        return
    if recipe["locked"]:
        say(f"uv is not on this machine: the versions that {named_by} locks are not used, those of pyproject.toml are.")
    failure = f"what {named_by} names could not be installed"
    if has_pip() or has_ensurepip():
        run([sys.executable, "-m", "venv", *(["--without-pip"] if has_pip() else []), str(place)], work, NO_ENVIRONMENT)
        pip = lend_pip(place) if has_pip() else [str(place / "bin" / "python"), "-m", "pip"]
        words = ["install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", *recipe["arguments"]]
        run([*pip, *words], work, failure)
    elif uv:
        run([uv, "venv", "--python", sys.executable, str(place)], work, NO_ENVIRONMENT)
        run([uv, "pip", "install", "--no-progress", *recipe["arguments"]], work, failure, VIRTUAL_ENV=str(place))
    else:
        raise SupplyError(
            f"{named_by} cannot be installed: this machine's Python makes no virtual environments. "
            "On Debian: apt install python3-venv; or install uv."
        )


def has_pip() -> bool:
    """True if the pip of this Python can install into another environment, which saves seconds."""
    from importlib import metadata

    try:
        return tuple(map(int, metadata.version("pip").split(".")[:2])) >= (22, 3)
    except (metadata.PackageNotFoundError, ValueError):
        return False


def lend_pip(place: Path) -> Words:
    """Let the pip of this Python be that of an environment; returns its words."""
    words = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python")]
    script = place / "bin" / "pip"
    script.write_text("#!/bin/sh\nexec " + " ".join(map(shlex.quote, words)) + ' "$@"\n')
    script.chmod(0o755)
    return words


def has_ensurepip() -> bool:
    """False on a Debian without python3-venv."""
    import importlib.util

    return importlib.util.find_spec("ensurepip") is not None


def run(words: Words, work: Path, failure: str, **variables: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    code = subprocess.run(words, cwd=str(work), env={**environment, **variables}, check=False).returncode
    if code:
        raise SupplyError(f"{failure}: {Path(words[0]).name} ended with exit code {code}.")


def write_scripts(scripts: Record, folder: Path, python: Path) -> None:
    """The commands that the project defines, as an installer would write them."""
    folder.mkdir(exist_ok=True)
    for name, target in scripts.items():
        module, _, function = target.partition(":")
        text = f"#!{python}\nimport sys\nfrom {module} import {function.partition('.')[0]}\nsys.exit({function}())\n"
        script = folder / Path(name).name
        script.write_text(text)
        script.chmod(0o755)


# Data.


def content_digest(path: Path) -> str:
    """The SHA-256 of a file; of a folder, that of the names and hashes of its files."""
    if not path.is_dir():
        return file_digest(path)
    total = hashlib.sha256()
    names = sorted(
        str(Path(parent, name).relative_to(path)) for parent, _, files in os.walk(str(path)) for name in files
    )
    for name in names:
        total.update(f"{file_digest(path / name)} {name}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(1 << 22), b""):
            digest.update(part)
    return digest.hexdigest()


def data_place(source: Record) -> Path:
    """The place that has the data, or gets it. One in which a program has changed a file is left to whoever uses it,
    and the data gets another place; files that a program has added are no change."""
    key = source["sha256"] or hashlib.sha256(source["source"].encode()).hexdigest()
    number = 1
    while True:
        place = cache_folder() / "data" / (key if number == 1 else f"{key}.{number}")
        stamps = json.loads(read_text(place / "complete") or "{}").get("stamps", {})
        found = file_stamps(place / "content") if stamps else {}
        if all(found.get(name) == stamp for name, stamp in stamps.items()):
            return place
        number += 1


def file_stamps(path: Path) -> dict[str, list[int]]:
    """Size and time of a file, or of all files in a folder by their names."""
    walk = os.walk(str(path))
    files = [path] if path.is_file() else [Path(parent, name) for parent, _, names in walk for name in names]
    states = [(str(file.relative_to(path)), file.stat()) for file in files if file.exists()]
    return {name: [state.st_size, state.st_mtime_ns] for name, state in states}


def missing(wanted: Record) -> list[int]:
    """The numbers of the data that must be sent: this host does not have it."""
    sent = [(number, source) for number, source in enumerate(wanted.get("data", [])) if source["kind"] == "sent"]
    return [number for number, source in sent if not is_complete(data_place(source))]


def take_data(source: Record, arrived: Path, launch: Path) -> Path:
    """The place of data on this machine, verified."""
    if source["kind"] == "there":
        place = Path(os.path.expanduser(source["source"]))  # noqa: PTH111 # of a text
        if not place.exists():
            raise SupplyError(f"the data {source['name']} is not on this machine: there is no {place}.")
        return place
    place = data_place(source)
    with locked(place.with_name(place.name + ".lock")):
        note_use(place, launch)
        if source["kind"] == "sent":
            keep_arrived(source, arrived, place)
        else:
            keep_fetched(source, place)
    return place / "content"


def keep_arrived(source: Record, arrived: Path, place: Path) -> None:
    if is_complete(place):
        say(f"the data {source['name']} is there already ({place.name[:8]}).")
        return
    found = next(iter(arrived.iterdir()), None) if arrived.is_dir() and not source["folder"] else arrived
    if found is None or not found.exists():
        raise SupplyError(f"the data {source['name']} has not arrived.")
    if content_digest(found) != source["sha256"]:
        raise SupplyError(f"the data {source['name']} changed while it was sent. Start the run again.")
    remove(place)
    place.mkdir(parents=True, mode=0o700)
    shutil.move(str(found), str(place / "content"))
    record = {"source": source["name"], "stamps": file_stamps(place / "content"), "size": tree_bytes(place)}
    mark_complete(place, record)


def keep_fetched(source: Record, place: Path) -> None:
    """Fetch a URL unless it is here: content of a known hash needs no look, other content is asked for anew."""
    url, known = source["source"], json.loads(read_text(place / "complete") or "null")
    if known is not None and source["sha256"]:
        say(f"the data {source['name']} is there already ({place.name[:8]}).")
        return
    for left in place.parent.glob(f"{place.name}.new-*"):  # by a process that was killed: we have the lock
        remove(left)
    fresh = place.with_name(f"{place.name}.new-{os.getpid()}")
    fresh.mkdir(parents=True, mode=0o700)
    began = time.monotonic()
    try:
        record = fetch(url, fresh / "content", known, allow_private=source["allow_private"])
        if record is None:
            say(f"the data {source['name']} has not changed at {shown(url)}.")
            return
        if source["sha256"] not in (None, record["sha256"]):
            raise SupplyError(
                f"{shown(url)} is not what it should be: its SHA-256 is {record['sha256']}, not {source['sha256']}."
            )
        stamps = file_stamps(fresh / "content")
        mark_complete(fresh, {**record, "source": source["name"], "stamps": stamps, "size": tree_bytes(fresh)})
        remove(place)
        fresh.replace(place)
    finally:
        if fresh.exists():
            remove(fresh)
    seconds = time.monotonic() - began
    say(
        f"the data {source['name']} was fetched: {record['bytes']} bytes in {seconds:.1f} s, #sha256={record['sha256']}"
    )


def link_data(places: dict[str, Path], folder: Path) -> None:
    """Let the data appear under its names, next to the program's files and in a folder of its own."""
    for name, place in places.items():
        for link in (folder / "data" / name, folder / "work" / name):
            if link.exists() and not link.is_symlink():
                say(f"{name} in the program's folder is a file of the program; the data is in $TRAINFARE_DATA/{name}.")
                continue
            link.parent.mkdir(parents=True, exist_ok=True)
            remove(link)
            link.symlink_to(place)


# URLs.


def shown(url: str) -> str:
    """A URL without its query, which may have a key to the data."""
    return url.partition("?")[0]


def fetch(url: str, path: Path, known: Record | None, *, allow_private: bool) -> Record | None:
    """Fetch a URL into a file, with some patience; None if what is known of it still holds."""
    for pause in (1.0, 4.0, None):
        try:
            return fetch_once(url, path, known, allow_private=allow_private)
        except (OSError, EOFError) as error:  # also errors of http.client, see `reply_of`
            if pause is None:
                raise SupplyError(f"{shown(url)} cannot be fetched: {error}.") from error
            time.sleep(pause)
    return None


def fetch_once(url: str, path: Path, known: Record | None, *, allow_private: bool) -> Record | None:
    from urllib.parse import urljoin

    known = known or {}
    conditions = {"If-None-Match": known.get("etag"), "If-Modified-Since": known.get("modified")}
    headers = {name: value for name, value in conditions.items() if value}
    began_secure = url.startswith("https:")
    for _ in range(MAX_REDIRECTS):
        reply = reply_of(url, headers, allow_private=allow_private)
        with contextlib.closing(reply):
            if reply.status == 304 and headers:
                return None
            if reply.status in (301, 302, 303, 307, 308):
                url = urljoin(url, reply.headers.get("Location", ""))
                if began_secure and not url.startswith("https:"):
                    raise SupplyError(f"{shown(url)} is refused: a redirect must not leave https.")
                continue
            if reply.status >= 500:
                raise OSError(f"the server answers {reply.status} {reply.reason}")
            if reply.status != 200:
                raise SupplyError(f"{shown(url)} cannot be fetched: the server answers {reply.status} {reply.reason}.")
            size, digest = save(reply, path, shown(url))
            modified = reply.headers.get("Last-Modified")
            return {"etag": reply.headers.get("ETag"), "modified": modified, "sha256": digest, "bytes": size}
    raise SupplyError(f"{shown(url)} is redirected more than {MAX_REDIRECTS} times.")


def save(reply: Any, path: Path, name: str) -> tuple[int, str]:
    """Write the content of a reply; returns its size and its hash."""
    expected = reply.headers.get("Content-Length")
    free = disk_free(path)
    if expected and int(expected) > free:
        raise SupplyError(f"{name} has {expected} bytes, and this machine has room for {free}.")
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        for part in iter(lambda: reply.read(1 << 20), b""):
            digest.update(part)
            size += len(part)
            file.write(part)
            if size // ROOM_BYTES > (size - len(part)) // ROOM_BYTES and disk_free(path) < ROOM_BYTES:
                raise SupplyError(f"{name} does not fit on the disk of this machine: it has more than {size} bytes.")
    if expected and size != int(expected):
        raise OSError(f"it ended after {size} of {expected} bytes")
    return size, digest.hexdigest()


def disk_free(path: Path) -> int:
    return shutil.disk_usage(str(path.parent)).free


def reply_of(url: str, headers: dict[str, str], *, allow_private: bool) -> Any:
    """Ask for a URL at an address that was checked. Every failure on the way is an OSError."""
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SupplyError(f"{shown(url)} is refused: only http and https are fetched.")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise SupplyError(f"{shown(url)} is refused: {error}.") from error
    connection = http.client.HTTPConnection(parts.hostname, port, timeout=SILENT_SECONDS)
    connection.sock = connect(parts.hostname, port, secure=parts.scheme == "https", allow_private=allow_private)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.rpartition("@")[2]
    try:
        connection.request("GET", path, headers={"Host": host, "User-Agent": "trainfare", **headers})
        return connection.getresponse()
    except (http.client.HTTPException, UnicodeError) as error:
        connection.close()
        raise OSError(repr(error)) from error


def connect(host: str, port: int, *, secure: bool, allow_private: bool) -> Any:
    """A connection to an address of a host, each of which must be public unless private ones are allowed."""
    import socket

    try:
        found = [entry[4] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        raise OSError(f"{host} is not known: {error}") from error
    for address in found:
        if not allow_private and not is_public(str(address[0])):
            raise SupplyError(f"{host} is refused: {address[0]} is not a public address, and such were not allowed.")
    failure = OSError(f"{host} has no address")
    for address in found:
        try:
            connection = socket.create_connection((str(address[0]), port), timeout=SILENT_SECONDS)
        except OSError as error:
            failure = error
            continue
        if not secure:
            return connection
        import ssl

        return ssl.create_default_context().wrap_socket(connection, server_hostname=host)
    raise failure


def is_public(text: str) -> bool:
    """True for an address of the Internet. Those that only wrap an address of the older kind are judged by it."""
    import ipaddress

    address = ipaddress.ip_address(text.partition("%")[0])
    if address.version == 6:
        number = int(address)
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if number >> 32 in (0, 0x64FF9B << 64):  # ::a.b.c.d and 64:ff9b::a.b.c.d
            inner = ipaddress.IPv4Address(number & 0xFFFFFFFF)
        if inner is not None:
            address = inner
    return address.is_global and not address.is_multicast


# Commands.


def supply(folder: Path) -> None:
    wanted = json.loads((folder / "supply.json").read_text())
    supplied: Record = {"PATH": [], "PYTHONPATH": []}
    if wanted.get("environment"):
        supplied.update(make_environment(wanted["environment"], folder))
    if wanted.get("data"):
        sources = list(enumerate(wanted["data"]))
        link_data({each["name"]: take_data(each, folder / "arriving" / str(n), folder) for n, each in sources}, folder)
        supplied["TRAINFARE_DATA"] = str(folder / "data")
    fresh = folder / "supplied.json.new"
    fresh.write_text(json.dumps(supplied))
    fresh.replace(folder / "supplied.json")
    trim()


def main(words: Words) -> None:
    if words[:1] in (["cache"], ["clean"]):
        answer = cached() if words == ["cache"] else clean(float(words[1]), float(words[2]))
        print(json.dumps(answer))  # noqa: T201 # it is the answer
        return
    folder = Path(__file__).resolve().parent
    if words == ["missing"]:
        numbers = missing(json.loads((folder / "supply.json").read_text()))
        print(json.dumps(numbers))  # noqa: T201 # it is the answer
        return
    try:
        supply(folder)
    except SupplyError as error:
        say(str(error))
        sys.exit(1)
    except OSError as error:
        say(f"the program could not be supplied: {error}.")
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
