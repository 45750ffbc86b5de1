"""Messages with pieces are made and read without protobuf objects; protobuf must not see a difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.transfer.peers import frames
from trainmaster_wire.agent.v1 import chunk_transfer_pb2 as wire

NUMBERS = st.integers(0, 2**40)


@given(NUMBERS, st.integers(0, 2**31), st.binary(max_size=300))
def test_what_we_send_is_what_protobuf_would_send(piece: int, offset: int, data: bytes) -> None:
    def fill(view: memoryview) -> None:
        view[:] = data

    ours = frames.part_message(piece, offset, len(data), fill)
    part = wire.FromPeer.FromString(ours).part
    assert (part.piece, part.offset, part.data) == (piece, offset, data)


@given(NUMBERS, st.integers(0, 2**31), st.binary(max_size=300))
def test_what_protobuf_sends_is_read(piece: int, offset: int, data: bytes) -> None:
    message = wire.FromPeer(part=wire.Part(piece=piece, offset=offset, data=data))
    read = frames.decode(message.SerializeToString())
    assert isinstance(read, frames.Part)
    assert (read.piece, read.offset, bytes(read.data)) == (piece, offset, data)


@given(NUMBERS, st.integers(0, 2**31), st.binary(min_size=1, max_size=300))
def test_a_message_that_came_is_passed_on_as_it_is(piece: int, offset: int, data: bytes) -> None:
    came = wire.FromPeer(part=wire.Part(piece=piece, offset=offset, data=data)).SerializeToString()
    read = frames.decode(came)
    assert isinstance(read, frames.Part)
    assert frames.passed_on(piece, offset, read.data) is came


@given(NUMBERS, st.integers(0, 2**31), st.binary(min_size=2, max_size=300))
def test_bytes_that_came_otherwise_get_a_message_of_their_own(piece: int, offset: int, data: bytes) -> None:
    for view in (memoryview(data)[1:], memoryview(bytearray(data)), memoryview(data)):
        part = wire.FromPeer.FromString(frames.passed_on(piece, offset, view)).part
        assert (part.piece, part.offset, part.data) == (piece, offset, bytes(view))


def test_fields_of_a_later_version_do_not_disturb() -> None:
    later = wire.Part(piece=3, data=b"abc").SerializeToString() + b"\x22\x02hi"
    read = frames.decode(bytes([0x0A, len(later)]) + later)
    assert isinstance(read, frames.Part)
    assert (read.piece, bytes(read.data)) == (3, b"abc")


@pytest.mark.parametrize(
    "message",
    [wire.FromPeer(waiting=wire.Waiting(expected=True)), wire.FromPeer(not_here=wire.NotHere(reason="gone"))],
)
def test_other_messages_pass_as_they_are(message: wire.FromPeer) -> None:
    assert frames.decode(frames.encode(message)) == message
