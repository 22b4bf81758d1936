"""How a program on several nodes finds its place among them: one command → the command and the variables of each node.

    torchrun      torchrun …, or python -m torch.distributed.run …   nodes, rank and the address of node 0 as options
    accelerate    accelerate launch …                                the same in its words, and the variables of `env`
    env           python train.py, or a script of the shell          MASTER_ADDR, RANK, WORLD_SIZE; JAX_…; TF_CONFIG
    jax           jax.distributed.initialize()                       JAX_…, and those by which it detects Open MPI
    tf-workers    MultiWorkerMirroredStrategy                        TF_CONFIG of workers alone
    tf-server     ParameterServerStrategy                            node 0 is server and chief, the others are workers
    ray           ray.init()                                         a head on node 0, where the program runs
    spark         spark-submit train.py                              a master on node 0, where the program runs

Ranks are the numbers of the nodes, and node 0 is where the others meet. What the user has set stays: a variable of the
run is not replaced, and MASTER_PORT among them is the port at which the nodes meet.
"""

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trainfare.model.run import Launcher

LEADING: tuple[Launcher, ...] = ("tf-server", "ray", "spark")
"""Launchers of programs that end with their first node: what runs on the others serves it until it is stopped."""
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""Variables that name the network interface by which a node reaches the others; only the node itself knows it."""
PORTS = 64
"""Ports from the one at which the nodes meet on, which are left to one launch."""
_FIRST_PORT, _PORT_RANGES = 20_000, 180

_TORCHRUN = ("torch.distributed.run", "torch.distributed.launch")
_ACCELERATE = ("accelerate.commands.launch", "accelerate.commands.accelerate_cli")
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 # it is compared with, nothing is opened
_TORCHRUN_FLAGS = frozenset({"standalone", "m", "module", "no-python", "run-path", "help", "h", "version"})
_ACCELERATE_FLAGS = frozenset(
    {
        *("cpu", "multi-gpu", "tpu", "ipex", "use-deepspeed", "use-fsdp", "use-megatron-lm", "use-xpu", "quiet", "q"),
        *("m", "module", "no-python", "debug", "same-network", "use-parallelism-config", "dynamo-use-fullgraph"),
        *("dynamo-use-dynamic", "dynamo-use-regional-compilation", "enable-cpu-affinity", "downcast-bf16"),
        *("tpu-use-sudo", "tpu-use-cluster", "help", "h"),
    }
)
_SPARK_FLAGS = frozenset({"verbose", "v", "supervise", "help", "h", "version"})
"""Options without a value; every other one has a value."""

_WITH_COMPANION = """
main= companion=
trap 'kill -TERM $main 2> /dev/null' TERM
start_companion "$@" & companion=$!
wait_for_companion "$@" || { kill -TERM $companion 2> /dev/null; exit 1; }
start_main "$@" & main=$!
wait $main; code=$?
while kill -0 $main 2> /dev/null; do wait $main; code=$?; done
kill -TERM $companion 2> /dev/null
exit $code
"""
"""Runs a program next to a process that serves it, and ends both when the program ends."""

_TF_SERVER = f"""
start_companion() {{ TF_CONFIG=$TRAINFARE_SERVER_TF_CONFIG exec "$@"; }}
wait_for_companion() {{ :; }}
start_main() {{ exec "$@"; }}
{_WITH_COMPANION}"""
_RAY_HEAD = f"""
ray=$1 address=$2 port=$3; shift 3
start_companion() {{
    exec "$ray" start --head --node-ip-address="$address" --port="$port" --include-dashboard=false \\
        --disable-usage-stats --block
}}
wait_for_companion() {{
    for _ in $(seq 120); do
        "$ray" health-check --address "$address:$port" > /dev/null 2>&1 && return 0
        kill -0 $companion 2> /dev/null || return 1
        sleep 0.5
    done
    return 1
}}
start_main() {{ exec "$@"; }}
{_WITH_COMPANION}"""
_RAY_WORKER = """
for _ in $(seq 120); do
    "$1" health-check --address "$3:$4" > /dev/null 2>&1 && break
    sleep 0.5
done
exec "$1" start --address="$3:$4" --node-ip-address="$2" --disable-usage-stats --block
"""
_SPARK_MASTER = f"""
spark=$1 address=$2 port=$3; shift 3
start_companion() {{
    exec "$spark" org.apache.spark.deploy.master.Master --host "$address" --port "$port" --webui-port $((port + 1))
}}
wait_for_companion() {{ :; }}
start_main() {{ exec "$@"; }}
{_WITH_COMPANION}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The nodes of one launch."""

    launcher: Launcher
    addresses: tuple[str, ...]
    """By which the nodes reach each other, that of node 0 first."""
    port: int
    """At which they meet on node 0; the next ones are used by launchers that need more."""
    gpus: int = 0
    """The GPUs of a node."""

    def __post_init__(self) -> None:
        if not self.addresses or not all(self.addresses):
            raise ValueError("every node of a gang must have an address")

    @property
    def nodes(self) -> int:
        return len(self.addresses)

    def at(self, node: int, port: int | None = None) -> str:
        """The address of a node with a port."""
        address = self.addresses[node]
        host = f"[{address}]" if ":" in address else address
        return f"{host}:{self.port if port is None else port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStart:
    """The start of a program on one node."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    """Ports that must be free on this node before the start."""


@dataclass(frozen=True, slots=True)
class _LauncherWords:
    """A command that names its launcher: the words of the launcher, its options, and the script with its arguments."""

    launcher: tuple[str, ...]
    options: tuple[tuple[str, ...], ...]
    """Each with its value, as one word or two."""
    rest: tuple[str, ...]

    def value(self, *names: str) -> str | None:
        """The value of the last option of one of these names."""
        found = [option for option in self.options if _name(option[0]) in names]
        return found[-1][-1].rpartition("=")[2] if found else None

    def without(self, *names: str) -> tuple[str, ...]:
        return tuple(word for option in self.options if _name(option[0]) not in names for word in option)


def launcher_of(command: Sequence[str], framework: str | None = None) -> Launcher:
    """The launcher of a command that names one; otherwise the one that suits the framework that its profile saw."""
    words = tuple(command)
    if _find(words, ("torchrun",), _TORCHRUN) is not None:
        return "torchrun"
    if _find(words, ("accelerate", "accelerate-launch"), _ACCELERATE) is not None:
        return "accelerate"
    if _find(words, ("spark-submit",), ()) is not None:
        return "spark"
    by_framework: dict[str, Launcher] = {"jax": "jax", "tensorflow": "tf-workers", "keras": "tf-workers"}
    return by_framework.get(framework or "", "env")


def meeting_port(key: str, variables: Mapping[str, str] | None = None) -> int:
    """The port at which the nodes of a launch meet: the user's, or one that follows from the key of the launch, so that
    launches on the same hosts are likely to have different ones."""
    stated = (variables or {}).get("MASTER_PORT", "")
    if stated.isdigit() and 0 < int(stated) <= 65_535 - PORTS:
        return int(stated)
    return _FIRST_PORT + PORTS * (zlib.crc32(key.encode()) % _PORT_RANGES)


def start_of_node(command: Sequence[str], gang: Gang, node: int) -> NodeStart:
    """The command and the variables of one node."""
    if not 0 <= node < gang.nodes:
        raise ValueError(f"there is no node {node} among {gang.nodes}")
    return _STARTS[gang.launcher](tuple(command), gang, node)


def _start_env(command: tuple[str, ...], gang: Gang, node: int) -> NodeStart:
    """Variables of all frameworks: a program reads those of its own."""
    environment = {
        **_torch_variables(gang, node),
        **_torchrun_variables(gang, node),
        **_jax_variables(gang, node),
        "TF_CONFIG": _tf_config(gang, node),
    }
    return NodeStart(command=command, environment=environment, ports=(gang.port,) if node == 0 else ())


def _torch_variables(gang: Gang, node: int) -> dict[str, str]:
    return {
        "MASTER_ADDR": gang.addresses[0],
        "MASTER_PORT": str(gang.port),
        "RANK": str(node),
        "WORLD_SIZE": str(gang.nodes),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "NODE_RANK": str(node),
    }


def _torchrun_variables(gang: Gang, node: int) -> dict[str, str]:
    """The options of a torchrun that a script of the user starts; those that the script states come first."""
    return {
        "PET_NNODES": str(gang.nodes),
        "PET_NODE_RANK": str(node),
        "PET_MASTER_ADDR": gang.addresses[0],
        "PET_MASTER_PORT": str(gang.port),
    }


def _jax_variables(gang: Gang, node: int) -> dict[str, str]:
    return {
        "JAX_COORDINATOR_ADDRESS": gang.at(0),
        "JAX_NUM_PROCESSES": str(gang.nodes),
        "JAX_PROCESS_ID": str(node),
    }


def _start_jax(command: tuple[str, ...], gang: Gang, node: int) -> NodeStart:
    """JAX itself reads only the address. `initialize()` without arguments asks Open MPI, Slurm and others for the rest,
    and takes the first whose variables it finds: those of Open MPI are the fewest."""
    detected = {
        "OMPI_MCA_orte_hnp_uri": f"0.0;tcp://{gang.at(0)}",
        "OMPI_COMM_WORLD_SIZE": str(gang.nodes),
        "OMPI_COMM_WORLD_RANK": str(node),
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    }
    devices = {"JAX_LOCAL_DEVICE_IDS": ",".join(map(str, range(gang.gpus)))} if gang.gpus else {}
    environment = {**_jax_variables(gang, node), **detected, **devices}
    return NodeStart(command=command, environment=environment, ports=(gang.port,) if node == 0 else ())


def _tf_config(gang: Gang, node: int) -> str:
    workers = [gang.at(each, gang.port + each) for each in range(gang.nodes)]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": node}})


def _start_tf_workers(command: tuple[str, ...], gang: Gang, node: int) -> NodeStart:
    return NodeStart(command=command, environment={"TF_CONFIG": _tf_config(gang, node)}, ports=(gang.port + node,))


def _start_tf_server(command: tuple[str, ...], gang: Gang, node: int) -> NodeStart:
    """TensorFlow's chief only says what is to be computed: it shares node 0 with the parameter server."""
    cluster = {
        "chief": [gang.at(0)],
        "ps": [gang.at(0, gang.port + gang.nodes)],
        "worker": [gang.at(each, gang.port + each) for each in range(1, gang.nodes)],
    }

    def config(kind: str, index: int) -> str:
        return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})

    if node:
        return NodeStart(
            command=command, environment={"TF_CONFIG": config("worker", node - 1)}, ports=(gang.port + node,)
        )
    return NodeStart(
        command=("sh", "-c", _TF_SERVER, "sh", *command),
        environment={"TF_CONFIG": config("chief", 0), "TRAINFARE_SERVER_TF_CONFIG": config("ps", 0)},
        ports=(gang.port, gang.port + gang.nodes),
    )


def _start_torchrun(command: tuple[str, ...], gang: Gang, node: int) -> NodeStart:
    found = _find(command, ("torchrun",), _TORCHRUN, flags=_TORCHRUN_FLAGS)
    if found is None:
        found = _with_module(command, "torch.distributed.run")
    nodes = (f"--nnodes={gang.nodes}", f"--node-rank={node}")
    processes: tuple[str, ...] = ()
    if found.value("nproc-per-node") is None and gang.gpus > 1:
        processes = (f"--nproc-per-node={gang.gpus}",)
    endpoint = (found.value("rdzv-endpoint") or "").rpartition(":")[0]
    if endpoint and endpoint not in _LOCAL:  # the user has a place of their own where nodes meet
        options = (*found.without("nnodes", "node-rank", "standalone"), *nodes, *processes)
        return NodeStart(command=(*found.launcher, *options, *found.rest))
    kept = found.without(
        *("nnodes", "node-rank", "master-addr", "master-port", "standalone"),
        *("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf"),
    )
    meeting = (f"--master-addr={gang.addresses[0]}", f"--master-port={gang.port}")
    return NodeStart(
        command=(*found.launcher, *nodes, *processes, *meeting, *kept, *found.rest),
        ports=(gang.port,) if node == 0 else (),
    )


def _start_accelerate(command: tuple[str, ...], gang: Gang, node: int) -> NodeStart:
    """Processes are counted over all machines. Where it starts one process and no torchrun, as on CPUs, that process
    finds its place in the variables of `env`."""
    found = _find(command, ("accelerate", "accelerate-launch"), _ACCELERATE, flags=_ACCELERATE_FLAGS)
    if found is None:
        found = _with_module(command, _ACCELERATE[0])
    stated, machines = found.value("num-processes"), found.value("num-machines")
    each = max(1, gang.gpus)
    if stated is not None and stated.isdigit():
        each = max(1, int(stated) // max(1, int(machines) if machines is not None and machines.isdigit() else 1))
    options = (
        *("--num_machines", str(gang.nodes), "--machine_rank", str(node), "--num_processes", str(each * gang.nodes)),
        *("--main_process_ip", gang.addresses[0], "--main_process_port", str(gang.port)),
    )
    kept = found.without("num-machines", "machine-rank", "num-processes", "main-process-ip", "main-process-port")
    return NodeStart(
        command=(*found.launcher, *options, *kept, *found.rest),
        environment=_torch_variables(gang, node),
        ports=(gang.port,) if node == 0 else (),
    )


def _start_ray(command: tuple[str, ...], gang: Gang, node: int) -> NodeStart:
    ray = _sibling(command[0], "ray")
    if node:
        words = ("sh", "-c", _RAY_WORKER, "sh", ray, gang.addresses[node], gang.addresses[0], str(gang.port))
        return NodeStart(command=words)
    return NodeStart(
        command=("sh", "-c", _RAY_HEAD, "sh", ray, gang.addresses[0], str(gang.port), *command),
        environment={"RAY_ADDRESS": gang.at(0)},
        ports=(gang.port,),
    )


def _start_spark(command: tuple[str, ...], gang: Gang, node: int) -> NodeStart:
    found = _find(command, ("spark-submit",), (), flags=_SPARK_FLAGS)
    if found is None:
        found = _LauncherWords((_sibling(command[0], "spark-submit"),), (), _script_words(command))
    spark, master = _sibling(found.launcher[-1], "spark-class"), f"spark://{gang.at(0)}"
    environment = {"SPARK_LOCAL_IP": gang.addresses[node]}
    if "/" in spark:  # a Spark that pip installed is found through its Python
        environment["PYSPARK_PYTHON"] = _sibling(spark, "python3")
    if node:
        options = ("--webui-port", str(gang.port + 1), "--work-dir", "../spark")  # which is removed with the launch
        words = (spark, "org.apache.spark.deploy.worker.Worker", *options, master)
        return NodeStart(command=words, environment=environment)
    stated = found.value("master")
    place = ("--master", master) if stated is None or stated.startswith("local") else ("--master", stated)
    submit = (*found.launcher, *place, "--conf", f"spark.driver.host={gang.addresses[0]}", *found.without("master"))
    return NodeStart(
        command=("sh", "-c", _SPARK_MASTER, "sh", spark, gang.addresses[0], str(gang.port), *submit, *found.rest),
        environment=environment,
        ports=(gang.port,),
    )


_STARTS: Mapping[Launcher, Callable[[tuple[str, ...], Gang, int], NodeStart]] = {
    "torchrun": _start_torchrun,
    "accelerate": _start_accelerate,
    "env": _start_env,
    "jax": _start_jax,
    "tf-workers": _start_tf_workers,
    "tf-server": _start_tf_server,
    "ray": _start_ray,
    "spark": _start_spark,
}


def _find(
    command: Sequence[str], programs: Sequence[str], modules: Sequence[str], *, flags: frozenset[str] = frozenset()
) -> _LauncherWords | None:
    """The launcher in a command, as a program or as a module of Python; None if the command starts its script itself.
    Words before it, such as `env X=1` or `uv run`, belong to the launcher."""
    for number, word in enumerate(command):
        name, end = word.rpartition("/")[2], number + 1
        is_module = word in modules and command[max(0, number - 1)] == "-m"
        if word.endswith((".py", ".sh")):
            return None
        if name not in programs and not is_module:
            continue
        if name in ("accelerate", _ACCELERATE[1]):
            if tuple(command[end : end + 1]) != ("launch",):
                return None
            end += 1
        options, rest = _options(command[end:], flags)
        return _LauncherWords(tuple(command[:end]), options, rest)
    return None


def _options(words: Sequence[str], flags: frozenset[str]) -> tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]:
    """The options at the beginning of some words, and the other words."""
    options: list[tuple[str, ...]] = []
    place = 0
    while place < len(words) and words[place].startswith("-"):
        size = 1 if "=" in words[place] or _name(words[place]) in flags else 2
        options.append(tuple(words[place : place + size]))
        place += size
    return tuple(options), tuple(words[place:])


def _name(option: str) -> str:
    return option.partition("=")[0].lstrip("-").replace("_", "-")


def _with_module(command: tuple[str, ...], module: str) -> _LauncherWords:
    """A plain `python train.py` or `python -m package`, to be started by a module of the same Python."""
    python = command[0]
    if not python.rpartition("/")[2].startswith("python"):
        return _LauncherWords(("python3", "-m", module), (("--no-python",),), command)
    return _LauncherWords((python, "-m", module), (), _script_words(command))


def _script_words(command: tuple[str, ...]) -> tuple[str, ...]:
    """The script or `-m module` of a plain command of Python, with its arguments."""
    if not command[0].rpartition("/")[2].startswith("python"):
        return command
    place = 1
    while place < len(command) and command[place].startswith("-") and command[place] != "-m":
        place += 2 if command[place] in ("-X", "-W") else 1
    return command[place:]


def _sibling(program: str, name: str) -> str:
    """A program in the same folder as another one, if that is named by its folder."""
    folder, slash, _ = program.rpartition("/")
    return f"{folder}{slash}{name}"
