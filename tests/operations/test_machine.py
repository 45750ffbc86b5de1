"""What `trainmaster up` starts, by what was asked for and what the machine has."""

import pytest

from webapp.operations.machine import Nodes, nodes


@pytest.mark.parametrize(
    ("agents", "slots", "gpus", "started"),
    [
        (None, None, 0, Nodes(4, 2)),
        (None, None, 8, Nodes(1, 0)),  # one agent offers what NVML finds
        (1, None, 8, Nodes(1, 0)),
        (None, 3, 8, Nodes(4, 3)),  # CPU slots were asked for
        (4, None, 8, Nodes(4, 2)),  # several agents cannot share the GPUs
        (0, None, 8, Nodes(0, 2)),
        (2, 5, 0, Nodes(2, 5)),
    ],
)
def test_gpus_are_used_unless_cpu_slots_or_several_nodes_are_asked_for(
    agents: int | None, slots: int | None, gpus: int, started: Nodes
) -> None:
    assert nodes(agents, slots, gpus) == started
