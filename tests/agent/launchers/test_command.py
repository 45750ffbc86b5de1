"""What is run for an attempt: argv and environment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from agent.launchers.command import CommandError, Place, argv_of, environment_of
from platform_core.jobs.spec import CheckpointPolicy
from tests.agent.launches import LAUNCH

PLACE = Place(PurePosixPath("/data/att"), "/venv/python", gpus=(), inherited={"PATH": "/bin"})
GANG = replace(LAUNCH, nodes=2, node_rank=1, slots=(0, 1), master_address="10.0.0.1", master_port=29501)


def after_rank(command: tuple[str, ...], strategy: str = "ddp") -> tuple[str, ...]:
    argv = argv_of(replace(GANG, command=command, strategy=strategy), "/venv/python")
    return argv[argv.index("trainmaster.rank") + 1 :]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "deepspeed"])
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


def test_horovod_starts_its_slots_on_this_node_with_torchs_names_of_ranks() -> None:
    argv = argv_of(replace(GANG, strategy="horovod", nodes=1), "/venv/python")
    assert argv[:5] == ("horovodrun", "-np", "2", "-H", "localhost:2")
    assert "RANK=${HOROVOD_RANK" in argv[7]
    assert argv[-2:] == ("trainmaster.rank", "train.py")


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


def test_collectives_use_the_interface_that_other_nodes_reach() -> None:
    environment = environment_of(GANG, "att-a", replace(PLACE, interface="eth1"))
    assert environment["GLOO_SOCKET_IFNAME"] == environment["NCCL_SOCKET_IFNAME"] == "eth1"


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (frozenset({"nnodes", "max-restarts"}), []),  # PyTorch 2.4 to 2.12
        (frozenset({"nnodes", "max-restarts", "shutdown-timeout"}), ["--shutdown-timeout=120"]),  # 2.13
    ],
)
def test_torchrun_is_given_only_the_options_that_it_has(options: frozenset[str], given: list[str]) -> None:
    argv = argv_of(GANG, "/venv/python", options)
    assert [word for word in argv if "shutdown" in word] == given


def test_temporary_files_go_where_the_node_says_unless_the_user_says_otherwise() -> None:
    place = replace(PLACE, tmp=PurePosixPath("/data/att/tmp"))
    assert environment_of(GANG, "att-a", place)["TMPDIR"] == "/data/att/tmp"
    assert (
        environment_of(replace(GANG, environment=(("TMPDIR", "/fast"),)), "att-a", place)["TMPDIR"] == "/fast"
    )
    assert "TMPDIR" not in environment_of(GANG, "att-a", PLACE)
