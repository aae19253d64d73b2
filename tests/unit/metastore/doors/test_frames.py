from __future__ import annotations

from io import BytesIO

import pytest
from thrift.transport.TTransport import TMemoryBuffer, TTransportException

from airflow_hiveacid.jobs.logins import PasswordLogin, SecretSource
from airflow_hiveacid.metastore.doors.password import Plain
from airflow_hiveacid.metastore.doors.sasl import SaslTransport


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Plain:
    monkeypatch.setenv("P", "x")
    return Plain(PasswordLogin(user="etl", password=SecretSource(variable="P")))


def frames(*messages: bytes) -> TMemoryBuffer:
    return TMemoryBuffer(b"".join(len(m).to_bytes(4, "big") + m for m in messages))


def test_an_answer_may_be_cut_into_frames_anywhere(bare: Plain) -> None:
    compiled = SaslTransport(frames(b"bc", b"", b"def"), bare).cstringio_refill(b"a", 5)
    assert isinstance(compiled, BytesIO)
    assert compiled.read() == b"abcdef"
    assert SaslTransport(frames(b"", b"bc", b"def"), bare).readAll(4) == b"bcde"


def test_a_length_that_is_none_is_refused_before_memory_is_taken(bare: Plain) -> None:
    with pytest.raises(TTransportException, match="no frame"):
        SaslTransport(TMemoryBuffer(b"\xff\xff\xff\xff"), bare).read(1)
