from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.known_secrets import forget_secrets, without_secrets
from airflow_hiveacid.jobs.endpoint import SecretSource
from airflow_hiveacid.metastore.auth.secret import read_secret, read_secret_text


def test_a_line_end_at_the_end_of_the_file_is_not_part_of_the_secret(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b" two words \r\n")
    assert read_secret_text(SecretSource(file=str(tmp_path / "s"))) == " two words "


def test_a_secret_is_masked_also_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"open sesame\r\n")
    read_secret(SecretSource(file=str(tmp_path / "s")))
    try:
        assert without_secrets("not open sesame!") == "not ***!"
    finally:
        forget_secrets()


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_an_empty_secret_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(ConfigurationError, match="empty"):
        read_secret_text(SecretSource(file=str(tmp_path / "s")))


def test_a_file_that_is_too_large_for_a_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ConfigurationError, match="too large"):
        read_secret(SecretSource(file=str(tmp_path / "s")))


def test_a_missing_secret_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gone: No such file"):
        read_secret(SecretSource(file=str(tmp_path / "gone")))
