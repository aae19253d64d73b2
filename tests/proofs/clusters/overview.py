"""support.md's table of what runs where: Spark's masters, stores, logins at the metastore.

Example:
    >>> ran = [(Place("local", "none", "disk"), True), (Place("local", "Kerberos", "disk"), False)]
    >>> overview_of(ran).splitlines()[2]
    '| local | none; Kerberos: failed | not run | not run | not run |'
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

SPARKS: Final = (
    "local",
    "standalone, client",
    "YARN, client",
    "YARN, cluster",
    "Kubernetes, client",
    "Kubernetes, cluster",
)
LOGINS: Final = ("none", "Kerberos", "token", "password", "JWT")
STORES: Final = ("disk", "HDFS", "HDFS behind Kerberos", "S3")

_NOT_RUN: Final = "not run"


class Place(NamedTuple):
    """The place of a job: one of `SPARKS`, of `LOGINS` and of `STORES`."""

    spark: str
    login: str
    store: str


def overview_of(found: Iterable[tuple[Place, bool]]) -> str:
    """Return the table of places where a job ran as expected; one failure counts as failure.

    Raises:
        ValueError: a place is not in the table.
    """
    went: dict[Place, bool] = {}
    for place, is_well in found:
        if place.spark not in SPARKS or place.login not in LOGINS or place.store not in STORES:
            raise ValueError(f"{place} has no place in the table")
        went[place] = went.get(place, True) and is_well
    lines = [f"| Spark | {' | '.join(STORES)} |", "|---" * (1 + len(STORES)) + "|"]
    for spark in SPARKS:
        texts = [_text(went, spark, store) for store in STORES]
        lines.append(f"| {' | '.join((spark, *texts))} |")
    return "\n".join(lines) + "\n"


def _text(went: dict[Place, bool], spark: str, store: str) -> str:
    told = [
        login if went[place] else f"{login}: failed"
        for login in LOGINS
        if (place := Place(spark, login, store)) in went
    ]
    return "; ".join(told) or _NOT_RUN
