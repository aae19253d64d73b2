"""Names that Airflow's minor versions keep in different modules, or lack.

The package imports these names from here, and all others from Airflow. docs/reference/versions.md
lists the supported versions and what a task lacks below Airflow 3.3. Each fallback goes when the
oldest supported version has the name.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from inspect import signature
from typing import Any, Final

from airflow_hiveacid.supported_versions import check_airflow

check_airflow()  # before Airflow is imported

from airflow.sdk import BaseOperator  # noqa: E402 - an old Airflow may lack it

try:
    from airflow.sdk import conf
except ImportError:  # 3.1
    from airflow.configuration import conf  # type: ignore[assignment]

try:
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferred,
    )
except ImportError:  # 3.1
    from airflow.exceptions import (  # type: ignore[attr-defined, no-redef]
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferred,
    )

try:
    from airflow.sdk.listener import get_listener_manager
except ImportError:  # 3.1
    from airflow.listeners.listener import get_listener_manager  # type: ignore[assignment]

try:
    from airflow.sdk.observability import stats

    if not hasattr(stats, "incr"):  # 3.2
        stats = stats.Stats  # type: ignore[assignment]
except ImportError:  # 3.1
    from airflow.stats import Stats as stats  # type: ignore[no-redef]  # noqa: N813 - the module's name since 3.3

COUNTS_EVERY_CLEAR: Final = not version("apache-airflow-core").startswith("3.1.")
"""Whether the `clear_number` of a DAG run also counts clears before the run has ended."""

HAS_RETRY_POLICIES: Final = "retry_policy" in signature(BaseOperator.__init__).parameters
"""Whether Airflow applies retry policies; below 3.3, operators apply theirs."""

if HAS_RETRY_POLICIES:
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryPolicy, RetryRule
else:  # 3.1, 3.2

    class RetryAction(enum.Enum):  # type: ignore[no-redef]
        """Whether a task is retried."""

        RETRY = "retry"
        FAIL = "fail"
        DEFAULT = "default"

    @dataclass(frozen=True)
    class RetryRule:  # type: ignore[no-redef]
        """The action for some classes of errors; Airflow below 3.3 ignores the delay."""

        exception: type[BaseException] | list[type[BaseException]]
        action: RetryAction = RetryAction.RETRY
        retry_delay: timedelta | None = None
        reason: str | None = None

        def matches(self, error: BaseException) -> bool:
            """Tell whether the rule applies to an error."""
            classes = self.exception if isinstance(self.exception, list) else [self.exception]
            return isinstance(error, tuple(classes))

    class RetryPolicy:  # type: ignore[no-redef]
        """A policy that finds an action for an error."""

        def evaluate(
            self,
            exception: BaseException,
            try_number: int,
            max_tries: int,
            context: Any = None,  # noqa: ANN401 - as in Airflow 3.3
        ) -> RetryRule:
            """Return the rule for an error."""
            raise NotImplementedError

    class ExceptionRetryPolicy(RetryPolicy):  # type: ignore[no-redef]
        """A policy whose first matching rule applies."""

        def __init__(
            self, rules: Sequence[RetryRule], default: RetryAction = RetryAction.DEFAULT
        ) -> None:
            self.rules, self.default = list(rules), default

        def evaluate(  # type: ignore[override]
            self,
            exception: BaseException,
            try_number: int,  # noqa: ARG002 - as in Airflow 3.3
            max_tries: int,  # noqa: ARG002
            context: Any = None,  # noqa: ANN401, ARG002
        ) -> RetryRule:
            """Return the first rule that matches, or one with the default action."""
            default = RetryRule(BaseException, self.default)
            return next((rule for rule in self.rules if rule.matches(exception)), default)


__all__ = [
    "COUNTS_EVERY_CLEAR",
    "HAS_RETRY_POLICIES",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "ExceptionRetryPolicy",
    "RetryAction",
    "RetryPolicy",
    "RetryRule",
    "TaskDeferred",
    "conf",
    "get_listener_manager",
    "stats",
]
