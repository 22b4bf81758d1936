"""Commands on a store that does not exist: those that ask create none, and say how to make one."""

from pathlib import Path

import pytest

from tests.cli.commands import complaint, succeed
from tests.makers import make_profile
from trainfare.model.document import to_json

ASKING = (
    ("recommend",),
    ("estimate", "--on", "H100"),
    ("predict", "--on", "H100"),
    ("compare",),
    ("epochs",),
    ("probe", "--plan"),
    ("calibrate", "--try"),
    ("profiles", "list"),
    ("profiles", "show", "p1"),
    ("profiles", "rm", "p1", "--yes"),
    ("plans", "list"),
    ("plans", "show", "n1"),
    ("cluster", "--profile", "p1", "--server", "m4.large=0.125", "--server-mbps", "450", "--budget-per-hour", "5"),
    ("queue", "submit"),
    ("queue", "list"),
    ("queue", "plan"),
    ("queue", "cancel", "j1"),
)


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_asking_a_store_that_does_not_exist_creates_none(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "new.db"
    said = complaint(*words, "--store", path)
    assert said.startswith(f"--store: there is no store {path}. The first profile creates it.")
    assert said.endswith(f"Try `trainfare profile --store {path} -- python train.py`.")
    assert not path.exists()


@pytest.mark.parametrize("words", [("recommend",), ("estimate", "--on", "H100"), ("compare",)], ids=" ".join)
def test_the_first_question_in_a_new_home_says_what_to_do(home: Path, words: tuple[str, ...]) -> None:
    assert complaint(*words) == (
        "there is no profile yet. Profile the program first. Try `trainfare profile -- python train.py`."
    )
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("words", [("profiles", "list"), ("plans", "list"), ("queue", "list")], ids=" ".join)
def test_lists_in_a_new_home_are_empty_and_create_nothing(home: Path, words: tuple[str, ...]) -> None:
    succeed(*words)
    assert list(home.iterdir()) == []


def test_an_import_creates_the_store_at_a_stated_path(tmp_path: Path) -> None:
    document, path = tmp_path / "profile.json", tmp_path / "new.db"
    document.write_text(to_json(make_profile()))
    succeed("profiles", "import", document, "--store", path)
    assert path.is_file()
