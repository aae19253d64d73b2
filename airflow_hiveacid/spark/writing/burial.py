"""What dead attempts of a job have published is removed before the job runs again.

Trino takes an aborted base for a real one, and a retry cannot wait for the cleaner. Takes entries
of the ledger, which say what aborted attempts were about to publish. Only what lies where the table
is now is removed: a table that was renamed takes its ledger along, and another one may be in its
old place. Where a store knows uploads, those that a dead attempt has left open go first: what comes
of one later would be a file to be cleaned, and in a base rows that Trino shows.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_hiveacid.format.errors import LocationPermissionError
from airflow_hiveacid.spark.writing.publish import all_staged, token_of
from airflow_hiveacid.storage.stores.filesystem import delete_directory
from airflow_hiveacid.storage.stores.locations import open_location, scheme_of
from airflow_hiveacid.storage.stores.open_uploads import give_up_all
from airflow_hiveacid.storage.stores.staging import Staging
from airflow_hiveacid.storage.stores.traits import publishes_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hiveacid.format.table import TableInfo
    from airflow_hiveacid.metastore.port import MetastorePort
    from airflow_hiveacid.plan.reruns import LedgerEntry
    from airflow_hiveacid.storage.stores.job_ledger import Ledger

log = logging.getLogger("hiveacid")


def bury(
    ledger: Ledger, client: MetastorePort, table: TableInfo, abandoned: Sequence[LedgerEntry]
) -> None:
    """Remove what these aborted attempts of a job have left, and their entries.

    Raises:
        StorageError: something cannot be removed.
    """
    if not abandoned:
        return
    places = {partition.location.rstrip("/") for partition in client.list_partitions(table)}
    for entry in abandoned:
        log.info("removing what aborted txn_id=%s of this job left", entry.txn_id)
        found = [d for d in entry.directories if d.rpartition("/")[0] in places]
        # First: what is open could be completed behind the removal, by a frozen attempt.
        with _permitted():
            _discard_staged(table, entry, found)
        for directory in found:
            with _permitted():
                give_up_all(directory)
            delete_directory(*open_location(directory))
        ledger.withdraw(entry)


def _discard_staged(table: TableInfo, entry: LedgerEntry, directories: Sequence[str]) -> None:
    """Remove an attempt's notes of uploads, and give up each by its name: who completes reads them.

    A list of uploads need not have them: MinIO has none of those below a directory.
    """
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
        # Whoever may write, but not list uploads, was not kept from a retry before.
        log.warning("uploads of a dead attempt are left to cleaning: %s", error)
