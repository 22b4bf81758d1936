"""Listing, showing, removing and importing stored profiles."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.makers import make_plan, make_profile
from trainfare.app.profiling.profiles import import_profile, list_profiles, remove_profiles, show_log, show_profile
from trainfare.errors import NotFoundError, UsageError
from trainfare.settings import Settings
from trainfare.store.logs import save_log
from trainfare.store.open import open_history
from trainfare.views.profile import profile_record


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store=str(tmp_path / "history.db"), logs=str(tmp_path / "logs"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The JSON document of a profile of another machine."""
    file = tmp_path / "p7k2.json"
    file.write_text(json.dumps(profile_record(make_profile())))
    return file


def store(settings: Settings, *names: str) -> None:
    with open_history(settings.store) as history:
        for name in names:
            history.profiles.add(make_profile(id=name))


def test_new_store_lists_nothing(settings: Settings) -> None:
    open_history(settings.store).close()
    assert list_profiles(settings=settings).profiles == ()


def test_stored_profile_is_listed_and_shown(settings: Settings) -> None:
    store(settings, "p1", "p2")
    assert {profile.id for profile in list_profiles(settings=settings).profiles} == {"p1", "p2"}
    assert show_profile("p1", settings=settings) == make_profile(id="p1")


def test_log_is_shown_and_removed_with_its_profile(settings: Settings) -> None:
    store(settings, "p1", "p2")
    save_log(Path(settings.logs), "p1", "loss 0.1\n")
    assert show_log("p1", settings=settings) == "loss 0.1\n"
    remove_profiles(["p1"], settings=settings)
    assert list(Path(settings.logs).iterdir()) == []
    with pytest.raises(NotFoundError):
        show_log("p1", settings=settings)


@pytest.mark.parametrize(("origin", "why"), [("code", "own process"), ("hf", "past run"), ("probe", "another machine")])
def test_profile_without_a_log_gives_the_reason(settings: Settings, origin: str, why: str) -> None:
    with open_history(settings.store) as history:
        history.profiles.add(make_profile(id="p1", origin=origin))
    with pytest.raises(UsageError, match=f"no output of profile p1 is stored: .*{why}"):
        show_log("p1", settings=settings)


def test_damaged_profile_is_listed_as_damaged(settings: Settings) -> None:
    import sqlite3

    store(settings, "p1", "p2")
    connection = sqlite3.connect(settings.store)
    with connection:
        connection.execute("UPDATE profiles SET document = '{' WHERE id = 'p1'")
    connection.close()
    listed = list_profiles(settings=settings)
    assert [profile.id for profile in listed.profiles] == ["p2"]
    assert listed.damaged[0].startswith("profile p1 ")
    assert remove_profiles(["p1"], settings=settings) == ("p1",)
    assert list_profiles(settings=settings).damaged == ()


def test_profiles_are_removed_all_or_none(settings: Settings) -> None:
    store(settings, "p1", "p2")
    with pytest.raises(NotFoundError):
        remove_profiles(["p1", "nope"], settings=settings)
    assert len(list_profiles(settings=settings).profiles) == 2
    assert remove_profiles(["p1", "p2", "p1"], settings=settings) == ("p1", "p2")
    assert list_profiles(settings=settings).profiles == ()


def test_json_of_a_profile_can_be_imported(settings: Settings, file: Path) -> None:
    imported = import_profile(str(file), settings=settings)
    assert imported.is_new
    assert imported.profile == make_profile()
    assert show_profile("p7k2", settings=settings) == make_profile()


def test_second_import_changes_nothing(settings: Settings, file: Path) -> None:
    import_profile(str(file), settings=settings)
    assert not import_profile(str(file), settings=settings).is_new
    assert len(list_profiles(settings=settings).profiles) == 1


def test_import_restores_a_removed_profile(settings: Settings, file: Path) -> None:
    import_profile(str(file), settings=settings)
    remove_profiles(["p7k2"], settings=settings)
    assert import_profile(str(file), settings=settings).is_new
    assert show_profile("p7k2", settings=settings) == make_profile()


@pytest.mark.parametrize("removed", [False, True])
def test_other_profile_with_a_stored_id_is_refused(settings: Settings, file: Path, removed: bool) -> None:
    with open_history(settings.store) as history:
        history.profiles.add(replace(make_profile(), micro_batch_size=1))
        if removed:
            history.profiles.remove("p7k2")
    with pytest.raises(UsageError, match="another profile p7k2"):
        import_profile(str(file), settings=settings)


RECORD = profile_record(make_profile())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("\x00\xff garbage", "not JSON"),
        ("[]", "not a profile"),
        ('{"kind": "plan"}', "not a profile but a plan"),
        ('{"kind": "profile"}', "no version"),
        (json.dumps(RECORD | {"version": 99}), "newer trainfare"),
        (json.dumps(RECORD | {"iteration_seconds": [-1.0]}), "iteration_seconds must be positive"),
        (json.dumps(RECORD | {"micro_batch_size": "many"}), "micro_batch_size"),
        (json.dumps(RECORD | {"id": "../../etc"}), "is not a valid id"),
        (json.dumps(RECORD | {"id": "p\x1b[31m"}), "is not a valid id"),
        ("[" * 100_000, "cannot be imported"),
    ],
)
def test_document_that_is_not_a_profile_is_refused(settings: Settings, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=message) as caught:
        import_profile(str(file), settings=settings)
    assert str(file) in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert not Path(settings.store).exists(), "nothing is stored"


def test_missing_file_is_named(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        import_profile(str(tmp_path / "nope.json"), settings=settings)
    with pytest.raises(UsageError, match="Is a directory"):
        import_profile(str(tmp_path), settings=settings)


def test_removing_a_profile_keeps_the_plans_based_on_it(settings: Settings) -> None:
    store(settings, "p7k2")
    with open_history(settings.store) as history:
        history.plans.add(make_plan())
    remove_profiles(["p7k2"], settings=settings)
    with open_history(settings.store) as history:
        assert history.plans.all() == (make_plan(),)


def test_record_has_derived_fields() -> None:
    profile = make_profile(validation_seconds=(), loss=(), samples=None)
    record = json.loads(json.dumps(profile_record(profile), allow_nan=False))
    assert record["name"] == "train.py"
    assert record["command"] == "python train.py"
    assert record["first_iteration_seconds"] == 1.0
    assert record["median_iteration_seconds"] == pytest.approx(0.10)
    assert record["iteration_seconds"][0] == 1.0
    assert record["samples"] is None
    assert record["loss"] == record["validation_seconds"] == []


def test_record_of_one_iteration_has_no_median() -> None:
    assert profile_record(make_profile(iteration_seconds=(1.0,)))["median_iteration_seconds"] is None
