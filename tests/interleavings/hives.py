"""What Hive does to a table: its worker, its cleaner, a reader that stays, a TRUNCATE of 3.1.

The worker and the cleaner are those of 4.0.1, against the fake's queue: the worker takes what is
asked for of no pool, hides its result until its commit, and marks its entry before it. The cleaner
takes an entry once no transaction is open that began before the compaction was committed
(CQ_NEXT_TXN_ID); one without that number passes its filter, too.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Final

from airflow_hiveacid.format import conflicts, errors, snapshot
from airflow_hiveacid.format.ids import TxnId, WriteId
from airflow_hiveacid.format.names import BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.metastore.compaction_queue import (
    ClaimedCompaction,
    CompactionEntry,
    CompactionState,
    CompactionType,
)
from airflow_hiveacid.metastore.port import MetastorePort, TxnState, TxnType
from airflow_hiveacid.metastore.transactions import compaction_work
from tests.interleavings import acting, disk, readers, scene, stand_ins
from tests.interleavings.rows import (
    BUCKET,
    Change,
    Commit,
    Event,
    events,
    merged_file,
    serial_states,
)


def _marks_behind_commit() -> bool:
    """Whether the product marks an entry as compacted when its transaction is committed."""
    text = inspect.getsource(compaction_work.compacting)
    return text.rindex("mark_compacted(") > text.rindex("CommitStateUnknownError")


NULL_PASSES: Final = _marks_behind_commit()
"""Whether the cleaner takes entries that are marked and not committed, as 4.0.1's does.

A product that marks before it commits does not bear that (docs/decisions/compaction-queue.md).
"""


class Hives(acting.Acting):
    """The part of the cast that is Hive's."""

    def linger(self) -> object:
        """A reader of Hive 4 whose transaction stays open until everybody else is through.

        It has no lock, so that it is in nobody's way; an open transaction protects what it reads.
        """
        client, txn_id, actor = self._foreign()
        txns = client.valid_txns()
        commits = self.commits_at(actor.saw)
        write_ids = client.valid_write_ids([scene.REF], txns.without(txn_id))[scene.REF]
        rows = self.hive4_rows(write_ids, txns)
        if not self.is_short(write_ids, txns) and rows not in serial_states(self.before, commits):
            self.world.fail(f"a reader of Hive 4 sees {rows} under {write_ids.text()}")
        actor.stays = True
        self.lingering[txn_id] = (write_ids, txns, rows)
        return rows

    def wipe(self) -> object:
        """TRUNCATE of Hive 3.1, in an encrypted zone: files go in place; hidden ones stay."""
        client, txn_id, actor = self._foreign()
        self._lock(client, txn_id, conflicts.LockType.EXCLUSIVE)
        actor.is_steady = True
        for p in self.scene.partitions:
            node = self.world.disk.find(self.place(p))
            assert isinstance(node, dict)
            for name in [name for name in node if not name.startswith(("_", "."))]:
                del node[name]
        change = Change("truncate", actor.name, self.scene.partitions)
        done = Commit(change, actor.snapshot, self.world.sequence)
        self.commits.append((f"wipe{actor.number}", done, True))
        self.world.sequence += 1
        self.world.is_dirty = True
        self.world.before_call("hive has truncated")
        client.commit_txn(txn_id)
        return None

    def hiveminor(self) -> object:
        """Somebody asks for minor compactions, and Hive's worker does them."""
        return self._serve(CompactionType.MINOR)

    def hivemajor(self) -> object:
        """The same of major ones."""
        return self._serve(CompactionType.MAJOR)

    def _serve(self, kind: CompactionType) -> object:
        client = self.world.client()
        for info in client.list_partitions(client.get_table(scene.REF)):
            client.request_compaction(scene.REF, info.name if info.name.columns else None, kind)
        while True:
            claim = client.find_next_compaction("a worker of Hive's", worker_version="4.0.1")
            if claim is None:
                return None
            self._work(client, claim)

    def _work(self, client: MetastorePort, claim: ClaimedCompaction) -> None:
        txn_id = client.open_txn(TxnType.COMPACTION)
        self.actor.foreign_txn = txn_id
        place = self.place("" if claim.partition is None else stand_ins.short(claim.partition))
        made: list[str] = []
        try:
            self._lock(client, txn_id, conflicts.LockType.SHARED_READ)
            txns = client.valid_txns()
            given = client.valid_write_ids([scene.REF], txns.without(txn_id))[scene.REF]
            ids = snapshot.CompactorWriteIdList.of(given)
            claim = dataclasses.replace(claim, highest_write_id=ids.high_watermark)
            client.update_compactor_state(claim, txn_id)
            self.world.before_call("hive lists")
            for name, content in self._result(place, claim, ids, txns, txn_id):
                made.append(f"{place}/{name}")
                self.world.before_call("hive writes")
                self.lay(f"{place}/{name}", content)
                self.world.is_dirty = True
            if made:
                client.mark_compacted(claim)
            else:
                client.mark_refused(dataclasses.replace(claim, error_message="not enough"))
            client.commit_txn(txn_id)
        except errors.HiveAcidError:
            if self.world.server.txns[txn_id].state is TxnState.COMMITTED:
                return  # the answer was lost
            self._give_up(client, claim, txn_id, made)

    def _give_up(
        self, client: MetastorePort, claim: ClaimedCompaction, txn_id: TxnId, made: list[str]
    ) -> None:
        for path in made:
            self._remove(path)
        try:
            client.abort_txn(txn_id)
            client.mark_failed(dataclasses.replace(claim, error_message="it failed"))
        except errors.HiveAcidError:
            pass

    def _result(
        self,
        place: str,
        claim: ClaimedCompaction,
        ids: snapshot.CompactorWriteIdList,
        txns: snapshot.ValidTxnList,
        txn_id: TxnId,
    ) -> list[tuple[str, bytes]]:
        """The directories of a worker (the MapReduce one), and what they hold; none if too few."""
        inserts, deletes = readers.hive_choice(readers.look(self.world.disk, place), ids, txns)
        names = [parse_directory_name(text) for text in (*inserts, *deletes)]
        deltas = [name for name in names if isinstance(name, DeltaName)]
        is_major = claim.compaction_type is CompactionType.MAJOR
        if len(deltas if not is_major else names) < 2 or not deltas:
            return []

        def read(chosen: tuple[str, ...]) -> list[Event]:
            found: list[Event] = []
            for name in chosen:
                file = self.world.disk.find(f"{place}/{name}/{BUCKET}")
                found += events(file.content) if isinstance(file, disk.File) else ()
            return [e for e in found if ids.is_visible(e[3])]  # type: ignore[arg-type]

        low, high = min(d.low for d in deltas), max(d.high for d in deltas)
        dead = read(deletes)
        if is_major:
            gone = {e[:3] for e in dead}
            rows = [e for e in read(inserts) if e[:3] not in gone]
            base = BaseName(write_id=high, visibility_txn_id=txn_id)
            return [(str(base), merged_file(rows))]
        of_deltas = tuple(text for text in inserts if not text.startswith("base"))
        name = DeltaName(low=low, high=high, visibility_txn_id=txn_id)
        result = [(str(name), merged_file(read(of_deltas)))]
        if dead:
            result.append((str(dataclasses.replace(name, is_delete=True)), merged_file(dead)))
        return result

    def hivecleaner(self) -> object:
        """Hive's cleaner of 4.x, once over the queue."""
        client = self.world.client()
        txns = client.valid_txns()
        watermark = txns.min_open or TxnId(txns.high_watermark + 1)
        ready: dict[object, CompactionEntry] = {}
        for entry in client.show_compactions(scene.REF):
            began = self.next_txn.get(entry.txn_id or TxnId(0))
            is_due = NULL_PASSES if began is None else began <= watermark
            if entry.state is CompactionState.READY_FOR_CLEANING and is_due:
                first = ready.setdefault(entry.partition, entry)
                if (entry.highest_write_id or 0) < (first.highest_write_id or 0):
                    ready[entry.partition] = entry
        for entry in ready.values():
            self._clean(client, entry, watermark)
        return len(ready)

    def _clean(self, client: MetastorePort, entry: CompactionEntry, watermark: TxnId) -> None:
        highest = entry.highest_write_id
        switch = client.get_table(scene.REF).parameters.get("no_cleanup", "")
        if switch.lower() == "true" or highest is None:
            return
        now = client.valid_txns()
        txns = snapshot.ValidTxnList(
            high_watermark=TxnId(watermark - 1),
            aborted=tuple(t for t in now.aborted if t < watermark),
        )
        ids = _up_to(client.valid_write_ids([scene.REF], txns)[scene.REF], highest)
        place = self.place("" if entry.partition is None else stand_ins.short(entry.partition))
        self.world.before_call("hive lists")
        state = readers.state_of(readers.look(self.world.disk, place), ids, txns)
        doomed = sorted(d.text for d in (*state.obsolete_directories, *state.aborted))
        if not all(self._remove(f"{place}/{name}") for name in doomed):
            return  # the entry stays, and is taken up again
        claim = ClaimedCompaction(
            entry_id=entry.entry_id or 0,
            table=scene.REF,
            partition=entry.partition,
            compaction_type=entry.compaction_type,
            highest_write_id=highest,
        )
        client.mark_cleaned(claim)

    def _remove(self, path: str) -> bool:
        """Remove a directory; tells whether it is gone."""
        try:
            self.world.disk.delete_dir(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


def _up_to(given: snapshot.ValidWriteIdList, highest: WriteId) -> snapshot.ValidWriteIdList:
    """A cleaner's list: all up to there is settled."""
    return snapshot.ValidWriteIdList(
        table=given.table,
        high_watermark=highest,
        aborted=tuple(w for w in given.aborted if w <= highest),
    )
