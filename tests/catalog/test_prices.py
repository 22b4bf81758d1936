import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from tests.makers import make_offer, make_vm_type
from trainfare.catalog.cpu_facts import cpu_of_machine
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.catalog.prices import read_prices, save_prices
from trainfare.errors import ExternalError, UsageError

T4 = make_vm_type(
    gpu=load_gpus()["T4"], network_gb_per_second=0.625, cpu=cpu_of_machine(provider="aws", machine="g4dn.xlarge")
)
OFFERS = (
    make_offer(vm_type=T4, seen_on=date(2026, 11, 1)),
    make_offer(vm_type=T4, seen_on=date(2026, 11, 1), market="spot", usd_per_hour=0.1234567),
)


def test_saved_prices_are_read_back(tmp_path: Path) -> None:
    path = save_prices(tmp_path / "prices", "aws", OFFERS)
    assert path.name == "aws.csv"
    assert read_prices(tmp_path / "prices", load_gpus()) == OFFERS


def test_saving_twice_gives_the_same_file_and_leaves_no_other(tmp_path: Path) -> None:
    first = save_prices(tmp_path, "aws", OFFERS).read_bytes()
    assert save_prices(tmp_path, "aws", reversed(OFFERS)).read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == ["aws.csv"]


FILL = """
import resource, sys
from pathlib import Path
from trainfare.catalog.gpu_facts import load_gpus
from trainfare.catalog.prices import read_prices, save_prices
directory = Path(sys.argv[1])
offers = read_prices(directory, load_gpus())
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
save_prices(directory, "aws", offers)
"""


def test_a_full_disk_leaves_the_old_prices_and_says_so(tmp_path: Path) -> None:
    before = save_prices(tmp_path, "aws", OFFERS).read_bytes()
    ended = subprocess.run([sys.executable, "-c", FILL, tmp_path], capture_output=True, text=True, check=False)
    assert "Free some space, or set TRAINFARE_PRICES to another directory." in ended.stderr
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("aws.csv", before)]


def test_a_missing_directory_holds_no_prices(tmp_path: Path) -> None:
    assert read_prices(tmp_path / "none", load_gpus()) == ()


def test_a_damaged_table_is_reported_with_its_file_and_line(tmp_path: Path) -> None:
    path = save_prices(tmp_path, "aws", OFFERS)
    path.write_text(path.read_text().replace("0.526", "cheap"))
    with pytest.raises(UsageError, match=r"aws\.csv cannot be read: line 2: .*cheap.* Import it again"):
        read_prices(tmp_path, load_gpus())


@pytest.mark.parametrize("provider", ["", "../aws", "A", "a b", ".aws"])
def test_a_provider_is_a_name_in_lower_case(tmp_path: Path, provider: str) -> None:
    with pytest.raises(UsageError, match="not the name of a provider"):
        save_prices(tmp_path, provider, OFFERS)


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExternalError, match="TRAINFARE_PRICES"):
        save_prices(tmp_path / "file", "aws", OFFERS)
