"""What is known about a statement before it starts, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs.statements import TruncateSpec
from airflow_hiveacid.spark.statements import planned
from tests.contract.fake_client import FakeClient
from tests.support.tables import id_table


@pytest.mark.promise("W9")
@pytest.mark.parametrize("spelled", [("p=1",), ("p=01", "p=1")])
def test_a_truncation_is_fixed_to_a_partition_only_if_exactly_one_has_the_values(
    client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelled: tuple[str, ...]
) -> None:
    """Otherwise an INSERT into the other one would not conflict, and the base would hide it."""
    table = id_table(client, "parts", tmp_path / "parts", by="p int")
    names = tuple(map(PartitionName.parse, spelled))
    client.add_partitions(table, names)
    monkeypatch.setattr(planned, "partitions_with", lambda _spark, _table, names, _wanted: names)
    job: Any = SimpleNamespace(client=client, spark=None, insertable_table=lambda _: table)
    change = planned.planned_one(job, TruncateSpec(target="default.parts", partition={"p": "1"}))
    assert change.fixed == (names if len(names) == 1 else None)
    assert change.step.partition == (names[0] if len(names) == 1 else None)
    assert change.partitions().names == names
