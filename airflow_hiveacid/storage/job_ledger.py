"""Which jobs have changed a table, so that a job that runs again does not do it twice.

One small file per job in `<table location>/_hiveacid/`; directory and file names begin with an
underscore, so no reader minds them. An entry is written as prepared before the commit and confirmed
after it. Takes job keys and a snapshot's write IDs; gives the entry of a job that is done. What a
result means is not known here: it is text.

Why a prepared entry is not believed by itself: the metastore forgets aborted write IDs once their
directories are cleaned, and then they look committed. See docs/adr/0003.

Example:
    >>> ledger_name("dag/run/task/-1")
    '_68777a37417a417682d8dd4cf3b70225.json'
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import CommitStateUnknownError, CorruptFileError
from airflow_hiveacid.storage.filesystem import (
    delete_file,
    exists,
    list_files,
    open_location,
    read_bytes,
    write_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hiveacid.format.ids import TxnId, WriteId
    from airflow_hiveacid.format.snapshot import ValidWriteIdList

HIDDEN_DIRECTORY: Final = "_hiveacid"
"""Our own directory below a table's location."""

_VERSION: Final = 1


def ledger_name(job_key: str) -> str:
    """The file name of a job's entry: 128 bits of its key's SHA-256."""
    return f"_{hashlib.sha256(job_key.encode()).hexdigest()[:32]}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One job's change of one table.

    `directories` are the published directories' URIs. `result` is the job's result as JSON text.
    `recorded_s` is seconds since 1970.
    """

    job_key: str
    txn_id: TxnId
    write_id: WriteId
    directories: tuple[str, ...]
    result: str
    recorded_s: float
    is_confirmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger of one table, by the table's location."""

    location: str

    def done(self, job_key: str, write_ids: ValidWriteIdList) -> LedgerEntry | None:
        """The entry of a job whose change is committed; None when it has to be done.

        Raises:
            CommitStateUnknownError: the change may be committed, and nothing is left that tells.
            CorruptFileError: the entry is unreadable.
        """
        entry = self.read(job_key)
        if entry is None:
            return None
        if entry.is_confirmed:
            return entry
        if not write_ids.is_visible(entry.write_id):
            return None
        if any(exists(*open_location(d)) for d in entry.directories):
            return entry
        if not entry.directories:
            # It published nothing, so doing it again applies nothing twice.
            return None
        raise CommitStateUnknownError(
            txn_id=entry.txn_id,
            reason=f"{job_key} was about to commit write ID {entry.write_id}; its directories are"
            " gone: compacted after a commit, or cleaned after an abort. Look at the table, then"
            f" delete {self._uri(job_key)} to run the job, or keep its effect as it is",
        )

    def read(self, job_key: str) -> LedgerEntry | None:
        """The entry of a job, whatever became of it.

        Raises:
            CorruptFileError: it is unreadable, so nobody can say that the work is not done.
        """
        fs, path = open_location(self._uri(job_key))
        try:
            return _parse(read_bytes(fs, path), path)
        except FileNotFoundError:
            return None

    def write(self, entry: LedgerEntry) -> None:
        """Write an entry, replacing an earlier one of the job."""
        fs, path = open_location(self._uri(entry.job_key))
        write_bytes(fs, path, json.dumps({"version": _VERSION, **asdict(entry)}).encode())

    def withdraw(self, job_key: str) -> None:
        """Remove the entry of a job that is being aborted."""
        delete_file(*open_location(self._uri(job_key)))

    def older_than(self, limit_s: float) -> Iterator[str]:
        """The URIs of entries recorded before this second."""
        root = f"{self.location.rstrip('/')}/{HIDDEN_DIRECTORY}"
        fs, path = open_location(root)
        for file in list_files(fs, path):
            if (file.modified_s or limit_s) < limit_s:
                yield f"{root}/{file.name}"

    def _uri(self, job_key: str) -> str:
        return f"{self.location.rstrip('/')}/{HIDDEN_DIRECTORY}/{ledger_name(job_key)}"


def _parse(content: bytes, path: str) -> LedgerEntry:
    try:
        body = json.loads(content)
        if body.pop("version") != _VERSION:
            raise CorruptFileError(path=path, reason="a ledger entry of another version")
        body["directories"] = tuple(body["directories"])
        return LedgerEntry(**body)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(path=path, reason=f"not a ledger entry: {error!r}") from error
