"""Secrets: they are read from a file or variable at each use, and never shown in messages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.known_secrets import keep_secret
from airflow_hiveacid.jobs.endpoint import SecretSource

# A Hadoop credentials file with many tokens has a few kilobytes.
_MAX_BYTES: Final = 1 << 20


def read_secret(source: SecretSource) -> bytes:
    """Return the secret's bytes as stored; ConfigurationError if it is missing or too large."""
    secret = _from_file(source) if source.file else _from_environment(source)
    if not secret:
        raise ConfigurationError(f"the secret in {source} is empty")
    if secret.isascii():
        keep_secret(secret.decode().strip())
    return secret


def read_secret_text(source: SecretSource) -> str:
    """Return the secret as ASCII text, without the line end that editors add."""
    text = read_secret(source).decode(errors="replace").rstrip("\r\n")
    if not text:
        raise ConfigurationError(f"the secret in {source} is empty")
    if not (text.isascii() and text.isprintable()):
        raise ConfigurationError(
            f"the secret in {source} contains characters other than visible ASCII, which the"
            " metastore does not accept"
        )
    return text


def _from_file(source: SecretSource) -> bytes:
    try:
        with Path(str(source.file)).open("rb") as stream:
            secret = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the secret in {source}: {error.strerror}. It must exist on every machine"
            " that connects to the metastore and be readable by the connecting process"
        ) from error
    if len(secret) > _MAX_BYTES:
        raise ConfigurationError(f"{source} is too large to hold a secret")
    return secret


def _from_environment(source: SecretSource) -> bytes:
    secret = os.environ.get(str(source.variable))
    if secret is None:
        raise ConfigurationError(
            f"the {source} is not set. Set it in the environment of every process that connects"
            " to the metastore"
        )
    return os.fsencode(secret)
