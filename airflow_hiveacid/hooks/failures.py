"""How a typed error is raised so that Airflow does the right thing about retries.

Airflow retries a task after every exception but AirflowFailException, so that class stands for "the
same again cannot help".
"""

from __future__ import annotations

from typing import NoReturn

from airflow.sdk.exceptions import AirflowFailException

from airflow_hiveacid.format.errors import FencedError, HiveAcidError, InputError


def raise_for_airflow(error: HiveAcidError) -> NoReturn:
    """Raise an error as itself, or wrapped when trying again cannot help.

    Raises:
        AirflowFailException: refused input; or a newer copy of this task, which a retry would
            fence. The typed error is its cause.
        HiveAcidError: everything else, as itself. Running a task again is always safe.
    """
    if isinstance(error, InputError | FencedError):
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error
    raise error
