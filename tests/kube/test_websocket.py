"""Frames of a websocket: what a server reads of ours, and what it may send that breaks the protocol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube.errors import ProtocolError
from bulkhead.kube.websocket import BINARY, PING, Messages, frame, masked


def unmasked(data: bytes) -> bytes:
    """The frame as a server would send it."""
    length = data[1] & 0x7F
    start = {126: 4, 127: 10}.get(length, 2)
    head = bytes([data[0], length]) + data[2:start]
    return head + masked(data[start + 4 :], data[start : start + 4])


@given(st.binary(max_size=70_000), st.integers(min_value=1, max_value=9))
def test_what_is_written_is_read_in_whatever_pieces_it_comes(data: bytes, pieces: int) -> None:
    sent = unmasked(frame(BINARY, data)) + unmasked(frame(PING, b"x"))
    messages, found = Messages(), []
    size = len(sent) // pieces + 1
    for at in range(0, len(sent), size):
        found += list(messages.feed(sent[at : at + size]))
    assert found == [(BINARY, data), (PING, b"x")]


def test_parts_make_one_message_with_a_control_frame_in_between() -> None:
    parts = bytes([0x02, 1]) + b"a" + bytes([0x89, 0]) + bytes([0x80, 1]) + b"b"
    assert list(Messages().feed(parts)) == [(PING, b""), (BINARY, b"ab")]


@pytest.mark.parametrize(
    "data",
    [
        bytes([0xC2, 0]),  # an extension
        bytes([0x82, 0x80, 0, 0, 0, 0]),  # a mask
        bytes([0x80, 1]) + b"a",  # a part of nothing
        bytes([0x02, 1]) + b"a" + bytes([0x82, 1]) + b"b",  # a message within a message
        bytes([0x09, 1]) + b"a",  # a control frame in parts
        bytes([0x89, 126, 0, 200]) + b"x" * 200,  # a long control frame
        bytes([0x82, 127]) + (1 << 40).to_bytes(8, "big"),
        bytes([0x82, 127]) + b"\xff" * 8,
    ],
)
def test_what_breaks_the_protocol_or_has_no_bound_ends_it(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        list(Messages().feed(data))


def test_a_message_of_many_parts_has_a_bound() -> None:
    part = bytes([0x00, 127]) + (1 << 20).to_bytes(8, "big") + b"x" * (1 << 20)
    with pytest.raises(ProtocolError, match="more than"):
        list(Messages().feed(bytes([0x02, 0]) + part * 5))
