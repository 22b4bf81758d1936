"""What a reader asks for, as the fields of a form or the query of a link: both have the same names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from trainfare.app.recommending.question import Question
from trainfare.app.stated import StatedLength
from trainfare.model.plan import Goal, GoalKind
from trainfare.model.scope import Scope
from trainfare.units import format_count, format_duration, format_usd, parse_duration

FIELDS = ("goal", "weight", "epochs", "steps", "batch", "deadline", "budget", "confidence", "spot", "rent_only")
GOALS = ("cheapest", "fastest")
WEIGHTS = tuple(round(0.1 * index, 1) for index in range(11))
"""The positions of the slider from only cost to only time."""
NO_LIMIT = "no limit"
_EPOCHS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 2000, 5000, 10_000)
_STEPS = tuple(digit * 10**power for power in range(2, 7) for digit in (1, 2, 5))
_MINUTES = (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1080, 1440, 2880, 4320, 7200, 10_080, 20_160)
_DOLLARS = tuple(digit * 10.0**power for power in range(-2, 4) for digit in (1, 2, 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The fields as they were typed, what they mean, and a sentence for each that means nothing."""

    typed: Mapping[str, str]
    weight: float = 0.0
    epochs: float | None = None
    steps: int | None = None
    batch: int | None = None
    deadline_seconds: float | None = None
    budget_usd: float | None = None
    confidence: float = 0.9
    spot: bool = False
    rent_only: bool = False
    errors: Mapping[str, str] = field(default_factory=dict)

    def question(self) -> Question:
        """The question for a recommendation."""
        kind: GoalKind = "cheapest" if self.weight <= 0 else "fastest" if self.weight >= 1 else "weighted"
        goal = Goal(
            kind=kind,
            weight_time=self.weight if kind == "weighted" else None,
            deadline_seconds=self.deadline_seconds,
            budget_usd=self.budget_usd,
            confidence=self.confidence,
        )
        return Question(
            goal=goal,
            scope=Scope(spot=self.spot, exclude=("here",) if self.rent_only else ()),
            length=StatedLength(epochs=self.epochs, steps=self.steps),
        )

    def fields(self, **changed: str) -> dict[str, str]:
        """The fields that say the same, without those that are as usual; some of them changed."""
        found = {
            "weight": f"{self.weight:g}" if self.weight else "",
            "epochs": "" if self.epochs is None else f"{self.epochs:g}",
            "steps": "" if self.steps is None else str(self.steps),
            "deadline": "" if self.deadline_seconds is None else deadline_value(self.deadline_seconds),
            "budget": "" if self.budget_usd is None else f"{self.budget_usd:g}",
            "confidence": "" if self.confidence == 0.9 else f"{self.confidence:g}",
            "spot": "1" if self.spot else "",
            "rent_only": "1" if self.rent_only else "",
        }
        return {name: value for name, value in (found | changed).items() if value}

    def link(self, profile_id: str, **changed: str) -> str:
        """The address of the offers for this question."""
        query = urlencode(self.fields(**changed))
        return f"/profiles/{profile_id}/offers" + (f"?{query}" if query else "")


def parse_asked(typed: Mapping[str, str]) -> Asked:
    """The fields of a form or a query. What cannot be read is left out and has a sentence in `errors`."""
    typed = {name: typed.get(name, "").strip() for name in FIELDS}
    errors: dict[str, str] = {}

    def number(name: str, words: str, *, at_least: float, at_most: float = math.inf) -> float | None:
        text = typed[name].replace(",", "").removeprefix("$")
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not at_least <= value <= at_most or not math.isfinite(value):
            errors[name] = words
            return None
        return value

    weight = number("weight", "Write a number from 0, only cost, to 1, only time.", at_least=0, at_most=1)
    if weight is None:
        weight = 1.0 if typed["goal"] == "fastest" else 0.0
    epochs = number("epochs", "Write a number of epochs, like 90.", at_least=1e-6, at_most=1e9)
    steps = number("steps", "Write a whole number of steps, like 20,000.", at_least=1, at_most=1e12)
    if epochs is not None and steps is not None:
        errors["steps"] = "Epochs and steps both say how long to train. Fill in only one of them."
        steps = None
    batch = number("batch", "Write a whole number of samples, like 128.", at_least=1, at_most=1e9)
    budget = number("budget", "Write dollars, like 2.50.", at_least=1e-4, at_most=1e9)
    confidence = number("confidence", "Write a share between 0.5 and 0.99.", at_least=0.5, at_most=0.99)
    deadline: float | None = None
    if typed["deadline"]:
        try:
            deadline = parse_duration(_with_hours(typed["deadline"]))
        except ValueError:
            errors["deadline"] = "Write a time, like 90 min, 2 h or 3 d."
    return Asked(
        typed=typed,
        weight=weight,
        epochs=epochs,
        steps=None if steps is None else int(steps),
        batch=None if batch is None else int(batch),
        deadline_seconds=deadline,
        budget_usd=budget,
        confidence=confidence or 0.9,
        spot=typed["spot"] in ("1", "on", "true"),
        rent_only=typed["rent_only"] in ("1", "on", "true"),
        errors=errors,
    )


def _with_hours(text: str) -> str:
    """A bare number is hours: people do not think of trainings in seconds."""
    words = text.lower().replace("hours", "h").replace("hour", "h").replace("minutes", "min").replace("minute", "min")
    words = words.replace("days", "d").replace("day", "d")
    return f"{words}h" if words.replace(".", "", 1).isdigit() else words


def deadline_value(seconds: float) -> str:
    """The deadline as a link has it: `2h`, `90min`, `45s`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """The positions of a slider: what each means for the form, and in words."""

    name: str
    label: str
    values: list[str]
    texts: list[str]
    position: int
    ends: tuple[str, str] | None = None


def sliders(asked: Asked, epochs: int | None) -> list[Slider]:
    """The sliders of a page, with the asked values among their positions. `epochs` is the number that is assumed."""
    found = []
    if asked.steps is not None:
        values = sorted({*(float(each) for each in _STEPS), float(asked.steps)})
        texts = [format_count(value) for value in values]
        position = values.index(float(asked.steps))
        found.append(
            Slider(name="steps", label="Steps", values=[f"{v:g}" for v in values], texts=texts, position=position)
        )
    elif (now := asked.epochs or epochs) is not None:
        values = sorted({*(float(each) for each in _EPOCHS), float(now)})
        texts = [f"{value:,g}" for value in values]
        found.append(
            Slider(
                name="epochs",
                label="Epochs",
                values=[f"{value:g}" for value in values],
                texts=texts,
                position=values.index(float(now)),
            )
        )
    seconds = sorted(
        {*(60.0 * each for each in _MINUTES), *([asked.deadline_seconds] if asked.deadline_seconds else [])}
    )
    found.append(
        Slider(
            name="deadline",
            label="Deadline",
            values=[*(deadline_value(each) for each in seconds), ""],
            texts=[*(format_duration(each) for each in seconds), NO_LIMIT],
            position=seconds.index(asked.deadline_seconds) if asked.deadline_seconds else len(seconds),
        )
    )
    dollars = sorted({*(float(f"{each:g}") for each in _DOLLARS), *([asked.budget_usd] if asked.budget_usd else [])})
    found.append(
        Slider(
            name="budget",
            label="Budget",
            values=[*(f"{each:g}" for each in dollars), ""],
            texts=[*(format_usd(each) for each in dollars), NO_LIMIT],
            position=dollars.index(asked.budget_usd) if asked.budget_usd else len(dollars),
        )
    )
    weights = sorted({*WEIGHTS, asked.weight})
    found.append(
        Slider(
            name="weight",
            label="What matters",
            values=[f"{each:g}" for each in weights],
            texts=[_weight_text(each) for each in weights],
            position=weights.index(asked.weight),
            ends=("cheap", "fast"),
        )
    )
    return found


def _weight_text(weight: float) -> str:
    if weight <= 0:
        return "only cost"
    if weight >= 1:
        return "only time"
    return "both alike" if weight == 0.5 else f"{'time' if weight > 0.5 else 'cost'} {max(weight, 1 - weight):.0%}"
