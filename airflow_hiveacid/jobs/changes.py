"""A feed of changes as a job description: what was changed in a table goes to a place as Parquet.

Example:
    >>> ChangesSpec(target="db.t", location="hdfs://nn/feeds/t").is_net
    False
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class WhenGone(enum.Enum):
    """What becomes of a feed whose changes cannot be told any more."""

    FAIL = "fail"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesSpec:
    """Write the changes of a table since the feed's last range, into a directory of their own.

    `target` is the table that is read, `location` the URI of the feed. `keys`, `is_net`, `columns`
    (all if there are none) and `where` say which changes and in which form. A feed's first range is
    the whole table, or, with `since`, the changes after that version. `until` is the last version;
    without it the highest that is settled. `when_gone` WHOLE makes a range of the whole table where
    its changes cannot be told any more.
    """

    target: str
    location: str
    keys: tuple[str, ...] = ()
    is_net: bool = False
    columns: tuple[str, ...] = ()
    where: str | None = None
    since: int | None = None
    until: int | None = None
    when_gone: WhenGone = WhenGone.FAIL
