"""Cleanup before a job reruns: removal of directories that its aborted attempts have published.

Trino reads an aborted base as committed, so a retry cannot wait for the cleaner. Ledger entries
record what an attempt was about to publish. Only directories at the table's current locations are
removed: a different table may now be at an old one. Open uploads are aborted first.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from airflow_hiveacid.format.errors import LocationPermissionError
from airflow_hiveacid.format.names import parse_directory_name
from airflow_hiveacid.format.records.ledger import LedgerEntry
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.maintenance.ownership import check_outside
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.stores.filesystem import delete_directory
from airflow_hiveacid.storage.stores.listing import give_up_all
from airflow_hiveacid.storage.stores.locations import open_location, publishes_files, scheme_of
from airflow_hiveacid.storage.stores.notes.job_ledger import Ledger
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.writing.publish import all_staged, token_of

log = logging.getLogger("hiveacid")


def remove_abandoned(
    ledger: Ledger, client: MetastorePort, table: TableInfo, abandoned: Sequence[LedgerEntry]
) -> None:
    """Remove the directories of these aborted attempts of a job, and their ledger entries."""
    if not abandoned:
        return
    locations = {partition.location.rstrip("/") for partition in client.list_partitions(table)}
    for entry in abandoned:
        log.info("removing files of this job's aborted txn_id=%s", entry.txn_id)
        directories = [d for d in entry.directories if _is_of(entry, d, locations)]
        check_outside(client, table, {d.rpartition("/")[0] for d in directories})
        # Uploads first: a stalled attempt could complete one after the removal.
        with _permitted():
            _discard_staged(table, entry, directories)
        for directory in directories:
            with _permitted():
                give_up_all(directory)
            delete_directory(*open_location(directory))
        ledger.withdraw(entry)


def _is_of(entry: LedgerEntry, directory: str, locations: Collection[str]) -> bool:
    """Return whether an attempt can have published a directory, which is in the table's own."""
    location, _, name = directory.rpartition("/")
    parsed = parse_directory_name(name)
    low = getattr(parsed, "low", entry.write_id)
    return location in locations and parsed is not None and low == parsed.high == entry.write_id


def _discard_staged(table: TableInfo, entry: LedgerEntry, directories: Sequence[str]) -> None:
    """Abort the uploads that an attempt noted, and remove the notes; MinIO's list is incomplete."""
    token = token_of(entry.txn_id, entry.attempt)
    uploaded = [d for d in directories if publishes_files(scheme_of(d))]
    for top in {Staging.of(table, d.rpartition("/")[0], token).top for d in uploaded}:
        for staged in all_staged(top):
            delete_directory(*open_location(staged))


@contextmanager
def _permitted() -> Iterator[None]:
    try:
        yield
    except LocationPermissionError as error:
        # The user of a retry may lack the permission to list uploads. The retry continues.
        log.warning("cannot abort an ended attempt's uploads; cleaning will abort them: %s", error)
