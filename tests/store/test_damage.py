"""Damaged stores: the damage is detected and named, everything else can be read, and nothing is made worse."""

import random
import sqlite3
from pathlib import Path

import pytest

from tests.makers import NOON, make_fact, make_observation, make_plan, make_profile, make_run, make_submission
from trainfare.errors import StoreError
from trainfare.store.history import History
from trainfare.store.open import open_history
from trainfare.store.rows import checksum

PROFILES = {name: make_profile(id=name, samples=1000 + n) for n, name in enumerate(("p7k2", "p8", "p9"))}

FACTS = tuple(
    make_fact(number=n, kind=kind) for n, kind in enumerate(("launch intended", "machines seen", "terminated"))
)
OBSERVATIONS = tuple(make_observation(number=number) for number in (1, 2, 3))


def fill(history: History) -> None:
    for profile in PROFILES.values():
        history.profiles.add(profile)
    history.plans.add(make_plan())
    history.runs.add(make_run())
    lease = history.leases.take("run/r93", holder="laptop", seconds=60, now=NOON)
    for fact in FACTS:
        history.facts.append(fact, lease=lease)
    history.observations.add_all(OBSERVATIONS)
    history.submissions.add(make_submission(id="s4"))
    history.submissions.remove("s4")
    history.submissions.add(make_submission())


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
        assert {profile.id for profile in history.profiles.all()} == {"p7k2", "p9"}
        assert len(history.damaged) == 1
        assert history.damaged[0].startswith(f"profile p8 in {path} is damaged: its checksum does not match.")
        assert "`trainfare profiles rm p8`" in history.damaged[0]
        with pytest.raises(StoreError, match=r"profile p8 in .* is damaged"):
            history.profiles.get("p8")
        assert history.profiles.get("p9") == PROFILES["p9"]


def test_a_damaged_row_is_reported_once_however_often_it_is_listed(path: Path) -> None:
    execute(path, "UPDATE profiles SET document = '{}' WHERE id = 'p8'")
    with open_history(str(path)) as history:
        assert history.profiles.all() == history.profiles.all()
        assert len(history.damaged) == 1


def test_a_damaged_profile_can_be_removed(path: Path) -> None:
    execute(path, "UPDATE profiles SET document = '{}' WHERE id = 'p8'")
    with open_history(str(path)) as history:
        history.profiles.remove("p8")
        assert len(history.profiles.all()) == 2
        assert history.damaged == ()


def test_a_document_under_the_name_of_another_is_detected(path: Path) -> None:
    execute(
        path,
        "UPDATE profiles SET (document, sha256) = (SELECT document, sha256 FROM profiles WHERE id = 'p9')"
        "WHERE id = 'p8'",
    )
    with open_history(str(path)) as history, pytest.raises(StoreError, match=r"profile p8 .* is damaged"):
        history.profiles.get("p8")


def test_a_plan_with_a_damaged_estimate_is_named_and_the_other_estimates_can_be_read(path: Path) -> None:
    execute(path, "UPDATE estimates SET document = 'x' WHERE rank = 1")
    with open_history(str(path)) as history:
        with pytest.raises(StoreError, match=r"estimate n4t9/1 in .* is damaged"):
            history.plans.get("n4t9")
        assert history.plans.all() == ()
        assert history.estimates.of("p7k2") == (make_plan().chosen,)
        assert len(history.damaged) == 1


def test_a_plan_with_a_missing_estimate_is_named(path: Path) -> None:
    execute(path, "DELETE FROM estimates WHERE rank = 1")
    missing = r"plan n4t9 .* 1 of its 2 estimates are missing"
    with open_history(str(path)) as history, pytest.raises(StoreError, match=missing):
        history.plans.get("n4t9")


def test_damaged_runs_and_observations_are_named(path: Path) -> None:
    execute(path, "UPDATE runs SET document = 'x'")
    execute(path, "UPDATE observations SET document = 'x' WHERE number = 2")
    with open_history(str(path)) as history:
        assert not history.runs.all()
        assert history.observations.of("r93") == (OBSERVATIONS[0], OBSERVATIONS[2])
        assert [sentence.split(" in ")[0] for sentence in history.damaged] == ["run r93", "observation r93/1/0/2"]
        assert history.facts.of("r93") == FACTS
        assert history.facts.unended_runs() == ("r93",)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("statement", ["UPDATE facts SET document = 'x'", "UPDATE facts SET document = '{}'"])
def test_a_run_with_a_damaged_fact_has_no_state_but_is_still_listed(path: Path, statement: str, number: int) -> None:
    execute(path, f"{statement} WHERE number = {number}")
    with open_history(str(path)) as history:
        with pytest.raises(StoreError, match=rf"fact r93/{number} in .* is damaged: its checksum"):
            history.facts.of("r93")
        assert history.damaged[0].startswith(f"fact r93/{number} in {path} is damaged")
        assert history.runs.all() == (make_run(),)
        assert history.facts.unended_runs() == ("r93",)


@pytest.mark.parametrize("number", [0, 1])
def test_a_missing_fact_is_named(path: Path, number: int) -> None:
    execute(path, "DELETE FROM facts WHERE number = ?", str(number))
    with open_history(str(path)) as history, pytest.raises(StoreError, match=f"fact r93/{number} .* it is missing"):
        history.facts.of("r93")


def test_a_fact_of_an_unknown_kind_cannot_be_inserted(path: Path) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="ck_facts_kind"):
        execute(path, "INSERT INTO facts VALUES ('r93', 3, 'exploded', '{}', '')")


def test_a_damaged_submission_is_named_and_can_be_withdrawn(path: Path) -> None:
    execute(path, "UPDATE submissions SET document = replace(document, '30.0', '90.0') WHERE id = 's5j8'")
    with open_history(str(path)) as history:
        assert history.submissions.all() == ()
        assert history.damaged[0].startswith(f"submission s5j8 in {path} is damaged: its checksum does not match.")
        assert "`trainfare queue cancel s5j8` takes it off the list." in history.damaged[0]
        with pytest.raises(StoreError, match=r"submission s5j8 in .* is damaged"):
            history.submissions.get("s5j8")
        history.submissions.remove("s5j8")
    with open_history(str(path)) as history:
        assert history.submissions.all() == ()
        assert history.damaged == ()


def test_a_document_of_a_newer_version_is_left_out_and_says_why(path: Path) -> None:
    text = '{"kind":"profile","version":99}'
    execute(path, "UPDATE profiles SET document = ?, sha256 = ? WHERE id = 'p8'", text, checksum("profile", "p8", text))
    with open_history(str(path)) as history:
        assert len(history.profiles.all()) == 2
        assert "newer trainfare" in history.damaged[0]


def test_garbage_is_not_a_history_and_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    garbage = random.Random(1).randbytes(20_000)
    path.write_bytes(garbage)
    with pytest.raises(StoreError, match=f"{path} is not a history: .* left unchanged"):
        open_history(str(path))
    assert path.read_bytes() == garbage


def check_store(path: Path) -> str:
    """The state of a store that may be damaged: "complete", "detected" or "lost silently". It never returns wrong
    facts."""
    plan = make_plan()
    try:
        with open_history(str(path)) as history:
            listed = {profile.id: profile for profile in history.profiles.all()}
            assert listed.items() <= PROFILES.items(), "a wrong fact was read"
            complete = (
                listed == PROFILES == {name: history.profiles.get(name) for name in PROFILES}
                and history.plans.all() == (plan,)
                and history.runs.all() == (make_run(),)
                and history.facts.of("r93") == FACTS
                and history.facts.unended_runs() == ("r93",)
                and history.observations.of("r93") == OBSERVATIONS
                and history.submissions.all() == (make_submission(),)
                and history.estimates.of("p7k2") == (plan.chosen, *plan.runners_up)
            )
            return "complete" if complete else "detected" if history.damaged else "lost silently"
    except StoreError:
        return "detected"


@pytest.mark.parametrize("tenth", range(10))
def test_a_truncated_store_is_detected(path: Path, tenth: int) -> None:
    contents = path.read_bytes()
    path.write_bytes(contents[: 1 + len(contents) * tenth // 10])
    assert check_store(path) == "detected"


def test_flipped_bits_are_detected_and_never_read_as_wrong_facts(path: Path) -> None:
    contents = path.read_bytes()
    chance = random.Random(7)
    # A flip in a page's unused space has no effect: flip bits of bytes that are used.
    used = [place for place, byte in enumerate(contents) if byte]
    verdicts = set()
    for _ in range(100):
        flipped = bytearray(contents)
        flipped[chance.choice(used)] ^= 1 << chance.randrange(8)
        for leftover in path.parent.glob("history.db-*"):
            leftover.unlink()
        path.write_bytes(flipped)
        verdicts.add(check_store(path))
    assert verdicts <= {"complete", "detected"}


def test_a_changed_row_in_postgresql_is_named(postgres: str) -> None:
    import psycopg

    with open_history(postgres) as history:
        fill(history)
        with psycopg.connect(postgres) as connection:
            connection.execute("UPDATE profiles SET document = replace(document, '1001', '1007')")
        assert {profile.id for profile in history.profiles.all()} == {"p7k2", "p9"}
        assert "profile p8" in history.damaged[0]
