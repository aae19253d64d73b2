"""Errors in a request: wrong tables, columns, values, SQL or statements."""

from __future__ import annotations

from typing import Final

from airflow_hiveacid.format.errors.tree import InputError, TableError

# Longer names are cut, because they would fill logs and XComs.
_LONGEST_SHOWN: Final = 300


class ContractVersionError(InputError):
    """Operator and application have different versions of the job contract.

    `detail`, such as an unknown field, proves it if both state the same version. `side` is empty
    if the document cannot be read, so that its version is unknown.
    """

    def __init__(self, *, found: object, supported: int, side: str, detail: str = "") -> None:
        self.found, self.supported, self.side, self.detail = found, supported, side, detail
        what = f"job contract version {found!r} does not match version {supported}: the {side} is"
        if not side:
            super().__init__(f"{detail}: it was cut or overwritten. Run the task again")
            return
        if detail:
            what = f"{detail}: Airflow and the driver have different releases, and the {side} is"
        super().__init__(
            f"{what} older. Install the same release of airflow-provider-hiveacid in the Airflow"
            " environment and in the --py-files zip."
        )


class InvalidNameError(InputError):
    """A string is not a valid name of a table, partition, directory, file or other object."""

    def __init__(self, *, name: str, what: str) -> None:
        self.name, self.what = name, what
        shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}..."
        super().__init__(f"{shown!r} is not a valid {what}")


class SqlTextError(InputError):
    """A SQL statement cannot be executed as written; `line` and `column` count from 1."""

    def __init__(
        self, *, statement: int, line: int, column: int, problem: str, remedy: str
    ) -> None:
        self.statement, self.line, self.column = statement, line, column
        self.problem, self.remedy = problem, remedy
        super().__init__(
            f"statement {statement}, line {line}, column {column}: {problem}; {remedy}"
        )


class SparkNeededError(InputError):
    """The statement cannot run without Spark; nothing was written.

    `reason` says why, as a clause. `limit` is the name of the limit that the statement exceeds, if
    it needs Spark only for its size. `table` is empty if the statement's task names the table.
    """

    def __init__(
        self, *, reason: str, limit: str = "", table: object = "", remedy: str = ""
    ) -> None:
        self.reason, self.limit, self.table, self.remedy = reason, limit, str(table), remedy
        subject = f"table {table}: this statement" if table else "this statement"
        remedy = remedy or "Use engine='auto' or 'spark', or change the statement"
        super().__init__(f"{subject} needs Spark: {reason}. {remedy}")


class TableNotFoundError(TableError):
    """The metastore has no such table."""

    def __init__(self, *, table: object) -> None:
        super().__init__(
            table=table, detail="does not exist in the metastore; check the name and the connection"
        )


class PartitionNotFoundError(TableError):
    """The metastore has no such partition."""

    def __init__(self, *, table: object, partition: object) -> None:
        self.partition = str(partition)
        name = self.partition
        shown = name if name == name.strip() else repr(name)  # a blank at the end is easily missed
        super().__init__(table=table, detail=f"has no partition {shown}")


class NotTransactionalError(TableError):
    """The table is not transactional."""

    def __init__(self, *, table: object) -> None:
        super().__init__(
            table=table,
            detail="is not transactional; only tables with transactional=true have versions and can"
            " be changed or compacted",
        )


class InsertOnlyTableError(TableError):
    """An update or delete was requested for rows of an insert-only table."""

    def __init__(self, *, table: object, operation: str) -> None:
        self.operation = operation
        super().__init__(
            table=table,
            detail=f"is insert-only, so {operation} is impossible: its rows have no row IDs."
            " Use a full-ACID table (transactional_properties=default)",
        )


class SortedTableError(TableError):
    """The table has SORTED BY columns."""

    def __init__(self, *, table: object, columns: tuple[str, ...]) -> None:
        self.columns = columns
        super().__init__(
            table=table,
            detail=f"is SORTED BY {', '.join(columns)}; full-ACID files are sorted by row ID, so"
            " sorted tables cannot be written or compacted. Recreate the table without SORTED BY",
        )


class UnsupportedTableError(TableError):
    """This release does not support this kind of table; the message proposes a remedy."""


class TableDiffersError(TableError):
    """The table to create already exists with a different definition."""

    def __init__(self, *, table: object, differences: tuple[str, ...]) -> None:
        self.differences = differences
        super().__init__(
            table=table,
            detail=f"already exists and differs from the request: {'; '.join(differences)}. The"
            " table was not changed; change the request, or drop the table",
        )


class DefinitionError(TableError):
    """The object to define already exists, or a definition cannot be changed as requested."""


class UnknownColumnError(TableError):
    """The request contains a column that the table does not have."""

    def __init__(self, *, table: object, column: str, known: tuple[str, ...]) -> None:
        self.column, self.known = column, known
        super().__init__(table=table, detail=f"has no column {column!r}; it has {', '.join(known)}")


class ColumnUpdateError(TableError):
    """The request updates a column that determines where the row is stored."""

    def __init__(self, *, table: object, column: str, role: str) -> None:
        self.column, self.role = column, role
        super().__init__(
            table=table,
            detail=f"{role} column {column!r} cannot be updated; delete the row and insert it"
            " again",
        )


class TypeMismatchError(TableError):
    """A value's type does not fit the column."""

    def __init__(
        self,
        *,
        table: object,
        column: str,
        column_type: str,
        value_type: str,
        remedy: str = "cast the value",
    ) -> None:
        self.column, self.column_type, self.value_type = column, column_type, value_type
        super().__init__(
            table=table,
            detail=f"column {column!r} is {column_type}, but the value is {value_type}; {remedy}",
        )


class StructFieldsError(TableError):
    """A struct value does not have the fields of its column."""

    def __init__(
        self, *, table: object, path: str, missing: tuple[str, ...], unknown: tuple[str, ...]
    ) -> None:
        self.path, self.missing, self.unknown = path, missing, unknown
        wrong = [
            *([f"lacks {', '.join(missing)}"] if missing else []),
            *([f"has {', '.join(unknown)}, unlike the column"] if unknown else []),
        ]
        super().__init__(
            table=table,
            detail=f"the struct for {path!r} {' and '.join(wrong)}; structs are stored by field"
            " name, so give each field of the column exactly once",
        )


class ExpressionError(TableError):
    """A condition or expression cannot be resolved, or fails for a value."""

    def __init__(self, *, table: object, expression: str, reason: str) -> None:
        self.expression, self.reason = expression, reason
        super().__init__(table=table, detail=f"cannot use the expression {expression!r}: {reason}")


class ValueTooLargeError(InputError):
    """The driver's memory cannot hold a value that Spark computes while it plans a statement."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"Spark's driver lacks the memory for the constants of a statement ({reason})."
            " Nothing was committed. Make the value smaller (repeat, concat, a long literal), read"
            " it from a file or table instead, or give the driver more memory (driver_memory)"
        )


class UnsafeTextError(InputError):
    """A condition, expression or query is unsafe: it would call Java or read the driver's files."""

    def __init__(self, *, of: object, text: str, what: str) -> None:
        self.of, self.text, self.what = of, text, what
        super().__init__(
            f"{of}: {text!r} is refused: {what}. Nothing was written. Remove that part. If you"
            " trust everyone who can supply this text with the driver, set allow_unsafe_expressions"
            " in the connection"
        )


class SourceUnreadableError(InputError):
    """A source has a different format or different columns than the request specifies."""

    def __init__(self, *, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(f"source {source}: {reason}")


class MergeCardinalityError(TableError):
    """Several source rows matched the same target row."""

    def __init__(self, *, table: object, count: int, example: str) -> None:
        self.count, self.example = count, example
        super().__init__(
            table=table,
            detail=f"{count} target row(s) are matched by more than one source row (first:"
            f" {example}); nothing was written. Make the source unique on the join keys",
        )


class SourceKeyError(TableError):
    """The key of a row to upsert is NULL, or several of these rows have the same key."""

    def __init__(self, *, table: object, keys: tuple[str, ...], problem: str) -> None:
        self.keys, self.problem = keys, problem
        super().__init__(
            table=table,
            detail=f"cannot upsert by {', '.join(keys)}: {problem}. Nothing was written. Keep one"
            " row for each key, and insert rows with NULL in their key separately",
        )


class TwinRowIdsError(TableError):
    """Several rows of a table have the same row ID, so a change of one would change all."""

    def __init__(self, *, table: object, row: str, files: tuple[str, ...]) -> None:
        self.row, self.files = row, files
        super().__init__(
            table=table,
            detail=f"{len(files)} rows have the same row ID ({row}), in"
            f" {', '.join(dict.fromkeys(files))}. A change of one row would change all of them, so"
            " nothing was written. If a directory was copied, move the copy away; otherwise, copy"
            " the rows into a new table",
        )


class ConstraintViolationError(TableError):
    """A new row violates a NOT NULL or CHECK constraint of the table."""

    def __init__(self, *, table: object, constraint: str, demand: str) -> None:
        self.constraint, self.demand = constraint, demand
        super().__init__(
            table=table,
            detail=f"requires {demand} (constraint {constraint}), but a new row violates this;"
            " nothing was written. Omit such rows, change their values, or drop the constraint",
        )


class ConversionRefusedError(TableError):
    """A table cannot be converted, or the conversion would change its rows; it is unchanged."""

    def __init__(self, *, table: object, to: str, why: str) -> None:
        self.to, self.why = to, why
        super().__init__(table=table, detail=f"cannot become {to}: {why}. Nothing was changed")


class OtherOwnerError(TableError):
    """A table's directory belongs to another table, or to another metastore's table.

    `remedy` is given if the command `own` does not help, because not only a note says so.
    """

    def __init__(
        self, *, table: object, location: str, why: str, remedy: str | None = None
    ) -> None:
        self.location, self.why = location, why
        if remedy is None:
            remedy = (
                "If the other table is gone for good, take the directory with"
                f" `python -m airflow_hiveacid own {table}`"
            )
        super().__init__(
            table=table,
            detail=f"its directory {location} is not its own: {why}. Nothing was changed, because"
            " the files may be live in the other table. Write and maintain the directory only from"
            " the table that owns it, and give the other table its own copy of the files."
            f" {remedy}. See"
            " docs/how-to/restore-or-clone-a-metastore.md",
        )


class StatementOrderError(InputError):
    """The files of one transaction cannot represent the statements in the requested order."""

    def __init__(self, *, table: object, statement: int, overwriting: int) -> None:
        self.table, self.statement, self.overwriting = table, statement, overwriting
        super().__init__(
            f"statement {statement} changes table {table}, which statement {overwriting} of the"
            " same transaction overwrites: readers ignore all other files that the transaction"
            f" wrote there. Make statement {statement} part of the overwrite's query, put it before"
            " the overwrite, or run it in a separate transaction"
        )


class SharedTargetError(InputError):
    """Two INSERTs of one FROM clause write to the same target, and one is an overwrite."""

    def __init__(self, *, table: object, statement: int, other: int) -> None:
        self.table, self.statement, self.other = table, statement, other
        super().__init__(
            f"INSERTs {other} and {statement} of one FROM clause write table {table}. One of them"
            " is an overwrite, which would remove the other's rows. Combine both into one INSERT"
            " with UNION ALL, or name different static partitions"
        )


class RerunRefusedError(TableError):
    """The job was done before, and `on_rerun` is `fail`."""

    def __init__(self, *, table: object, job_key: str, txn_id: int, when: str) -> None:
        self.job_key, self.txn_id, self.when = job_key, txn_id, when
        super().__init__(
            table=table,
            detail=f"{job_key} was done by {_earlier(txn_id)} at {when} and on_rerun is 'fail'."
            " Nothing was written; with on_rerun='apply' a cleared task applies its change again",
        )


class StatementChangedError(TableError):
    """The job was done before under this key, but with a different statement."""

    def __init__(
        self, *, table: object, job_key: str, txn_id: int, when: str, differing: tuple[str, ...]
    ) -> None:
        self.job_key, self.txn_id, self.when = job_key, txn_id, when
        self.differing = differing
        super().__init__(
            table=table,
            detail=f"{_earlier(txn_id)} did {job_key} at {when} with a different"
            f" {', '.join(differing)}, so this is not a retry of it. Nothing was written."
            " To apply the new statement, too, clear the task with on_rerun=apply",
        )


def _earlier(txn_id: int) -> str:
    return f"transaction {txn_id}" if txn_id else "an earlier try"
