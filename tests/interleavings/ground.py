"""The table that actors meet on, and what has been committed to it.

It begins with two seeds a partition, of which changes are about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_hiveacid.format import ids, snapshot, table
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.metastore.port import TxnState, TxnType
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.versions.keeping import make_tag
from tests.interleavings import readers
from tests.interleavings.rows import (
    BUCKET,
    DOOMED,
    MATCHED,
    PROPERTY,
    Commit,
    Row,
    Rows,
    delete_file,
    insert_file,
)
from tests.interleavings.scene import FOREIGN, LOCATION, REF, ROOT, TAG, Job, Scene
from tests.interleavings.world import Actor, Schedule, World

Everywhere = tuple[tuple[str, readers.Found], ...]
"""What lies in each partition."""

Lingering = tuple[snapshot.ValidWriteIdList, snapshot.ValidTxnList, tuple[Any, ...]]
"""The snapshot of a reader that stays, and the rows that it sees."""


class Ground:
    """One table in one world. Mutable."""

    def __init__(self, scene: Scene, schedule: Schedule) -> None:
        self.scene = scene
        self.world = World(
            scene.generation, schedule, is_hdfs=scene.is_hdfs, is_native=scene.is_native
        )
        self.jobs: dict[int, Job] = {}
        self.commits: list[tuple[str, Commit, bool]] = []
        self.before: Rows = frozenset()
        self.incarnation = 0
        self.partition_names: dict[str, table.PartitionName] = {
            p: table.PartitionName(("p",), (p,)) if p else table.PartitionName()
            for p in scene.partitions
        }
        self.looked: tuple[Any, ...] = ()
        self.lingering: dict[ids.TxnId, Lingering] = {}
        self.next_txn: dict[ids.TxnId, ids.TxnId] = {}
        self.is_clean = False
        self.is_killed = False
        self.strangers: set[str] = set()

    def prepare(self) -> None:
        """Make the table, and lay out what is there before anybody acts."""
        self.make_table()
        for number, key in enumerate((DOOMED, MATCHED), 1):
            self._seed(number, key)
        if self.scene.has_deletes:
            self._past_txn(3)
        for p in self.scene.partitions:
            self._lay_out(p)
        for path in FOREIGN:
            self.world.disk.put(path, b"not ours")
        if self.scene.has_tag:
            client = self.world.client()
            make_tag(client, client.get_table(REF), TAG, VersionSpec())
        keys = [MATCHED] if self.scene.has_deletes else [DOOMED, MATCHED]
        self.before = frozenset((p, k, "old") for p in self.scene.partitions for k in keys)

    def _lay_out(self, partition: str) -> None:
        if self.scene.has_base:
            self._lay_base(partition)
        if self.scene.has_deletes:
            self._lay_deletes(partition)
        if self.scene.has_strangers:
            self._lay_strangers(partition)

    def _lay_base(self, partition: str) -> None:
        """One base instead of the seeds' two deltas."""
        node = self.world.disk.find(self.place(partition))
        assert isinstance(node, dict)
        node.clear()
        content = insert_file([(partition, DOOMED, "old"), (partition, MATCHED, "old")], 2)
        self.lay(f"{self.place(partition)}/base_0000002", content)

    def _lay_deletes(self, partition: str) -> None:
        """The first seed is deleted."""
        deleted = (2 if self.scene.has_base else 1, PROPERTY, 0)
        place = f"{self.place(partition)}/delete_delta_0000003_0000003_0000"
        self.lay(place, delete_file([deleted], 3))

    def _lay_strangers(self, partition: str) -> None:
        """Write IDs have begun anew over the files of a metastore that was restored."""
        for name in ("delta_0000003_0000003_0000", "delete_delta_0000003_0000003_0000"):
            self.strangers.add(f"{self.place(partition)}/{name}")
            self.lay(f"{self.place(partition)}/{name}", b"[]")

    def lay(self, place: str, content: bytes) -> None:
        """Make a directory of one data file."""
        self.world.disk.put(f"{place}/{BUCKET}", content)
        self.world.disk.put(f"{place}/_orc_acid_version", b"2")

    def make_table(self) -> None:
        server = self.world.server
        self.incarnation += 1
        parameters = {"transactional": "true", "transactional_properties": "default"}
        if self.scene.only_hive_4:
            parameters[ONLY_HIVE_4_READS] = "true"
        server.put_table(
            table.TableInfo(
                ref=REF,
                location=LOCATION,
                columns=(table.Column(name="id", type="string"),),
                partition_columns=(
                    (table.Column(name="p", type="string"),) if self.scene.is_partitioned else ()
                ),
                kind=table.TransactionalKind.FULL_ACID,
                parameters=parameters,
                table_id=f"{self.incarnation}.0",
            )
        )

    def place(self, partition: str) -> str:
        return f"{ROOT}/p={partition}" if partition else ROOT

    def _past_txn(self, write_id: int) -> ids.TxnId:
        server = self.world.server
        txn_id = server.open("past", TxnType.DEFAULT)
        server.write_ids.setdefault(REF, {})[txn_id] = ids.WriteId(write_id)
        server.next_write_id[REF] = ids.WriteId(write_id + 1)
        server.end(server.txns[txn_id], TxnState.COMMITTED)
        return txn_id

    def _seed(self, write_id: int, key: str) -> None:
        self._past_txn(write_id)
        for p in self.scene.partitions:
            if p:
                self.world.server.partitions[REF].setdefault(self.partition_names[p], {})
            content = insert_file([(p, key, "old")], write_id)
            self.lay(f"{self.place(p)}/delta_{write_id:07d}_{write_id:07d}_0000", content)

    def hive4_rows(
        self, write_ids: snapshot.ValidWriteIdList, txns: snapshot.ValidTxnList
    ) -> tuple[Any, ...]:
        """What a reader of 4.0.1 with this snapshot reads now."""
        rows: list[Row] = []
        for p, found in self.everywhere():
            choice = readers.hive4_choice(found, write_ids, txns)
            place = self.place(p)
            rows += [r for r, _ in readers.rows_of(self.world.disk, place, p, choice, write_ids)]
        return tuple(sorted(rows))

    @property
    def actor(self) -> Actor:
        """Who acts now."""
        assert self.world.speaker is not None
        return self.world.speaker

    def snapshot_now(self) -> tuple[snapshot.ValidWriteIdList, snapshot.ValidTxnList]:
        """The snapshot of a reader that begins now."""
        client = self.world.client()
        with self.world.unseen():
            txns = client.valid_txns()
            return client.valid_write_ids([REF], txns)[REF], txns

    def everywhere(self) -> Everywhere:
        """What lies in each partition."""
        return tuple(
            (p, readers.look(self.world.disk, self.place(p))) for p in self.scene.partitions
        )

    def commits_at(self, sequence: int) -> tuple[Commit, ...]:
        return tuple(c for _, c, _ in self.commits if c.at < sequence)

    def names_on_disk(self, partition: str) -> list[Any]:
        node = self.world.disk.find(self.place(partition))
        names = node if isinstance(node, dict) else {}
        return [n for text in names if (n := parse_directory_name(text)) is not None]


def is_own(name: BaseName | DeltaName, write_id: int) -> bool:
    if isinstance(name, BaseName):
        return name.write_id == write_id
    return name.low == name.high == write_id and name.statement_id is not None


def leftovers(node: object, path: str) -> Iterator[str]:
    if isinstance(node, dict):
        for name, child in node.items():
            if name.startswith("_tmp_"):
                yield f"{path}/{name}"
            elif name not in ("_foreign", "_hiveacid"):
                yield from leftovers(child, f"{path}/{name}")
