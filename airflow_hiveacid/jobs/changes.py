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

    `target` is the table that is read, `location` the URI of the feed. `keys` (None: those of the
    table's primary key), `is_net`, `columns` (all if there are none), `where` and `pre_images`
    (whether old values are told) say which changes and in which form. A feed's first range is the
    whole table, or, with `since`, the changes after that version. `until` is the last version;
    without it the highest that is settled. Both are as `VersionSpec.text` gives them. `when_gone`
    WHOLE makes a range of the whole table where its changes cannot be told any more.
    """

    target: str
    location: str
    keys: tuple[str, ...] | None = None
    is_net: bool = False
    columns: tuple[str, ...] = ()
    where: str | None = None
    since: str | None = None
    until: str | None = None
    pre_images: bool = True
    when_gone: WhenGone = WhenGone.FAIL
