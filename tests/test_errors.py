from trainfare.errors import (
    AskedWrongly,
    Infeasible,
    NotFound,
    OutsideFailed,
    ProgramFailed,
    StoreFailed,
    TrainfareError,
)


def test_a_name_that_is_not_there_comes_with_the_nearest_that_is() -> None:
    error = NotFound("profile", "p7kk2", ["p7k2", "pabcd"], listed_by="trainfare profiles list")
    assert str(error) == "there is no profile p7kk2. Did you mean p7k2? `trainfare profiles list` shows all."
    assert "Did you mean" not in str(NotFound("profile", "xxxx", ["p7k2"], listed_by="…"))


def test_exit_codes_are_those_of_the_manual() -> None:
    codes = {error: error.exit_code for error in (ProgramFailed, AskedWrongly, NotFound, Infeasible, OutsideFailed)}
    assert codes == {ProgramFailed: 1, AskedWrongly: 2, NotFound: 2, Infeasible: 3, OutsideFailed: 4}
    assert StoreFailed.exit_code == 4
    assert all(issubclass(error, TrainfareError) for error in codes)
