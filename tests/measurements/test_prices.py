import gzip
from pathlib import Path

import pytest

from trainfare.measurements.prices import PATH, DayPrice, prices_by_day, prices_on

ROWS = """date,instance_type,az,ondemand_usd_h,spot_usd_h
2023-01-01,p2.xlarge,us-east-1a,0.9,0.30
2023-01-01,p2.xlarge,us-east-1b,0.9,0.20
2023-01-01,p2.xlarge,eu-west-1a,1.2,
2023-01-03,p2.xlarge,us-east-1a,0.9,0.50
2023-01-03,g6.xlarge,us-east-1a,,0.40
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / PATH).parent.mkdir()
    with gzip.open(tmp_path / PATH, "wt", encoding="utf-8") as file:
        file.write(ROWS)
    return tmp_path


def test_price_is_the_median_of_the_zones_that_had_one(folder: Path) -> None:
    price = prices_on(folder, "2023-01-01")["p2.xlarge"]
    assert (price.on_demand, price.spot) == pytest.approx((0.9, 0.25))


def test_day_without_prices_takes_those_of_the_day_before(folder: Path) -> None:
    assert prices_on(folder, "2023-01-02") == prices_on(folder, "2023-01-01")


def test_no_prices_before_the_first_day(folder: Path) -> None:
    assert prices_on(folder, "2022-12-31") == {}


def test_price_of_zero_means_not_for_rent(folder: Path) -> None:
    assert prices_on(folder, "2023-06-01")["g6.xlarge"] == DayPrice(on_demand=None, spot=0.4)


def test_days_come_oldest_first(folder: Path) -> None:
    assert list(prices_by_day(folder)) == ["2023-01-01", "2023-01-03"]


def test_missing_table_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="aws_gpu_daily"):
        prices_on(tmp_path, "2023-01-01")
