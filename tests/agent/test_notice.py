"""The agent learns from the metadata service of a provider that its machine will be taken back."""

import time
from collections.abc import Iterator

import pytest

from tests.agent.running import Run, ended, entries, run
from tests.clouds.contract import wait_until
from tests.rigs.metadata import Metadata, metadata_service
from trainfare.agent import agent
from trainfare.agent.agent import NoticeWatch, seconds_until
from trainfare.clouds import driver

__all__ = ["run"]

pytestmark = pytest.mark.loopback

SAVES_WHEN_ASKED = """
import pathlib, signal, sys, time
def save(*_):
    pathlib.Path("last.ckpt").write_text("saved")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path("sign").touch()
time.sleep(60)
"""
IGNORES_IT = "import pathlib, signal, time\nsignal.signal(15, lambda *_: None)\npathlib.Path('sign').touch()\n" + (
    "for _ in range(600): time.sleep(0.1)\n"
)


@pytest.fixture
def service() -> Iterator[Metadata]:
    with metadata_service() as made:
        yield made


@pytest.mark.parametrize(("provider", "least", "most"), [("aws", 85, 90), ("gcp", 30, 30), ("azure", 30, 30)])
def test_each_provider_is_asked_in_its_own_way(service: Metadata, provider: str, least: float, most: float) -> None:
    watch = NoticeWatch(provider, service.address)
    assert watch.seconds_left() is None
    service.announce(90.0)
    assert NoticeWatch(provider, service.address).seconds_left() == pytest.approx((least + most) / 2, abs=3)
    assert watch.seconds_left() is None, "it is not asked again at once"


def test_events_of_another_machine_of_the_set_are_ignored(service: Metadata) -> None:
    service.events_of = "trainer-1"
    service.announce(30.0)
    assert NoticeWatch("azure", service.address).seconds_left() is None


def test_a_token_that_has_run_out_is_renewed(service: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "NOTICE_SECONDS", 0.0)
    watch = NoticeWatch("aws", service.address)
    assert watch.seconds_left() is None
    monkeypatch.setattr("tests.rigs.metadata.TOKEN", "another-token")
    service.announce(60.0)
    assert watch.seconds_left() is None, "the service does not know the old one"
    assert watch.seconds_left() is not None


def test_a_service_that_does_not_answer_is_no_notice_and_is_asked_less_often(service: Metadata) -> None:
    watch = NoticeWatch("aws", "127.0.0.1:9")
    assert watch.seconds_left() is None
    assert watch._pause > agent.NOTICE_SECONDS
    assert NoticeWatch("", service.address).seconds_left() is None, "nothing is asked unless the job says so"
    assert service.asked == []


def test_a_wrong_clock_is_not_believed_beyond_the_notice_that_is_promised() -> None:
    def written(seconds: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))

    assert seconds_until(written(3600), at_most=120.0) == 120.0
    assert seconds_until(written(-3600), at_most=120.0) == 0.0
    assert seconds_until("soon", at_most=120.0) == 120.0


def test_on_a_notice_the_program_saves_and_its_checkpoint_is_listed(service: Metadata, run: Run) -> None:
    shell = run(SAVES_WHEN_ASKED, notice="aws", notice_address=service.address)
    wait_until((shell.folder / "work/sign").exists)
    service.announce(100.0)
    end = ended(shell)
    assert (end["exit_code"], end["cause"]) == (0, "interruption")
    (notice,) = entries(shell, "interruption")
    assert (notice["provider"], 80 < notice["seconds"] <= 100) == ("aws", True)
    assert [each["path"] for each in entries(shell, "checkpoint")] == ["last.ckpt"]
    results = driver.results(shell)
    assert results is not None
    assert "last.ckpt" in results.files


def test_a_program_that_does_not_end_leaves_half_of_the_notice_for_its_checkpoint(service: Metadata, run: Run) -> None:
    shell = run(IGNORES_IT, notice="aws", notice_address=service.address, grace_seconds=60.0)
    wait_until((shell.folder / "work/sign").exists)
    service.announce(8.0)
    end = ended(shell)
    assert (end["exit_code"], end["cause"]) == (-9, "interruption")
    assert service.takes_back_at is not None
    assert time.time() < service.takes_back_at


def test_a_setup_that_is_interrupted_says_so(service: Metadata, run: Run) -> None:
    service.announce(100.0)
    shell = run("pass", setup="sleep 60", notice="aws", notice_address=service.address)
    wait_until(lambda: driver.results(shell), "the end of the setup")
    assert entries(shell, "setup")[-1]["cause"] == "interruption"
    assert entries(shell, "program") == []
