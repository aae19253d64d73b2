"""The spec of a job that writes the changes of a table to a change feed.

Example:
    >>> ChangeFeedSpec(target="db.t", location="hdfs://nn/feeds/t").is_net
    False
"""

from __future__ import annotations

import enum
from collections.abc import Mapping  # noqa: TC003 - the codec reads hints at run time
from dataclasses import dataclass, field

from airflow_hiveacid.jobs.parameters import (
    Parameter,  # noqa: TC001 - the codec reads hints at run time
)


class WhenGone(enum.Enum):
    """The reaction of a feed to unreadable changes: fail, or write the whole table."""

    FAIL = "fail"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeedSpec:
    """Write a table's changes since the feed's last range; each range gets its own directory.

    `target` is the table that is read, and `location` is the URI of the feed. If `keys` is None,
    the feed uses the table's primary key. If `columns` is empty, the feed contains all columns.
    With `pre_images`, the feed includes old values. The first range has the changes after `since`,
    or the whole table if `since` is None. `until` is the last version. By default, `until` is the
    newest version that no open write can change. `since` and `until` are `VersionSpec.text`. If the
    changes can no longer be read and `when_gone` is WHOLE, the range contains the whole table.
    `parameters` are the parameters in `where`.
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
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
