"""What has to be right at every border: rows, and who may remove or publish what."""

from __future__ import annotations

from typing import Any

from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.ids import LockId, TxnId
from airflow_hiveacid.format.names import STAGING_PREFIX, BaseName, DeltaName, parse_directory_name
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.metastore.port import TxnState, TxnType
from tests.contract.fake_metastore import Lock, Txn
from tests.interleavings import readers
from tests.interleavings.ground import Everywhere, Ground, is_own
from tests.interleavings.rows import Change, Commit, serial_states
from tests.interleavings.scene import REF
from tests.interleavings.world import Actor

_AT_WORK = ("opened", "locked", "fenced", "snapshot")
"""Steps of a compaction that has not staged its result yet."""


class Watching(Ground):
    """The observers. They meet no border."""

    def ended(self, txn: Txn) -> None:
        owner = self.world.owners.get(txn.txn_id)
        if txn.state is not TxnState.COMMITTED:
            self._aborted(owner)
            return
        self._check_not_killed(owner)
        if txn.txn_type is TxnType.COMPACTION:
            self.next_txn[txn.txn_id] = TxnId(len(self.world.server.txns) + 1)
            if owner is not None:
                self._compacted(owner)
            return
        write_id = self.world.server.write_ids.get(REF, {}).get(txn.txn_id)
        if owner is None or write_id is None:
            return
        if txn.txn_id not in self.world.server.has_locked:
            return  # empty, for the sake of its author's snapshot
        at = self.world.sequence - 1
        job = self.jobs.get(owner.number)
        if job is None:
            change = Change("truncate", owner.name, self.scene.partitions)
            self.commits.append(
                (f"truncate{owner.number}", Commit(change, owner.snapshot, at), True)
            )
            return
        has_data = any(
            is_own(name, write_id) for p in self.scene.partitions for name in self.names_on_disk(p)
        )
        doing = f"{job.doing}@{self.incarnation}"
        if has_data and any(d == doing and full for d, _, full in self.commits):
            self.world.fail(f"{doing} was committed twice")
        self.commits.append((doing, Commit(job.change, owner.snapshot, at), has_data))

    def _check_not_killed(self, owner: Actor | None) -> None:
        """Whoever was found by an order to kill does not commit behind it."""
        if self.is_killed and owner is self.world.actors[min(self.jobs)]:
            self.world.fail(f"{owner} was killed, and has committed")

    def _aborted(self, owner: Actor | None) -> None:
        """A late order to kill is about its own try and earlier ones."""
        speaker = self.world.current
        job = None if owner is None else self.jobs.get(owner.number)
        if speaker is None or speaker.name != "kill" or job is None:
            return
        first = self.jobs[min(self.jobs)]
        if job.attempt.try_number >= first.attempt.try_number and job is not first:
            self.world.fail(f"the order to kill {first.attempt} ended {owner}")

    def _compacted(self, owner: Actor) -> None:
        """No result of the same range is beside a new one, if its maker was dead before."""
        write_ids, txns = self.snapshot_now()
        for _, found in self.everywhere():
            choice = readers.hive_choice(found, write_ids, txns)
            left = {
                name
                for name, txn_id in readers.siblings(found, choice).items()
                if (maker := self.world.owners.get(txn_id)) is not None
                and maker.is_over
                and maker.ended < owner.worked
            }
            if left:
                self.world.fail(f"a compaction was committed beside {sorted(left)}")

    def publishing(self, paths: str) -> None:
        """Whoever publishes has asked after its work whether it still counts."""
        actor = self.world.current
        assert actor is not None
        token = paths.partition(STAGING_PREFIX)[2].partition("-")[0]
        if token.isdigit():
            txn = self.world.server.txns[TxnId(int(token))]
            ended_at = self.world.ended_at.get(txn.txn_id, actor.worked)
            if txn.state is not TxnState.OPEN and ended_at < actor.worked:
                self.world.fail(f"{actor} publishes {paths} although {txn.txn_id} was over")
            elif txn.state is not TxnState.OPEN and self._is_truncated_since(actor):
                self.world.abandon()

    def _is_truncated_since(self, actor: Actor) -> bool:
        """True if a compaction froze before its rename, and Hive 3.1 has truncated in place.

        Nothing replaces its result then. docs/evidence/reliability.md says that this is assumed
        not to happen.
        """
        if actor.name not in ("minor", "major") or "wipe" not in self.scene.cast:
            return False
        return any(c.change.name == "wipe" and c.at >= actor.saw for _, c, _ in self.commits)

    def waiting(self, lock: Lock) -> None:
        """Nobody waits for a compaction of ours that is still at work."""
        held = self.world.server.locks.get(lock.blocked_by or LockId(0))
        if held is None or all(c.table != REF for c in held.request.components):
            return
        owner = self.world.owners[held.request.txn_id]
        if owner is not None and owner.name in ("minor", "major") and owner.step in _AT_WORK:
            self.world.fail(f"{self.world.speaker} waits for {owner}, which is at work")

    def observe(self) -> None:
        """What readers that begin now see, has to be what some serial order gives."""
        server = self.world.server
        if REF not in server.tables or self.world.is_abandoned:
            return
        write_ids, txns = self.snapshot_now()
        commits = tuple(c for _, c, _ in self.commits)
        found = self.everywhere()
        looked = (found, write_ids, txns, commits)
        if looked == self.looked:
            return
        self.looked = looked
        self._look_with_those_who_stay()
        allowed = serial_states(self.before, commits)
        hive = self._rows("hive", found, write_ids, txns)
        if hive is not None and hive not in allowed:
            self.world.fail(
                f"Hive reads {hive}, not one of {sorted(allowed)}: {_told(found)} {commits}"
            )
        if self.scene.only_hive_4:
            return
        trino = self._rows("trino", found, write_ids, txns)
        if trino is not None and trino not in allowed:
            self.world.fail(f"Trino reads {trino}, not one of {sorted(allowed)}: {_told(found)}")

    def _look_with_those_who_stay(self) -> None:
        """Whoever stays with its snapshot reads what it read at first."""
        for txn_id, (write_ids, txns, wanted) in self.lingering.items():
            if self.world.server.txns[txn_id].state is not TxnState.OPEN:
                continue
            try:
                rows = self.hive4_rows(write_ids, txns)
            except readers.NoHistoryError as error:
                self.world.fail(f"reader {txn_id} of Hive 4 has not enough history: {error}")
                return
            if rows != wanted:
                self.world.fail(
                    f"reader {txn_id} of Hive 4 read {wanted}, and now {rows}: {write_ids.text()}"
                )

    def _rows(
        self, who: str, found: Everywhere, write_ids: ValidWriteIdList, txns: ValidTxnList
    ) -> tuple[Any, ...] | None:
        rows = []
        for p, names in found:
            try:
                choice = (
                    readers.hive_choice(names, write_ids, txns)
                    if who == "hive"
                    else readers.trino_choice(names, write_ids)
                )
            except readers.NoHistoryError:
                if not self.is_clean and any(
                    isinstance(n, BaseName) and not write_ids.is_visible(n.write_id)
                    for n in self.names_on_disk(p)
                ):
                    return None  # an overwrite is under way, or died: see docs/engines.md
                self.world.fail(f"Trino cannot read: {_told(found)}")
                return None
            except HiveAcidError as error:
                self.world.fail(f"{who} cannot read: {error}: {_told(found)}")
                return None
            asked = write_ids if who == "hive" else None
            rows += [
                row for row, _ in readers.rows_of(self.world.disk, self.place(p), p, choice, asked)
            ]
        return tuple(sorted(rows))

    def removal(self, path: str) -> None:
        for part in path.split("/")[3:]:
            if part.startswith("p="):
                continue
            self._check_removal(self.actor, part, path)
            return

    def _check_removal(self, speaker: Actor, part: str, path: str) -> None:  # noqa: C901
        server, owners = self.world.server, self.world.owners
        name = parse_directory_name(part)
        if any(path.startswith(s) for s in self.strangers) and self.world.calm is None:
            self.world.fail(f"{speaker} removes {path}, which it has not made")
        if name is not None:
            low = name.high if isinstance(name, DeltaName) else name.write_id
            for txn_id, write_id in server.write_ids.get(REF, {}).items():
                is_open = server.txns[txn_id].state is TxnState.OPEN
                if write_id == low and is_open and owners.get(txn_id) is not speaker:
                    self.world.fail(f"{speaker} removes {path} of open transaction {txn_id}")
            if name.visibility_txn_id:
                self._check_owner(speaker, name.visibility_txn_id, path)
        elif part.startswith(STAGING_PREFIX):
            number = part.removeprefix(STAGING_PREFIX).partition("-")[0]
            if number.isdigit():
                self._check_owner(speaker, TxnId(int(number)), path)
        elif part == "_hiveacid":
            self._check_ledger(speaker, path)
        else:
            self.world.fail(f"{speaker} removes {path}, which is nobody's business")

    def _check_owner(self, speaker: Actor, txn_id: TxnId, path: str) -> None:
        txn = self.world.server.txns.get(txn_id)
        owner = self.world.owners.get(txn_id)
        if txn is not None and txn.state is TxnState.OPEN and owner is not speaker:
            self.world.fail(f"{speaker} removes {path} of open transaction {txn_id}")

    def _check_ledger(self, speaker: Actor, path: str) -> None:
        fields = path.rpartition("/")[2].split(".")
        if len(fields) != 6:
            return
        txn = self.world.server.txns[TxnId(int(fields[3]))]
        is_own = self.world.owners[txn.txn_id] is speaker and txn.state is TxnState.OPEN
        if txn.state is not TxnState.ABORTED and not is_own:
            self.world.fail(f"{speaker} removes {path}, whose transaction is {txn.state}")


def _told(found: Everywhere) -> str:
    return "; ".join(f"{p}: {' '.join(n for n, _, _ in names)}" for p, names in found)
