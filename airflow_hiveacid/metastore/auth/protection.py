"""The choice of the strongest message protection that the server offers at login."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final

from airflow_hiveacid.jobs.logins import Protection
from airflow_hiveacid.metastore.auth.sasl import WeakProtectionError

WORDS: Final[Mapping[Protection, bytes]] = MappingProxyType(
    {
        Protection.AUTHENTICATION: b"auth",
        Protection.INTEGRITY: b"auth-int",
        Protection.PRIVACY: b"auth-conf",
    }
)
"""SASL's names of the protection levels, from weak to strong."""


def strongest(offered: AbstractSet[Protection], least: Protection) -> Protection:
    """Return the strongest protection level that the server offers.

    Raises:
        WeakProtectionError: even the strongest level offered is weaker than `least`.
    """
    order = list(WORDS)
    best = max(offered, key=order.index, default=None)
    if best is None or order.index(best) < order.index(least):
        names = ", ".join(p.value for p in order if p in offered) or "no known level"
        raise WeakProtectionError(
            f"the metastore offers {names} for message protection (hadoop.rpc.protection), but"
            f" the connection requires at least {least.value}; for a delegation token without TLS"
            f" the default is integrity. Set the metastore's hadoop.rpc.protection to"
            f" {least.value}, or set the connection's protection to an offered level. With"
            " authentication alone, only TLS detects changes to messages in transit"
        )
    return best
