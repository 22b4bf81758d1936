"""`trainfare catalog`: machines, prices, GPUs and imports."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.catalog.published_server import publishing
from tests.catalog.samples import SKYPILOT_AWS, write_skypilot
from trainfare.cli.main import run


class Ended(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Command = Callable[..., Ended]


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `trainfare catalog …` in this process, with the errors as they are printed."""

    def command(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["trainfare", "catalog", *words])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capsys.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return command


def test_a_list_shows_machine_gpu_region_prices_and_age(catalog: Command) -> None:
    ended = catalog("list", "--gpu", "T4", "--provider", "aws")
    assert ended.code == 0
    header, *lines = ended.out.splitlines()
    assert header.split() == ["machine", "GPU", "region", "on", "demand", "spot", "price", "seen"]
    assert lines[0].split()[:3] == ["aws/g4dn.xlarge", "T4", "us-east-1"]
    assert all(line.rstrip().endswith("old") for line in lines)
    assert "trainfare catalog show aws/g4dn.xlarge" in ended.err


def test_a_list_in_json_has_one_row_per_machine(catalog: Command) -> None:
    rows = catalog("list", "--json").json
    assert len(rows) == len({row["machine"] for row in rows}) >= 140
    assert {"machine", "gpu", "gpus", "region", "usd_per_hour", "spot_usd_per_hour", "seen_on", "age_days"} <= set(
        rows[0]
    )
    assert len(catalog("list", "--json", "--all").json) > len(rows)


def test_a_list_of_one_kind_has_machines_with_or_without_a_gpu(catalog: Command) -> None:
    assert {row["gpus"] > 0 for row in catalog("list", "--kind", "gpu", "--json").json} == {True}
    without = catalog("list", "--kind", "cpu", "--provider", "aws", "--json").json
    assert {row["gpu"] for row in without} == {None}
    assert {row["machine"]: row["cpu"] for row in without}["aws/c8g.large"] == "Graviton4"
    assert "– (Graviton4)" in catalog("list", "--kind", "cpu", "--provider", "aws").out


def test_old_prices_and_marketplaces_are_marked_in_the_list(catalog: Command) -> None:
    ended = catalog("list", "--gpu", "H100")
    marks = {
        line.split()[0]: next(word for word in line.split() if word.startswith("$"))
        for line in ended.out.splitlines()[1:]
    }
    assert marks["aws/p5.4xlarge"].endswith("/h*"), "87 days"
    assert marks["azure/Standard_ND96isr_H100_v5"].endswith("/h**"), "14 months"
    assert "* seen more than 30 days ago, ** more than a year ago: `trainfare catalog update` renews" in ended.err
    assert "vast: prices of a marketplace, which change by the hour" in ended.err
    rows = {row["machine"]: row for row in catalog("list", "--gpu", "H100", "--json").json}
    assert rows["vast/1x-H100_SXM-32-65536"]["is_marketplace"]
    assert rows["aws/p5.4xlarge"]["is_old"]


def test_a_price_of_today_is_not_marked(catalog: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text('[bench]\nusd_per_hour = 0.35\ngpu = "RTX 3090"\n')
    monkeypatch.setenv("TRAINFARE_MACHINES", str(machines))
    ended = catalog("list", "--provider", "own")
    assert "$0.35/h " in ended.out
    assert "*" not in ended.out + ended.err


@pytest.mark.loopback
def test_an_update_reports_each_provider_and_what_it_saved(catalog: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with publishing() as server:
        ended = catalog("update", "--from", server.url)
        again = catalog("update", "--from", server.url, "--provider", "lambda", "--json").json
    assert ended.code == 0
    assert "aws: 6 prices of 4 machines, seen on 2026-11-15: " in ended.out
    assert "lambda: 1 price of 1 machine, seen on 2026-11-15: 1 cheaper" in ended.out
    assert "azure: not renewed: http://127.0.0.1" in ended.err
    assert "404" in ended.err
    assert "lambda.csv" in ended.err
    assert [(table["name"], table["version"], table["rows"]) for table in again["updated"]] == [
        ("lambda", "20261115-7", 1)
    ]
    assert again["failed"] == []


@pytest.mark.loopback
def test_an_update_without_a_server_says_what_to_do(catalog: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with publishing() as server:
        pass
    ended = catalog("update", "--from", server.url)
    assert (ended.code, ended.out) == (4, "")
    assert "The prices stay as they were" in ended.err
    assert "Try `--from aws.csv`" in ended.err


def test_a_list_without_a_match_prints_a_note_and_is_empty_in_json(catalog: Command) -> None:
    ended = catalog("list", "--gpu", "RTX 2080 Ti")
    assert (ended.code, ended.out) == (0, "")
    assert "No machine that can be rented matches" in ended.err
    assert catalog("list", "--gpu", "RTX 2080 Ti", "--json").json == []


def test_history_lists_machines_of_the_past(catalog: Command) -> None:
    ended = catalog("list", "--history", "--gpu", "K80")
    assert "aws/p2.xlarge" in ended.out
    assert "can no longer be rented" in ended.err


def test_a_machine_is_shown_with_its_gpu_and_every_region(catalog: Command) -> None:
    ended = catalog("show", "g5.xlarge")
    assert ended.out.startswith("aws/g5.xlarge  1 × A10G · 4 vCPUs · 16 GiB")
    assert "24 GiB at 600 GB/s" in ended.out
    assert "us-west-2" in ended.out
    document = catalog("show", "g5.xlarge", "--json").json
    assert document["gpu"]["fp16_tensor_tflops"] == 70
    assert len(document["prices"]) == 5


def test_a_retired_machine_is_shown_with_the_day(catalog: Command) -> None:
    ended = catalog("show", "p3.2xlarge")
    assert "retired on 2025-12-20" in ended.out
    assert "Malta 2021, table 3.1" in ended.out


def test_gpus_are_listed_and_one_is_shown_with_sources(catalog: Command) -> None:
    assert "RTX 3090" in catalog("gpus").out
    ended = catalog("gpus", "H100")
    assert "989.4" in ended.out
    assert "NVIDIA: H100 Tensor Core GPU datasheet" in ended.out
    document = catalog("gpus", "H100", "--json").json
    assert document["sources"]["fp16_tensor_tflops"]["publisher"] == "NVIDIA"
    assert len(catalog("gpus", "--json").json) >= 40


def test_the_machines_and_gpus_of_the_user_are_listed(
    catalog: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text('[bench]\nusd_per_hour = 0.35\ngpu = "RTX 3090"\n')
    monkeypatch.setenv("TRAINFARE_MACHINES", str(machines))
    (row,) = catalog("list", "--provider", "own", "--json").json
    assert (row["machine"], row["usd_per_hour"], row["age_days"]) == ("own/bench", 0.35, 0)
    machines.write_text('[bench]\nusd_per_hour = -1\ngpu = "RTX 3090"\n')
    ended = catalog("list")
    assert ended.code == 2
    assert "machines.toml, [bench]: usd_per_hour must be positive" in ended.err


def test_an_import_prints_the_changes_and_the_rows_left_out(catalog: Command, tmp_path: Path) -> None:
    path = write_skypilot(tmp_path, "aws", SKYPILOT_AWS)
    ended = catalog("import", str(path), "--dry-run")
    assert ended.code == 0
    assert "aws: 11 prices of 6 machines" in ended.out
    assert "1 new" in ended.out
    assert "Gaudi HL-205 (1)" in ended.err
    assert "nothing was saved" in ended.err
    assert "saved in" in catalog("import", str(path)).err
    document = catalog("import", str(path), "--json").json
    assert document["new"] == document["cheaper"] == document["dearer"] == []
    assert Path(document["kept"][0]).is_file()
    (row,) = catalog("list", "--gpu", "T4", "--region", "us-east-1", "--json", "--provider", "aws").json[:1]
    assert (row["machine"], row["usd_per_hour"], row["age_days"]) == ("aws/g4dn.xlarge", 0.5, 0)


@pytest.mark.parametrize(
    ("words", "message"),
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
def test_a_wrong_argument_is_one_line_and_exit_code_2(catalog: Command, words: tuple[str, ...], message: str) -> None:
    ended = catalog(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("trainfare: ")
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err
