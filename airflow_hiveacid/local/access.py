"""The access of clients to a metastore on this machine: the server's settings and protocol.

Example:
    >>> PLAIN.uri(9083)
    'thrift://127.0.0.1:9083'
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


class Language(enum.Enum):
    """The protocol of a client's first message."""

    THRIFT = "thrift"
    SASL = "sasl"
    HTTP = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The access of clients to a metastore: protocol, login, and the server settings for both.

    Attributes:
        language: The protocol of the server.
        host: The server's host name for clients, as in certificates and principals.
        settings: Settings of metastore-site.xml, including passwords.
        core_settings: Settings of core-site.xml for Hadoop.
        jvm_flags: Flags of the server's JVM.
        class_path: Folders and jars to add to the server's class path.
        authority: The certificate of the server's certificate authority; None without TLS.
        releases: The major versions of Hive that support this access.
    """

    language: Language = Language.THRIFT
    host: str = "127.0.0.1"
    settings: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    core_settings: Mapping[str, str] = field(default_factory=_nothing)
    jvm_flags: tuple[str, ...] = ()
    class_path: tuple[Path, ...] = ()
    authority: Path | None = None
    releases: tuple[str, ...] = ("3", "4")

    def uri(self, port: int) -> str:
        """Return the URI with which clients connect to the server on this port."""
        if self.language is not Language.HTTP:
            return f"thrift://{self.host}:{port}"
        return f"http{'s' if self.authority else ''}://{self.host}:{port}/metastore"


PLAIN: Final = Access()
