"""The errors of the demonstration, except for errors of its servers and the table.

```
DemoError
├── SetupError          something that `make setup` installs is missing
├── AirflowServerError  Airflow did not start, or one of its commands failed
├── AirflowApiError     Airflow's server refused a call
└── DemoRunError        a run failed, made no progress for too long, or left wrong rows
```
"""

from __future__ import annotations

from http import HTTPStatus


class DemoError(Exception):
    """The demonstration cannot continue; the message says where to find the cause."""


class SetupError(DemoError):
    """A program that `make setup` installs is missing; the message names it."""


class AirflowServerError(DemoError):
    """Airflow did not start, or an `airflow` command failed; the message ends with its output."""


class AirflowApiError(DemoError):
    """Airflow's server refused a call.

    Args:
        call: Method and path.
        status: The HTTP status; None if the response was missing or malformed.
        answer: The body of the response.
    """

    def __init__(self, call: str, status: int | None, answer: str) -> None:
        super().__init__(f"{call} answered {status or ''}: {answer[:500]}")
        self.status = status

    @property
    def is_passing(self) -> bool:
        """True if the server failed, so the same call may succeed later."""
        return self.status is None or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


class DemoRunError(DemoError):
    """The demonstration did not reach its expected end."""
