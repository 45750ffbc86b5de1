"""The launcher of the strategies without torchrun: the nodes find each other, and each process has its place."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from platform_core.jobs.launching import Address
from tests.frameworks.gangs import Gang, losses
from tests.sdk.scripts import environment
from trainmaster.exchange import ExchangeFailed, exchange

STAND_IN = str(Path(__file__).parent / "stand_in")


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_nodes_learn_the_addresses_of_all_processes_in_the_order_of_their_ranks() -> None:
    master, heard = Address("127.0.0.1", free_port()), {}

    def node(rank: int, ports: list[int]) -> None:
        heard[rank] = exchange("att-a", ports, rank, 3, master, 30)

    nodes = [threading.Thread(target=node, args=(rank, [rank, rank + 10])) for rank in (2, 1, 0)]
    for thread in nodes:
        thread.start()
    for thread in nodes:
        thread.join()
    assert heard[0] == heard[1] == heard[2] == [Address("127.0.0.1", port) for port in (0, 10, 1, 11, 2, 12)]


def test_a_stranger_and_a_process_of_an_earlier_attempt_are_turned_away() -> None:
    master, heard = Address("127.0.0.1", free_port()), []
    first = threading.Thread(target=lambda: heard.append(exchange("att-new", [1], 0, 2, master, 30)))
    first.start()
    for line in (b"GET / HTTP/1.1\r\n", b'{"attempt": "att-old", "node_rank": 1, "ports": [9]}\n', b"[]\n"):
        while True:
            try:
                with socket.create_connection((master.host, master.port), timeout=10) as stranger:
                    stranger.sendall(line)
                    assert stranger.recv(10) == b""
                break
            except ConnectionRefusedError:
                continue
    assert exchange("att-new", [2], 1, 2, master, 30) == [Address("127.0.0.1", 1), Address("127.0.0.1", 2)]
    first.join()
    assert heard == [[Address("127.0.0.1", 1), Address("127.0.0.1", 2)]]


def test_a_node_that_does_not_come_is_named() -> None:
    with pytest.raises(ExchangeFailed, match=r"Node 1 of 2 did not come in time\."):
        exchange("att-a", [1], 0, 2, Address("127.0.0.1", free_port()), 0)


def start(tmp_path: Path, *commands: list[str], stop_after: str = "") -> tuple[int, str]:
    """Two roles on one node, a process each. `stop_after`: SIGTERM once the log has this text."""
    plan = {
        "strategy": "roles", "nodes": 1, "node_rank": 0, "local_size": 2, "master": ["127.0.0.1", free_port()],
        "roles": [["a", 1], ["b", 1]], "commands": commands, "rendezvous_seconds": 10, "failed_seconds": 20,
    }  # fmt: skip
    launcher = subprocess.Popen(
        [sys.executable, "-m", "trainmaster.processes", json.dumps(plan)],
        env=environment(TRAINMASTER_DIR=tmp_path, TRAINMASTER_ATTEMPT="att-a"),
        stdout=subprocess.PIPE,
        text=True,
    )
    log = tmp_path / "logs" / "rank-1.log"
    while stop_after and launcher.poll() is None:
        if log.exists() and stop_after in log.read_text():
            launcher.terminate()
            break
    said, _ = launcher.communicate(timeout=60)
    return launcher.returncode, said


def test_the_first_process_that_fails_ends_the_others_and_is_named(tmp_path: Path) -> None:
    code, said = start(tmp_path, ["sleep", "1000"], ["sh", "-c", "exit 7"])
    assert code == 7
    assert "rank      : 1 (local_rank: 1)\n  exitcode  : 7" in said


def test_a_program_that_is_not_there_fails_with_its_name_in_the_log(tmp_path: Path) -> None:
    code, _ = start(tmp_path, ["sleep", "1000"], ["no-such-program"])
    assert code == 127
    assert "no-such-program: No such file" in (tmp_path / "logs" / "rank-1.log").read_text()


def test_a_stop_reaches_every_process_and_a_clean_end_stays_clean(tmp_path: Path) -> None:
    patient = ["sh", "-c", "trap 'exit 0' TERM; echo ready; while true; do sleep 0.05; done"]
    code, _ = start(tmp_path, ["true"], patient, stop_after="ready")
    assert code == 0
    ends = [json.loads((tmp_path / "ranks" / f"rank-{rank}.exit").read_text()) for rank in (0, 1)]
    assert [end["exit_code"] for end in ends] == [0, 0]


@pytest.mark.slow
def test_a_parameter_server_and_its_workers_train_and_go_on(tmp_path: Path) -> None:
    whole = Gang("parameter_server", tmp_path / "whole", nodes=2, slots=2, steps=60, save_every=10)
    said = losses(whole.run())
    assert sorted(said) == list(range(1, 61))
    assert said[60] < said[1]
    assert "workers" not in whole.logs()
    again = Gang("parameter_server", tmp_path / "again", nodes=2, slots=2, steps=70)
    assert sorted(losses(again.run(whole, 60))) == list(range(61, 71))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["all-reduce", "local-sgd", "diloco"])
def test_the_same_workers_train_without_the_server(mode: str, tmp_path: Path) -> None:
    gang = Gang(
        "parameter_server", tmp_path, nodes=2, slots=2, steps=60, hyperparameters={"mode": mode, "every": 4}
    )
    said = losses(gang.run())
    assert sorted(said) == list(range(3, 61, 3))
    assert said[60] < said[3]


@pytest.mark.slow
def test_horovod_over_two_nodes_goes_on_with_one(tmp_path: Path) -> None:
    """With a stand-in for Horovod, which has no wheel; the variables and the rendezvous are those of Horovod."""
    found = {"PYTHONPATH": STAND_IN}
    whole = Gang("horovod", tmp_path / "whole", nodes=2, slots=1, variables=found)
    said = losses(whole.run())
    assert sorted(said) == [1, 2, 3, 4]
    again = Gang("horovod", tmp_path / "again", nodes=1, slots=1, variables=found)
    assert losses(again.run(whole, 2)) == pytest.approx({step: said[step] for step in (3, 4)}, rel=1e-4)


def test_without_horovod_the_job_ends_with_the_remedy(tmp_path: Path) -> None:
    plan = {
        "strategy": "horovod", "nodes": 1, "node_rank": 0, "local_size": 1, "master": ["127.0.0.1", 1], "roles": [],
        "commands": [["true"]], "rendezvous_seconds": 1, "failed_seconds": 1,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "trainmaster.processes", json.dumps(plan)],
        env=environment(TRAINMASTER_DIR=tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "has no horovod; install it there" in done.stderr
