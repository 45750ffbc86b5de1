"""The table of strategies: what each process is told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from platform_core.jobs.launching import LAYOUTS, METHODS, Address, Process, Strategy

NODES = tuple(Address(f"10.0.0.{1 + rank // 2}", 4000 + rank) for rank in range(4))
THIRD = Process(rank=2, local_rank=0, local_size=2, node_rank=1, nodes=2, addresses=NODES, interface="eth1")


def told(strategy: Strategy, process: Process = THIRD) -> dict[str, str]:
    return METHODS[strategy].variables(process)


def test_every_strategy_differs_from_every_other_in_what_it_starts_or_says() -> None:
    ways = {
        (method.launcher, method.per_slot, method.saving, method.variables) for method in METHODS.values()
    }
    assert set(METHODS) == set(Strategy)
    assert len(ways) == len(Strategy)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_of_pytorch_is_read_as_torchrun(layout: str) -> None:
    assert Strategy(layout) is Strategy.TORCHRUN


def test_an_unknown_name_is_no_strategy() -> None:
    with pytest.raises(ValueError, match="quantum"):
        Strategy("quantum")


def test_horovod_is_told_its_place_and_the_rendezvous_of_rank_0() -> None:
    variables = told(Strategy.HOROVOD)
    assert (variables["HOROVOD_RANK"], variables["HOROVOD_SIZE"], variables["RANK"]) == ("2", "4", "2")
    assert (variables["HOROVOD_LOCAL_RANK"], variables["HOROVOD_CROSS_RANK"]) == ("0", "1")
    assert variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "10.0.0.1"
    assert variables["HOROVOD_GLOO_RENDEZVOUS_PORT"] == "4000"
    assert variables["HOROVOD_GLOO_IFACE"] == "eth1"
    assert "HOROVOD_GLOO_IFACE" not in told(Strategy.HOROVOD, replace(THIRD, interface=""))


def test_tensorflow_is_told_all_workers_and_which_it_is() -> None:
    workers = (Address("10.0.0.1", 4000), Address("fd00::2", 4001))
    process = Process(rank=1, local_rank=0, local_size=1, node_rank=1, nodes=2, addresses=workers)
    assert json.loads(told(Strategy.TENSORFLOW, process)["TF_CONFIG"]) == {
        "cluster": {"worker": ["10.0.0.1:4000", "[fd00::2]:4001"]},
        "task": {"type": "worker", "index": 1},
    }


def test_jax_is_told_its_coordinator() -> None:
    variables = told(Strategy.JAX)
    assert variables["JAX_COORDINATOR_ADDRESS"] == "10.0.0.1:4000"
    assert (variables["JAX_NUM_PROCESSES"], variables["JAX_PROCESS_ID"]) == ("4", "2")


def test_a_role_is_told_its_index_and_the_addresses_of_all() -> None:
    variables = told(Strategy.ROLES, replace(THIRD, roles=(("ps", 1), ("worker", 3))))
    addresses = {"ps": ["10.0.0.1:4000"], "worker": ["10.0.0.1:4001", "10.0.0.2:4002", "10.0.0.2:4003"]}
    assert (variables["TRAINMASTER_ROLE"], variables["TRAINMASTER_ROLE_INDEX"]) == ("worker", "1")
    assert json.loads(variables["TRAINMASTER_ROLES"]) == addresses
    assert json.loads(variables["TF_CONFIG"]) == {
        "cluster": addresses, "task": {"type": "worker", "index": 1}
    }  # fmt: skip


def test_deepspeed_uses_the_gpus_that_there_are() -> None:
    assert told(Strategy.DEEPSPEED)["DS_ACCELERATOR"] == "cpu"
    assert told(Strategy.DEEPSPEED, replace(THIRD, has_gpus=True))["DS_ACCELERATOR"] == "cuda"
