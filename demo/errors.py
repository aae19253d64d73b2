"""Knows what can go wrong in the demonstration, beside its servers and the table.

```
DemoError
├── SetupError          something that `make setup` installs is missing
├── AirflowServerError  Airflow did not start, or a command of it failed
├── AirflowApiError     Airflow's page refused a call
└── StoryError          a run failed, nothing moved for too long, or the table is not the truth
```
"""

from __future__ import annotations

from http import HTTPStatus


class DemoError(Exception):
    """The demonstration cannot go on; the message says where to look."""


class SetupError(DemoError):
    """Something that `make setup` installs is missing; the message says what."""


class AirflowServerError(DemoError):
    """Airflow did not start, or a command of it failed; the message ends with its output."""


class AirflowApiError(DemoError):
    """Airflow's page refused a call.

    Args:
        call: Method and path.
        status: The HTTP status, None where nothing answered, or in a wrong form.
        answer: What it said.
    """

    def __init__(self, call: str, status: int | None, answer: str) -> None:
        super().__init__(f"{call} answered {status or ''}: {answer[:500]}")
        self.status = status

    @property
    def is_passing(self) -> bool:
        """Whether the page itself had failed, so that the same call may succeed later."""
        return self.status is None or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


class StoryError(DemoError):
    """The demonstration did not end as it must."""
