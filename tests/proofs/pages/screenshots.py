"""The pictures of the pages in docs/operations: tables of a local metastore, as a user sees them.

    python -m tests.proofs.pages.screenshots

The tables are changed and compacted without Spark. Between the changes, the shipped DAG collects
their numbers.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pyarrow as pa

from airflow_hiveacid import acid
from airflow_hiveacid.format.table import Column, TableRef
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.compaction_queue import CompactionType
from tests.proofs.pages.browser import chromium, looking, open_list, open_table
from tests.proofs.pages.server import ROOT, Airflow, Auth
from tests.proofs.programs import end_orderly, metastore

if TYPE_CHECKING:
    from airflow_hiveacid.local.server import LocalMetastore

_PICTURES: Final = ROOT / "docs" / "operations"
_COLUMNS: Final = (
    Column(name="id", type="bigint"),
    Column(name="customer", type="string"),
    Column(name="amount", type="decimal(10,2)"),
)
# Rows of the first write, number of later upserts and their rows.
_SIZES: Final = {
    "sales.orders": (20_000, 12, 400),
    "sales.customers": (4_000, 5, 500),
    "sales.returns": (3_000, 11, 40),
    "finance.ledger": (6_000, 2, 100),
    "finance.audit": (5_000, 4, 900),
    "web.visits": (30_000, 3, 100),
}
_HELD: Final = "finance.ledger"
"""The table whose old files a forgotten notebook needs."""

_QUEUED: Final = TableRef.parse("sales.returns")
_PAUSED: Final = TableRef.parse("finance.audit")
_PICTURED: Final = "sales.orders"
_COMPACTED_AFTER: Final = (4, 9)
"""The upserts after which `sales.orders` is compacted."""


def main() -> int:
    """Make the tables and the pictures, and return the exit status."""
    end_orderly()
    with (
        tempfile.TemporaryDirectory(prefix="hiveacid-screenshots-") as folder,
        metastore(Path(folder)) as server,
        chromium() as browser,
    ):
        airflow = Airflow(Path(folder) / "airflow", Auth.SIMPLE, urlsplit(server.uri).port)
        airflow.prepare()
        with _tables(server, airflow), airflow.serving():
            with looking(browser, airflow, "admin", height=560) as page:
                open_list(page, airflow)
                page.screenshot(path=_PICTURES / "pages-tables.png")
            with looking(browser, airflow, "admin", is_dark=True, height=820) as page:
                open_table(page, airflow, _PICTURED)
                page.screenshot(path=_PICTURES / "pages-table.png")
    print(f"pages-tables.png and pages-table.png are in {_PICTURES}")
    return 0


@contextmanager
def _tables(server: LocalMetastore, airflow: Airflow) -> Iterator[None]:
    """Make tables in every state that matters, with collections between their changes."""
    endpoint = acid.Metastore(uris=(server.uri,))
    with ExitStack() as stack:
        client = stack.enter_context(connect(endpoint))
        lake = stack.enter_context(acid.connect(endpoint))
        reader = stack.enter_context(acid.connect(endpoint))
        for db in sorted({TableRef.parse(name).db for name in _SIZES}):
            client.create_database(db)
        for name, (rows, _, _) in _SIZES.items():
            client.create_table(NewTable(ref=TableRef.parse(name), columns=_COLUMNS))
            lake.table(name).append(_rows(range(rows)))
            lake.table(name).compact("major")
            lake.table(name).clean()
        held = reader.table(_HELD)
        held.scan(["id"]).to_arrow()
        client.set_table_parameters(_PAUSED, {"no_auto_compaction": "true"})
        for number in range(max(upserts for _, upserts, _ in _SIZES.values())):
            for name, (rows, upserts, changed) in _SIZES.items():
                if number < upserts:
                    ids = random.Random(f"{name} {number}").sample(range(rows), changed)
                    lake.table(name).upsert(_rows(ids), keys=["id"])
            if number in _COMPACTED_AFTER:
                lake.table(_PICTURED).compact("major")
                lake.table(_PICTURED).clean()
            airflow.collect()
        lake.table(_HELD).compact("major")
        client.request_compaction(_QUEUED, None, CompactionType.MAJOR)
        airflow.collect()
        yield
        held.close()


def _rows(ids: Sequence[int]) -> pa.Table:
    """Rows with these IDs; their other values are random, so that files have a realistic size."""
    values = random.Random(str(ids))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "customer": [f"{values.getrandbits(64):016x}" for _ in ids],
            "amount": pa.array([values.randrange(10_000) for _ in ids], pa.int64()),
        }
    )


if __name__ == "__main__":
    sys.exit(main())
