"""The REST API under `/api/v1`: one file per resource, with the use cases of `app/` and the records of `views/`.

Lists come in pages, the newest first. Errors are problem documents. What only reads needs the role `viewer`, what
profiles or spends `member`, and tokens and commands on the server `admin`.
"""

from fastapi import APIRouter

from trainfare.web.api import catalog, costs, history, me, plans, profiles, queue, runs, tasks, tokens
from trainfare.web.problems import RESPONSES

router = APIRouter(responses=RESPONSES)
for module in (me, profiles, tasks, plans, runs, costs, catalog, queue, tokens, history):
    router.include_router(module.router)
