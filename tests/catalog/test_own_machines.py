import os
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from trainfare.catalog.gpu_facts import load_gpus
from trainfare.catalog.own_machines import read_destinations, read_groups, read_machines
from trainfare.errors import UsageError
from trainfare.model.hosts import HostPlace
from trainfare.model.machine import Gpu
from trainfare.model.offer import Offer

BENCH = """
[bench]
usd_per_hour = 0.35
gpu = "RTX 3090"
gpus = 2
vcpus = 16
memory_gib = 64
seen_on = 2026-11-01
"""

MY_GPU = """
[old]
usd_per_hour = 0.05
gpu = "My GPU"

[gpus."My GPU"]
vendor = "nvidia"
architecture = "Maxwell"
launch_year = 2015
memory_gib = 12
memory_gb_per_second = 336
fp32_tflops = 6.1
interconnect = "PCIe 3.0 x16"
interconnect_gb_per_second = 32
"""


def read(tmp_path: Path, text: str) -> tuple[tuple[Offer, ...], dict[str, Gpu]]:
    path = tmp_path / "machines.toml"
    path.write_text(text)
    offers, gpus = read_machines(path, load_gpus())
    return offers, dict(gpus)


def test_a_machine_is_an_offer_at_the_price_of_its_owner(tmp_path: Path) -> None:
    (offer,), _ = read(tmp_path, BENCH)
    assert offer.key == ("own/bench", "here", "own")
    assert (offer.usd_per_hour, offer.seen_on) == (0.35, date(2026, 11, 1))
    assert (offer.vm_type.gpu, offer.vm_type.gpus) == (load_gpus()["RTX 3090"], 2)
    assert (offer.vm_type.vcpus, offer.vm_type.memory_gib) == (16, 64)


def test_a_slice_of_this_machine_has_a_provider_of_its_own(tmp_path: Path) -> None:
    (offer,), _ = read(tmp_path, "[half]\nslice = true\nusd_per_hour = 0.02\nvcpus = 0.5\n")
    assert offer.key == ("local/half", "here", "own")
    assert offer.vm_type.vcpus == 0.5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("slice = true", "add vcpus"),
        ("slice = 1\nvcpus = 1", "slice must be true or false, got 1"),
        ('slice = true\nvcpus = 1\ngpu = "T4"', "no GPU of its own"),
    ],
)
def test_an_invalid_slice_is_refused(tmp_path: Path, fields: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path, f"[half]\nusd_per_hour = 0.02\n{fields}\n")


def test_a_group_of_hosts_is_one_machine_with_a_node_for_each(tmp_path: Path) -> None:
    text = '[lab]\nhosts = ["ada@a", "b"]\naddresses = ["10.0.0.1", "10.0.0.2"]\nusd_per_hour = 0.2\n'
    (offer,), _ = read(tmp_path, text)
    assert (offer.vm_type.key, offer.most_nodes, offer.usd_per_hour) == ("ssh/lab", 2, 0.2)
    path = tmp_path / "machines.toml"
    assert read_groups(path) == {
        "ssh/lab": (
            HostPlace(destination="ada@a", address="10.0.0.1"),
            HostPlace(destination="b", address="10.0.0.2"),
        )
    }
    assert read_destinations(path) == {"ssh/lab": "ada@a"}, "the first one describes all"


def test_a_host_for_ssh_has_a_provider_of_its_own_and_may_cost_nothing(tmp_path: Path) -> None:
    text = '[box]\nssh = "ada@box.lab"\n[lab]\nssh = "lab"\nusd_per_hour = 0.2\n[desk]\nusd_per_hour = 0.3\n'
    offers, _ = read(tmp_path, text)
    assert [(offer.vm_type.key, offer.usd_per_hour) for offer in offers] == [
        ("ssh/box", 0.0),
        ("ssh/lab", 0.2),
        ("own/desk", 0.3),
    ]
    assert [offer.most_nodes for offer in offers] == [1, 1, None], "a host is one machine"
    assert read_destinations(tmp_path / "machines.toml") == {"ssh/box": "ada@box.lab", "ssh/lab": "lab"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[box]\nssh = ""', "ssh must name the host"),
        ("[box]\nssh = 22", "ssh must be text in quotes, got 22"),
        ('[box]\nssh = "x"\nslice = true\nvcpus = 1', "leave ssh out"),
        ('[here]\nssh = "x"', "leave ssh out"),
        ("[lab]\nhosts = []", "hosts must name at least one host"),
        ('[lab]\nhosts = "a"', "hosts must be a list of texts in quotes"),
        ('[lab]\nhosts = ["a", "a"]', "names a host twice"),
        ('[lab]\nhosts = ["a", "b"]\naddresses = ["10.0.0.1"]', "one for each host: 2, not 1"),
        ('[lab]\nhosts = ["a"]\nssh = "a"', "leave one of them out"),
        ('[lab]\nssh = "a"\naddresses = ["10.0.0.1"]', "addresses belong to hosts"),
    ],
)
def test_an_invalid_host_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(tmp_path, text)


def test_a_machine_needs_only_a_price(tmp_path: Path) -> None:
    (offer,), _ = read(tmp_path, "[laptop]\nusd_per_hour = 1\n")
    assert offer.vm_type.gpu is None
    assert offer.vm_type.gpus == 0


def test_a_gpu_may_be_written_in_any_spelling(tmp_path: Path) -> None:
    (offer,), _ = read(tmp_path, '[bench]\nusd_per_hour = 1\ngpu = "rtx3090"\n')
    assert offer.vm_type.gpu == load_gpus()["RTX 3090"]
    assert offer.vm_type.gpus == 1


def test_without_a_day_the_price_is_as_old_as_the_file(tmp_path: Path) -> None:
    path = tmp_path / "machines.toml"
    path.write_text("[laptop]\nusd_per_hour = 1\n")
    noon = datetime(2026, 10, 5, 12, tzinfo=UTC).timestamp()
    os.utime(path, (noon, noon))
    (offer,), _ = read_machines(path, load_gpus())
    assert offer.seen_on == date(2026, 10, 5)


def test_a_gpu_may_be_described(tmp_path: Path) -> None:
    (offer,), gpus = read(tmp_path, MY_GPU)
    assert offer.vm_type.gpu == gpus["My GPU"]
    assert gpus["My GPU"].memory_gib == 12


def test_a_missing_file_gives_no_machines(tmp_path: Path) -> None:
    assert read_machines(tmp_path / "machines.toml", load_gpus()) == ((), {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[bench\n", "cannot be read"),
        ("bench = 3\n", "bench must be a section"),
        ("[bench]\n", "usd_per_hour is missing"),
        ("[bench]\nusd_per_hour = -1\n", "usd_per_hour must be positive, got -1"),
        ("[bench]\nusd_per_hour = -1.5\n", "usd_per_hour must be positive, got -1.5"),
        ("[bench]\nusd_per_hour = inf\n", "usd_per_hour must be positive, got inf"),
        ("[bench]\nusd_per_hour = true\n", "usd_per_hour must be a number, got True"),
        ('[bench]\nusd_per_hour = "1"\n', "usd_per_hour must be a number, got '1'"),
        ('[bench]\nusd_per_hour = 1\ngpu = "RTX 3099"\n', "Did you mean RTX 3090?"),
        ("[bench]\nusd_per_hour = 1\ngpu = 3\n", "gpu must be text"),
        ("[bench]\nusd_per_hour = 1\ngpus = 2\n", "leave gpus out"),
        ('[bench]\nusd_per_hour = 1\ngpu = "T4"\ngpus = 1.5\n', "gpus must be a whole number"),
        ('[bench]\nusd_per_hour = 1\ngpu = "T4"\ngpus = 0\n', "gpus must be positive"),
        ("[bench]\nusd_per_hour = 1\nvcpu = 8\n", "there is no field vcpu. Did you mean vcpus?"),
        ('[bench]\nusd_per_hour = 1\nseen_on = "2026-11-01"\n', "seen_on must be a day without quotes"),
        ("[bench]\nusd_per_hour = 1\nseen_on = 2026-11-01T10:00:00Z\n", "seen_on must be a day without quotes"),
        ('[""]\nusd_per_hour = 1\n', "name must not be empty"),
        ('[gpus.X]\nvendor = "nvidia"\n', "architecture, launch_year, memory_gib"),
        (MY_GPU.replace("12\n", '"12"\n', 1), "memory_gib"),
        (MY_GPU.replace("6.1", "-6.1"), "fp32_tflops must be positive"),
        (MY_GPU.replace('"nvidia"', '"voodoo"'), "voodoo"),
        (MY_GPU + "warp = 9\n", "there is no field warp"),
        ("gpus = 3\n", "gpus must hold sections"),
    ],
)
def test_a_mistake_is_reported_with_file_machine_and_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert "machines.toml" in str(caught.value)
    if text.startswith("[bench]\n"):
        assert "[bench]" in str(caught.value)


def test_binary_garbage_is_not_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "machines.toml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UsageError, match="cannot be read"):
        read_machines(path, load_gpus())


def test_a_directory_is_not_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_machines(tmp_path, load_gpus())
