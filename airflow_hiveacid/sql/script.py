"""The parser of SQL scripts in Hive's dialect.

Other packages import only this module and `origins` of the package `sql`.

The job of a `Statement` is one for the metastore, or the spec that an operator would create. Tables
are not accessed, so the job checks whether columns exist. Unknown syntax is refused.

Example:
    >>> (one,) = read_script("DELETE FROM db.t x WHERE x.id = 1")
    >>> one.job
    DeleteSpec(target='db.t', where='t.id = 1', tables={}, parameters={})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.jobs.parameters import Parameter
from airflow_hiveacid.jobs.specs import statements as specs
from airflow_hiveacid.jobs.specs.maintenance import CompactSpec
from airflow_hiveacid.plan.statements.parameters import with_parameters
from airflow_hiveacid.sql.expressions.as_of import check_all_read, without_clauses
from airflow_hiveacid.sql.statements.alterations import alteration_of
from airflow_hiveacid.sql.statements.definitions import creation_of, drop_of
from airflow_hiveacid.sql.statements.inserts import insert_of
from airflow_hiveacid.sql.statements.merges import merge_of
from airflow_hiveacid.sql.statements.multi_inserts import begins_with_from, multi_insert_of
from airflow_hiveacid.sql.statements.short import abortion_of, load_of, question_of, truncate_of
from airflow_hiveacid.sql.statements.update_delete import delete_of, update_of
from airflow_hiveacid.sql.text.text import Span, statements_of

SqlJob = (
    specs.InsertSpec
    | specs.UpdateSpec
    | specs.DeleteSpec
    | specs.MergeSpec
    | specs.TruncateSpec
    | specs.LoadSpec
    | specs.CreateAsSpec
    | specs.TransactionSpec
    | CompactSpec
)


def _with(span: Span, database: str | None) -> SqlJob:
    reader = multi_insert_of if begins_with_from(span) else insert_of
    return reader(span, database)


_READERS: Final[Mapping[str, Callable[[Span, str | None], SqlJob | MetastoreStatement]]] = {
    "INSERT": insert_of,
    "WITH": _with,
    "FROM": multi_insert_of,
    "UPDATE": update_of,
    "DELETE": delete_of,
    "MERGE": merge_of,
    "TRUNCATE": truncate_of,
    "LOAD": load_of,
    "ALTER": alteration_of,
    "CREATE": creation_of,
    "DROP": drop_of,
    "SHOW": question_of,
    "ABORT": abortion_of,
}
_REMEDIES: Final = {
    "SELECT": "a task changes rows; write INSERT INTO db.t SELECT ...",
    "USE": "write db.table, or give the operator its argument database",
    "SET": "give settings to the operator in its argument conf",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a script: its number, its line and column (each from 1) and its job."""

    number: int
    line: int
    column: int
    job: SqlJob | MetastoreStatement
    parameters: frozenset[str] = frozenset()


def read_script(
    text: str,
    database: str | None = None,
    parameters: Mapping[str, Parameter] | None = None,
) -> tuple[Statement, ...]:
    """Return the statements of a SQL script, in order.

    Without a default `database`, all table names must include one. `parameters` are the values of
    markers such as `:day`, by name. Raises SqlTextError if a statement cannot be parsed, is not
    supported, or has different meanings in Spark and Hive.
    """
    markers = parameters or {}
    return tuple(_statement(span, database, markers) for span in statements_of(text, markers))


def _statement(span: Span, database: str | None, markers: Mapping[str, Parameter]) -> Statement:
    first = span.tokens[0]
    reader = _READERS.get(first.word)
    if reader is None:
        span.fail(
            f"statements that begin with {first.raw!r} are not supported",
            _REMEDIES.get(
                first.word,
                "write INSERT, UPDATE, DELETE, MERGE, TRUNCATE, LOAD DATA, CREATE, ALTER, DROP,"
                " SHOW or ABORT",
            ),
            first,
        )
    line, column = span.line_and_column()
    span = without_clauses(span)
    check_calls(span)
    try:
        job = reader(span, database)
    except RecursionError:
        span.fail("this is nested too deeply", "split it into smaller parts")
    check_all_read(span)
    names = frozenset(t.raw[1:] for t in span.tokens if t.parameter is not None)
    own = {name: parameter for name, parameter in markers.items() if name in names}
    bound_job, _ = with_parameters(job, own, None)
    return Statement(number=span.number, line=line, column=column, job=bound_job, parameters=names)


_REFUSED: Final = frozenset(
    {"reflect", "reflect2", "java_method", "try_reflect"}
    | {"input_file_name", "input_file_block_start", "input_file_block_length"}
)


def check_calls(span: Span) -> None:
    """Refuse a statement that contains a forbidden call."""
    for index, token in enumerate(span.tokens):
        if (token.name or "").lower() in _REFUSED and span.word(index + 1) == "(":
            span.fail(
                f"{token.raw} accesses Java or files, not only tables",
                "write the statement without it",
                token,
            )
