"""A table of one column, as most tests with a fake metastore need one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from tests.contract.fake_client import FakeClient


def id_table(
    client: FakeClient,
    ref: TableRef | str,
    place: Path | None = None,
    by: str = "",
    **others: Any,  # noqa: ANN401 - the fields of NewTable
) -> TableInfo:
    """Create a table with a column `id`; `by` are partition columns: `year int, day string`."""
    pairs = [column.split(" ") for column in by.split(", ") if column]
    return client.create_table(
        NewTable(
            ref=ref if isinstance(ref, TableRef) else TableRef("default", ref),
            columns=(Column(name="id", type="bigint"),),
            partition_columns=tuple(Column(name=name, type=type_) for name, type_ in pairs),
            location=None if place is None else f"file:{place}",
            **others,
        )
    )
