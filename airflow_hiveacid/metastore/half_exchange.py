"""A table whose name is free, because a job died while a flat copy took over the name.

The job renames the full-ACID table, then its copy (`spark.conversions`). Between the two,
the table is missing, and a new table with its name would hide the rows of both.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import (
    COPY_OF,
    TableInfo,
    TableRef,
    TransactionalKind,
    is_kept_name,
    kept_table,
)
from airflow_hiveacid.metastore.port import CatalogPort

# The suffix of a copy's name is the attempt's nonce. While CREATE TABLE AS SELECT fills the copy,
# the suffix of a hidden table follows.
_COPY: Final = re.compile(r"[0-9a-f]{12}(__ctas_[0-9a-f]{10}_[0-9a-f]{12})?\Z")


def copy_prefix(ref: TableRef) -> str:
    """Return the start of the names of a table's copies."""
    return f"{ref.name}__flat_"


def copy_mark(ref: TableRef, table: TableInfo) -> str:
    """Return the value of `COPY_OF` for copies of a table with this current or former name."""
    return f"{ref}#{table.table_id}"


def is_copy(copy: TableInfo, ref: TableRef, table: TableInfo) -> bool:
    """Return True if a table is a copy of a full-ACID table that has or had the name `ref`."""
    is_acid = table.kind is TransactionalKind.FULL_ACID
    return is_acid and copy.parameters.get(COPY_OF) == copy_mark(ref, table)


def copies_of(client: CatalogPort, ref: TableRef, table: TableInfo) -> list[TableInfo]:
    """Return the copies of a table that have not taken over its name `ref`, flat or not yet."""
    prefix = copy_prefix(ref)
    copies = []
    for name in client.list_tables(ref.db):
        # Skip a copy that a user has renamed, such as t__flat_old: it may have changed.
        if name.startswith(prefix) and _COPY.match(name.removeprefix(prefix)):
            try:
                copies.append(client.get_table(TableRef(ref.db, name)))
            except errors.TableNotFoundError:
                continue
    return [copy for copy in copies if is_copy(copy, ref, table)]


def missing_table(client: CatalogPort, ref: TableRef) -> errors.TableError:
    """Return the error for a missing table, for the caller to raise.

    If a conversion has not ended, it is an UnsupportedTableError, so that no job creates the table.
    Raises the metastore's errors, because without an answer, the conversion may not have ended.
    """
    absent = errors.TableNotFoundError(table=ref)
    kept_ref = kept_table(ref)
    if is_kept_name(ref):
        return absent
    try:
        copies = copies_of(client, ref, client.get_table(kept_ref))
    except (errors.TableNotFoundError, errors.UnsupportedTableError):
        return absent
    # Only a flat copy takes over the name, so without one, no conversion is between its renames.
    if all(copy.kind is not TransactionalKind.NONE for copy in copies):
        return absent
    return errors.UnsupportedTableError(
        table=ref,
        detail="is missing, because its conversion to flat was interrupted, or still runs. Its"
        f" rows are in {kept_ref}: do not create it, but run"
        f" `python -m airflow_hiveacid convert {ref} --to flat`, which gives the name to the flat"
        " copy with these rows",
    )
