"""Names of programs in a list."""

import pytest

from trainfare.model.program import Program
from trainfare.views.programs import distinct_names


def program(directory: str, *command: str) -> Program:
    return Program(command=command, directory=directory)


def test_programs_of_one_name_are_told_apart_by_their_folders() -> None:
    names = distinct_names(
        [
            program("/home/ada/gpt", "python", "main.py"),
            program("/home/ada/resnet", "python", "main.py"),
            program("/home/ada", "python", "resnet/main.py", "--epochs", "3"),
            program("/home/ada/gpt", "python", "train.py"),
        ]
    )
    assert names == ["gpt/main.py", "resnet/main.py", "resnet/main.py", "train.py"]


def test_as_many_folders_are_shown_as_are_needed() -> None:
    names = distinct_names(
        [
            program("/home/ada/gpt/src", "python", "main.py"),
            program("/home/ada/resnet/src", "python", "main.py"),
            program("/src", "python", "main.py"),
        ]
    )
    assert names == ["gpt/src/main.py", "resnet/src/main.py", "/src/main.py"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "train.py"), "train.py"),
        (("python", "-m", "pkg.train"), "pkg.train"),
        (("jupyter", "execute", "lab/train.ipynb"), "train.ipynb"),
        (("python", "-m", "papermill", "in.ipynb", "out.ipynb"), "in.ipynb"),
        (("python", "-m", "ipykernel_launcher", "-f", "/run/kernel-1.json"), "a notebook"),
        (("python", "/opt/site-packages/ipykernel_launcher.py", "-f", "/run/kernel-1.json"), "a notebook"),
        (("/usr/bin/trainer",), "trainer"),
    ],
)
def test_the_name_is_that_of_the_script_or_the_notebook(command: tuple[str, ...], name: str) -> None:
    assert program("/home/ada", *command).name == name
