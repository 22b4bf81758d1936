"""`/recommendations`, `/plans` and `/estimates`: which machine, how long, how much."""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Path

from trainfare.app.recommending.estimate import estimate
from trainfare.app.recommending.plans import list_plans, show_plan
from trainfare.app.recommending.recommend import Recommendation, save_plan
from trainfare.app.running.train import best_reachable
from trainfare.errors import InfeasibleError
from trainfare.model.document import to_document
from trainfare.model.plan import Plan
from trainfare.recommender.names import machine_name
from trainfare.settings import Settings
from trainfare.views.recommendation import estimation_record, plan_record, recommendation_record
from trainfare.web.answers import answer
from trainfare.web.api.bodies import EstimateBody, RecommendationBody
from trainfare.web.api.paging import DEFAULT_LIMIT, Cursor, Limit, Page, page_of
from trainfare.web.api.records import EstimateRecord, PlanRecord, PlanSummary, RecommendationRecord
from trainfare.web.context import ServerSettings
from trainfare.web.visitors import Viewer

router = APIRouter(tags=["plans"])
PlanId = Annotated[str, Path(max_length=200)]


@router.post("/recommendations", response_model=RecommendationRecord)
def recommend(_visitor: Viewer, settings: ServerSettings, body: RecommendationBody) -> dict[str, Any]:
    """Recommend a machine. The same question with another goal, deadline or budget is answered in a fraction of the
    time of the first."""
    found = answer(body.question(settings.goal), body.profiles, settings=settings)
    if body.store:
        save_plan(found, settings)
    estimates = found.machines if body.every_machine else (found.plan.chosen, *found.plan.runners_up)
    record = {**recommendation_record(found.plan, found.profiles, estimates), "stored": body.store}
    return record | ({"documents": _documents(found, settings)} if body.documents else {})


@router.get("/plans", response_model=Page[PlanSummary])
def list_all(
    _visitor: Viewer, settings: ServerSettings, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, Any]:
    """List the stored plans, the newest first."""
    stored = list_plans(settings=settings)
    return page_of(stored.plans, _summary, lambda each: each.id, limit=limit, cursor=cursor, damaged=stored.damaged)


@router.get("/plans/{plan_id}", response_model=PlanRecord)
def show(_visitor: Viewer, settings: ServerSettings, plan_id: PlanId) -> dict[str, Any]:
    """Show a plan as it was recommended, with the prices of that day."""
    return plan_record(show_plan(plan_id, settings=settings))


@router.post("/estimates", response_model=EstimateRecord)
def estimate_one(_visitor: Viewer, settings: ServerSettings, body: EstimateBody) -> dict[str, Any]:
    """Estimate time and cost on one machine."""
    found = estimate(
        body.profile,
        on=body.on,
        region=body.region,
        spot=body.spot,
        reserved=body.reserved,
        nodes=body.nodes,
        gpus=body.gpus,
        batch_size=body.batch_size,
        settings=settings,
        **body.keywords,
    )
    return estimation_record(found.estimate, found.remarks)


def _documents(found: Recommendation, settings: Settings) -> dict[str, Any]:
    reachable = None
    with suppress(InfeasibleError):
        reachable = best_reachable(found, settings).candidate.offer.vm_type.key
    return {
        "plan": to_document(found.plan),
        "profiles": [to_document(profile) for profile in found.profiles],
        "machines": [to_document(estimate) for estimate in found.machines],
        "reachable": reachable,
    }


def _summary(plan: Plan) -> dict[str, Any]:
    chosen = plan.chosen
    return {
        "plan": plan.id,
        "made_at": plan.made_at.isoformat(),
        "goal": plan.goal.kind,
        "profile": chosen.profile_id,
        "machine": machine_name(chosen.candidate.offer),
        "epochs": chosen.epochs,
        "seconds": chosen.seconds.value,
        "usd": chosen.usd.value,
    }
