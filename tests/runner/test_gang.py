"""The command and the variables of each node, by its launcher."""

import json

import pytest

from trainfare.model.run import LAUNCHERS, Launcher
from trainfare.runner.gang import Gang, NodeStart, launcher_of, meeting_port, start_of_node

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def start(launcher: Launcher, command: str, node: int, *, gpus: int = 0) -> NodeStart:
    gang = Gang(launcher=launcher, addresses=ADDRESSES, port=29500, gpus=gpus)
    return start_of_node(command.split(), gang, node)


def line(launcher: Launcher, command: str, node: int, *, gpus: int = 0) -> str:
    return " ".join(start(launcher, command, node, gpus=gpus).command)


@pytest.mark.parametrize(
    ("command", "framework", "launcher"),
    [
        ("torchrun --nproc-per-node 2 train.py", None, "torchrun"),
        ("/venv/bin/torchrun train.py", "pytorch", "torchrun"),
        ("env X=1 python -m torch.distributed.run train.py", None, "torchrun"),
        ("uv run torchrun train.py", None, "torchrun"),
        ("accelerate launch train.py", None, "accelerate"),
        ("python -m accelerate.commands.launch train.py", None, "accelerate"),
        ("accelerate config", None, "env"),
        ("spark-submit train.py", None, "spark"),
        ("python train.py", "jax", "jax"),
        ("python train.py", "tensorflow", "tf-workers"),
        ("python train.py", "keras", "tf-workers"),
        ("python train.py", "pytorch", "env"),
        ("python train.py torchrun", None, "env"),
    ],
)
def test_the_launcher_is_the_one_that_the_command_names(command: str, framework: str | None, launcher: str) -> None:
    assert launcher_of(command.split(), framework) == launcher


def test_torchrun_gets_its_place_and_keeps_its_processes_and_the_arguments_of_the_script() -> None:
    found = line("torchrun", "torchrun --standalone --nproc_per_node 2 --nnodes=1 train.py --nnodes 7 --epochs 3", 1)
    assert found == (
        "torchrun --nnodes=3 --node-rank=1 --master-addr=10.0.0.1 --master-port=29500 --nproc_per_node 2 "
        "train.py --nnodes 7 --epochs 3"
    )


def test_torchrun_starts_a_process_for_each_gpu_unless_the_user_says_how_many() -> None:
    assert "--nproc-per-node=4" in line("torchrun", "torchrun train.py", 0, gpus=4)
    assert "--nproc-per-node=4" not in line("torchrun", "torchrun --nproc-per-node=2 train.py", 0, gpus=4)
    assert "nproc" not in line("torchrun", "torchrun train.py", 0)


def test_a_plain_script_is_started_by_the_torchrun_of_its_python() -> None:
    assert line("torchrun", "/venv/bin/python -u train.py --lr 1", 2) == (
        "/venv/bin/python -m torch.distributed.run --nnodes=3 --node-rank=2 --master-addr=10.0.0.1 "
        "--master-port=29500 train.py --lr 1"
    )
    assert line("torchrun", "python3 -m pkg.train --lr 1", 0).endswith("--master-port=29500 -m pkg.train --lr 1")


def test_a_rendezvous_of_the_user_is_kept_unless_it_is_on_one_machine() -> None:
    found = line("torchrun", "torchrun --rdzv-backend c10d --rdzv-endpoint etcd.lab:2379 train.py", 1)
    assert found == ("torchrun --rdzv-backend c10d --rdzv-endpoint etcd.lab:2379 --nnodes=3 --node-rank=1 train.py")
    assert "rdzv" not in line("torchrun", "torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 train.py", 1)


def test_accelerate_counts_processes_over_all_machines() -> None:
    assert line("accelerate", "accelerate launch --multi_gpu --num_processes 4 train.py --num_processes 9", 2) == (
        "accelerate launch --num_machines 3 --machine_rank 2 --num_processes 12 --main_process_ip 10.0.0.1 "
        "--main_process_port 29500 --multi_gpu train.py --num_processes 9"
    )
    assert "--num_processes 6 " in line("accelerate", "accelerate launch --num-machines 2 --num-processes 4 a.py", 0)
    assert "--num_processes 24 " in line("accelerate", "accelerate launch a.py", 0, gpus=8)
    assert start("accelerate", "accelerate launch --cpu a.py", 2).environment["RANK"] == "2"


def test_a_plain_program_finds_its_place_in_variables() -> None:
    found = start("env", "python train.py", 2)
    assert found.command == ("python", "train.py")
    wanted = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500", "RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "0"}
    assert wanted.items() <= found.environment.items()
    assert found.environment["JAX_COORDINATOR_ADDRESS"] == "10.0.0.1:29500"
    assert found.environment["PET_NODE_RANK"] == "2", "a torchrun in a script of the user reads it"
    assert json.loads(found.environment["TF_CONFIG"])["task"] == {"type": "worker", "index": 2}


def test_the_workers_of_tensorflow_have_a_port_each() -> None:
    found = start("tf-workers", "python train.py", 1)
    assert json.loads(found.environment["TF_CONFIG"]) == {
        "cluster": {"worker": ["10.0.0.1:29500", "10.0.0.2:29501", "10.0.0.3:29502"]},
        "task": {"type": "worker", "index": 1},
    }
    assert found.ports == (29501,)


def test_the_first_node_is_server_and_chief_and_the_others_are_workers() -> None:
    first, second = (start("tf-server", "python train.py", node) for node in (0, 1))
    cluster = {"chief": ["10.0.0.1:29500"], "ps": ["10.0.0.1:29503"], "worker": ["10.0.0.2:29501", "10.0.0.3:29502"]}
    chief, server = (json.loads(first.environment[name]) for name in ("TF_CONFIG", "TRAINFARE_SERVER_TF_CONFIG"))
    assert chief == {"cluster": cluster, "task": {"type": "chief", "index": 0}}
    assert server == {"cluster": cluster, "task": {"type": "ps", "index": 0}}
    assert json.loads(second.environment["TF_CONFIG"]) == {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    assert first.command[-2:] == second.command == ("python", "train.py")


def test_jax_is_told_all_that_it_detects() -> None:
    found = start("jax", "python train.py", 1, gpus=2).environment
    assert (found["JAX_COORDINATOR_ADDRESS"], found["JAX_LOCAL_DEVICE_IDS"]) == ("10.0.0.1:29500", "0,1")
    assert (found["OMPI_COMM_WORLD_SIZE"], found["OMPI_COMM_WORLD_RANK"]) == ("3", "1")


def test_ray_and_spark_run_the_program_on_the_first_node_alone() -> None:
    head, worker = (start("ray", "/venv/bin/python train.py", node) for node in (0, 1))
    assert head.command[4:] == ("/venv/bin/ray", "10.0.0.1", "29500", "/venv/bin/python", "train.py")
    assert head.environment == {"RAY_ADDRESS": "10.0.0.1:29500"}
    assert worker.command[4:] == ("/venv/bin/ray", "10.0.0.2", "10.0.0.1", "29500")
    master, other = (start("spark", "/v/bin/spark-submit --master local[2] train.py x", node) for node in (0, 1))
    assert " ".join(master.command[4:]) == (
        "/v/bin/spark-class 10.0.0.1 29500 /v/bin/spark-submit --master spark://10.0.0.1:29500 "
        "--conf spark.driver.host=10.0.0.1 train.py x"
    )
    assert other.command[0] == "/v/bin/spark-class"
    assert other.command[-1] == "spark://10.0.0.1:29500"
    assert other.environment["SPARK_LOCAL_IP"] == "10.0.0.2"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_no_other_node_waits_for_a_port_of_the_first(launcher: Launcher) -> None:
    assert 29500 in start(launcher, "python train.py", 0).ports
    assert 29500 not in start(launcher, "python train.py", 1).ports


def test_an_address_with_colons_is_bracketed_before_a_port() -> None:
    gang = Gang(launcher="jax", addresses=("fd00::1", "fd00::2"), port=1234)
    assert start_of_node(["python"], gang, 1).environment["JAX_COORDINATOR_ADDRESS"] == "[fd00::1]:1234"


def test_launches_have_ports_of_their_own_below_those_that_the_kernel_gives_away() -> None:
    ports = {meeting_port(f"r{number}-1") for number in range(100)}
    assert len(ports) > 50
    assert all(20_000 <= port < 32_000 for port in ports)
    assert meeting_port("r1-1", {"MASTER_PORT": "29500"}) == 29500
    assert meeting_port("r1-1", {"MASTER_PORT": "x"}) == meeting_port("r1-1")


def test_a_node_without_an_address_is_no_node() -> None:
    with pytest.raises(ValueError, match="must have an address"):
        Gang(launcher="env", addresses=("10.0.0.1", ""), port=1)
