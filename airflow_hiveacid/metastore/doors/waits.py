"""Work that nothing can interrupt, with an end: a library that asks a KDC, or a name server.

Takes a function and how long it may last. It runs in a thread that is left behind where it lasts
longer.

Example:
    >>> bounded(lambda: 2 + 2, timeout_s=5.0, name="a sum")
    4
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


def bounded(work: Callable[[], _T], *, timeout_s: float, name: str) -> _T:
    """What the work gives; `name` is that of its thread.

    Raises:
        TimeoutError: it takes longer.
        BaseException: what the work raised.
    """
    answers: queue.SimpleQueue[tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - edge of a thread: the caller gets it
            answers.put((None, error))

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        answer, error = answers.get(timeout=timeout_s)
    except queue.Empty:
        raise TimeoutError(f"no answer within {timeout_s:g} s") from None
    if error is not None:
        raise error
    return cast("_T", answer)
