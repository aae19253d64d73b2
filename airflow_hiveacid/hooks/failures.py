"""Which errors end a wait or a task at once, and how long the others may go on.

Typed errors reach Airflow as themselves, never as AirflowFailException: a retry policy is not asked
about that one, and `soft_fail` makes a skip of it, so that wrong settings would look like a quiet
table. The retry policy (`operators/retries.py`), the sensors and their trigger ask here.

Example:
    >>> from airflow_hiveacid.format.errors import StorageError
    >>> Outage(max_s=600).after(StorageError("busy"), now_s=5.0)
    Outage(max_s=600, since_s=5.0)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.errors import (
    ChangesGoneError,
    ClusterRefusedError,
    CorruptFileError,
    DanglingDeleteError,
    EarlierRunUnknownError,
    FeedError,
    FencedError,
    InputError,
    LocationPermissionError,
    MetastoreLoginError,
    MetastoreVersionError,
    UnsupportedFileError,
)

if TYPE_CHECKING:
    from airflow_hiveacid.format.errors import HiveAcidError

FINAL_ERRORS: Final[tuple[type[HiveAcidError], ...]] = (
    InputError,
    ChangesGoneError,
    ClusterRefusedError,
    EarlierRunUnknownError,
    FeedError,
    FencedError,
    MetastoreLoginError,
    MetastoreVersionError,
    LocationPermissionError,
    CorruptFileError,
    DanglingDeleteError,
    UnsupportedFileError,
)
"""After these the same again cannot help."""

DEFAULT_MAX_OUTAGE_S: Final = 900.0
"""A metastore's restart, or a name node's, with time to spare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """How long polls have failed in a row: one of them does not end a wait.

    `max_s` None means however long. `since_s` is the time of the first failure in seconds since
    1970, since it crosses processes; None while polls are answered.
    """

    max_s: float | None
    since_s: float | None = None

    def after(self, error: HiveAcidError, *, now_s: float) -> Outage:
        """The outage with one more failed poll.

        Raises:
            HiveAcidError: the error itself, when waiting cannot help or has lasted longer than
                `max_s`.
        """
        since_s = now_s if self.since_s is None else self.since_s
        has_lasted = self.max_s is not None and now_s - since_s > self.max_s
        if isinstance(error, FINAL_ERRORS) or has_lasted:
            raise error
        return replace(self, since_s=since_s)
