"""Telemetry in the text format of Prometheus: made when a heartbeat arrives, so that a scrape only puts it together.

A cluster has tens of thousands of samples. Read, judged and formatted one by one at each scrape they would take longer
than everything else in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from platform_core.node.description import POWER, SlotTelemetry, Telemetry

# In the kept text they stand for labels, which the heartbeat does not know, and for the end of a family.
_NODE, _NODE_AND_TYPE, _END = "\x01", "\x02", "\x03"


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    words: str
    of_slot: Callable[[SlotTelemetry], float | None] | None = None
    of_node: Callable[[Telemetry], float] | None = None
    of_xid: Callable[[SlotTelemetry], Mapping[str, float]] | None = None  # by number of the error


def _xids(slot: SlotTelemetry) -> Mapping[str, float]:
    prefix = "xid_"
    return {
        name.removeprefix(prefix): count for name, count in slot.readings.items() if name.startswith(prefix)
    }


FAMILIES = (
    Family("slot_utilisation_ratio", "Utilisation of a slot, 0 to 1.", lambda slot: slot.utilisation),
    Family("slot_memory_used_bytes", "Used memory of a slot.", lambda slot: slot.memory_used_bytes),
    Family("slot_temperature_celsius", "Temperature of a GPU.", lambda slot: slot.temperature_celsius),
    Family("slot_power_watts", "Power that a GPU draws.", lambda slot: slot.readings.get(POWER)),
    Family(
        "slot_ecc_corrected",
        "Corrected memory errors since the driver was loaded.",
        lambda slot: slot.ecc_corrected,
    ),
    Family(
        "slot_ecc_uncorrected", "Uncorrected memory errors since then.", lambda slot: slot.ecc_uncorrected
    ),
    Family("slot_xid_errors", "XID errors of a GPU in the last hour, by number.", of_xid=_xids),
    Family(
        "node_disk_free_bytes",
        "Free bytes of the data folder of a node.",
        of_node=lambda node: node.disk_free_bytes,
    ),
    Family("node_memory_used_bytes", "Used memory of a node.", of_node=lambda node: node.memory_used_bytes),
)


def kept(telemetry: Telemetry) -> str:
    """The samples of one node by family, with stand-ins for its labels."""
    return _END.join("".join(_lines(family, telemetry)) for family in FAMILIES)


def _lines(family: Family, telemetry: Telemetry) -> Iterable[str]:
    if family.of_node is not None:
        yield f"trainmaster_{family.name}{{{_NODE}}} {family.of_node(telemetry)}\n"
    elif family.of_slot is not None:
        for slot in telemetry.slots:
            if (value := family.of_slot(slot)) is not None:
                yield f'trainmaster_{family.name}{{{_NODE_AND_TYPE},slot="{slot.index}"}} {value}\n'
    elif family.of_xid is not None:
        for slot in telemetry.slots:
            of_slot = f'{_NODE_AND_TYPE},slot="{slot.index}"'
            for number, count in family.of_xid(slot).items():
                yield f'trainmaster_{family.name}{{{of_slot},xid="{number}"}} {count}\n'


def put_together(nodes: Iterable[tuple[str, str, str]]) -> list[str]:
    """The families of these (hostname, GPU type, kept text), one after the other as the format asks.

    In pieces: each copy of the whole text, which has megabytes, would take longer than a database query.
    """
    parts: list[list[str]] = [[head(family.name, family.words)] for family in FAMILIES]
    for hostname, gpu_type, text in nodes:
        named = f'node="{escaped(hostname)}"'
        both = f'gpu_type="{gpu_type}",{named}'
        of_families = text.replace(_NODE, named).replace(_NODE_AND_TYPE, both).split(_END)
        if len(of_families) != len(FAMILIES):
            continue  # kept by a gateway of another version, until its next heartbeat
        for part, lines in zip(parts, of_families, strict=True):
            part.append(lines)
    return [piece for part in parts for piece in part]


def escaped(text: str) -> str:
    """As the text format wants it in the value of a label."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def head(name: str, words: str) -> str:
    return f"# HELP trainmaster_{name} {words}\n# TYPE trainmaster_{name} gauge\n"
