from __future__ import annotations

import base64
from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.endpoint import SecretSource, TokenLogin
from airflow_hiveacid.metastore.auth.tokens import (
    CONTAINER_FILE,
    KIND,
    DelegationToken,
    named_tokens,
    parse_token,
    print_credentials,
    read_token,
)


def number(value: int) -> bytes:
    """As WritableUtils.writeVInt of Hadoop writes it."""
    if value <= 127:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 - 112 - size]) + value.to_bytes(size, "big")


def sized(data: bytes) -> bytes:
    return number(len(data)) + data


def token(
    identifier: bytes, kind: str = KIND, password: bytes = b"pw", service: bytes = b"svc"
) -> bytes:
    return sized(identifier) + sized(password) + sized(kind.encode()) + sized(service)


def credentials(*tokens: bytes, version: int = 0) -> bytes:
    entries = b"".join(sized(f"alias {at}".encode()) + t for at, t in enumerate(tokens))
    return b"HDTS" + bytes([version]) + number(len(tokens)) + entries + number(0)


def read(path: Path) -> DelegationToken:
    return read_token(TokenLogin(token=SecretSource(file=str(path))))


@pytest.mark.parametrize("size", [0, 127, 128, 300, 70_000])
def test_a_token_of_any_length_is_read(size: int) -> None:
    text = base64.urlsafe_b64encode(token(b"\xff" * size)).decode().rstrip("=")
    assert parse_token(text).identifier == b"\xff" * size


def test_a_token_is_read_from_a_base64_text_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(base64.urlsafe_b64encode(token(b"id")) + b"\n")
    assert read(tmp_path / "t") == DelegationToken(
        identifier=b"id", password=b"pw", kind=KIND, service="svc"
    )


def test_a_base64_token_may_be_split_into_lines(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(base64.encodebytes(token(b"x" * 100)))
    assert read(tmp_path / "t").identifier == b"x" * 100


def test_the_metastores_token_is_found_among_others(tmp_path: Path) -> None:
    file = tmp_path / "container_tokens"
    others = token(b"1", "HDFS_DELEGATION_TOKEN"), token(b"2", "YARN_AM_RM_TOKEN")
    file.write_bytes(credentials(others[0], token(b"ours"), others[1]))
    assert read(file).identifier == b"ours"


@pytest.mark.parametrize("service", [b"", b"hive.metastore.signature"])
def test_a_hiveserver2_token_is_used_only_if_there_is_no_metastore_token(
    service: bytes, tmp_path: Path
) -> None:
    server = token(b"hs2", service=b"hiveserver2ClientToken")
    ours = token(b"ours", service=service)
    (tmp_path / "t").write_bytes(credentials(server, ours))
    assert read(tmp_path / "t").identifier == b"ours"
    (tmp_path / "t").write_bytes(credentials(server))
    assert read(tmp_path / "t").identifier == b"hs2"
    (tmp_path / "t").write_bytes(credentials(server, ours, token(b"2")))
    with pytest.raises(ConfigurationError, match="2 tokens"):
        read(tmp_path / "t")


def _held(error: BaseException | None) -> str:
    """All that an error and those behind it say and hold."""
    seen = []
    while error is not None:
        seen += [repr(error), repr(vars(error)), repr(getattr(error, "object", ""))]
        error = error.__cause__ or error.__context__
    return " ".join(seen)


@pytest.mark.parametrize(
    "content",
    [
        b"hunter2\xff",
        b"hunter2 !!",
        b"hunter2",
        "h\u00fcnter2 hunter2".encode(),
        b"HDTS\0\1hunter2",
    ],
)
def test_no_error_contains_the_unreadable_token(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path / "t")
    assert "hunter2" not in _held(caught.value)


def test_without_a_source_the_containers_own_token_file_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "container_tokens"
    file.write_bytes(credentials(token(b"ours")))
    monkeypatch.setenv(CONTAINER_FILE, str(file))
    assert read_token(TokenLogin()).identifier == b"ours"
    monkeypatch.delenv(CONTAINER_FILE)
    with pytest.raises(ConfigurationError, match="set secret_from"):
        read_token(TokenLogin())


@pytest.mark.parametrize("size", [0, 1, 127, 128, 255, 256, 65_536])
def test_written_credentials_are_read_back_unchanged(size: int) -> None:
    content = credentials(token(b"i" * size, service="ä".encode()), token(b"other", "kind", b""))
    found = named_tokens(content)
    assert list(found) == ["alias 0", "alias 1"]
    assert print_credentials(found) == content
    many = {str(at): found["alias 1"] for at in range(size % 1000)}
    assert named_tokens(print_credentials(many)) == many


def test_one_token_under_two_aliases_counts_once(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(credentials(token(b"ours"), token(b"ours")))
    assert read(tmp_path / "t").identifier == b"ours"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (credentials(token(b"1", "HDFS_DELEGATION_TOKEN")), "0 tokens.*HDFS_DELEGATION_TOKEN"),
        (credentials(token(b"1"), token(b"2")), "2 tokens"),
        (credentials(token(b"1"), version=1), "format 1"),
        (credentials(token(b"1"))[:12], "is truncated"),
        (b"HDTS", "is truncated"),
        (b"not a token", "cannot read a delegation token"),
        (b"\xff\xfe", "cannot read a delegation token"),
        (base64.urlsafe_b64encode(token(b"1") + b"more"), "extra bytes after"),
        (base64.urlsafe_b64encode(b"\x80\x01"), "negative|middle"),
    ],
)
def test_a_file_without_exactly_one_readable_token_is_refused_with_a_reason(
    content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ConfigurationError, match=words):
        read(tmp_path / "t")


def test_the_representation_of_a_token_shows_neither_identifier_nor_password() -> None:
    shown = repr(DelegationToken(identifier=b"alice", password=b"hunter2", kind=KIND, service=""))
    assert "hunter2" not in shown
    assert "alice" not in shown
