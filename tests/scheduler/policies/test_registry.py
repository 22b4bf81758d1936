"""Policies by name."""

import pytest

from trainfare.errors import NotFoundError
from trainfare.scheduler.policies.registry import POLICIES, policy, canonical_policy_name


@pytest.mark.parametrize("name", POLICIES)
def test_every_registered_policy_is_there(name: str) -> None:
    assert callable(policy(name))


@pytest.mark.parametrize("spelled", ["PathRelinking", "path-relinking", " PATH_RELINKING "])
def test_a_policy_is_known_however_it_is_spelled(spelled: str) -> None:
    assert canonical_policy_name(spelled) == "path_relinking"


def test_an_unknown_policy_names_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="Did you mean greedy"):
        policy("gredy")
