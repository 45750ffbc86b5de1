"""Real processes that end for different reasons, and what a real agent reports of each."""

from __future__ import annotations

import sys

from tests.agent.conftest import AgentProcess, wanted
from tests.support.gateway import Gateway
from trainmaster_wire.agent.v1 import session_pb2

End = session_pb2.AttemptObserved

# /dev/full refuses every byte with ENOSPC, as a full disk does; a limit of the address space stands for a full memory.
SCRIPTS = {
    "raises": ("raise ValueError('the loss is not a number')", End.SCRIPT_ERROR),
    "kill-9": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", End.KILLED),
    "disk": ("open('/dev/full', 'w').write('x' * 100_000)", End.DISK_FULL),
    "memory": (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28)); bytearray(1 << 30)",
        End.OUT_OF_MEMORY_HOST,
    ),
    "gpu-memory": ("raise RuntimeError('CUDA error: out of memory')", End.OUT_OF_MEMORY_GPU),
    "ecc": ("raise RuntimeError('CUDA error: uncorrectable ECC error encountered')", End.GPU_FAILED),
    "refused": ("import socket; socket.create_connection(('127.0.0.1', 1))", End.NETWORK),
    "succeeds": ("pass", End.SUCCEEDED),
}


async def test_each_way_to_end_has_its_reason_and_the_exception_is_quoted(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await agent.start()
    for name, (script, reason) in SCRIPTS.items():
        await gateway.want(wanted(f"att-{name}", sys.executable, "-c", script))
        ended = await gateway.until_drained(f"att-{name}")
        assert (name, ended.end) == (name, reason)
        assert "Error" not in script or script.partition("'")[2].rpartition("'")[0] in ended.reason


async def test_a_program_that_is_not_there_is_the_error_of_who_wrote_the_command(
    gateway: Gateway, agent: AgentProcess
) -> None:
    await agent.start()
    await gateway.want(wanted("att-no-program", "no-such-program"))
    assert (await gateway.until_drained("att-no-program")).end == End.SCRIPT_ERROR
