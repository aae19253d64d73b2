"""A retry policy that decides by the type of error whether and when Airflow retries a task.

Airflow's own `retries` still limits the number of tries. A retry never applies a change twice.
Operators and sensors use DEFAULT_RETRY_POLICY by default. `hive_acid_retry_policy()` adds delays
that depend on the error.

Example:
    >>> policy = hive_acid_retry_policy()
    >>> policy.rules[0].action.value, policy.rules[-1].action.value
    ('retry', 'fail')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from typing import Any, Final

from airflow_hiveacid.airflow_names import (
    HAS_RETRY_POLICIES,
    AirflowFailException,
    ExceptionRetryPolicy,
    RetryAction,
    RetryPolicy,
    RetryRule,
)
from airflow_hiveacid.format import errors

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
    """Return a policy for `retry_policy=` of any operator or sensor of this package.

    If a delay is None, the task's own `retry_delay` is used.

    Args:
        lock_delay: the delay if the task did not get its locks in time. During the delay, the
            transaction that holds the locks can end.
        conflict_delay: the delay after a conflict with a different writer, or after the task's
            transaction was aborted.
        server_delay: the delay if the metastore did not answer, or if its answer to a commit was
            lost.
        source_delay: the delay if the source is missing, because the source may appear later.
    """
    return ExceptionRetryPolicy(
        rules=[
            RetryRule(
                exception=errors.LockNotAcquiredError,
                retry_delay=lock_delay,
                reason="another transaction holds the lock",
            ),
            RetryRule(
                exception=[errors.WriteConflictError, errors.TransactionAbortedError],
                retry_delay=conflict_delay,
                reason="the transaction was aborted; none of its changes are visible",
            ),
            RetryRule(
                exception=[errors.MetastoreUnavailableError, errors.CommitStateUnknownError],
                retry_delay=server_delay,
                reason="the metastore did not answer",
            ),
            RetryRule(
                exception=errors.LocationNotFoundError,
                retry_delay=conflict_delay,
                reason="a directory was dropped or moved meanwhile",
            ),
            RetryRule(
                exception=errors.SourceNotFoundError,
                retry_delay=source_delay,
                reason="the source may be late",
            ),
            RetryRule(
                exception=errors.RetryableError,
                reason="the failure may be temporary; no partial change was committed",
            ),
            *_rules_by_class(),
        ]
    )


def _rules_by_class() -> list[RetryRule]:
    """Return a rule for each class whose `retryable` differs from that of the class above.

    Airflow takes the first rule that matches, so a class comes before the classes above it.
    """
    rules = [
        RetryRule(
            exception=cls,
            action=RetryAction.DEFAULT if cls.retryable else RetryAction.FAIL,
            reason="its cause is unknown" if cls.retryable else "a retry would fail, too",
        )
        for cls in errors.subclasses(errors.HiveAcidError)
        if "retryable" in vars(cls) and cls is not errors.RetryableError
    ]
    return rules[::-1]


DEFAULT_RETRY_POLICY: Final = hive_acid_retry_policy(
    lock_delay=None, conflict_delay=None, server_delay=None, source_delay=None
)


class PolicyRetries:
    """Applies an operator's retry policy where Airflow does not; a mixin for operators.

    Below Airflow 3.3, a task whose policy decides to fail raises AirflowFailException, so Airflow
    does not retry it. The delays of a policy have no effect there.
    """

    _is_policy_applied = HAS_RETRY_POLICIES
    """True if Airflow, or a method that has called the current one, applies the policy."""

    def __init__(self, *, retry_policy: RetryPolicy | None, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        if HAS_RETRY_POLICIES:
            kwargs["retry_policy"] = retry_policy
        super().__init__(**kwargs)
        self.retry_policy = retry_policy

    def __init_subclass__(cls, **kwargs: Any) -> None:  # noqa: ANN401 - passed on
        """Let `execute` apply the policy, below Airflow 3.3."""
        super().__init_subclass__(**kwargs)
        if not HAS_RETRY_POLICIES and "execute" in vars(cls):
            cls.execute = _with_policy(vars(cls)["execute"])  # type: ignore[attr-defined]  # of Airflow's operator

    def resume_execution(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
        """Go on after a deferral, as Airflow's operators do."""
        with self.applied_policy():
            return super().resume_execution(*args, **kwargs)  # type: ignore[misc]  # of Airflow's operator

    @contextmanager
    def applied_policy(self) -> Iterator[None]:
        """Replace an error that the policy does not retry, unless Airflow applies the policy."""
        if self._is_policy_applied or self.retry_policy is None:
            yield
            return
        self._is_policy_applied = True
        try:
            yield
        except Exception as error:
            if self.retry_policy.evaluate(error, 0, 0).action is RetryAction.FAIL:
                text = "\n".join((str(error), *getattr(error, "__notes__", ())))
                raise AirflowFailException(text) from error
            raise
        finally:
            self._is_policy_applied = False


def _with_policy(execute: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(execute)
    def run(self: PolicyRetries, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
        with self.applied_policy():
            return execute(self, *args, **kwargs)

    return run
