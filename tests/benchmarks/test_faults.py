"""The kills of the supervisor reach every label of the source, and count what they should."""

import ast
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import get_args

import pytest

from benchmarks.faults.kills import LIVES, kill_once
from trainfare.app.running import supervise
from trainfare.model.run import FactKind
from trainfare.runner.decide import Call

APP = Path(supervise.__file__).parents[1]
ANY_FACT = ("kind", "action.kind", "fact.kind")


def labels_of(argument: ast.expr) -> set[str]:
    """The labels that a call of `reached` may pass: a text, the kind of a fact, or words with the name of a call."""
    if isinstance(argument, ast.Constant):
        return {str(argument.value)}
    if isinstance(argument, ast.JoinedStr):
        first = argument.values[0]
        assert isinstance(first, ast.Constant)
        assert len(argument.values) == 2
        return {str(first.value) + str(call) for call in get_args(Call)}
    assert ast.unparse(argument) in ANY_FACT, "the labels of this call are unknown"
    return set(get_args(FactKind))


def test_every_label_of_the_source_is_killed_at() -> None:
    found: set[str] = set()
    for path in APP.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "reached":
                found |= labels_of(node.args[0])
    killed_at = {label for life in LIVES.values() for label in life.labels}
    assert killed_at == found


@pytest.mark.parametrize(("life", "label"), [("ends well", "before launch"), ("is refused", "launch refused")])
def test_nothing_is_left_of_a_run_whose_supervisor_is_killed(life: str, label: str) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # it forks: this process may hold threads
        count = pool.submit(kill_once, life, label, "killed", seed=1).result()
    assert (count.kills, count.wrong) == (1, 0)


def test_a_supervisor_that_is_woken_does_not_stand_still_again_at_the_same_label() -> None:
    twice = "from trainfare.app.running.supervise import reached\nfor _ in range(2): reached('before launch')"
    environment = os.environ | {supervise.FREEZE_AT: "before launch"}
    with subprocess.Popen([sys.executable, "-c", twice], env=environment) as process:
        try:
            assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
            process.send_signal(signal.SIGCONT)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
