"""The operator for several statements that are committed together or not at all.

Example:
    HiveAcidTransactionOperator(
        task_id="move",
        statements=[
            {"merge": {"table": "demo.customers", "source": ..., "keys": ..., "clauses": ...}},
            "DELETE FROM demo.arrivals WHERE day = '{{ ds }}'",
        ],
    )
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_hiveacid.format.errors import ConfigurationError, InputError
from airflow_hiveacid.jobs.specs import (
    CompactSpec,
    CreateAsSpec,
    MultiInsertSpec,
    StatementSpec,
    TransactionSpec,
)
from airflow_hiveacid.operators.change import HiveAcidChangeOperator
from airflow_hiveacid.operators.statement_specs import check_names, reads_of, statement_spec
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan import statement_arguments as parts
from airflow_hiveacid.plan.metastore_statements import MetastoreStatement
from airflow_hiveacid.plan.transactions import check_order, steps_of
from airflow_hiveacid.sql.script import read_script

_SQL_FILE = ".sql"

_Part = StatementSpec | MultiInsertSpec


class HiveAcidTransactionOperator(HiveAcidChangeOperator):
    """Run statements over one or several tables as one transaction.

    They are done in order; each sees what the earlier ones have done, and of everybody else's
    changes all see the same. Nobody sees anything of it before all are done. After an overwrite no
    other statement may change the same table, or the same static partition.

    Args:
        statements: each a mapping with one key, `insert`, `update`, `delete`, `truncate`, `load` or
            `merge`, to the arguments of the operator for it; or SQL text as for
            `HiveAcidSqlOperator` (or the name of a `.sql` file), of one statement or several, each
            of which counts.
        database: where tables are whose names have no database, in SQL text.
    """

    template_fields: Sequence[str] = (
        *HiveAcidChangeOperator.template_fields,
        "statements",
        "database",
    )
    template_ext: Sequence[str] = (_SQL_FILE,)
    template_fields_renderers: ClassVar[dict[str, str]] = {"conf": "json", "statements": "json"}

    def __init__(
        self,
        *,
        statements: Sequence[str | Mapping[str, Mapping[str, Any]]],
        database: str | None = None,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.statements = statements
        self.database = database
        self._nulls = _nulls_of(statements)
        early = arguments.EarlyChecks(self.task_id)
        is_known = arguments.is_settled(database) and not _names_files(statements)
        if is_known and arguments.is_settled(statements):
            early.check(self._read, statements=statements)
        else:
            self._check_parts(early, statements)

    def build_job(self) -> TransactionSpec:
        """The transaction that the rendered statements describe."""
        return self._read(self.statements, "statements")

    def _read(self, given: object, argument: str) -> TransactionSpec:
        if not isinstance(given, list | tuple):
            raise ConfigurationError(f"{argument} must be a list, found {given!r}")
        found: list[_Part] = []
        for at, entry in enumerate(given):
            where = f"{argument}[{at}]"
            if isinstance(entry, str):
                found.extend(self._of_text(entry, where))
            else:
                kind, values = _only_key(entry, where)
                nulls = self._nulls.get(at, frozenset())
                where = f"{where}[{kind!r}]"
                found.append(statement_spec(kind, values, where=where, nulls=nulls))
        check_order(steps_of(found))
        return TransactionSpec(statements=tuple(found))

    def _of_text(self, sql: str, where: str) -> Sequence[_Part]:
        found: list[_Part] = []
        try:
            for statement in read_script(sql, self.database or None):
                if isinstance(statement.job, CompactSpec):
                    raise ConfigurationError(
                        f"statement {statement.number}, line {statement.line}, column"
                        f" {statement.column}: a compaction has transactions of its own; use"
                        " HiveAcidCompactOperator"
                    )
                if isinstance(statement.job, MetastoreStatement | CreateAsSpec):
                    raise ConfigurationError(
                        f"statement {statement.number}, line {statement.line}, column"
                        f" {statement.column}: definitions and questions are no part of a"
                        " transaction, since the metastore does them at once; use"
                        " HiveAcidSqlOperator"
                    )
                if isinstance(statement.job, TransactionSpec):
                    found.extend(statement.job.statements)  # a multi-insert
                else:
                    found.append(statement.job)
        except InputError as error:
            error.add_note(f"in {where}")
            raise
        return found

    def _check_parts(self, early: arguments.EarlyChecks, given: object) -> None:
        """Check what is settled of statements that hold templates."""
        for at, entry in enumerate(given if isinstance(given, list | tuple) else ()):
            where = f"statements[{at}]"
            if isinstance(entry, Mapping):
                early.check(_check_shape, **{where: _without_values(entry)})
                nulls = self._nulls.get(at, frozenset())
                for kind, values in entry.items():
                    _check_values(early, kind, values, f"{where}[{kind!r}]", nulls)
            elif isinstance(entry, str) and not entry.endswith(_SQL_FILE):
                is_known = arguments.is_settled(self.database)
                early.check(self._of_text, **{where: entry} if is_known else {})


def _check_values(
    early: arguments.EarlyChecks,
    kind: str,
    values: object,
    where: str,
    nulls: frozenset[str],
) -> None:
    if not isinstance(values, Mapping):
        return  # what another task returns
    for name, read in reads_of(kind, nulls).items():
        if name not in values:
            continue
        match name:
            case "source":
                parts.check_source_early(early, values[name])
            case "clauses":
                parts.check_clauses_early(early, values[name])
            case "partition":
                parts.check_partition_early(early, values[name], nulls)
            case _:
                early.check(read, **{f"{where}[{name!r}]": values[name]})


def _check_shape(entry: object, where: str) -> None:
    kind, values = _only_key(entry, where)
    check_names(kind, values, f"{where}[{kind!r}]")


def _only_key(entry: object, where: str) -> tuple[str, Mapping[str, Any]]:
    """The kind of a statement, and its arguments."""
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise ConfigurationError(
            f"{where} must be SQL text or a mapping such as {{'delete': {{'table': ...}}}}, found"
            f" {entry!r}"
        )
    ((kind, values),) = entry.items()
    try:
        reads_of(kind)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"{where}[{kind!r}] must be a mapping, found {values!r}")
    return kind, values


def _without_values(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same with names only, which are never templates."""
    return {
        kind: dict.fromkeys(values, "") if isinstance(values, Mapping) else values
        for kind, values in entry.items()
    }


def _names_files(given: object) -> bool:
    entries = given if isinstance(given, list | tuple) else ()
    return any(isinstance(entry, str) and entry.endswith(_SQL_FILE) for entry in entries)


def _nulls_of(given: object) -> dict[int, frozenset[str]]:
    """The partition columns for which None is written down, by the statement's place."""
    entries = enumerate(given if isinstance(given, list | tuple) else ())
    return {
        at: parts.null_columns(values.get("partition"))
        for at, entry in entries
        if isinstance(entry, Mapping)
        for values in entry.values()
        if isinstance(values, Mapping)
    }
