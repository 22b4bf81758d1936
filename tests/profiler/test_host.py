"""The description of this machine."""

from pathlib import Path

from trainfare.profiler.host import (
    _vm_type,
    clock_ghz,
    physical_cores,
    read_cpuinfo,
    simd_bits,
    this_host,
)


def firmware(folder: Path, vendor: str, product: str) -> Path:
    (folder / "sys_vendor").write_text(f"{vendor}\n")
    (folder / "product_name").write_text(f"{product}\n")
    return folder


def test_instance_type_on_ec2_is_read_from_the_firmware(tmp_path: Path) -> None:
    assert _vm_type(firmware(tmp_path, "Amazon EC2", "g5.xlarge")) == "aws/g5.xlarge"


def test_other_machines_have_no_type(tmp_path: Path) -> None:
    assert _vm_type(firmware(tmp_path, "QEMU", "Standard PC")) is None
    assert _vm_type(tmp_path / "nowhere") is None


def test_type_given_by_the_user_is_used() -> None:
    host = this_host(vm_type="aws/p3.2xlarge", gpu="Tesla V100", gpus=1)
    assert (host.vm_type, host.gpu) == ("aws/p3.2xlarge", "Tesla V100")
    assert host.cores is not None
    assert host.memory_gib is not None


CPUINFO = """processor\t: 0
model name\t: Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz
cpu MHz\t\t: 3100.123
siblings\t: 8
cpu cores\t: 4
flags\t\t: fpu sse2 avx avx2 avx512f

processor\t: 1
model name\t: another
"""


def test_facts_are_those_of_the_first_processor() -> None:
    facts = read_cpuinfo(CPUINFO)
    assert facts["model name"] == "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz"
    assert (physical_cores(8, facts), physical_cores(2, facts), simd_bits(facts), clock_ghz(facts)) == (4, 1, 512, 2.9)


def test_a_clock_that_the_name_does_not_state_is_the_present_one() -> None:
    assert clock_ghz({"model name": "AMD EPYC 9R14", "cpu MHz": "3700.5"}) == 3.7
    assert clock_ghz({}) is None


def test_arm_names_its_vectors_features() -> None:
    assert simd_bits({"Features": "fp asimd"}) == 128
    assert simd_bits({"Features": "fp asimd sve"}) == 256
    assert simd_bits({}) is None


def test_cores_that_a_machine_does_not_tell_are_unknown() -> None:
    assert physical_cores(4, {}) is None
    assert physical_cores(None, {"siblings": "2", "cpu cores": "1"}) is None
