"""The pages of the server: one file per page, one router for all of them."""

from fastapi import APIRouter

from trainfare.web.pages import compare, events, history, machines, new, offers, profile, queue, runs, settings

MODULES = (new, profile, offers, runs, events, machines, history, compare, queue, settings)

router = APIRouter(include_in_schema=False)
for module in MODULES:
    router.include_router(module.router)
