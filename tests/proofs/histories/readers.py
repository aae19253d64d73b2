"""The readers of a world: each returns the value of each row by its row ID.

Example:
    arrow(world) == world.expected()
    # True
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from airflow_hiveacid.format import table
from airflow_hiveacid.spark.reading.target import Target
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.judges.bare import BareReader
from tests.proofs.histories.world import COLUMNS, Identity, World, text_of

_SCHEMA = f"struct<{','.join(f'{c.name}:{c.type}' for c in COLUMNS)}>"


def arrow(world: World) -> dict[Identity, int]:
    """Read with our own reader."""
    batches = scan(str(world.root), COLUMNS, world.write_ids, world.txns, with_identity=True)
    rows = (tuple(row.values()) for batch in batches for row in batch.to_pylist())
    return _checked((tuple(identity.values()), v, s) for identity, v, s in rows)


def hive(reader: BareReader, world: World, *, vectorized: bool) -> dict[Identity, int]:
    rows: list[list[Any]] = reader.read(
        world.root,
        world.write_ids.text(),
        _SCHEMA,
        txns=world.txns.text(),
        vectorized=vectorized,
    )
    return _checked(((i["writeid"], i["bucketid"], i["rowid"]), v, s) for i, v, s in rows)


def spark(session: SparkSession, world: World) -> list[int]:
    """Read values in order, with Spark's reader where it is trusted, and with ours otherwise."""
    target = Target(
        spark=session,
        table=table.TableInfo(
            ref=table.TableRef("d", "t"),
            location=f"file:{world.root}",
            columns=COLUMNS,
            partition_columns=(),
            kind=table.TransactionalKind.FULL_ACID,
        ),
        write_ids=world.write_ids,
        txns=world.txns,
        partitions=(
            table.PartitionInfo(name=table.PartitionName(), location=f"file:{world.root}"),
        ),
    )
    rows = [(row["v"], row["v"], row["s"]) for row in target.rows().collect()]
    return sorted(_checked(rows))


def _checked(rows: Iterable[tuple[Any, int, str | None]]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for key, value, text in rows:
        if key in found or text != text_of(value):
            raise AssertionError(f"{key} twice, or with the text of another row: {value} {text}")
        found[key] = value
    return found


def difference(found: Mapping[Any, int], expected: Mapping[Any, int]) -> str:
    """Describe the difference between two answers."""
    missing = {k: v for k, v in expected.items() if found.get(k) != v}
    more = {k: v for k, v in found.items() if expected.get(k) != v}
    return f"missing {missing}, not expected {more}"
