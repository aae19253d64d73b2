"""LOAD DATA as a job description: files that are there already become rows of a table.

Example:
    >>> LoadSpec(target="db.t", location="hdfs://nn/landing/day").overwrite
    False
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the codec reads hints at run time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """LOAD DATA INPATH location [OVERWRITE] INTO TABLE target [PARTITION (...)].

    `location` is the URI of a file, or of a directory of files; they stay where they are.
    `partition` gives every partition column its value. With `overwrite` the files take the place of
    what is in the table, or in that partition.
    """

    target: str
    location: str
    partition: Mapping[str, str | None] = field(default_factory=dict)
    overwrite: bool = False
