"""Damaged stores: what is damaged is noticed and named, what is not can be read, and nothing is made worse."""

import random
import sqlite3
from pathlib import Path

import pytest

from tests.makers import make_observation, make_plan, make_profile, make_run, make_submission
from trainfare.errors import StoreError
from trainfare.store.history import History
from trainfare.store.open import open_history

PROFILES = {name: make_profile(id=name, samples=1000 + n) for n, name in enumerate(("p7k2", "p8", "p9"))}


def fill(history: History) -> None:
    for profile in PROFILES.values():
        history.add_profile(profile)
    history.add_plan(make_plan())
    history.add_run(make_run())
    history.add_observation(make_observation())
    history.add_submission(make_submission(id="s4"))
    history.withdraw_submission("s4")
    history.add_submission(make_submission())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "history.db"
    with open_history(str(path)) as history:
        fill(history)
    return path


def execute(path: Path, statement: str, *values: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_a_changed_document_is_named_and_the_others_can_be_read(path: Path) -> None:
    execute(path, "UPDATE profiles SET document = replace(document, '1001', '1007') WHERE id = 'p8'")
    with open_history(str(path)) as history:
        assert {profile.id for profile in history.profiles()} == {"p7k2", "p9"}
        assert len(history.damaged) == 1
        assert history.damaged[0].startswith(f"profile p8 in {path} is damaged: its checksum does not match.")
        assert "`trainfare profiles rm p8`" in history.damaged[0]
        with pytest.raises(StoreError, match=r"profile p8 in .* is damaged"):
            history.profile("p8")
        assert history.profile("p9") == PROFILES["p9"]


def test_a_damaged_row_is_reported_once_however_often_it_is_met(path: Path) -> None:
    execute(path, "UPDATE profiles SET document = '{}' WHERE id = 'p8'")
    with open_history(str(path)) as history:
        assert history.profiles() == history.profiles()
        assert len(history.damaged) == 1


def test_a_damaged_profile_can_be_taken_off_the_list(path: Path) -> None:
    execute(path, "UPDATE profiles SET document = '{}' WHERE id = 'p8'")
    with open_history(str(path)) as history:
        history.remove_profile("p8")
        assert len(history.profiles()) == 2
        assert history.damaged == ()


def test_a_document_under_the_name_of_another_is_noticed(path: Path) -> None:
    execute(
        path,
        "UPDATE profiles SET (document, sha256) = (SELECT document, sha256 FROM profiles WHERE id = 'p9')"
        "WHERE id = 'p8'",
    )
    with open_history(str(path)) as history, pytest.raises(StoreError, match=r"profile p8 .* is damaged"):
        history.profile("p8")


def test_a_plan_with_a_damaged_estimate_is_named_and_the_other_estimates_can_be_read(path: Path) -> None:
    execute(path, "UPDATE estimates SET document = 'x' WHERE rank = 1")
    with open_history(str(path)) as history:
        with pytest.raises(StoreError, match=r"estimate n4t9/1 in .* is damaged"):
            history.plan("n4t9")
        assert history.plans() == ()
        assert history.estimates("p7k2") == (make_plan().chosen,)
        assert len(history.damaged) == 1


def test_a_plan_that_misses_an_estimate_is_named(path: Path) -> None:
    execute(path, "DELETE FROM estimates WHERE rank = 1")
    missing = r"plan n4t9 .* 1 of its 2 estimates are missing"
    with open_history(str(path)) as history, pytest.raises(StoreError, match=missing):
        history.plan("n4t9")


def test_damaged_runs_and_observations_are_named(path: Path) -> None:
    execute(path, "UPDATE runs SET document = 'x'")
    execute(path, "UPDATE observations SET document = 'x'")
    with open_history(str(path)) as history:
        assert not history.runs()
        assert not history.observations("r93")
        assert [sentence.split(" in ")[0] for sentence in history.damaged] == ["run r93", "observation r93/0"]


def test_a_damaged_submission_is_named_and_can_be_withdrawn(path: Path) -> None:
    execute(path, "UPDATE submissions SET document = replace(document, '30.0', '90.0') WHERE id = 's5j8'")
    with open_history(str(path)) as history:
        assert history.submissions() == ()
        assert history.damaged[0].startswith(f"submission s5j8 in {path} is damaged: its checksum does not match.")
        assert "`trainfare schedule withdraw s5j8` takes it off the list." in history.damaged[0]
        with pytest.raises(StoreError, match=r"submission s5j8 in .* is damaged"):
            history.submission("s5j8")
        history.withdraw_submission("s5j8")
    with open_history(str(path)) as history:
        assert history.submissions() == ()
        assert history.damaged == ()


def test_a_document_of_a_newer_version_is_left_out_and_says_why(path: Path) -> None:
    from trainfare.store.sql import _checksum

    text = '{"kind":"profile","version":99}'
    checksum = _checksum("profile", "p8", text)
    execute(path, "UPDATE profiles SET document = ?, sha256 = ? WHERE id = 'p8'", text, checksum)
    with open_history(str(path)) as history:
        assert len(history.profiles()) == 2
        assert "newer trainfare" in history.damaged[0]


def test_garbage_is_not_a_history_and_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    garbage = random.Random(1).randbytes(20_000)  # noqa: S311  # the same garbage each time
    path.write_bytes(garbage)
    with pytest.raises(StoreError, match=f"{path} is not a history: .* left as it is"):
        open_history(str(path))
    assert path.read_bytes() == garbage


def survives(path: Path) -> str:
    """How a store that may be damaged behaves: "whole", "noticed" or "lost in silence". Never a wrong fact."""
    plan = make_plan()
    try:
        with open_history(str(path)) as history:
            listed = {profile.id: profile for profile in history.profiles()}
            assert listed.items() <= PROFILES.items(), "a wrong fact was told"
            whole = (
                listed == PROFILES == {name: history.profile(name) for name in PROFILES}
                and history.plans() == (plan,)
                and history.runs() == (make_run(),)
                and history.observations("r93") == (make_observation(),)
                and history.submissions() == (make_submission(),)
                and history.estimates("p7k2") == (plan.chosen, *plan.runners_up)
            )
            return "whole" if whole else "noticed" if history.damaged else "lost in silence"
    except StoreError:
        return "noticed"


@pytest.mark.parametrize("tenth", range(10))
def test_a_truncated_store_is_noticed(path: Path, tenth: int) -> None:
    contents = path.read_bytes()
    path.write_bytes(contents[: 1 + len(contents) * tenth // 10])
    assert survives(path) == "noticed"


def test_flipped_bits_never_tell_a_wrong_fact_and_are_noticed(path: Path) -> None:
    contents = path.read_bytes()
    chance = random.Random(7)  # noqa: S311  # the same flips each time
    # A flip in a page's unused space harms nobody: aim at bytes that are used.
    used = [place for place, byte in enumerate(contents) if byte]
    verdicts = set()
    for _ in range(100):
        flipped = bytearray(contents)
        flipped[chance.choice(used)] ^= 1 << chance.randrange(8)
        for leftover in path.parent.glob("history.db-*"):
            leftover.unlink()
        path.write_bytes(flipped)
        verdicts.add(survives(path))
    assert verdicts <= {"whole", "noticed"}


def test_a_changed_row_in_postgresql_is_named(postgres: str) -> None:
    import psycopg

    with open_history(postgres) as history:
        fill(history)
        with psycopg.connect(postgres) as connection:
            connection.execute("UPDATE profiles SET document = replace(document, '1001', '1007')")
        assert {profile.id for profile in history.profiles()} == {"p7k2", "p9"}
        assert "profile p8" in history.damaged[0]
