"""The description of this machine."""

from pathlib import Path

from trainfare.profiler.host import _vm_type, this_host


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
