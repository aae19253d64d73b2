"""Statements that the metastore does itself: definitions of tables, and questions. No Spark.

Plain values in the user's order; whether a table is there, and what it is, is found when one runs.
SQL text is read into them (`sql/definitions.py` and its neighbours), `metastore/definitions.py` and
`metastore/questions.py` do them.

Example:
    >>> AddColumns(target="db.t", columns=(NewColumn(name="note", type="string"),)).kind
    'add_columns'
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import ClassVar

PartitionValues = tuple[tuple[str, str], ...]
"""Values by partition column, as texts, in the order in which they were written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreStatement:
    """Root of them. `target` is the table's full name, or a database's; blank where there is none.

    `asks_only` says that nothing is defined: it may be done again at any time.
    """

    kind: ClassVar[str]
    asks_only: ClassVar[bool] = False
    target: str = ""

    @property
    def digest(self) -> str:
        """Tells it from other statements: 16 hexadecimal digits."""
        text = json.dumps([self.kind, dataclasses.asdict(self)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to be: its name, Hive's type text, and a comment if it has one."""

    name: str
    type: str
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartition:
    """A partition to be; `location` None leaves its place to the table's."""

    values: PartitionValues
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase(MetastoreStatement):
    """Make a database, where the metastore puts them."""

    kind = "create_database"
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(MetastoreStatement):
    """Make a transactional table; `properties` are those beside its kind."""

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
    """Remove a table with its rows; `purge` passes over the file system's trash."""

    kind = "drop_table"
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumns(MetastoreStatement):
    """Add columns behind the others; with `cascade` to the partitions that there are, too."""

    kind = "add_columns"
    columns: tuple[NewColumn, ...]
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn(MetastoreStatement):
    """Give a column a wider type, or a comment; without a comment it keeps the one it has."""

    kind = "change_column"
    column: NewColumn
    cascade: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameTable(MetastoreStatement):
    """Give a table another name, also in another database."""

    kind = "rename_table"
    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperties(MetastoreStatement):
    """Set parameters of a table; the others stay."""

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
    """Make partitions, each with a value for every partition column."""

    kind = "add_partitions"
    partitions: tuple[NewPartition, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPartitions(MetastoreStatement):
    """Remove partitions with their rows: for each entry, all that have its values."""

    kind = "drop_partitions"
    partitions: tuple[PartitionValues, ...]
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCompactions(MetastoreStatement):
    """The metastore's compaction queue and history, of all, of a table or of a partition."""

    kind = "show_compactions"
    asks_only = True
    partition: PartitionValues = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTransactions(MetastoreStatement):
    """All transactions that the metastore keeps: open ones and aborted ones."""

    kind = "show_transactions"
    asks_only = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLocks(MetastoreStatement):
    """Locks, of all, of a table with its partitions, or of a partition."""

    kind = "show_locks"
    asks_only = True
    partition: PartitionValues = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactions(MetastoreStatement):
    """End transactions; what has ended already is told, and no error."""

    kind = "abort_transactions"
    asks_only = True
    txn_ids: tuple[int, ...]
