"""Calls of hdfs-native that end, also if a name node takes them and keeps silent.

Takes a call and how long it may last. It is made in a thread that is left behind where it lasts
longer: hdfs-native asks a name node without any bound, and nothing can wake it. So a signal is
heard, too, while a call lasts. A change that was left behind may still come to be; to whoever
called it has failed, as if the answer had been lost.

Example:
    >>> within(5.0, lambda: 2 + 2)
    4
"""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


def within(seconds: float, call: Callable[[], _T]) -> _T:
    """What a call gives, if that comes in time.

    Raises:
        TimeoutError: it did not.
        OSError: this process was forked from one that has made such calls.
        BaseException: what the call raised.
    """
    helper = _take()
    is_over = False
    try:
        helper.begin(call)
        is_over = helper.done.acquire(timeout=seconds)
    finally:
        if not is_over:  # in vain, or a signal's handler raised
            helper.is_left = True
    if not is_over:
        raise TimeoutError(
            errno.ETIMEDOUT,
            f"no answer in {seconds:g} s. The name node, or what is between, is silent; try again"
            " when it answers",
        )
    error, result = helper.error, helper.result
    helper.error = helper.result = None
    _idle.append(helper)
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return] # of this call


class _Helper:
    """A thread that makes one call after another, and is left alone with one that never ends."""

    def __init__(self) -> None:
        self._go, self.done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self.done.acquire()
        self._call: Callable[[], Any] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_left = False
        # It must not keep the process from ending.
        threading.Thread(target=self._serve, name="hdfs call", daemon=True).start()

    def begin(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._go.release()

    def _serve(self) -> None:
        while not self.is_left:
            self._go.acquire()
            call, self._call = self._call, None
            try:
                self.result = call() if call is not None else None
            except BaseException as error:  # noqa: BLE001 - it is raised where the call was wanted
                self.error = error
            del call
            self.done.release()


_idle: Final[list[_Helper]] = []
_is_used = False
_is_forked = False


def _take() -> _Helper:
    global _is_used  # noqa: PLW0603 - see `_after_fork`
    if _is_forked:
        # hdfs-native keeps connections to data nodes for whoever comes next: one that parent and
        # child both use would hang, or give one of them what the other has asked for.
        raise OSError(
            errno.ENOTSUP,
            "this process was forked from one that has called HDFS, and would share its"
            " connections; start it anew (multiprocessing's spawn), or fork before the first call",
        )
    _is_used = True
    try:
        return _idle.pop()
    except IndexError:
        return _Helper()


def _after_fork() -> None:
    global _is_forked  # noqa: PLW0603 - of the process, as what was inherited is
    _is_forked = _is_used
    _idle.clear()


os.register_at_fork(after_in_child=_after_fork)
