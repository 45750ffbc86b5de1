"""Whatever a job writes into an event file, the agent goes on."""

from contextlib import suppress
from random import Random

import pytest
from tensorboard.compat.proto.event_pb2 import Event

from trainmaster.event_files.records import record
from trainmaster.reader.pool import Stopped, read


def event() -> bytes:
    made = Event(wall_time=1.0, step=3)
    made.summary.value.add(tag="loss", simple_value=0.5)
    tensor = made.summary.value.add(tag="acc")
    tensor.metadata.plugin_data.plugin_name = "scalars"
    tensor.tensor.dtype = 1
    tensor.tensor.float_val.append(0.25)
    histogram = made.summary.value.add(tag="weights").histo
    histogram.bucket_limit.extend([0.0, 1.0])
    histogram.bucket.extend([1.0, 2.0])
    made.summary.value.add(tag="cat").image.encoded_image_string = b"\x89PNG\r\n\x1a\n" + bytes(20)
    return made.SerializeToString()


def lines_of(data: bytes) -> list[str]:
    lines: list[str] = read("agent.uplink.event_lines:parsed", "It", data, prefix="", plugins={})["lines"]
    return lines


def test_no_damage_of_an_event_ends_the_agent() -> None:
    """1,000 records, each damaged within its checksum, the same each time."""
    random, content = Random("events"), event()
    assert len(lines_of(record(content))) == 3
    damaged = []
    for _ in range(1000):
        changed = bytearray(content)
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(len(content))] = random.randrange(256)
        damaged.append(record(bytes(changed)))
    for one in damaged:
        with suppress(Stopped):
            lines_of(one)
    assert len(lines_of(record(content))) == 3


def test_a_tensor_that_claims_the_memory_of_the_machine_is_refused() -> None:
    made = Event(wall_time=1.0, step=3)
    value = made.summary.value.add(tag="acc")
    value.metadata.plugin_data.plugin_name = "scalars"
    value.tensor.dtype = 1
    value.tensor.float_val.append(0.25)
    value.tensor.tensor_shape.dim.add(size=2**31)
    with pytest.raises(Stopped, match="more memory than the 1 GiB allowed"):
        lines_of(record(made.SerializeToString()))
