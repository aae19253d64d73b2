"""A table's constraints over Thrift: DEFAULT, NOT NULL, CHECK and the primary key.

The server does not enforce the constraints. Hive's clients enforce constraints when they write. The
stubs of hmsclient can read primary keys of 3.1 and 4.x, since we need only the column names.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from airflow_hiveacid.format.conflicts import MetastoreGeneration
from airflow_hiveacid.format.errors import MetastoreVersionError
from airflow_hiveacid.format.table import Constraints, TableRef
from airflow_hiveacid.metastore.client.connection import Connection, Repeat
from airflow_hiveacid.metastore.gen.constraints.ttypes import (
    AllTableConstraintsRequest,
    CheckConstraintsRequest,
    DefaultConstraintsRequest,
    NotNullConstraintsRequest,
)
from airflow_hiveacid.metastore.wire import Struct

_CATALOG: Final = "hive"


class ConstraintCalls:
    """A mixin of `MetastoreClient`; the client provides the connection."""

    _connection: Connection

    def constraints(self, ref: TableRef) -> Constraints:
        if self._connection.generation is MetastoreGeneration.V4:
            request = AllTableConstraintsRequest(dbName=ref.db, tblName=ref.name, catName=_CATALOG)
            with suppress(MetastoreVersionError):
                every = self._ask("get_all_table_constraints", request).allTableConstraints
                return _of(
                    every.notNullConstraints or (),
                    every.defaultConstraints or (),
                    every.checkConstraints or (),
                )
        names = {"catName": _CATALOG, "db_name": ref.db, "tbl_name": ref.name}
        return _of(
            self._ask(
                "get_not_null_constraints", NotNullConstraintsRequest(**names)
            ).notNullConstraints,
            self._ask(
                "get_default_constraints", DefaultConstraintsRequest(**names)
            ).defaultConstraints,
            self._ask("get_check_constraints", CheckConstraintsRequest(**names)).checkConstraints,
        )

    def primary_key(self, ref: TableRef) -> tuple[str, ...]:
        from hmsclient.genthrift.hive_metastore import ttypes  # noqa: PLC0415 -- a megabyte of stubs

        request = ttypes.PrimaryKeysRequest(db_name=ref.db, tbl_name=ref.name)
        answer = self._connection.catalog_call("get_primary_keys", request, repeat=Repeat.SAFE)
        columns = sorted(answer.primaryKeys or (), key=lambda column: column.key_seq)
        return tuple(column.column_name.lower() for column in columns)

    def _ask(self, method: str, request: object) -> Any:  # noqa: ANN401 - generated code has no types
        return self._connection.call(method, request, repeat=Repeat.SAFE)


def _of(
    not_null: Sequence[Struct], defaults: Sequence[Struct], checks: Sequence[Struct]
) -> Constraints:
    """Return the enabled constraints; the flags VALIDATE and RELY are ignored."""
    return Constraints(
        not_null={c.column_name.lower(): c.nn_name for c in not_null if c.enable_cstr},
        defaults={c.column_name.lower(): c.default_value for c in defaults if c.enable_cstr},
        checks={c.dc_name: c.check_expression for c in checks if c.enable_cstr},
    )
