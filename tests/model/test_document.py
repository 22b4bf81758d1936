import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import strategies
from tests.makers import make_profile
from trainfare.model import document
from trainfare.model.document import VERSION, from_document, from_json, to_document, to_json
from trainfare.model.plan import Plan
from trainfare.model.profile import Profile

EVERY_NOUN = st.one_of(
    strategies.profiles(),
    strategies.offers,
    strategies.estimates(),
    strategies.plans(),
    strategies.runs(),
    strategies.facts,
    strategies.observations,
    strategies.submissions(),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(EVERY_NOUN)
def test_every_noun_is_read_back_from_json_unchanged(noun: document.Noun) -> None:
    assert from_json(type(noun), to_json(noun)) == noun


def test_json_names_its_kind_and_version() -> None:
    found = json.loads(to_json(make_profile()))
    assert (found["kind"], found["version"]) == ("profile", document.VERSION)
    assert found["iteration_seconds"] == [1.0, 0.10, 0.11, 0.10, 0.09]


def test_fields_of_a_later_release_are_ignored() -> None:
    profile = make_profile()
    assert from_document(Profile, {**to_document(profile), "colour": "green"}) == profile


def test_fields_that_an_earlier_release_did_not_have_take_their_default() -> None:
    older = {k: v for k, v in to_document(make_profile()).items() if k != "activation_bytes"}
    assert from_document(Profile, older).activation_bytes is None


def test_older_versions_are_upgraded_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "VERSION", 4)
    monkeypatch.setitem(document._UPGRADES, ("profile", 2), lambda old: {**old, "framework": old["framework"] + "2"})
    monkeypatch.setitem(document._UPGRADES, ("profile", 3), lambda old: {**old, "framework": old["framework"] + "3"})
    assert from_document(Profile, to_document(make_profile()) | {"version": 2}).framework == "pytorch23"
    assert from_document(Profile, to_document(make_profile()) | {"version": 3}).framework == "pytorch3"
    assert from_document(Profile, to_document(make_profile())).framework == "pytorch"


def test_every_kind_has_a_step_from_every_older_version() -> None:
    assert set(document._UPGRADES) == {(kind, version) for kind in document.KINDS for version in range(1, VERSION)}


def profile_of_version_1(**fields: object) -> dict[str, object]:
    """A profile document as the first release wrote it."""
    new = ("micro_batch_size", "accumulation_steps")
    old = {name: value for name, value in to_document(make_profile()).items() if name not in new}
    return old | {"version": 1, "batch_size": 64, "global_batch_size": None, "world_size": 1} | fields


@pytest.mark.parametrize(
    ("batch_size", "global_batch_size", "world_size", "accumulation_steps", "effective_batch_size"),
    [
        (64, 64, 1, 1, 64),  # neither accumulation nor several processes
        (64, None, 1, 1, 64),  # a past run that recorded only the batch of its loader
        (16, 64, 1, 4, 64),  # accumulation only
        (16, 64, 4, 1, 64),  # data parallelism only
        (16, 128, 4, 2, 128),  # both
        (16, None, 4, 1, 64),  # several processes, nothing known of accumulation
        (None, None, 2, 1, None),  # no batch size at all
    ],
)
def test_the_batch_size_of_a_profile_of_version_1_is_split_into_its_factors(
    batch_size: int | None,
    global_batch_size: int | None,
    world_size: int,
    accumulation_steps: int,
    effective_batch_size: int | None,
) -> None:
    old = profile_of_version_1(batch_size=batch_size, global_batch_size=global_batch_size, world_size=world_size)
    profile = from_document(Profile, old)
    assert profile.micro_batch_size == batch_size
    assert profile.accumulation_steps == accumulation_steps
    assert profile.effective_batch_size == effective_batch_size
    expected = make_profile(micro_batch_size=batch_size, accumulation_steps=accumulation_steps, world_size=world_size)
    assert profile == expected


@pytest.mark.parametrize(
    ("framework", "device", "kind", "dtype"),
    [
        ("pytorch", "cpu", "convolution", "tf32"),
        ("pytorch", "cpu", "matmul", "float32"),
        ("pytorch", "cuda", "convolution", "float32"),  # was recorded there: the program does not allow it
        ("tensorflow", "cpu", "matmul", "tf32"),
        ("jax", "cuda", "matmul", "tf32"),
        ("jax", "cpu", "pointwise", "float32"),
    ],
)
def test_products_of_a_profile_of_version_2_get_the_precision_that_is_default(
    framework: str, device: str, kind: str, dtype: str
) -> None:
    operation = {"kind": kind, "dtype": "float32", "flops": 1.0, "bytes": 1.0}
    old = to_document(make_profile()) | {"version": 2, "framework": framework, "device": device}
    (found,) = from_document(Profile, old | {"operations": [operation]}).operations
    assert found.dtype == dtype


def test_a_profile_of_version_1_without_batch_fields_is_read() -> None:
    old = profile_of_version_1()
    for name in ("batch_size", "global_batch_size", "world_size"):
        del old[name]
    assert from_document(Profile, old).effective_batch_size is None


@pytest.mark.parametrize("batch_size", ["64", 6.5, [64], -1, True])
def test_a_wrong_batch_size_of_version_1_is_refused_by_name(batch_size: object) -> None:
    with pytest.raises(ValueError, match="micro_batch_size"):
        from_document(Profile, profile_of_version_1(batch_size=batch_size, global_batch_size=64))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": VERSION + 1}, "newer trainfare"),
        ({"version": None}, "no version"),
        ({"kind": "plan"}, "not a profile but a plan"),
        ({"kind": "estimate"}, "not a profile but an estimate"),
        ({"kind": None}, "not a profile"),
        ({"iteration_seconds": [1, -1]}, "iteration_seconds must be positive"),
        ({"iteration_seconds": []}, "at least the first"),
        ({"micro_batch_size": "64"}, "micro_batch_size"),
        ({"operations": [{"kind": "magic", "dtype": "float32", "flops": 1, "bytes": 1}]}, r"operations\[0\]"),
        ({"measured_at": "2026-11-16T12:00:00"}, "time zone"),
    ],
)
def test_a_wrong_document_is_refused_with_the_reason(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_document(Profile, to_document(make_profile()) | change)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"profile"', "\x00", "[" * 100_000])
def test_text_that_is_not_a_document_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="this is not"):
        from_json(Plan, text)
