"""Reads a secret where it lies, at the moment it is needed; no message shows one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_hiveacid.jobs.logins import SecretSource

# A file of Hadoop's credentials with many tokens has some kilobytes.
_MAX_BYTES: Final = 1 << 20


def read_secret(source: SecretSource) -> bytes:
    """The secret as it lies there.

    Raises:
        ConfigurationError: there is none, or it is too large to be one.
    """
    secret = _from_file(source) if source.file else _from_environment(source)
    if not secret:
        raise ConfigurationError(f"the secret in {source} is empty")
    return secret


def read_secret_text(source: SecretSource) -> str:
    """The secret as a text of ASCII characters, without the line end that editors add.

    Raises:
        ConfigurationError: as `read_secret`, or it has characters that the metastore would not
            understand.
    """
    text = read_secret(source).decode(errors="replace").rstrip("\r\n")
    if not text:
        raise ConfigurationError(f"the secret in {source} is empty")
    if not (text.isascii() and text.isprintable()):
        raise ConfigurationError(
            f"the secret in {source} has characters other than visible ASCII ones, which the"
            " metastore would not understand"
        )
    return text


def _from_file(source: SecretSource) -> bytes:
    try:
        with Path(str(source.file)).open("rb") as stream:
            secret = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the secret in {source}: {error.strerror}. It has to be on every machine"
            " that talks to the metastore, readable by that process"
        ) from error
    if len(secret) > _MAX_BYTES:
        raise ConfigurationError(f"{source} is too large to hold a secret")
    return secret


def _from_environment(source: SecretSource) -> bytes:
    secret = os.environ.get(str(source.variable))
    if secret is None:
        raise ConfigurationError(
            f"the {source} is not set. It has to be in the environment of every process that talks"
            " to the metastore"
        )
    return os.fsencode(secret)
