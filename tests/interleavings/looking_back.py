"""Readers of the past: of what was changed since the beginning, and of how the table was then.

Either is told exactly, or refused by name; nothing in between.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.format.change_range import ChangeRange
from airflow_hiveacid.format.snapshot import Snapshot, ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.metastore.locks import TableAccess
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.storage.stores.listing import list_table
from airflow_hiveacid.versions.history import between
from airflow_hiveacid.versions.past import past_of
from tests.interleavings import stand_ins
from tests.interleavings.ground import Ground
from tests.interleavings.rows import Commit, Row, serial_states
from tests.interleavings.scene import REF, TAG
from tests.support.terms import job_terms

Rows = tuple[Row, ...]
if TYPE_CHECKING:
    Look = Callable[[MetastorePort, TableInfo, Snapshot], Rows]

_REFUSED = (errors.ChangesGoneError, errors.VersionGoneError, errors.VersionUnknownError)

REFUSED: Final = "refused"
LATE: Final = "late"
"""Refused as Hive refuses: a base that came since stands for what the reader sees of it."""


class LookingBack(Ground):
    """The part of the cast that reads the past."""

    @property
    def beginning(self) -> ids.WriteId:
        """The version before anybody acts."""
        return ids.WriteId(3 if self.scene.has_deletes else 2)

    def changes(self) -> object:
        """Read what was changed since the beginning, up to now."""

        def look(client: MetastorePort, table: TableInfo, snapshot: Snapshot) -> Rows:
            found = between(client, table, snapshot, self.beginning, None, taken_s=lambda: None)
            # Up to all that is committed, also above what is still open.
            part = ChangeRange(since=found.part.since, until=found.now)
            found = dataclasses.replace(found, part=part)
            rows = Counter(self.before)
            for info in client.list_partitions(table):
                for segment in found.segments(info, list_table(info.location)):
                    came, went = stand_ins.read_changes(info, segment)
                    rows.update(came)
                    rows.subtract(went)
            if min(rows.values(), default=0) < 0:
                self.world.fail(f"more rows went than there were: {rows}")
            return tuple(sorted(rows.elements()))

        rows, commits = self.look_in_transaction(look)
        if rows is not None and rows not in (wanted := serial_states(self.before, commits)):
            self.world.fail(f"changes make {rows}, not one of {sorted(wanted)}")
        return rows

    def past(self) -> object:
        """Read the table as it was at the beginning."""

        def look(client: MetastorePort, table: TableInfo, snapshot: Snapshot) -> Rows:
            return self._read(client, table, snapshot, VersionSpec(number=self.beginning))

        rows, _ = self.look_in_transaction(look)
        if rows is not None and rows != tuple(sorted(self.before)):
            self.world.fail(f"the past was {sorted(self.before)}, and is read as {rows}")
        return rows

    def tagged(self) -> object:
        """Read the table by the tag that its beginning has: a new snapshot is never refused."""
        actor = self.actor

        def look(client: MetastorePort, table: TableInfo, snapshot: Snapshot) -> Rows:
            return self._read(client, table, snapshot, VersionSpec(tag=TAG))

        rows, _ = self.look_in_transaction(look)
        if actor.step == LATE:
            actor.step = "again"
            rows, _ = self.look_in_transaction(look)
        if actor.step in {REFUSED, LATE}:
            self.world.fail(f"what tag {TAG} stands for is refused")
        if rows is not None and rows != tuple(sorted(self.before)):
            self.world.fail(f"tag {TAG} stands for {sorted(self.before)}, and is read as {rows}")
        return rows

    def _read(
        self, client: MetastorePort, table: TableInfo, snapshot: Snapshot, spec: VersionSpec
    ) -> Rows:
        past = past_of(client, table, spec, snapshot, taken_s=lambda: None)
        infos = client.list_partitions(table)
        states = past.states(infos, [list_table(info.location) for info in infos])
        found = stand_ins.read_rows(zip(infos, states, strict=True), past.then)
        return tuple(sorted(row for row, _ in found))

    def look_in_transaction(self, look: Look) -> tuple[Rows | None, tuple[Commit, ...]]:
        """What is found within a transaction, and what was committed then; None if refused."""
        client, actor = self.world.client(), self.actor
        table = client.get_table(REF)
        access = TableAccess(table=table, operations=frozenset({conflicts.DataOperation.SELECT}))
        rows: Rows | None = None
        error: errors.HiveAcidError | OSError | None = None
        terms = job_terms(None, lock_timeout_s=30.0, clock=self.world.clock)
        with begin(client, terms, reads=[access]) as txn:
            commits = self.commits_at(actor.saw)
            is_short = self.is_short(txn.snapshot.write_ids(REF), txn.snapshot.txns)
            try:
                rows = look(client, table, txn.snapshot)
            except _REFUSED:
                actor.step = REFUSED
            except errors.NotEnoughHistoryError:
                actor.step = LATE
            except (errors.HiveAcidError, OSError) as caught:
                if "injected" in str(caught) or "no answer" in str(caught):
                    raise
                error = caught
            txn.confirm_alive()
        # The transaction was open all the time.
        if error is not None:
            self.world.fail(f"a reader with an open transaction could not read: {error!r}")
        return None if is_short else rows, commits

    def is_short(self, write_ids: ValidWriteIdList, txns: ValidTxnList) -> bool:
        """Whether the metastore left committed write IDs out: what a reader misses then is its."""
        with self.world.unseen():
            whole = self.world.client().valid_write_ids([REF], txns)[REF]
        every = map(ids.WriteId, range(1, whole.high_watermark + 1))
        return any(whole.is_visible(w) and not write_ids.is_visible(w) for w in every)
