"""What others see while Hive's SQL changes rows: the old ones, and from the commit on the new."""

from __future__ import annotations

import threading
import time

import pytest

from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.support.spark_lab import Lab

Seen = frozenset[tuple[object, ...]]
_EVERY_S = 0.05

STATEMENTS = (
    "INSERT INTO t SELECT id + 10, name, p FROM t",
    "UPDATE t SET name = upper(name) WHERE id % 2 = 1",
    "DELETE FROM t WHERE id IN (2, 12)",
    """
    MERGE INTO t USING (SELECT id, name, p FROM t WHERE p = 1) AS s ON t.id = s.id AND t.p = 1
    WHEN MATCHED AND s.id > 10 THEN DELETE
    WHEN MATCHED THEN UPDATE SET name = 'merged'
    WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, s.p)
    """,
    "INSERT OVERWRITE TABLE t PARTITION (p) SELECT id, 'over', p FROM t",
)


class Poller(threading.Thread):
    """Reads all of a table every 50 ms, each time as it is then. `seen` grows by one a read."""

    def __init__(self, lab: Lab, table: str) -> None:
        super().__init__(daemon=True)
        self.seen: list[Seen] = []
        self.error: BaseException | None = None
        self._lab, self._ref = lab, TableRef(lab.db, table)
        self._stop_asked = threading.Event()

    def run(self) -> None:
        try:
            with connect(self._lab.endpoint) as client:
                while not self._stop_asked.wait(_EVERY_S):
                    self.seen.append(self._read(client))
        except BaseException as error:  # noqa: BLE001 - told by `look`
            self.error = error

    def look(self) -> Seen:
        """What a read says that begins after this call."""
        wanted = len(self.seen) + 2
        while len(self.seen) < wanted:
            assert self.error is None, self.error
            time.sleep(_EVERY_S / 5)
        return self.seen[wanted - 1]

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()

    def _read(self, client: MetastorePort) -> Seen:
        table = client.get_table(self._ref)
        txns = client.valid_txns()
        write_ids = client.valid_write_ids([self._ref], txns)[self._ref]
        found = []
        for place in client.list_partitions(table):
            for batch in scan(place.location, table.columns, write_ids, txns):
                rows = batch.to_pylist()
                found += [(row["id"], row["name"], *place.name.values) for row in rows]
        assert len(set(found)) == len(found)
        return frozenset(found)


@pytest.mark.promise("W0")
@pytest.mark.promise("O1")
def test_readers_see_the_old_rows_until_the_commit_and_all_new_rows_after_it(lab4: Lab) -> None:
    lab4.table("t", {"id": "int", "name": "string"}, partition={"p": "int"})
    lab4.insert("t", [(i, f"n{i}", i % 3) for i in range(9)], ["id", "name", "p"])
    poller = Poller(lab4, "t")
    poller.start()
    try:
        for statement in STATEMENTS:
            before, at = poller.look(), len(poller.seen) - 1
            steps: dict[str, Seen] = {}

            def look(step: str, steps: dict[str, Seen] = steps) -> None:
                steps[step] = poller.look()

            lab4.script(statement, on_step=look)
            after = poller.look()
            assert after != before, statement
            order = list(steps)
            assert {"staged", "published"} < set(order), order
            early = order[: order.index("committed")] if "committed" in order else order
            assert all(steps[step] == before for step in early), statement
            assert set(poller.seen[at:]) == {before, after}, statement
    finally:
        poller.stop()
    assert poller.error is None
    assert {name for _, name, _ in after} == {"over"}
