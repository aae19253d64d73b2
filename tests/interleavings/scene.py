"""What an interleaving is of: which metastore, which table, who acts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from airflow_hiveacid.format import conflicts, ids, table
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from tests.interleavings import rows

REF: Final = table.TableRef("lab", "t")
LOCATION: Final = "file:/lab/t"
ROOT: Final = "/lab/t"
FOREIGN: Final = (f"{ROOT}/.hive-staging_1/part", f"{ROOT}/_foreign/note")
ENDPOINT: Final = MetastoreEndpoint(uris=("thrift://lab:1",))
OPERATIONS: Final = {
    "insert": {conflicts.DataOperation.INSERT},
    "overwrite": {conflicts.DataOperation.OVERWRITE},
    "update": {conflicts.DataOperation.UPDATE},
    "delete": {conflicts.DataOperation.DELETE},
    "merge": {conflicts.DataOperation.UPDATE, conflicts.DataOperation.INSERT},
}
TAG: Final = "beginning"
JOBS: Final = tuple(OPERATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What an interleaving is of.

    Each of `cast` is a job's or a service's name; `insert@a` is about one partition only. `x/2` is
    the second try of the x before it, `x/1` a second copy of the same try, `x/1/1` the task cleared
    after it, and `kill` a late order to kill the first try of the first job. The disk is HDFS as
    libhdfs shows it; `is_native`, as hdfs-native does; or a local one. With `is_strict` jobs go by
    the policy of that name. With `has_tag` the table is kept, and its beginning has a name.
    """

    generation: conflicts.MetastoreGeneration
    cast: tuple[str, ...]
    is_partitioned: bool = False
    only_hive_4: bool = False
    has_base: bool = False
    has_deletes: bool = False
    has_strangers: bool = False
    is_hdfs: bool = True
    is_native: bool = False
    is_strict: bool = False
    has_tag: bool = False

    def __str__(self) -> str:
        flags = [f"v{self.generation.value}", *(n for n in _NAMED if getattr(self, n))]
        if self.is_native:
            flags.append("native")
        if not self.is_hdfs:
            flags.append("local")
        return " ".join((*flags, ":", *self.cast))

    @classmethod
    def parse(cls, text: str) -> Scene:
        """Read what `str` writes."""
        flags, _, cast = text.partition(":")
        words = flags.split()
        return cls(
            generation=conflicts.MetastoreGeneration(words[0][1:]),
            cast=tuple(cast.split()),
            is_hdfs="local" not in words,
            is_native="native" in words,
            **{name: name in words for name in _NAMED},
        )

    @property
    def policy(self) -> conflicts.ConflictPolicy:
        """The policy of every job."""
        return conflicts.ConflictPolicy.STRICT if self.is_strict else conflicts.ConflictPolicy.HIVE

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions, as rows tell them."""
        return ("a", "b") if self.is_partitioned else ("",)


_STORES: Final = {"is_hdfs", "is_native"}
_NAMED: Final = tuple(
    flag.name for flag in fields(Scene) if flag.type == "bool" and flag.name not in _STORES
)
"""The flags that a text says by their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt of one job in the cast."""

    change: rows.Change
    attempt: ids.AttemptId
    generation: int = 0
    partitions: tuple[table.PartitionName, ...] | None = None

    @property
    def key(self) -> str:
        return f"dag/run/{self.change.name.rstrip('g')}/-1"

    @property
    def doing(self) -> str:
        """What counts once: the job in its generation."""
        return f"{self.change.name}.{self.generation}"
