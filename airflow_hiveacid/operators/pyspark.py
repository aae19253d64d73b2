"""The operator for PySpark programs of the user's own, which change tables through `spark.acid`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_hiveacid.format.errors import ConfigurationError
from airflow_hiveacid.jobs.specs import ProgramSpec
from airflow_hiveacid.operators.change import HiveAcidChangeOperator
from airflow_hiveacid.plan import arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hiveacid.jobs.specs import JobSpec

_WRITTEN = ("inserts", "changes", "overwrites")
_LISTS = ("reads", *_WRITTEN)


class HiveAcidPySparkOperator(HiveAcidChangeOperator):
    """Run a PySpark program whose statements are one transaction.

    The program is a file that calls `acid.run` (`airflow_hiveacid.spark.acid`). It may touch the
    tables that are named here and no others: they are locked before it reads the first one. Name a
    table once, by the most that is done to it.

    Args:
        application: the program's file, as for `SparkSubmitOperator`.
        application_args: arguments for the program itself.
        reads: tables that are read only.
        inserts: tables that rows are inserted into, and nothing else: nobody conflicts with that.
        changes: tables whose rows are changed: UPDATE, DELETE, MERGE, and INSERT.
        overwrites: tables that may be overwritten, or changed otherwise: nobody else reads or
            writes them meanwhile.
    """

    template_fields: Sequence[str] = (*HiveAcidChangeOperator.template_fields, *_LISTS)

    def __init__(  # noqa: PLR0913 - every one is a choice of its own
        self,
        *,
        application: str,
        application_args: Sequence[str] = (),
        reads: Sequence[str] = (),
        inserts: Sequence[str] = (),
        changes: Sequence[str] = (),
        overwrites: Sequence[str] = (),
        **kwargs: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(application=application, application_args=list(application_args), **kwargs)
        self.reads = reads
        self.inserts = inserts
        self.changes = changes
        self.overwrites = overwrites
        early = arguments.EarlyChecks(self.task_id)
        given = {name: getattr(self, name) for name in _LISTS}
        early.check(arguments.table_names, **given)
        if all(map(arguments.is_settled, given.values())):
            early.check(lambda *_: self._tables(), **{", ".join(_LISTS): inserts})

    def build_job(self) -> ProgramSpec:
        """The program that the rendered arguments describe."""
        return ProgramSpec(
            application=self.application,
            arguments=tuple(map(str, self.application_args or ())),
            digest=_digest(self.application),
            **self._tables(),
        )

    def program_of(self, spec: JobSpec) -> tuple[str, Sequence[str]]:
        """The user's own file, with its arguments."""
        if not isinstance(spec.job, ProgramSpec):
            raise TypeError(spec.kind)
        return spec.job.application, spec.job.arguments

    def _tables(self) -> dict[str, tuple[str, ...]]:
        found = {name: arguments.table_names(getattr(self, name), name) for name in _LISTS}
        if not any(found[name] for name in _WRITTEN):
            raise ConfigurationError(
                "the program may write no table: name those that it writes in inserts, changes or"
                " overwrites. One that only reads needs no such task (`read_snapshot`)"
            )
        seen: dict[str, str] = {}
        for name, tables in found.items():
            for table in tables:
                if table in seen:
                    raise ConfigurationError(
                        f"{name} and {seen[table]} both name {table}; name it once, by the most"
                        " that is done to it"
                    )
                seen[table] = name
        return found


def _digest(application: str) -> str:
    """What stands for the program's text, if it is a file of this machine."""
    try:
        content = Path(application).read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(content).hexdigest()[:16]
