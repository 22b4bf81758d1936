"""`trainfare plans`: list and show stored plans."""

from tests.cli.commands import error_of, read_json, run, store, succeed
from tests.makers import make_plan, make_profile
from tests.model.test_split import make_migration, make_segment, make_split
from trainfare.errors import NotFoundError
from trainfare.model.plan import Plan
from trainfare.settings import read_settings
from trainfare.store.open import open_history


def store_plan(plan: Plan) -> None:
    store(make_profile())
    with open_history(read_settings().store) as history:
        history.plans.add(plan)


def test_a_stored_plan_is_listed_and_shown() -> None:
    store_plan(make_plan())
    listed = succeed("plans", "list").stdout
    assert "n4t9" in listed
    assert "aws g4dn.xlarge" in listed
    shown = succeed("plans", "show", "n4t9").stdout
    assert shown.startswith("Train on  aws g4dn.xlarge")
    assert "cheapest of 2 candidates" in shown


def test_json_has_what_recommend_printed() -> None:
    store_plan(make_plan())
    (listed,) = read_json("plans", "list")
    shown = read_json("plans", "show", "n4t9")
    assert listed == shown
    assert shown["chosen"] == shown["estimates"][0]
    assert shown["reasons"] == ["cheapest of 2 candidates"]


def test_an_empty_store_names_the_command_that_makes_a_plan() -> None:
    result = run("plans", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "trainfare recommend" in result.stderr


def test_a_mistyped_plan_is_named_with_the_nearest() -> None:
    store_plan(make_plan())
    error = error_of("plans", "show", "n4t8")
    assert isinstance(error, NotFoundError)
    assert error.near == "n4t9"


def test_a_segment_of_one_epoch_is_not_shown_as_a_range() -> None:
    first, second = make_segment(1, 1, "fast"), make_segment(2, 10, "cheap")
    migration = make_migration()
    split = make_split(
        segments=(first, second),
        seconds=first.estimate.seconds + migration.seconds + second.estimate.seconds,
        usd=first.estimate.usd + migration.usd + second.estimate.usd,
    )
    store_plan(make_plan(split=split))
    shown = succeed("plans", "show", "n4t9").stdout
    assert shown.startswith("Train  epoch 1 on  aws fast")
    assert "then   epochs 2 – 10 on  aws cheap" in shown
