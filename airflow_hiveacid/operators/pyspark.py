"""The operator for a user's own PySpark program that changes tables with the module `acid`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.job import JobSpec, ProgramSpec
from airflow_hiveacid.operators.declaration import Argument, declaration, setting
from airflow_hiveacid.operators.reporting.task_view import LONGEST_LABEL
from airflow_hiveacid.operators.row_change import HiveAcidRowChangeOperator
from airflow_hiveacid.plan import arguments

_WRITTEN = ("inserts", "changes", "overwrites")
_LISTS = ("reads", *_WRITTEN)

_Tables = Annotated[Sequence[str], setting(arguments.table_names)]


def _program_arguments(value: object, argument: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or None in value:
        raise ConfigurationError(f"{argument} must be a list without None, found {value!r}")
    return tuple(map(str, value))


class HiveAcidPySparkOperator(HiveAcidRowChangeOperator):
    """Run a PySpark program whose statements form one transaction.

    The program is a file that calls `acid.run` (`airflow_hiveacid.acid`). The program may access
    only the tables in the arguments below. All listed tables are locked before the program starts
    to read. List each table once, under the strongest access that the program needs. The arguments
    below are in order from the weakest to the strongest access.

    Args:
        application: path or URI of the program's file, as for `SparkSubmitOperator`.
        application_args: arguments for the program itself.
        reads: tables that the program only reads.
        inserts: tables that only receive inserts. An insert conflicts with no other transaction.
        changes: tables that the program may change with UPDATE, DELETE, MERGE or INSERT.
        overwrites: tables that the program may change in any way, also with an overwrite. No other
            transaction can read or write these tables until the program ends.
    """

    does = "Runs a PySpark program whose statements form one transaction."
    application: str

    @declaration
    def __init__(  # noqa: PLR0913 - each is a separate choice
        self,
        *,
        application: Annotated[str, Argument()],
        application_args: Annotated[
            Sequence[str], Argument(_program_arguments, field="arguments")
        ] = (),
        reads: _Tables = (),
        inserts: _Tables = (),
        changes: _Tables = (),
        overwrites: _Tables = (),
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(application=application, application_args=application_args, **kwargs)
        self.take_arguments(locals())
        lists = {name: getattr(self, name) for name in _LISTS}
        if all(map(arguments.is_settled, lists.values())):
            # `_tables` reads all four lists; the value is given only because a check needs one.
            self.early_checks.check(lambda *_: self._tables(), **{", ".join(_LISTS): inserts})

    def build_job(self) -> ProgramSpec:
        """Return the spec of the program that the rendered arguments describe."""
        return ProgramSpec(**self.job_arguments())

    def job_arguments(self) -> dict[str, Any]:
        """Return the fields of the program's spec, with the digest of its file."""
        return {**super().job_arguments(), **self._tables(), "digest": _digest(self.application)}

    @property
    def map_label(self) -> str:
        """The path of the program's file, and the program's arguments."""
        return " ".join(map(str, (self.application, *(self.application_args or ()))))[
            :LONGEST_LABEL
        ]

    def program_of(self, spec: JobSpec) -> tuple[str, Sequence[str]]:
        """Return the user's own program and its arguments."""
        if not isinstance(spec.job, ProgramSpec):
            raise TypeError(spec.kind)
        return spec.job.application, spec.job.arguments

    def _tables(self) -> dict[str, tuple[str, ...]]:
        lists: dict[str, tuple[str, ...]] = {name: self.value_of(name) for name in _LISTS}
        if not any(lists[name] for name in _WRITTEN):
            raise ConfigurationError(
                "no table is listed in inserts, changes or overwrites: list each table that the"
                " program writes. A program that only reads needs no such task; use `read_snapshot`"
            )
        list_of: dict[str, str] = {}
        for name, tables in lists.items():
            for table in tables:
                if table in list_of:
                    raise ConfigurationError(
                        f"{name} and {list_of[table]} both list {table}; list it once, under the"
                        " strongest access that the program needs"
                    )
                list_of[table] = name
        return lists


def _digest(application: str) -> str:
    """Return a digest of the program's source code; empty if the file cannot be read here."""
    try:
        content = Path(application).read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(content).hexdigest()[:16]
