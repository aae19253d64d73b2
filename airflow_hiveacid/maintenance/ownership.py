"""The check that a table's directory is its own, before maintenance removes or replaces files.

Two tables may have one directory: two definitions in one metastore, or the same table in a
metastore that was restored from a dump of another one. Each then regards the other's files as
obsolete or aborted. So a note in the directory names its owner (`table_notes`), and the metastore
must know the writes whose IDs are in the names of the table's directories.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from airflow_hiveacid.format.errors import (
    CorruptFileError,
    LocationPermissionError,
    OtherOwnerError,
    TableNotFoundError,
    UnsupportedTableError,
)
from airflow_hiveacid.format.names import BaseName, parse_directory_name
from airflow_hiveacid.format.records.commits import CommitNote
from airflow_hiveacid.format.records.maintenance import Owner
from airflow_hiveacid.format.snapshot import ValidTxnList, ValidWriteIdList
from airflow_hiveacid.format.state.acid_state import AcidState
from airflow_hiveacid.format.state.directories import Listing
from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.maintenance.neighbours import Neighbours
from airflow_hiveacid.metastore.port import MetastorePort
from airflow_hiveacid.storage.stores.filesystem import exists
from airflow_hiveacid.storage.stores.locations import identities, open_location
from airflow_hiveacid.storage.stores.notes.table_notes import note_owner, noted_owner, owner_uri

log = logging.getLogger("hiveacid")

_RESTORED: Final = (
    "If this metastore was restored from a backup, restore the table's files to the same time, or"
    " move the named directory away"
)


def check_owner(
    client: MetastorePort, table: TableInfo, neighbours: Neighbours, *, plan_only: bool = False
) -> None:
    """Check that a table owns its directory; note this, unless the job only plans.

    Raises:
        OtherOwnerError: another table, or the table of another metastore, has the directory.
    """
    mine, noted = _owner(client, table), noted_owner(table.location)
    if noted is not None:
        _require_metastore(table, noted, mine.metastore)
        if noted == mine:
            return
        if noted.table != table.ref and _is_there(client, noted, table.location):
            raise OtherOwnerError(
                table=table.ref,
                location=table.location,
                why=f"{owner_uri(table.location)} says that it belongs to table {noted.table}",
            )
    locations = [partition.location for partition in client.list_partitions(table)]
    why = neighbours.why_shared(client, table, locations)
    if why is not None:
        raise OtherOwnerError(table=table.ref, location=table.location, why=why)
    # A note must not create the directory of a table that was dropped meanwhile.
    if not plan_only and exists(*open_location(table.location)):
        try:
            note_owner(table.location, mine)
        except LocationPermissionError as error:  # the next job looks for other tables again
            log.debug("cannot note the owner of table=%s: %s", table.ref, error)


def check_metastore(client: MetastorePort, table: TableInfo) -> None:
    """Check that no note says that a table's directory belongs to another metastore.

    A writer calls this before it removes files of an aborted transaction. In another metastore, the
    transaction with this ID may be committed.
    """
    noted = noted_owner(table.location)
    if noted is not None:
        _require_metastore(table, noted, client.metastore_id)


def take_ownership(client: MetastorePort, table: TableInfo) -> Owner | None:
    """Note that a table owns its directory, whatever the note says; return the earlier owner."""
    try:
        earlier_owner = noted_owner(table.location)
    except CorruptFileError:
        earlier_owner = None
    note_owner(table.location, _owner(client, table))
    return earlier_owner


def check_known_writes(
    client: MetastorePort,
    table: TableInfo,
    listing: Listing,
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
) -> None:
    """Check that this metastore has allocated the IDs in the names of a table's directories.

    IDs that are later than those of `write_ids` and `txns` are looked up.

    Raises:
        OtherOwnerError: another metastore has allocated an ID.
    """
    directories = {directory.partition("/")[0] for directory in listing.directories}
    names = [name for name in map(parse_directory_name, sorted(directories)) if name is not None]
    late = [name for name in names if name.high > write_ids.high_watermark]
    hidden = [name for name in names if (name.visibility_txn_id or 0) > txns.high_watermark]
    allocated = ""
    if late:
        last = client.max_write_id(table.ref)
        late = [name for name in late if name.high > last]
        allocated = f"write IDs of the table only up to {last}"
    if hidden and not late:
        newest = client.valid_txns().high_watermark
        late = [name for name in hidden if (name.visibility_txn_id or 0) > newest]
        allocated = f"transactions only up to {newest}"
    if late:
        raise OtherOwnerError(
            table=table.ref,
            location=listing.location,
            why=f"{late[0]} is newer than this metastore, which has allocated {allocated}. Another"
            " metastore has written it, or this one was restored from an older backup",
            remedy=_RESTORED,
        )


def check_aborted(table: TableInfo, state: AcidState, commits: Iterable[CommitNote]) -> None:
    """Check that no note says that a write was committed which this metastore lists as aborted.

    Raises:
        OtherOwnerError: there is such a note, so another metastore has committed the write.
    """
    for directory in state.aborted:
        name = directory.name
        if name.visibility_txn_id is not None:
            continue  # the result of an aborted compaction of committed writes
        low = name.high if isinstance(name, BaseName) else name.low
        for note in commits:
            if low <= note.write_id <= directory.high:
                raise OtherOwnerError(
                    table=table.ref,
                    location=state.location,
                    why=f"a note says that transaction {note.txn_id} committed {directory.text},"
                    " but this metastore lists that write as aborted, so another one committed it",
                    remedy=_RESTORED,
                )


def _owner(client: MetastorePort, table: TableInfo) -> Owner:
    return Owner(
        metastore=client.metastore_id, table=table.ref, table_id=table.table_id, is_checked=True
    )


def _require_metastore(table: TableInfo, noted: Owner, metastore: str) -> None:
    if noted.metastore != metastore:
        raise OtherOwnerError(
            table=table.ref,
            location=table.location,
            why=f"{owner_uri(table.location)} says that it belongs to {noted}, and this is the"
            f" metastore {metastore}",
        )


def _is_there(client: MetastorePort, owner: Owner, location: str) -> bool:
    try:
        table = client.get_table(owner.table)
    except (TableNotFoundError, UnsupportedTableError):  # a view may have the name by now
        return False
    return identities(table.location)[0] == identities(location)[0]
