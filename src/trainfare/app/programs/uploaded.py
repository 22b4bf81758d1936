"""Where uploaded programs are kept. They are not trusted: on this machine they run only in a sandbox."""

from pathlib import Path

from trainfare.model.program import Program
from trainfare.settings import Settings


def uploads_folder(settings: Settings) -> Path:
    """The folder with all uploads, each in a folder of its own."""
    return Path(settings.runs).absolute() / "uploads"


def is_uploaded(program: Program, settings: Settings) -> bool:
    """True for a program that was uploaded."""
    return Path(program.directory).resolve().is_relative_to(uploads_folder(settings).resolve())
