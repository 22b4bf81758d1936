from trainfare.errors import (
    ExternalError,
    InfeasibleError,
    NotFoundError,
    ProgramError,
    StoreError,
    TrainfareError,
    UsageError,
)


def test_a_name_that_is_not_there_comes_with_the_nearest_that_is() -> None:
    error = NotFoundError("profile", "p7kk2", ["p7k2", "pabcd"], listed_by="trainfare profiles list")
    assert str(error) == "there is no profile p7kk2. Did you mean p7k2? `trainfare profiles list` shows all."
    assert "Did you mean" not in str(NotFoundError("profile", "xxxx", ["p7k2"], listed_by="…"))


def test_exit_codes_are_those_of_the_manual() -> None:
    codes = {
        error: error.exit_code for error in (ProgramError, UsageError, NotFoundError, InfeasibleError, ExternalError)
    }
    assert codes == {ProgramError: 1, UsageError: 2, NotFoundError: 2, InfeasibleError: 3, ExternalError: 4}
    assert StoreError.exit_code == 4
    assert all(issubclass(error, TrainfareError) for error in codes)
