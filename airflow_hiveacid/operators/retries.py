"""When a failed task is worth trying again, and after how long: a ready-made retry policy.

Airflow's own `retries` still bounds the number; a retry never applies a change twice.

Example:
    >>> policy = hive_acid_retry_policy()
    >>> [rule.action.value for rule in policy.rules]
    ['retry', 'retry', 'retry', 'fail']
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    DanglingDeleteError,
    FencedError,
    InputError,
    LocationPermissionError,
    LockNotAcquiredError,
    MetastoreUnavailableError,
    MetastoreVersionError,
    TransactionAbortedError,
    UnsupportedFileError,
    WriteConflictError,
)

_LOCK_DELAY: Final = timedelta(minutes=5)
_CONFLICT_DELAY: Final = timedelta(seconds=15)
_SERVER_DELAY: Final = timedelta(minutes=1)


def hive_acid_retry_policy(
    *,
    lock_delay: timedelta = _LOCK_DELAY,
    conflict_delay: timedelta = _CONFLICT_DELAY,
    server_delay: timedelta = _SERVER_DELAY,
) -> ExceptionRetryPolicy:
    """A policy for `retry_policy=` of any operator of this package.

    Args:
        lock_delay: after a wait for locks that was given up: their holder needs time.
        conflict_delay: after losing against another writer, or a transaction that was reaped.
        server_delay: after a metastore that did not answer, or whose answer to commit was lost.
    """
    return ExceptionRetryPolicy(
        rules=[
            RetryRule(
                exception=LockNotAcquiredError,
                retry_delay=lock_delay,
                reason="another transaction holds the lock",
            ),
            RetryRule(
                exception=[WriteConflictError, TransactionAbortedError],
                retry_delay=conflict_delay,
                reason="the transaction was lost; nothing of it is visible",
            ),
            RetryRule(
                exception=[MetastoreUnavailableError, CommitStateUnknownError],
                retry_delay=server_delay,
                reason="the metastore did not answer",
            ),
            RetryRule(
                exception=[
                    InputError,
                    FencedError,
                    MetastoreVersionError,
                    LocationPermissionError,
                    CorruptFileError,
                    DanglingDeleteError,
                    UnsupportedFileError,
                ],
                action=RetryAction.FAIL,
                reason="the same again cannot help",
            ),
        ]
    )
