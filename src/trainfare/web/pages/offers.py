"""The offers for a profile: the answer, the plot, the table and the reasons; and the step to a run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from trainfare.app.serving.offers import OffersAnswer, Picked, answer_offers, keep_plan
from trainfare.estimator.estimate import Totals
from trainfare.figures.offers_plot import OffersPlot, PlotPoint, offers_plot
from trainfare.model.estimate import Estimate
from trainfare.model.offer import Candidate
from trainfare.model.plan import Goal, Plan
from trainfare.recommender.pareto import front as pareto_front
from trainfare.units import format_duration, format_number, format_percent, format_usd, format_usd_per_hour
from trainfare.views.offers_page import (
    BASES,
    MachineTitle,
    answer_lead,
    as_sentence,
    here_phrase,
    limits_phrase,
    machine_title,
    page_topics,
    program_line,
    remedy_buttons,
    titles_of,
)
from trainfare.web.context import ServerSettings
from trainfare.web.pages.question import Asked, Slider, parse_asked, sliders
from trainfare.web.rendering import page, wants_fragment
from trainfare.web.visitors import Member, Viewer

router = APIRouter()

SHOWN_FIRST, SHOWN_MOST = 8, 200
SHOWS = (("within", "Within limits"), ("front", "Best trade-offs"), ("all", "All"))
SORTS = ("cost", "time", "machine", "price")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The rows of the table that are shown, and their order."""

    show: str = "within"
    sort: str = "cost"
    descending: bool = False
    find: str = ""
    more: bool = False
    pin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferTableRow:
    """A line of the table."""

    key: str
    title: MachineTitle
    estimate: Estimate
    advised: bool
    selected: bool
    price: str
    memory: str
    button: str


@router.get("/profiles/{profile_id}/offers")
def offers(profile_id: str, request: Request, visitor: Viewer, settings: ServerSettings) -> Response:
    """The page, or the parts of it that change with the question."""
    asked, shown = parse_asked(request.query_params), _filter(request.query_params)
    answer = answer_offers(profile_id, asked.question(), settings=settings)
    context = {
        "profile_id": profile_id,
        "asked": asked,
        "filter": shown,
        "shows": SHOWS,
        "may_run": visitor.role != "viewer",
        **_context(answer, asked, shown),
    }
    if wants_fragment(request):
        address = asked.link(profile_id, **_filter_fields(shown))
        return page(
            request, "offers_parts.html", visitor=visitor, oob=True, headers={"HX-Replace-Url": address}, **context
        )
    return page(request, "offers.html", visitor=visitor, oob=False, sliders=_sliders(answer, asked), **context)


@router.post("/profiles/{profile_id}/offers")
def choose(
    profile_id: str, _visitor: Member, settings: ServerSettings, question: str = Form(""), on: str = Form("")
) -> Response:
    """Store the plan, and go on to the page that confirms the price."""
    picked = _picked(on) if on else None
    plan_id = keep_plan(profile_id, parse_asked(dict(parse_qsl(question))).question(), picked, settings=settings)
    return RedirectResponse(f"/runs/new?{urlencode({'plan': plan_id})}", status_code=303)


@router.get("/profiles/{profile_id}")
def profile(profile_id: str) -> Response:
    """A profile is shown by what it is good for."""
    return RedirectResponse(f"/profiles/{profile_id}/offers", status_code=303)


def _filter(query: Mapping[str, str]) -> Filter:
    show, sort = query.get("show", ""), query.get("by") or query.get("sort", "")
    descending = sort.startswith("-")
    return Filter(
        show=show if show in dict(SHOWS) else "within",
        sort=sort.removeprefix("-") if sort.removeprefix("-") in SORTS else "cost",
        descending=descending,
        find=query.get("find", "").strip()[:80],
        more=query.get("more") == "1",
        pin=query.get("pin", "")[:200],
    )


def _filter_fields(shown: Filter) -> dict[str, str]:
    sort = f"{'-' if shown.descending else ''}{shown.sort}"
    return {
        "show": "" if shown.show == "within" else shown.show,
        "sort": "" if sort == "cost" else sort,
        "find": shown.find,
        "more": "1" if shown.more else "",
        "pin": shown.pin,
    }


def candidate_key(candidate: Candidate) -> str:
    """The machine as a run names it, with its market and shape, so that a row and a point are the same."""
    offer = candidate.offer
    market = "" if offer.market in ("on_demand", "own") else f":{offer.market}"
    shape = "" if candidate.nodes == 1 else f"*{candidate.nodes}"
    return f"{offer.vm_type.key}{market}{shape}"


def _picked(key: str) -> Picked:
    """The machine of a row: `candidate_key`, read back."""
    machine, _, nodes = key.partition("*")
    machine, _, market = machine.partition(":")
    return Picked(machine=machine, market=market or None, nodes=int(nodes) if nodes.isdecimal() else 1)


def _sliders(answer: OffersAnswer, asked: Asked) -> list[Slider]:
    found = answer.recommendation
    epochs = found.plan.chosen.epochs if found else answer.options[0].epochs if answer.options else None
    return sliders(asked, epochs)


def _context(answer: OffersAnswer, asked: Asked, shown: Filter) -> dict[str, Any]:
    goal, plan = answer.question.goal, answer.recommendation.plan if answer.recommendation else None
    within = [each for each in answer.options if _keeps(each, goal)]
    front = {candidate_key(e.candidate) for e in plan.front} if plan else _front_keys(answer.options)
    rows, count, hidden = _rows(answer, plan, shown, within, front)
    epochs = plan.chosen.epochs if plan else answer.options[0].epochs
    return {
        "program": program_line(answer.profiles[0], None if asked.steps else epochs),
        "answer": _answer(plan, goal, len(within)) if plan else None,
        "trouble": None if plan else _trouble(answer, goal),
        "plot": _plot(answer.options, plan, goal, front),
        "rows": rows,
        "row_count": count,
        "hidden": hidden,
        "within": len(within),
        "total": len(answer.options),
        "topics": page_topics(plan, titles_of((plan.chosen, *plan.runners_up, *plan.front))) if plan else [],
        "scale": max((row.estimate.usd.high for row in rows), default=1.0),
        "seen_on": plan.chosen.candidate.offer.seen_on if plan and not plan.chosen.candidate.offer.is_here else None,
        "bill": _bill(plan.chosen) if plan else [],
        "question_query": urlencode(asked.fields()),
    }


def _keeps(each: Totals, goal: Goal) -> bool:
    deadline, budget = goal.deadline_seconds, goal.budget_usd
    return (deadline is None or each.seconds.upper_bound(goal.confidence) <= deadline) and (
        budget is None or each.usd.upper_bound(goal.confidence) <= budget
    )


def _front_keys(options: Sequence[Totals]) -> set[str]:
    return {candidate_key(each.candidate) for each in pareto_front(options)}


def _answer(plan: Plan, goal: Goal, within: int) -> dict[str, Any]:
    """The headline and the three facts."""
    chosen = plan.chosen
    seconds, usd = chosen.seconds, chosen.usd
    title = machine_title(chosen.candidate)
    word, steps, means = BASES[chosen.basis]
    here = chosen.candidate.offer.is_here
    cost = format_usd(usd.value)
    return {
        "where": "here, on this computer" if here else f"on {title.with_article}",
        "lead": answer_lead(plan, within=within),
        "here": here_phrase(plan),
        "button": _button(title, cost, here=here, advised=True),
        "is_here": here,
        "time": format_duration(seconds.value),
        "time_below": f"{format_duration(seconds.low)} – {format_duration(seconds.high)}, 90% sure",
        "time_limit": f"deadline {format_duration(goal.deadline_seconds)}" if goal.deadline_seconds else "",
        "time_bar": {
            "value": seconds.value,
            "low": seconds.low,
            "high": seconds.high,
            "limit": goal.deadline_seconds,
        },
        "cost": cost,
        "cost_below": f"{format_usd(usd.low)} – {format_usd(usd.high)}, 90% sure" if usd.high else "nothing is rented",
        "cost_limit": f"budget {format_usd(goal.budget_usd)}" if goal.budget_usd else "",
        "cost_bar": {"value": usd.value, "low": usd.low, "high": usd.high, "limit": goal.budget_usd},
        "basis": word,
        "basis_steps": steps,
        "basis_below": means,
    }


def _trouble(answer: OffersAnswer, goal: Goal) -> dict[str, Any]:
    """The note in place of the answer when nothing fits, and the buttons that would help."""
    problem = answer.problem
    limits = limits_phrase(goal).replace("end ", "ends ").replace("cost ", "costs ")
    buttons = remedy_buttons(problem.remedies) if problem else []
    return {
        "headline": f"No machine {limits}" if limits else "No machine can train this",
        "text": as_sentence(problem.message) if problem else "",
        "buttons": [(text, fields) for text, fields in buttons],
        "confidence": format_percent(goal.confidence),
    }


def _plot(options: Sequence[Totals], plan: Plan | None, goal: Goal, front: set[str]) -> OffersPlot:
    chosen = candidate_key(plan.chosen.candidate) if plan else ""
    points = {}
    every: list[Totals | Estimate] = [
        *options,
        *([plan.chosen] if plan else []),
        *([plan.here] if plan and plan.here else []),
    ]
    for each in every:
        key, title = candidate_key(each.candidate), machine_title(each.candidate)
        points[key] = PlotPoint(
            key=key,
            title=title.text,
            short=title.name,
            seconds=each.seconds,
            usd=each.usd,
            on_front=key in front,
            chosen=key == chosen,
        )
    return offers_plot(list(points.values()), goal)


def _rows(
    answer: OffersAnswer, plan: Plan | None, shown: Filter, within: Sequence[Totals], front: set[str]
) -> tuple[list[OfferTableRow], int, int]:
    """The rows that are shown, how many the filter lets through, and how many of these are left out."""
    options: list[Totals | Estimate] = list(within if shown.show == "within" else answer.options)
    if plan is not None and candidate_key(plan.chosen.candidate) not in {candidate_key(e.candidate) for e in options}:
        options.insert(0, plan.chosen)
    if shown.show == "front":
        options = [each for each in options if candidate_key(each.candidate) in front]
    words = shown.find.lower().split()
    options = [each for each in options if all(word in _searched(each.candidate) for word in words)]
    options.sort(key=lambda each: _sort_key(each, shown.sort), reverse=shown.descending)
    most = SHOWN_MOST if shown.more else SHOWN_FIRST
    listed = options[:most]
    chosen = plan.chosen.candidate if plan else None
    always = {candidate_key(chosen)} if chosen and not words else set()
    if shown.pin:
        always.add(shown.pin)
    rest = [*options[most:], *(answer.options if shown.pin else ())]
    present = {candidate_key(each.candidate) for each in listed}
    pinned = {candidate_key(each.candidate): each for each in rest if candidate_key(each.candidate) in always - present}
    listed = [*pinned.values(), *listed]
    picked = shown.pin if shown.pin in present | pinned.keys() else candidate_key(chosen) if chosen else ""
    estimates = _estimates(answer, plan, [each.candidate for each in listed])
    rows = [_row(estimates[each.candidate], chosen, picked) for each in listed]
    return rows, len(options), max(0, len(options) - most)


def _estimates(answer: OffersAnswer, plan: Plan | None, candidates: Sequence[Candidate]) -> dict[Candidate, Estimate]:
    known = {e.candidate: e for e in (plan.chosen, *plan.runners_up, *plan.front)} if plan else {}
    if plan and plan.here:
        known[plan.here.candidate] = plan.here
    missing = [candidate for candidate in candidates if candidate not in known]
    return known | {e.candidate: e for e in answer.workload.unbilled(missing)}


def _row(estimate: Estimate, chosen: Candidate | None, picked: str) -> OfferTableRow:
    candidate = estimate.candidate
    key, title = candidate_key(candidate), machine_title(candidate)
    memory = estimate.memory
    here = candidate.offer.is_here
    cost = format_usd(estimate.usd.value)
    return OfferTableRow(
        key=key,
        title=title,
        estimate=estimate,
        advised=candidate == chosen,
        selected=key == picked,
        price="–" if here and not candidate.usd_per_hour else format_usd_per_hour(candidate.usd_per_hour),
        memory=""
        if memory is None
        else f"{memory.needed_gib.value:.2g} of {format_number(memory.available_gib)} GiB"
        + ("" if memory.verdict == "fits" else f", {memory.verdict}"),
        button=_button(title, cost, here=here, advised=candidate == chosen),
    )


def _button(title: MachineTitle, cost: str, *, here: bool, advised: bool) -> str:
    if here:
        return "Train here"
    return f"Rent and train, about {cost}" if advised else f"Rent {title.name}, about {cost}"


def _searched(candidate: Candidate) -> str:
    title = machine_title(candidate)
    return f"{title.text} {title.code} {candidate.offer.vm_type.key}".lower()


def _sort_key(each: Totals | Estimate, sort: str) -> tuple[Any, ...]:
    match sort:
        case "time":
            return each.seconds.value, each.usd.value
        case "machine":
            words = re.split(r"(\d+)", machine_title(each.candidate).text.lower())
            return [int(word) if word.isdigit() else word for word in words], each.usd.value
        case "price":
            return each.candidate.usd_per_hour, each.usd.value
    return each.usd.value, each.seconds.value


def _bill(chosen: Estimate) -> list[tuple[str, str]]:
    """The parts of the time, phase by phase."""
    return [(phase.name, format_duration(phase.seconds.value)) for phase in chosen.phases if phase.seconds.value]
