"""A tiny package as a wheel, made without any tool."""

import zipfile
from pathlib import Path

PARTS = {
    "tiny.py": "VALUE = 42\n",
    "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


def make_wheel(folder: Path, name: str = "tiny-1.0-py3-none-any.whl", **parts: str) -> Path:
    """A wheel with a module `tiny`; parts are added, or replace those of the same name."""
    folder.mkdir(parents=True, exist_ok=True)
    content = PARTS | parts
    record = "".join(f"{path},,\n" for path in (*content, "tiny-1.0.dist-info/RECORD"))
    with zipfile.ZipFile(folder / name, "w") as wheel:
        for path, text in (content | {"tiny-1.0.dist-info/RECORD": record}).items():
            wheel.writestr(path, text)
    return folder / name
