"""What a training needs next to its code: an environment, and data that is sent, fetched, or there already."""

import re
from dataclasses import dataclass
from typing import Literal

from trainfare.model.checks import require_text, require_unicode

Install = Literal["auto", "none"]
"""`auto`: what the folder of a program names is installed on the machine; `none`: the machine's own Python is used."""

DataKind = Literal["sent", "fetched", "there"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A file or folder that the program reads. It appears under `name` in the program's folder and in the folder that
    the variable TRAINFARE_DATA names."""

    name: str
    """A relative path."""
    kind: DataKind
    source: str
    """The path at home of data that is sent, the URL of data that is fetched, the path on the machine of data that is
    there."""
    sha256: str | None = None
    """The hash of the content; None if it is not known before."""
    bytes: int | None = None
    allow_private: bool = False
    """The URL may lead to an address that is not public."""

    def __post_init__(self) -> None:
        require_text(name=self.name, source=self.source)
        require_unicode(name=self.name, source=self.source)
        parts = self.name.split("/")
        if self.name.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\0" in self.name:
            raise ValueError(f"the name of data must be a relative path, got {self.name}")
        if self.sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"a SHA-256 has 64 digits from 0 to f, got {self.sha256}")
        if self.kind == "sent" and self.sha256 is None:
            raise ValueError("data that is sent must have a SHA-256")


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingSummary:
    """Everything that a machine gets for a run."""

    folder: str
    files: int
    bytes: int
    outside_links: tuple[str, ...] = ()
    """Links that lead out of the folder, which are not sent."""
    installs: str | None = None
    """The file that defines the environment; None if the machine's own Python is used."""
    not_installed: str | None = None
    """A file that defines an environment in a way that is not known."""
    data: tuple[DataSource, ...] = ()
