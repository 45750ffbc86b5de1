"""What is run for an attempt: argv and environment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from agent.launchers.command import CommandError, Place, argv_of, environment_of, is_ranked, processes_of
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.roles import Role
from platform_core.jobs.spec import CheckpointPolicy
from tests.agent.launches import LAUNCH

PLACE = Place(PurePosixPath("/data/att"), "/venv/python", gpus=(), inherited={"PATH": "/bin"})
GANG = replace(LAUNCH, nodes=2, node_rank=1, slots=(0, 1), master_address="10.0.0.1", master_port=29501)


def after_rank(command: tuple[str, ...], strategy: str = "ddp") -> tuple[str, ...]:
    argv = argv_of(replace(GANG, command=command, strategy=strategy), "/venv/python")
    return argv[argv.index("trainmaster.rank") + 1 :]


@pytest.mark.parametrize("strategy", ["torchrun", "ddp", "deepspeed"])
def test_torchrun_starts_a_rank_for_each_slot(strategy: str) -> None:
    argv = argv_of(replace(GANG, strategy=strategy), "/venv/python")
    assert argv[:4] == ("/venv/python", "-P", "-m", "trainmaster.gang")
    for flag in ("--nnodes=2", "--node-rank=1", "--nproc-per-node=2", "--max-restarts=0"):
        assert flag in argv
    assert {"--master-addr=10.0.0.1", "--master-port=29501"} <= set(argv)


def test_the_interpreter_before_the_script_is_dropped() -> None:
    assert after_rank(("python", "train.py", "--lr", "1")) == ("train.py", "--lr", "1")
    assert after_rank(("python3", "-u", "train.py")) == ("train.py",)
    assert after_rank(("/usr/bin/python3.11", "train.py")) == ("train.py",)
    assert after_rank(("train.py",)) == ("train.py",)
    assert after_rank(("python", "-m", "pkg.train", "x")) == ("-m", "pkg.train", "x")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ((), "is empty"),
        (("torchrun", "train.py"), "choose strategy custom"),
        (("bash", "run.sh"), "choose strategy custom"),
        (("python",), "names no script"),
        (("python", "-c", "print(1)"), "names no script"),
    ],
)
def test_a_command_that_torchrun_cannot_run_is_refused_with_the_remedy(
    command: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        argv_of(replace(GANG, command=command), "/venv/python")


def test_a_strategy_of_the_future_is_refused() -> None:
    with pytest.raises(CommandError, match="update the agent"):
        argv_of(replace(GANG, strategy="quantum"), "/venv/python")


def test_a_custom_command_runs_as_it_is_once_a_node() -> None:
    custom = replace(GANG, strategy="custom", command=("bash", "-c", "echo $NODE_RANK"))
    assert argv_of(custom, "/venv/python") == ("bash", "-c", "echo $NODE_RANK")
    environment = environment_of(custom, "att-a", PLACE)
    assert {k: environment[k] for k in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NNODES")} == {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29501",
        "NODE_RANK": "1",
        "NNODES": "2",
    }
    assert (environment["TRAINMASTER_SLOTS"], environment["RANK"]) == ("0,1", "1")


def test_a_bare_python_is_the_nodes_interpreter_in_a_custom_command_too() -> None:
    custom = replace(GANG, strategy="custom", command=("python", "x.py"))
    assert argv_of(custom, "/venv/python") == ("/venv/python", "x.py")


RANKED = ["/venv/python", "-m", "trainmaster.rank"]


@pytest.mark.parametrize(("strategy", "processes"), [("horovod", 2), ("tensorflow", 1), ("jax", 1)])
def test_a_framework_without_torchrun_has_a_process_for_each_slot_or_node(
    strategy: str, processes: int
) -> None:
    launch = replace(GANG, strategy=strategy)
    argv = argv_of(launch, "/venv/python")
    assert argv[:4] == ("/venv/python", "-P", "-m", "trainmaster.processes")
    plan = json.loads(argv[4])
    assert (plan["nodes"], plan["node_rank"], plan["master"]) == (2, 1, ["10.0.0.1", 29501])
    assert plan["local_size"] == processes_of(launch) == processes
    assert plan["commands"] == [[*RANKED, "train.py"]]
    assert is_ranked(launch)


def test_each_role_has_its_own_command_or_the_jobs() -> None:
    roles = (Role("cache", 1, ("redis-server",)), Role("ps", 1, ("python", "ps.py")), Role("worker", 2))
    plan = json.loads(argv_of(replace(GANG, strategy="roles", roles=roles), "/venv/python")[4])
    assert plan["roles"] == [["cache", 1], ["ps", 1], ["worker", 2]]
    assert plan["commands"] == [["redis-server"], [*RANKED, "ps.py"], [*RANKED, "train.py"]]


def test_deepspeed_is_told_its_accelerator_and_its_place_among_the_nodes() -> None:
    launch = replace(GANG, strategy="deepspeed")
    environment = environment_of(launch, "att-a", PLACE)
    names = ("DS_ACCELERATOR", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE", "TRAINMASTER_SAVING")
    assert [environment[name] for name in names] == ["cpu", "2", "1", "2", "engine"]
    gpus = environment_of(launch, "att-a", replace(PLACE, gpus=("GPU-a", "GPU-b")))
    assert gpus["DS_ACCELERATOR"] == "cuda"


def test_the_environment_tells_the_script_what_it_needs() -> None:
    launch = replace(
        GANG,
        environment=(("MY", "1"), ("OMP_NUM_THREADS", "7"), ("TRAINMASTER_DIR", "/elsewhere")),
        secrets=(("HF_TOKEN", "hf"),),
        seed=0,
        checkpoint=CheckpointPolicy(interval_steps=50, interval_ms=60_000),
        hyperparameters_json='{"lr": 1}',
        cpus_per_gpu=4,
    )
    environment = environment_of(launch, "att-a", PLACE)
    assert environment["PATH"] == "/bin"
    assert (environment["MY"], environment["HF_TOKEN"]) == ("1", "hf")
    assert environment["OMP_NUM_THREADS"] == "7"  # the user's word
    assert environment["TRAINMASTER_DIR"] == "/data/att"  # not the user's
    assert environment["TRAINMASTER_SEED"] == "0"
    assert environment["TRAINMASTER_CHECKPOINT_INTERVAL_STEPS"] == "50"
    assert environment["TRAINMASTER_CHECKPOINT_INTERVAL_SECONDS"] == "60"
    assert environment["TRAINMASTER_HYPERPARAMETERS"] == '{"lr": 1}'
    assert "TRAINMASTER_RESUME" not in environment
    assert environment_of(replace(launch, environment=()), "att-a", PLACE)["OMP_NUM_THREADS"] == "4"


def test_cpu_slots_see_no_gpu_and_gpu_slots_only_theirs() -> None:
    assert environment_of(GANG, "att-a", PLACE)["CUDA_VISIBLE_DEVICES"] == ""
    gpus = replace(PLACE, gpus=("GPU-a", "GPU-b"))
    assert environment_of(GANG, "att-a", gpus)["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"


def test_a_share_of_a_gpu_is_told_to_the_process() -> None:
    assert environment_of(GANG, "att-a", PLACE)["TRAINMASTER_GPU_MEMORY_SHARE"] == "1"
    shared = replace(PLACE, gpus=("GPU-a",), gpu_share=0.25)
    assert environment_of(GANG, "att-a", shared)["TRAINMASTER_GPU_MEMORY_SHARE"] == "0.25"


def test_collectives_use_the_interface_that_other_nodes_reach() -> None:
    environment = environment_of(GANG, "att-a", replace(PLACE, interface="eth1"))
    assert environment["GLOO_SOCKET_IFNAME"] == environment["NCCL_SOCKET_IFNAME"] == "eth1"


def test_temporary_files_go_where_the_node_says_unless_the_user_says_otherwise() -> None:
    place = replace(PLACE, tmp=PurePosixPath("/data/att/tmp"))
    assert environment_of(GANG, "att-a", place)["TMPDIR"] == "/data/att/tmp"
    assert (
        environment_of(replace(GANG, environment=(("TMPDIR", "/fast"),)), "att-a", place)["TMPDIR"] == "/fast"
    )
    assert "TMPDIR" not in environment_of(GANG, "att-a", PLACE)


def test_a_layout_comes_with_as_many_copies_as_the_attempt_has_slots_for() -> None:
    layout = Parallel(fsdp=2, tp=2, sp=True)
    found = environment_of(replace(GANG, slots=(0, 1, 2, 3), parallel=layout), "att-1", PLACE)
    assert found["TRAINMASTER_PARALLEL"] == "dp=2,fsdp=2,tp=2,sp=true,cp=1,pp=1,ep=1"
    assert "TRAINMASTER_PARALLEL" not in environment_of(GANG, "att-1", PLACE)
