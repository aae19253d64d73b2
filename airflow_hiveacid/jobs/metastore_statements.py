"""DDL statements and queries that the metastore executes, without Spark.

`sql/statements` parses SQL into these values, and `metastore/definitions` executes them.

Example:
    >>> AddColumns(target="db.t", columns=(NewColumn(name="note", type="string"),)).kind
    'add_columns'
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import ClassVar

from airflow_hiveacid.format.codec import to_json

PartitionValues = tuple[tuple[str, str], ...]
"""Pairs of a partition column and its value as a string, in the user's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreStatement:
    """The base class of statements that the metastore executes.

    `target` is the full name of a table or database, or empty. `asks_only` is True for a query, and
    for ABORT TRANSACTIONS, which also answers with rows: a retry of these is always safe.
    """

    kind: ClassVar[str]
    asks_only: ClassVar[bool] = False
    target: str = ""

    @property
    def digest(self) -> str:
        """A digest of the statement and its arguments: 16 hexadecimal digits."""
        text = json.dumps([self.kind, to_json(self, omits_defaults=True)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to create: its name, its Hive type and an optional comment."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartition:
    """A partition to create; if `location` is None, its directory is in the table's directory."""

    values: PartitionValues
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase(MetastoreStatement):
    """Create a database at the metastore's default location."""

    kind = "create_database"
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(MetastoreStatement):
    """Create a transactional table; `properties` are additional table parameters."""

    kind = "create_table"
    columns: tuple[NewColumn, ...]
    partition_columns: tuple[NewColumn, ...] = ()
    bucket_columns: tuple[str, ...] = ()
    num_buckets: int = 0
    insert_only: bool = False
    stored_as: str = "orc"
    location: str | None = None
    comment: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable(MetastoreStatement):
    """Remove a table with its rows; `purge` bypasses the file system's trash."""

    kind = "drop_table"
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumns(MetastoreStatement):
    """Add columns after the existing columns; with `cascade`, also in existing partitions."""

    kind = "add_columns"
    columns: tuple[NewColumn, ...]
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn(MetastoreStatement):
    """Give a column a wider type or a comment; if `comment` is None, the old comment stays."""

    kind = "change_column"
    column: NewColumn
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable(MetastoreStatement):
    """Rename a table; the new name may be in a different database."""

    kind = "rename_table"
    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperties(MetastoreStatement):
    """Set parameters of a table; keep all others."""

    kind = "set_properties"
    properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsetProperties(MetastoreStatement):
    """Remove parameters of a table."""

    kind = "unset_properties"
    names: tuple[str, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions(MetastoreStatement):
    """Create partitions, each with a value for every partition column."""

    kind = "add_partitions"
    partitions: tuple[NewPartition, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartitions(MetastoreStatement):
    """Remove all partitions that match an entry of `partitions`, with their rows."""

    kind = "drop_partitions"
    partitions: tuple[PartitionValues, ...]
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCompactions(MetastoreStatement):
    """List queued and past compactions of all tables, a table or a partition."""

    kind = "show_compactions"
    asks_only = True
    partition: PartitionValues = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTransactions(MetastoreStatement):
    """List all open and aborted transactions in the metastore."""

    kind = "show_transactions"
    asks_only = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLocks(MetastoreStatement):
    """List all locks, the locks on a table and its partitions, or the locks on a partition."""

    kind = "show_locks"
    asks_only = True
    partition: PartitionValues = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactions(MetastoreStatement):
    """Abort transactions; a transaction that has already ended is reported, but is not an error."""

    kind = "abort_transactions"
    asks_only = True
    txn_ids: tuple[int, ...]
