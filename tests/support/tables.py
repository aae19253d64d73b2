"""Tables of tests: of one column in a fake metastore, and of any columns without a metastore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from tests.contract.fake_client import FakeClient
from tests.support.column_lists import columns_of


def id_table(
    client: FakeClient,
    ref: TableRef | str,
    place: Path | None = None,
    by: str = "",
    **others: Any,  # noqa: ANN401 - the fields of NewTable
) -> TableInfo:
    """Create a table with a column `id`; `by` are partition columns: `year int, day string`."""
    return client.create_table(
        NewTable(
            ref=ref if isinstance(ref, TableRef) else TableRef("default", ref),
            columns=(Column(name="id", type="bigint"),),
            partition_columns=_columns(by),
            location=None if place is None else f"file:{place}",
            **others,
        )
    )


def table_of(columns: str, by: str = "", **others: Any) -> TableInfo:  # noqa: ANN401 - its fields
    """Return a table `d.t` of columns such as `id int, v string`, by default below `/d/t`."""
    others = {"ref": TableRef("d", "t"), "location": "file:/d/t", **others}
    return TableInfo(columns=_columns(columns), partition_columns=_columns(by), **others)


def _columns(text: str) -> tuple[Column, ...]:
    pairs = columns_of(text) if text else {}
    return tuple(Column(name=name, type=type_) for name, type_ in pairs.items())
