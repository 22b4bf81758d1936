"""Which machine should I train this on, how long will it take, what will it cost?

>>> import trainfare
>>> profile = trainfare.profile(["python", "train.py"])                       # doctest: +SKIP
>>> found = trainfare.recommend([profile.id], epochs=90)                      # doctest: +SKIP
>>> found.plan.chosen.seconds, found.plan.chosen.usd, found.plan.reasons      # doctest: +SKIP

The use cases of `trainfare.app` and the nouns of `trainfare.model`, loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "profile": "trainfare.app.profile",
    "list_profiles": "trainfare.app.profiles",
    "show_profile": "trainfare.app.profiles",
    "remove_profiles": "trainfare.app.profiles",
    "import_profile": "trainfare.app.profiles",
    "recommend": "trainfare.app.recommend",
    "Recommendation": "trainfare.app.recommend",
    "list_offers": "trainfare.app.catalog",
    "show_machine": "trainfare.app.catalog",
    "list_gpus": "trainfare.app.catalog",
    "show_gpu": "trainfare.app.catalog",
    "import_prices": "trainfare.app.catalog",
    "Settings": "trainfare.settings",
    "read_settings": "trainfare.settings",
    "TrainfareError": "trainfare.errors",
    "Program": "trainfare.model.program",
    "Operation": "trainfare.model.profile",
    "Profile": "trainfare.model.profile",
    "Gpu": "trainfare.model.machine",
    "Host": "trainfare.model.machine",
    "VmType": "trainfare.model.machine",
    "Offer": "trainfare.model.offer",
    "Candidate": "trainfare.model.offer",
    "Interval": "trainfare.model.interval",
    "Estimate": "trainfare.model.estimate",
    "Goal": "trainfare.model.plan",
    "Plan": "trainfare.model.plan",
    "to_json": "trainfare.model.document",
    "from_json": "trainfare.model.document",
}

__all__ = [  # noqa: PLE0604 names that are loaded on first use are strings of a table
    "__version__",
    *_HOMES,
]

if TYPE_CHECKING:
    from trainfare.app.catalog import import_prices, list_gpus, list_offers, show_gpu, show_machine
    from trainfare.app.profile import profile
    from trainfare.app.profiles import import_profile, list_profiles, remove_profiles, show_profile
    from trainfare.app.recommend import Recommendation, recommend
    from trainfare.errors import TrainfareError
    from trainfare.model.document import from_json, to_json
    from trainfare.model.estimate import Estimate
    from trainfare.model.interval import Interval
    from trainfare.model.machine import Gpu, Host, VmType
    from trainfare.model.offer import Candidate, Offer
    from trainfare.model.plan import Goal, Plan
    from trainfare.model.profile import Operation, Profile
    from trainfare.model.program import Program
    from trainfare.settings import Settings, read_settings


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'trainfare' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
