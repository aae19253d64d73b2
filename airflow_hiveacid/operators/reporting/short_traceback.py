"""A short traceback for our own errors, so that Airflow's log does not bury their sentence.

Our errors say what happened and what to do, so the frames below the operator help only developers.
They are logged at level DEBUG.

Example:
    >>> @with_short_traceback
    ... def execute():
    ...     raise HiveAcidError("no table") from OSError("errno 2")
    >>> try:
    ...     execute()
    ... except HiveAcidError as error:
    ...     print(error.__cause__, error.__traceback__.tb_next.tb_next)
    None None
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from airflow_hiveacid.format.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")

_log = logging.getLogger(__name__)


def with_short_traceback(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a method that Airflow calls: its own errors lose their frames and their cause."""

    @functools.wraps(method)
    def short(*given: _P.args, **named: _P.kwargs) -> _R:
        try:
            return method(*given, **named)
        except HiveAcidError as error:
            _log.debug("%s", error, exc_info=True)
            raise error.with_traceback(None) from None

    return short
