"""Which protection of messages a login agrees on: the strongest offered, if it is strong enough."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.jobs.logins import Protection
from airflow_hiveacid.metastore.doors.sasl import WeakProtectionError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

WORDS: Final[Mapping[Protection, bytes]] = MappingProxyType(
    {
        Protection.AUTHENTICATION: b"auth",
        Protection.INTEGRITY: b"auth-int",
        Protection.PRIVACY: b"auth-conf",
    }
)
"""SASL's words, from weak to strong."""


def strongest(offered: AbstractSet[Protection], least: Protection) -> Protection:
    """The strongest of what is offered.

    Raises:
        WeakProtectionError: it is weaker than `least`.
    """
    order = list(WORDS)
    best = max(offered, key=order.index, default=None)
    if best is None or order.index(best) < order.index(least):
        names = ", ".join(p.value for p in order if p in offered) or "none that is known here"
        raise WeakProtectionError(
            f"the metastore offers {names} as protection of messages (hadoop.rpc.protection), and"
            f" the connection wants {least.value} at least. Inside TLS a metastore offers"
            " authentication only: there the connection's can be that, since TLS protects"
        )
    return best
