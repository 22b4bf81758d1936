import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import strategies
from tests.makers import make_profile
from trainfare.model import document
from trainfare.model.document import from_document, from_json, to_document, to_json
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile

EVERY_NOUN = st.one_of(
    strategies.profiles(),
    strategies.offers,
    strategies.estimates(),
    strategies.plans(),
    strategies.runs,
    strategies.observations,
    strategies.submissions(),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(EVERY_NOUN)
def test_every_noun_comes_back_from_json_as_it_was(noun: document.Noun) -> None:
    assert from_json(type(noun), to_json(noun)) == noun


def test_json_is_plain_and_says_what_it_is() -> None:
    found = json.loads(to_json(make_profile()))
    assert (found["kind"], found["version"]) == ("profile", document.VERSION)
    assert found["iteration_seconds"] == [1.0, 0.10, 0.11, 0.10, 0.09]


def test_fields_of_a_later_release_are_ignored() -> None:
    profile = make_profile()
    assert from_document(Profile, {**to_document(profile), "colour": "green"}) == profile


def test_fields_that_an_earlier_release_did_not_have_take_their_default() -> None:
    older = {k: v for k, v in to_document(make_profile()).items() if k != "activation_bytes"}
    assert from_document(Profile, older).activation_bytes is None


def test_older_versions_are_lifted_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "VERSION", 2)
    monkeypatch.setitem(document._UPGRADES, ("profile", 1), lambda old: {**old, "framework": old["framework"].upper()})
    old = to_document(make_profile()) | {"version": 1}
    assert from_document(Profile, old).framework == "PYTORCH"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "newer trainfare"),
        ({"version": None}, "no version"),
        ({"kind": "plan"}, "not a profile but a plan"),
        ({"kind": None}, "not a profile"),
        ({"iteration_seconds": [1, -1]}, "iteration_seconds must be positive"),
        ({"iteration_seconds": []}, "at least the first"),
        ({"batch_size": "64"}, "batch_size"),
        ({"operations": [{"kind": "magic", "dtype": "float32", "flops": 1, "bytes": 1}]}, r"operations\[0\]"),
        ({"measured_at": "2026-11-16T12:00:00"}, "time zone"),
    ],
)
def test_a_wrong_document_is_refused_with_what_is_wrong(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_document(Profile, to_document(make_profile()) | change)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"profile"', "\x00", "[" * 100_000])
def test_what_is_not_a_document_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="this is not"):
        from_json(Plan, text)
