"""The error tree: exit codes, fields, remedies, and the nearest match of a wrong name."""

import pytest

from trainfare.errors import (
    ExternalError,
    InfeasibleError,
    NotFiniteError,
    NotFoundError,
    ProgramError,
    Remedy,
    StoreError,
    TrainfareError,
    UsageError,
)


def test_a_wrong_name_comes_with_the_nearest_known_one() -> None:
    error = NotFoundError("profile", "p7kk2", ["p7k2", "pabcd"], listed_by="trainfare profiles list", field="profile")
    assert (error.kind, error.name, error.near, error.field) == ("profile", "p7kk2", "p7k2", "profile")
    assert error.message == "there is no profile p7kk2. Did you mean p7k2? `trainfare profiles list` shows all."
    far = NotFoundError("profile", "xxxx", ["p7k2"])
    assert far.near is None
    assert str(far) == "there is no profile xxxx."


def test_exit_codes_are_those_of_the_manual() -> None:
    codes = {
        error: error.exit_code for error in (ProgramError, UsageError, NotFoundError, InfeasibleError, ExternalError)
    }
    assert codes == {ProgramError: 1, UsageError: 2, NotFoundError: 2, InfeasibleError: 3, ExternalError: 4}
    assert StoreError.exit_code == 4
    assert NotFiniteError.exit_code == 5
    assert all(issubclass(error, TrainfareError) for error in codes)


def test_the_text_of_an_error_names_its_field_and_its_remedies_as_python_code() -> None:
    error = InfeasibleError(
        "No machine finishes in 1 h.",
        field="deadline",
        remedies=[Remedy({"deadline": "2h12m"}), Remedy(command="profiles list")],
    )
    assert str(error) == "deadline: No machine finishes in 1 h. Try deadline='2h12m'. Try trainfare profiles list()."
    assert error.message == "No machine finishes in 1 h."
    assert str(UsageError("wrong")) == "wrong"


@pytest.mark.parametrize(
    ("remedy", "code"),
    [
        (Remedy({"epochs": 12, "spot": True}), "epochs=12, spot=True"),
        (Remedy({"iterations": 20}, command="profile", program="python train.py"),
         "trainfare profile('python train.py', iterations=20)"),
        (Remedy(command="profiles list"), "trainfare profiles list()"),
    ],
)  # fmt: skip
def test_a_remedy_is_python_code(remedy: Remedy, code: str) -> None:
    assert str(remedy) == code
