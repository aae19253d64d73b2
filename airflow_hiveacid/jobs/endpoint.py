"""How to reach a metastore, as plain values that cross the seam.

Paths of certificate files, never their content: no secret is in here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Transport(enum.Enum):
    """How bytes travel to the metastore."""

    PLAIN = "plain"
    TLS = "tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreEndpoint:
    """One metastore service: its servers in the order they are tried, and every bound on waiting.

    `uris` are `thrift://host:port`. `user` is announced with `set_ugi`; None announces nobody.
    """

    uris: tuple[str, ...]
    transport: Transport = Transport.PLAIN
    ca_certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    verify_host: bool = True
    user: str | None = None
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 120.0
