"""How a metastore on this machine is entered: what its server is told, and what it then speaks.

Example:
    >>> PLAIN.uri(9083)
    'thrift://127.0.0.1:9083'
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


class Language(enum.Enum):
    """What a server speaks before anything else."""

    THRIFT = "thrift"
    SASL = "sasl"
    HTTP = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One way to enter.

    Attributes:
        language: What the server speaks.
        host: The name by which clients call it: that of certificates and principals.
        settings: Of metastore-site.xml; passwords are among them.
        core_settings: Of core-site.xml, where Hadoop looks for its own.
        jvm_flags: Of the server's JVM.
        class_path: Folders and jars beside the server's own.
        authority: The certificate by which the server is known; None without TLS.
        releases: First numbers of the versions of Hive that have this door.
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
        """Where clients connect."""
        if self.language is not Language.HTTP:
            return f"thrift://{self.host}:{port}"
        return f"http{'s' if self.authority else ''}://{self.host}:{port}/metastore"


PLAIN: Final = Door()
