"""Telemetry in the text format of Prometheus."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from platform_core.node.description import POWER, SlotTelemetry, Telemetry
from webapp.nodes import exposition

SLOTS = (SlotTelemetry(0, 0.5, 10, 40.0, 1, 0, readings={POWER: 300.5}), SlotTelemetry(1))


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_sample_has_the_labels_of_its_node() -> None:
    kept = exposition.kept(Telemetry(7, 8, SLOTS))
    found = read("".join(exposition.put_together([("gpu-1", "h100", kept), ('a"b\\', "a100", kept)])))
    slot = (("gpu_type", "h100"), ("node", "gpu-1"), ("slot", "0"))
    assert found["trainmaster_slot_utilisation_ratio", slot] == 0.5
    assert found["trainmaster_slot_power_watts", slot] == 300.5
    assert found["trainmaster_slot_ecc_uncorrected", slot] == 0
    assert found["trainmaster_node_disk_free_bytes", (("node", 'a"b\\'),)] == 7
    assert found["trainmaster_node_memory_used_bytes", (("node", "gpu-1"),)] == 8
    assert len(found) == 2 * 8  # the second slot has nothing to say


def test_each_family_is_in_one_piece_below_its_description() -> None:
    kept = exposition.kept(Telemetry(7, 8, SLOTS))
    text = "".join(exposition.put_together([("a", "x", kept), ("b", "x", kept)]))
    names = [line.split("{")[0] for line in text.splitlines() if not line.startswith("#")]
    assert names == sorted(names, key=names.index)
    assert text.count("# TYPE") == len(exposition.FAMILIES)


def test_what_another_version_has_kept_is_left_out_until_its_next_heartbeat() -> None:
    assert read("".join(exposition.put_together([("a", "x", "trainmaster_old{} 1\n")]))) == {}
