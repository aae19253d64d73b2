from __future__ import annotations

import struct
from io import BytesIO

import pytest
from thrift.transport.TTransport import TMemoryBuffer, TTransportException

from airflow_hiveacid.jobs.endpoint import PasswordLogin, SecretSource
from airflow_hiveacid.metastore.auth.address import ConnectError, CountedRefusalError
from airflow_hiveacid.metastore.auth.sasl import Plain, SaslTransport, log_in


class Scripted(TMemoryBuffer):  # type: ignore[misc]
    """What a server says, byte by byte; what it is told is lost."""

    def read(self, size: int) -> bytes:
        data = bytes(super().read(min(size, 1)))
        if size and not data:
            raise TTransportException(TTransportException.END_OF_FILE, "read 0 bytes")
        return data

    def write(self, data: bytes) -> None:
        del data


def said(status: int, payload: bytes, length: int | None = None) -> bytes:
    return struct.pack(">BI", status, len(payload) if length is None else length) + payload


def test_a_sasl_message_may_arrive_in_pieces(bare: Plain) -> None:
    log_in(Scripted(said(5, b"welcome")), bare)


@pytest.mark.parametrize(
    "answer",
    [
        said(0, b""),
        said(1, b"PLAIN"),
        said(6, b""),
        said(72, b"TTP/1.1 400 Bad Request"),
        said(5, b"", length=(1 << 20) + 1),
        said(2, b"", length=0xFFFFFFFF),
        said(3, b"", length=0x80000000),
    ],
)
def test_a_server_that_does_not_speak_sasl_is_reported(bare: Plain, answer: bytes) -> None:
    with pytest.raises(ConnectError, match="does not speak SASL here") as caught:
        log_in(Scripted(answer), bare)
    assert type(caught.value) is ConnectError


@pytest.mark.parametrize(
    "answer", [b"", b"\5\0", said(5, b"half", length=9), said(3, b"", length=1)]
)
def test_a_connection_that_ends_within_a_message_is_not_reported_as_a_refusal(
    bare: Plain, answer: bytes
) -> None:
    with pytest.raises(ConnectError, match="broke off") as caught:
        log_in(Scripted(answer), bare)
    assert type(caught.value) is ConnectError


@pytest.mark.parametrize("status", [3, 4])
def test_the_text_of_a_refusal_is_truncated(bare: Plain, status: int) -> None:
    with pytest.raises(CountedRefusalError, match=r"PLAIN: a{300}\. ") as caught:
        log_in(Scripted(said(status, b"a" * 301 + b"\xff")), bare)
    assert "a" * 301 not in str(caught.value)


def test_a_truncated_refusal_shows_no_part_of_a_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("P", "open sesame")
    bare = Plain(PasswordLogin(user="etl", password=SecretSource(variable="P")))
    with pytest.raises(CountedRefusalError, match=r"a\*\*\*\. ") as caught:
        log_in(Scripted(said(3, b"a" * 297 + b"open sesame")), bare)
    assert "open" not in str(caught.value)


def test_a_second_round_of_plain_is_refused(bare: Plain) -> None:
    with pytest.raises(ConnectError, match="one round"):
        log_in(Scripted(said(2, b"again")), bare)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Plain:
    monkeypatch.setenv("P", "x")
    return Plain(PasswordLogin(user="etl", password=SecretSource(variable="P")))


def frames(*messages: bytes) -> TMemoryBuffer:
    return TMemoryBuffer(b"".join(len(m).to_bytes(4, "big") + m for m in messages))


def test_a_response_may_be_split_into_frames_anywhere(bare: Plain) -> None:
    compiled = SaslTransport(frames(b"bc", b"", b"def"), bare).cstringio_refill(b"a", 5)
    assert isinstance(compiled, BytesIO)
    assert compiled.read() == b"abcdef"
    assert SaslTransport(frames(b"", b"bc", b"def"), bare).readAll(4) == b"bcde"


def test_an_invalid_frame_length_is_refused(bare: Plain) -> None:
    with pytest.raises(TTransportException, match="invalid frame length"):
        SaslTransport(TMemoryBuffer(b"\xff\xff\xff\xff"), bare).read(1)
