"""The house stands: imports only go down the floors, and the rooms that think touch nothing outside."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "trainfare"

FLOORS = (
    ("cli",),
    ("web", "client", "queue", "profiles", "plans", "runs", "calibrations"),
    ("app",),
    ("papers",),
    ("views", "figures", "settings"),
    ("recommender", "scheduler", "runner"),
    ("estimator",),
    ("profiler", "catalog", "measurements", "clouds", "store"),
    ("model",),
    ("errors", "units", "probe", "agent", "_public"),
)
FLOOR_OF = {room: number for number, floor in enumerate(FLOORS) for room in floor}

THINKING = ("estimator", "recommender", "scheduler", "runner", "views", "figures")
"""Rooms that import no door."""
DOORS = ("profiler", "catalog", "measurements", "clouds", "store", "settings")
PURE = ("model", *THINKING, "units", "errors")
"""No clock, no network, no files, no processes, no randomness of their own."""

WORLD = {
    "asyncio", "glob", "http", "io", "multiprocessing", "os", "pathlib", "platform", "random", "secrets",
    "select", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading",
    "time", "urllib", "uuid", "boto3", "httpx", "platformdirs", "psycopg", "requests", "rich", "sqlalchemy",
    "torch", "typer",
}  # fmt: skip
WORLDLY_CALLS = {"open", "print", "input", "exec", "eval", "now", "today", "utcnow"}
ALLOWED = {("model/program.py", "pathlib.PurePath"), ("model/program.py", "pathlib")}
"""PurePath takes paths apart without looking at a disk."""

LOW = ("probe", "agent")
"""They run in the user's process or on a rented machine, where nothing of ours is installed."""


def room_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FILES = sorted(path for path in SRC.rglob("*.py") if path != SRC / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_only_go_down_the_floors(path: Path) -> None:
    room = room_of(path)
    for name in imports_of(ast.parse(path.read_text())):
        parts = name.split(".")
        if parts[0] != "trainfare" or parts[1] == room or parts[1].startswith("__version__"):
            continue
        assert room not in LOW, f"{room}/ must import nothing of ours, not {name}"
        assert FLOOR_OF[parts[1]] > FLOOR_OF[room], f"{room}/ must not know {name}"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) in PURE], ids=lambda p: str(p.relative_to(SRC)))
def test_rooms_that_think_touch_nothing_outside(path: Path) -> None:
    tree = ast.parse(path.read_text())
    where = str(path.relative_to(SRC))
    for name in imports_of(tree):
        assert name.split(".")[0] not in WORLD or (where, name) in ALLOWED, f"{where} imports {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            assert name not in WORLDLY_CALLS, f"{where}:{node.lineno} calls {name}()"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) in LOW], ids=lambda p: str(p.relative_to(SRC)))
def test_what_runs_elsewhere_needs_only_the_standard_library(path: Path) -> None:
    """A framework may be imported inside a function: the hook that runs once the program has imported it."""
    import sys

    for node in ast.parse(path.read_text()).body:
        for name in imports_of(node) if isinstance(node, ast.Import | ast.ImportFrom) else ():
            assert name.split(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(path) for path in FILES}
    assert rooms == set(FLOOR_OF)


INSIDE = {
    "estimator": (
        ("spot",),
        ("estimate",),
        ("phase_calculations",),
        ("prediction",),
        ("calibration",),
        ("cost", "cpu", "gpu"),
        ("batch", "epochs", "parallel"),
        ("step",),
        ("columns", "fitting", "memory"),
    ),
    "recommender": (
        ("probing", "split", "clusters", "comparison"),
        ("explain",),
        ("spot", "ranking_confidence", "pareto", "here"),
        ("limits", "crossovers", "candidates"),
        ("choose",),
        ("names", "options"),
    ),
    "scheduler": (
        ("queue_plan",),
        ("simulation",),
        ("policies",),
        ("packing",),
        ("bounds", "evaluate", "job_table", "pricing"),
        ("execution", "highs", "legal", "limits", "tables"),
    ),
    "runner": (
        ("status", "accuracy", "charges"),
        ("decide", "receipt", "measured_profile"),
        ("recovery",),
        ("better", "checkpoints", "limits", "resuming"),
        ("life", "observed", "progress", "traffic"),
        ("caps", "collecting", "gang", "seen", "waiting"),
    ),
    "app": (
        ("serving",),
        ("probing",),
        ("running",),
        ("queue",),
        ("recommending",),
        ("profiling", "learning"),
        ("catalog", "figures", "ids", "programs", "stated"),
    ),
}
"""The floors inside the large rooms: each folder or file imports only what stands below it."""


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) in INSIDE], ids=lambda p: str(p.relative_to(SRC)))
def test_imports_only_go_down_inside_a_room(path: Path) -> None:
    room = room_of(path)
    floor_of = {part: number for number, floor in enumerate(INSIDE[room]) for part in floor}
    part = path.relative_to(SRC / room).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    for name in imports_of(ast.parse(path.read_text())):
        parts = name.split(".")
        if parts[:2] == ["trainfare", room] and parts[2] != part:
            assert floor_of[parts[2]] > floor_of[part], f"{room}/{part} must not know {name}"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(p) in THINKING], ids=lambda p: str(p.relative_to(SRC)))
def test_rooms_that_think_import_no_door(path: Path) -> None:
    for name in imports_of(ast.parse(path.read_text())):
        parts = name.split(".")
        assert parts[0] != "trainfare" or parts[1] not in DOORS, f"{room_of(path)}/ must not know {name}"
