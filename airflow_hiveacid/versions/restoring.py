"""Find the partitions of a table that a restore to a version may have to change.

Refuses a version whose files may be incomplete. Must not read rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from airflow_hiveacid.format.acid_state import AcidState, resolve
from airflow_hiveacid.format.change_range import ChangeRange
from airflow_hiveacid.format.snapshot import Snapshot
from airflow_hiveacid.format.table import PartitionInfo, TableInfo
from airflow_hiveacid.format.versions import VersionSpec
from airflow_hiveacid.metastore.port import MetastorePort, snapshot_now
from airflow_hiveacid.metastore.server_time import server_now
from airflow_hiveacid.plan.restoring import may_differ
from airflow_hiveacid.storage.stores.conversion_note import list_in_place
from airflow_hiveacid.versions.past import Past, past_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """A root that may have changed, with its current state and its state in the version."""

    info: PartitionInfo
    now: AcidState
    then: AcidState

    @property
    def had_no_files(self) -> bool:
        """True if the root had no files in the version.

        Only notes of its writes show whether it was made later, or dropped and made again; other
        engines write no notes.
        """
        return not self.then.live and not self.then.originals


def range_since(past: Past) -> ChangeRange:
    """Return the range of the writes that committed after a version."""
    return ChangeRange(since=past.then, until=past.now)


def differing_roots(
    client: MetastorePort,
    table: TableInfo,
    version: VersionSpec,
    snapshot: Snapshot,
    *,
    taken_s: Callable[[], float | None],
) -> tuple[Past, tuple[Differing, ...]]:
    """Return the table as of the version, and the roots that may have changed since."""
    past = past_of(client, table, version, snapshot, taken_s=taken_s)
    roots = client.list_partitions(table)
    if table.is_partitioned:
        past.check_vanished([info.name for info in roots])
    listings = list_in_place(table, roots)
    old_states = past.states(roots, listings)
    states = [resolve(listing, past.now, past.txns, table.kind) for listing in listings]
    part = range_since(past)
    return past, tuple(
        Differing(info=info, now=state, then=old_state)
        for info, state, old_state in zip(roots, states, old_states, strict=True)
        if may_differ(state, part)
    )


def differing_now(
    client: MetastorePort, table: TableInfo, version: VersionSpec
) -> tuple[Differing, ...]:
    """Return the roots that may have changed since a version; no open transaction is needed."""
    # Read the clock before taking the snapshot: `taken_s` must be a time before the snapshot.
    taken_s = None if version.number is not None else server_now(client)
    snapshot = snapshot_now(client, [table.ref])
    return differing_roots(client, table, version, snapshot, taken_s=lambda: taken_s)[1]


def warn_of_new(table: TableInfo, version: VersionSpec, roots: Iterable[Differing]) -> None:
    """Log, before a restore writes, which partitions it empties because they had no files."""
    for root in roots:
        if root.had_no_files:
            _log.warning(
                "the restore empties a partition that had no files at the version. If the partition"
                " was dropped after that version and created again, its earlier rows are lost"
                " table=%s partition=%s version=%s",
                table.ref,
                root.info.name,
                version,
            )
