"""When a failed task is worth trying again, and after how long: a ready-made retry policy.

Airflow's own `retries` still bounds the number; a retry never applies a change twice. Operators and
sensors have DEFAULT_RETRY_POLICY; `hive_acid_retry_policy()` adds delays by kind of error.

Example:
    >>> policy = hive_acid_retry_policy()
    >>> [rule.action.value for rule in policy.rules]
    ['retry', 'retry', 'retry', 'retry', 'retry', 'retry', 'fail']
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from airflow_hiveacid.format.errors import (
    CommitStateUnknownError,
    LocationNotFoundError,
    LockNotAcquiredError,
    MetastoreUnavailableError,
    RetryableError,
    SourceNotFoundError,
    TransactionAbortedError,
    WriteConflictError,
)
from airflow_hiveacid.hooks.failures import FINAL_ERRORS

_LOCK_DELAY: Final = timedelta(minutes=5)
_CONFLICT_DELAY: Final = timedelta(seconds=15)
_SERVER_DELAY: Final = timedelta(minutes=1)
_SOURCE_DELAY: Final = timedelta(minutes=5)


def hive_acid_retry_policy(
    *,
    lock_delay: timedelta | None = _LOCK_DELAY,
    conflict_delay: timedelta | None = _CONFLICT_DELAY,
    server_delay: timedelta | None = _SERVER_DELAY,
    source_delay: timedelta | None = _SOURCE_DELAY,
) -> ExceptionRetryPolicy:
    """A policy for `retry_policy=` of any operator or sensor of this package.

    A delay of None leaves it to the task's own `retry_delay`.

    Args:
        lock_delay: after a wait for locks that was given up: their holder needs time.
        conflict_delay: after losing against another writer, or a transaction that was reaped.
        server_delay: after a metastore that did not answer, or whose answer to commit was lost.
        source_delay: after a source that is not there (yet).
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
                exception=LocationNotFoundError,
                retry_delay=conflict_delay,
                reason="a directory was dropped or moved meanwhile",
            ),
            RetryRule(
                exception=SourceNotFoundError,
                retry_delay=source_delay,
                reason="the source may be late",
            ),
            RetryRule(
                exception=RetryableError,
                reason="what failed may pass; nothing of it is half done",
            ),
            RetryRule(
                exception=list(FINAL_ERRORS),
                action=RetryAction.FAIL,
                reason="the same again cannot help",
            ),
        ]
    )


DEFAULT_RETRY_POLICY: Final = hive_acid_retry_policy(
    lock_delay=None, conflict_delay=None, server_delay=None, source_delay=None
)
"""What every operator and sensor has unless it is given another: the delays are the task's own."""
