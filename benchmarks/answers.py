"""How long a warm server takes to answer what-ifs: `python -m benchmarks.answers`.

The same question with another goal, deadline or budget is answered from remembered estimates. It is timed from the
question to the JSON text, as `POST /recommendations` answers it, with every machine and without. The time of the
processor is printed with that of the clock, because the machine may have other work.
"""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from tests.makers import make_profile
from trainfare.app.recommending.question import Question
from trainfare.app.recommending.recommend import Recommendation
from trainfare.app.stated import StatedLength
from trainfare.model.plan import Goal
from trainfare.settings import Settings
from trainfare.store.open import open_history
from trainfare.views.recommendation import recommendation_record
from trainfare.web.answers import AnswerMemo

REPEATS = 20


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        places: dict[str, Any] = {
            name: str(Path(folder) / name) for name in ("machines", "prices", "calibrations", "logs", "runs")
        }
        settings = Settings(store=str(Path(folder) / "history.db"), **places)
        with open_history(settings.store) as history:
            history.profiles.add(make_profile())
        answers = AnswerMemo()
        question = Question(goal=Goal(), length=StatedLength(epochs=90))
        print(f"{'':25} {'median':>8} {'slowest':>8} {'processor':>10}")
        _report("first question", [_timed(lambda: _text(answers.answer(question, settings=settings)))])
        goals = [Goal(kind="weighted", weight_time=number / REPEATS) for number in range(REPEATS)]
        what_ifs = [replace(question, goal=goal) for goal in goals]
        for name, write in (("what-if", _text), ("what-if, every machine", _text_of_every_machine)):
            _report(name, [_timed(lambda: write(answers.answer(each, settings=settings))) for each in what_ifs])  # noqa: B023 # called at once


def _report(name: str, times: list[tuple[float, float]]) -> None:
    clock, processor = [1000 * each[0] for each in times], [1000 * each[1] for each in times]
    print(f"{name:25} {median(clock):5.0f} ms {max(clock):5.0f} ms {median(processor):7.0f} ms")


def _text(found: Recommendation) -> str:
    return json.dumps(recommendation_record(found.plan, found.profiles, (found.plan.chosen, *found.plan.runners_up)))


def _text_of_every_machine(found: Recommendation) -> str:
    return json.dumps(recommendation_record(found.plan, found.profiles, found.machines))


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    """The seconds that it takes by the clock, and of the processor."""
    began, worked = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - worked


if __name__ == "__main__":
    main()
