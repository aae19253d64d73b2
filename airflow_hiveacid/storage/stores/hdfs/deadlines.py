"""Limit the time of hdfs-native's calls, because a name node may never answer.

hdfs-native waits indefinitely and cannot be interrupted, so a thread makes the call, and the caller
abandons it at the limit. Meanwhile, this process handles signals. A timed-out call may still take
effect on the name node, so treat it like a call whose answer was lost.

Example:
    >>> within(5.0, lambda: 2 + 2)
    4
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar

_T = TypeVar("_T")


def within(seconds: float, call: Callable[[], _T]) -> _T:
    """Make a call in a different thread, and return the result if the call ends in time.

    Raises TimeoutError after that, and OSError if the parent process had already called hdfs-native
    before the fork.
    """
    helper = _take()
    is_over = False
    try:
        helper.begin(call)
        is_over = helper.done.acquire(timeout=seconds)
    finally:
        if not is_over:  # the call timed out, or a signal handler raised an exception
            helper.is_left = True
            _abandoned.add(helper)
    if not is_over:
        raise TimeoutError(
            errno.ETIMEDOUT,
            f"no answer in {seconds:g} s. The name node or the network to it does not respond;"
            " try again later",
        )
    error, result = helper.error, helper.result
    helper.error = helper.result = None
    _idle.append(helper)
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return] # of this call


class _Helper:
    """A thread that makes one call after another; it is abandoned if a call never ends."""

    def __init__(self) -> None:
        # Locks as signals: the caller releases `_go` to begin a call, the thread `done` at its end.
        self._go, self.done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self.done.acquire()
        self._call: Callable[[], Any] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_left = False
        # A daemon thread does not prevent the process from exiting.
        self.thread = threading.Thread(target=self._serve, name="hdfs call", daemon=True)
        self.thread.start()

    def begin(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._go.release()

    def _serve(self) -> None:
        while not self.is_left:
            self._go.acquire()
            call, self._call = self._call, None
            try:
                self.result = call() if call is not None else None
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
                self.error = error
            del call
            self.done.release()


_idle: Final[list[_Helper]] = []
_abandoned: Final[weakref.WeakSet[_Helper]] = weakref.WeakSet()
_is_used = False
_is_forked = False


def _take() -> _Helper:
    global _is_used  # noqa: PLW0603 - see `_after_fork`
    if _is_forked:
        # hdfs-native pools connections to data nodes. If a parent and a child process share a
        # connection, a call hangs, or a process gets the answer to the other process's call.
        raise OSError(
            errno.ENOTSUP,
            "this process was forked from a process that has called HDFS, and would share its"
            " connections; start a new process (multiprocessing's spawn), or fork before its first"
            " call",
        )
    _is_used = True
    try:
        return _idle.pop()
    except IndexError:
        return _Helper()


def _after_fork() -> None:
    global _is_forked  # noqa: PLW0603 - the process has one state, like its connections
    _is_forked = _is_used
    _idle.clear()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _stop_left_calls() -> None:
    """Stop the threads of abandoned calls, because the interpreter is about to end.

    Before Python 3.14, the interpreter unwinds the stack of a daemon thread. If an abandoned call
    ends just then, Rust's frames are on it, and glibc aborts the process ("exception not
    rethrown"), although all work was done. So a signal stops the thread: its handler waits
    indefinitely.
    """
    running = [helper.thread for helper in _abandoned if helper.thread.is_alive()]
    if not running or sys.version_info >= (3, 14):
        return
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal(signal.SIGRTMAX, ctypes.cast(libc.pause, ctypes.c_void_p))
    for thread in running:
        if thread.ident is not None:
            signal.pthread_kill(thread.ident, signal.SIGRTMAX)
