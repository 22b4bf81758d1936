"""Use case: a program that is uploaded: a script, a zip or a wheel. It is kept by its content."""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from trainfare.app.programs.sources import main_command
from trainfare.app.programs.uploaded import uploads_folder
from trainfare.clouds.archives import SUFFIXES, UnpackLimits, unpack
from trainfare.clouds.sandbox import sandbox_prefix
from trainfare.errors import UsageError
from trainfare.model.program import Program
from trainfare.settings import Settings

MAX_BYTES = 200_000_000
"""The largest upload; data belongs elsewhere."""
LIMITS = UnpackLimits(bytes=1_000_000_000, entries=20_000)
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A program as it was uploaded."""

    program: Program
    sha256: str
    bytes: int


def save_upload(name: str, content: BinaryIO, words: Sequence[str], *, settings: Settings) -> Upload:
    """Store an uploaded file, and return the program that `words` start in it: the main script and its arguments, or
    only the arguments of a script. `UsageError` if it is refused: then nothing of it is left."""
    sandbox_prefix()  # uploads that could not be run are refused
    base = PurePosixPath(name.replace("\\", "/")).name
    suffix = PurePosixPath(base).suffix.lower()
    if suffix not in (".py", *SUFFIXES) or not base.isprintable() or base.startswith("."):
        raise UsageError(f"{base[:80]!a} is neither a script (.py) nor a zip or a wheel.", field="upload")
    root = uploads_folder(settings)
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=root) as folder:
        path = Path(folder) / base
        size, digest = _write(content, path)
        if suffix == ".py":
            place = root / digest[:32]
            place.mkdir(exist_ok=True)
            shutil.move(path, place / base)
            program = Program(command=("python3", base, *words), directory=str(place))
        else:
            try:
                place = unpack(path, root, LIMITS)
                program = Program(command=main_command(Path(base), place, words), directory=str(place))
            except UsageError as error:
                raise UsageError(error.message.replace(str(path), base), field="upload") from error
    return Upload(program=program, sha256=digest, bytes=size)


def _write(content: BinaryIO, path: Path) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    with path.open("xb") as file:
        while chunk := content.read(_CHUNK):
            size += len(chunk)
            if size > MAX_BYTES:
                limit = MAX_BYTES // 10**6
                raise UsageError(
                    f"The file is larger than {limit} MB. Upload the program without its data.", field="upload"
                )
            digest.update(chunk)
            file.write(chunk)
    if not size:
        raise UsageError("The file is empty.", field="upload")
    return size, digest.hexdigest()
