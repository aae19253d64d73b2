"""`CREATE TABLE IF NOT EXISTS` that also compares an existing table with the definition.

The call may be repeated, even after a lost response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_hiveacid.format import errors
from airflow_hiveacid.format.table import Column, FileFormat, TableInfo, TableRef, TransactionalKind
from airflow_hiveacid.format.types import parse_type
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.port import MetastorePort

_LOCAL: Final = "file:"
_FORMATS: Final = {
    "orc": FileFormat.ORC,
    "parquet": FileFormat.PARQUET,
    "avro": FileFormat.AVRO,
    "textfile": FileFormat.TEXT,
}


def define(  # noqa: PLR0913 - a table needs that many
    table: str,
    columns: Mapping[str, str],
    *,
    partition_columns: Mapping[str, str] | None = None,
    bucket_columns: Sequence[str] = (),
    num_buckets: int = 0,
    location: str | None = None,
    insert_only: bool = False,
    stored_as: str = "orc",
    comments: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> NewTable:
    """Build the definition of a transactional table, with checked names and types.

    `table` is `db.table`. `columns`, `partition_columns` and `comments` are keyed by column, in the
    table's order; types are Hive's. Without a `location`, the directory is below the database's.
    The default is a full-ACID table. `stored_as` is `orc`; for an insert-only table also `parquet`,
    `avro` or `textfile`. The parameters for the table's kind are added to `parameters`.
    """
    data, parts = _columns(columns), _columns(partition_columns or {})
    names = [column.name for column in (*data, *parts)]
    if not data:
        raise errors.ConfigurationError(f"{table}: a table needs at least one column")
    for name in names:
        if not name or names.count(name) > 1:
            problem = f"column {name!r} is named twice" if name else "a column has no name"
            raise errors.ConfigurationError(f"{table}: {problem}")
    buckets = tuple(name.strip().lower() for name in bucket_columns)
    if insert_only and buckets:
        raise errors.ConfigurationError(f"{table}: an insert-only table cannot have buckets")
    if bool(buckets) != (num_buckets > 0):
        raise errors.ConfigurationError(f"{table}: give bucket_columns and num_buckets, or neither")
    for name in buckets:
        if name not in {column.name for column in data}:
            raise errors.ConfigurationError(
                f"{table}: bucket column {name!r} is not among the columns"
            )
    return NewTable(
        ref=TableRef.parse(table),
        columns=data,
        partition_columns=parts,
        kind=TransactionalKind.INSERT_ONLY if insert_only else TransactionalKind.FULL_ACID,
        format=_format(table, stored_as, insert_only=insert_only),
        bucket_columns=buckets,
        num_buckets=num_buckets,
        location=location,
        comments=comments or {},
        parameters=parameters or {},
    )


def _format(table: str, stored_as: str, *, insert_only: bool) -> FileFormat:
    file_format = _FORMATS.get(stored_as.lower())
    if file_format is None or (file_format is not FileFormat.ORC and not insert_only):
        raise errors.ConfigurationError(
            f"{table}: stored_as must be orc, or parquet, avro or textfile with insert_only, found"
            f" {stored_as!r}"
        )
    return file_format


def ensure_table(client: MetastorePort, new: NewTable) -> bool:
    """Create a table; return False if it exists, or raise TableDiffersError if it differs."""
    try:
        table = client.get_table(new.ref)
    except errors.TableNotFoundError:
        try:
            client.create_table(new)
        except errors.MetastoreCallError as refusal:
            table = _made_by_another(client, new.ref, refusal)
        else:
            return True
    if wrong := differences(new, table):
        raise errors.TableDiffersError(table=new.ref, differences=wrong)
    return False


def differences(new: NewTable, found: TableInfo) -> tuple[str, ...]:
    """Return a sentence for each difference; the location counts only if one is requested."""
    facts = {
        "columns": (_text(new.columns), _text(found.columns)),
        "partition columns": (_text(new.partition_columns), _text(found.partition_columns)),
        "bucket columns": (", ".join(new.bucket_columns), ", ".join(found.bucket_columns)),
        "buckets": (str(new.num_buckets), str(found.num_buckets)),
        "kind": (new.kind.value, found.kind.value),
        "format": (new.format.value, str(found.storage)),
        "sort columns": (", ".join(new.sort_columns), ", ".join(found.sort_columns)),
    }
    if new.location is not None:
        facts["location"] = (_path(new.location), _path(found.location))
    return tuple(
        f"its {fact} are {actual or 'none'} instead of {expected or 'none'}"
        if fact.endswith("s")
        else f"its {fact} is {actual} instead of {expected}"
        for fact, (expected, actual) in facts.items()
        if expected != actual
    )


def _made_by_another(
    client: MetastorePort, ref: TableRef, refusal: errors.MetastoreCallError
) -> TableInfo:
    """Return the table if a different client has created it; otherwise raise `refusal`."""
    try:
        return client.get_table(ref)
    except errors.TableNotFoundError:
        raise refusal from None


def _columns(types: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(
        Column(name=name.strip().lower(), type=str(parse_type(type_text)))
        for name, type_text in types.items()
    )


def _text(columns: Sequence[Column]) -> str:
    return ", ".join(f"{c.name} {parse_type(c.type)}" for c in columns)


def same_directory(one: str, other: str) -> bool:
    """Return True if two locations are the same directory, even with different spellings."""
    return _path(one) == _path(other)


def _path(location: str) -> str:
    """Return a location without trailing slashes; a local path is `/...`, without `file:`."""
    path = location.removeprefix(_LOCAL)
    return f"/{path.lstrip('/')}".rstrip("/") if path.startswith("/") else path.rstrip("/")
