"""Policies by name."""

import pytest

from trainfare.errors import NotFoundError
from trainfare.scheduler.policies.registry import POLICIES, canonical_policy_name, load_policy


@pytest.mark.parametrize("name", POLICIES)
def test_every_registered_policy_can_be_loaded(name: str) -> None:
    assert callable(load_policy(name))


@pytest.mark.parametrize("spelled", ["PathRelinking", "path-relinking", " PATH_RELINKING "])
def test_policy_names_are_case_and_separator_insensitive(spelled: str) -> None:
    assert canonical_policy_name(spelled) == "path_relinking"


def test_unknown_policy_error_names_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="Did you mean greedy"):
        load_policy("gredy")
