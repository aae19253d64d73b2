"""What readers of other engines find that began before the last write that a compaction took in."""

from __future__ import annotations

import pytest

from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.metastore.port import TxnType
from tests.judges.bare import BareReader
from tests.support.spark_lab import Lab

SCHEMA = "struct<id:bigint,v:bigint>"


@pytest.mark.judge
@pytest.mark.promise("C9")
def test_a_reader_for_which_the_last_write_was_open_ignores_the_new_base(
    lab4: Lab, bare_reader_4: BareReader
) -> None:
    """Hive 4 reads a base without a suffix if its write ID is the lowest open one."""
    lab4.table("t", {"id": "bigint", "v": "bigint"})
    lab4.insert("t", [(1, 1), (2, 2)], ["id", "v"])
    ref, seen = lab4.info("t").ref, list[tuple[str, str]]()
    reader = lab4.client.open_txn(TxnType.READ_ONLY)

    def look(step: str) -> None:
        if step == "staged" and not seen:
            txns = lab4.client.valid_txns()
            ids = lab4.client.valid_write_ids([ref], txns)[ref]
            assert (ids.high_watermark, ids.open) == (2, (2,))
            seen.append((ids.text(), txns.text()))

    lab4.update("t", {"v": "v * 10"}, "id = 1", on_step=look)

    def read() -> list[list[object]]:
        (ids, txns) = seen[0]
        found = [
            bare_reader_4.read(lab4.root("t"), ids, SCHEMA, txns=txns, vectorized=vectorized)
            for vectorized in (False, True)
        ]
        assert found[0] == found[1]
        return [list(row)[1:] for row in found[0]]

    assert read() == [[1, 1], [2, 2]]
    lab4.compact("t", CompactionChoice.MAJOR)
    assert read() == [[1, 1], [2, 2]]
    lab4.client.commit_txn(reader)
    assert lab4.rows("t") == [(1, 10), (2, 2)]
