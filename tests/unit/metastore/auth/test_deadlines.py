"""One deadline for all that a call sends and receives."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from airflow_hiveacid.metastore.auth import BoundedSocket


@pytest.fixture
def pair() -> Iterator[tuple[BoundedSocket, socket.socket]]:
    here, there = socket.socketpair()
    with BoundedSocket(fileno=here.detach()) as bounded, there:
        bounded.settimeout(60.0)
        yield bounded, there


def test_past_its_deadline_a_call_neither_sends_nor_receives(
    pair: tuple[BoundedSocket, socket.socket],
) -> None:
    bounded, there = pair
    there.send(b"late")
    bounded.end_within(0.0)
    with pytest.raises(TimeoutError):
        bounded.recv(4)
    with pytest.raises(TimeoutError):
        bounded.recv_into(bytearray(4))
    with pytest.raises(TimeoutError):
        bounded.sendall(b"more")
    with pytest.raises(TimeoutError):
        bounded.send(b"more")


def test_the_socket_timeout_never_exceeds_the_remaining_time_of_the_call(
    pair: tuple[BoundedSocket, socket.socket],
) -> None:
    bounded, there = pair
    bounded.end_within(30.0)
    there.send(b"word")
    assert bounded.recv(4) == b"word"
    left_s = bounded.gettimeout()
    assert left_s is not None
    assert left_s <= 30.0
