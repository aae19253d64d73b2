"""Threads for the polls of triggers: a few for each server, never shared between servers.

The event loop has only a few threads of its own, which serve every trigger of the triggerer. Polls
of a server that does not answer would occupy all of them, and every other trigger would wait. With
this module, such polls occupy only the threads of their server.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

from airflow_hiveacid.format.errors import MetastoreUnavailableError
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint

if TYPE_CHECKING:
    from airflow_hiveacid.metastore.client import MetastoreClient

LONGEST_POLL_S: Final = 600.0
"""The time limit of a poll. Listing ten thousand partitions in an object store takes a minute."""
_POLLS_AT_ONCE: Final = 4
"""The maximum number of concurrent polls of a server; each may list directories in parallel."""

_T = TypeVar("_T")
_pools: dict[tuple[str, ...], ThreadPoolExecutor] = {}
_pools_lock: Final = Lock()
_admitted: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[tuple[str, ...], asyncio.Semaphore]
] = WeakKeyDictionary()


async def in_thread_of(server: tuple[str, ...], work: Callable[[], _T]) -> _T:
    """Wait for a free thread for this server, call `work` in the thread, and return the result.

    Log lines of `work` appear in the log of the calling trigger.
    """
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    async with _free_threads(loop, server):
        return await loop.run_in_executor(_pool_of(server), lambda: context.run(work))


async def poll_in_thread(
    endpoint: MetastoreEndpoint, look: Callable[[], _T], *, longest_s: float = LONGEST_POLL_S
) -> _T:
    """Wait for a free thread for this metastore, call `look` in the thread, and return the result.

    Raises MetastoreUnavailableError if `look` did not end within `longest_s`, including the wait. A
    running poll occupies its thread until the poll ends.
    """
    # Not asyncio.wait_for: in Python 3.11, it loses a cancellation that arrives together with the
    # result. The trigger would go on polling after Airflow has cancelled it.
    limit = asyncio.timeout(longest_s)
    try:
        async with limit:
            return await in_thread_of(endpoint.uris, look)
    except TimeoutError as error:
        if not limit.expired():
            raise  # `look` raised it
        raise MetastoreUnavailableError(
            uris=endpoint.uris,
            method="a poll of the table",
            reason=f"it did not end within {longest_s:g} s: the metastore or the table's store is"
            " slow or does not respond",
        ) from error


async def poll_metastore(endpoint: MetastoreEndpoint, look: Callable[[MetastoreClient], _T]) -> _T:
    """Call `look` with a client of this metastore as by `poll_in_thread`, and return the result."""

    def connected() -> _T:
        # Importing Thrift in the event loop would block every trigger for longer than Airflow
        # tolerates.
        from airflow_hiveacid.metastore.client import connect  # noqa: PLC0415 - as above

        with connect(endpoint) as client:
            return look(client)

    return await poll_in_thread(endpoint, connected)


def _free_threads(loop: asyncio.AbstractEventLoop, server: tuple[str, ...]) -> asyncio.Semaphore:
    """Return the semaphore that admits as many calls as the server has threads.

    Each call that enters the queue of a pool may lose Python's interpreter lock to the pool's busy
    threads for some milliseconds. Hundreds of tables measured after one poll would block the event
    loop for longer than Airflow tolerates, so they wait here, where waiting costs nothing.
    """
    return _admitted.setdefault(loop, {}).setdefault(server, asyncio.Semaphore(_POLLS_AT_ONCE))


def _pool_of(server: tuple[str, ...]) -> ThreadPoolExecutor:
    with _pools_lock:
        if server not in _pools:
            _pools[server] = ThreadPoolExecutor(_POLLS_AT_ONCE, thread_name_prefix="hiveacid-poll")
        return _pools[server]
