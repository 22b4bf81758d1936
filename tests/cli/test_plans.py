import json

from typer.testing import CliRunner

from tests.makers import make_plan, make_profile
from tests.model.test_split import make_leg, make_legs, make_move
from trainfare.cli.main import app
from trainfare.errors import NotFoundError
from trainfare.settings import read_settings
from trainfare.store.open import open_history


def keep_a_plan() -> None:
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile())
        history.plans.add(make_plan())


def test_a_kept_plan_is_listed_and_shown_as_it_was_recommended() -> None:
    keep_a_plan()
    listed = CliRunner().invoke(app, ["plans", "list"]).stdout
    assert "n4t9" in listed
    assert "aws g4dn.xlarge" in listed
    shown = CliRunner().invoke(app, ["plans", "show", "n4t9"]).stdout
    assert shown.startswith("Train on  aws g4dn.xlarge")
    assert "cheapest of 2 candidates" in shown


def test_json_has_what_recommend_printed() -> None:
    keep_a_plan()
    (listed,) = json.loads(CliRunner().invoke(app, ["plans", "list", "--json"]).stdout)
    shown = json.loads(CliRunner().invoke(app, ["plans", "show", "n4t9", "--json"]).stdout)
    assert listed == shown
    assert shown["chosen"] == shown["estimates"][0]
    assert shown["reasons"] == ["cheapest of 2 candidates"]


def test_an_empty_store_says_how_to_make_a_plan() -> None:
    result = CliRunner().invoke(app, ["plans", "list"])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "trainfare recommend" in result.stderr


def test_a_mistyped_plan_is_named_with_the_nearest() -> None:
    keep_a_plan()
    error = CliRunner().invoke(app, ["plans", "show", "n4t8"]).exception
    assert isinstance(error, NotFoundError)
    assert "Did you mean n4t9" in str(error)


def test_a_leg_of_one_epoch_is_not_told_as_a_span() -> None:
    first, second = make_leg(1, 1, "fast"), make_leg(2, 10, "cheap")
    moved = make_move()
    legs = make_legs(
        legs=(first, second),
        seconds=first.estimate.seconds + moved.seconds + second.estimate.seconds,
        usd=first.estimate.usd + moved.usd + second.estimate.usd,
    )
    with open_history(read_settings().store) as history:
        history.profiles.add(make_profile())
        history.plans.add(make_plan(legs=legs))
    shown = CliRunner().invoke(app, ["plans", "show", "n4t9"]).stdout
    assert shown.startswith("Train  epoch 1 on  aws fast")
    assert "then   epochs 2 – 10 on  aws cheap" in shown
