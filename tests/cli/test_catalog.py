import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.catalog.samples import SKYPILOT_AWS, write_skypilot
from trainfare.cli.main import run


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Said]


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`trainfare catalog …` in this process."""

    def command(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["trainfare", "catalog", *words])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capsys.readouterr()
        return Said(int(ended.value.code or 0), out, err)

    return command


def test_a_list_shows_machine_gpu_region_prices_and_age(catalog: Command) -> None:
    said = catalog("list", "--gpu", "T4", "--provider", "aws")
    assert said.code == 0
    header, *lines = said.out.splitlines()
    assert header.split() == ["machine", "GPU", "region", "$/h", "spot", "price", "seen"]
    assert lines[0].split()[:3] == ["aws/g4dn.xlarge", "T4", "us-east-1"]
    assert all(line.rstrip().endswith("old") for line in lines)
    assert "trainfare catalog show aws/g4dn.xlarge" in said.err


def test_a_list_in_json_has_a_row_a_machine(catalog: Command) -> None:
    rows = catalog("list", "--json").json
    assert len(rows) == len({row["machine"] for row in rows}) >= 140
    assert {"machine", "gpu", "gpus", "region", "usd_per_hour", "spot_usd_per_hour", "seen_on", "age_days"} <= set(
        rows[0]
    )
    assert len(catalog("list", "--json", "--all").json) > len(rows)


def test_a_list_of_nothing_says_so_and_is_empty_in_json(catalog: Command) -> None:
    said = catalog("list", "--gpu", "RTX 3090")
    assert (said.code, said.out) == (0, "")
    assert "No such machine can be rented" in said.err
    assert catalog("list", "--gpu", "RTX 3090", "--json").json == []


def test_history_names_machines_of_the_past(catalog: Command) -> None:
    said = catalog("list", "--history", "--gpu", "K80")
    assert "aws/p2.xlarge" in said.out
    assert "can no longer be rented" in said.err


def test_a_machine_is_shown_with_its_gpu_and_every_region(catalog: Command) -> None:
    said = catalog("show", "g5.xlarge")
    assert said.out.startswith("aws/g5.xlarge  1 × A10G · 4 vCPUs · 16 GiB")
    assert "24 GiB at 600 GB/s" in said.out
    assert "us-west-2" in said.out
    document = catalog("show", "g5.xlarge", "--json").json
    assert document["gpu"]["fp16_tensor_tflops"] == 70
    assert len(document["prices"]) == 5


def test_a_retired_machine_says_since_when(catalog: Command) -> None:
    said = catalog("show", "p3.2xlarge")
    assert "retired on 2025-12-20" in said.out
    assert "Malta 2021, table 3.1" in said.out


def test_gpus_are_listed_and_one_is_shown_with_sources(catalog: Command) -> None:
    assert "RTX 3090" in catalog("gpus").out
    said = catalog("gpus", "H100")
    assert "989.4" in said.out
    assert "NVIDIA: H100 Tensor Core GPU datasheet" in said.out
    document = catalog("gpus", "H100", "--json").json
    assert document["sources"]["fp16_tensor_tflops"]["publisher"] == "NVIDIA"
    assert len(catalog("gpus", "--json").json) >= 40


def test_the_users_machines_and_gpus_are_there(
    catalog: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text('[bench]\nusd_per_hour = 0.35\ngpu = "RTX 3090"\n')
    monkeypatch.setenv("TRAINFARE_MACHINES", str(machines))
    (row,) = catalog("list", "--provider", "own", "--json").json
    assert (row["machine"], row["usd_per_hour"], row["age_days"]) == ("own/bench", 0.35, 0)
    machines.write_text('[bench]\nusd_per_hour = 0\ngpu = "RTX 3090"\n')
    said = catalog("list")
    assert said.code == 2
    assert "machines.toml, [bench]: usd_per_hour must be positive" in said.err


def test_an_import_tells_what_changed_and_what_was_left_out(catalog: Command, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    said = catalog("import", str(path), "--dry-run")
    assert said.code == 0
    assert "aws: 9 prices of 5 machines" in said.out
    assert "1 new" in said.out
    assert "Gaudi HL-205 (1)" in said.err
    assert "nothing was saved" in said.err
    assert "saved in" in catalog("import", str(path)).err
    document = catalog("import", str(path), "--json").json
    assert document["new"] == document["cheaper"] == document["dearer"] == []
    assert Path(document["kept"][0]).is_file()
    (row,) = catalog("list", "--gpu", "T4", "--region", "us-east-1", "--json", "--provider", "aws").json[:1]
    assert (row["machine"], row["usd_per_hour"], row["age_days"]) == ("aws/g4dn.xlarge", 0.5, 0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("list", "--provider", "awz"), "Did you mean aws?"),
        (("list", "--gpu", "H10O"), "Did you mean H100?"),
        (("show", "g5.xlrge"), "Did you mean g5.xlarge?"),
        (("gpus", "RTX 3900"), "Did you mean RTX 3090?"),
        (("import", "nothing.csv"), "No such file"),
        (("import", "."), "is a directory"),
        (("import", "/dev/null"), "is empty"),
        (("import", sys.executable), "is not text"),
        (("import", "nothing.csv", "--seen-on", "yesterday"), "is not a day"),
        (("import", "nothing.csv", "--provider", "../x"), "not the name of a provider"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(catalog: Command, words: tuple[str, ...], complaint: str) -> None:
    said = catalog(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("trainfare: ")
    assert complaint in said.err
    assert "Traceback" not in said.err
