"""The page that compares the machines that a program was measured on."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from trainfare.app.recommending.compare import compare
from trainfare.errors import UsageError
from trainfare.recommender.comparison import Comparison
from trainfare.recommender.crossovers import WinningRange
from trainfare.units import format_duration, format_ratio, format_usd
from trainfare.views.comparison import length_of, remark_sentence
from trainfare.views.offers_page import as_sentence, machine_title
from trainfare.web.context import ServerSettings
from trainfare.web.rendering import page
from trainfare.web.visitors import Viewer

router = APIRouter()


@router.get("/compare")
def show(
    request: Request,
    visitor: Viewer,
    settings: ServerSettings,
    profile: Annotated[list[str] | None, Query(max_length=50)] = None,
) -> HTMLResponse:
    """Measured machines side by side, and the length from which another one wins."""
    try:
        found = compare(tuple(profile or ()), settings=settings)
    except UsageError as error:
        return page(request, "compare.html", visitor=visitor, section="machines", found=None, problem=error.message)
    return page(
        request,
        "compare.html",
        visitor=visitor,
        section="machines",
        found=found,
        program=found.profiles[0].program.name,
        winners=[("Fastest", _ranges(found.fastest, found)), ("Cheapest", _ranges(found.cheapest, found))],
        lengths=[(length_of(number, found.unit), _rows(found, number)) for number in found.by_iterations],
        remarks=[as_sentence(remark_sentence(remark)) for remark in found.remarks],
    )


def _ranges(ranges: tuple[WinningRange, ...], found: Comparison) -> list[tuple[str, str]]:
    """The machine that wins at each length."""
    if len(ranges) == 1:
        return [(machine_title(ranges[0].estimate.candidate).text, f"whatever the number of {found.unit}")]
    named = []
    for each in ranges:
        until = (
            f"up to {length_of(each.last, found.unit)}"
            if each.last is not None
            else f"from {length_of(each.first, found.unit)} on"
        )
        named.append((machine_title(each.estimate.candidate).text, until))
    return named


def _rows(found: Comparison, number: float) -> list[dict[str, object]]:
    machines = found.by_iterations[number]
    longest = max(each.estimate.seconds.high for each in machines)
    return [
        {
            "title": machine_title(each.estimate.candidate),
            "batch": each.estimate.candidate.batch_size,
            "time": format_duration(each.estimate.seconds.value),
            "seconds": each.estimate.seconds,
            "longest": longest,
            "usd": format_usd(each.estimate.usd.value),
            "slower": "fastest" if each.relative_seconds.value <= 1.0005 else format_ratio(each.relative_seconds.value),
            "cost_ratio": "cheapest" if each.relative_usd.value <= 1.0005 else format_ratio(each.relative_usd.value),
        }
        for each in sorted(machines, key=lambda one: one.estimate.seconds.value)
    ]
