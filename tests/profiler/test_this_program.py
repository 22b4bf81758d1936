"""The program of a process that measures itself, in a notebook too."""

from pathlib import Path

from trainfare.profiler.this_program import program_of

KERNEL = ("python", "-m", "ipykernel_launcher", "-f", "/run/user/1/kernel-7.json")


def test_a_script_is_its_own_command(tmp_path: Path) -> None:
    (tmp_path / "notes.ipynb").touch()
    assert program_of(("python", "train.py", "--lr", "1"), tmp_path, {}, {}).command == (
        "python",
        "train.py",
        "--lr",
        "1",
    )


def test_jupyter_tells_its_kernels_the_notebook(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").touch()
    found = program_of(KERNEL, tmp_path, {"JPY_SESSION_NAME": "work/lab/train.ipynb"}, {})
    assert (found.command, found.name) == (("jupyter", "execute", "train.ipynb"), "train.ipynb")


def test_visual_studio_code_tells_it_in_a_variable(tmp_path: Path) -> None:
    found = program_of(KERNEL, tmp_path, {}, {"__vsc_ipynb_file__": "/home/ada/lab/train.ipynb"})
    assert found.name == "train.ipynb"
    assert found.command[-1] == "/home/ada/lab/train.ipynb"


def test_the_only_notebook_of_the_folder_is_the_one_that_runs(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").touch()
    assert program_of(KERNEL, tmp_path, {}, {}).name == "train.ipynb"
    (tmp_path / "other.ipynb").touch()
    unknown = program_of(KERNEL, tmp_path, {}, {})
    assert (unknown.command, unknown.name) == (KERNEL, "a notebook")


def test_what_executes_a_notebook_names_it_in_its_command(tmp_path: Path) -> None:
    for name in ("train.ipynb", "other.ipynb"):
        (tmp_path / name).touch()
    papermill = ("python", "/usr/bin/papermill", "train.ipynb", "out.ipynb", "-p", "lr", "0.1")
    assert program_of(KERNEL, tmp_path, {}, {}, parent=papermill).name == "train.ipynb"
    server = ("python", "/usr/bin/jupyter-lab", "other.ipynb")
    named = program_of(KERNEL, tmp_path, {"JPY_SESSION_NAME": str(tmp_path / "train.ipynb")}, {}, parent=server)
    assert named.name == "train.ipynb", "a server with one notebook in its command can have others open"
