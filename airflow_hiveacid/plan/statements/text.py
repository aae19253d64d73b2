"""A job as SQL text for readers: Hive's own statement, or the most similar statement.

Airflow's "Rendered Templates" view shows the text, beside each argument; no program parses it. So
the text contains only what a statement says. Parameters appear as markers, without their values.

Example:
    >>> print(statement_text(statements.DeleteSpec(target="db.t", where="day < :day")))
    DELETE FROM db.t
    WHERE day < :day
    >>> major = maintenance.CompactionChoice.MAJOR
    >>> statement_text(maintenance.CompactSpec.of_table("db.t", partition="a=1", choice=major))
    "ALTER TABLE db.t PARTITION (a='1') COMPACT 'major'"
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Final, assert_never

from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.jobs import maintenance, statements
from airflow_hiveacid.plan.compaction_policy import GivenThresholds
from airflow_hiveacid.plan.statements.dml import quoted, sql_string

_MOST_ROWS: Final = 3
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITH: Final = re.compile(r"\s*WITH\s+", re.IGNORECASE)
_WHEN: Final = {
    statements.MergeWhen.MATCHED: "MATCHED",
    statements.MergeWhen.NOT_MATCHED: "NOT MATCHED",
    statements.MergeWhen.NOT_MATCHED_BY_SOURCE: "NOT MATCHED BY SOURCE",
}
PROPERTIES: Final = {
    maintenance.ConversionTarget.FULL_ACID: {"transactional": "true"},
    maintenance.ConversionTarget.INSERT_ONLY: {
        "transactional": "true",
        "transactional_properties": "insert_only",
    },
    maintenance.ConversionTarget.FLAT: {"transactional": "false"},
}


@singledispatch
def statement_text(job: object) -> str:  # noqa: ARG001 - each kind of job has its own function
    """Return a job as SQL text; empty if no SQL statement expresses the job."""
    return ""


def table_properties(properties: Mapping[str, str]) -> str:
    """Return the TBLPROPERTIES of a statement."""
    pairs = (f"{sql_string(name)}={sql_string(value)}" for name, value in properties.items())
    return f"TBLPROPERTIES ({', '.join(pairs)})"


def name_text(name: str) -> str:
    """Return a column's or tag's name, in backticks if it needs them."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def as_of(version: VersionSpec) -> str:
    """Return the clause that selects a version, after a blank; empty for the current version."""
    if version.timestamp is not None:
        return f" FOR TIMESTAMP AS OF {sql_string(version.timestamp.isoformat())}"
    if version.is_now:
        return ""
    version_text = sql_string(version.tag) if version.tag is not None else version.number
    return f" FOR VERSION AS OF {version_text}"


@statement_text.register
def _update(job: statements.UpdateSpec) -> str:
    return f"UPDATE {job.target}\nSET {_assignments(job.set)}{_where(job.where)}"


@statement_text.register
def _delete(job: statements.DeleteSpec) -> str:
    return f"DELETE FROM {job.target}{_where(job.where)}"  # noqa: S608 - only shown


@statement_text.register
def _truncation(job: statements.TruncateSpec) -> str:
    return f"TRUNCATE TABLE {job.target}{_partition(job.partition)}"


@statement_text.register
def _load(job: statements.LoadSpec) -> str:
    into = "OVERWRITE INTO TABLE" if job.overwrite else "INTO TABLE"
    partition = _partition(job.partition)
    return f"LOAD DATA INPATH {sql_string(job.location)} {into} {job.target}{partition}"


@statement_text.register
def _restore(job: maintenance.RestoreSpec) -> str:
    overwrite = f"INSERT OVERWRITE TABLE {job.target}\n{_read(job.target, job.version)}"
    return _planned(overwrite, plan_only=job.plan_only)


@statement_text.register
def _rebalance(job: maintenance.RebalanceSpec) -> str:
    partition = "" if job.partition is None else _partition(_values(job.partition))
    buckets = "" if job.buckets is None else f" CLUSTERED INTO {job.buckets} BUCKETS"
    order = f" ORDER BY {', '.join(map(name_text, job.order_by))}" if job.order_by else ""
    compact = f"ALTER TABLE {job.target}{partition} COMPACT 'rebalance'{buckets}{order}"
    return _planned(compact, plan_only=job.plan_only)


@statement_text.register
def _conversion(job: maintenance.ConvertSpec) -> str:
    properties = table_properties(PROPERTIES[job.to])
    return _planned(f"ALTER TABLE {job.target} SET {properties}", plan_only=job.plan_only)


@statement_text.register
def _merge(job: statements.MergeSpec) -> str:
    keys = [f"t.{name_text(key)} = s.{name_text(key)}" for key in job.keys]
    if job.condition is not None:
        keys.append(f"({job.condition})" if keys else job.condition)
    clauses = "".join(f"\n{_clause(clause)}" for clause in job.clauses)
    return (
        f"MERGE INTO {job.target} AS t\nUSING {_relation(job.source)} AS s\nON"
        f" {' AND '.join(keys)}{clauses}"
    )


def _clause(clause: statements.MergeClause) -> str:
    condition = "" if clause.condition is None else f" AND ({clause.condition})"
    return f"WHEN {_WHEN[clause.when]}{condition} THEN {_action(clause)}"


def _action(clause: statements.MergeClause) -> str:
    match clause.action:
        case statements.MergeAction.DELETE:
            return "DELETE"
        case statements.MergeAction.UPDATE:
            return f"UPDATE SET {'*' if clause.set is None else _assignments(clause.set)}"
        case statements.MergeAction.INSERT:
            if clause.set is not None:
                names = ", ".join(map(name_text, clause.set))
                return f"INSERT ({names}) VALUES ({', '.join(clause.set.values())})"  # noqa: S608 - only shown
            return (
                "INSERT *"
                if clause.values is None
                else f"INSERT VALUES ({', '.join(clause.values)})"
            )
        case _:
            assert_never(clause.action)


@statement_text.register
def _insert(job: statements.InsertSpec) -> str:
    verb = (
        "INSERT OVERWRITE TABLE"
        if job.mode is statements.InsertMode.OVERWRITE
        else "INSERT INTO TABLE"
    )
    columns = f" ({', '.join(map(name_text, job.columns))})" if job.columns else ""
    partition = _partition(job.partition, job.dynamic_partition)
    return f"{verb} {job.target}{partition}{columns}\n{_select(job.source)}"


@statement_text.register
def _compaction(job: maintenance.CompactSpec) -> str:
    partition = "" if job.partition is None else _partition(_values(job.partition))
    head = f"ALTER TABLE {job.target}{partition} COMPACT"
    if job.choice is maintenance.CompactionChoice.AUTO:
        due = " or ".join(GivenThresholds.of(job).texts())
        return _planned(f"{head} 'minor' -- or 'major', at {due}", plan_only=job.plan_only)
    if job.choice is maintenance.CompactionChoice.QUEUED:
        queued = f"{head} 'minor' -- or 'major', as the request in the queue says"
        return _planned(queued, plan_only=job.plan_only)
    return _planned(f"{head} '{job.choice.value}'", plan_only=job.plan_only)


def _planned(text: str, *, plan_only: bool) -> str:
    return f"-- plan only: nothing changes\n{text}" if plan_only else text


def _values(partition: str) -> dict[str, str | None]:
    name = PartitionName.parse(partition)
    return dict(zip(name.columns, name.values, strict=True))


def _partition(values: Mapping[str, str | None], dynamic: Sequence[str] = ()) -> str:
    pairs = [
        f"{name_text(name)}={'NULL' if value is None else sql_string(value)}"
        for name, value in values.items()
    ]
    names = (*pairs, *map(name_text, dynamic))
    return f" PARTITION ({', '.join(names)})" if names else ""


def _where(condition: str | None) -> str:
    return "" if condition is None else f"\nWHERE {condition}"


def _assignments(expressions: Mapping[str, str]) -> str:
    return ", ".join(f"{name_text(name)} = {value}" for name, value in expressions.items())


def _relation(source: statements.SourceSpec) -> str:
    """Return a source for USING: the name of a table, or a query in brackets."""
    is_table = source.table is not None and source.query is None and not source.versions
    return str(source.table) if is_table else f"({_select(source)})"


def _select(source: statements.SourceSpec) -> str:
    if source.tables is not None:
        views = {v: _read(t, source.versions.get(v, "now")) for v, t in source.tables.items()}
        return _over(views, source.query or "")
    rows = _rows(source)
    return rows if source.query is None else _over({statements.SOURCE_VIEW: rows}, source.query)


def _rows(source: statements.SourceSpec) -> str:
    if source.table is not None:
        return _read(source.table, source.versions.get(statements.SOURCE_VIEW, "now"))
    if source.values is not None:
        shown = [f"({', '.join(map(_literal, row))})" for row in source.values[:_MOST_ROWS]]
        if (omitted := len(source.values) - len(shown)) > 0:
            shown[-1] += f" /* and {omitted} more */"
        columns = f" ({', '.join(map(name_text, source.columns))})" if source.columns else ""
        return f"SELECT * FROM (VALUES {', '.join(shown)}) AS {statements.SOURCE_VIEW}{columns}"  # noqa: S608 - only shown
    return f"SELECT * FROM {source.format}.{quoted(source.location or '')}"  # noqa: S608 - only shown


def _read(table: str, version: str) -> str:
    return f"SELECT * FROM {table}{as_of(VersionSpec.parse(version))}"  # noqa: S608 - only shown


def _over(views: Mapping[str, str], query: str) -> str:
    """Return a query, preceded by the definitions of the views that it reads."""
    if not views:
        return query
    views_text = ", ".join(f"{name_text(name)} AS ({text})" for name, text in views.items())
    own = _WITH.match(query)
    return f"WITH {views_text}, {query[own.end() :]}" if own else f"WITH {views_text}\n{query}"


def _literal(value: str | float | bool | None) -> str:  # noqa: FBT001 - a value of any type
    if isinstance(value, str):
        return sql_string(value)
    return "NULL" if value is None else str(value)
