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

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs import statements as specs
from airflow_hiveacid.jobs.maintenance import CompactSpec
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.plan.statements.parameters import with_parameters
from airflow_hiveacid.sql.statements.definitions import alteration_of, creation_of, drop_of
from airflow_hiveacid.sql.statements.inserts import begins_with_from, insert_of, multi_insert_of
from airflow_hiveacid.sql.statements.merges import merge_of
from airflow_hiveacid.sql.statements.short import abortion_of, load_of, question_of, truncate_of
from airflow_hiveacid.sql.statements.update_delete import delete_of, update_of
from airflow_hiveacid.sql.text import Span, statements_of
from airflow_hiveacid.sql.text.tokens import AsOf, Kind, Token

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
    parameters: Mapping[str, specs.Parameter] | None = None,
) -> tuple[Statement, ...]:
    """Return the statements of a SQL script, in order.

    Without a default `database`, all table names must include one. `parameters` are the values of
    markers such as `:day`, by name. Raises SqlTextError if a statement cannot be parsed, is not
    supported, or has different meanings in Spark and Hive.
    """
    markers = parameters or {}
    return tuple(_statement(span, database, markers) for span in statements_of(text, markers))


def _statement(
    span: Span, database: str | None, markers: Mapping[str, specs.Parameter]
) -> Statement:
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


_NUMBERED: Final = frozenset({"VERSION", "SYSTEM_VERSION"})
_TIMED: Final = frozenset({"TIMESTAMP", "SYSTEM_TIME"})
_LONGEST: Final = 6
"""The maximum number of tokens in a clause: FOR, a word, AS, OF, TIMESTAMP and the literal."""


def without_clauses(span: Span) -> Span:
    """Return the statement without the AS OF clauses after tables' names.

    sqlglot parses only some forms of them. `Token.as_of` of the last token of a table's name has
    the version; `check_all_read` refuses a clause that no module has read.

    | clause | engines |
    | --- | --- |
    | `FOR VERSION AS OF 12`, `FOR SYSTEM_VERSION ...`, `VERSION ...` | Trino, Hive, Spark |
    | `FOR TIMESTAMP AS OF '...'`, `FOR SYSTEM_TIME ...` | the same; also `TIMESTAMP '...'` |
    | `FOR VERSION AS OF 'closing'` | Trino, Spark; the string is the name of a tag |

    Example:
        >>> (span,) = statements_of("INSERT INTO db.a SELECT * FROM db.b FOR VERSION AS OF 12 x")
        >>> found = without_clauses(span)
        >>> found.text, found.tokens[-2].as_of.version
        ('INSERT INTO db.a SELECT * FROM db.b x', 'version 12')
    """
    tokens: list[Token] = []
    index = 0
    while index < len(span):
        length = _length(span.tokens[index : index + _LONGEST])
        if length and tokens and tokens[-1].name is not None:
            as_of = _clause(span[index : index + length])
            tokens[-1] = dataclasses.replace(tokens[-1], as_of=as_of)
            index += length
            continue
        tokens.append(span.tokens[index])
        index += 1
    return Span(span.whole, span.number, tuple(tokens), span.at)


def check_all_read(span: Span) -> None:
    """Refuse AS OF clauses after names that cannot refer to earlier versions."""
    for token in span.tokens:
        if token.as_of is not None and not token.as_of.is_read:
            span.fail(
                f"an earlier version of {token.raw} cannot be read here",
                "write AS OF after a table in a FROM clause, or after the source of a MERGE",
                token,
            )


def _length(tokens: Sequence[Token]) -> int:
    """Return the number of tokens of an AS OF clause at the beginning; 0 if there is none."""
    words: list[str] = []
    for count, token in enumerate(tokens, start=1):
        if token.kind in {Kind.STRING, Kind.NUMBER}:
            body = words[1:] if words[:1] == ["FOR"] else words
            if body[3:] == ["TIMESTAMP"]:
                body = body[:3]
            is_clause = len(body) == 3 and body[0] in _NUMBERED | _TIMED  # noqa: PLR2004 - X AS OF
            return count if is_clause and body[1:] == ["AS", "OF"] else 0
        if not token.word:
            return 0
        words.extend(token.word.split())
    return 0


def _clause(span: Span) -> AsOf:
    words = [word for token in span.tokens for word in token.word.split()]
    literal = span.tokens[-1]
    text = literal.raw[1:-1] if literal.kind is Kind.STRING else literal.raw
    is_timed = not _NUMBERED.intersection(words)
    try:
        if is_timed:
            spec = VersionSpec.of(timestamp=text)
        elif literal.kind is Kind.STRING:
            spec = VersionSpec.of(tag=text)
        else:
            spec = VersionSpec.of(version=text)
    except ConfigurationError as error:
        span.fail(
            str(error), "write AS OF 12, AS OF '2026-11-19T02:00:00Z' or the name of a tag", literal
        )
    return AsOf(spec.text())
