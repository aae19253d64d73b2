"""The final rows of the tables as Hive's own reader finds them, as an independent judge.

It requires the tests' judges on the path; `make campaign` puts them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.port import MetastorePort
from tests.judges.bare import BareReader
from tests.proofs.campaign.plans import Table
from tests.proofs.campaign.polls import Row

_SCHEMA: Final = "struct<id:bigint,v:bigint,job:string>"
_READERS: Final[Mapping[str, Literal["4.0.1", "3.1.3"]]] = {"4": "4.0.1", "3": "3.1.3"}
"""The release whose reader runs here, by the major version of the metastore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveOptions:
    """The reader's needs for the tables' store: settings of Hadoop, and jars."""

    settings: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[Path, ...] = ()


def rows_by_hive(
    version: str, endpoint: MetastoreEndpoint, db: str, options: HiveOptions
) -> dict[Table, list[Row]]:
    """Return both tables' rows now, sorted, as the reader of Hive's major version finds them."""
    started = BareReader(_READERS[version[0]], settings=options.settings, jars=options.jars)
    with connect(endpoint) as client, started as reader:
        found = {}
        for table in Table:
            info = client.get_table(TableRef(db, table.value))
            txns = client.valid_txns()
            write_ids = client.valid_write_ids([info.ref], txns)[info.ref]
            found[table] = sorted(_read(reader, client, info, write_ids, txns))
        return found


def _read(
    reader: BareReader,
    client: MetastorePort,
    table: TableInfo,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
) -> list[Row]:
    rows: list[Row] = []
    for partition in client.list_partitions(table):
        values = tuple(int(value or 0) for value in partition.name.values)
        found = reader.read(
            partition.location,
            write_ids.text(),
            _SCHEMA,
            txns=txns.text(),
            buckets=table.num_buckets or -1,
        )
        rows += [(*row[1:], *values) for row in found]
    return rows
