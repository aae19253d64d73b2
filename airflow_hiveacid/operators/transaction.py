"""The operator that commits several statements together or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial as bind
from typing import Annotated, Any, Final

from airflow_hiveacid.format.errors import ConfigurationError, InputError
from airflow_hiveacid.jobs import statements as job_specs
from airflow_hiveacid.jobs.maintenance import CompactSpec
from airflow_hiveacid.jobs.metastore_statements import MetastoreStatement
from airflow_hiveacid.operators import hive_acid, kinds, row_change
from airflow_hiveacid.operators.declaration import declaration, setting
from airflow_hiveacid.operators.rendering import names_file
from airflow_hiveacid.operators.reporting.task_view import LONGEST_LABEL
from airflow_hiveacid.plan import arguments
from airflow_hiveacid.plan.statements import arguments as parts
from airflow_hiveacid.plan.statements.parameters import (
    check_all_used,
    check_values_early,
    stand_ins,
)
from airflow_hiveacid.plan.statements.text import statement_text
from airflow_hiveacid.plan.transactions import check_order, steps_of
from airflow_hiveacid.sql.script import read_script

_Part = job_specs.StatementSpec | job_specs.MultiInsertSpec

_STATEMENTS: Final[Mapping[str, type[row_change.StatementOperator]]] = {
    "insert": hive_acid.HiveAcidInsertOperator,
    "update": hive_acid.HiveAcidUpdateOperator,
    "delete": hive_acid.HiveAcidDeleteOperator,
    "truncate": hive_acid.HiveAcidTruncateOperator,
    "load": hive_acid.HiveAcidLoadOperator,
    "merge": hive_acid.HiveAcidMergeOperator,
}


class HiveAcidTransactionOperator(row_change.InProcessOperator):
    """Run statements on one or more tables as one transaction.

    The statements run in order. Each statement sees the changes of the earlier statements. All
    statements read the same snapshot of other transactions. Other transactions see the changes only
    after the commit. If a statement overwrites a table or a static partition, later statements must
    not change that table or partition.

    Args:
        statements: each entry is a mapping or a string. A mapping has one key (`insert`, `update`,
            `delete`, `truncate`, `load` or `merge`), whose value is a mapping with the arguments of
            that operator. A string is SQL as for `HiveAcidSqlOperator`, or the name of a `.sql`
            file, and may contain several statements.
        database: the default database of table names in SQL text.
        parameters: values for the markers in all statements, as for `HiveAcidMergeOperator`. The
            mapping of a statement may also contain `parameters` for this statement only.
    """

    does = "Runs several statements as one transaction."
    shows_statement = True
    template_ext: Sequence[str] = (".sql",)
    file_fields = ("statements",)
    statements: Sequence[str | Mapping[str, Mapping[str, Any]]]
    database: str | None
    parameters: Mapping[str, Any]

    @declaration
    def __init__(
        self,
        *,
        statements: Annotated[
            Sequence[str | Mapping[str, Mapping[str, Any]]],
            setting(check=kinds.checked_with_sql, shown_as="json"),
        ],
        database: Annotated[str | None, setting()] = None,
        parameters: kinds.Parameters = kinds.NO_VALUES,
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(**kwargs)
        self.take_arguments(locals())
        self._nulls = _nulls_of(statements)
        early = self.early_checks
        entries = statements if isinstance(statements, list | tuple) else ()
        has_files = any(names_file(entry, self.template_ext) for entry in entries)
        is_known = arguments.is_settled(database) and not has_files
        check_values_early(early, parameters)
        names = parameters if _is_mapping(parameters) else None
        if is_known and names is not None and arguments.is_settled(statements):
            early.check(bind(self._read, parameters=stand_ins(names)), statements=statements)
        else:
            self._check_parts(early, entries, names)

    def build_job(self) -> job_specs.TransactionSpec:
        """Return the spec of the transaction that the rendered statements describe."""
        return self._read(self.statements, "statements", self.value_of("parameters"))

    def statement_text(self) -> str:
        """Return all statements as SQL text; statements that were given as SQL are unchanged."""
        self.build_job()  # checks the statements
        texts = []
        for position, entry in enumerate(self.statements):
            if isinstance(entry, str):
                texts.append(entry.strip().rstrip(";"))
            else:
                kind, values = _only_key(entry, f"statements[{position}]")
                nulls = self._nulls_at(position)
                spec, _ = _operator_of(kind).read_statement(
                    values, nulls=nulls, others=self.value_of("parameters")
                )
                texts.append(statement_text(spec))
        return ";\n".join(texts) + ";"

    @property
    def map_label(self) -> str:
        """The beginning of the statements' text."""
        return " ".join(self.statement.split())[:LONGEST_LABEL]

    def _read(
        self, statements: object, argument: str, parameters: Mapping[str, job_specs.Parameter]
    ) -> job_specs.TransactionSpec:
        if not isinstance(statements, list | tuple):
            raise ConfigurationError(f"{argument} must be a list, found {statements!r}")
        specs: list[_Part] = []
        names: frozenset[str] = frozenset()
        for position, entry in enumerate(statements):
            where = f"{argument}[{position}]"
            if isinstance(entry, str):
                parts_of_text, own_names = self._of_text(entry, where, parameters)
                specs.extend(parts_of_text)
            else:
                kind, values = _only_key(entry, where)
                nulls = self._nulls_at(position)
                where = f"{where}[{kind!r}]"
                spec, own_names = _operator_of(kind).read_statement(
                    values, where=where, nulls=nulls, others=parameters
                )
                specs.append(spec)
            names |= own_names
        check_all_used(parameters, names, "parameters")
        check_order(steps_of(specs))
        return job_specs.TransactionSpec(statements=tuple(specs))

    def _of_text(
        self, sql: str, where: str, parameters: Mapping[str, job_specs.Parameter]
    ) -> tuple[Sequence[_Part], frozenset[str]]:
        specs: list[_Part] = []
        names: frozenset[str] = frozenset()
        try:
            for statement in read_script(sql, self.database or None, parameters):
                names |= statement.parameters
                if isinstance(statement.job, CompactSpec):
                    raise ConfigurationError(
                        f"statement {statement.number}, line {statement.line}, column"
                        f" {statement.column}: a compaction runs in separate transactions; use"
                        " HiveAcidCompactOperator"
                    )
                if isinstance(statement.job, MetastoreStatement | job_specs.CreateAsSpec):
                    raise ConfigurationError(
                        f"statement {statement.number}, line {statement.line}, column"
                        f" {statement.column}: a DDL statement or metastore query cannot be part of"
                        " a transaction, because the metastore executes it at once; use"
                        " HiveAcidSqlOperator"
                    )
                if isinstance(statement.job, job_specs.TransactionSpec):
                    specs.extend(statement.job.statements)  # a multi-insert
                else:
                    specs.append(statement.job)
        except InputError as error:
            error.add_note(f"in {where}")
            raise
        return specs, names

    def _nulls_at(self, position: int) -> frozenset[str]:
        is_literal = self.is_literal(self.statements)
        return self._nulls.get(position, frozenset()) if is_literal else frozenset()

    def _check_parts(
        self,
        early: arguments.EarlyChecks,
        entries: Sequence[object],
        parameters: Mapping[str, object] | None,
    ) -> None:
        """Check the parts of the statements that do not depend on templates.

        The names of the task's parameters are unknown if `parameters` is the result of a different
        task.
        """
        for position, entry in enumerate(entries):
            where = f"statements[{position}]"
            if isinstance(entry, Mapping):
                early.check(_check_shape, **{where: _without_values(entry)})
                for kind, values in entry.items():
                    if not isinstance(values, Mapping):
                        continue  # it is the result of a different task, so it is unknown here
                    argument = f"{where}[{kind!r}]"
                    _check_values(early, kind, values, argument)
                    if parameters is not None:
                        row_change.check_parameters_early(
                            early, values, argument, others=parameters
                        )
            elif isinstance(entry, str) and not names_file(entry, self.template_ext):
                is_known = arguments.is_settled(self.database) and parameters is not None
                read = bind(self._of_text, parameters=stand_ins(parameters))
                early.check(read, **{where: entry} if is_known else {})


def _check_values(
    early: arguments.EarlyChecks,
    kind: str,
    values: Mapping[str, object],
    where: str,
) -> None:
    own = _operator_of(kind).statement_arguments()
    for name, value in values.items():
        # Parameters are checked together with the SQL text that uses them.
        if (argument := own.get(name)) is not None:
            argument.check_early(early, f"{where}[{name!r}]", value)


def _operator_of(kind: str) -> type[row_change.StatementOperator]:
    if kind not in _STATEMENTS:
        raise ConfigurationError(f"unknown statement {kind!r}; use one of {', '.join(_STATEMENTS)}")
    return _STATEMENTS[kind]


def _check_shape(entry: object, where: str) -> None:
    kind, values = _only_key(entry, where)
    _operator_of(kind).check_names(values, f"{where}[{kind!r}]")


def _only_key(entry: object, where: str) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise ConfigurationError(
            f"{where} must be SQL text or a mapping such as {{'delete': {{'table': ...}}}}, found"
            f" {entry!r}"
        )
    ((kind, values),) = entry.items()
    try:
        _operator_of(kind)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"{where}[{kind!r}] must be a mapping, found {values!r}")
    return kind, values


def _without_values(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a copy of an entry with each value replaced by "", because it may be a template."""
    return {
        kind: dict.fromkeys(values, "") if isinstance(values, Mapping) else values
        for kind, values in entry.items()
    }


def _is_mapping(parameters: object) -> bool:
    return isinstance(parameters, Mapping)


def _nulls_of(statements: object) -> dict[int, frozenset[str]]:
    entries = enumerate(statements if isinstance(statements, list | tuple) else ())
    return {
        position: parts.null_columns(values.get("partition"))
        for position, entry in entries
        if isinstance(entry, Mapping)
        for values in entry.values()
        if isinstance(values, Mapping)
    }
