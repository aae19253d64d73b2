"""Errors that users may want to catch.

`HiveAcidError` is the base class of all errors of this provider. After a `RetryableError`, the
caller may repeat the request. After an `InputError`, a retry is useless; nothing was written. If
`error.retryable` is true for any other error, its cause or the outcome is unknown: a retry may
help, but only a retry of the same task, or under the same key, never applies a change twice.

Example:
    from airflow_hiveacid.errors import VersionGoneError
"""

from __future__ import annotations

from airflow_hiveacid.format import errors
from airflow_hiveacid.lazy_names import lazy_names

_HOMES = {
    errors.__name__: [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.HiveAcidError)
    ]
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
