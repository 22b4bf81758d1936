import pytest

from trainfare.profiler.command import flag_that_keeps_us_out


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("python -I train.py", "-I"),
        ("/usr/bin/python3.12 -E train.py", "-E"),
        ("env A=1 python -uS -m train", "-S"),
        ("python -W ignore -I train.py", "-I"),
        ("python -Wignore -X dev -E train.py", "-E"),
    ],
)
def test_flags_that_keep_the_probe_out(command: str, flag: str) -> None:
    assert flag_that_keeps_us_out(command.split()) == flag


@pytest.mark.parametrize(
    "command",
    [
        "python train.py -I",
        "python -m train -E",
        "python -c -S",
        "python -W E -X I train.py",
        "python -us train.py",
        "torchrun --nproc-per-node 2 train.py",
        "bash -E run.sh",
        "python",
    ],
)
def test_other_commands_may_run(command: str) -> None:
    assert flag_that_keeps_us_out(command.split()) is None
